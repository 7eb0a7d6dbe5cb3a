#!/usr/bin/perl

# Members of a cluster die: the one in use, the leader, most of them, all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Cluster;
use Fault;
use Finish;
use Wait;


my $cluster = Cluster->new(3)->start();
my $test = Fault->start(etcds => [$cluster->members]);

sub in_use { $cluster->member_at($test->endpoint) }
sub revive { $cluster->revive() }


# nginx gets time to notice a fault.

sub noticed {
    my ($state) = @_;

    return wait_for { $test->state eq $state } 10, $state;
}


$test->fault('kill -9 of the member in use',
             sub { in_use()->kill(); noticed('synced') }, \&revive,
             times => 3);

$test->fault('kill -9 of the leader',
             sub { $cluster->leader->kill(); $cluster->leader() }, \&revive);

$test->fault('kill -9 of two of three',
             sub {
                 my $dead = in_use();
                 my ($other) = grep { $_ != $dead } $cluster->members;

                 $_->kill() for $dead, $other;
                 noticed('connecting');
             }, \&revive);

$test->fault('kill -9 of all',
             sub { $_->kill() for $cluster->members; noticed('connecting') },
             \&revive, times => 2);

$test->fault('rolling restart of all three',
             sub {
                 for my $etcd ($cluster->members) {
                     $etcd->restart();
                     $cluster->wait_healthy();
                 }
             }, \&revive);

$test->fault('defragmentation',
             sub { $_->manage('defrag') for $cluster->members }, \&revive);

$test->finished();

finish();
