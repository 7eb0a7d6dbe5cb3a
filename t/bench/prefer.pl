#!/usr/bin/perl

# The cost of "etcd_prefer": instructions of the worker per proxied request, and
# memory per member, without it, with all members preferred, with half of them,
# and with half of the requests leaving these.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Time::HiRes qw(sleep);

use Bench;
use Counted;
use Etcd;
use Methods;
use Nginx;
use Wait;

use constant {
    SIZES    => [split(/,/, $ENV{BENCH_SIZES} || '10,10000')],
    REQUESTS => $ENV{BENCH_REQUESTS} || 1000,
    MOST     => 50,
};

my $prefer = 'etcd_prefer zone:a spill=100%;';

# [the name, the prefix of members, the directive]

my @rows = (
    ['without `etcd_prefer`', 'half', ''],
    ['all members are preferred', 'all', $prefer],
    ['half of the members are preferred', 'half', $prefer],
    ['half of these are drained', 'drained', $prefer],
);
my %methods = (
    round_robin       => 'round_robin',
    'hash consistent' => 'hash $connection$msec consistent',
);
my @methods = sort keys %methods;

my $config = <<'EOC';

%%GLOBALS%%

etcd {
    endpoints %%ETCD%%;
    zone 64m;
}

http {
%%UPSTREAMS%%

    # the worker closes both connections: when it notices that another one has
    # done so is chance

    keepalive_timeout 0;
    proxy_next_upstream off;

    server {
        listen 127.0.0.1:%%PORT%%;

        location ~ ^/(?<name>\w+)$ { proxy_pass http://$name; }
        location = /status { etcd_status; }
    }
}

EOC

my $etcd = Etcd->new()->start();

sub register {
    my ($n) = @_;

    my %part = (
        all     => sub { '"a"}' },
        half    => sub { $_[0] % 2 ? '"b"}' : '"a"}' },
        drained => sub { $_[0] % 2 ? '"b"}' : $_[0] % 4 ? '"a"},"drain":true'
                                                        : '"a"}' },
    );

    for my $prefix (keys %part) {
        my @puts = map {
            [put => "/$n/$prefix/$_",
             sprintf('{"address":"%s","tags":{"zone":%s}',
                     Methods::address($_), $part{$prefix}->($_))]
        } 0 .. $n - 1;

        while (my @some = splice(@puts, 0, 100)) {
            $etcd->txn(@some);
        }
    }
}


sub nginx {
    my ($globals, @upstreams) = @_;

    return Nginx->new(etcd => $etcd)
        ->set(GLOBALS => $globals, UPSTREAMS => join("\n", @upstreams));
}


sub upstream {
    my ($name, $n, $row, $method) = @_;

    return "upstream $name { etcd_members /$n/$row->[1]/; "
           . "etcd_balance $methods{$method}; $row->[2] }";
}


sub ask {
    my ($nginx, $name) = @_;

    my $answer = $nginx->http->get("/$name");

    return ($answer // {})->{status} == 200;
}


sub settle {
    my ($pid) = @_;

    wait_for {
        my $before = cpu_time($pid);

        sleep(0.1);
        cpu_time($pid) - $before < 0.005;
    } 300, 'an idle worker' or die "the worker is never idle\n";
}


# Rings of hashes are made in pieces, which takes time: returns the second of
# two figures that agree.

sub steady {
    my ($count) = @_;

    my $figure = $count->();

    for (1 .. MOST) {
        my $last = $figure;

        $figure = $count->();
        return $figure if abs($figure - $last) < 0.02 * $last;
    }

    die "there are no two figures that agree\n";
}


# instructions per request: { METHOD => [of each row] }

sub instructions {
    my ($n) = @_;

    my %names;

    for my $m (0 .. $#methods) {
        $names{$methods[$m]} = [map { "u${m}_$_" } 0 .. $#rows];
    }

    my $nginx = nginx('daemon off; master_process off;', map {
        my $method = $_;
        map { upstream($names{$method}[$_], $n, $rows[$_], $method) }
            0 .. $#rows
    } @methods);

    $nginx->write_config($config);

    my $counted = Counted->start($nginx);
    my %got;

    for my $name (map { @$_ } values %names) {
        wait_for { ask($nginx, $name) } 300, 'the members'
            or die "$name is not served\n";
    }

    for my $method (@methods) {
        for my $name (@{ $names{$method} }) {
            push @{ $got{$method} }, steady(sub {
                $counted->instructions(REQUESTS, sub {
                    ask($nginx, $name) or die "$name\n" for 1 .. $_[0];
                });
            });
        }
    }

    $nginx->stop;

    return \%got;
}


# memory of a worker, in bytes per member

sub bytes {
    my ($row, $method) = @_;

    my ($one, $many) = map {
        my $nginx = nginx('worker_processes 1;',
                          upstream('api', $_, $row, $method));

        $nginx->start($config);
        wait_for { ask($nginx, 'api') } 60, 'the members'
            or die "the members are not served\n";

        my ($worker) = $nginx->workers();

        settle($worker);

        my $memory = memory($worker);

        $nginx->stop();
        $memory;
    } @{ SIZES() }[0, -1];

    return ($many->{own} - $one->{own}) * 1024 / (SIZES->[-1] - SIZES->[0]);
}


register($_) for @{ SIZES() };

my %got = map { $_ => instructions($_) } @{ SIZES() };

sub cells {
    my ($n, $method, $row) = @_;

    my $of = $got{$n}{$method};

    return sprintf('%.0f', $of->[$row]),
           sprintf('%.0f', $of->[$row] - $of->[0]);
}


publish('Nearness', <<"END",
What a worker executes for one proxied request with `etcd_prefer`, in nginx, its
modules and libraries, without the kernel's part: counted by `valgrind
--tool=callgrind` over @{[REQUESTS]} requests, each with a connection of its
own. The share is of all of the weight (`spill=100%`): in the last row half of
the requests leave the preferred members. Beside it the memory of the only
worker, the agent, per member, without that of the zone.
END
    map({ my $method = $_;
          table(["`$method`", (map { ("$_ members", 'more') } @{ SIZES() }),
                 'bytes of a member'],
                map { my $row = $_;
                      [$rows[$row][0],
                       (map { cells($_, $method, $row) } @{ SIZES() }),
                       sprintf('%.0f', bytes($rows[$row], $method))] }
                0 .. $#rows);
    } @methods));
