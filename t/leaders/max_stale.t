#!/usr/bin/perl

# max_stale: a leader that cannot be proved to lead any more does not lead, and
# members are not affected.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Chaos;
use Control;
use Etcd;
use Finish;
use Line;
use Nginx;
use Stall;
use Wait;

# Proofs come three times as often as max_stale needs: to be late by twice that
# is no failure.

use constant {
    MAX_STALE => 5,
    SOON      => 2,
    STALLED   => 1,
};

my $slower = $ENV{TEST_SLOWER} || 1;
my $has_stream = Nginx::has('stream');

my $stall = Stall->watch();
my $control = Control->start();
my $etcd = Etcd->new()->start();
my $chaos = Chaos->start($etcd->port);
my ($one, $two) = Backend->start('one', 'two');
my $line = Line->start('line');

$etcd->put('/db/1', $one->address);
$etcd->put('/lines/1', $line->address);

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%CHAOS%%;
    ping_interval 60s;
}

http {
    upstream db {
        etcd_leader /db max_stale=%%STALE%%s;
    }

    upstream closed {
        etcd_leader /db max_stale=%%STALE%%s on_change=close;
    }

    upstream waiting {
        etcd_leader /db max_stale=%%STALE%%s;
    }

    upstream trusted {
        etcd_leader /db max_stale=off;
    }

    upstream usual {
        etcd_leader /db;
    }

    upstream members {
        etcd_members /db/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            add_header X-Reason $etcd_reason always;
        }

        location = /to/waiting {
            etcd_wait waiting 60s;
            proxy_pass http://waiting;
        }

        location /status {
            etcd_status;
        }
    }
}

END

my $stream = <<'END';

stream {
    upstream lines {
        etcd_leader /lines max_stale=%%STALE%%s on_change=close;
    }

    server {
        listen 127.0.0.1:%%PORT_LINES%%;
        proxy_pass lines;
    }
}

END

$config .= $stream if $has_stream;

my $nginx = Nginx->new()->set(
    CHAOS => $chaos->endpoints,
    STALE => MAX_STALE,
)->start($config);


sub staleness { $nginx->status->{upstreams}{db}{staleness_ms} / 1000 }


# The leader ended neither too soon nor too late, by the time of the last proof
# as nginx tells it.

sub in_time {
    my ($ended, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $asked = time();
    my $took = $ended - ($asked - staleness());
    my $stood = $control->since($ended - $took);

    cmp_ok($took, '>=', MAX_STALE, "$name: not before the proof is too old");
    cmp_ok($took - $stood, '<', MAX_STALE + SOON * $slower,
           "$name: and soon after");
}

ok($nginx->leads_to(db => 'one'), 'a leader, once it is proved');
ok($nginx->leads_to(usual => 'one'), 'by default');
ok($nginx->leads_to(trusted => 'one'), 'without a limit');

# Nothing happens, and nginx asks for proofs often enough.

ok($stall->again(STALLED, sub {
    my $end = time() + 1.5 * MAX_STALE;
    my $failed = 0;

    $nginx->leads_to(db => 'one') or return;

    while (time() < $end) {
        $failed++ if $nginx->who('db') ne 'one';
        sleep(0.02);
    }

    return $failed == 0;
}), 'it leads while nothing happens');

# etcd sends nothing more.

$one->set(hang => 1);
$one->reset;

my ($closed, $kept) = ($nginx->patient(), $nginx->patient());

$closed->send('GET', '/to/closed');
$kept->send('GET', '/to/db');
wait_for { $one->requests == 2 } 10, 'two requests';

my $client;

if ($has_stream) {
    $client = Line::Client->new($nginx->port('PORT_LINES'));
    is($client->ask('hello'), 'line: hello', 'a session');
}

$chaos->set(hold_down => 1);

my $answer = $closed->receive_once();
my $ended = time();

is($answer->{status}, 502, 'on_change=close: a request on its way ends');
is($answer->{headers}{'x-reason'}, 'stale', 'and says why');
in_time($ended, 'on_change=close');

# The backend hangs: a request that is let in is with it, and not answered.

my $usual = $nginx->patient();

$usual->send('GET', '/to/usual');
ok(wait_for(sub { $one->requests == 3 }, 5, 'a request'),
   'by default it may be 15 seconds');

if ($has_stream) {
    ok($client->is_closed(), 'so does a session');
    is_deeply($nginx->status->{stream_upstreams}{lines}{refused},
              { stale => 1 }, 'for the same reason');
    is(Line::Client->new($nginx->port('PORT_LINES'))->ask('hello'), undef,
       'another one does not begin');
}

is($nginx->who('db'), 502, 'there is no leader');
cmp_ok(staleness(), '>', MAX_STALE, 'for want of a proof');
is($two->requests, 0, 'and nobody else');

$one->set(hang => 0);

is($kept->receive_once->{body}, 'one', 'keep: what is on its way is answered');
is($usual->receive_once->{body}, 'one', 'and so is what came later');
is($nginx->who('members'), 'one', 'members serve on');
is($nginx->who('trusted'), 'one', 'max_stale=off');

my $waiting = $nginx->patient();

$waiting->send('GET', '/to/waiting');

# New workers know nothing better.

ok($nginx->reload(), 'a reload');
is($nginx->who('db'), 502, 'it makes nobody a leader');

# Nobody knows who led meanwhile: the list tells.

$etcd->txn([del => '/db/1'], [put => '/db/2', $two->address]);
is($nginx->who('trusted'), 'one', 'what comes of max_stale=off');

$chaos->set(hold_down => 0);
$chaos->cut();

ok($nginx->leads_to(db => 'two'), 'etcd is there again: the new leader');
is($waiting->receive_once->{body}, 'two', 'etcd_wait: it was waited for');
ok($nginx->leads_to($_ => 'two'), "$_: also")
    for qw(closed usual trusted members);

if ($has_stream) {
    ok(wait_for(sub {
        my $session = Line::Client->new($nginx->port('PORT_LINES'));

        ($session->ask('hello') // '') eq 'line: hello';
    }, 10, 'a session'), 'sessions');
}

# etcd stands still, with all connections open.

$etcd->freeze();
ok($nginx->leads_to(db => '502'), 'etcd is stopped');
in_time(time(), 'etcd is stopped');
$etcd->thaw();
ok($nginx->leads_to(db => 'two'), 'it goes on');

$control->finished();

finish();
