#!/usr/bin/perl

# "etcd_check fast=": a request that fails hastens the check of its member.  The
# interval of a day leaves each member one check of its own, its first.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Port;
use Upstream;
use Wait;

use constant { FAILS => 3, ATTEMPTS => 10 };

my $etcd = Etcd->new()->start();
my ($error, $refuse, $fine, $fence, $session, $plain) =
    Backend->start(qw(error refuse fine fence session plain));
my $port = free_port();
my $nginx = Nginx->new(etcd => $etcd)->set(FAILS => FAILS, STREAM => $port);

$nginx->start(<<'EOC');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream error {
        etcd_members /error/ max_fails=0;
        etcd_check http interval=1d fails=%%FAILS%% fast=50ms panic=0;
        etcd_eject errors=100% min=10000;
    }

    upstream refuse {
        etcd_members /refuse/ max_fails=0;
        etcd_check tcp interval=1d fails=%%FAILS%% fast=50ms panic=0;
    }

    upstream fine {
        etcd_members /fine/ max_fails=0;
        etcd_check tcp interval=1d fails=2 fast=50ms panic=0;
        etcd_eject errors=100% min=10000;
    }

    upstream plain {
        etcd_members /plain/ max_fails=0;
        etcd_check http interval=1d fails=1 panic=0;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /error/  { proxy_pass http://error; }
        location /refuse/ { proxy_pass http://refuse; }
        location /fine/   { proxy_pass http://fine; }
        location /plain/  { proxy_pass http://plain; }

        location /status { etcd_status; }
    }
}

stream {
    upstream session {
        etcd_members /session/ max_fails=0;
        etcd_check tcp interval=1d fails=%%FAILS%% fast=50ms panic=0;
    }

    server {
        listen 127.0.0.1:%%STREAM%%;
        proxy_pass session;
    }
}

EOC


sub member {
    my ($upstream, $backend) = @_;

    my @module = $upstream eq 'session' ? 'stream' : ();

    return Upstream->new($nginx, $upstream, @module)
                   ->member($backend->address) // {};
}

sub checks {
    my ($upstream, $backend) = @_;

    return member($upstream, $backend)->{check_row} // 0;
}

sub becomes {
    my ($upstream, $backend, $state) = @_;

    return wait_for {
        (member($upstream, $backend)->{state} // '') eq $state
    } 20, "$upstream: $backend->{name} is $state";
}

# a member that has passed its first check

sub put {
    my ($upstream, $backend) = @_;

    $etcd->put("/$upstream/$backend->{name}", $backend->address);

    return wait_for { checks($upstream, $backend) == 1 } 20,
        "$upstream: $backend->{name} is checked";
}

sub status_of { $nginx->get("/$_[0]/")->{status} }

# an error of HTTP, with the statuses of etcd_eject

put('error', $error);
is(status_of('error'), 200, 'a member works');

$error->set(status => 500);
is(status_of('error'), 500, 'and fails');
ok(becomes('error', $error, 'unhealthy'), 'it is left out without its turn');
is(checks('error', $error), FAILS, 'after as many checks as it takes');
is(status_of('error'), 502, 'and gets no requests');

# a connection that is refused

put('refuse', $refuse);
$refuse->down;
is(status_of('refuse'), 502, 'a member refuses connections');
ok(becomes('refuse', $refuse, 'unhealthy'), 'it is left out, too');

# a session of a stream

put('session', $session);
$session->down;
Http->new($port)->get('/');
ok(becomes('session', $session, 'unhealthy'), 'and a member in stream');

# a member that fails requests, and passes its checks

put('fine', $fine);
$fine->set(status => 500);
is(status_of('fine'), 500, 'a member fails requests');
ok(wait_for(sub { checks('fine', $fine) == 2 }, 20), 'it is checked again');

for (1 .. ATTEMPTS) {
    status_of('fine');
}

$etcd->put('/fine/fence', $fence->address);
wait_for { checks('fine', $fence) == 1 } 20, 'a check';
$fence->down;

wait_for { status_of('fine'); member('fine', $fence)->{state} eq 'unhealthy' }
    20, 'the other member is left out';

is(checks('fine', $fine), 2, 'once until its turn');
is(member('fine', $fine)->{state}, 'up', 'and stays in use');

# without "fast"

put('plain', $plain);
$plain->set(status => 500);
is(status_of('plain'), 500, 'without "fast" a member fails');

$nginx->reload(undef, gone => 1);
ok(becomes('plain', $plain, 'unhealthy'), 'its turn comes');
is($plain->requests, 3, 'and nothing has hastened it');

finish();
