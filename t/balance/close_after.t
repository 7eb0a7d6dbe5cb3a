#!/usr/bin/perl

# close_after of etcd_members: connections to a member that was removed or
# drained are closed after a time, unless the member comes back before.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(time);

use Becomes;
use Begun;
use Etcd;
use Finish;
use Http;
use Line;
use Nginx;
use Wait;

use constant AFTER => 1;    # s, as in the configuration

plan(skip_all => 'this nginx has no stream') if !Nginx::has(qw(stream));

my $etcd = Etcd->new()->start();
my ($one, $two) = Begun->start('one', 'two');
my ($line1, $line2) = Line->start('l1', 'l2');
my ($l1, $l2) = map { $_->address } $line1, $line2;

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_http_version 1.1;

    upstream api {
        etcd_members /api/ close_after=1s;
    }

    upstream kept {
        etcd_members /kept/ close_after=1s;
        keepalive 8;
    }

    upstream sets {
        etcd_members /sets/$arg_set/ close_after=1s;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        postpone_output 0;

        location / {
            proxy_pass http://api;
        }

        location /upgrade {
            proxy_pass http://api;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }

        location /upgrade/sets {
            proxy_pass http://sets;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }

        location /kept {
            proxy_pass http://kept;
            proxy_set_header Connection "";
        }

        location /status {
            etcd_status;
        }
    }
}

stream {
    upstream db {
        etcd_members /db/ close_after=1s;
    }

    upstream stays {
        etcd_members /db/;
    }

    server {
        listen 127.0.0.1:%%PORT_db%%;
        proxy_pass db;
    }

    server {
        listen 127.0.0.1:%%PORT_stays%%;
        proxy_pass stays;
    }
}

EOF


sub raw {
    my ($request) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port);
    syswrite($socket, $request);

    return bless { socket => $socket, input => '' }, 'Line::Client';
}


sub upgrade {
    my ($path) = @_;

    my $client = raw("GET $path HTTP/1.1\r\nHost: a\r\nUpgrade: lines\r\n"
                     . "Connection: upgrade\r\n\r\n");

    my $line;

    do { $line = $client->hear } while defined $line && $line ne "\r";

    return $client;
}


sub closed { $_[0]->status->{closed} }


# Sessions are closed, but not before the time.

sub closes {
    my ($since, $name, @clients) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is(scalar(grep { $_->is_closed } @clients), @clients, "$name: closed");
    cmp_ok(time() - $since, '>=', AFTER - 0.01, "$name: after the time");
}


sub drained { "{\"address\":\"$_[0]\",\"drain\":true}" }


# a member is removed

my $db = $nginx->stream('db');

$etcd->put('/db/1', $l1);
$db->shows({ '/db/1' => "$l1 1 up" }, 'a member');

my @sessions = map { $nginx->line('db') } 1 .. 8;
my $stays = $nginx->line('stays');

