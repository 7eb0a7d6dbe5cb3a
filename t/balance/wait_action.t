#!/usr/bin/perl

# "post_action" goes on with a request after its client has left, also if the
# request has waited for a member, a connection or a lock: the end of that wait
# is not for what the request does now.

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
my ($one, $two) = Backend->start('one', 'two');

$etcd->put('/services/full/1', $one->address);

my $nginx = Nginx->new(etcd => $etcd)->set(TWO => $two->address);

$nginx->start(<<'EOF_CONFIG');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    upstream full {
        etcd_members /services/full/ max_conns=1;
    }

    upstream absent {
        etcd_members /services/absent/;
    }

    proxy_read_timeout 600s;
    proxy_http_version 1.0;      # nginx 1.29.7 and later keeps others open

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /one {
            proxy_pass http://full;
        }

        location = /two {
            proxy_pass http://%%TWO%%;
        }

        location = /member {
            etcd_wait absent 600s;
            post_action /two;
            proxy_pass http://absent;
        }

        location = /short {
            etcd_wait full 2s full;
            post_action /two;
            proxy_pass http://full;
        }

        location = /connection {
            etcd_wait full 600s full;
            post_action /two;
            proxy_pass http://full;
        }

        location = /lock {
            etcd_lock /locks/main wait=600s;
            post_action /two;
            proxy_pass http://full;
        }

        location = /same {
            etcd_lock /locks/main wait=600s;
            post_action /again;
            proxy_pass http://full;
        }

        location = /itself {
            etcd_lock /locks/main wait=600s;
            post_action /itself;
            proxy_pass http://%%TWO%%;
        }

        location = /again {
            etcd_lock /locks/main wait=600s;
            proxy_pass http://%%TWO%%;
        }
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);
my ($worker) = $nginx->workers;


# A test: so many connections of each backend.

sub become_open {
    my ($wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        join(' ', map { $_->counts->{open} } $one, $two)
    } $wanted, $name;
}


# Tests: the client of a request that waits leaves, "post_action" asks the
# second backend, then the wait ends.

sub leaves {
    my ($path, $waits, $end) = @_;

    my $open = $one->counts->{open};

    $two->set(hang => 1);

    my $client = $nginx->begin($path);

    $waits->("$path: a request waits");
    $client->close;
    become_open("$open 1", "$path: its client leaves");
    $end->();
    is($nginx->get('/status')->{status}, 200, "$path: the wait has ended");
    is($two->counts->{open}, 1, "$path: nothing else has");
    $two->set(hang => 0);
    become_open('0 0', "$path: the request has ended");
    is_deeply([$nginx->workers], [$worker], "$path: the worker lives");
}


# a client whose request has the only connection

sub fill {
    $one->set(hang => 1);

    my $client = $nginx->begin('/one');

    become_open('1 0', 'a member is full');

    return $client;
}


$nginx->upstream('full')->sees($etcd->revision);

leaves('/member', sub { $nginx->upstream('absent')->holds(1, @_) }, sub {
    my $revision = $etcd->put('/services/absent/1', $one->address);

    $nginx->upstream('absent')->sees($revision);
    $nginx->upstream('absent')->holds(0, '/member: a member registers');
});

for my $path ('/connection', '/short') {
    my $client = fill();

    leaves($path, sub { $nginx->upstream('full')->holds(1, @_) }, sub {
        if ($path eq '/connection') {
            $one->set(hang => 0);
            is($client->receive->{body}, 'one', "$path: another one ends");
        }

        $nginx->upstream('full')->holds(0, "$path: it waits no longer");

        if ($path eq '/short') {
            $one->set(hang => 0);
            is($client->receive->{body}, 'one', "$path: another one ends");
        }
    });
}

$etcd->put('/locks/main/another', '');

leaves('/lock', sub { $lock->waits('/locks/main', 1, @_) }, sub {
    $etcd->del('/locks/main/another');
    $lock->holds('/locks/main', 1, '/lock: the lock is free');
});

$lock->gone('/locks/main', 'the lock is given up');


# The other location, or the same one, needs the same lock.

for my $path ('/same', '/itself') {
    $etcd->put('/locks/main/another', '');

    my $client = $nginx->begin($path);

    $lock->waits('/locks/main', 1, "$path: a request waits");
    $client->close;
    $two->reset;
    is($nginx->get('/two')->{body}, 'two', "$path: its client leaves");
    $lock->waits('/locks/main', 1, "$path: the request still waits");
    $etcd->del('/locks/main/another');
    ok(wait_for(sub { $two->requests >= 2 }, 20),
       "$path: the lock is free, it goes on");
    $lock->gone('/locks/main', "$path: the lock is given up");
}

is_deeply([$nginx->workers], [$worker], 'the worker is still the same');
ok($nginx->quit, 'and ends, as no request is left');

finish();
