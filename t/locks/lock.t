#!/usr/bin/perl

# etcd_lock for http: one request at a time, from any client.  Waiting times are
# longer than any test may take, unless their end is what is tested.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Http;
use Lock;
use Nginx;
use Wait;

use constant CLIENTS => 30;

my $etcd = Etcd->new()->start();
my $backend = Backend->start('one');

my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $backend->address);

$nginx->start(<<'END');

worker_processes 2;

events {
    worker_connections 1024;
}

etcd {
    endpoints %%ETCD%%;
    namespace /ns;
}

http {
    log_format lock "$uri $status $etcd_lock_result $etcd_lock_token";
    log_format wait "$status $etcd_lock_wait";

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        access_log %%DIR%%/access.log lock;
        access_log %%DIR%%/wait.log wait;
        add_header X-Token $etcd_lock_token always;
        add_header X-Status $etcd_lock_result always;
        add_header X-Former $etcd_lock_status always;
        add_header X-Wait $etcd_lock_wait always;
        add_header X-Worker $pid always;

        location = /status {
            etcd_status;
        }

        location /free {
            proxy_pass http://%%ONE%%;
        }

        location /one {
            etcd_lock /locks/one wait=600s;
            etcd_lock_hold client;
            proxy_pass http://%%ONE%%;
        }

        location /handoff {
            etcd_lock /locks/handoff wait=600s reuse=5;
            proxy_pass http://%%ONE%%;
        }

        location /permits {
            etcd_lock /locks/permits wait=600s permits=3;
            proxy_pass http://%%ONE%%;
        }

        location /now {
            etcd_lock /locks/now;
            proxy_pass http://%%ONE%%;

            location /now/off {
                etcd_lock off;
                proxy_pass http://%%ONE%%;
            }

            location /now/inherited {
                proxy_pass http://%%ONE%%;
            }
        }

        location /vain {
            etcd_lock /locks/vain wait=300ms;
            etcd_lock_status 409;
            proxy_pass http://%%ONE%%;
        }

        location /key {
            etcd_lock /locks/key $arg_k;
            proxy_pass http://%%ONE%%;
        }

        location /denied {
            deny all;
            etcd_lock /locks/denied;
            proxy_pass http://%%ONE%%;
        }

        location /full {
            etcd_lock /locks/full wait=600s queue=2;
            proxy_pass http://%%ONE%%;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd, '/ns');

sub get { return $nginx->http->get(@_) }


# nginx asks etcd nothing before a request needs a lock.

is_deeply([$etcd->leases], [], 'no lease without a request for a lock');
is(get('/free')->{headers}{'x-status'}, undef, 'no lock, no status');

my $answer = get('/one');

is($answer->{status}, 200, 'a free lock lets in');
is($answer->{headers}{'x-status'}, 'acquired', 'and says so');
is($answer->{headers}{'x-former'}, 'acquired', 'also by the former name');
like($answer->{headers}{'x-wait'}, qr/^\d+\.\d{3}$/, 'and how long it took');
like($answer->{headers}{'x-token'}, qr/^[1-9]\d*$/, 'and by which token');

my $next = get('/one');

cmp_ok($next->{headers}{'x-token'}, '>', $answer->{headers}{'x-token'},
       'the next token is greater');
$lock->gone('/locks/one', 'nothing is left in etcd');


# Many requests at a time, in two workers: all are there before the first one
# leaves, of as many as may be inside.

sub crowd {
    my ($path, $inside) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $backend->reset;
    $backend->set(hang => 1, delay => 0.005);

    my @clients = map { $nginx->begin($path) } 1 .. CLIENTS;

    $lock->holds("/locks$path", $inside, "$path: as many are inside");
    $lock->waits("/locks$path", CLIENTS - $inside, "$path: others wait");
    $backend->set(hang => 0);

    return map { $_->receive } @clients;
}


my @answers = crowd('/one', 1);

is(join(' ', map { $_->{status} } @answers), join(' ', (200) x CLIENTS),
   'all get their turn');
is($backend->counts->{most}, 1, 'one at a time');

my %tokens = map { $_->{headers}{'x-token'} => 1 } @answers;
my %workers = map { $_->{headers}{'x-worker'} => 1 } @answers;

is(scalar(keys %tokens), CLIENTS, 'by tokens of their own');
is(scalar(keys %workers), 2, 'in both workers');
$lock->gone('/locks/one', 'nothing is left after that');
$lock->counts('/locks/one', { held => 0, waiting => 0, timeouts => 0,
                              acquired => CLIENTS + 2, lost => 0,
                              handoffs => 0 }, 'as counted');

@answers = crowd('/handoff', 1);

is(join(' ', map { $_->{status} } @answers), join(' ', (200) x CLIENTS),
   'all get their turn with handoff');
is($backend->counts->{most}, 1, 'one at a time');

%tokens = map { $_->{headers}{'x-token'} => 1 } @answers;

is(scalar(keys %tokens), CLIENTS, 'by tokens of their own');
cmp_ok($lock->count('/locks/handoff', 'handoffs'), '>', CLIENTS / 2,
       'most of them were handed over');
$lock->gone('/locks/handoff', 'nothing is left after that');

@answers = crowd('/permits', 3);
is(join(' ', map { $_->{status} } @answers), join(' ', (200) x CLIENTS),
   'all get their turn with permits');
cmp_ok($backend->counts->{most}, '<=', 3, 'as many as there are permits');
cmp_ok($backend->counts->{most}, '>', 1, 'and not one by one');
$lock->gone('/locks/permits', 'nothing is left after that');

$backend->set(delay => 0);


# a lock that is held

my $requests = $backend->requests;

$backend->set(hang => 1);

my $holder = $nginx->begin('/now');

$lock->holds('/locks/now', 1, 'a request holds the lock');
$answer = get('/now');
is($answer->{status}, 423, 'another one does not wait');
is($answer->{headers}{'retry-after'}, 1, 'and may come again');
is($answer->{headers}{'x-status'}, 'timeout', 'says the status');
is(get('/now/inherited')->{status}, 423, 'a location inherits the lock');

my $off = $nginx->begin('/now/off');
wait_for { $backend->requests == $requests + 2 } 10, 'the one without a lock';
is($backend->requests, $requests + 2, 'a location may be without it');

$backend->set(hang => 0);
is(Http::statuses($holder, $off), '200 200', 'the holder is answered');
$lock->gone('/locks/now', 'the lock is free');
is(get('/now')->{status}, 200, 'and let in');

$backend->set(hang => 1);
$holder = $nginx->begin('/vain');
$lock->holds('/locks/vain', 1, 'a request holds another lock');
$answer = get('/vain');
is($answer->{status}, 409, 'who waits in vain gets the status');
cmp_ok($answer->{headers}{'x-wait'}, '>=', 0.3, 'after the time');
$lock->counts('/locks/vain', { held => 1, waiting => 0, acquired => 1,
                               timeouts => 1, lost => 0, handoffs => 0 },
              'as counted');
$backend->set(hang => 0);
is($holder->receive->{status}, 200, 'the holder is answered');


# clients that leave

$backend->set(hang => 1);
$holder = $nginx->begin('/one');
$lock->holds('/locks/one', 1, 'a request holds a lock');

my @waiters = map { $nginx->begin('/one') } 1 .. 6;

$lock->waits('/locks/one', 6, 'others wait');

my $since = time();

wait_for { time() - $since >= 0.1 } 10, 'a time to be logged';
$_->close for @waiters[0 .. 4];
$lock->waits('/locks/one', 1, 'those that leave wait no longer');

my $left = sub { map { /^499 (.*)$/ ? $1 : () } $nginx->lines_of('wait.log') };

ok(wait_for(sub { $left->() == 5 }, 10), 'each is logged');
is(scalar(grep { $_ >= 0.1 } $left->()), 5, 'with the time that it waited');
$holder->close;
$lock->waits('/locks/one', 0, 'the holder leaves: it is the turn of the last');
$backend->set(hang => 0);
is($waiters[5]->receive->{status}, 200, 'which is answered');
$lock->gone('/locks/one', 'nothing is left');

$backend->set(hang => 1);
$holder = $nginx->begin('/one');
$lock->holds('/locks/one', 1, 'a request holds a lock');
@waiters = map { $nginx->begin('/one') } 1 .. 20;
$lock->waits('/locks/one', 20, 'others wait');
$_->close for @waiters, $holder;
$lock->gone('/locks/one', 'all leave: nothing is left');
$lock->waits('/locks/one', 0, 'and nobody waits');
$backend->set(hang => 0);
is(get('/one')->{status}, 200, 'the lock is free');


# The queue is bounded in each worker.

$backend->set(hang => 1);
$holder = $nginx->begin('/full');
$lock->holds('/locks/full', 1, 'a request holds a lock');
@waiters = map { $nginx->begin('/full') } 1 .. 20;
wait_for { $lock->count('/locks/full', 'timeouts') >= 15 } 10, 'refusals';
$backend->set(hang => 0);

@answers = sort map { $_->receive->{status} } @waiters;
is($holder->receive->{status}, 200, 'the holder is answered');
cmp_ok(scalar(grep { $_ == 200 } @answers), '<=', 5,
       'two wait in each worker, and no more');
cmp_ok(scalar(grep { $_ == 423 } @answers), '>=', 15, 'others are refused');


# keys

$backend->set(hang => 1);

my %seen = (
    'a'             => 'a',
    'a%2Fb'         => 'a%252Fb',
    'a/b'           => 'a%2Fb',
    '.'             => '%2E',
    '..'            => '%2E%2E',
    'a..b~c_d-E'    => 'a..b~c_d-E',
    '../one'        => '..%2Fone',
    "\xc3\xbc"      => '%C3%BC',
);

for my $key (sort keys %seen) {
    my $client = $nginx->begin("/key?k=$key");

    wait_for { $lock->keys("/locks/key/$seen{$key}") } 10, $key;
    is(scalar(() = $lock->keys("/locks/key/$seen{$key}")), 1,
       "key $key is one segment");
    is(get("/key?k=$key")->{status}, 423, 'and held');
    $client->close;
}

$backend->set(hang => 0);
is(get('/key?k=')->{status}, 400, 'an empty key');
is(get('/key?k=' . 'x' x 4096)->{status}, 200, 'a long key');
$lock->gone('/locks/key', 'nothing is left');

is(get('/denied')->{status}, 403, 'who is not let in takes no lock');
is($lock->count('/locks/denied', 'acquired'), 0, 'so it is counted');

wait_for {
    grep { m{^/vain 409} } $nginx->lines_of('access.log')
} 10, 'the access log';

my ($line) = grep { m{^/vain 409} } $nginx->lines_of('access.log');
is($line, "/vain 409 timeout -\n", 'the access log has the status');
ok((grep { m{^/one 200 acquired \d+$} } $nginx->lines_of('access.log')),
   'and the token');

cmp_ok(scalar(() = $etcd->leases), '<=', 2, 'one lease for each worker');
$nginx->quit;
is_deeply([$etcd->leases], [], 'given up when nginx ends');

finish();
