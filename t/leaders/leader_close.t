#!/usr/bin/perl

# on_change=close: requests and sessions at a former leader end when it leads no
# more, in whatever state, and are not sent to another one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(time);

use Begun;
use Control;
use Etcd;
use Finish;
use Http;
use Line;
use Nginx;
use Upstream;
use Wait;

use constant AT_ONCE => 1;

my $slower = $ENV{TEST_SLOWER} || 1;
my $has_stream = Nginx::has('stream');
my $control = Control->start();

my $etcd = Etcd->new()->start();
my ($one, $two) = Begun->start('one', 'two');
my ($line1, $line2) = Line->start('l1', 'l2');

# a listener with a full queue: connections to it do not get through

my $full = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 0);
my @queue = map {
    IO::Socket::INET->new(PeerAddr => '127.0.0.1', Blocking => 0,
                          PeerPort => $full->sockport)
} 1 .. 4;

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    log_format upstream "$uri $status $upstream_status $upstream_addr";

    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    proxy_http_version 1.1;
    proxy_next_upstream error timeout http_502 http_504 non_idempotent;

    upstream db {
        etcd_leader /db on_change=close;
    }

    upstream kept {
        etcd_leader /db on_change=keep;
    }

    upstream cached {
        etcd_leader /db on_change=close;
        keepalive 4;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        access_log %%DIR%%/access.log upstream;
        postpone_output 0;

        location / {
            proxy_pass http://db;
        }

        location /begun/unbuffered {
            proxy_pass http://db;
            proxy_buffering off;
        }

        location /begun/cached {
            proxy_pass http://db;
            proxy_cache cache;
            proxy_cache_valid any 1m;
        }

        location /upgrade {
            proxy_pass http://db;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }

        location /body {
            proxy_pass http://db;
            proxy_request_buffering off;
        }

        location /tls {
            proxy_pass https://db;
        }

        location /page {
            proxy_pass http://db;
            error_page 502 =503 /sorry;
        }

        location = /sorry {
            return 200 sorry;
        }

        location /keep {
            proxy_pass http://kept;
        }

        location /cached {
            proxy_pass http://cached;
            proxy_set_header Connection "";
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
        etcd_leader /lines on_change=close;
    }

    upstream kept {
        etcd_leader /lines;
    }

    server {
        listen 127.0.0.1:%%PORT_LINES%%;
        proxy_pass lines;
    }

    server {
        listen 127.0.0.1:%%PORT_KEPT%%;
        proxy_pass kept;
    }

    server {
        listen 127.0.0.1:%%PORT_TLS%%;
        %%TLS%%
        proxy_pass lines;
    }
}

END

$config .= $stream if $has_stream;

# Without TLS the leader hears nothing from the client, either.

my $nginx = Nginx->new(etcd => $etcd)->set(
    TLS => Nginx::built_with() =~ /--with-stream_ssl_module/ ? 'proxy_ssl on;'
                                                             : '',
)->start($config);
my %upstream = map { $_ => Upstream->new($nginx, $_) } qw(db kept cached);
my $term = 'a';


# Makes the address lead in another term, in one transaction; without an address
# nobody leads.

sub lead {
    my ($address, $prefix) = @_;

    $prefix //= '/db';

    my @former = map { [del => $_->{key}] } $etcd->list("$prefix/");
    my @next = $address ? [put => "$prefix/" . $term++, $address] : ();

    return $etcd->txn(@former, @next);
}


sub leads {
    my ($backend) = @_;

    my $revision = lead($backend);

    $_->sees($revision) for values %upstream;
}


# Waits until the leader has the request.

sub wait_asked {
    my ($backend, $n) = @_;

    return wait_for { $backend->requests >= $n } 10, 'the request';
}


sub wait_left {
    my ($backend) = @_;

    return wait_for { $backend->counts->{open} == 0 } 10, 'connections to end';
}


# true if a connection to the member that cannot be reached is tried

sub connecting {
    my ($upstream) = @_;

    my $member = $upstream->member('127.0.0.1:' . $full->sockport);

    return $member && $member->{conns};
}


# true if no more time than AT_ONCE has passed, without the time of stalls

sub at_once {
    my ($since) = @_;

    return $control->lasted($since, time()) < AT_ONCE * $slower;
}


# the answer, and whether it came in time

sub answer_of {
    my ($http, $since) = @_;

    my $answer = $http->receive_once();

    return ($answer, at_once($since));
}


sub raw {
    my ($request) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port);
    syswrite($socket, $request);

    return bless { socket => $socket, input => '' }, 'Line::Client';
}


# A leader is used once it is proved to be one.

wait_for { $nginx->status->{clusters}{default}{staleness_ms} >= 0 } 10,
    'a proof';

# The leader has answered nothing yet.

