#!/usr/bin/perl

# What a status of ten thousand members costs others: the latency of requests
# while it is asked for all the time, and without; and how long the worker was
# kept from other work at a stretch.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Time::HiRes qw(sleep time);

use Bench;
use Etcd;
use Finish;
use Http;
use Nginx;
use Process;
use Wait;

use constant {
    MEMBERS     => 10_000,
    ROUNDS      => $ENV{BENCH_ROUNDS} || 20,
    SECONDS     => $ENV{BENCH_SECONDS} || 2,
    PAUSE       => 0.1,                 # between two statuses
    CONNECTIONS => 8,
};

# what is asked for, beside nothing

my %paths = (
    json    => '/status',
    sums    => '/status?format=prometheus',
    members => '/members',
);

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


sub stall { $nginx->get('/status')->{body} =~ /"stall_us":(\d+)/ ? $1 : 0 }


# one that asks, until it is told to end

sub start_reader {
    my ($path) = @_;

    my $pid = fork() // die "fork: $!\n";

    $pid == 0 or return $pid;

    local $SIG{TERM} = sub { POSIX::_exit(0) };

    my $http = Http->new($nginx->port);

    while (1) {
        $http->get($path);
        sleep(PAUSE);
    }
}


# 99 of 100 requests take that many microseconds, or less

sub latency {
    my ($what) = @_;

    my $reader = $paths{$what} ? start_reader($paths{$what}) : undef;

    my ($status, $output) = run('wrk', '-t', 1, '-c', CONNECTIONS,
                                '-d', SECONDS . 's', '--latency',
                                'http://127.0.0.1:' . $nginx->port . '/here');

    if ($reader) {
        kill('TERM', $reader);
        waitpid($reader, 0);
    }

    my ($value, $unit) = $output =~ /^\s+99%\s+([\d.]+)(us|ms|s)$/m
        or die "wrk: $output\n";

    return $value * { us => 1, ms => 1e3, s => 1e6 }->{$unit};
}


my $before = stall();
my @kinds = ('none', sort keys %paths);
my @rounds = map {
    my $shift = $_ % @kinds;

    +{ map { $_ => latency($_) } @kinds[$shift .. $#kinds],
                                 @kinds[0 .. $shift - 1] }
} 0 .. ROUNDS - 1;
my $after = stall();

my %sizes = map { $_ => length($nginx->get($paths{$_})->{body}) } keys %paths;
my $members = MEMBERS;
my $pause = PAUSE * 1000;


sub row {
    my ($kind) = @_;

    return [$kind, $sizes{$kind} // '-',
            spread_of('%.0f', sub { $_[0]{$kind} }, @rounds),
            spread_of('%.2f', sub { $_[0]{$kind} / $_[0]{none} }, @rounds)];
}


publish('Status', <<"END",
The 99th percentile of the latency of a request that nginx answers by itself, in
microseconds, while somebody asks the same worker for the status of $members
members, $pause ms after he got it, and while nobody does: as JSON, as sums, and
as metrics of each member. The ratio is to be 1.1 at most.
END
    table(['status', 'bytes', 'p99', 'ratio'], map { row($_) } @kinds),
    "The longest that the worker was kept from other work at a stretch was "
    . "$before us before that, and $after us after it.\n");
