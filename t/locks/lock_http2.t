#!/usr/bin/perl

# Locks and clients of HTTP/2: requests on one connection wait for each other,
# hold nobody else up, and each leaves by itself.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Begun;
use Etcd;
use Finish;
use Http2;
use Lock;
use Nginx;
use Wait;

plan(skip_all => 'this nginx has no HTTP/2')
    if !Nginx::has('http_v2_module');

my $etcd = Etcd->new()->start();
my ($backend) = Begun->start('one');

my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(ONE => $backend->address)->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_http_version 1.1;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_H2%% http2;

        postpone_output 0;
        etcd_lock_hold client;

        location / {
            etcd_lock /locks/one wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location /begun {
            etcd_lock /locks/one wait=600s;
            proxy_pass http://%%ONE%%;
            proxy_buffering off;
        }

        location /free {
            return 200 free;
        }
    }
}

EOF

my $lock = Lock->new($nginx, $etcd);


# a request that has the lock, and one behind it

sub two {
    my ($client, $path, $what) = @_;

    $backend->reset;
    $backend->set(hang => $path eq '/' ? 1 : 0);

    my $holder = $client->ask($path);

    ok(wait_for(sub { $backend->requests == 1 }, 10), "$what: it is begun");

    my $waiter = $client->ask('/waits');

    $lock->waits('/locks/one', 1, "$what: another one waits");
    is($client->answer($client->ask('/free')), '200 free',
       "$what: what needs no lock does not");

    return ($holder, $waiter);
}


# The two requests have the lock one after the other.

my $client = Http2->new($nginx->port('PORT_H2'));
my ($holder, $waiter) = two($client, '/', 'in turn');

is($backend->requests, 1, 'one request is with the backend');
$backend->set(hang => 0);
is($client->answer($_), '200 one', 'each is answered') for $holder, $waiter;
is($backend->requests, 2, 'and was there once');

# The request that waits is cancelled, then the request that holds the lock.

($holder, $waiter) = two($client, '/', 'cancel');

$client->cancel($waiter);
$lock->waits('/locks/one', 0, 'nobody waits');
$lock->holds('/locks/one', 1, 'the other one holds it');

$waiter = $client->ask('/waits');
$lock->waits('/locks/one', 1, 'one waits again');
$client->cancel($holder);
ok(wait_for(sub { $backend->requests == 2 }, 10), 'it has its turn');
$backend->set(hang => 0);
is($client->answer($waiter), '200 one', 'and is answered');

# The lock is lost.

for (['/', qr/^503 /, 'nothing of it was sent'],
     ['/begun', qr/^reset$/, 'its answer had begun'])
{
    my ($path, $wanted, $what) = @$_;

    ($holder, $waiter) = two($client, $path, "lost, $what");

    if ($path eq '/begun') {
        is($client->begun($holder), 'begun', 'it is begun with the client');
    }

    $etcd->del(($lock->keys('/locks/one'))[0]);
    like($client->answer($holder), $wanted, "a lock is lost: $what");
    ok(wait_for(sub { $backend->requests == 2 }, 10),
       'the next one has its turn');
    $backend->set(hang => 0);
    is($client->answer($waiter), '200 one', 'and is answered');
    is($client->answer($client->ask('/free')), '200 free',
       'the connection goes on');
}

ok($client->is_open, 'it was good all the time');

# The connection ends with both requests.

($holder, $waiter) = two($client, '/', 'the client is gone');

$client->hang_up();
$lock->gone('/locks/one', 'nothing is left');
$lock->holds('/locks/one', 0, 'nobody has it');
$lock->waits('/locks/one', 0, 'nobody waits');
is($backend->requests, 1, 'and nobody had a turn');

$backend->set(hang => 0);
$client = Http2->new($nginx->port('PORT_H2'));
is($client->answer($client->ask('/')), '200 one', 'the lock is free');
ok($nginx->quit(), 'nginx ends');
is(scalar(() = $etcd->leases), 0, 'no lease is left');

finish();
