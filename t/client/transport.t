#!/usr/bin/perl

# HTTP/2 and gRPC: things that a server may do, things that it must not do, and
# the lengths of messages.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Upstream;
use Wait;


# odd, but right answers: the members are there

my %right = (
    ok      => ['ok', 'a plain server'],
    onebyte => ['split1', 'DATA frames of one byte'],
    early   => ['continue', '1xx header blocks before the response'],
    refused => ['refuse-first:1', 'a refused stream is tried again'],
    often   => ['refuse-first:4', 'and once more, for reads and watches'],
    drain   => ['goaway-drain:1', 'GOAWAY lets a call end that it covers'],
    drain2  => ['goaway-drain:2', 'GOAWAY after an earlier call'],
);

# wrong answers, with the status and text that nginx makes of them

my %wrong = (
    trailers  => ['trailers-only:7:no%25way%20%C3%A4', 'permission denied',
                  'no%way \xc3\xa4',
                  'trailers-only error, its text percent-decoded and escaped'],
    unknown   => ['trailers-only:99:what', 'unknown', 'what',
                  'a status that gRPC does not know'],
    proxied   => ['trailers-only:2:etcdserver:%20permission%20denied',
                  'permission denied', 'etcdserver: permission denied',
                  'an error of etcd whose status a proxy has lost'],
    similar   => ['trailers-only:2:etcdserver:%20permission%20denied.',
                  'unknown', 'etcdserver: permission denied.',
                  'what only resembles one'],
    leader    => ['trailers-only:14:etcdserver:%20no%20leader', 'unavailable',
                  'etcdserver: no leader', 'unavailable'],
    busy      => ['trailers-only:8:etcdserver:%20too%20many%20requests',
                  'resource exhausted', 'etcdserver: too many requests',
                  'too many requests'],
    http401   => ['http-status:401', 'unauthenticated', 'HTTP status 401',
                  'HTTP 401'],
    http403   => ['http-status:403', 'permission denied', 'HTTP status 403',
                  'HTTP 403'],
    http404   => ['http-status:404', 'unimplemented', 'HTTP status 404',
                  'HTTP 404'],
    http429   => ['http-status:429', 'unavailable', 'HTTP status 429',
                  'HTTP 429'],
    http503   => ['http-status:503', 'unavailable', 'HTTP status 503',
                  'HTTP 503'],
    http500   => ['http-status:500', 'unknown', 'HTTP status 500',
                  'HTTP 500'],
    page      => ['http-status:200', 'unknown', 'content type "text/html"',
                  'HTTP 200 that is no gRPC'],
    nostatus  => ['no-status', 'unknown', 'ended without grpc-status',
                  'no grpc-status at the end'],
    truncated => ['truncate', 'internal', 'ended inside of a message',
                  'status 0 inside of a message'],
    packed    => ['compressed', 'internal',
                  'got an unexpected compressed message',
                  'the compressed flag'],
    rst1      => ['rst:1', 'internal', 'PROTOCOL_ERROR', 'RST PROTOCOL_ERROR'],
    rst7      => ['rst:7', 'unavailable', 'REFUSED_STREAM',
                  'RST REFUSED_STREAM without end'],
    rst8      => ['rst:8', 'cancelled', 'CANCEL', 'RST CANCEL'],
    rst11     => ['rst:11', 'resource exhausted', 'ENHANCE_YOUR_CALM',
                  'RST ENHANCE_YOUR_CALM'],
    headers   => ['big-headers', 'internal', 'stream was closed',
                  '100 KB of response headers'],
    oversize  => ['oversize', 'resource exhausted',
                  'got a message of 2147483647 bytes',
                  'a message announced with 2 GiB'],
);

my $etcd = Etcd->new()->start();
my $split = Chaos->start($etcd->port);
my $slow = Chaos->start($etcd->port);

$split->set(split => 1);
$slow->set(delay => 0.1);

