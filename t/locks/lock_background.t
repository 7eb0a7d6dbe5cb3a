#!/usr/bin/perl

# A lock that is lost while background subrequests of its request run, such as
# mirrors: these end as well, and a client that has its answer keeps it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
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
my ($one, $two, $three) = Begun->start('one', 'two', 'three');

$etcd->put('/services/mirrored/1', $three->address);

my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $one->address,
                                           TWO => $two->address,
                                           THREE => $three->address);

$nginx->start(<<'EOF_CONFIG');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    upstream absent {
        etcd_members /services/absent/;
    }

    upstream mirrored {
        etcd_members /services/mirrored/ close_after=1s;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_H2%% http2;

        add_header X-Client $connection always;
        add_header X-Cache $upstream_cache_status always;
        proxy_read_timeout 600s;
        proxy_cache_key $request_id;
        proxy_cache_valid 200 600s;

        location = /status {
            etcd_status;
        }

        location = /mirrored {
            etcd_lock /locks/main wait=60s;
            mirror /part;
            mirror /begun;
            proxy_pass http://%%TWO%%;
        }

        location = /waiting {
            etcd_lock /locks/main wait=60s;
            mirror /part;
            mirror /awaited;
            proxy_pass http://%%TWO%%;
        }

        location = /queued {
            etcd_lock /locks/main wait=60s;
            mirror /own;
            proxy_pass http://%%TWO%%;
        }

        location = /two {
            proxy_pass http://%%TWO%%;
        }

        location = /part {
            proxy_pass http://%%ONE%%;
        }

        # nginx reads the answer for a mirror only if it is for the cache

        location = /begun {
            proxy_cache cache;
            proxy_pass http://%%THREE%%;
        }

        location = /awaited {
            etcd_wait absent 600s;
            proxy_pass http://absent;
        }

        location = /locked {
            mirror /own;
            proxy_pass http://%%TWO%%;
        }

        location = /own {
            etcd_lock /locks/mirror wait=60s;
            proxy_cache cache;
            proxy_pass http://%%THREE%%/begun;
        }

        location = /former {
            mirror /member;
            proxy_pass http://%%TWO%%;
        }

        location = /member {
            proxy_cache cache;
            proxy_pass http://mirrored/begun;
        }

        location = /updated {
            etcd_lock /locks/update wait=60s;
            proxy_cache cache;
            proxy_cache_key updated;
            proxy_cache_valid 200 1s;
            proxy_cache_use_stale updating;
            proxy_cache_background_update on;
            proxy_pass http://%%ONE%%;
        }
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);
my ($worker) = $nginx->workers;


sub lose {
    my ($name) = @_;

    $etcd->del($lock->keys("/locks/$name"));
}


# A test: so many connections of each backend.

sub become_open {
    my ($wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        join(' ', map { $_->counts->{open} } $one, $two, $three)
    } $wanted, $name;
}


# Two mirrors are left: one has no answer, the other a part of one.

$one->set(hang => 1);

my $client = $nginx->http;
my $answer = $client->get('/mirrored');
my $connection = $answer->{headers}{'x-client'};

is($answer->{body}, 'two', 'mirrors: the client has its answer');
become_open('1 0 1', 'the mirrors are left');
$lock->holds('/locks/main', 1, 'with the lock');
lose('main');
become_open('0 0 0', 'it is lost: they end');
$lock->holds('/locks/main', 0, 'and the request');

$answer = $client->get('/mirrored');
is($answer->{body}, 'two', 'the client may ask again');
is($answer->{headers}{'x-client'}, $connection, 'by the same connection');
become_open('1 0 1', 'mirrors are left again');
lose('main');
become_open('0 0 0', 'they end as well');

my $h2 = Http2->new($nginx->port('PORT_H2'));

for my $time (qw(first second)) {
    is($h2->answer($h2->ask('/mirrored')), '200 two', "HTTP/2, $time: 200");
    become_open('1 0 1', "HTTP/2, $time: the mirrors are left");
    lose('main');
    become_open('0 0 0', "HTTP/2, $time: they end");
}


