#!/usr/bin/perl

# The time until 10 000 and 100 000 members are in use, beside the time in which
# etcdctl fetches them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Etcd;
use Finish;
use Nginx;

use constant {
    SIZES   => [split(/,/, $ENV{BENCH_SIZES} || '10000,100000')],
    WORKERS => 2,
    ROUNDS  => $ENV{BENCH_ROUNDS} || 15,
};

my $config = many_config(WORKERS);


# seconds from the start of nginx until all workers have the members

sub load {
    my ($etcd, $wanted, $revision) = @_;

    my $nginx = Nginx->new(etcd => $etcd)->set(PREFIX => "/$wanted/");

    $nginx->write_config($config);

    my $time = stopwatch {
        start_now($nginx);
        wait_ready($nginx, WORKERS, $revision);
    };

    my $there = status_of($nginx)->{members};

    $there == $wanted or die "$there members of $wanted\n";

    $nginx->stop();

    return $time;
}


sub fetch {
    my ($etcd, $members) = @_;

    local $ENV{ETCDCTL_API} = 3;

    return stopwatch {
        system("etcdctl --endpoints @{[$etcd->url]} get --prefix /$members/"
               . ' > ' . test_dir() . '/fetched') == 0
            or die "etcdctl failed\n";
    };
}


my $etcd = Etcd->new()->start();

my @sizes = (@{ SIZES() }, 1);
fill($etcd, "/$_/", $_) for @sizes;
my @rounds;

my $revision = $etcd->revision();

for (0 .. ROUNDS) {
    push @rounds, {
        map { ($_ => { fetch => fetch($etcd, $_),
                       load  => load($etcd, $_, $revision) }) } @sizes
    };
}

shift @rounds;


sub row {
    my ($name, $load, $fetch) = @_;

    return [
        $name,
        spread_of('%.0f', sub { $fetch->($_[0]) * 1000 }, @rounds),
        spread_of('%.0f', sub { $load->($_[0]) * 1000 }, @rounds),
        spread_of('%.2f', sub { $load->($_[0]) / $fetch->($_[0]) }, @rounds),
    ];
}


my $rounds = ROUNDS;

publish('Loading members', <<"END",
From the start of nginx until each of 2 workers routes by all members of a
prefix, beside the run time of `etcdctl get --prefix` for it; milliseconds,
$rounds rounds. The row for one member is what starting a process, connecting
and asking takes by itself; less that is what many members add to it: sending,
reading and using the list.
END
    table(['', '`etcdctl get`, ms', 'nginx, ms', 'ratio'],
          map({ my $n = $_;
                (row("$n members", sub { $_[0]{$n}{load} },
                     sub { $_[0]{$n}{fetch} }),
                 row('less that of 1',
                     sub { $_[0]{$n}{load} - $_[0]{1}{load} },
                     sub { $_[0]{$n}{fetch} - $_[0]{1}{fetch} })) }
              @{ SIZES() }),
          row('1 member', sub { $_[0]{1}{load} }, sub { $_[0]{1}{fetch} })));
