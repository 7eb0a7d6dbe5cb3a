#!/usr/bin/perl

# Members of etcd with different election timeouts, as in the course of a
# rolling change, keep a lease for different times: each raises a TTL to one and
# a half of its own election timeout, and the raft leader's counts.  nginx
# leads, and holds a lock, for no longer than it has asked for.
#
# One nginx reaches only the member with the long timeout, by a way that is cut;
# another one takes over from it by the others.  The first has ended by then.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Chaos;
use Cluster;
use Door;
use Finish;
use Nginx;
use Wait;

use constant TTL => 5;

my $cluster = Cluster->new(3, each => [
    map { ['--heartbeat-interval=100', "--election-timeout=$_"] }
        1000, 1000, 10000
])->start();

my ($quick, $other, $slow) = $cluster->members;
my $way = Chaos->start($slow->port);
my $door = Door->new();

my $config = <<'EOF_CONFIG';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election main /e/main value=%%NAME%% ttl=%%TTL%%s;
    lock_ttl %%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "$etcd_is_leader_main:$etcd_election_revision_main";
        }

        location /locked {
            etcd_lock /locks/main wait=60s;
            proxy_pass http://%%DOOR%%;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF_CONFIG


sub nginx {
    my ($name, @endpoints) = @_;

    return Nginx->new()->set(ETCD => "@endpoints", NAME => $name, TTL => TTL,
                             DOOR => $door->address)->start($config);
}


sub leads { $_[0]->says =~ /^1:\d+$/ }


# The raft leader is that member, and another one when the way is cut.  The code
# is called when the first nginx has its leases.

sub judge {
    my ($name, $member, $next, $leased) = @_;

    ok($cluster->lead($member), "$name leads etcd");
    $way->set(refuse => 0);

    my $first = nginx('first', $way->url);

    ok(wait_for(sub { leads($first) }, 20), "$name: the first nginx leads");

    my $second = nginx('second', $quick->url, $other->url);
    my $request = $first->begin('/locked');
    my $inside = $door->enters(20);

    ok($inside, "$name: and holds the lock");
    $leased->();

    $way->set(refuse => 1);
    $way->cut();
    $cluster->lead($next);

    my $waits = $second->begin('/locked');

    ok(wait_for(sub { leads($second) }, 40), "$name: the second one leads");
    ok(!leads($first), "$name: the first one has ended before");

    my $visit = $door->enters(40);

    ok($visit, "$name: the second one has the lock");

    # the worker has looked at its timers before it reads a second request

    $first->says for 1 .. 2;
    ok($inside->is_gone, "$name: the first one has lost it before");

    $visit->leave if $visit;
    $_->stop for $second, $first;
}


# The member that is asked says how long it would keep the lease itself.

judge('a quick member', $quick, $quick, sub { });

# The raft leader keeps the lease for as long as it says, and the next one does
# not.

judge('the slow member', $slow, $quick, sub {
    my $renewed = $slow->metric('etcd_debugging_lease_renewed_total') // 0;

    ok(wait_for(sub {
        $slow->metric('etcd_debugging_lease_renewed_total') >= $renewed + 2
    }, 60), 'the slow member renews leases');
});

finish();
