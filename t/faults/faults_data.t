#!/usr/bin/perl

# Faults in an etcd's data: history is compacted, the database is defragmented,
# or replaced by an older one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Etcd;
use Fault;
use Finish;
use Wait;

use constant {
    CHANGES => 20,
    STALLED => 0.5,             # a stall of so many seconds counts
};


my $etcd = Etcd->new()->start();
my $way = Chaos->start($etcd->port);
my $test = Fault->start(etcds => [$etcd], endpoints => $way->url,
                        ping_timeout => '20s');


# Waits until the members were changed so often.

sub changed {
    my $revision = $etcd->revision() + CHANGES;

    return wait_for { $etcd->revision() >= $revision } 20, 'changes';
}


sub resyncs { $test->cluster->{resyncs} // 0 }

# Few members are read at once after a reconnect, or listed if that fails.

sub readings { resyncs() + $test->log_has(qr/: read from revision .*: ok/) }

my $readings = readings();
my $compactions = 0;

$test->fault('compaction while nginx is away', sub {

    # A read that is cut off is made again, and counts as one.

    wait_for { readings() >= $readings + $compactions } 20, 'the one before';
    $compactions++;

    $way->set(refuse => 1);
    $way->cut();
    changed();
    $etcd->compact();
    changed();
}, sub { $way->set(refuse => 0) }, times => 3);

cmp_ok(readings(), '>=', $readings + $compactions,
       'members were read again for that');

# A worker that stands still is no agent any more, and the next agent may come
# too late.

my $resyncs;

for my $attempt (1 .. 5) {
    my $began = time();

    $resyncs = resyncs();

    $test->fault('compaction while nginx is there', sub {
        changed();
        $etcd->compact();
        changed();
    }, sub { }, times => 3);

    my $ended = time();

    last if resyncs() == $resyncs
            || $test->lasted($began, $ended) > $ended - $began - STALLED;

    diag('compaction: again, the machine stood still');
}

is(resyncs(), $resyncs, 'nothing was read again for that');

$test->fault('defragmentation', sub { $etcd->manage('defrag') }, sub { },
             times => 3);

$test->fault('restored from a snapshot, on the same URL', sub {
    my $file = $etcd->save();

    changed();
    $etcd->restore($file);
}, sub { $etcd->wait_healthy() }, times => 2);

cmp_ok($test->log_has(qr/the revision went back|another cluster/),
       '>=', 1, 'which was noticed');

$test->finished();

finish();