is($stays->ask('a'), 'l1: a', 'a session of another upstream');
is(scalar(grep { ($_->ask('a') // '') eq 'l1: a' } @sessions), 8, 'sessions');

my $since = time();

$db->sees($etcd->txn([del => '/db/1'], [put => '/db/2', $l2]));
is($nginx->line('db')->ask('b'), 'l2: b', 'removed: others take its place');
is($sessions[0]->ask('b'), 'l1: b', 'a session goes on for a time');
closes($since, 'removed', @sessions);
becomes { closed($db) } 8, 'they are counted';
like($nginx->get('/status', Accept => 'text/plain')->{body},
     qr/^nginx_etcd_upstream_closed_total\{[^}]*"db"[^}]*\} 8$/m,
     'and in the metrics');
is($stays->ask('b'), 'l1: b', 'without the parameter nothing is closed');

my @logged = $nginx->error_log
    =~ /\[info\].*"db": closing (\d+) connections to \Q$l1\E, which/g;

my $sum = 0;

$sum += $_ for @logged;
cmp_ok(scalar(@logged), '<=', 2, 'one line in the log of each worker');
is($sum, 8, 'with the number');

# A member comes back, another does not: the member with the later time is the
# one to watch.

$etcd->put('/db/1', $l1);
$db->shows({ '/db/1' => "$l1 1 up", '/db/2' => "$l2 1 up" }, 'two members');

sub two_sessions {
    my %on;

    wait_for {
        my $session = $nginx->line('db');
        my ($name) = ($session->ask('x') // '') =~ /^(l\d)/;

        push @{ $on{$name} }, $session if $name;
        $on{l1} && $on{l2};
    } 10, 'sessions on both';

    return \%on;
}

for my $case (
    ['removed', sub { $etcd->del('/db/1') }, sub { $etcd->del('/db/2') }],
    ['drained', sub { $etcd->put('/db/1', drained($l1)) },
                sub { $etcd->put('/db/2', drained($l2)) }],
) {
    my ($name, $leave1, $leave2) = @$case;
    my $on = two_sessions();

    $db->sees($leave1->());
    $since = time();
    $db->sees($leave2->());
    $db->sees($etcd->put('/db/1', $l1));
    closes($since, "$name for good", @{ $on->{l2} });
    is(scalar(grep { ($_->ask('y') // '') eq 'l1: y' } @{ $on->{l1} }),
       scalar(@{ $on->{l1} }), "$name, and back in time: nothing is closed");
    $db->sees($etcd->put('/db/2', $l2));

    # The member leaves once more.

    $since = time();
    $db->sees($leave1->());
    closes($since, "$name again", @{ $on->{l1} });
    $db->sees($etcd->put('/db/1', $l1));
}

# Drained, then removed: the time does not begin anew.

my $on = two_sessions();

$since = time();
$db->sees($etcd->put('/db/1', drained($l1)));
$db->sees($etcd->del('/db/1'));
closes($since, 'drained, then removed', @{ $on->{l1} });
$db->sees($etcd->put('/db/1', $l1));

# Another change closes nothing.

$on = two_sessions();
$db->sees($etcd->put('/db/1', "{\"address\":\"$l1\",\"weight\":3}"));
$since = time();
$db->sees($etcd->del('/db/2'));
closes($since, 'another member', @{ $on->{l2} });
is($on->{l1}[0]->ask('z'), 'l1: z', 'a member of another weight keeps its own');

# a reload

$db->sees($etcd->put('/db/2', $l2));
$on = two_sessions();
ok($nginx->reload(), 'a reload');
$since = time();
$db->sees($etcd->del('/db/2'));
closes($since, 'in old workers', @{ $on->{l2} });
is($on->{l1}[0]->ask('z'), 'l1: z', 'the other stays');
$_->close for $stays, map { @$_ } values %$on;
ok((wait_for { !$nginx->leaving } 20, 'the end of old workers'),
   'old workers end');

# http

my $api = $nginx->upstream('api');

$etcd->put('/api/1', $one->address);
$api->shows({ '/api/1' => $one->address . ' 1 up' }, 'http: a member');

my $upgraded = upgrade('/upgrade');
my $begun = raw("GET /begun HTTP/1.1\r\nHost: a\r\n\r\n");

is($upgraded->ask('hello'), 'one: hello', 'another protocol');
like($begun->hear // '', qr{^HTTP/1\.1 200}, 'an answer begins');
$one->set(hang => 1);

my $waits = $nginx->http;

$one->reset;
$waits->send('GET', '/wait');
wait_for { $one->requests } 10, 'a request';
$since = time();
$api->sees($etcd->txn([del => '/api/1'], [put => '/api/2', $two->address]));
is($nginx->get('/next')->{body}, 'two', 'the next request: another member');
is($waits->receive->{status}, 502, 'without an answer: 502');
cmp_ok(time() - $since, '>=', AFTER - 0.01, 'after the time');
closes($since, 'another protocol, and an answer that has begun',
       $upgraded, $begun);
becomes { closed($api) } 3, 'they are counted';
$one->set(hang => 0);

# a prefix with variables, whose only member goes

$etcd->put('/sets/a/1', $one->address);

wait_for {
    $upgraded = upgrade('/upgrade/sets?set=a');
    ($upgraded->ask('hello') // '') eq 'one: hello'
} 10, 'a set';

$since = time();
$etcd->del('/sets/a/1');
closes($since, 'of a set', $upgraded);
is(closed($nginx->upstream('sets')), 1, 'it is counted');

$etcd->put('/sets/a/1', $one->address);
wait_for {
    $upgraded = upgrade('/upgrade/sets?set=a');
    ($upgraded->ask('hello') // '') eq 'one: hello'
} 10, 'a set';

$etcd->put('/sets/b/1', $two->address);

my $other;

wait_for {
    $other = upgrade('/upgrade/sets?set=b');
    ($other->ask('hello') // '') eq 'two: hello'
} 10, 'another set';

$etcd->del('/sets/a/1');
$since = time();
$etcd->del('/sets/b/1');
$etcd->put('/sets/a/1', $one->address);
closes($since, 'of another set', $other);
is($upgraded->ask('more'), 'one: more', 'a member of a set comes back in time');

# Kept connections to a removed member are not used any more.

$etcd->put('/kept/1', $one->address);
$nginx->upstream('kept')->shows({ '/kept/1' => $one->address . ' 1 up' },
                                'a member with kept connections');
is_deeply($nginx->tally('/kept', 10), { one => 10 }, 'it answers');

my $connections = $one->counts->{open};

cmp_ok($connections, '>', 0, 'connections are kept');
$one->reset;
$nginx->upstream('kept')->sees(
    $etcd->txn([del => '/kept/1'], [put => '/kept/2', $two->address]));
is_deeply($nginx->tally('/kept', 20), { two => 20 }, 'another one answers');
is($one->requests, 0, 'no request goes over a kept connection');
$upgraded->close;

ok($nginx->quit(), 'nginx ends');

finish();
