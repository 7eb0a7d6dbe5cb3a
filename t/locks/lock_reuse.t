#!/usr/bin/perl

# "reuse=NUMBER,TIME": a lock that is released is kept for a moment, for the
# next request of the same worker, unless another worker wants it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Control;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Wait;

use constant {
    MANY   => 1100,                 # a key is passed on 1023 times
    OLDEST => 10,                   # seconds after which it is not
};

my $control = Control->start();
my $etcd = Etcd->new()->start();
my $backend = Backend->start('one');

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        root %%DIR%%;
        add_header X-Token $etcd_lock_token always;
        add_header X-Wait $etcd_lock_wait always;
        keepalive_requests 10000;

        location = /status {
            etcd_status;
        }

        location /long {
            etcd_lock /locks/long wait=60s reuse=1,10s;
        }

        location /hold {
            etcd_lock /locks/long wait=60s reuse=1,10s;
            proxy_pass http://%%ONE%%;
        }

        location /wait {
            etcd_lock /locks/wait wait=60s reuse=1024;
            proxy_pass http://%%ONE%%;
        }

        location /short {
            etcd_lock /locks/short wait=60s reuse=1,300ms;
        }

        location /without {
            etcd_lock /locks/without wait=60s;
        }
    }
}

END

my ($nginx, $second) = map {
    Nginx->new(etcd => $etcd)->set(ONE => $backend->address)->start($config)
} 1, 2;
my $lock = Lock->new($nginx, $etcd);
my $last = 0;


# Tokens grow with every request, at any nginx.

sub take {
    my ($from, $path) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $token = $from->get($path)->{headers}{'x-token'} // 0;

    cmp_ok($token, '>', $last, 'a greater token');

    return $last = $token;
}


# The lock is kept, and the worker knows that nobody else is there: within the
# ten seconds of a key it is likely to find that out.

sub is_kept {
    my ($path, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(wait_for(sub {
           my $before = $etcd->revision;
           my $token = $nginx->get($path)->{headers}{'x-token'};

           if ($token <= $last) {
               diag("token $token after $last");
               return 0;
           }

           $last = $token;
           $etcd->revision == $before;
       }, 20, $name), $name);
}


# without a TIME, and with it

my $before = $etcd->revision;

take($nginx, '/without');
$lock->gone('/locks/without', 'a lock without a TIME is given up');
is($etcd->revision, $before + 2, 'by two writes');
$last = 0;

take($nginx, '/long');
is(scalar(() = $lock->keys('/locks/long')), 1, 'one with it is kept');
$lock->holds('/locks/long', 0, 'and held by nobody');
is_kept('/long', 'the next request takes it without a write');

my ($key) = $lock->keys('/locks/long');
my $created = ($etcd->list('/locks/long/'))[0]{create_revision};

is($last >> 10, $created, 'the token is that of the key');
take($nginx, '/long');
is(scalar(grep { $_ eq $key } $lock->keys('/locks/long')), 1, 'as before');


# The time is over.

take($nginx, '/short') for 1 .. 2;
$last = 0;
$lock->gone('/locks/short', 'a lock that nobody takes is given up');


# Another nginx does not wait until the time is over.

for (1 .. 3) {
    is_kept('/long', 'a lock is kept');

    my $asked = time();
    my $answer = $second->get('/long');

    is($answer->{status}, 404, 'another nginx gets it');
    cmp_ok($answer->{headers}{'x-wait'} - $control->since($asked), '<', 5,
           'at once');
    cmp_ok($answer->{headers}{'x-token'}, '>', $last, 'with a greater token');
    $last = $answer->{headers}{'x-token'};
}

# Another program, which puts a key, does not wait either.

is_kept('/long', 'a lock is kept');
$etcd->put('/locks/long/1', '');
ok(wait_for(sub { "@{[$lock->keys('/locks/long')]}" eq '/locks/long/1' }, 20,
            'the key'), 'another program gets it');
$etcd->del('/locks/long/1');


# Another nginx waits: the next request of this worker does not get the lock
# first.

$backend->set(hang => 1);

my @clients;

for my $from ($nginx, $second, $nginx) {
    my $client = $from->http;

    $client->send('GET', '/hold');
    push @clients, $client;

    wait_for {
        my $waiting = 0;

        $waiting += Lock->new($_, $etcd)->count('/locks/long', 'waiting')
            for $nginx, $second;

        $waiting == @clients - 1 && $backend->requests == 1
    } 20, 'a request that waits';
}

$backend->set(hang => 0);

my @tokens = map { $_->receive->{headers}{'x-token'} } @clients;

cmp_ok($tokens[1], '>', $tokens[0], 'the first one is followed by the other');
cmp_ok($tokens[2], '>', $tokens[1], 'and that by the third');
$last = $tokens[2];


# A kept lock may be lost.

is_kept('/long', 'a lock is kept');
$etcd->del($lock->keys('/locks/long'));
take($nginx, '/long');
is_kept('/long', 'its key was deleted: a lock is kept again');
$etcd->revoke($_) for $etcd->leases;
ok(wait_for(sub { $nginx->get('/long')->{status} == 404 }, 30, 'a lock'),
   'its lease is gone: a lock is had again');
$last = $nginx->get('/long')->{headers}{'x-token'};
is_kept('/long', 'and kept');
is($lock->count('/locks/long', 'lost'), 0, 'no request has lost anything');


# A read that was made for a request lets in no other one: the request leaves,
# and a later one gets a new key.

$etcd->del($lock->keys('/locks/long'));
is_kept('/long', 'a lock is kept by a new key');
$created = $last >> 10;

$etcd->freeze;
@clients = map { $nginx->http } 1, 2;

for my $i (0, 1) {
    $clients[$i]->send('GET', '/long');
    $lock->waits('/locks/long', $i + 1, 'a request that waits for etcd');
}

shift(@clients)->close;
$lock->waits('/locks/long', 1, 'the first one has left');
$etcd->thaw;

$last = $clients[0]->receive->{headers}{'x-token'};
cmp_ok($last >> 10, '>', $created, 'the later one gets another key');


# Requests wait, and the one that holds the lock takes its time.

$backend->set(hang => 1);
$backend->reset;
@clients = map { $nginx->http } 1, 2;
$clients[0]->send('GET', '/wait');
wait_for { $backend->requests == 1 } 20, 'a request';
$clients[1]->send('GET', '/wait');
$lock->waits('/locks/wait', 1, 'another one waits');

my $begin = time();


# A token is never given twice, however often a key is passed on.

my $http = $nginx->http;
my $grows = 0;
my %created;

for (1 .. MANY) {
    my $token = $http->get('/long')->{headers}{'x-token'};

    $grows++ if $token > $last;
    $created{$token >> 10} = 1;
    $last = $token;
}

is($grows, MANY, 'all tokens grow');
cmp_ok(scalar(keys %created), '>', 1, 'beyond what a key has tokens for');
cmp_ok(scalar(keys %created), '<', MANY / 2, 'most requests write nothing');


# The key is as old as a key may be: the request that waits gets another one.

wait_for { time() - $begin > OLDEST } 30, 'ten seconds';
$backend->set(hang => 0);
@tokens = map { $_->receive->{headers}{'x-token'} >> 10 } @clients;
cmp_ok($tokens[1], '>', $tokens[0], 'after ten seconds another key is put');


# A worker that ends keeps nothing.

is_kept('/long', 'a lock is kept');
$_->quit for $nginx, $second;
is_deeply([$lock->keys('/locks/long')], [], 'and given up with the worker');

$control->finished();

finish();
