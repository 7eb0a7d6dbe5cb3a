#!/usr/bin/perl

# Memory per member: of each worker and of the shared zone, beside a static
# upstream with as many servers.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Etcd;
use Finish;
use Nginx;

use constant {
    MEMBERS => $ENV{BENCH_MEMBERS} || 10_000,
    MORE    => $ENV{BENCH_MORE} || 100_000,
    WORKERS => 2,
    ROUNDS  => $ENV{BENCH_ROUNDS} || 3,
};

my $config = many_config(WORKERS);

my $static = <<'EOF';

worker_processes %%WORKERS%%;

http {
    upstream api {
        zone api 32m;
        %%SERVERS%%
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /ready {
            proxy_pass http://api;
            proxy_next_upstream off;
            add_header X-Worker $pid always;
            add_header X-Revision 1 always;
            error_log /dev/null crit;
        }
    }
}

EOF


sub measure_etcd {
    my ($etcd, $prefix, $revision) = @_;

    my $nginx = Nginx->new(etcd => $etcd)->set(PREFIX => $prefix);

    $nginx->start($config);
    wait_ready($nginx, WORKERS, $revision);

    # status makes much of its own: memory goes first

    my %memory = map { $_ => memory($_) } $nginx->workers();
    my $status = status_of($nginx);
    my $agent = delete $memory{$status->{agent}};

    $nginx->stop();

    return {
        agent => $agent,
        other => (values %memory)[0],
        zone  => $status->{zone_used},
        n     => $status->{members},
    };
}


sub measure_static {
    my ($n) = @_;

    my $servers = join("\n", map {
        my ($address) = member_value($_, 1) =~ /"address":"(.*?)"/;
        "server $address;"
    } 0 .. $n - 1);

    my $nginx = Nginx->new(modules => [])
        ->set(SERVERS => $servers, WORKERS => WORKERS);

    $nginx->start($static);
    wait_ready($nginx, WORKERS, 1);

    my ($worker) = $nginx->workers();
    my $memory = memory($worker);

    $nginx->stop();

    return { other => $memory, n => $n };
}


# bytes per member

sub per_member {
    my ($many, $one, $who, $what) = @_;

    return ($many->{$who}{$what} - $one->{$who}{$what}) * 1024
           / ($many->{n} - $one->{n});
}


my $etcd = Etcd->new()->start();

fill($etcd, '/one/', 1);

fill($etcd, '/many/', MEMBERS);

my $revision = fill($etcd, '/more/', MORE);
my @rounds;

for (1 .. ROUNDS) {
    push @rounds, {
        etcd_many   => measure_etcd($etcd, '/many/', $revision),
        etcd_more   => measure_etcd($etcd, '/more/', $revision),
        etcd_one    => measure_etcd($etcd, '/one/', $revision),
        static_many => measure_static(MEMBERS),
        static_one  => measure_static(1),
    };
}


sub row {
    my ($name, $kind, $who, $many) = @_;

    return [
        $name,
        map {
            my $what = $_;

            spread_of('%.0f', sub {
                per_member($_[0]{"${kind}_$many"}, $_[0]{"${kind}_one"}, $who,
                           $what)
            }, @rounds)
        } qw(all own shared)
    ];
}


my ($zone, $zone_more) = map {
    my $kind = $_;

    spread_of('%.0f', sub {
        my ($many, $one) = @{ $_[0] }{$kind, 'etcd_one'};

        ($many->{zone} - $one->{zone}) / ($many->{n} - $one->{n})
    }, @rounds)
} 'etcd_many', 'etcd_more';

my $ratio = spread_of('%.2f', sub {
    per_member(@{ $_[0] }{qw(etcd_many etcd_one)}, 'other', 'all')
    / per_member(@{ $_[0] }{qw(static_many static_one)}, 'other', 'all')
}, @rounds);

my $rounds = ROUNDS;
my $members = MEMBERS;
my $more = MORE;

publish('Memory', <<"END",
Resident memory of a worker per member, in bytes: with so many members less that
with one, divided by the difference; after start and a request. The workers
share one zone, and each counts the pages of it that it has touched. The peer is
a static `upstream` with `zone` and as many servers. $rounds rounds.
END
    table(['worker', 'all, bytes', 'its own', 'of the zone'],
          row("agent, $members", 'etcd', 'agent', 'many'),
          row("other, $members", 'etcd', 'other', 'many'),
          row("agent, $more", 'etcd', 'agent', 'more'),
          row("other, $more", 'etcd', 'other', 'more'),
          row("static upstream, $members", 'static', 'other', 'many')),
    <<"END");
A worker that is not the agent takes $ratio times what it takes for a server of
the static upstream, of $members. In the zone a member takes $zone bytes, and
$zone_more of $more, as `etcd_status` counts them.
END
