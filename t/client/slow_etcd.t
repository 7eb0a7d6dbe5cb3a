#!/usr/bin/perl

# All members of etcd write slowly, but etcd works: each write takes a second.
# Three nginxes, each with two leases, do not make more of it than it can do:
# one of them leads, and goes on to lead, with few leases granted.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Cluster;
use Disk;
use Finish;
use Nginx;
use Wait;

Disk::need();

use constant {
    TTL    => 6,
    SLOW   => 400,      # ms of each fsync()
    LEADS  => 12,       # seconds without a break: no lease lasts so long
                        # that is not renewed
    SOON   => 120,      # seconds until then
    NGINX  => 3,
    LEASES => 2,        # of each nginx
    TIMES  => 10,       # each of them may be requested, or revoked, so often
};

# a machine that is busy as well does not make etcd elect another raft leader

my $cluster = Cluster->new(3, args => ['--heartbeat-interval=300',
                                       '--election-timeout=3000'])->start();

$cluster->leader->put('/leader/1', '127.0.0.1:5');

my @disks = map { Disk->slow($_, ms => SLOW) } $cluster->members;

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election jobs /elections/jobs value=%%SELF%% ttl=%%TTL%%s;
    register /nginx/%%SELF%% value=%%SELF%% ttl=%%TTL%%s;
}

http {
    upstream db {
        etcd_leader /leader;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /leads {
            return 200 "$etcd_is_leader_jobs";
        }

        location /db {
            proxy_pass http://db;
        }
    }
}
END


sub start {
    my ($name) = @_;

    return Nginx->new()->set(ETCD => $cluster->endpoints, SELF => $name,
                             TTL => TTL)->start($config);
}


# calls that etcd has begun

sub calls {
    my ($method) = @_;

    my $name = 'grpc_server_started_total{grpc_method="' . $method
               . '",grpc_service="etcdserverpb.Lease",grpc_type="unary"}';
    my $sum = 0;

    $sum += $_->metric($name) // 0 for $cluster->members;

    return $sum;
}


my ($granted, $revoked) = map { calls($_) } qw(LeaseGrant LeaseRevoke);
my $began = time();
my @nginx = map { start("n$_") } 1 .. NGINX;


# The same one led each time since then.

my ($leader, $since, $two) = (undef, time(), 0);

sub led {
    my @leads = grep { $_->leads } @nginx;

    # one may have begun to lead after the other was asked

    $two = 1 if @leads > 1 && (grep { $_->leads } @leads) > 1;

    if (!@leads || !$leader || $leads[0] != $leader) {
        ($leader, $since) = ($leads[0], time());
    }

    sleep(0.1);

    return $leader && time() - $since >= LEADS;
}


ok(wait_for(\&led, SOON), 'one of them leads, and goes on to lead');
ok(!$two, 'two of them never led');

my $allowed = NGINX * LEASES * TIMES;

$granted = calls('LeaseGrant') - $granted;
$revoked = calls('LeaseRevoke') - $revoked;

cmp_ok($granted, '<=', $allowed, 'etcd was asked for few leases');
cmp_ok($revoked, '<=', $allowed, 'etcd was asked to revoke few leases');

note("$granted requests of leases, $revoked revocations, ",
     int(time() - $began), ' s');

# nginx revokes its leases when it stops

$_->moves for @disks;
$_->stop for @nginx;

finish();
