#!/usr/bin/perl

# etcd_lock_serve: the client's connection is the lock.  What the client gets,
# when the lock is free again, and how the client learns that it is lost.
# Leases that are not meant to end are longer than any test may take.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Becomes;
use Curl;
use Etcd;
use Finish;
use Http2;
use Lock;
use Nginx;
use Process;
use Tls;
use Wait;

use constant {
    TTL  => 3,
    LONG => 600,
    MANY => 200,           # more pings than lines that fit into one page

    # curl has one of these statuses when an answer is cut

    PARTIAL => 18,
    RECV    => 56,
    STREAM  => 92,
};

plan(skip_all => 'this nginx has no TLS or auth_request')
    if !Nginx::has(qw(http_ssl_module http_auth_request_module));

my $etcd = Etcd->new()->start();
my $server = Tls->new('ca')->issue('server');
my $nginx = Nginx->new(etcd => $etcd)->set(
    TTL      => LONG,
    REQUEST  => LONG,
    SHUTDOWN => LONG,
    CERT     => $server->cert,
    KEY      => $server->key,
);

my $config = <<'END';

worker_processes 1;
worker_shutdown_timeout %%SHUTDOWN%%s;

etcd {
    endpoints %%ETCD%%;
    lock_ttl %%TTL%%s;
    request_timeout %%REQUEST%%s;
}

http {
    log_format lock "$request_method $uri $status $etcd_lock_result";

    server {
        listen 127.0.0.1:%%PORT%%;
        listen unix:%%DIR%%/socket;
        listen 127.0.0.1:%%PORT_TLS%% ssl;
        HTTP2

        ssl_certificate %%CERT%%;
        ssl_certificate_key %%KEY%%;

        access_log %%DIR%%/access.log lock;

        location = /status {
            etcd_status;
        }

        location /one {
            etcd_lock /locks/one;
            etcd_lock_serve;
        }

        location /ping {
            etcd_lock /locks/ping;
            etcd_lock_serve;
            etcd_lock_serve_ping 5ms;
        }

        location /wait {
            etcd_lock /locks/wait wait=600s queue=1;
            etcd_lock_serve;
        }

        location /some {
            etcd_lock /locks/some permits=2;
            etcd_lock_serve;
        }

        location /two {
            etcd_lock /locks/two $arg_a;
            etcd_lock /locks/first;
            etcd_lock_serve;
        }

        location /page {
            etcd_lock /locks/one;
            error_page 423 = /sorry;
            etcd_lock_serve;
        }

        location /limited {
            etcd_lock /locks/one;
            etcd_lock_serve;
            limit_except GET { allow 127.0.0.1; deny all; }
        }

        location /busy {
            etcd_lock /locks/before;
            etcd_lock /locks/one;
            error_page 423 = @instead;
            etcd_lock_serve;
        }

        location @instead {
            etcd_lock /locks/instead;
            etcd_lock_serve;
        }

        location /via {
            proxy_pass http://127.0.0.1:%%PORT%%/one;
            proxy_http_version 1.1;
        }

        location /old {
            proxy_pass http://127.0.0.1:%%PORT%%/one;
        }

        location /sorry {
            return 200 sorry;
        }

        location /sub {
            auth_request /one;
            root %%DIR%%;
        }

        location /redirected {
            error_page 418 =200 /one;
            return 418;
        }
    }
}

END

$config =~ s/HTTP2/Http2::listens('PORT_H2')/e;
$nginx->start($config);

my $lock = Lock->new($nginx, $etcd);
my @h2 = Nginx::has('http_v2_module')
         ? ['HTTP/2', 'PORT_H2', STREAM, '--http2-prior-knowledge'] : ();


