#!/usr/bin/perl

# Connections of several workers: a worker that is killed takes its own along,
# and max_conns holds for all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Load;
use Nginx;
use Upstream;
use Wait;

use constant {
    WORKERS => 3,
};

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c));

$etcd->put("/s/$_", $backends[$_]->address) for 0 .. 2;
$etcd->put('/limited/0', '{"address":"' . $backends[0]->address
                         . '","max_conns":2}');
$etcd->put('/limited/1', '{"address":"' . $backends[1]->address
                         . '","max_conns":3}');

my $nginx = Nginx->new(etcd => $etcd)->set(WORKERS => WORKERS)->start(<<'EOF');

worker_processes %%WORKERS%%;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_next_upstream off;
    proxy_read_timeout 300s;

    upstream api {
        etcd_members /s/ max_fails=0;
        etcd_balance least_conn;
    }

    upstream limited {
        etcd_members /limited/ max_fails=0;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location / {
            proxy_pass http://api;
        }

        location /limited {
            proxy_pass http://limited;
        }

        location /worker {
            add_header X-Worker $pid;
            return 204;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

my $api = Upstream->new($nginx, 'api');

wait_for { @{ $api->status->{members} // [] } == 3 } 10, 'three members';


# connections of all members, by their addresses

sub conns {
    return join(' ', map { $_->{conns} }
                     sort { $a->{address} cmp $b->{address} }
                          @{ $api->status->{members} // [] });
}


sub total {
    my $sum = 0;

    $sum += $_ for split(/ /, conns());

    return $sum;
}


# N requests under way: (worker => [clients])

sub hang {
    my ($n) = @_;

    my %clients;

    for my $i (1 .. $n) {
        my $client = $nginx->patient();
        my $worker = $client->get('/worker')->{headers}{'x-worker'};

        $client->send('GET', '/');
        push @{ $clients{$worker} }, $client;
        wait_for { total() == $i } 10, "request $i";
    }

    return %clients;
}


$_->set(hang => 1) for @backends;

my %clients = hang(30);

is(conns(), '10 10 10', 'thirty connections, counted over all workers');
cmp_ok(keys %clients, '>', 1, 'of several workers');

# The successor of a killed worker, or the agent, finds its connections.

for my $worker ((sort keys %clients)[0, 1]) {
    my $before = total();
    my $own = @{ delete $clients{$worker} };

    cmp_ok($own, '>', 0, 'a worker has connections');
    $nginx->kill_worker($worker);

    ok(wait_for(sub { total() == $before - $own }, 10, 'the others left'),
       'it is killed: they are not counted any more') or diag(conns());
}

wait_for { $nginx->workers == WORKERS } 10, 'all workers';

my $left = total();
my $client = $nginx->patient();

$client->send('GET', '/');

ok(wait_for(sub { total() == $left + 1 }, 10, 'one more'),
   'new connections are counted');

$_->set(hang => 0) for @backends;

is(scalar(grep { $_->receive->{status} == 200 } $client,
          map { @$_ } values %clients), $left + 1, 'all are answered');
ok(wait_for(sub { total() == 0 }, 10, 'no connections'),
   'none is left at the end') or diag(conns());

# A reload: workers of both configurations count.

$_->set(hang => 1) for @backends;
%clients = hang(12);
$nginx->reload();
is(total(), 12, 'they survive a reload');

$client = $nginx->patient();
$client->send('GET', '/');
ok(wait_for(sub { total() == 13 }, 10, 'one more'),
   'those of new workers come to them');

$_->set(hang => 0) for @backends;
is(scalar(grep { $_->receive->{status} == 200 } $client,
          map { @$_ } values %clients), 13, 'all are answered');
ok(wait_for(sub { total() == 0 }, 10, 'none'), 'none is left');
wait_for { !$nginx->leaving } 10, 'old workers to end';

# max_conns, with many clients of all workers at once

$_->set(delay => 0.01) for @backends;
$_->reset for @backends;

my @load = map { Load->start($nginx->port, path => '/limited', clients => 3) }
               1 .. 6;

wait_for { $backends[1]->requests > 150 } 20, 'requests';

my %status;

for my $seen (map { $_->results } @load) {
    $status{200} += $seen->{requests} - @{ $seen->{failed} };
    $status{$_->{status}}++ for @{ $seen->{failed} };
}

is($backends[0]->counts->{most}, 2, 'max_conns=2: never more, often as many');
is($backends[1]->counts->{most}, 3, 'max_conns=3: likewise');
is(join(' ', sort keys %status), '200 502', 'others are refused')
    or diag(explain(\%status));

finish();
