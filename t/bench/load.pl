#!/usr/bin/perl

# How long it takes until 10 000 members are in use, beside the time in which
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
    MEMBERS => 10_000,
    WORKERS => 2,
    ROUNDS  => $ENV{BENCH_ROUNDS} || 15,
};

my $config = many_config(WORKERS);


# seconds from the start of nginx until all workers have the members

sub load {
    my ($etcd, $prefix, $revision) = @_;

    my $nginx = Nginx->new(etcd => $etcd)->set(PREFIX => $prefix);

    $nginx->write_config($config);

    my $time = stopwatch {
        start_now($nginx);
        wait_ready($nginx, WORKERS, $revision);
    };

    my $there = status_of($nginx)->{members};
    my $wanted = $prefix eq '/many/' ? MEMBERS : 1;

    $there == $wanted or die "$there members of $wanted\n";

    $nginx->stop();

    return $time;
}


sub fetch {
    my ($etcd, $prefix) = @_;

    local $ENV{ETCDCTL_API} = 3;

    return stopwatch {
        system("etcdctl --endpoints @{[$etcd->url]} get --prefix $prefix"
               . ' > ' . test_dir() . '/fetched') == 0
            or die "etcdctl failed\n";
    };
}


my $etcd = Etcd->new()->start();

fill($etcd, '/one/', 1);

my $revision = fill($etcd, '/many/', MEMBERS);
my @rounds;

for (0 .. ROUNDS) {
    push @rounds, {
        fetch_many => fetch($etcd, '/many/'),
        load_many  => load($etcd, '/many/', $revision),
        fetch_one  => fetch($etcd, '/one/'),
        load_one   => load($etcd, '/one/', $revision),
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
and asking takes by itself; the last row is what 10 000 members add to that:
sending, reading and using the list.
END
    table(['', '`etcdctl get`, ms', 'nginx, ms', 'ratio'],
          row('10 000 members', sub { $_[0]{load_many} },
              sub { $_[0]{fetch_many} }),
          row('1 member', sub { $_[0]{load_one} }, sub { $_[0]{fetch_one} }),
          row('the difference',
              sub { $_[0]{load_many} - $_[0]{load_one} },
              sub { $_[0]{fetch_many} - $_[0]{fetch_one} })));
