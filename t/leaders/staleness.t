#!/usr/bin/perl

# $etcd_staleness and staleness_ms count from the last proof that the state of
# nginx is etcd's, and nothing less than a proof sets them back.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(sleep time);

use Chaos;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Stall;
use Wait;

use constant {
    INTERVAL => 5,
    DELAY    => 0.5,                    # each way
    ATTEMPTS => 10,
};


my $slower = $ENV{TEST_SLOWER} || 1;

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my %chaos = map { $_ => Chaos->start($etcd->port) } qw(near far back);

my @kv = ('--kv', '/s/1=127.0.0.1:1001');
my @event = ('--event', '/s/2=127.0.0.1:1002');

# Some fakes are started when they are looked at, to be in time: answers to
# creates after the first PING; an event that is late, but not as late as nginx
# waits for one; a part of a revision that is late.  Others have a prefix that
# may not be read, or are behind the list at the first connection.

my %fake = (
    late   => Fake->new(),
    map({ ("held$_" => Fake->new()) } 1 .. ATTEMPTS),
    part   => Fake->new(),
    denied => Fake->new()->start('watch-create-cancel', @kv),
    behind => Fake->new()->start('revision:90:100', @kv),
    slow   => Fake->new()->start('ok', @kv),
);

$etcd->put('/s/1', '127.0.0.1:1001');

