#!/usr/bin/perl

# A worker that was stopped until its lock was granted to another client: the
# answer of the upstream that it finds when it goes on comes too late.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Door;
use Etcd;
use Finish;
use Line;
use Nginx;
use Wait;

# long enough for all steps before a worker is stopped

use constant TTL => 5;

my $etcd = Etcd->new()->start();
my $door = Door->new();
my $nginx = Nginx->new(etcd => $etcd)->set(
    DOOR => $door->address,
    TTL  => TTL,
)->start(<<'EOF_CONFIG');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl %%TTL%%s;
}

http {
    log_format status $etcd_lock_result;

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/status.log status;

        location / {
            etcd_lock /locks/one wait=30s;
            proxy_pass http://%%DOOR%%;
            proxy_buffering off;
        }

        location /continue {
            etcd_lock /locks/one wait=30s;
            etcd_lock_lost continue;
            proxy_pass http://%%DOOR%%;
        }
    }
}

EOF_CONFIG


# the answer to a request that is let out while the worker stands still; $begin
# is called before that

sub stopped {
    my ($path, $begin) = @_;

    my $http = $nginx->http;

    $http->{timeout} = 60;
    $http->send('POST', $path, '', Connection => 'close');

    my $visit = $door->enters(20) // die "nobody comes in\n";

    $begin->($visit, $http) if $begin;

    my ($worker) = $nginx->workers;

    $nginx->freeze($worker);
    $visit->leave();
    wait_for { !$etcd->list('/locks/') } 20, 'the end of its lease'
        or die "the lease does not end\n";
    $nginx->thaw($worker);

    return $http->receive;
}


is(stopped('/')->{status}, 503, 'its lock is gone: no success');
is(stopped('/continue')->{status}, 200, 'etcd_lock_lost continue: the answer');

# The header has been sent.

my $answer = stopped('/', sub {
    my ($visit, $http) = @_;

    $visit->say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin");
    ok($http->fill && $http->{buffer} =~ m{^HTTP/1.1 200}, 'an answer begins');
});

is($answer->{status}, 0, 'in the middle of an answer: it is cut off');
is($answer->{error}, 'closed', 'and the connection closed');

SKIP: {
    skip('this nginx has no stream', 3) if !Nginx::has('stream');

    my $backend = Line->start('one');
    my $proxy = Nginx->new(etcd => $etcd)->set(
        ONE => $backend->address,
        TTL => TTL,
    )->start(<<'EOF_STREAM');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl %%TTL%%s;
}

stream {
    server {
        listen 127.0.0.1:%%PORT%%;
        etcd_lock /locks/line wait=30s;
        proxy_pass %%ONE%%;
    }
}

EOF_STREAM

    my $client = Line::Client->new($proxy->port);

    is($client->ask('before'), 'one: before', 'a connection with a lock');

    my ($worker) = $proxy->workers;
    my $asked = $backend->requests;

    $proxy->freeze($worker);
    $client->tell('after');
    wait_for { !$etcd->list('/locks/line/') } 20, 'the end of its lease';
    $proxy->thaw($worker);

    ok($client->is_closed(), 'a connection: it is closed');

    # The backend has read all earlier bytes when it answers the probe.

    Line::Client->new($backend->port)->ask('probe');
    is($backend->requests, $asked + 1, 'and what came is not passed on');
}

wait_for { (() = $nginx->lines_of('status.log')) == 3 } 10, 'what is logged';
is(join('', map { s/\n/ /r } $nginx->lines_of('status.log')),
   'lost lost lost ', '$etcd_lock_result says why');
$nginx->logs(qr/lock "\/locks\/one" is lost/, 3, 'so does the log');

# The worker goes on.

my $http = $nginx->http;

$http->send('POST', '/', '', Connection => 'close');
($door->enters(20) // die "nobody comes in\n")->leave();
is($http->receive->{status}, 200, 'then there is another lease');

finish();
