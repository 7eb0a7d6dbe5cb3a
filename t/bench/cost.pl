#!/usr/bin/perl

# CPU time of the workers per proxied request: etcd_members over a static
# upstream, 10 members each, in the same nginx.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    MEMBERS     => 10,
    ROUNDS      => $ENV{BENCH_ROUNDS} || 30,
    SECONDS     => $ENV{BENCH_SECONDS} || 1,
    CONNECTIONS => 32,
};

# Upstreams of each round, in another order each time: the order should make no
# difference.  The control is as static as its peer.

my @orders = (
    [qw(static etcd control)], [qw(control etcd static)],
    [qw(etcd control static)], [qw(static control etcd)],
    [qw(control static etcd)], [qw(etcd static control)],
);

my $config = <<'EOF';

worker_processes %%WORKERS%%;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream etcd {
        etcd_members /services/api/;
        zone etcd 256k;
        keepalive 512;
        keepalive_requests 1000000000;
    }

    upstream static {
        %%SERVERS%%
        zone static 256k;
        keepalive 512;
        keepalive_requests 1000000000;
    }

    upstream control {
        %%SERVERS%%
        zone control 256k;
        keepalive 512;
        keepalive_requests 1000000000;
    }

    proxy_http_version 1.1;
    proxy_set_header Connection "";
    keepalive_requests 1000000000;

    server {
        listen 127.0.0.1:%%PORT%% reuseport backlog=4096;

        location /etcd    { proxy_pass http://etcd; }
        location /static  { proxy_pass http://static; }
        location /control { proxy_pass http://control; }

        location /status {
            etcd_status;
        }
    }
}

EOF


# The first round only warms up.

sub rounds {
    my ($etcd, $backend, $workers) = @_;

    my $servers = join(' ', map { 'server ' . address($backend, $_) . ';' }
                            1 .. MEMBERS);

    my $nginx = Nginx->new(etcd => $etcd)
        ->set(WORKERS => $workers, SERVERS => $servers)->start($config);

    wait_for {
        @{ $nginx->status->{upstreams}{etcd}{members} } == MEMBERS
    } 10, 'the members' or die "there are no members\n";

    my @rounds;

    for my $i (0 .. ROUNDS) {
        my @order = @{ $orders[$i % @orders] };

        push @rounds, {
            map { $_ => request_cost($nginx, $_, SECONDS, CONNECTIONS) } @order
        };
    }

    shift @rounds;
    $nginx->stop();

    return @rounds;
}


sub address {
    my ($backend, $i) = @_;

    return '127.0.0.1:' . $backend->port("PORT_$i");
}


sub row {
    my ($workers, @rounds) = @_;

    return [
        $workers,
        spread_of('%.1f', sub { $_[0]{static} }, @rounds),
        spread_of('%.1f', sub { $_[0]{etcd} }, @rounds),
        spread_of('%.3f', sub { $_[0]{etcd} / $_[0]{static} }, @rounds),
        spread_of('%.3f', sub { $_[0]{control} / $_[0]{static} }, @rounds),
    ];
}


my $backend = Nginx->new(modules => [])
    ->start(backend_config(map { ("PORT_$_" => $_) } 1 .. MEMBERS));

my $etcd = Etcd->new()->start();

for my $i (1 .. MEMBERS) {
    $etcd->put("/services/api/$i", address($backend, $i));
}

my $rounds = ROUNDS;
my $members = MEMBERS;
my $seconds = SECONDS;
my $connections = CONNECTIONS;

publish('Request cost', <<"END",
CPU time of all workers per proxied request, in microseconds: through
`etcd_members` with $members members, over the same through a static `upstream`
with `zone` and the same $members servers, both round robin with `keepalive`.
$rounds rounds, $seconds s of wrk with $connections connections for each, in
every order as often. The control is a second static upstream
over the first: what it differs from 1 by is the error of the measurement.
END
    table(['workers', 'static, us', '`etcd_members`, us', 'ratio', 'control'],
          map { row($_, rounds($etcd, $backend, $_)) } 1, 2));
