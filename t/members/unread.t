#!/usr/bin/perl

# Events that cannot be read, or are of other keys, among few or among many:
# their keys are listed, and nothing else is disturbed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Fake;
use Finish;
use Nginx;
use Protobuf;
use Upstream;
use Wait;

use constant {
    FROM  => 100,          # the revision of the list
    LISTS => 3,
};


# Watch's events = 11; of an event kv = 2

sub event {
    my ($key, $revision) = @_;

    my $kv = field(1, BYTES, $key) . field(2, VARINT, $revision)
             . field(3, VARINT, $revision) . field(4, VARINT, 1)
             . field(5, BYTES, '127.0.0.1:90');

    return field(11, BYTES, field(2, BYTES, $kv));
}


# all events but one, in whose place there is another

sub watch {
    my ($n, $which, $instead) = @_;

    my @events = map { event("/s/$_", FROM + $_) } 1 .. $n;

    $events[$which - 1] = $instead;

    return answer_header(FROM) . field(3, VARINT, 1) . join('', @events);
}


my $broken = field(11, BYTES, "\xff" x 8);

my %answers = (
    few_broken  => watch(3, 3, $broken),
    many_broken => watch(400, 300, $broken),
    few_else    => watch(3, 3, event('/t/1', FROM + 3)),
    many_else   => watch(400, 300, event('/t/1', FROM + 300)),
);
my @names = sort keys %answers;

my $nginx = Nginx->new();
my $etcd = Etcd->new()->start();
my %fake = map {
    ($_ => Fake->new()->start('ok', '--kv', '/s/1=127.0.0.1:80', '--answer',
                              'Watch=' . $nginx->write_file($_, $answers{$_})))
} @names;

my $clusters = join('', map { <<"EOC" } @names);
etcd $_ {
    endpoints @{[ $fake{$_}->endpoints ]};
}
EOC

my $upstreams = join('', map { <<"EOC" } @names);
    upstream $_ {
        etcd_members /s/ cluster=$_;
    }
EOC

$nginx->set(ETCD => $etcd->endpoints)->start(<<"EOC");

etcd {
    endpoints %%ETCD%%;
}

$clusters

http {
    upstream real {
        etcd_members /s/;
    }

$upstreams

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

my @workers = $nginx->workers;

for my $name (@names) {
    ok(wait_for(sub { $fake{$name}->count(qr/ range /) >= LISTS }, 30, $name),
       "$name: it is listed again");
    ok(wait_for(sub { $nginx->status->{upstreams}{$name}{members}[0] }, 10,
                $name), "$name: there is a member");
}

is($nginx->count_log(qr/"$_": the revision went back/), 0,
   "$_: it is not another history")
    for @names;
cmp_ok($nginx->count_log(qr/"$_": answers of watches were mixed up/), '>', 0,
       "$_: the log says so")
    for grep { /else/ } @names;
cmp_ok($nginx->count_log(qr/"many_broken".*events could not be read/), '>', 0,
       'many_broken: the log says so');
cmp_ok($nginx->count_log(qr/"few_broken".*message was not accepted/), '>', 0,
       'few_broken: the log says so');

$etcd->put('/s/1', '127.0.0.1:81');
Upstream->new($nginx, 'real')->shows({ '/s/1' => '127.0.0.1:81 1 up' },
                                     'another cluster is followed');
is_deeply([$nginx->workers], \@workers, 'by the same workers');

finish();
