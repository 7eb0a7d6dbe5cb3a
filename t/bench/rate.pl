#!/usr/bin/perl

# Requests while members change: what they take longer, and what etcd, the
# agent and another worker use, at some rates of changes.  The control are
# requests through a static upstream of the same nginx: they have to do with the
# changes only that the machine, and the workers, are busy with them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Time::HiRes qw(time);

use Bench;
use Changes;
use Methods;

use constant {
    MEMBERS  => $ENV{BENCH_MEMBERS} || 10_000,
    RATES    => [split(/,/, $ENV{BENCH_RATES} // '0,10,100,1000')],
    ROUNDS   => $ENV{BENCH_ROUNDS} || 5,
    REQUESTS => $ENV{BENCH_REQUESTS} || 10_000,
    CLIENTS  => 4,
    METHOD   => 'least_conn',
    CONTROL  => 'random',
};

my $side = Methods->new(members => MEMBERS, workers => 2,
                        clients => CLIENTS)->start();

my $etcd = Methods::etcd(MEMBERS);
my $nginx = $side->{nginx};
my $agent = status_of($nginx)->{agent};
my ($other) = grep { $_ != $agent } $nginx->workers();

$side->settle();

my %pids = (etcd => $etcd->pid, agent => $agent, other => $other);


# requests while it changes so often, and CPU in percent of the time that took

sub measure {
    my ($rate) = @_;

    my $changes = Changes->start($etcd, MEMBERS, $rate);
    my $began = time();
    my %used = map { $_ => -cpu_time($pids{$_}) } keys %pids;
    my $figures = $side->ask(METHOD, 'ours', REQUESTS);
    my $took = time() - $began;

    $used{$_} += cpu_time($pids{$_}) for keys %pids;

    my $control = $side->ask(CONTROL, 'native', REQUESTS);
    my $all = time() - $began;
    my $made = $changes->stop();

    # the next one begins when these are done with

    $side->settle();

    return { %$figures, made => $made / $all, control => $control->{p99},
             map { ("cpu_$_" => $used{$_} / $took * 100) } keys %pids };
}


my %rounds;

for (0 .. ROUNDS) {
    push @{ $rounds{$_} }, measure($_) for @{ RATES() };
}

shift @$_ for values %rounds;


sub row {
    my ($rate) = @_;

    my @rounds = @{ $rounds{$rate} };
    my $idle = $rounds{RATES->[0]};
    my $ratio = sub {
        my ($what) = @_;

        return spread('%.2f', map { $rounds[$_]{$what} / $idle->[$_]{$what} }
                              0 .. $#rounds);
    };

    return [
        $rate,
        (map { my $what = $_; spread_of('%.0f', sub { $_[0]{$what} }, @rounds) }
             'made', 'p50', 'p99'),
        $ratio->('p99'), $ratio->('control'),
        (map { my $what = $_;
               spread_of('%.1f', sub { $_[0]{"cpu_$what"} }, @rounds) }
             'etcd', 'agent', 'other'),
    ];
}


my ($members, $clients, $requests, $rounds) =
    (MEMBERS, CLIENTS, REQUESTS, ROUNDS);

publish('Requests while members change', <<"END",
Weights of members change while $clients clients make $requests requests
through one `upstream` of $members members (`@{[ METHOD ]}`), of two workers;
all changes are followed by @{[ scalar(Methods::names()) ]} such upstreams, one
of each method. Times of requests in microseconds, and the ratio of their p99 to
that of the same round without changes; CPU in percent of one. The control is
the same ratio of requests through nginx's own `random two`, whose members do
not change: what the machine is busy with slows these, too. $rounds rounds.
END
    table(['changes a second', 'made', 'p50, us', 'p99, us', 'ratio of p99',
           'control', 'etcd', 'agent', 'other worker'],
          map { row($_) } @{ RATES() }));
