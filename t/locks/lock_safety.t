#!/usr/bin/perl

# Locks are safe and live: three nginxes let clients into registers that count
# up, one request at a time, or several that read.  Clients of etcd_lock_serve,
# and programs with etcd's own client, want the same locks.  Storms of faults
# meet the nginxes and the members of an etcd cluster meanwhile; see Disturber
# and Storm.  LockHistory judges the history that the registers and the clients
# have written.
#
# TEST_SOAK=SECONDS: for so long; TEST_SEED: repeats the storms of another run;
# TEST_KEEP=1: leaves the history (see Register, Contenders).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use POSIX qw(mktime);
use Test::More;

use Cluster;
use Contenders;
use Control;
use Disturber;
use Finish;
use Go;
use LockHistory;
use Netns;
use Nginx;
use Process;
use Register;
use Served;
use Wait;

Netns::enter();

use constant {
    NGINXES => 3,
    CLIENTS => 10,
    GO      => 2,       # programs in Go
    TTL     => 2,
    LATE    => 0.5,
    MARGIN  => 0.2,     # seconds for nginx before etcd gives a lock away
    SETTLES => 1,
    IDLE    => 1,       # s within which a free lock is granted; if other
    SHARED  => 5,       # tests take the CPU, too: before a hang of 10 s
    LONG    => 15,      # the TTL of locks that outlive a restore of etcd
    STAYS   => 10,      # seconds that a request is inside meanwhile
};

my $slower = $ENV{TEST_SLOWER} || 1;
my $soak = $ENV{TEST_SOAK} || 40;
my $seed = $ENV{TEST_SEED} || ($ENV{TEST_SOAK} ? int(rand(2 ** 31)) : 5);
my $idle = $ENV{TEST_SOAK} ? IDLE : SHARED;

srand($seed);
diag("TEST_SEED=$seed") if $ENV{TEST_SOAK};

# NAME => [whether the register checks tokens, how many may be inside]

my %locks = (
    fenced        => [1, 1],
    fenced_passed => [1, 1],
    bare          => [0, 1],
    bare_passed   => [0, 1],
    bare_kept     => [0, 1],
    pair          => [0, 2],
    timed         => [0, 1],
    shared        => [1, 1],
    served        => [1, 1],
);

# Programs in Go want these, too.

my @go = qw(shared served);
my $programs = qr/^g\d/;

my $control = Control->start();
my $net = Netns->new(3, ways => NGINXES);
my $cluster = Cluster->new(3, places => [$net->places])->start();
my $registers = Register->start(open => 0, restored => 0,
                                map { ($_ => $locks{$_}[0]) } keys %locks);

my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    connect_timeout 500ms;
    lock_ttl %%TTL%%s;
}

etcd long {
    endpoints %%ETCD%%;
    connect_timeout 500ms;
    lock_ttl %%LONG%%s;
}

http {
    log_format locks '$msec $request_time $status $etcd_lock_result '
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
            etcd_lock /locks/passed fenced wait=10s reuse=9;
            proxy_pass http://%%REGISTER%%;
        }

        location /bare {
            etcd_lock /locks/bare $request_method wait=10s;
            proxy_pass http://%%REGISTER%%;
        }

        location /bare_passed {
            etcd_lock /locks/passed bare wait=10s reuse=9;
            proxy_pass http://%%REGISTER%%;
        }

        location /bare_kept {
            etcd_lock /locks/kept wait=10s reuse=1,2s;
            proxy_pass http://%%REGISTER%%;
        }

        location /pair {
            etcd_lock /locks/pair wait=10s permits=2;
            proxy_pass http://%%REGISTER%%;
        }

        # of the requests that stay, most time out

        location /timed {
            etcd_lock /locks/timed wait=10s;
            proxy_read_timeout 1s;
            proxy_pass http://%%REGISTER%%;
        }

        location /shared {
            etcd_lock /locks/shared wait=10s shared=$http_x_read;
            proxy_pass http://%%REGISTER%%;
        }

        # The client asks the register.

        location /served {
            etcd_lock /locks/served wait=10s;
            etcd_lock_serve;
            etcd_lock_serve_ping %%PING%%;
        }

        location /restored {
            etcd_lock /locks/restored cluster=long wait=10s;
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
                      LONG => LONG, REGISTER => $registers->address,
                      PING => Served::PING)
        ->start($config);
} 1 .. NGINXES;

