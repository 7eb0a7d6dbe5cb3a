#!/usr/bin/perl

# A request that holds a lock, and ends when its upstream begins, long after its
# phases: the body came later, or another request had the cache's lock, and
# there is no server then.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http2;
use Lock;
use Nginx;
use Wait;

plan(skip_all => 'this nginx has no HTTP/2')
    if !Nginx::has('http_v2_module');

my $etcd = Etcd->new()->start();
my $backend = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $backend->address);

$nginx->start(<<'EOF_CONFIG');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    upstream empty {
        etcd_members /services/empty/;
    }

    upstream sets {
        etcd_members /sets/$arg_set/;
    }

    upstream down {
        server 127.0.0.1:1 down;
        server 127.0.0.1:2 down;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_H2%% http2;

        proxy_cache_key key;
        proxy_cache_lock on;
        proxy_cache_lock_timeout 600s;
        proxy_cache_lock_age 600s;
        proxy_cache_valid 200 600s;

        location = /status {
            etcd_status;
        }

        location = /empty {
            etcd_lock /locks/body wait=60s;
            proxy_pass http://empty;
        }

        location = /set {
            etcd_lock /locks/body wait=60s;
            proxy_pass http://sets;
        }

        location = /down {
            etcd_lock /locks/body wait=60s;
            proxy_pass http://down;
        }

        location = /first {
            etcd_lock /locks/cache 1 wait=60s;
            proxy_cache cache;
            proxy_pass http://%%ONE%%;
        }

        location = /next {
            etcd_lock /locks/cache 2 wait=60s;
            proxy_cache cache;
            proxy_pass http://down;
        }
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);
my ($worker) = $nginx->workers;


for (['/empty', 502, 'no member'], ['/set?set=1', 404, 'no such set'],
     ['/down', 502, 'no server'])
{
    my ($path, $status, $name) = @$_;

    for my $connection (qw(keep-alive close)) {
        my $client = $nginx->http;

        $client->send('POST', $path, undef, 'Content-Length' => 5,
                      Connection => $connection);
        $lock->holds('/locks/body', 1, "$name: the body is awaited");
        $client->write_all('hello');

        is($client->receive->{status}, $status, "$name: $connection");
        $lock->gone('/locks/body', "$name: the lock is given up");
    }

    my $client = Http2->new($nginx->port('PORT_H2'));
    my $stream = $client->ask($path, '');

    $lock->holds('/locks/body', 1, "$name: the body is awaited by HTTP/2");
    $client->end_body($stream, 'hello');

    like($client->answer($stream), qr/^$status /, "$name: HTTP/2");
    $lock->gone('/locks/body', "$name: the lock is given up");
}


# The request waits for a response in the cache, which does not come.

$backend->set(hang => 1, status => 404);

my $first = $nginx->begin('/first');

wait_for { $backend->requests == 1 } 10, 'the first request';

my $next = $nginx->begin('/next');

$lock->holds('/locks/cache', 2, 'another one waits for its response');
$backend->set(hang => 0);
is($first->receive->{status}, 404, 'it cannot be cached');
is($next->receive->{status}, 502, 'there is no server for the other one');
$lock->gone('/locks/cache', 'the locks are given up');

is_deeply([$nginx->workers], [$worker], 'the worker is still the same');

finish();
