#!/usr/bin/perl

# A leader stays while nothing is written to etcd, for as long as etcd proves
# that it leads; a watch that has missed an event is noticed without an audit,
# and a state that cannot be proved is not "synced".  A real etcd has three
# members.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Cluster;
use Fake;
use Finish;
use Nginx;
use Stall;
use Upstream;
use Wait;

# Each proof may be late by a third of max_stale: STALLED is less than that.

use constant {
    MAX_STALE => 2,
    PROOFS    => 8,
    STALLED   => 0.4,
};

my $stall = Stall->watch();
my $etcd = Cluster->new(3)->start();
my $away = Cluster->new(3)->start();
my ($one) = Backend->start('one');

$_->ask('put', '/db/1', $one->address) for $etcd, $away;
$_->kill for $away->members;

# LOST deletes the key, and never says so; PART begins to say so, in a fragment
# of an answer whose rest never comes; COUNTS has a key that it never shows.

my @kv = ('--kv', '/db/1=127.0.0.1:1001');

my $lost = Fake->new()->start('withhold:0', @kv, '--event', '-/db/1=');
my $part = Fake->new()->start('fragments:3600000', @kv, '--event', '-/db/1=',
                              '--event', '/other=');
my $counts = Fake->new()->start('counts-more:6', @kv);

my $nginx = Nginx->new()->set(
    ETCD   => $etcd->endpoints,
    AWAY   => $away->endpoints,
    LOST   => $lost->endpoints,
    PART   => $part->endpoints,
    COUNTS => $counts->endpoints,
    STALE  => MAX_STALE . 's',
)->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
    ping_interval 60s;
}

etcd away {
    endpoints %%AWAY%%;
    ping_interval 60s;
}

etcd lost {
    endpoints %%LOST%%;
    audit_interval 0;
}

etcd part {
    endpoints %%PART%%;
    audit_interval 0;
}

etcd counts {
    endpoints %%COUNTS%%;
    audit_interval 0;
}

http {
    upstream db {
        etcd_leader /db max_stale=%%STALE%%;
    }

    upstream away {
        etcd_leader /db max_stale=%%STALE%% cluster=away;
    }

    upstream lost {
        etcd_leader /db max_stale=%%STALE%% cluster=lost;
    }

    upstream part {
        etcd_leader /db max_stale=%%STALE%% cluster=part;
    }

    upstream counts {
        etcd_leader /db max_stale=%%STALE%% cluster=counts;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            add_header X-Staleness $etcd_staleness always;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC


# Sends requests until so many proofs were seen: the staleness has fallen.
# Returns the number of requests without a leader, and the greatest staleness.

sub observe {
    my ($name) = @_;

    my ($proofs, $failed, $before, $greatest) = (0, 0, 0, 0);

    wait_for {
        my $answer = $nginx->get("/to/$name");
        my $staleness = $answer->{headers}{'x-staleness'};

        if ($answer->{status} == 200) {
            $proofs++ if $staleness < $before;
            $before = $staleness;
            $greatest = $staleness if $staleness > $greatest;

        } else {
            $failed++;
        }

        $failed || $proofs >= PROOFS;
    } PROOFS * MAX_STALE, "$name: proofs" or return (1, $greatest);

    return ($failed, $greatest);
}


sub stays {
    my ($name, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $greatest;

    ok($stall->again(STALLED, sub {
        $nginx->leads_to($name, 'one') or return;

        (my $failed, $greatest) = observe($name);

        return !$failed;
    }), "$what: the leader stays");

    cmp_ok($greatest, '<', MAX_STALE, "$what: \$etcd_staleness");
    is($nginx->cluster($name eq 'db' ? 'default' : $name)->{state}, 'synced',
       "$what: the state");
}


my $revision = $etcd->ask('revision');

stays('db', 'nothing is written');
is($etcd->ask('revision'), $revision, 'indeed');

# etcd comes back as it was.

is($nginx->who('away'), 502, 'etcd is away: there is no leader');
isnt($nginx->cluster('away')->{state}, 'synced', 'and the status says so');

$away->revive();
stays('away', 'etcd comes back, and nothing is written');

# Keys are written, another one and the leader's.

$etcd->ask('put', '/elsewhere', 'x');
stays('db', 'another key is written');

my $changed = $etcd->ask('put', '/db/1',
                         '{"address":"' . $one->address . '"}');

Upstream->new($nginx, 'db')->sees($changed);
stays('db', 'the key is written');

# An event is lost, or sent in half; the stream that sends halves stays stale.

sub found {
    my ($name) = @_;

    my $upstream = $nginx->status->{upstreams}{$name};

    return !@{ $upstream->{members} }
           && $upstream->{staleness_ms} < MAX_STALE * 1000
           && $nginx->cluster($name)->{state}
              eq ($name eq 'part' ? 'stale' : 'synced');
}


for my $name (qw(lost part)) {
    ok(wait_for(sub { found($name) }, 20, "$name: no leader"),
       "$name: an event that does not come is found");
    $nginx->logs(qr/"$name": prefix "\/db\/?": the watch differs/, 1,
                 "$name: the log says so");
}

# From some time on, the counts of etcd never agree with its lists.

ok(wait_for(sub { $nginx->cluster('counts')->{state} eq 'stale' }, 20, 'stale'),
   'a state that cannot be proved is "stale"');
cmp_ok($nginx->status->{upstreams}{counts}{staleness_ms}, '>',
       MAX_STALE * 1000, 'the status of the upstream tells for how long');
is($nginx->who('counts'), 502, 'there is no leader');

finish();
