#!/usr/bin/perl

# A lease is kept through the failure of the member that renews it: another
# member is asked before half of the TTL is over, also when the connection looks
# alive.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Becomes;
use Cluster;
use Control;
use Election;
use Finish;
use Nginx;
use Wait;

use constant TTL => 10;

my $control = Control->start();

# The leader of the cluster is not to change by itself.

my $cluster = Cluster->new(3, args => ['--heartbeat-interval=100',
                                       '--election-timeout=2000'])->start();
my $nginx = Nginx->new();

$nginx->set(ETCD => $cluster->endpoints, TTL => TTL);
$nginx->start(<<'EOF_CONFIG');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    election main /e/main value=m ttl=%%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "$etcd_is_leader_main";
        }

        location /status {
            etcd_status;
        }
    }
}

EOF_CONFIG


sub in_use { $nginx->status->{clusters}{default}{endpoint} }

sub key { Election->new($cluster->any, '/e/main')->leader->{key} }

# nginx leads for so many seconds, with the same key.

sub leads_on {
    my ($key, $seconds, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    stays { $nginx->says } '1', "$name: it leads on", $seconds;
    is(key(), $key, "$name: with the same key");
}


sub id {
    my ($member) = @_;

    my $status = $member->call('maintenance/status', {});

    return sprintf('%x', $status->{header}{member_id});
}


# Moves the leadership of the cluster to another member.

sub resign_from {
    my ($member) = @_;

    wait_for {
        my $leader = $cluster->leader;

        if ($leader && $leader == $member) {
            my ($other) = grep { $_ != $member } $cluster->members;

            $member->etcdctl('move-leader', id($other));
            $leader = undef;
        }

        $leader
    } 20, 'another leader' or die "the leader stays\n";
}


ok(wait_for(sub { $nginx->says() eq '1' }, 10), 'it leads');

my $key = key();

# The member in use is a follower, so that only the renewals are held up.

for my $fault (qw(freeze kill)) {
    my $member = $cluster->member_at(in_use());

    resign_from($member);

    my $start = time();

    $member->$fault;
    ok(wait_for(sub { in_use() ne $member->url }, 2 * TTL),
       "$fault: another endpoint is used");
    cmp_ok($control->lasted($start, time()), '<', 0.7 * TTL,
           "$fault: before it is too late");
    leads_on($key, TTL, $fault);

    $fault eq 'freeze' ? $member->thaw : $cluster->revive;
}

is($nginx->count_log(qr/lease \w+ is lost/), 0, 'no lease was lost');

$control->finished();

finish();
