#!/usr/bin/perl

# Two thousand connections that are locks: the memory that each of them takes,
# with the permits of one lock, and with a lock of its own, beside connections
# of nginx alone that last.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Lock;
use Nginx;
use Process;
use Wait;

use constant {
    N     => 2000,
    FIRST => 10,           # have what is made once
    STEP  => 100,          # at a time
};

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(N => N, LONG => 'x' x N)->start(<<'EOF');

worker_processes 1;
worker_rlimit_nofile 8192;

events {
    worker_connections 4096;
}

etcd {
    endpoints %%ETCD%%;
    lock_ttl 600s;
}

http {
    etcd_lock_serve_ping 600s;

    # one block for a request, instead of two of 4 KB

    request_pool_size 7k;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /plain {
            limit_rate 1;
            return 200 %%LONG%%;
        }

        location /permits {
            etcd_lock /locks/permits wait=600s permits=%%N%%;
            etcd_lock_serve;
        }

        location ~ ^/key/(?<key>\d+)$ {
            etcd_lock /locks/keys $key;
            etcd_lock_serve;
        }
    }
}

EOF

my $lock = Lock->new($nginx, $etcd);

sub all_hold { $lock->held("/locks/$_[0]", $_[1], 60) }


# An answer of nginx that comes byte by byte.

sub plain_memory {
    my ($first, @held);
    my ($worker) = $nginx->workers;

    for my $n (1 .. N) {
        push @held, $lock->connection('/plain');
        $held[-1]->sysread(my $byte, 1) or last;
        $first = own_memory($worker) if $n == FIRST;
    }

    return @held == N && (own_memory($worker) - $first) / (N - FIRST);
}


my $plain = plain_memory();

ok($plain, N . ' connections have an answer of nginx');
diag(sprintf('nginx alone: %.1f kB each', $plain));

for (['permits', '/permits', 10], ['keys', '/key/', 12]) {
    my ($name, $path, $most) = @$_;
    my ($first, @held);

    # a worker that has no memory left of locks before

    $nginx->reload(undef, gone => 1);

    my ($worker) = $nginx->workers;

    for my $n (1 .. N) {
        push @held, $lock->connection($path =~ m{/$} ? "$path$n" : $path);
        all_hold($name, $n) || last if $n % STEP == 0 || $n == FIRST;
        $first = own_memory($worker) if $n == FIRST;
    }

    ok(all_hold($name, N), "$name: " . N . ' connections have their locks');

    my $each = (own_memory($worker) - $first) / (N - FIRST);

    diag(sprintf('%s: %.1f kB each', $name, $each));

    SKIP: {
        skip('a sanitizer takes memory of its own', 1)
            if Nginx::built_with() =~ /-fsanitize/;
        cmp_ok($each, '<=', $most, "$name: at most $most kB each");
    }

    @held = ();
    ok(all_hold($name, 0), "$name: all are free");
    ok(wait_for(sub { !$lock->keys("/locks/$name") }, 60),
       "$name: and leave nothing");
}

finish();
