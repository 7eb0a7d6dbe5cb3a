#!/usr/bin/perl

# Lists of more than a page: the rest comes by one RangeStream, which is asked
# for once on a connection that does not know it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Chaos;
use Etcd;
use Fake;
use Finish;
use GrpcProxy;
use Nginx;
use Wait;

use constant {
    KEYS  => 1125,                      # three pages of an audit
    OPS   => 125,
    TIMES => 3,
    CHUNK => 7,
    FEW   => 30,

    # "/etcdserverpb.KV/RangeStream" in the Huffman code of HPACK, and its
    # length: paths are not indexed
    PATH  => '9560a924882d9dcb6571af9b8b1b4754c5dc9b0a3a7f',
};


sub few { map { sprintf('/few/%02d', $_) } 0 .. FEW - 1 }
sub address { '10.0.' . int($_[0] / 250) . '.' . $_[0] % 250 . ':80' }


# NAME => [pages that nginx asks for, the fake's mode]

my @only = ('--only', 'RangeStream');

my %fakes = (
    serves     => [1, 'ok'],
    split      => [1, 'split1', @only],
    headless   => [2, 'stream-bare'],
    back       => [2, 'stream-back'],
    ends       => [4, 'stream-end:14'],
    forgets    => [4, 'stream-end:12'],
    stops      => [4, 'stream-stop'],
    compacted  => [3, 'stream-end:11'],     # and two streams
    no_status  => [2, 'no-status', @only],
    unknown    => [5, 'trailers-only:12:unknown', @only],
    proxy      => [5, 'trailers-only:2:unknown', @only],
    page       => [5, 'http-status:404', @only],
    reset      => [5, 'rst:2', @only],
    too_large  => [5, 'oversize', @only],
    cut_short  => [5, 'truncate', @only],
    compressed => [5, 'compressed', @only],
);

my %served;

for my $name (keys %fakes) {
    my ($pages, @mode) = @{ $fakes{$name} };
    my $n = 0;

    $served{$name} = Fake->new()->start(@mode, '--chunk', CHUNK,
                                        map { ('--kv', "$_=" . address($n++)) }
                                        few());
}

my $etcd = Etcd->new()->start();
my $grpc_proxy = GrpcProxy->new($etcd)->start();

my %chaos = (direct => Chaos->start($etcd->port),
             proxied => Chaos->start($grpc_proxy->port));

$_->set(seek => PATH) for values %chaos;

for (my $n = 0; $n < KEYS; $n += OPS) {
    $etcd->txn(map { [put => sprintf('/many/%05d', $_), address($_)] }
               $n .. $n + OPS - 1);
}

my %endpoints = ((map { $_ => $served{$_}->endpoints } keys %served),
                 (map { $_ => $chaos{$_}->endpoints } keys %chaos));

my $clusters = join('', map { <<"EOC" } sort keys %endpoints);

etcd $_ {
    endpoints $endpoints{$_};
    audit_interval @{[$chaos{$_} ? '500ms' : 0]};
}
EOC

my $upstreams = join('', map { <<"EOC" } sort keys %served);

    upstream $_ {
        etcd_members /few/ cluster=$_;
    }
EOC

$upstreams .= join('', map { <<"EOC" } sort keys %chaos);

    upstream $_ {
        etcd_members /many/ cluster=$_;
    }
EOC

my $nginx = Nginx->new()->start(<<"EOC");

worker_processes 1;
$clusters
http {
$upstreams
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


sub members { scalar(keys %{ $nginx->upstream($_[0])->members }) }


# A page, or a stream, took longer than it may on a machine that is not busy.

sub was_late {
    my ($name) = @_;

    my $late = $nginx->count_log(qr/"$name": (?:range\ failed|list\ continues
                                    |list\ goes\ on\ in\ pages:\ deadline)/x);

    # The next agent lists an incomplete prefix once more.

    my $agents = $nginx->count_log(qr/"$name": this worker is the agent/);

    return $late > ($name eq 'stops') || $agents > 1;
}

for my $name (sort keys %fakes) {
    my ($pages, $mode) = @{ $fakes{$name} };
    my $fake = $served{$name};
    my %calls;

    ok(wait_for(sub { members($name) == FEW }, 20, $name), "$name: all keys");

    $calls{ /conn=(\d+)/ && $1 }++
        for @{ $fake->lines(qr/ call .*RangeStream/) };

    SKIP: {
        skip 'this machine is busy', 2 if was_late($name);

        is_deeply([values %calls], [$name eq 'compacted' ? 2 : 1],
                  'one stream');
        is($fake->count(qr/ range .* key=.few/), $pages, 'and pages');
    }
}

like($served{serves}->lines(qr/ stream /)->[0],
     qr{key=/few/06 revision=100 limit=0},
     'at the revision of the first page, after its last key');


# A real etcd, which knows RangeStream since 3.7; its proxy does not.

my %streams = (direct => $etcd->is_since('3.7'));

sub audited {
    my ($name) = @_;

    my $audits = sub {
        $nginx->count_log(qr/"$name": audit at revision \d+ found nothing/);
    };
    my $before = $audits->();

    return wait_for(sub { $audits->() >= $before + TIMES }, 20, 'audits');
}

sub reads {
    my ($name) = @_;

    return $nginx->count_log(qr/"$name": connecting to \S+ for reads/);
}


sub asked_for {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $found = $chaos{$name}->counts->{found};

    if ($streams{$name}) {
        cmp_ok($found, '>', reads($name), 'and more than once on a connection');
    } else {
        cmp_ok($found, '<=', reads($name), 'once on a connection');
    }

    return $found;
}

for my $name (sort keys %chaos) {
    ok(wait_for(sub { members($name) == KEYS }, 20, $name), "$name: all keys");
    ok(audited($name), 'which audits find, too');

    my $before = asked_for($name);

    cmp_ok($before, '>=', 1, 'a stream is asked for');

    $chaos{$name}->cut();

    ok(audited($name), 'audits after a new connection');

    cmp_ok(asked_for($name), '>', $before, 'a stream is asked for again');
}

# Etcd counts them, too.

if ($streams{direct}) {
    my $handled = sub {
        my ($code) = @_;

        return $etcd->metric("grpc_server_handled_total{grpc_code=\"$code\","
                             . 'grpc_method="RangeStream",'
                             . 'grpc_service="etcdserverpb.KV",'
                             . 'grpc_type="server_stream"}') // 0;
    };

    cmp_ok($handled->('OK'), '>=', 2 * TIMES, 'streams that etcd has ended');
    is($handled->('Unimplemented'), 0, 'none is refused');
}

is_deeply([grep { /\[(?:error|crit|alert|emerg)\]/
                  && !/endpoint \S+ failed for / }
           $nginx->lines_of('error.log')], [], 'no errors');

finish();
