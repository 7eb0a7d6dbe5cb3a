#!/usr/bin/perl

# One worker watches for all; another takes over when it is killed, hangs, or
# leaves, and what workers know stays.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Control;
use Etcd;
use Finish;
use Load;
use Nginx;
use Wait;


my $slower = $ENV{TEST_SLOWER} || 1;

my $control = Control->start();
my $etcd = Etcd->new()->start();
my @backends = Backend->start(3);

$etcd->put("/services/api/$_", $backends[$_]->address) for 0 .. 1;

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

worker_processes 4;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /services/api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
            proxy_next_upstream off;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF


sub agent {
    my $pid = wait_for { ($nginx->status // return)->{agent}{pid} } 10, 'agent';

    return $pid || die "there is no agent\n";
}

sub members {
    my $status = $nginx->status // return '';

    return join(' ', sort map { $_->{address} }
                     @{ $status->{upstreams}{api}{members} });
}

sub addresses { join(' ', sort map { $backends[$_]->address } @_) }

# a process has the title of a worker a moment after it has become the agent

sub is_worker {
    my ($pid) = @_;

    return wait_for { scalar(grep { $_ == $pid } $nginx->workers()) } 10,
        "a worker $pid";
}

# the number of times that a worker has become the agent

sub claims {
    my ($pid) = @_;

    return $nginx->count_log(qr/\[notice\] $pid#.*this worker is the agent/);
}


# A change in etcd shows in the status within a time.

sub change_arrives {
    my ($within, $name) = @_;

    my $start = time();

    $etcd->put('/services/api/2', $backends[2]->address);
    ok(wait_for(sub { members() eq addresses(0 .. 2) }, 20), "$name: added");
    cmp_ok($control->lasted($start, time()), '<=', $within * $slower,
           "$name: in time");

    $etcd->del('/services/api/2');
    ok(wait_for(sub { members() eq addresses(0, 1) }, 20), "$name: removed");
}


ok(wait_for(sub { members() eq addresses(0, 1) }, 10), 'members are there');
ok(is_worker(agent()), 'the agent is one of the workers');

change_arrives(1, 'in peace');

my $load = Load->start($nginx->port, clients => 4);

for my $n (1 .. 5) {
    my $agent = agent();

    $nginx->kill_worker($agent);

    change_arrives(1, "agent killed, $n");

    isnt(agent(), $agent, "another agent, $n");
    ok(is_worker(agent()), "it is a worker, $n");
}

for my $n (1 .. 2) {
    my $agent = agent();
    my $claims = claims($agent);

    $nginx->freeze($agent);

    # connections that the frozen worker has accepted wait for it

    change_arrives(3, "agent stopped, $n");
    isnt(agent(), $agent, "another agent takes over, $n");

    $nginx->thaw($agent);

    change_arrives(1, "the stopped agent runs again, $n");

    # The worker may become the agent again if the other one stands still.

    ok(agent() != $agent
       || wait_for(sub { claims($agent) > $claims }, 10, 'a claim'),
       "it has stood down, $n");
}

my $seen = $load->results();

cmp_ok($seen->{requests}, '>', 100, 'there was load');

# A killed worker takes its requests with it: 4 clients, 5 kills.

cmp_ok(scalar(@{ $seen->{failed} }), '<=', 20,
       'only what killed workers were serving has failed')
    or diag(Load::describe($seen));

is(scalar(grep { $_->{status} != 0 } @{ $seen->{failed} }), 0,
   'no request was answered with an error')
    or diag(Load::describe($seen));

$control->finished();

finish();
