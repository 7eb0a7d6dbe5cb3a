#!/usr/bin/perl

# CPU time of one pick, by method and number of members: without a request
# around it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(min);

use Bench;
use Finish;
use Unit;

use constant {
    SIZES  => [split(/,/, $ENV{BENCH_SIZES} || '10,1000,10000,100000')],
    PICKS  => $ENV{BENCH_PICKS} || 1_000_000,
    ROUNDS => $ENV{BENCH_ROUNDS} || 5,
};

my @methods = ('round_robin', 'least_conn', 'random', 'ewma', 'hash',
               'hash consistent');

my ($module, $output) = Unit::make_unit('ngx_etcd_unit_balance_module');

$module or die $output;


# nanoseconds of a pick, and microseconds of the longest of all pieces of
# loading and changing

sub measure {
    my ($method, $members) = @_;

    # Member 0 has another weight, and the last tenth goes.

    my $tenth = int($members / 10);
    my ($ok, $output) = Unit::run_unit(
        $module, "set 1 $method", "add 0 $members", 'stall 0',
        "bench 0 " . PICKS, 'add 0 1 weight=2', 'stall 0',
        'remove ' . ($members - $tenth) . " $tenth", 'stall 0',
    );

    $ok or die $output;

    my ($pick) = $output =~ /^bench: ([\d.]+)$/m or die $output;
    my ($longest) = sort { $b <=> $a } $output =~ /^stall: \d+ (\d+)$/mg;

    return { pick => $pick, longest => $longest };
}


my %rounds;

for (1 .. ROUNDS) {
    for my $size (@{ SIZES() }) {
        push @{ $rounds{$size}{$_} }, measure($_, $size) for @methods;
    }
}


sub picks {
    my ($method) = @_;

    return ["`$method`", map {
        spread_of('%.0f', sub { $_[0]{pick} }, @{ $rounds{$_}{$method} })
    } @{ SIZES() }];
}


# The least and the median of the longest pieces of each round.  A piece that is
# long by itself is so in all rounds; but the clock also counts other work of
# the machine, and among ten thousands of pieces of 0.4 ms some are hit by that.

sub longest {
    my ($method) = @_;

    return ["`$method`", map {
        my @longest = map { $_->{longest} } @{ $rounds{$_}{$method} };
        sprintf('%.0f / %.0f', min(@longest), median(@longest));
    } @{ SIZES() }];
}


my $rounds = ROUNDS;
my @head = map { "$_ members" } @{ SIZES() };

publish('Picking a member', <<"END",
Nanoseconds of CPU time to pick a member and to be done with it, in one process
without connections, $rounds rounds.
END
    table(['method', @head], map { picks($_) } @methods), <<"END",
The longest that loading these members, weighing one anew, and removing a tenth
of them keep the event loop at a time, in microseconds of CPU time, in the round
where that is least / in half of the rounds; what takes longer in all is done in
pieces.
END
    table(['method', @head], map { longest($_) } @methods));
