#!/usr/bin/perl

# The cost of a status of ten thousand members to others: the latency of
# requests while it is asked for all the time, and without; and the time for
# which the worker was kept from other work at a stretch.
#
# The worker has a CPU of its own: who asks, and etcd, have another one, so
# that a request does not wait for a status to be read.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(max);
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime sleep time);

use Bench;
use Cpus;
use Etcd;
use Finish;
use Http;
use Methods;
use Nginx;
use Process;
use Stall;
use Wait;

use constant {
    MEMBERS     => 10_000,
    ROUNDS      => $ENV{BENCH_ROUNDS} || 20,
    REQUESTS    => $ENV{BENCH_REQUESTS} || 200_000,
    PAUSE       => 0.1,                 # seconds between two statuses
    CONNECTIONS => 8,
    STILL       => 1,                   # seconds without a status
    ALONE       => 20,                  # statuses without other requests
};

# statuses that are asked for, beside none

my %paths = (
    json    => '/status',
    sums    => '/status?format=prometheus',
    members => '/members',
);

my ($cpu, $other) = Stall::cores();

defined $other or die "there is one CPU only\n";

# All processes that are started from here on have the other CPU.

Cpus::move($other, $$);

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->set(PREFIX => '/status/');

$nginx->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 32m;
}

http {
    keepalive_requests 1000000000;

    upstream api {
        etcd_members %%PREFIX%%;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /here {
            return 200 here;
        }

        location /status {
            etcd_status;
        }

        location /members {
            etcd_status prometheus members=on;
        }
    }
}

EOF

fill($etcd, '/status/', MEMBERS);
wait_for { status_of($nginx)->{members} == MEMBERS } 60, 'the members'
    or die "there are no members\n";

Cpus::move($cpu, $nginx->workers);


sub stall { $nginx->get('/status')->{body} =~ /"stall_us":(\d+)/ ? $1 : 0 }


# a process that asks, until it is told to end, and prints the seconds of each
# answer

sub start_reader {
    my ($path) = @_;

    my $pid = open(my $pipe, '-|') // die "fork: $!\n";

    $pid == 0 or return ($pid, $pipe);

    local $SIG{TERM} = sub { POSIX::_exit(0) };

    my $http = Http->new($nginx->port);

    STDOUT->autoflush(1);

    while (1) {
        print stopwatch { $http->get($path) }, "\n";
        sleep(PAUSE);
    }
}


# Of requests, microseconds: 99 of 100 take that, or less.  Of each status,
# milliseconds, if it was complete meanwhile.

sub latency {
    my ($what) = @_;

    my ($reader, $pipe) = $paths{$what} ? start_reader($paths{$what}) : ();

    my ($status, $output) = run(Methods::clients(), $nginx->port, '/here',
                                CONNECTIONS, REQUESTS, 'keep');

    if ($reader) {
        kill('TERM', $reader);
    }

    $status == 0 or die "clients: $output\n";

    return {
        p99   => (split(' ', $output))[-1],
        takes => [$reader ? map { $_ * 1e3 } <$pipe> : ()],
    };
}


# The most microseconds for which a loop that only looks at the clock is kept
# from that, on the worker's CPU while the worker has nothing to do.

sub standstill {
    my $pid = open(my $pipe, '-|') // die "fork: $!\n";

    $pid == 0 or return <$pipe> * 1e6;

    Cpus::move($cpu, $$);

    my $last = clock_gettime(CLOCK_MONOTONIC);
    my $end = $last + STILL;
    my $longest = 0;

    while ($last < $end) {
        my $now = clock_gettime(CLOCK_MONOTONIC);

        $longest = max($longest, $now - $last);
        $last = $now;
    }

    print "$longest\n";
    STDOUT->flush();
    POSIX::_exit(0);
}


# milliseconds of a status without other requests, and of the worker's CPU

sub alone {
    my ($path) = @_;

    my @workers = $nginx->workers;
    my $http = Http->new($nginx->port);
    my $before = cpu_time(@workers);
    my @took = map { 1e3 * stopwatch { $http->get($path) } } 1 .. ALONE;

    return { takes => median(@took),
             cpu   => (cpu_time(@workers) - $before) / ALONE * 1e3 };
}


my $before = stall();
my @kinds = ('none', sort keys %paths);
my @rounds = map {
    my $shift = $_ % @kinds;

    +{ still => standstill(),
       map { $_ => latency($_) } @kinds[$shift .. $#kinds],
                                 @kinds[0 .. $shift - 1] }
} 0 .. ROUNDS - 1;
my $after = stall();

my %alone = map { $_ => alone($paths{$_}) } keys %paths;
my %sizes = map { $_ => length($nginx->get($paths{$_})->{body}) } keys %paths;
my $still = sprintf('%.0f', max(map { $_->{still} } @rounds));
my $seconds = ROUNDS * STILL;
my $requests = REQUESTS;
my $members = MEMBERS;
my $pause = PAUSE * 1000;
my $connections = CONNECTIONS;


sub row {
    my ($kind) = @_;

    my @takes = map { @{ $_->{$kind}{takes} } } @rounds;
    my $alone = $alone{$kind};

    return [$kind, $sizes{$kind} // '-',
            spread_of('%.0f', sub { $_[0]{$kind}{p99} }, @rounds),
            spread_of('%.2f', sub { $_[0]{$kind}{p99} / $_[0]{none}{p99} },
                      @rounds),
            @takes ? spread('%.0f', @takes) : '-',
            map { $alone ? sprintf('%.1f', $alone->{$_}) : '-' }
            qw(takes cpu)];
}


publish('Status', <<"END",
The 99th percentile of the latency of $requests requests that nginx answers by
itself, in microseconds, while somebody asks the same worker for the status of
$members members, $pause ms after he got it, and while nobody does: as JSON, as
sums, and as metrics of each member. The ratio is to be 1.1 at most. Beside it
stand the milliseconds that a status takes then, those that it takes when nobody
else asks, and how many of these the worker's CPU is busy. The worker is pinned
to one CPU, all others are to another: the $connections clients, who asks for
the status, and etcd.
END
    table(['status', 'bytes', 'p99', 'ratio', 'takes, ms', 'alone',
           'of the CPU'], map { row($_) } @kinds),
    <<"END");
The longest that the worker was kept from other work at a stretch, by etcd's
changes or by a status, was $before us before that, and $after us after it, by
the clock on the wall: also while the machine gives the CPU to somebody else. A
loop that only looks at the clock, on the same CPU between the rounds, while the
worker was not asked for anything, was kept from it for $still us at most, in
$seconds s.
END