sub url {
    my ($path, $port) = @_;

    my $scheme = ($port // '') eq 'PORT_TLS' ? 'https' : 'http';

    return "$scheme://127.0.0.1:" . $nginx->port($port) . $path;
}


sub curl { return Curl->start(url($_[0]), @_[1 .. $#_]) }
sub key { return ($lock->keys("/locks/$_[0]"))[0] }

# an answer without its comments

sub plain { $_[0] =~ s/^# held \d+\.\d{3}\n//mgr }


# true if the connection got the lock; the key's create revision is the token

sub has_token {
    my ($curl, $name, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $token = $curl->token;
    my ($key) = $etcd->list("/locks/$name/");

    return is($token, $key && $key->{create_revision}, "$what: the token");
}


# A client gets the token, and nobody else gets the lock.

my $holder = curl('/one');

has_token($holder, 'one', 'the lock is held');
is(plain($holder->body), 'token ' . $holder->token . "\n",
   'and nothing else comes');
like($holder->head, qr{^HTTP/1.1 200 .*^Content-Type: text/plain\r$}ms,
     'the answer is a text');
like($holder->head, qr/^Cache-Control: no-store\r$/m, 'that nobody keeps');
like($holder->head, qr/^X-Accel-Buffering: no\r$/m, 'or holds back');
like($holder->head, qr/^Transfer-Encoding: chunked\r$/m, 'in chunks');
is(curl('/one', '-f')->ended, 22, 'another client does not get the lock');
is($nginx->get('/one')->{status}, 423, 'as with all locks');
is($nginx->get('/page')->{body}, 'sorry', 'there may be a page for it');

my $instead = curl('/busy');

has_token($instead, 'instead', 'or another lock');
ok($instead->came(qr/\n# held .*\n/), 'and how long it lasts');
like($instead->body, qr/\A.*\n# held [1-9]\d*\.\d+\n/,
     'which is held, whatever has become of the first ones');
$instead->leave;
$lock->gone('/locks/instead', 'until its client ends');
ok(wait_for(sub { grep { /^GET \/busy/ } $nginx->lines_of('access.log') }, 10),
   'it is logged');
is(join('', grep { /^GET \/busy/ } $nginx->lines_of('access.log')),
   "GET /busy 200 acquired\n", 'with the result of the lock that it had');

my $began = time();

$holder->leave;
wait_for { !key('one') } 10, 'the key to be gone';
diag(sprintf('the key is gone %.0f ms after the client',
             1000 * (time() - $began)));
$lock->gone('/locks/one', 'the client ends: so does the lock');

$holder = curl('/one');
has_token($holder, 'one', 'again');
kill('KILL', $holder->pid);
$lock->gone('/locks/one', 'the client is killed: so is the lock');
$holder->ended;


# Requests that cannot be a lock.

my $acquired = $lock->count('/locks/one', 'acquired');

for my $method (qw(HEAD PUT DELETE OPTIONS)) {
    my $answer = Curl->start(url('/one'), $method eq 'HEAD' ? '-I'
                                          : ('-X', $method));

    $answer->ended;
    like($answer->head, qr{^HTTP/1.1 405 }, "$method is refused");
}

is($nginx->get('/sub')->{status}, 500, 'a subrequest is refused');
is($nginx->count_log(qr/auth request unexpected status: 405/), 1, 'likewise');
is($lock->count('/locks/one', 'acquired'), $acquired, 'none takes the lock');


# Ways to ask.

$holder = curl('/one', '-d', 'x' x 100_000);
has_token($holder, 'one', 'POST with a body');
$holder->leave;
$lock->gone('/locks/one', 'and after it');

for my $method (qw(GET POST)) {
    $holder = curl('/limited', '-X', $method);
    has_token($holder, 'one', "limit_except: $method");
    $holder->leave;
    $lock->gone('/locks/one', "limit_except: $method has an end");
}

my $half = $nginx->http;

$half->send('POST', '/one', undef, 'Content-Length' => 10);
$lock->holds('/locks/one', 1, 'half of a body');
$etcd->del(key('one'));
is($half->receive_once->{status}, 503, 'the lock is lost before it was told');

$holder = curl('/redirected');
has_token($holder, 'one', 'an error page');
$holder->leave;
$lock->gone('/locks/one', 'and its end');

$holder = curl('/two?a=x');
$holder->came(qr/\n/);
is(plain($holder->body), 'token ' . join(', ', map { ($etcd->list($_))[0]
                                              {create_revision} }
                                  '/locks/first/', '/locks/two/x/') . "\n",
   'two locks have two tokens');
$holder->leave;
$lock->gone("/locks/$_", "both are given up: $_") for 'first', 'two/x';


# The end of the stream tells of the loss, as does its last line.

for (
    ['HTTP/1.1', 'PORT', PARTIAL],
    ['HTTP/1.0', 'PORT', RECV, '-0'],
    ['a unix socket', 'PORT', PARTIAL, '--unix-socket',
     $nginx->dir . '/socket'],
    ['TLS', 'PORT_TLS', PARTIAL, '-k', '--http1.1'],
    ['a proxy by via, of HTTP/1.1', 'PORT', PARTIAL],
    ['a proxy by old, of HTTP/1.0', 'PORT', PARTIAL],
    @h2,
)
{
    my ($what, $port, $status, @options) = @$_;
    my $path = $what =~ /^a proxy by (\w+)/ ? "/$1" : '/one';
    my $curl = Curl->start(url($path, $port), @options);

    has_token($curl, 'one', $what);
    $etcd->del(key('one'));
    is($curl->ended, $status, "$what: the lock is lost, the answer is cut");

    # curl passes nothing on that comes together with a reset stream

    like(plain($curl->body), qr/^token \d+\nlost\n\z/, "$what: after a line")
        if $status != STREAM;

    $curl = Curl->start(url($path, $port), @options);
    has_token($curl, 'one', "$what, to leave");
    $curl->leave;
    $lock->gone('/locks/one', "$what: the client ends, so does the lock");
}

if (@h2) {
    my $client = Http2->new($nginx->port('PORT_H2'));
    my $stream = $client->ask('/one');

    like($client->begun($stream), qr/^token/, 'HTTP/2: the lock is held');
    $etcd->del(key('one'));
    is($client->answer($stream), 'reset', 'HTTP/2: the stream is reset');
    like($client->begun($stream), qr/^lost\n/m, 'HTTP/2: after a line');
    ok($client->is_open, 'HTTP/2: and no other');
}

is(join(' ', grep { /lost/ } $nginx->lines_of('access.log')),
   join(' ', "POST /one 503 lost\n", ("GET /one 200 lost\n") x (6 + 2 * @h2)),
   'the log has it');


# wait=, queue= and permits=.

$holder = curl('/wait');
has_token($holder, 'wait', 'the first');

my $waiter = curl('/wait');

$lock->waits('/locks/wait', 1, 'another one waits');
is($nginx->get('/wait')->{status}, 423, 'the queue is full');
is($waiter->head, '', 'nothing is said to one that waits');
$holder->leave;
has_token($waiter, 'wait', 'its turn');

my $gone = curl('/wait');

$lock->waits('/locks/wait', 1, 'a third one waits');
$gone->leave;
$lock->waits('/locks/wait', 0, 'and leaves');
$waiter->leave;

my @some = map { curl('/some') } 1, 2;

ok($_->token, 'one of two permits') for @some;
is($nginx->get('/some')->{status}, 423, 'there is no third');
$some[0]->leave;
$lock->holds('/locks/some', 1, 'one is free');
push @some, curl('/some');
ok($some[2]->token, 'and taken');
$_->leave for @some;


# Comments, which take no memory however many they are.

my ($worker) = $nginx->workers;

$holder = curl('/ping');
$holder->came(qr/\Atoken \d+\n(?:# held \d+\.\d{3}\n){10}/);

my $before = own_memory($worker);

wait_for { ($holder->body =~ tr/#//) > MANY } 60, 'many pings';
like($holder->body, qr/\Atoken \d+\n(?:# held \d+\.\d{3}\n)+(?:#[^\n]*)?\z/,
     'comments say that the lock is held');

my @left = $holder->body =~ /^# held (\d+\.\d+)$/mg;

is_deeply([grep { $_ <= 0 || $_ > LONG } @left], [], 'and for how long');

SKIP: {
    skip('a sanitizer takes memory of its own', 1)
        if Nginx::built_with() =~ /-fsanitize/;
    cmp_ok(own_memory($worker) - $before, '<=', 16, 'and take no memory');
}

$holder->leave;


# A client that reads nothing is no reason to lose the lock.

$holder = curl('/ping');
has_token($holder, 'ping', 'a client');
suspend($holder->pid);
$etcd->del(key('ping'));
$lock->gone('/locks/ping', 'the lock of a client that stands still is lost');
kill('CONT', $holder->pid);
is($holder->ended, PARTIAL, 'which it learns when it goes on');


# A reload.

$holder = curl('/one');
has_token($holder, 'one', 'before a reload');
$nginx->reload;
is(scalar($nginx->leaving), 1, 'the old worker stays');
is($nginx->get('/one')->{status}, 423, 'the lock is held after the reload');
$holder->leave;
$lock->gone('/locks/one', 'until the client ends');
ok(wait_for(sub { !$nginx->leaving }, 20), 'and the old worker with it');

$nginx->set(SHUTDOWN => 1);
$nginx->reload($config, gone => 1);
$holder = curl('/one');
has_token($holder, 'one', 'before another reload');
$nginx->reload;
is($holder->ended, PARTIAL, 'worker_shutdown_timeout ends the stream');
unlike($holder->body, qr/lost/, 'it is not lost but over');
$lock->gone('/locks/one', 'and free');
$holder = curl('/one');
has_token($holder, 'one', 'the new worker gives it');
$holder->leave;


# The lease ends; etcd does not answer.

$holder = curl('/one');
has_token($holder, 'one', 'before the lease ends');
$etcd->revoke($_) for $etcd->leases;
is($holder->ended, PARTIAL, 'the lease is revoked: the stream ends');

$nginx->set(TTL => TTL, REQUEST => 1, SHUTDOWN => LONG);
$nginx->reload($config, gone => 1);
$holder = curl('/one');
has_token($holder, 'one', 'before etcd stands still');
$etcd->freeze;
is($holder->ended, PARTIAL, 'etcd stands still: the stream ends');
like($holder->body, qr/^lost\n\z/m, 'with a line');
$etcd->thaw;


# The worker stands still for longer than the lease: the lock is lost before
# anything else is sent.

ok(wait_for(sub {
    $holder = curl('/ping', '-f');
    $holder->came(qr/^token/);
}, 20), 'a lock, with etcd back');
($worker) = $nginx->workers;
$nginx->freeze($worker);
wait_for { !key('ping') } 20, 'the lease to expire';

my $length = length($holder->body);

$nginx->thaw($worker);
is($holder->ended, PARTIAL, 'a worker that stood still ends the stream');
is(substr($holder->body, $length), "lost\n", 'without another comment');

finish();