for my $method (qw(GET POST)) {
    leads($one->address);
    $_->reset for $one, $two;
    $one->set(hang => 1);

    my $http = $nginx->http;

    $http->send($method, "/wait/$method", $method eq 'POST' ? 'x' : undef);
    wait_asked($one, 1);

    my $since = time();

    lead($two->address);

    my ($answer, $in_time) = answer_of($http, $since);

    is($answer->{status}, 502, "$method: 502 when the leader changes");
    ok($in_time, 'at once');
    ok(wait_left($one), 'its connection is closed');
    is($two->requests, 0, 'nothing is sent to the new leader');
    is($nginx->get("/wait/$method")->{body}, 'two', 'the next request is');
}

ok(wait_for(sub { $nginx->log_of_access =~ m{^/wait/POST 502 502 \S+$}m }, 10),
   'it is logged as a failure of the upstream');

# The leader goes, and there is no other one.

leads($one->address);
$_->reset for $one, $two;

{
    my $http = $nginx->http;

    $http->send('GET', '/wait');
    wait_asked($one, 1);

    my $since = time();

    lead();

    my ($answer, $in_time) = answer_of($http, $since);

    is($answer->{status}, 502, '502 when the leader goes');
    ok($in_time, 'at once');
    ok(wait_left($one), 'its connection is closed');
}

# An error page answers such a request.

leads($one->address);
$_->reset for $one, $two;

{
    my $http = $nginx->http;

    $http->send('GET', '/page');
    wait_asked($one, 1);
    lead();

    my $answer = $http->receive_once();

    is("$answer->{status} $answer->{body}", '503 sorry', 'error_page');
    is($http->get('/sorry')->{status}, 200,
       'the client\'s connection is good for another request');
}

# a TLS handshake that does not end

leads($one->address);

{
    my $http = $nginx->http;

    $http->send('GET', '/tls');
    ok(wait_for(sub { $one->counts->{open} }, 10), 'a connection');
    lead();
    is($http->receive_once->{status}, 502, 'during a handshake');
    ok(wait_left($one), 'its connection is closed');
}

# a connection that is never established

leads('127.0.0.1:' . $full->sockport);

{
    my $http = $nginx->http;

    $http->send('GET', '/connect');
    ok(wait_for(sub { connecting($upstream{db}) }, 10), 'a connection');
    lead();
    is($http->receive_once->{status}, 502, 'while it connects');
}

# half of a body

leads($one->address);
$one->set(hang => 0);
$_->reset for $one, $two;