my $nginx = Nginx->new()->set(
    CLUSTERS => join('', map {
        "etcd $_ { endpoints " . ($fake{$_} // $chaos{$_})->endpoints
            . '; ping_interval 5s; ping_timeout 20s; request_timeout 60s; '
            . "zone 256k; }\n"
    } keys %fake, keys %chaos),
    UPSTREAMS => join('', map {
        "upstream $_ { etcd_members /s/ cluster=$_; }\n"
    } keys %fake, keys %chaos),
);

# There is one agent: another one would count its reconnects from 0.

$nginx->start(<<'EOC');

worker_processes 1;

%%CLUSTERS%%

http {
    %%UPSTREAMS%%

    upstream bad {
        etcd_members /bad/ cluster=denied;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


# Notes the status until the condition is met: { staleness => [...], members =>
# [...] } of a cluster; each from an answer of its own.

sub observe {
    my ($name, $seconds, $condition) = @_;

    my (@staleness, @members);

    wait_for {
        my $status = $nginx->status;

        push @staleness, $status->{clusters}{$name}{staleness_ms};
        push @members, scalar(@{ $status->{upstreams}{$name}{members} // [] });

        $condition->($staleness[-1], $members[-1]);
    } $seconds, "$name: staleness";

    return { staleness => \@staleness, members => \@members };
}


# An event that etcd owes.  A machine that is slow may not look at the status
# before the event comes; then it is tried again.

{
    my ($early, $between) = (0, 0);

    for my $attempt (1 .. ATTEMPTS) {
        my $began = time();

        $fake{"held$attempt"}->start('withhold:500', @kv, @event);

        my $seen = observe("held$attempt", 20, sub { $_[0] >= 0 });

        $early += $seen->{members}[-1] != 2 && !$stall->since($began);
        $between = grep { $_ == 1 } @{ $seen->{members} };

        last if $between;
    }

    is($early, 0, 'no proof before a watch has caught up with the revision '
                  . 'that its create named');
    ok($between, 'while it had not, the member of the list was there');
}

$fake{part}->start('fragments:2000', @kv, @event,
                   '--event', '/s/3=127.0.0.1:1003');

$nginx->upstream('part')->shows(
    { map { ("/s/$_" => "127.0.0.1:100$_ 1 up") } 1 .. 3 },
    'a revision in parts');

{
    my @of_parts = $fake{part}->times(qr/ created /);

    ok(wait_for(sub { staleness('part') >= 0 }, 5, 'a proof'),
       'a whole revision is a proof');
    cmp_ok(time() - $of_parts[0], '>=', 2, 'a part of it was none');
}

sub staleness { $nginx->status->{clusters}{$_[0]}{staleness_ms} }

# Of two watches one is refused.

ok(wait_for(sub { staleness('denied') >= 0 }, 5, 'a proof'),
   'a prefix that may not be read holds up no proof of the others');


# Reconnected while other keys are written: nothing comes for this prefix, and
# no PING is due for long.  A small prefix is read at once; for a larger one
# etcd owes events that it has none of.  All times count from before the end of
# the connection: the proof may be there before cut() has returned.  Returns the
# seconds until a later proof was seen.

sub reconnected {
    my ($what) = @_;

    $etcd->put('/unrelated', $_) for 1 .. 5;

    my $reconnects = $nginx->cluster('back')->{reconnects};
    my $before = time();

    $chaos{back}->cut();

    wait_for { $nginx->cluster('back')->{reconnects} > $reconnects } 5,
        'a reconnect';

    ok(wait_for(sub {
        my $asked = time();
        staleness('back') + 2 < ($asked - $before) * 1000;
    }, 4, 'a proof'), "$what: etcd is asked for a proof");

    return time() - $before;
}

reconnected('little');

my $wordy = '{"address":"127.0.0.1:1001","note":"' . 'x' x 65_000 . '"}';

$etcd->put('/s/1', $wordy);
reconnected('much, as is found now');
cmp_ok(reconnected('much'), '>=', 0.9,
       'a silent watch needs time to have caught up');
$etcd->put('/s/1', '127.0.0.1:1001');


# a member that lags

{
    my $seen = observe('behind', 10, sub { $_[0] >= 0 });

    cmp_ok($fake{behind}->count(qr/ created /), '>=', 2,
           'a member that lags behind the list is no proof');
    $nginx->logs(qr/"behind": .*it lags behind the cluster/, 1, 'and is left');
    is($nginx->cluster('behind')->{resyncs}, 0, 'nothing is listed for that');
}

{
    my @revisions;

    ok(wait_for(sub { staleness('slow') >= 0 }, 20, 'a proof'), 'one is read');
    $fake{slow}->stop();
    $fake{slow}->start('revision:90:100', @kv);

    ok(wait_for(sub {
        push @revisions, $nginx->cluster('slow')->{revision};
        $fake{slow}->count(qr/ created /) >= 3;
    }, 15, 'another connection'), 'so is one that lags after a failover');
    is(min(@revisions), 100, 'the revision does not go back for it');
    $nginx->upstream('slow')->shows({ '/s/1' => '127.0.0.1:1001 1 up' },
                                    'nor do the members');
}


# PING as the only proof, over a way that takes its time

# Messages that were under way when the delay began have come before the event,
# which is a proof itself, of the time when it came.

$chaos{far}->set(delay => DELAY);

{
    my $changed = $etcd->put('/s/1', '127.0.0.1:1001');

    $nginx->upstream($_)->sees($changed) for qw(far near);
}

my $quiet = time() + 2 * DELAY;

# A new connection, or another agent, is a proof, too: if one of them hangs,
# nothing that was done here is the cause.

sub connections {
    my $new = qr/"(?:far|near)": (?:this worker is the agent|.* failed for)/;

    return $nginx->count_log($new);
}

$fake{late}->start('lazy:12000', @kv);

{
    my $end = time() + 3 * INTERVAL;
    my $last = $end + 6 * INTERVAL * $slower;
    my $fresh = 1000 * DELAY;
    my $old = 1000 * (INTERVAL - 0.5);
    my ($lowest, $highest) = (9**9, 0);
    my $connections = connections();
    my ($created, @far, @near, @late);

    # The loop goes on until the staleness was read at the right moments.

    while (1) {
        my $asked = time();
        my $clusters = $nginx->status->{clusters};

        $created ||= $fake{late}->count(qr/ created /);

        if (connections() != $connections) {
            diag('measured again from here: another connection');
            $connections = connections();
            $quiet = time() + INTERVAL;
            $end = $quiet + 3 * INTERVAL;
            $last = $end + 6 * INTERVAL * $slower;
            ($lowest, $highest, @far, @near) = (9**9, 0);
        }

        if (!$created) {
            push @late, [$asked, $clusters->{late}{staleness_ms}];
        }

        if ($asked > $quiet) {
            my $near = $clusters->{near}{staleness_ms};

            push @far, $clusters->{far}{staleness_ms};
            push @near, [$asked, $near, time()];

            $lowest = min($lowest, $near);
            $highest = max($highest, $near);
        }

        last if time() > ($created && $lowest < $fresh && $highest >= $old
                          ? $end : $last);

        sleep(0.05);
    }

    # An excess counts without the time for which the machine stood still.

    my $most = 1000 * INTERVAL + 500 * $slower;

    my $longest = max(map {
        my ($asked, $near, $answered) = @$_;

        $near <= $most ? $near
            : $near - 1000 * ($stall->since($asked - $near / 1000)
                              - $stall->since($answered));
    } @near);

    cmp_ok($lowest, '<', $fresh, 'the answer to a PING is a proof');
    cmp_ok(min(@far), '>=', 2 * DELAY * 1000 - 10,
           'of the time when the PING was sent');
    cmp_ok($highest, '>=', $old, 'there is none in between');
    cmp_ok($longest, '<=', $most,
           'so staleness stays below ping_interval and the time of an answer');

    my ($ping) = $fake{late}->times(qr/ ping /);

    ok($ping && grep({ $_->[0] > $ping + 0.5 } @late),
       'a PING before any watch');
    is(max(map { $_->[1] } @late), -1, 'proves nothing');
}

# The watch's connection is lost and cannot be made again.

$chaos{near}->set(refuse => 1);

$chaos{near}->cut();

wait_for { $nginx->cluster('near')->{state} eq 'connecting' } 5, 'the end';

my $before = staleness('near');
my $from = time();

sleep(1);

my $until = time();

cmp_ok(staleness('near'), '>=', $before + ($until - $from) * 1000 - 10,
       'it grows without a connection');

my $again = time();

$chaos{near}->set(refuse => 0);

ok(wait_for(sub {
    my $asked = time();
    staleness('near') + 2 < ($asked - $again) * 1000;
}, 10, 'a proof'),
   'a watch that is created again at the newest revision is a proof');

finish();
