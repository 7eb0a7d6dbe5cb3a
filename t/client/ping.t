#!/usr/bin/perl

# Silence: a process that is stopped, a network that swallows everything, and a
# server that refuses frequent PINGs.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Chaos;
use Control;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Upstream;
use Wait;

# An answer may be late by a stall: ping_timeout is longer than stalls are.

use constant {
    INTERVAL => 5,
    TIMEOUT  => 3,
};


my $slower = $ENV{TEST_SLOWER} || 1;

my $control = Control->start();

# Two etcds; two ways lead to the second one.

my @etcd = map { Etcd->new()->start() } 1 .. 2;
my ($backend) = Backend->start('one');
my @chaos = map { Chaos->start($_->port) } $etcd[1], $etcd[1];
my $fake = Fake->new()->start('too-many-pings:1', '--kv',
                              '/s/1=127.0.0.1:1001');

$_->put('/s/1', $backend->address) for @etcd;

my $nginx = Nginx->new();

$nginx->set(STOPPED => $etcd[0]->endpoints, FAKE => $fake->endpoints,
            HALF => $chaos[0]->endpoints, WHOLE => $chaos[1]->endpoints);

$nginx->start(<<'EOC');

etcd stopped {
    endpoints %%STOPPED%%;
    ping_interval 5s;
    ping_timeout 3s;
    connect_timeout 10s;
    request_timeout 60s;
}

etcd half {
    endpoints %%HALF%% %%WHOLE%%;
    ping_interval 5s;
    ping_timeout 3s;
    connect_timeout 10s;
    request_timeout 60s;
}

etcd calm {
    endpoints %%FAKE%%;
    ping_interval 5s;
    ping_timeout 3s;
    connect_timeout 10s;
    request_timeout 60s;
}

http {
    upstream stopped {
        etcd_members /s/ cluster=stopped;
    }

    upstream half {
        etcd_members /s/ cluster=half;
    }

    upstream calm {
        etcd_members /s/ cluster=calm;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://stopped;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

Upstream->new($nginx, $_)->shows({ '/s/1' => $backend->address . ' 1 up' },
                                 "$_: members") for 'stopped', 'half';
Upstream->new($nginx, 'calm')->shows({ '/s/1' => '127.0.0.1:1001 1 up' },
                                     'calm: members');

# The endpoint in use goes deaf and dumb.

my $url = $nginx->cluster('half')->{endpoint};
my ($used) = grep { $_->url eq $url } @chaos;

wait_for { $nginx->cluster('stopped')->{staleness_ms} >= 0 } 10, 'a proof';

$used->set(hold_up => 1, hold_down => 1);
$etcd[0]->freeze();
$etcd[1]->put('/s/2', '127.0.0.1:1002');

sub until_log {
    my ($name) = @_;

    return wait_for {
        $nginx->error_log =~ /"$name".*no answer to PING in (\d+) ms/ && $1;
    } 3 * INTERVAL, "a PING of $name";
}

# The time counts from the last proof, which is the last message.

my $waited = until_log('stopped') // 0;
my $found = time();
my $heard = $found - $nginx->cluster('stopped')->{staleness_ms} / 1000;

cmp_ok($waited, '>=', TIMEOUT * 1000,
       'a stopped etcd is found by PING, after ping_timeout');

# nginx counts from a clock that it may have read long before the proof.

cmp_ok($found - $heard, '>=', INTERVAL + TIMEOUT / 2, 'and ping_interval');
cmp_ok($control->lasted($heard, $found), '<=',
       (INTERVAL + TIMEOUT + 1) * $slower, 'and not later');

ok(until_log('half'), 'so is a half-open connection');

Upstream->new($nginx, 'half')->shows(
    { '/s/1' => $backend->address . ' 1 up', '/s/2' => '127.0.0.1:1002 1 up' },
    'another endpoint takes over at once, and nothing was missed');

isnt($nginx->cluster('half')->{endpoint}, $url, 'the status names it');
is($nginx->cluster('half')->{resyncs}, 0, 'it was not listed for that');

is($nginx->get('/')->{body}, 'one', 'requests are served meanwhile');
cmp_ok($nginx->cluster('stopped')->{staleness_ms}, '>=', INTERVAL * 1000,
       'the status tells how old the data is');

# An endpoint that hangs is tried again, but not often.

$etcd[0]->thaw();
$etcd[0]->put('/s/3', '127.0.0.1:1003');

Upstream->new($nginx, 'stopped')->shows(
    { '/s/1' => $backend->address . ' 1 up', '/s/3' => '127.0.0.1:1003 1 up' },
    'etcd runs again: the watch is resumed');

$nginx->logs(qr/\[error\].*"stopped"/, 1, 'one line about that');

# The fake says GOAWAY too_many_pings at the first PING of a connection.

ok(wait_for(sub { $fake->count(qr/ ping /) >= 2 }, 4 * INTERVAL, 'two pings'),
   'a server that gets too many PINGs');

my @pings = @{ $fake->lines(qr/ ping /) };


# the seconds from the begin of a connection to its PING; the number of its
# watches

sub pinged_after {
    my ($conn) = $_[0] =~ / (conn=\d+)$/;
    my ($open) = $fake->times(qr/ open $conn$/);
    my ($ping) = $fake->times(qr/ ping $conn$/);

    return $ping - $open;
}

sub watches_of {
    my ($conn) = $_[0] =~ / (conn=\d+)$/;

    return $fake->count(qr/ watch $conn /);
}


cmp_ok(pinged_after($pings[0]), '>=', INTERVAL * 0.95,
       'the first comes after the interval');
cmp_ok(pinged_after($pings[1]), '>=', 2 * INTERVAL * 0.95,
       'then the interval is doubled');
is(scalar(grep { !watches_of($_) } @pings), 0,
   'only a connection with a stream is asked');

Upstream->new($nginx, 'calm')->shows({ '/s/1' => '127.0.0.1:1001 1 up' },
                                     'its members stay');

$control->finished();

finish();
