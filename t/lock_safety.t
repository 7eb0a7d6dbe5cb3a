#!/usr/bin/perl

# Locks are safe: three nginxes let clients into registers that count up, one
# request at a time, while they, and the members of an etcd cluster, are
# stopped, killed, reloaded, restarted and cut off at random.  What the
# registers and the clients have seen is judged afterwards, see LockHistory.
# TEST_SOAK=SECONDS: for so long.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Cluster;
use Contenders;
use Disturber;
use Finish;
use LockHistory;
use Netns;
use Nginx;
use Register;
use Stall;
use Wait;

Netns::enter();

use constant {
    NGINXES => 3,
    CLIENTS => 10,
    TTL     => 2,
    LATE    => 0.5,
    MARGIN  => 0.2,     # that nginx has until etcd gives a lock away
    SETTLES => 1,
};

my $slower = $ENV{TEST_SLOWER} || 1;
my $soak = $ENV{TEST_SOAK} || 40;
my $seed = $ENV{TEST_SEED} || int(rand(2 ** 31));

srand($seed);
diag("TEST_SEED=$seed") if $ENV{TEST_SOAK};

# whether the register checks tokens, and how many may be inside

my %locks = (
    fenced        => [1, 1],
    fenced_passed => [1, 1],
    bare          => [0, 1],
    bare_passed   => [0, 1],
    pair          => [0, 2],
);

my $stall = Stall->watch();
my $net = Netns->new(3, ways => NGINXES);
my $cluster = Cluster->new(3, places => [$net->places])->start();
my $registers = Register->start(open => 0,
                                map { ($_ => $locks{$_}[0]) } keys %locks);

my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    connect_timeout 500ms;
    lock_ttl %%TTL%%s;
}

http {
    log_format locks '$msec $request_time $status $etcd_lock_status '
                     '$etcd_lock_token $etcd_lock_wait $http_x_request $uri';

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/locks.log locks;

        proxy_set_header X-Token $etcd_lock_token;

        location /open {
            proxy_pass http://%%REGISTER%%;
        }

        location /fenced {
            etcd_lock /locks/fenced wait=10s;
            proxy_pass http://%%REGISTER%%;
        }

        location /fenced_passed {
            etcd_lock /locks/passed fenced wait=10s handoff=8;
            proxy_pass http://%%REGISTER%%;
        }

        location /bare {
            etcd_lock /locks/bare $request_method wait=10s;
            proxy_pass http://%%REGISTER%%;
        }

        location /bare_passed {
            etcd_lock /locks/passed bare wait=10s handoff=8;
            proxy_pass http://%%REGISTER%%;
        }

        location /pair {
            etcd_lock /locks/pair wait=10s permits=2;
            proxy_pass http://%%REGISTER%%;
        }

        location /status {
            etcd_status;
            access_log off;
        }
    }
}

EOF_CONFIG

my @nginxes = map {
    Nginx->new()->set(ETCD => $cluster->endpoints($_), TTL => TTL,
                      REGISTER => $registers->address)->start($config);
} 1 .. NGINXES;

sub locks_of { ($_[0]->status // {})->{locks} // {} }


my $contenders = Contenders->start(\@nginxes, ['open', keys %locks],
                                   clients => CLIENTS, long => TTL + 1);
my $disturber = Disturber->new(
    cluster    => $cluster,
    net        => $net,
    nginxes    => \@nginxes,
    ttl        => TTL,
    locks      => '/locks/',
    contenders => $contenders,
    registers  => $registers,
);

ok(wait_for(sub { $registers->count('write') > 50 }, 30), 'there is traffic');

$disturber->go_on($soak, 'nginx cut off', 'workers stopped', 'a key deleted',
                  'nginx with a minority', 'a lease revoked', 'compacted');

my $before = $registers->count('write');

ok(wait_for(sub { $registers->count('write') > $before + 20 }, 60),
   'all is well again');
ok($contenders->end(), 'clients end');

# what is left

sub busy {
    return grep { $_->{held} || $_->{waiting} }
        map { values %{ locks_of($_) } } @nginxes;
}

sub left { map { $_->{key} } $cluster->ask('list', '/locks/') }
sub leases { my @leases = $cluster->ask('leases'); return @leases }

ok(wait_for(sub { !busy() }, 20), 'nobody holds a lock, or waits');
ok(wait_for(sub { !left() }, TTL * 10), 'no key is left')
    or diag(join("\n", left()));

$_->quit for @nginxes;
ok(wait_for(sub { !leases() }, TTL * 10), 'no lease is left')
    or diag(join("\n", leases()));

# when the machine itself has stopped for longer than nginx can make up for

sub stalls {
    return map { [undef, $_->[0], $_->[1] + SETTLES * $slower] }
           grep { $_->[1] - $_->[0] >= MARGIN }
           map { $stall->stalls($_) } @{ $stall->{watchers} };
}


# what happened

my @events = $registers->history;
my @requests = $contenders->history;
my $history = LockHistory->new(
    events    => \@events,
    requests  => \@requests,
    permits   => { map { ($_ => $locks{$_}[1]) } keys %locks },
    disturbed => [$disturber->disturbed, stalls()],
    killed    => [$disturber->killed],
    late      => LATE * $slower,
);

sub holds {
    my ($what, $name, @which) = @_;

    my @found = $history->$what(@which);

    is(scalar(@found), 0, join(': ', @which, $name))
        or diag("TEST_SEED=$seed\n",
                join("\n", @found[0 .. ($#found < 9 ? $#found : 9)]));
}

for my $lock (sort keys %locks) {
    my ($fenced, $permits) = @{ $locks{$lock} };

    holds('lost_updates', 'no update is lost', $lock) if $fenced;
    holds('overlaps', "never more than $permits inside", $lock);
    holds('tokens', $permits == 1 ? 'tokens only grow' : 'tokens are unique',
          $lock);
    holds('stale', 'nobody is refused for nothing', $lock);

    my $statuses = $history->statuses($lock);

    cmp_ok($statuses->{200} // 0, '>', 10, "$lock: many were inside");
    note("$lock: ", join(', ', map { "$_: $statuses->{$_}" }
                               sort keys %$statuses));
}

holds('unanswered', 'every client got an answer');

# the same clients where there is no lock

cmp_ok(scalar($history->$_('open')), '>', 0, "without a lock: $_")
    for qw(lost_updates overlaps);

my $summary = $disturber->summary . '; ' . @requests . ' requests';

$ENV{TEST_SOAK} ? diag($summary) : note($summary);

finish();
