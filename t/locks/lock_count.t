#!/usr/bin/perl

# A connection that outlives its request, since the lock is kept until the
# backend has answered, counts for max_conns of its member.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my $backend = Backend->start('one');

$etcd->put('/members/1', $backend->address);

my $nginx = Nginx->new(etcd => $etcd);

$nginx->start(<<'EOF_CONFIG');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    upstream plain {
        etcd_members /members/ max_conns=1;
    }

    upstream kept {
        etcd_members /members/ max_conns=1;
        etcd_balance least_conn;
        keepalive 4;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        proxy_http_version 1.1;
        proxy_set_header Connection "";

        location = /status {
            etcd_status;
        }

        location = /plain {
            etcd_lock /locks/plain $arg_k wait=60s;
            proxy_pass http://plain;
        }

        location = /kept {
            etcd_lock /locks/kept $arg_k wait=60s;
            proxy_pass http://kept;
        }

        location = /waits/plain {
            etcd_wait plain 60s full;
            proxy_pass http://plain;
        }

        location = /waits/kept {
            etcd_wait kept 60s full;
            proxy_pass http://kept;
        }
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);
my $left = 0;


sub count {
    my ($name, $n, $test) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        $nginx->upstream($name)->status->{members}[0]{conns} // -1
    } $n, "$name: $test";
}


for my $name (qw(plain kept)) {
    ok(wait_for(sub { $nginx->get("/$name?k=0")->{status} == 200 }, 10),
       "$name: the member");
    count($name, 0, 'no connection is used');

    for my $end ('an answer', 'the loss of the lock') {
        $backend->reset();
        $backend->set(hang => 1);

        my $client = $nginx->begin("/$name?k=1");

        wait_for { $backend->requests == 1 } 10, 'the request';
        count($name, 1, 'a request');
        $client->close;
        $left++;
        wait_for {
            $nginx->count_log(qr/locks are kept until upstream/) == $left
        } 10, 'the end of the client';
        $lock->holds("/locks/$name", 1, "$name: the client has left");
        count($name, 1, 'the connection counts');
        is($nginx->get("/$name?k=2")->{status}, 502, "$name: no other one");

        my $waiter = $nginx->begin("/waits/$name");

        $nginx->upstream($name)->holds(1, "$name: a request waits");
        is($backend->requests, 1, "$name: the backend has one request");

        if ($end eq 'an answer') {
            $backend->set(hang => 0);

        } else {
            $etcd->del($lock->keys("/locks/$name"));
            wait_for { $backend->requests == 2 } 10, 'the next request';
            $backend->set(hang => 0);
        }

        is($waiter->receive->{status}, 200, "$name: it goes on after $end");
        is($backend->counts->{most}, 1, "$name: never two at a time");
        count($name, 0, 'no connection is left');
        $lock->gone("/locks/$name", "$name: nor a lock");
    }
}

finish();
