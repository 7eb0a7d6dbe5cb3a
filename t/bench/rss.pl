#!/usr/bin/perl

# Memory of the agent and of another worker after 10 thousand changes and
# after a million: members come, go and change their weight.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(min);
use Time::HiRes qw(time);

use Bench;
use Etcd;
use Finish;
use Nginx;

use constant {
    MEMBERS => 100,
    WORKERS => 2,
    CHANGES => $ENV{BENCH_CHANGES} || 1_000_000,
    FIRST   => 10_000,                  # changes, or a tenth of fewer
    BATCH   => 50,                      # transactions that nginx may be late
    LONGEST => 1200,                    # seconds
};

my $prefix = '/rss/';
my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->set(PREFIX => $prefix);
my $began = time();


# A transaction has every member once, and a tenth of the members goes or comes
# back.  Returns its revision.

my $round = 0;

sub change {
    my @ops;

    $round++;

    for my $i (0 .. MEMBERS - 1) {
        my $key = sprintf('%s%03d', $prefix, $i);

        push @ops, ($i + $round) % 10 == 0
            ? [del => $key]
            : [put => $key, member_value($i, 1 + ($round + $i) % 1000)];
    }

    return $etcd->txn(@ops);
}


sub change_up_to {
    my ($transactions) = @_;

    while ($round < $transactions && time() < $began + LONGEST) {
        my $revision;

        for (1 .. BATCH) {
            $revision = change();
            last if $round == $transactions;
        }

        # nginx needs the former revisions no more: etcd keeps its size, too.

        wait_ready($nginx, WORKERS, $revision);
        $etcd->compact($revision);
    }

    return measure();
}


my $first = $etcd->put("${prefix}000", member_value(0, 1));

$nginx->start(many_config(WORKERS));
wait_ready($nginx, WORKERS, $first);

my $agent = status_of($nginx)->{agent};
my ($other) = grep { $_ != $agent } $nginx->workers();

sub measure {
    return {
        changes => $round * MEMBERS,
        agent   => memory($agent),
        other   => memory($other),
    };
}


my @marks = map {
    change_up_to(int($_ / MEMBERS))
} min(FIRST, CHANGES / 10), CHANGES / 2, CHANGES;

my ($before, undef, $after) = @marks;
my $took = time() - $began;


sub row {
    my ($name, $who, $what) = @_;

    my @kb = map { $_->{$who}{$what} } @marks;

    return [$name, @kb, map { sprintf('%.3f', $kb[-1] / $_) } @kb[0, 1]];
}


my $members = MEMBERS;
my $per_second = int($after->{changes} / $took);

publish('Memory after changes', <<"END",
Resident memory, in kB, of the agent and of another worker after
$before->{changes} changes of $members members, after half, and after all
$after->{changes}, at $per_second a second: in each transaction every member
gets another weight, and a tenth of them goes or comes back. The ratios are
those of the end to the others, and are to be 1, within 0.05. What a worker has
of its own is shown apart: the rest is code, and shared memory.
END
    table(['worker', (map { "after $_->{changes}" } @marks),
           'ratio', 'to half'],
          row('agent', 'agent', 'all'), row('its own', 'agent', 'own'),
          row('other', 'other', 'all'), row('its own', 'other', 'own')));
