#!/usr/bin/perl

# A fleet of nginxes on one cluster of three: clients of the real code in one
# nginx (t/bench/fleet.c).  Each part has a section of its own.
#
# BENCH_FLEET="100 1000 3000": how many.  BENCH_PARTS: of start, return, idle,
# rate, leases, nginx; all if it is not set.  BENCH_SECONDS: of an idle fleet.
# BENCH_CYCLES: two changes each, of each real nginx.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(max min sum);
use POSIX ();
use Time::HiRes qw(sleep time);

use Bench;
use Finish;
use Fleet;
use Nginx;
use Nginxes;

use constant {
    PATIENCE => 60,
    AWAY     => 3,
    RATE     => 6,           # seconds of each rate
    LATE     => 1000,        # ms: nobody is to be as late
    TTL      => 30,
    LOOPS    => 3,
    BUSY     => 25,          # seconds
    NGINXES  => 10,
    PUTS     => 10,          # a second, beside a change that is timed
};

my @sizes = split(' ', $ENV{BENCH_FLEET} || '100 1000 3000');
my %parts = map { $_ => 1 }
    split(' ', $ENV{BENCH_PARTS} || 'start return idle rate leases nginx');
my $idle = $ENV{BENCH_SECONDS} || 20;
my $cycles = $ENV{BENCH_CYCLES} || 5;

# a password of cost 10 takes some 60 ms of a CPU, and https some ms: more than
# these would take minutes on a small machine

my %most = (cost10 => 100, cost4 => 1000, tls => 1000, cert => 1000);
my @kinds = split(' ', $ENV{BENCH_KINDS} || 'none tls cert jwt cost4 cost10');


