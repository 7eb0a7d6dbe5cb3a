#!/usr/bin/perl

# etcd is restored from a snapshot, on the same URLs: what was put after that is
# gone, and leases from before are there.  A lock whose key is gone is given up
# before an nginx that knew the former history lets anybody in, and so is a
# leadership.  It shows in the revision or, where that is past what was seen, in
# the raft term: an nginx is frozen until etcd is as the test wants it.  There
# are three members of etcd.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Select;
use Test::More;

use Backend;
use Cluster;
use Finish;
use Nginx;
use Wait;

use constant {
    TTL   => 8,
    TERMS => 10,        # more than a restored cluster needs
};

my $etcd = Cluster->new(3)->start();
my $backend = Backend->start('one');
my $free = Backend->start('free');

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl %%TTL%%s;
    election ingress /elections/ingress value=%%NAME%% ttl=%%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /leads {
            return 200 "$etcd_is_leader_ingress";
        }

        location = /free {
            etcd_lock /locks/free $arg_name wait=600s;
            proxy_pass http://%%FREE%%;
        }

        location = /lock {
            etcd_lock /locks/one wait=600s;
            proxy_read_timeout 600s;
            proxy_pass http://%%ONE%%;
        }
    }
}
END


sub start {
    my ($name) = @_;

    return Nginx->new()->set(ETCD => $etcd->endpoints, NAME => $name,
                             TTL => TTL, ONE => $backend->address,
                             FREE => $free->address)
                       ->start($config);
}


# the raft term

sub term {
    return ($etcd->leader->call('maintenance/status', {}))->{raftTerm};
}


# Elects one leader of raft after another.

sub elect_often {
    while (term() < TERMS) {
        my $leader = $etcd->leader;

        $etcd->lead((grep { $_ != $leader } $etcd->members)[0])
            or die "no other leader\n";
    }
}


sub count { scalar(my @kvs = $etcd->ask('list', $_[0])) }


sub logged {
    my ($nginx, $what) = @_;

    return $nginx->count_log(qr/another history: $what/);
}


# Each nginx has one worker.

sub freeze { $_->freeze($_->workers) for @_ }
sub thaw { $_->thaw($_->workers) for @_ }


elect_often();

my $first = start('first');
my $second = start('second');

is($_->get('/free?name=' . $_->port)->{status}, 200, 'a lease for locks')
    for $first, $second;
wait_for { count('/elections/ingress/') == 2 } 20, 'the candidates';
wait_for { $first->leads || $second->leads } 20, 'the leader';

my $snapshot = $etcd->leader->save;

$backend->reset;
$backend->set(hang => 1);

my $holder = $first->begin('/lock');

wait_for { $backend->requests == 1 } 10, 'the first request';
is(count('/locks/one/'), 1, 'the lock is held');

my ($leader, $other) = $first->leads ? ($first, $second) : ($second, $first);

# The restored etcd is past all revisions that an nginx has seen.

my $before = term();

$etcd->ask('put', "/more/$_", $_) for 1 .. 20;
freeze($first, $second);
$etcd->restore($snapshot);
$etcd->ask('put', "/other/$_", $_) for 1 .. 40;
cmp_ok(term(), '<', $before, 'the raft term is lower in the restored cluster');
thaw($first, $second);

my $waiter = $second->begin('/lock');

# The other nginx lets nobody in for another TTL: its first answer tells it that
# there is another history.

my ($inside, $two_lead) = (0, 0);

wait_for {
    $inside = $backend->requests - 1;
    $two_lead += $other->leads && $leader->leads;
    IO::Select->new($holder->{socket})->can_read(0);
} 60, 'the first request to end';

is($inside, 0, 'nobody else was let in meanwhile');
is($holder->receive->{status}, 503, 'the request whose lock is gone is cut');

wait_for {
    $two_lead += $other->leads && $leader->leads;
    ($leader->leads || $other->leads) && $backend->requests == 2;
} 60, 'another leader and holder';

is($backend->requests, 2, 'then the other one has the lock');
is($two_lead, 0, 'never did two lead');
ok($leader->leads || $other->leads, 'one leads');
cmp_ok(logged($_, 'the raft term went back'), '>', 0, 'it is logged')
    for $first, $second;
is(logged($_, 'the revision went back'), 0, 'the revision shows nothing')
    for $first, $second;

$backend->set(hang => 0);
is($waiter->receive->{status}, 200, 'its request succeeds');

# etcd is restored once more: the revision is lower than one that the first
# nginx has seen, also if leases of the second one expire meanwhile.

wait_for { count('/locks/one/') == 0 } 10, 'the lock to be free';

$snapshot = $etcd->leader->save;

$backend->reset;
$backend->set(hang => 1);

$holder = $first->begin('/lock');

wait_for { $backend->requests == 1 } 10, 'the third request';

$etcd->ask('put', "/more/$_", $_) for 1 .. 20;
is($first->get('/free?name=seen')->{status}, 200, 'the first sees a revision');

freeze($second);
$etcd->restore($snapshot);

wait_for { logged($first, 'the revision went back') } 20, 'it to be logged';
is($holder->receive->{status}, 503, 'the next such request is cut as well');

thaw($second);

finish();
