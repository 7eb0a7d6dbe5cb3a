#!/usr/bin/perl

# Clients of HTTP/3 have members, locks, waiting requests and the status as
# those of HTTP/1 have; what they wait for ends when they leave.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Becomes;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Process;
use Slurp;
use Tls;
use Told;
use Wait;

use constant {
    MANY => 3000,           # members, so that the status comes in pieces
    BATCH => 100,
    LONG => 600,            # s that a client waits for its answer
    SHORT => 5,
};

plan(skip_all => 'this nginx has no HTTP/3')
    if !Nginx::has('http_v3_module');

plan(skip_all => 'this curl has no HTTP/3')
    if `curl --version 2> /dev/null` !~ /\bHTTP3\b/;

my $etcd = Etcd->new()->start();
my ($backend) = Told->start('one');
my $server = Tls->new('ca')->issue('server', san => 'IP:127.0.0.1');
my $nginx = Nginx->new(etcd => $etcd);

$etcd->put('/s/1', $backend->address);

for my $batch (0 .. MANY / BATCH - 1) {
    $etcd->txn(map { [put => "/many/$_", "127.0.0.1:$_"] }
               map { $batch * BATCH + $_ } 1 .. BATCH);
}

$nginx->set(CERT => $server->cert, KEY => $server->key)->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    log_format short '$request_uri $status';

    ssl_certificate %%CERT%%;
    ssl_certificate_key %%KEY%%;
    proxy_http_version 1.1;

    upstream one {
        etcd_members /s/;
    }

    upstream late {
        etcd_members /late/;
    }

    upstream many {
        etcd_members /many/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_H3%% quic reuseport;
        access_log %%DIR%%/log short;

        location /one {
            proxy_set_header X-Token $server_protocol;
            proxy_pass http://one;
        }

        location /lock {
            etcd_lock /locks/one wait=600s;
            etcd_lock_hold client;
            proxy_set_header X-Token $etcd_lock_token;
            proxy_pass http://one;
        }

        location /late {
            etcd_wait late 600s;
            proxy_pass http://late;
        }

        location /status {
            etcd_status;
        }

        location /metrics {
            etcd_status prometheus;
        }
    }
}

EOF

my $lock = Lock->new($nginx, $etcd);
my $port = $nginx->port('PORT_H3');
my $count = 0;


# a request in the background: its process, and the file of its answer

sub begin {
    my ($path, $seconds) = @_;

    my $file = $nginx->dir . '/answer' . ++$count;
    my $pid = spawn("$file.log", 'curl', '-s', '-k', '--http3-only',
                    '--max-time', $seconds // LONG, '-o', $file, '-w',
                    '%{http_version} %{http_code}',
                    "https://127.0.0.1:$port$path");

    return { pid => $pid, file => $file };
}


# the protocol and status of its answer, and its body

sub answer {
    my ($request) = @_;

    waitpid($request->{pid}, 0);

    return map { -e ? slurp($_) : '' } "$request->{file}.log", $request->{file};
}


sub get { answer(begin($_[0])) }

# Requests of that URI that ended without an answer.  Where no other server has
# the request yet, nginx gives it no status when a connection of QUIC is closed.

sub left {
    my ($uri) = @_;

    return scalar(grep { /^\Q$uri\E (?:499|000)$/ } $nginx->lines_of('log'));
}


# A client whose time is over closes its connection.

sub leaves {
    my ($request, $uri) = @_;

    is((answer($request))[0], '0 000', "$uri: there is no answer in time");
    becomes { left($uri) } 1, 'nginx sees that the client has left';
}


ok(wait_for(sub { keys %{ $nginx->upstream('many')->members } == MANY }, 20),
   'all members are known');

is_deeply([get('/one')], ['3 200', 'one HTTP/3.0'], 'a member answers');

# the status, in pieces

my ($how, $status) = get('/status');

is($how, '3 200', 'the status');
is(scalar(@{ decode_json($status)->{upstreams}{many}{members} }), MANY,
   'is whole');
is((get('/metrics'))[0], '3 200', 'and there are metrics');

# a lock: one request has it, two wait, and two leave

my $before = $backend->requests;

$backend->set(hang => 1);

my $first = begin('/lock?first', SHORT);

ok(wait_for(sub { $backend->requests == $before + 1 }, 20),
   'a request has the lock');

my $second = begin('/lock?second');

$lock->waits('/locks/one', 1, 'another one waits');

leaves(begin('/lock?third', SHORT), '/lock?third');
leaves($first, '/lock?first');

# the third may have had its turn before the second, in another worker

ok(wait_for(sub { $backend->requests > $before + 1 }, 20),
   'one that has waited has its turn');
$backend->set(hang => 0);

my ($code, $body) = answer($second);

is($code, '3 200', 'and is answered');
like($body, qr/^one [1-9]\d*\z/, 'the backend had the token');
$lock->gone('/locks/one', 'nothing is left');

# a member that comes later

my $waiter = begin('/late?first');

$nginx->upstream('late')->holds(1, 'a request waits for a member');
leaves(begin('/late?second', SHORT), '/late?second');
$etcd->put('/late/1', $backend->address);
is_deeply([answer($waiter)], ['3 200', 'one '], 'it has it');

ok($nginx->quit(), 'nginx ends');

finish();