sub seconds { defined $_[0] ? sprintf('%.1f', $_[0]) : 'not in ' . PATIENCE }
sub sizes_of { my ($kind) = @_; grep { $_ <= ($most{$kind} // 1e9) } @sizes }


# CPU seconds of the etcds while the code runs

sub etcd_cpu {
    my ($fleet, $code) = @_;

    my $before = Bench::cpu_time(map { $_->pid } $fleet->etcds);

    $code->();

    return Bench::cpu_time(map { $_->pid } $fleet->etcds) - $before;
}


# A start of all at once, and after it the return of etcd.

sub start_and_return {
    my (@start, @return);

    for my $kind (@kinds) {
        for my $n (sizes_of($kind)) {
            my $fleet = Fleet->new($kind);

            push @start, [$kind, $n, start_of($fleet, $n)];
            push @return, [$kind, $n, return_of($fleet, $n)] if $parts{return};
            $fleet->end();
        }
    }

    publish('Fleet: start', <<'END',
Clients of the real code, each with a watch of one prefix, which begin at the
same time and know no cluster yet; all in one process, beside the three etcds
on this machine. Seconds until half and all of them have all keys; CPU seconds
of the three etcds and of the fleet; the longest linearizable read of another
client meanwhile, in seconds; logins that were begun, and how long one took
that was answered, in ms. cost4 and cost10 are passwords with that cost of
bcrypt (etcd's default is 10), jwt is a token in a file, tls is https, and cert
is https with a certificate of the client as its user.
END
        table(['', 'clients', 'half, s', 'all, s', 'etcd, CPU s',
               'fleet, CPU s', 'longest read, s', 'logins',
               'a login, p50 / max'],
              @start)) if @start && $parts{start};

    publish('Fleet: etcd returns', <<"END",
All three etcds are killed under the fleet, and start again @{[AWAY]} s later:
seconds since they were started, an election of theirs among them, until half
and all clients have a watch in force again; how long the first linearizable
read of another client took that was answered, which waits for the election, and
the longest read after it; and logins. etcd knows the tokens of passwords again,
since the logins are in its log.
END
        table(['', 'clients', 'half, s', 'all, s', 'etcd, CPU s',
               'first read, s', 'longest later, s', 'logins'],
              @return)) if @return;
}


sub start_of {
    my ($fleet, $n) = @_;

    my $at;
    my $probe = $fleet->probe();
    my $cpu = etcd_cpu($fleet, sub {
        $fleet->start($n);
        $at = $fleet->wait_all('synced', PATIENCE);
    });
    my ($longest) = Fleet::probed($probe);
    my $logins = sum(0, values %{ $fleet->calls('Authenticate') });
    my @ms = Fleet::ms_at(undef, $fleet->histogram('waited'), 50, 100);

    return (seconds($at->{50}), seconds($at->{100}), sprintf('%.1f', $cpu),
            sprintf('%.1f', $fleet->cpu->{fleet}), sprintf('%.1f', $longest),
            $logins || '-', $logins ? "$ms[0] / $ms[1]" : '-');
}


sub return_of {
    my ($fleet, $n) = @_;

    $_->kill() for $fleet->etcds;
    sleep(AWAY);
    $fleet->wait_unsynced();

    my $begun = time();

    $_->launch() for $fleet->etcds;

    my ($at, $probe) = (undef, $fleet->probe());

    my $cpu = etcd_cpu($fleet, sub {
        $at = $fleet->wait_all('synced', PATIENCE, $begun);
    });
    my (undef, $first, $later) = Fleet::probed($probe);
    my $logins = sum(0, values %{ $fleet->calls('Authenticate') });

    return (seconds($at->{50}), seconds($at->{100}), sprintf('%.1f', $cpu),
            sprintf('%.1f', $first), sprintf('%.1f', $later), $logins || '-');
}


# Clients that have nothing to do cost etcd their PINGs and memory.

sub idle_fleet {
    my (@rows, $nobody, $empty);

    for my $n (0, @sizes) {
        my $fleet = Fleet->new('none');

        if ($n) {
            $fleet->start($n);
            $fleet->wait_all('synced', PATIENCE)->{100}
                or die "$n clients are not synced\n";
        }

        sleep(5);

        my ($files, $memory) = ($fleet->descriptors, $fleet->etcd_memory);
        my $used = etcd_cpu($fleet, sub { sleep($idle) }) / $idle * 100;

        ($nobody, $empty) = ($used, $memory) if !$n;
        $files -= $rows[0][-1] if $n;

        push @rows, [$n, sprintf('%.1f', $used),
                     $n ? sprintf('%.4f', ($used - $nobody) / $n) : '-',
                     sprintf('%.0f', $memory / 1024),
                     $n ? sprintf('%.0f', ($memory - $empty) / $n) : '-',
                     $n ? sprintf('%.1f', $files / $n) : $files];

        $n ? $fleet->end() : $_->kill() for $n ? 1 : $fleet->etcds;
    }

    $rows[0][-1] = '-';

    publish('Fleet: idle', <<"END",
What clients that have all keys cost the three etcds together in $idle s
without a change: percent of one CPU, their own memory, and connections.
`ping_interval` is 10 s, the default.
END
        table(['clients', 'CPU, %', 'CPU of a client, %', 'memory, MB',
               'memory of a client, kB', 'connections of a client'], @rows));
}


# Changes until the slowest client is late.

sub rates {
    my @rows;

    for my $n (@sizes) {
        my $fleet = Fleet->new('none')->start($n);

        $fleet->wait_all('synced', PATIENCE)->{100}
            or die "$n clients are not synced\n";

        for my $rate (1, 10, 100, 300) {
            my @row = rate_of($fleet, $n, $rate);

            push @rows, [$n, $rate, @row];
            last if $row[3] >= LATE;
        }

        $fleet->end();
    }

    publish('Fleet: changes', <<"END",
Puts of a member at a rate for @{[RATE]} s, by up to eight writers, and the time
from before the put is sent until a client has it: ms over all clients and
changes. CPU of the three etcds, and of the fleet, which is one process: percent
of one CPU. The etcds, the fleet and the writers share the CPUs of this machine:
changes are late where these are used up.
END
        table(['clients', 'changes a second', 'done a second', 'p50', 'p99',
               'max', 'etcd, CPU %', 'fleet, CPU %', 'events a second'],
              @rows));
}


sub rate_of {
    my ($fleet, $n, $rate) = @_;

    my ($before, $cpu) = ($fleet->histogram('late'), $fleet->cpu);
    my $begun = time();
    my ($puts, $took) = $fleet->put_at($rate, RATE);

    # the last changes are still under way

    my $last = -1;

    while ($fleet->counters->{events} != $last && time() - $begun < 60) {
        $last = $fleet->counters->{events};
        sleep(0.5);
    }

    my ($after, $then) = ($fleet->histogram('late'), $fleet->cpu);
    my $all = time() - $begun;
    my $events = sum(@$after) - sum(@$before);

    return (sprintf('%.0f', $puts / $took),
            Fleet::ms_at($before, $after, 50, 99, 100),
            map({ sprintf('%.0f', ($then->{$_} - $cpu->{$_}) / $all * 100) }
                qw(etcd fleet)),
            sprintf('%.0f', $events / $took));
}


# Loops that take CPUs from all others for some seconds

sub busy {
    my @pids;

    for (1 .. LOOPS) {
        my $pid = fork() // die "fork: $!\n";

        push(@pids, $pid), next if $pid;

        my $end = time() + BUSY;

        1 while time() < $end;
        POSIX::_exit(0);
    }

    return @pids;
}


# Each client is registered, or a candidate of an election of ten.

sub leases {
    my @rows;

    for my $row ('register', 'register, busy', 'election') {
        my ($mode, $busy) = split(/, /, $row);

        for my $n (@sizes) {
            my $fleet = Fleet->new('none');
            my @pids = $busy ? busy() : ();

            $fleet->start($n, mode => $mode, ttl => TTL);

            my $held = $fleet->wait_all('held', PATIENCE)->{100};
            my $reconnects = $fleet->counters->{reconnects};

            waitpid($_, 0) for @pids;

            if (!$held) {
                push @rows, [$row, $n, seconds($held), $reconnects,
                             ('-') x 4];
                $fleet->end();
                next;
            }

            my $lost = $fleet->counters->{lost};
            my $renewed = $fleet->metric('etcd_debugging_lease_renewed_total');
            my $used = etcd_cpu($fleet, sub { sleep($idle) });
            my $counters = $fleet->counters;

            $renewed = $fleet->metric('etcd_debugging_lease_renewed_total')
                       - $renewed;

            push @rows, [$row, $n, seconds($held), $reconnects,
                         sprintf('%.0f', $renewed / $idle),
                         sprintf('%.0f', $used / $idle * 100),
                         $counters->{lost} - $lost,
                         $mode eq 'election' ? $counters->{leads} : '-'];
            $fleet->end();
        }
    }

    publish('Fleet: leases', <<"END",
Clients that are registered, or candidates of elections of ten clients each,
with a TTL of @{[TTL]} s: seconds from their start until all have a lease and a
key, and how often they had connected again by then; then renewals a second, CPU
of the three etcds, in percent of one CPU, and leases that were lost, during
$idle s; and how many lead. "busy": @{[LOOPS]} other processes computed for the
first @{[BUSY]} s.
END
        table(['', 'clients', 'all hold a lease, s', 'reconnects',
               'renewals a second', 'etcd, CPU %', 'lost', 'leaders'],
              @rows));
}


# Real nginxes on the etcds of the fleet.

sub nginxes {
    my @rows;

    for my $n (@sizes) {
        my $fleet = Fleet->new('none')->start($n);

        $fleet->wait_all('synced', PATIENCE)->{100}
            or die "$n clients are not synced\n";

        my $nginxes = Nginxes->start($fleet, NGINXES);

        sleep(5);

        my @cost = $nginxes->cost($idle);
        my @alone = $nginxes->follow($cycles);
        my @beside;

        $fleet->while_put_at(PUTS, sub { @beside = $nginxes->follow($cycles) });

        my %outage = $nginxes->outage(AWAY, PATIENCE);

        push @rows, [$n, map({ Propagation::ms(@$_) } @alone, @beside),
                     @outage{qw(requests failed)},
                     map({ seconds($_) } @outage{qw(put followed)}),
                     sprintf('%.3f', $cost[0]),
                     map({ sprintf('%.1f', $_) } @cost[1, 2])];

        $nginxes->end();
        $fleet->end();
    }

    publish('Fleet: real nginxes', <<"END",
@{[NGINXES]} nginxes beside the clients, on the same etcds: two workers, the
members of the clients' prefix, a lock that each worker has taken, and a key
that is registered. One member gets all requests, and is moved: ms from before
the put, p50 / p99 over all nginxes and @{[2 * $cycles]} changes of each, until
`etcdctl watch` has printed it, and until requests of new connections reach the
new member alone; without other changes, and with @{[PUTS]} a second. Then all
etcds are killed while clients send requests through each nginx, and start again
@{[AWAY]} s later: those requests, how many of them failed, and seconds from
that start until etcd takes a put, and until a request through the slowest nginx
reaches the member that was put. At last what one nginx costs, all workers
together, in $idle s without a change: percent of one CPU, its own and its
shared memory.
END
        table(['clients', 'a put to `etcdctl watch`', 'to requests',
               PUTS . ' a second: to `etcdctl watch`', 'to requests',
               'requests in the outage', 'failed', 'etcd takes a put, s',
               'the slowest follows, s', 'CPU, %', 'own, MB', 'shared, MB'],
              @rows));
}


start_and_return() if $parts{start} || $parts{return};
idle_fleet() if $parts{idle};
rates() if $parts{rate};
leases() if $parts{leases};
nginxes() if $parts{nginx};