# The request itself has no answer yet.

$two->set(hang => 1);
$client = $nginx->begin('/mirrored');
become_open('1 1 1', 'a request and its mirrors');
lose('main');
is($client->receive->{status}, 503, 'the lock is lost: the request is cut');
become_open('0 0 0', 'and its mirrors');
$two->set(hang => 0);


# A mirror waits for a member.

$client = $nginx->http;
is($client->get('/waiting')->{body}, 'two', 'the client has its answer');
$nginx->upstream('absent')->holds(1, 'a mirror waits');
become_open('1 0 0', 'the other works');
lose('main');
$nginx->upstream('absent')->holds(0, 'it waits no longer');
become_open('0 0 0', 'the other has ended');
$lock->holds('/locks/main', 0, 'and the request');


# A mirror waits for a member or for a lock, and the request has no answer.

$etcd->put('/locks/mirror/another', '');

for (['/waiting', '1 1 0', sub { $nginx->upstream('absent')->holds(@_) }],
     ['/queued', '0 1 0', sub { $lock->waits('/locks/mirror', @_) }])
{
    my ($path, $open, $waits) = @$_;

    $two->set(hang => 1);
    $client = $nginx->begin($path);
    become_open($open, "$path: a request");
    $waits->(1, "$path: its mirror waits");
    lose('main');
    $waits->(0, "$path: the lock is lost, it waits no longer");
    become_open('0 0 0', "$path: nothing works");
    $two->set(hang => 0);
    $answer = $client->receive;
    is($answer->{status}, 503, "$path: the request is cut");
    is($client->get('/two')->{headers}{'x-client'},
       $answer->{headers}{'x-client'}, "$path: the connection is not");
}

$etcd->del('/locks/mirror/another');


# The mirror has a lock of its own, or a member that leaves.

for (['/locked', sub { lose('mirror') }, 'a lock of the mirror'],
     ['/former', sub { $etcd->del('/services/mirrored/1') }, 'a member'])
{
    my ($path, $end, $name) = @$_;

    for my $answered (0, 1) {
        my $revision = $etcd->put('/services/mirrored/1', $three->address);

        $nginx->upstream('mirrored')->sees($revision);

        $two->set(hang => !$answered);
        $client = $nginx->begin($path);
        $answer = $client->receive if $answered;

        become_open("0 @{[1 - $answered]} 1", "$name: the mirror works");
        $end->();
        become_open("0 @{[1 - $answered]} 0", "$name is lost: the mirror ends");

        $two->set(hang => 0);
        $answer = $client->receive if !$answered;
        is($answer->{body}, 'two', "$name: the request goes on");

        $connection = $answer->{headers}{'x-client'};
        is($client->get('/two')->{headers}{'x-client'}, $connection,
           "$name: and so does the connection");
    }
}


# A cached response is updated in the background.

$one->set(hang => 0);
$client = $nginx->http;
is($client->get('/updated')->{body}, 'one', 'a response for the cache');
$lock->gone('/locks/update', 'the lock is given up');
$one->set(hang => 1);
ok(wait_for(sub {
       ($answer = $client->get('/updated'))->{headers}{'x-cache'} eq 'STALE'
   }, 20), 'it is old');
is($answer->{body}, 'one', 'the client has it');
become_open('1 0 0', 'it is updated');
$connection = $answer->{headers}{'x-client'};
lose('update');
become_open('0 0 0', 'the lock is lost: the update ends');
$one->set(hang => 0);
$answer = $client->get('/updated');
is($answer->{body}, 'one', 'the next request is answered');
is($answer->{headers}{'x-client'}, $connection, 'by the same connection');
$lock->gone('/locks/update', 'nothing is left');

is_deeply([$nginx->workers], [$worker], 'the worker is still the same');

finish();