{
    my $client = raw("POST /body HTTP/1.1\r\nHost: a\r\n"
                     . "Content-Length: 100\r\n\r\nhalf");

    ok(wait_for(sub { $one->counts->{open} }, 10), 'a connection');
    lead($two->address);
    like($client->hear // '', qr{^HTTP/1\.1 502}, 'a body that is on its way');
    ok($client->is_closed(), 'its connection is of no use any more');
    ok(wait_left($one), 'neither is that to the leader');
    is($two->requests, 0, 'nothing is sent to the new leader');
}

# an answer has begun

for my $path (qw(/begun /begun/unbuffered /begun/cached)) {
    leads($one->address);
    $_->reset for $one, $two;

    my $client = raw("GET $path HTTP/1.1\r\nHost: a\r\n\r\n");

    wait_asked($one, 1);
    like($client->hear // '', qr{^HTTP/1\.1 200}, "$path: an answer begins");

    my $since = time();

    lead($two->address);

    ok($client->is_closed(), 'the client\'s connection is closed');
    ok(at_once($since), 'at once');
    ok(wait_left($one), 'so is the leader\'s');
    is($two->requests, 0, 'nothing is sent to the new leader');
}

# another protocol

sub upgrade {
    my $client = raw("GET /upgrade HTTP/1.1\r\nHost: a\r\nUpgrade: lines\r\n"
                     . "Connection: upgrade\r\n\r\n");

    my $line;

    do { $line = $client->hear } while defined $line && $line ne "\r";

    return $client;
}

leads($one->address);

{
    my $client = upgrade();

    is($client->ask('hello'), 'one: hello', 'another protocol');

    # The same leader is put again.

    my ($kv) = $etcd->list('/db/');

    $upstream{db}->sees($etcd->put($kv->{key}, $kv->{value}));
    is($client->ask('again'), 'one: again', 'it goes on while the leader does');
    $upstream{db}->sees($etcd->put($kv->{key},
                                   "{\"address\":\"$kv->{value}\","
                                   . '"max_conns":10}'));
    is($client->ask('more'), 'one: more', 'also when something else changes');

    my $since = time();

    lead($one->address);
    ok($client->is_closed(), 'it ends when the same one is elected again');
    ok(at_once($since), 'at once');
}

# The session of a worker that shuts down ends, too.

{
    my $client = upgrade();

    is($client->ask('hello'), 'one: hello', 'before a reload');
    ok($nginx->reload(), 'a reload');
    is($client->ask('hello'), 'one: hello', 'after it');
    ok(wait_for(sub { $nginx->leaving == 1 }, 10), 'in the old worker');
    lead($two->address);
    ok($client->is_closed(), 'its leader goes');
    ok(wait_for(sub { !$nginx->leaving }, 10), 'and it can exit');
}

# The reload takes away the upstream.

{
    my $client = upgrade();

    is($client->ask('hello'), 'two: hello', 'before another reload');
    ok($nginx->reload($config =~ s{etcd_leader /db on_change=close;}
                                  {etcd_leader /db2 on_change=close;}r), 'it');
    ok($client->is_closed(), 'of its leader nothing is known any more');
    ok($nginx->reload($config), 'back');
}

# kept connections

leads($one->address);
$_->reset for $one, $two;

$nginx->get('/cached') for 1 .. 6;
ok(wait_for(sub { $one->counts->{open} > 0 }, 10), 'connections are kept');
leads($two->address);
is_deeply($nginx->tally('/cached', 20, 2), { two => 20 },
          'they are not used when another one leads');

# on_change=keep

leads($one->address);
$_->reset for $one, $two;
$one->set(hang => 1);

{
    my $http = $nginx->http;

    $http->send('GET', '/keep');
    wait_asked($one, 1);
    leads($two->address);
    is($nginx->get('/keep')->{body}, 'two', 'keep: new requests go elsewhere');
    $one->set(hang => 0);
    is($http->receive_once->{body}, 'one', 'what is on its way is answered');
}

# No leader at all, many times, under load.

{
    my @clients;

    for my $n (1 .. 20) {
        leads($n % 2 ? $one->address : $two->address);
        push @clients, upgrade();
        is($clients[-1]->ask('hello'), ($n % 2 ? 'one' : 'two') . ': hello',
           "leader $n");
    }

    leads(undef);

    is(scalar(grep { $_->is_closed(5) } @clients), 20, 'none of 20 is left');
}


SKIP: {
    skip('this nginx has no stream', 1) if !$has_stream;

    my $lines = Upstream->new($nginx, 'lines', 'stream');

    my $follow = sub {
        my ($address) = @_;

        $lines->sees(lead($address, '/lines'));
    };

    $follow->($line1->address);

    my $client = Line::Client->new($nginx->port('PORT_LINES'));
    my $kept = Line::Client->new($nginx->port('PORT_KEPT'));

    is($client->ask('hello'), 'l1: hello', 'stream: a session');
    is($kept->ask('hello'), 'l1: hello', 'stream: another one, to be kept');

    my ($kv) = $etcd->list('/lines/');

    $lines->sees($etcd->put($kv->{key}, $kv->{value}));
    is($client->ask('again'), 'l1: again', 'stream: the leader says it again');

    my $since = time();

    lead(undef, '/lines');
    ok($client->is_closed(), 'stream: it ends when the leader goes');
    ok(at_once($since), 'stream: at once');
    is($kept->ask('again'), 'l1: again', 'stream: the other one goes on');
    $kept->close;
    ok(wait_left($line1), 'stream: no connection is left');

    $follow->($line2->address);
    is(Line::Client->new($nginx->port('PORT_LINES'))->ask('hello'),
       'l2: hello', 'stream: the next leader');

    # The leader reads nothing, so that much waits to be sent.

    $follow->('127.0.0.1:' . $full->sockport);
    $client = Line::Client->new($nginx->port('PORT_LINES'));
    $client->tell('x' x 1000);
    ok(wait_for(sub { connecting($lines) }, 10), 'stream: a connection');
    lead($line1->address, '/lines');
    ok($client->is_closed(), 'stream: while it connects');

    # The leader may take a handshake for lines.

    $line1->set(hang => 1);
    $client = Line::Client->new($nginx->port('PORT_TLS'));
    ok(wait_for(sub { $line1->counts->{open} }, 10), 'a connection');
    lead(undef, '/lines');
    ok($client->is_closed(), 'stream: during a handshake');
    ok(wait_left($line1), 'stream: no connection is left');
    $line1->set(hang => 0);

    $follow->($line1->address);

    my @clients = map { Line::Client->new($nginx->port('PORT_LINES')) }
                      1 .. 50;

    is(scalar(grep { $_->ask('hello') eq 'l1: hello' } @clients), 50,
       'stream: 50 sessions');
    ok($nginx->reload(), 'stream: a reload');
    is(scalar(grep { $_->ask('hello') eq 'l1: hello' } @clients), 50,
       'stream: they go on');
    lead($line2->address, '/lines');
    is(scalar(grep { $_->is_closed(5) } @clients), 50,
       'stream: and end in old workers');
    ok(wait_left($line1), 'stream: no connection is left');
}

# An exiting worker logs connections that it has left open.

ok($nginx->quit(), 'a graceful end');

$control->finished();

finish();


sub Nginx::log_of_access {
    my ($self) = @_;

    open(my $file, '<', $self->dir . '/access.log') or return '';
    local $/;

    return <$file> // '';
}