sub locks_of { ($_[0]->status // {})->{locks} // {} }


my $contenders = Contenders->start(\@nginxes, ['open', keys %locks],
                                   clients => CLIENTS, long => TTL + 1,
                                   shared => ['shared'],
                                   served => { served => $registers->port });
my $go = Go::build("$FindBin::Bin/../go/storm.go");

# The ways of Go's clients to etcd are not cut: they would not find back as soon
# as a lock has to be granted.

if ($go) {
    $contenders->program($go, join(',', map { $_->test_url } $cluster->members),
                         $registers->address, "g$_", NGINXES, '/locks/',
                         join(',', @go), TTL, TTL + 1) for 1 .. GO;
}

my $disturber = Disturber->new(
    cluster    => $cluster,
    net        => $net,
    nginxes    => \@nginxes,
    ttl        => TTL,
    locks      => '/locks/',
    contenders => $contenders,
    registers  => $registers,
    seed       => $seed,
);

my @table;


# A test: nothing of that kind was found.

sub counts {
    my ($name, @found) = @_;

    push @table, [$name, scalar(@found)];
    is(scalar(@found), 0, $name)
        or diag("TEST_SEED=$seed\n",
                join("\n", @found[0 .. ($#found < 9 ? $#found : 9)]));
}

ok(wait_for(sub { $registers->count('write') > 50 }, 30), 'there is traffic');

$disturber->go_on($soak, ["the leader's disk stands still", 'a key deleted'],
                  ['nginx cut off', 'workers stopped', 'compacted'],
                  ['nginx with a minority', 'a lease revoked']);

my $before = $registers->count('write');

ok(wait_for(sub { $registers->count('write') > $before + 20 }, 60),
   'all is well again');
ok($contenders->end(), 'clients end');

# etcd is restored from a snapshot that does not know the key of the request
# that is inside; tokens begin anew.

my $others = Contenders->start(\@nginxes, ['restored'], clients => 4,
                               long => TTL, name => 'o');

for my $n (1 .. ($ENV{TEST_SOAK} ? 5 : 1)) {
    my $snapshot = ($cluster->members)[0]->save;
    my $mark = $registers->mark;
    my ($tries, @pids) = 0;

    # An nginx that has noticed the former restore lets nobody in for a while.

    wait_for {
        @pids = $others->bait($n % NGINXES, STAYS, "r$n." . ++$tries)
            if !grep { is_running($_) } @pids;

        $registers->count('enter', "r$n\\.", $mark);
    } 4 * LONG, 'the request' or die "nobody has the lock\n";

    $cluster->restore($snapshot);
    $mark = $registers->mark;

    # Nobody is let in for as long as locks of the former history may be held.

    ok(wait_for(sub { $registers->count('enter', 'o', $mark) }, 2 * LONG),
       'the lock is granted after a restore');
}

ok($others->end(), 'their clients end');

# locks, keys and leases that are left

sub busy {
    return grep { $_->{held} || $_->{waiting} }
        map { values %{ locks_of($_) } } @nginxes;
}

sub left { map { $_->{key} } $cluster->ask('list', '/locks/') }
sub leases { my @leases = $cluster->ask('leases'); return @leases }

ok(wait_for(sub { !busy() }, 20), 'nobody holds a lock, or waits');
wait_for { !left() } LONG * 2, 'all keys to be gone';
counts('keys left over', left());

$_->quit for @nginxes;
wait_for { !leases() } LONG * 2, 'all leases to be gone';
counts('leases left over', leases());

# the times in which the machine stood still, or a control had no answer, for
# longer than nginx can make up for

sub stalls {
    return map { [undef, $_->[0], $_->[1] + SETTLES * $slower] }
           grep { $_->[1] - $_->[0] >= MARGIN } $control->moments(0);
}


# the times at which an nginx has lost locks: the log has seconds

sub lost {
    my ($n) = @_;

    my %times = map { m{^(\d+)/(\d+)/(\d+) (\d+):(\d+):(\d+) .* is lost}
                      ? (mktime($6, $5, $4, $3, $2 - 1, $1 - 1900) => 1) : ()
                } $nginxes[$n]->lines_of('error.log');

    return map { [$n, $_ - SETTLES * $slower, $_ + 1 + SETTLES * $slower] }
           keys %times;
}


# the history of all

my @events = $registers->history;
my @requests = ($contenders->history, $others->history);
my $history = LockHistory->new(
    events    => \@events,
    requests  => \@requests,
    permits   => { map { ($_ => $locks{$_}[1]) } keys %locks },
    disturbed => [$disturber->disturbed, stalls()],
    taken     => [$disturber->taken],
    killed    => [$disturber->killed],
    lost      => [map { lost($_) } 0 .. $#nginxes],
    late      => LATE * $slower,
    foreign   => $programs,
);

my @all = sort keys %locks;
my @fenced = grep { $locks{$_}[0] } @all;
my @alone = grep { $_ ne 'shared' } @all;

my @overlaps = map { $history->overlaps($_) } @all;

counts('overlaps of requests that succeeded',
       grep { /^succeeded/ } @overlaps);
counts('overlaps with a request whose client had left, or timed out',
       grep { /^left/ } @overlaps);
counts('overlaps with a request that was cut too late',
       grep { /^cut/ } @overlaps);
counts('overlaps after a restore of etcd', $history->overlaps('restored'));
counts('lost updates of fenced registers',
       map { $history->lost_updates($_) } @fenced);
counts('tokens that go back, or of two requests',
       map { $history->tokens($_) } @all);
counts('histories that are not linearizable',
       map { my $lock = $_;
             map { "$lock: $_" } $history->unexplained($lock) } @alone);
counts('refusals for nothing', map { $history->stale($_) } @all);
counts('requests without an answer', $history->unanswered);

for my $lock (@all) {
    my $statuses = $history->statuses($lock);

    cmp_ok($statuses->{200} // 0, '>', 10, "$lock: many were inside");
    note("$lock: ", join(', ', map { "$_: $statuses->{$_}" }
                               sort keys %$statuses));
}

SKIP: {
    $go or skip(Go::MISSING, scalar(@go));

    for my $lock (@go) {
        my @inside = grep { $_->{request} =~ $programs && $_->{status} == 200
                            && $_->{register} eq $lock } @requests;

        cmp_ok(scalar(@inside), '>', 5, "$lock: programs in Go were inside");
    }
}

# The same clients fail if there is no lock.

cmp_ok(scalar($history->$_('open')), '>', 0, "without a lock: $_")
    for qw(lost_updates overlaps);


# The times for which a lock was free, but not granted, the longest first:
# [SECONDS, LOCK, FROM, UNTIL].

sub idle {
    my @calms = @_;

    return sort { $b->[0] <=> $a->[0] } map {
        my $lock = $_;

        map { [$_->[1] - $_->[0], $lock, @$_] } $history->idle($lock, @calms);
    } @all;
}


# without the seconds of the control, which take long to count

sub lasted { $control->lasted(@_[2, 3]) }


sub describe_idle {
    return sprintf('%.3f (%s at %.3f; %.3f of the control)', @_[0 .. 2],
                   lasted(@_));
}


for (['after the last fault', $disturber->calms(0)],
     ['after the end of the leases of the dead', $disturber->calms(1)])
{
    my ($when, @calms) = @$_;
    my @times = idle(@calms);

    push @table, ["seconds that a lock was free but not granted, $when",
                  @times ? describe_idle(@{ $times[0] }) : '-'];

    is(join("\n", map { describe_idle(@$_) }
                      grep { $_->[0] > $idle * $slower
                             && lasted(@$_) > $idle * $slower } @times), '',
       "a free lock is granted in time, $when") or diag("TEST_SEED=$seed");
}

push @table, ['seconds that a lease was left after a storm and its TTL',
              sprintf('%.3f', $disturber->outlived)],
             ['requests', scalar(@requests)],
             ['requests answered 200', scalar(grep { $_->{status} == 200 }
                                              @requests)];

my $summary = join("\n", $disturber->summary, "TEST_SEED=$seed",
                   map { sprintf('%-66s %s', @$_) } @table);

$ENV{TEST_SOAK} ? diag($summary) : note($summary);

$control->finished();

finish();
