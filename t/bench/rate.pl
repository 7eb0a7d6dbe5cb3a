#!/usr/bin/perl

# Requests while members change: what they take longer, and what etcd, the
# agent and another worker use, at some rates of changes.
#
# The workers have a CPU to themselves; etcd, who makes the changes, the clients
# and the backend share the other, where the latter two never wait for the
# former.  The control are requests through an nginx that follows nothing, in
# the same place, while another one follows the changes elsewhere: what they
# take longer is the machine's.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Time::HiRes qw(time);

use Bench;
use Changes;
use Cpus;
use Methods;

use constant {
    MEMBERS  => $ENV{BENCH_MEMBERS} || 10_000,
    RATES    => [split(/,/, $ENV{BENCH_RATES} // '0,10,100,1000')],
    ROUNDS   => $ENV{BENCH_ROUNDS} || 5,
    REQUESTS => $ENV{BENCH_REQUESTS} || 5_000,
    PACE     => $ENV{BENCH_PACE} || 3_000,
    CLIENTS  => 16,
    METHOD   => 'least_conn',
    CONTROL  => 'random',
};

my @methods = Methods::names();

# [name, workers, the upstreams that follow, rates]

my @ends = @{ RATES() }[0, -1];
my @sides = (
    ['one worker, one `upstream`', 1, [METHOD], @{ RATES() }],
    ['two workers, one `upstream`', 2, [METHOD], @ends],
    ['one worker, ' . @methods . ' `upstream`s, one of each method', 1,
     \@methods, @ends],
);

Cpus::divide();
Cpus::first(Methods::backend()->workers());

my $etcd = Methods::etcd(MEMBERS);
my $control = start(1, [], [CONTROL]);

Cpus::alone($control->pids);


sub start {
    my ($workers, $ours, $native) = @_;

    return Methods->new(members => MEMBERS, workers => $workers,
                        clients => CLIENTS, pace => PACE,
                        as => [Cpus::command()], ours => $ours,
                        native => $native)->start();
}


# requests while members change so often, and CPU in percent of that time

sub measure {
    my ($side, $rate) = @_;

    my %pids = (etcd => $etcd->pid, %{ $side->{roles} });

    Cpus::alone($side->pids);

    my $changes = Changes->start($etcd, MEMBERS, $rate);
    my $began = time();
    my %used = map { $_ => -cpu_time($pids{$_}) } keys %pids;
    my $figures = $side->ask(METHOD, 'ours', REQUESTS);
    my $took = time() - $began;

    $used{$_} += cpu_time($pids{$_}) for keys %pids;

    Cpus::aside($side->pids);

    my $still = $control->ask(CONTROL, 'native', REQUESTS);
    my $all = time() - $began;
    my $made = $changes->stop();

    # The next one begins when these are done.

    $side->settle();

    return { %$figures, made => $made / $all, control => $still->{p99},
             map { ("cpu_$_" => $used{$_} / $took * 100) } keys %pids };
}


sub rounds {
    my ($workers, $ours, @rates) = @_;

    my $side = start($workers, $ours, []);
    my $agent = status_of($side->{nginx})->{agent};
    my ($other) = grep { $_ != $agent } $side->pids;
    my %rounds;

    $side->{roles} = { agent => $agent, $other ? (other => $other) : () };

    for (0 .. ROUNDS) {
        push @{ $rounds{$_} }, measure($side, $_) for @rates;
    }

    $side->stop();
    shift @$_ for values %rounds;

    return \%rounds;
}


sub row {
    my ($rounds, $rate) = @_;

    my @rounds = @{ $rounds->{$rate} };
    my $idle = $rounds->{RATES->[0]};
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
        map { my $what = "cpu_$_";
              exists $rounds[0]{$what}
                  ? spread_of('%.1f', sub { $_[0]{$what} }, @rounds) : '' }
            'etcd', 'agent', 'other',
    ];
}


my @paragraphs;

for my $side (@sides) {
    my ($name, $workers, $ours, @rates) = @$side;
    my $rounds = rounds($workers, $ours, @rates);

    push @paragraphs, ucfirst("$name:"),
        table(['changes a second', 'made', 'p50, us', 'p99, us',
               'ratio of p99', 'control', 'etcd', 'agent', 'other worker'],
              map { row($rounds, $_) } @rates);
}

my ($members, $requests, $pace, $rounds) = (MEMBERS, REQUESTS, PACE, ROUNDS);

publish('Requests while members change', <<"END", @paragraphs);
Weights of members change, at 1000 a second ten in a transaction, while $pace
requests a second, $requests in all, are made through one `upstream` of $members
members (`@{[ METHOD ]}`); each is measured from when it is due. The workers
share a CPU that nobody else is on, and one of them is the agent, too; etcd, who
makes the changes, the clients and the backend have the other one, where clients
and backend never wait for the former. Times of requests in microseconds, and
the ratio of their p99 to that of the same round without changes; CPU in percent
of one, that for the requests included. The control is the same ratio of
requests through an nginx that follows nothing, in the same place, while the
other one follows elsewhere: what the machine is busy with slows these, too.
$rounds rounds. @{[ Cpus::note() ]}
END
