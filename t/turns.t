#!/usr/bin/perl

# Messages of etcd as long as they may be: the event loop is not kept from its
# other work for long, whatever they have.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Fake;
use Finish;
use Nginx;
use Protobuf;
use Turn;
use Upstream;
use Wait;

use constant {
    FROM  => 100,
    LIMIT => 0.06,      # s of CPU time: reading a message of 15 MB is a turn
};

plan(skip_all => 'a sanitizer takes time of its own')
    if Nginx::built_with() =~ /-fsanitize/;

my $slower = $ENV{TEST_SLOWER} || 1;


# JSON of so many bytes, with many elements

sub value {
    my ($n, $bytes) = @_;

    my $begin = sprintf('{"address":"127.1.%d.%d:80","x":[0', $n / 256,
                        $n % 256);

    return $begin . ',0' x (($bytes - length($begin)) / 2) . ']}';
}


sub kv {
    my ($n, $revision, $bytes) = @_;

    return field(1, BYTES, "/s/$n") . field(2, VARINT, $revision)
           . field(3, VARINT, $revision) . field(4, VARINT, 1)
           . field(5, BYTES, value($n, $bytes));
}


# [NAME, METHOD, KEYS, BYTES, EVENTS_OF_ONE_REVISION]

for (
    ['many events',                'Watch', 40_000, 300],
    ['large events',               'Watch', 256, 60_000],
    ['large ones of one revision', 'Watch', 256, 60_000, 1],
    ['many keys',                  'Range', 8000, 1900],
    ['large keys',                 'Range', 256, 60_000],
)
{
    my ($name, $method, $keys, $bytes, $one) = @$_;

    my $watch = $method eq 'Watch';
    my $last = FROM + ($watch ? ($one ? 1 : $keys) : 0);
    my $answer = answer_header(FROM) . ($watch ? field(3, VARINT, 1) : '');

    for my $n (0 .. $keys - 1) {
        my $kv = kv($n, $watch ? FROM + 1 + ($one ? 0 : $n) : 5, $bytes);

        $answer .= $watch ? field(11, BYTES, field(2, BYTES, $kv))
                          : field(2, BYTES, $kv);
    }

    my $nginx = Nginx->new();
    my $fake = Fake->new()->start('ok', '--answer', "$method="
                                  . $nginx->write_file('answer', $answer));
    my $turns = Turn->measure(sub {
        $nginx->set(ETCD => $fake->endpoints)->start(<<'EOC');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 64m;
}

http {
    upstream s {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC
    });

    my ($pid) = $nginx->workers;
    my $s = Upstream->new($nginx, 's');

    ok(wait_for(sub { ($s->status->{revision} // 0) == $last }, 60, $name),
       "$name: all of them come");

    SKIP: {
        Nginx::built_with() =~ /-fsanitize/
            and skip 'a sanitizer has its own time', 1;

        my $longest = $turns->longest($pid);

        cmp_ok($longest, '<', LIMIT * $slower, "$name: the longest turn");
        note("$name: $longest s");
    }

    $nginx->quit;
    $fake->stop;
}

finish();