my %fake = map {
    $_ => Fake->new()->start(($right{$_} // $wrong{$_})->[0],
                             '--kv', '/s/1=127.0.0.1:1001',
                             '--kv', '/s/2=127.0.0.1:1002')
} keys %right, keys %wrong;

# A byte at a time may take long: no connection is left because of that.

my %endpoint = (
    split => $split->endpoints . '; connect_timeout 60s; ping_timeout 60s',
    slow  => $slow->endpoints . '; connect_timeout 60s; ping_timeout 60s',
    map { $_ => $fake{$_}->endpoints } keys %fake,
);

# 24 MB: more than the windows of a stream and of a connection

my $filler = 'x' x 48_000;

$etcd->put("/large/$_", qq({"address":"127.0.0.1:1$_","note":"$filler"}))
    for 100 .. 600;

# two prefixes of one cluster, one of them with a value above the limit

my $over = 'x' x 100_000;

$etcd->put('/small/1', '127.0.0.1:1001');
$etcd->put("/pages/$_", qq({"address":"127.0.0.1:10$_","note":")
                        . 'x' x 10_000 . '"}') for 10 .. 39;

my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(
    CLUSTERS  => join('', map {
        "etcd $_ { endpoints $endpoint{$_}; zone 256k; }\n" } keys %endpoint),
    UPSTREAMS => join('', map {
        "upstream $_ { etcd_members /s/ cluster=$_; }\n" } keys %endpoint),
);

my $started = time();

$nginx->start(<<'EOC');

%%CLUSTERS%%

# what is large may take its time

etcd {
    endpoints %%ETCD%%;
    request_timeout 60s;
}

etcd limited {
    endpoints %%ETCD%%;
    max_message_size 64k;
}

http {
    %%UPSTREAMS%%

    upstream large {
        etcd_members /large/;
    }

    upstream big {
        etcd_members /big/ cluster=limited;
    }

    upstream small {
        etcd_members /small/ cluster=limited;
    }

    upstream pages {
        etcd_members /pages/ cluster=limited;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


# The number of calls that a backoff of up to 3 seconds, 1.5 on the average,
# makes of two streams of attempts in the time since the start; a busy loop
# makes thousands.

sub patience { 30 + 4 * (time() - $started) }


my $member = '127.0.0.1:1001 1 up';
my $both = { '/s/1' => $member, '/s/2' => '127.0.0.1:1002 1 up' };

Upstream->new($nginx, $_)->shows($both, $right{$_}[1]) for sort keys %right;

my $large = Upstream->new($nginx, 'large');

wait_for { keys %{ $large->members } > 500 } 60, 'all of the message';
$large->shows({ map { ("/large/$_" => "127.0.0.1:1$_ 1 up") } 100 .. 600 },
              'a message larger than all windows');

for my $name (sort keys %wrong) {
    my ($mode, $status, $text, $shows) = @{ $wrong{$name} };
    my $says = qr/"$name".*: \Q$status\E: .*\Q$text\E/;

    ok(wait_for(sub { $nginx->count_log($says) }, 15, "$name, $mode"),
       "$shows: $status");
    is_deeply(Upstream->new($nginx, $name)->members, {},
              "$shows: nothing of it is used");
    cmp_ok($fake{$name}->count(qr/ call /), '<=', patience(),
           "$shows: not again and again");
}

cmp_ok($fake{drain}->count(qr/ open /), '<=', patience(),
       'a server that always says GOAWAY is not asked again at once');

# Each agent logs each cause once an outage: another worker becomes the agent if
# this one did not run, and on a busy machine a call may be late besides.

my %says;

for ($nginx->lines_of('error.log')) {
    $says{ s/\d+//gr }++ if s/.*\[error\].*"drain"//;
}

is_deeply([grep { $says{$_}
                  > $nginx->count_log(qr/"drain": this worker is the agent/)
                    + (time() - $started) / 30 } keys %says], [],
          'and does not fill the log');
cmp_ok(scalar(keys %says), '>=', 1, 'which has it');

# limits

Upstream->new($nginx, 'small')->shows({ '/small/1' => $member },
                                      'a cluster with small messages');
Upstream->new($nginx, 'pages')->shows(
    { map { ("/pages/$_" => "127.0.0.1:10$_ 1 up") } 10 .. 39 },
    'a list above max_message_size is read in smaller pages');

my $small = Upstream->new($nginx, 'small');
my $big = Upstream->new($nginx, 'big');

$etcd->put('/big/1', qq({"address":"127.0.0.1:1001","note":"$over"}));
$etcd->put('/small/2', '127.0.0.1:1002');

$small->shows({ '/small/1' => $member, '/small/2' => '127.0.0.1:1002 1 up' },
              'an event above max_message_size holds up no other prefix');

my $limit = qr/got a message of 1000\d\d bytes, .*"max_message_size" of 65536/;

ok(wait_for(sub { $nginx->count_log(qr{"/big/" cannot be read: .*$limit}) },
            10, 'the log about /big/'),
   'the log names the prefix, the size and the directive');

$nginx->logs(qr/\[error\].*max_message_size" of 65536/, 1, 'in one line');

$etcd->put('/big/1', '127.0.0.1:1003');

$big->shows({ '/big/1' => '127.0.0.1:1003 1 up' },
            'a value that became short enough is used');

# frames in pieces, both ways

for my $name ('split', 'slow') {
    my $upstream = Upstream->new($nginx, $name);

    $upstream->shows({}, "$name: nothing there yet");
    $etcd->txn([put => '/s/1', '127.0.0.1:1001'],
               [put => '/s/2', '127.0.0.1:1002']);
    $upstream->shows($both, "$name: two members come");
    $etcd->del('/s/2');
    $upstream->shows({ '/s/1' => $member }, "$name: one goes");
    $etcd->del('/s/1');
}

is($nginx->status->{clusters}{split}{reconnects}, 0,
   'no byte was taken for another');

finish();
