#!/usr/bin/perl

# "queue=": requests for which there is a permit do not count, and while etcd
# has not answered they wait, too.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Lock;
use Nginx;

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
    request_timeout 60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location /some {
            etcd_lock /locks/some wait=60s permits=3 queue=2;
            empty_gif;
        }

        location /now {
            etcd_lock /locks/some permits=3;
            empty_gif;
        }

        location /one {
            etcd_lock /locks/one wait=60s queue=1;
            empty_gif;
        }

        location /shared {
            etcd_lock /locks/shared wait=60s queue=1 shared=$arg_read;
            empty_gif;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd);


# Requests that wait, with the answers that they get at last.

sub wait_all {
    my ($name, @uris) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @clients;

    for my $uri (@uris) {
        push @clients, $nginx->begin($uri);
        $lock->waits($name, scalar(@clients), "$uri waits");
    }

    return @clients;
}


sub is_full {
    my ($uri) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is($nginx->get($uri)->{status}, 423, "$uri: no more");
}


sub are_let_in {
    my ($test, @clients) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is(join(' ', map { $_->receive->{status} } @clients),
       join(' ', (200) x @clients), $test);
}


# Nobody holds the lock, but etcd has not said so.

is($nginx->get($_)->{status}, 200, "$_ is free") for qw(/some /one /shared);
$etcd->freeze;

my @clients = (wait_all('/locks/some', ('/some') x 5),
               wait_all('/locks/one', ('/one') x 2),
               wait_all('/locks/shared', ('/shared?read=1') x 5));

is_full($_) for qw(/some /one /shared);
push @clients, $nginx->begin('/shared?read=1');
$lock->waits('/locks/shared', 6, 'one that shares the lock does wait');
$etcd->thaw;
are_let_in('etcd answers: all are let in', @clients);


# A request that wants the lock alone is known.

$etcd->freeze;
@clients = wait_all('/locks/shared', '/shared', '/shared?read=1');
is_full('/shared?read=1');
$etcd->thaw;
are_let_in('etcd answers: both are let in', @clients);


# Others are known to hold the lock.

$etcd->put("/locks/some/$_", '') for 1 .. 3;
@clients = wait_all('/locks/some', '/some');
is_full('/now');
push @clients, $nginx->begin('/some');
$lock->waits('/locks/some', 2, 'another one waits');
is_full('/some');
$etcd->del("/locks/some/$_") for 1 .. 3;
are_let_in('others end: both are let in', @clients);
$lock->gone('/locks', 'nothing is left');

finish();
