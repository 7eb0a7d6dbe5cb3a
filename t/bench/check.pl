#!/usr/bin/perl

# The cost of checks of many members to the agent, and the delay of requests
# beside them.  The members run on the same machine and need a processor for
# their answers, too: a control has its checks made by another nginx.
#
# One program listens for all members, whose addresses are in 127.0.0.0/8.  The
# other nginxes are stopped while one is measured.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(shuffle);
use Time::HiRes qw(sleep);

use Bench;
use Etcd;
use Finish;
use Methods;
use Nginx;
use Process;
use Wait;

use constant {
    MEMBERS   => $ENV{BENCH_MEMBERS} || 10_000,
    INTERVAL  => 5,
    INTERVALS => $ENV{BENCH_CYCLES} || 4,
    ROUNDS    => $ENV{BENCH_ROUNDS} || 11,
    REQUESTS  => $ENV{BENCH_REQUESTS} || 3_000,
    PACE      => $ENV{BENCH_PACE} || 1_000,
    CLIENTS   => 16,
};

my $config = <<'END';

worker_processes 2;
worker_rlimit_nofile 16384;

events {
    worker_connections 8192;
}

etcd {
    endpoints %%ETCD%%;
    zone 64m;
}

http {
    keepalive_requests 1000000000;

    upstream api {
        etcd_members %%PREFIX%%;
        %%CHECK%%
        keepalive 64;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location / {
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }

        location /status {
            etcd_status;
        }
    }
}

END

my $members = <<'END';

worker_processes 1;
worker_rlimit_nofile 16384;

events {
    worker_connections 8192;
}

http {
    keepalive_requests 1000000000;

    server {
        listen 0.0.0.0:%%PORT%% backlog=4096;
        return 200 ok;
    }

    server {
        listen 0.0.0.0:%%PORT_GRPC%% http2 backlog=4096;
        return 404;
    }
}

END

my $often = 'interval=' . INTERVAL . 's';
my @checks = (
    ['none', ''],
    ['`tcp`', "etcd_check tcp $often;"],
    ['`http`', "etcd_check http $often;"],
    ['`http match=`', "etcd_check http match=~^o.*k\$ $often;"],
    ['`grpc`', "etcd_check grpc $often;"],
);

my $etcd = Etcd->new()->start();
my $backend = Nginx->new(modules => [])->start($members);

register('/http/', $backend->port);
register('/grpc/', $backend->port('PORT_GRPC'));

my (@rows, %nginx);

for my $check (@checks) {
    my ($name, $directive) = @$check;

    my $nginx = start($name, $directive);

    push @rows, [$name, cost($nginx)];

    if ($name =~ /none|`http`/) {
        $nginx{$name} = $nginx;
        halt($nginx);

    } else {
        $nginx->stop();
    }
}

# of each side the nginxes that run, the first of which is asked

my %sides = (
    off    => ['none'],
    beside => ['none', '`http`'],
    on     => ['`http`'],
);

my @pairs = map { pair() } 1 .. ROUNDS;

go(values %nginx);

publish('Checks of members',
    MEMBERS . ' members that are checked every ' . INTERVAL . ' s, over '
    . INTERVALS . ' intervals: CPU time of the agent, which is one of two
    workers, as a share of one CPU. The members of `grpc` answer without the
    service of gRPC.',
    table(['check', 'CPU of the agent', 'checks a second', 'us a check'],
          @rows),
    'Requests beside them, ' . PACE . ' a second of ' . CLIENTS . ' clients,
    without checks, beside another nginx that makes those by `http`, and with
    them, ' . ROUNDS . ' times ' . REQUESTS . ' each, in another order each
    time: microseconds. The members, which answer the checks, run on the same
    processors: the second ratio is what the checks cost the requests of the
    nginx that makes them.',
    table(['', 'without', 'beside', 'with', 'with / without',
           'with / beside'],
          map { latency($_) } qw(p50 p99)),
);

finish();


sub register {
    my ($prefix, $port) = @_;

    my @puts = map {
        [put => sprintf('%s%06d', $prefix, $_),
         sprintf('127.%d.%d.%d:%d', 1 + ($_ >> 16), ($_ >> 8) & 255, $_ & 255,
                 $port)]
    } 1 .. MEMBERS;

    while (my @some = splice(@puts, 0, 100)) {
        $etcd->txn(@some);
    }
}


sub start {
    my ($name, $check) = @_;

    my $nginx = Nginx->new(etcd => $etcd)
        ->set(CHECK => $check, PREFIX => $name =~ /grpc/ ? '/grpc/' : '/http/')
        ->start($config);

    wait_for { status_of($nginx)->{members} == MEMBERS } 60, 'members';
    sleep(2 * INTERVAL);

    return $nginx;
}


sub halt { suspend($_[0]->pid, $_[0]->workers) }


sub go {
    kill('CONT', map { ($_->pid, $_->workers) } @_);
    sleep(INTERVAL);
}


sub checks {
    my ($nginx) = @_;

    return $nginx->get('/status')->{body} =~ /"checks":\s*(\d+)/ ? $1 : 0;
}


sub cost {
    my ($nginx) = @_;

    my $agent = status_of($nginx)->{agent};
    my $time = INTERVAL * INTERVALS;
    my $checks = checks($nginx);
    my $before = cpu_time($agent);

    sleep($time);

    my $used = cpu_time($agent) - $before;
    my $made = checks($nginx) - $checks;

    return (sprintf('%.1f%%', $used * 100 / $time),
            sprintf('%.0f', $made / $time),
            $made ? sprintf('%.0f', $used * 1e6 / $made) : '-');
}


sub pair {
    my %pair;

    for my $side (shuffle(sort keys %sides)) {
        my @nginxes = @nginx{ @{ $sides{$side} } };

        go(@nginxes);
        $pair{$side} = ask($nginxes[0]);
        halt($_) for @nginxes;
    }

    return \%pair;
}


sub ask {
    my ($nginx) = @_;

    my ($status, $output) = run(Methods::clients(), $nginx->port, '/', CLIENTS,
                                REQUESTS, 'keep', PACE);

    $status == 0 or die "clients: $output\n";

    my (undef, $p50, $p99) = split(' ', $output);

    return { p50 => $p50, p99 => $p99 };
}


sub latency {
    my ($p) = @_;

    return [
        $p,
        (map { my $side = $_;
               spread_of('%.0f', sub { $_[0]{$side}{$p} }, @pairs) }
             qw(off beside on)),
        (map { my $side = $_;
               spread_of('%.2f', sub { $_[0]{on}{$p} / $_[0]{$side}{$p} },
                         @pairs) } qw(off beside)),
    ];
}
