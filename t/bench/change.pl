#!/usr/bin/perl

# CPU time that one change of a member costs each worker, with 100 members and
# with 10 000.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(sum);
use Time::HiRes qw(sleep);

use Bench;
use Etcd;
use Finish;
use Nginx;

use constant {
    FEW     => 100,
    MANY    => 10_000,
    WORKERS => 4,
    CHANGES => 500,
    PAUSE   => 0.002,
    ROUNDS  => $ENV{BENCH_ROUNDS} || 7,
};

my $config = many_config(WORKERS);


sub start {
    my ($etcd, $members) = @_;

    my $prefix = "/$members/";
    my $revision = fill($etcd, $prefix, $members);
    my $nginx = Nginx->new(etcd => $etcd)->set(PREFIX => $prefix);

    $nginx->start($config);
    wait_ready($nginx, WORKERS, $revision);

    my $status = status_of($nginx);
    my $agent = $status->{agent};
    my @others = grep { $_ != $agent } $nginx->workers();

    @others == WORKERS - 1 or die "the agent is no worker\n";

    return {
        nginx   => $nginx,
        prefix  => $prefix,
        members => $members,
        agent   => [$agent],
        others  => \@others,
        weight  => 1,
        seen    => -$status->{generation},
    };
}


# Microseconds per change, of the agent and of another worker, with members
# chosen at random; the same time goes by without changes.

sub measure {
    my ($etcd, $side, $change) = @_;

    my $agent = cpu_time(@{ $side->{agent} });
    my $others = cpu_time(@{ $side->{others} });

    for (1 .. CHANGES) {
        change($etcd, $side) if $change;
        sleep(PAUSE);
    }

    $agent = cpu_time(@{ $side->{agent} }) - $agent;
    $others = cpu_time(@{ $side->{others} }) - $others;

    return {
        agent => $agent / CHANGES * 1e6,
        other => $others / CHANGES / @{ $side->{others} } * 1e6,
    };
}


sub change {
    my ($etcd, $side) = @_;

    my $i = int(rand($side->{members}));

    # A member never gets the weight that it has.

    my $weight = 2 + $side->{weight}++ % 1000;

    $etcd->put(sprintf('%s%06d', $side->{prefix}, $i),
               member_value($i, $weight));
}


my $etcd = Etcd->new()->start();
my $few = start($etcd, FEW);
my $many = start($etcd, MANY);
my @rounds;

for (0 .. ROUNDS) {
    push @rounds, {
        few  => measure($etcd, $few, 1),
        many => measure($etcd, $many, 1),
        idle => measure($etcd, $many, 0),
    };
}

shift @rounds;


sub row {
    my ($name, $who) = @_;

    return [
        $name,
        spread_of('%.1f', sub { $_[0]{few}{$who} }, @rounds),
        spread_of('%.1f', sub { $_[0]{many}{$who} }, @rounds),
        spread_of('%.2f', sub { $_[0]{many}{$who} / $_[0]{few}{$who} },
                  @rounds),
        spread_of('%.1f', sub { $_[0]{idle}{$who} }, @rounds),
    ];
}


my $rounds = ROUNDS;
my $changes = CHANGES;
my $made = $few->{weight} + $many->{weight} - 2;
my $seen = sum(map { status_of($_->{nginx})->{generation} + $_->{seen} }
                   $few, $many);

publish('Changing a member', <<"END",
CPU time of a worker per change, in microseconds: the weight of one member is
changed, of 100 and of 10 000, $changes times one after another, another member
each time; $rounds rounds. The agent is the worker that hears from etcd; the
others are 3 workers, of which the mean is shown. The last column is the CPU
time used while nothing changes, in the time of one change. Of $made changes
$seen were passed on by themselves, and not together with the next one.
END
    table(['worker', 'of 100, us', 'of 10 000, us', 'ratio', 'idle, us'],
          row('agent', 'agent'), row('other', 'other')));
