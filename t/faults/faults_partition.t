#!/usr/bin/perl

# Networks that swallow everything: between the members of a cluster, and
# between nginx and the member that it uses.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Control;
use Netns;

BEGIN { Netns::enter() }

use Cluster;
use Fault;
use Finish;
use Wait;

use constant {
    INTERVAL => 5,              # ping_interval and ping_timeout of Fault
    TIMEOUT  => 1,
};


my $slower = $ENV{TEST_SLOWER} || 1;
my $control = Control->start();
my $net = Netns->new(3);
my $cluster = Cluster->new(3, places => [$net->places])->start();
my $test = Fault->start(etcds => [$cluster->members]);


sub in_use {
    return (wait_for { $cluster->member_at($test->endpoint) } 10,
        'a member in use') || die "nginx uses no member\n";
}

sub pings { $test->log_has(qr/no answer to PING/) }


# Waits until nginx uses another member; returns the seconds, without stalls of
# the machine.

sub left {
    my ($etcd) = @_;

    my $start = time();

    wait_for {
        my $now = $test->cluster;
        $now->{endpoint} ne $etcd->url && $now->{state} eq 'synced'
    } 4 * (INTERVAL + TIMEOUT), 'nginx to leave ' . $etcd->url;

    return $control->lasted($start, time());
}


my $cut;

# A member without its peers learns nothing, and says so.

$test->fault('the member in use loses its peers', sub {
    my $pings = pings();

    $cut = in_use();
    $net->isolate($cut->place);

    # three times the leader's silence, and the time that the stream needs to
    # end

    cmp_ok(left($cut), '<=', (INTERVAL - 1) * $slower,
           'a minority is left soon');
    is(pings(), $pings, 'without a PING');
    ok(wait_for(sub { $test->log_has(qr/no leader/) }, 5),
       'it says that it has no leader');
}, sub {
    $net->rejoin($cut->place);
    $cluster->wait_healthy();
});

# A leader that is cut off remains one up to the end of its lease; the others
# elect another.

$test->fault('the leader is in use and loses its peers', sub {
    my $leads;

    # The member in use may not lead for long: others are elected when it stands
    # still.

    for (1 .. 20) {
        $cut = in_use();

        last if $leads = $cut->metric('etcd_server_is_leader');
        $cut->restart();
        $cluster->wait_healthy();
        left($cut);
    }

    ok($leads, 'the leader is in use');
    $net->isolate($cut->place);
    cmp_ok(left($cut), '<=', (INTERVAL - 1) * $slower,
           'a leader without followers is left, too');
}, sub {
    $net->rejoin($cut->place);
    $cluster->wait_healthy();
});

# half-open: no answer and no RST, though the member itself is well

$test->fault('the way to the member in use is cut', sub {
    my $pings = pings();

    $cut = in_use();
    $cut->place->hide();

    cmp_ok(left($cut), '<=', (INTERVAL + TIMEOUT + 1) * $slower,
           'left within ping_interval and ping_timeout');
    cmp_ok(pings(), '>', $pings, 'but not before it was asked');
    ok($cut->wait_healthy(), 'the member is well');
}, sub { $cut->place->show() });

# All ways are broken at a time: nginx serves on with its members.

$test->fault('the ways to all members are cut', sub {
    $_->place->hide() for $cluster->members;
    ok(wait_for(sub { $test->state ne 'synced' },
                4 * (INTERVAL + TIMEOUT)), 'nginx notices');
}, sub { $_->place->show() for $cluster->members });

$test->finished();

$control->finished();

finish();
