#!/usr/bin/perl

# max_stale: who cannot be proved to lead any more does not lead, and members
# are not affected.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Chaos;
use Etcd;
use Finish;
use Line;
use Nginx;
use Upstream;
use Wait;

use constant MAX_STALE => 2;

my $slower = $ENV{TEST_SLOWER} || 1;
my $stale = MAX_STALE * $slower;
my $has_stream = Nginx::has('stream');

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
    STALE => $stale,
)->start($config);


sub who {
    my ($name) = @_;

    my $answer = $nginx->get("/to/$name");

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}


sub staleness { $nginx->status->{clusters}{default}{staleness_ms} / 1000 }


# how long until the upstream has no leader, and has one again

sub takes {
    my ($name, $who) = @_;

    my $since = time();

    wait_for { who($name) eq $who } 20, "$name: $who" or return 1e6;

    return time() - $since;
}


ok(takes(db => 'one') < 5 * $slower, 'a leader, once it is proved');
is(who('usual'), 'one', 'by default');
is(who('trusted'), 'one', 'without a limit');

# nothing happens, and nginx asks for proofs: often enough

my $end = time() + 2 * $stale;
my ($asked, $failed) = (0, 0);

while (time() < $end) {
    $asked++;
    $failed++ if who('db') ne 'one';
    sleep(0.02);
}

is($failed, 0, "it leads while nothing happens, $asked times");

# etcd says nothing more

$one->set(hang => 1);

my ($closed, $kept) = ($nginx->http, $nginx->http);

$closed->send('GET', '/to/closed');
$kept->send('GET', '/to/db');
wait_for { $one->counts->{open} >= 2 } 10, 'two requests';

my $client;

if ($has_stream) {
    $client = Line::Client->new($nginx->port('PORT_LINES'));
    is($client->ask('hello'), 'line: hello', 'a session');
}

$chaos->set(hold_down => 1);

my $since = time();
my $answer = $closed->receive_once();
my $after = time() - $since;

is($answer->{status}, 502, 'on_change=close: a request on its way ends');
cmp_ok($after, '>', $stale / 2, 'not before the proof is too old');
cmp_ok($after, '<', $stale + 2 * $slower, 'and soon after');

if ($has_stream) {
    ok($client->is_closed(), 'so does a session');
    is(Line::Client->new($nginx->port('PORT_LINES'))->ask('hello'), undef,
       'another one does not begin');
}

is(who('db'), 502, 'there is no leader');
cmp_ok(staleness(), '>', $stale, 'for want of a proof');
is($two->requests, 0, 'and nobody else');

$one->set(hang => 0);

is($kept->receive_once->{body}, 'one', 'keep: what is on its way is answered');
is(who('members'), 'one', 'members serve on');
is(who('usual'), 'one', 'by default it may be 15 seconds');
is(who('trusted'), 'one', 'max_stale=off');

my $waiting = $nginx->http;

$waiting->send('GET', '/to/waiting');

# workers that come now know nothing better

ok($nginx->reload(), 'a reload');
is(who('db'), 502, 'it makes nobody a leader');

# who led meanwhile nobody knows: the list says it

$etcd->txn([del => '/db/1'], [put => '/db/2', $two->address]);
is(who('trusted'), 'one', 'what comes of max_stale=off');

$chaos->set(hold_down => 0);
$chaos->cut();

ok(takes(db => 'two') < 20 * $slower, 'etcd is there again: the new leader');
is($waiting->receive_once->{body}, 'two', 'etcd_wait: it was waited for');
is(who($_), 'two', "$_: also") for qw(closed usual trusted members);

if ($has_stream) {
    is(Line::Client->new($nginx->port('PORT_LINES'))->ask('hello'),
       'line: hello', 'sessions');
}

# etcd stands still, with all connections open

$etcd->freeze();
$since = time();
cmp_ok(takes(db => '502'), '<', $stale + 2 * $slower, 'etcd is stopped');
cmp_ok(time() - $since, '>', $stale / 2, 'its last word holds for a while');
$etcd->thaw();
ok(takes(db => 'two') < 20 * $slower, 'it goes on');

finish();
