#!/usr/bin/perl

# A lock is kept while the backend works on a request: though the client has
# left, though nginx has given up on the backend, but not for ever.

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
use Register;
use Wait;

plan(skip_all => 'this nginx has no HTTP/2')
    if !Nginx::has('http_v2_module');

my $etcd = Etcd->new()->start();
my $register = Register->start(work => 0);
my ($backend) = Begun->start('one');

my $nginx = Nginx->new(etcd => $etcd)->set(
    REGISTER => $register->address,
    ONE      => $backend->address,
);

$nginx->start(<<'EOF_CONFIG');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    upstream two {
        server %%REGISTER%% max_fails=0;
        server %%REGISTER%% max_fails=0;
    }

    upstream kept {
        server %%ONE%%;
        keepalive 8;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_H2%% http2;

        proxy_method POST;
        proxy_set_header X-Request $arg_id;
        proxy_set_header X-Stay $arg_stay;
        proxy_next_upstream off;

        location = /status {
            etcd_status;
        }

        location /left {
            etcd_lock /locks/left wait=60s;
            proxy_pass http://%%REGISTER%%/work?;
        }

        location /late {
            etcd_lock /locks/late wait=60s;
            proxy_read_timeout 300ms;
            proxy_pass http://%%REGISTER%%/work?;
        }

        location /unbuffered {
            etcd_lock /locks/unbuffered wait=60s;
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_pass http://%%REGISTER%%/work?;
        }

        location /named {
            etcd_lock /locks/named wait=60s;
            set $upstream %%REGISTER%%;
            proxy_pass http://$upstream/work?;
        }

        location /next {
            etcd_lock /locks/next wait=60s;
            proxy_read_timeout 300ms;
            proxy_next_upstream timeout non_idempotent;
            proxy_pass http://two/work?;
        }

        location /redirected {
            etcd_lock /locks/redirected wait=60s;
            proxy_read_timeout 300ms;
            error_page 504 =200 /sorry;
            proxy_pass http://%%REGISTER%%/work?;
        }

        location = /sorry {
            return 200 sorry;
        }

        location /client {
            etcd_lock /locks/client wait=60s;
            etcd_lock_hold client;
            proxy_pass http://%%REGISTER%%/work?;
        }

        location /bounded {
            etcd_lock /locks/bounded wait=60s;
            etcd_lock_max_hold 300ms;
            proxy_pass http://%%REGISTER%%/work?;
        }

        location /kept {
            etcd_lock /locks/kept wait=60s;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://kept/;
        }

        location /upgrade {
            etcd_lock /locks/upgrade wait=60s;
            proxy_method GET;
            proxy_http_version 1.1;
            proxy_set_header Connection upgrade;
            proxy_set_header Upgrade lines;
            proxy_pass http://%%ONE%%/upgrade;
        }
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);


# a request that works for so many seconds; returns its client

sub begin {
    my ($path, $id, $stay) = @_;

    my $client = $nginx->http;

    $client->send('POST', "/$path?id=$path-$id&stay=$stay", '');

    return $client;
}


sub begun {
    my ($path, $id) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(wait_for(sub { $register->count('enter', "$path-$id") }, 10),
       "$path: the $id one works");
}


sub wrote { $register->count('write', "$_[0]-$_[1]") }


# events of requests of that path, in their order

