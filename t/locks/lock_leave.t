#!/usr/bin/perl

# Very many requests for one lock, of which many leave while they wait or hold
# it, and foreign keys below a lock.

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

use constant {
    REQUESTS => 1500,
    AT_ONCE  => 60,
};

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
}

http {
    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location = /status {
            etcd_status;
        }

        location /one {
            etcd_lock /locks/one wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location /handoff {
            etcd_lock /locks/handoff wait=600s reuse=9;
            proxy_pass http://%%ONE%%;
        }

        location /foreign {
            etcd_lock /locks/foreign wait=200ms;
            proxy_pass http://%%ONE%%;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd);

srand(1);

for my $name (qw(one handoff)) {
    my (@clients, %answers);
    my $left = 0;

    $backend->reset;

    for (1 .. REQUESTS) {
        push @clients, $nginx->begin("/$name");
        @clients < AT_ONCE and next;

        my ($client) = splice(@clients, int(rand(@clients)), 1);

        if (rand() < 0.5) {
            $client->close;
            $left++;

        } else {
            $answers{$client->receive->{status}}++;
        }
    }

    $answers{$_->receive->{status}}++ for @clients;

    is_deeply(\%answers, { 200 => REQUESTS - $left },
              "$name: all that stay are answered");
    $lock->gone("/locks/$name", "$name: nothing is left");
    $lock->holds("/locks/$name", 0, "$name: nobody has the lock");
    $lock->waits("/locks/$name", 0, "$name: nobody waits");
    is($lock->count("/locks/$name", 'lost'), 0, "$name: none was lost");
    is($nginx->get("/$name")->{status}, 200, "$name: it is free");
}


# a foreign key, of any name

$etcd->put('/locks/foreign/not-a-lease', 'x');
is($nginx->get('/foreign')->{status}, 423, 'a foreign key counts');
is($nginx->get('/foreign')->{status}, 423, 'again');
my $reports = $nginx->count_log(qr/not-a-lease" is not named after a lease/);

ok($reports == 1 || $reports == 2, 'and is reported once by a worker');
$etcd->del('/locks/foreign/not-a-lease');
ok(wait_for(sub { $nginx->get('/foreign')->{status} == 200 }, 10, 'the lock'),
   'without it the lock is free');
$lock->gone('/locks/foreign', 'and nothing is left');
$nginx->quit;
is(scalar(() = $etcd->leases), 0, 'no lease is left');

finish();
