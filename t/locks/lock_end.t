#!/usr/bin/perl

# However a request ends, its lock is given up; and its answer does not wait for
# that.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my ($backend, $closed) = Backend->start('one', 'two');

$closed->down;

my $nginx = Nginx->new(etcd => $etcd)->set(BACKEND => $backend->address,
                                           CLOSED => $closed->address);

$nginx->start(<<'EOC');

worker_shutdown_timeout 1s;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_lock off;
            etcd_status;
        }

        etcd_lock /locks/one wait=20s;
        etcd_lock_hold client;

        location / {
            proxy_pass http://%%BACKEND%%;
        }

        location /closed {
            proxy_pass http://%%CLOSED%%;
        }

        location /slow {
            proxy_read_timeout 300ms;
            proxy_pass http://%%BACKEND%%;
        }
    }
}

EOC

my $lock = Lock->new($nginx, $etcd);

sub acquired { $lock->count('/locks/one', 'acquired') }


# the client of a request that holds the lock

sub holding {
    my ($path, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $client = $nginx->http;

    $client->{timeout} = 60;
    $client->send('GET', $path);
    $lock->holds('/locks/one', 1, "$name: the lock is held");

    return $client;
}


is($nginx->get('/')->{status}, 200, 'a request with a lock');
$lock->gone('/locks/one', 'it is given up');

is($nginx->get('/closed')->{status}, 502, 'the backend refuses');
$lock->gone('/locks/one', 'refused: it is given up');

$backend->set(hang => 1);

# The request has the lock while it waits; that may be over when the test looks.

my $acquired = acquired();

is($nginx->get('/slow')->{status}, 504, 'no answer in time');
is(acquired(), $acquired + 1, 'no answer in time: the lock was held');
$lock->gone('/locks/one', 'no answer in time: it is given up');

holding('/', 'a client goes away')->close;
$lock->gone('/locks/one', 'a client goes away: it is given up');

# A worker that shuts down has a second for its requests.

my $cut = holding('/', 'a worker shuts down');

$nginx->reload();
$lock->gone('/locks/one', 'a worker shuts down: it is given up in time');
isnt($cut->receive->{status} // 0, 200, 'and the request is cut');

# etcd does not answer any more: it has to be told, but the request does not
# wait for it.

my $last = holding('/', 'etcd hangs');

$etcd->freeze();
$backend->set(hang => 0);
is($last->receive->{status}, 200, 'etcd hangs: the request is answered');
$etcd->thaw();
$lock->gone('/locks/one', 'etcd goes on: the lock is given up');

finish();