sub history {
    my ($path) = @_;

    return join(' ', map { "$_->{what}-" . $_->{request} =~ s/.*-//r }
                     grep { ($_->{request} // '') =~ /^\Q$path\E-/
                            && $_->{what} =~ /^(?:enter|write)$/ }
                     $register->history);
}

my $in_turn = qr/^enter-first write-first enter-second write-second$/;
my $mixed = qr/^enter-first enter-second /;


# A request is abandoned while it is with the backend, and the next one comes.

sub in_turn {
    my ($path, $leaves, $wanted, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $first = begin($path, 'first', 2);

    begun($path, 'first');
    $leaves->($first);

    my $second = begin($path, 'second', 0.2);

    ok(wait_for(sub { wrote($path, 'first') && wrote($path, 'second') }, 20),
       "$path: both have worked");
    like(history($path), $wanted, "$path: $what");
    is($second->receive->{status}, 200, "$path: the second one is answered");
    $lock->gone("/locks/$path", "$path: nothing is left");
    $lock->holds("/locks/$path", 0, "$path: nobody holds the lock");
}

my $leave = sub { $_[0]->close };
my $late = sub { is($_[0]->receive->{status}, $_[1] // 504, 'too late') };

in_turn('left', $leave, $in_turn, 'the client is gone');
in_turn('unbuffered', $leave, $in_turn, 'the client is gone, no buffers');
in_turn('named', $leave, $in_turn, 'the client is gone, a variable upstream');
in_turn('late', $late, $in_turn, 'a timeout');
in_turn('redirected', sub { $late->($_[0], 200) }, $in_turn,
        'a timeout with an error page');
in_turn('client', $leave, $mixed, 'the lock is held for the client alone');
in_turn('next', $late, qr/^(?:enter-first\ ){2}(?:write-first\ ){2}
                           enter-second\ write-second$/x,
        'a timeout, twice');


# HTTP/2: a stream is reset, a connection is closed.

my $client = Http2->new($nginx->port('PORT_H2'));

for (['reset', sub { $client->cancel($_[0]) }],
     ['hang_up', sub { $client->hang_up }])
{
    my ($name, $leaves) = @$_;
    my $stream = $client->ask("/left?id=$name-first&stay=2");

    begun($name, 'first');
    $leaves->($stream);

    is($nginx->get("/left?id=$name-second&stay=0.2")->{status}, 200,
       "HTTP/2, $name: the next one is let in");
    like(history($name), $in_turn, "HTTP/2, $name: after the first one");
}


# the status, and a lock that is lost after its client has left, or after its
# request

for (['left', $leave, qr{lock "/locks/left" is lost, aborting}],
     ['late', $late, qr/is lost after its request has ended/])
{
    my ($path, $leaves, $report) = @$_;
    my $kept = $nginx->count_log(qr/locks are kept until upstream/);
    my $client = begin($path, 'lost', 5);

    begun($path, 'lost');
    $leaves->($client);
    wait_for {
        $nginx->count_log(qr/locks are kept until upstream/) > $kept
    } 10, 'it';
    $lock->holds("/locks/$path", 1, "$path: a lock that is kept is held");
    is(scalar(@{ $lock->list("/locks/$path", 'holders') // [] }), 1,
       "$path: by a holder that is shown");
    $etcd->del(($lock->keys("/locks/$path"))[0]);
    $lock->holds("/locks/$path", 0, "$path: it is lost");
    ok(wait_for(sub { $register->count('gone', "$path-lost") }, 3),
       "$path: the connection is closed then");
    $nginx->logs($report, 1, "$path: which is reported");
}


# A lock is not kept for ever.

my $first = begin('bounded', 'first', 100);
begun('bounded', 'first');
$first->close;
is($nginx->get('/bounded?id=bounded-second&stay=0')->{status}, 200,
   'the time is over');
$nginx->logs(qr/locks are released although upstream/, 1, 'which is reported');


# kept connections, and tunnels

$backend->set(hang => 1);
$first = $nginx->http;
$first->send('GET', '/kept');
ok(wait_for(sub { $backend->requests == 1 }, 10), 'the backend works');
$first->close;
wait_for { $nginx->count_log(qr{has answered.*"GET /kept }) } 10, 'it';
$lock->holds('/locks/kept', 1, 'a lock is kept');
is($backend->counts->{open}, 1, 'as the connection is');
$backend->set(hang => 0);
is($nginx->get('/kept')->{status}, 200, 'the lock is free after the answer');

$first = $nginx->http;
$first->send('GET', '/upgrade', undef, Upgrade => 'lines',
             Connection => 'upgrade');
$lock->holds('/locks/upgrade', 1, 'a tunnel');
ok(wait_for(sub { $backend->requests == 3 }, 10), 'is made');
$first->close;
$lock->gone('/locks/upgrade', 'a tunnel ends with its client');


# A worker that ends stays until the backend is done.

$first = begin('left', 'reload', 3);
begun('left', 'reload');
$first->close;
$nginx->reload;
is($nginx->get('/left?id=left-after&stay=0')->{status}, 200,
   'after a reload the lock is free again');
is(wrote('left', 'reload'), 1, 'once the backend has written');
ok(wait_for(sub { !$nginx->leaving }, 10), 'the old workers are gone');

$first = begin('left', 'quit', 2);
begun('left', 'quit');
$first->close;
ok($nginx->quit, 'nginx ends');
is(wrote('left', 'quit'), 1, 'after the backend has written');
is(scalar(() = $etcd->leases), 0, 'no lease is left');

finish();
