package Bench;

# Functions that the benchmarks share: figures as tables in t/bench/RESULTS.md,
# CPU time of other processes, and members in etcd.
#
# A benchmark says publish($title, @paragraphs) once; its section takes the
# place of the one that an earlier run has left.
#
# For trying: BENCH_RESULTS=FILE writes elsewhere, and BENCH_ROUNDS,
# BENCH_SECONDS, BENCH_REQUESTS, BENCH_SIZES, BENCH_CYCLES, BENCH_CHANGES,
# BENCH_KILLS and BENCH_FAULTS make runs shorter.

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use JSON::PP;
use List::Util qw(sum);
use POSIX ();
use Text::Wrap qw(wrap);
use Time::HiRes qw(clock_gettime sleep time);

use Finish;
use Http;
use Nginx;
use Process qw(run);
use Wait;

our @EXPORT = qw(
    percentile median spread spread_of table publish
    cpu_time memory slurp status_of backend_config many_config fill
    member_value start_now wait_ready stopwatch request_cost
);

# for probes of a server that starts

use constant {
    PAUSE    => 0.0005,
    PATIENCE => 30,
};

my $dir = abs_path(dirname(__FILE__));
my $others = cpu_used_by_others();
my $results = $ENV{BENCH_RESULTS} || "$dir/RESULTS.md";

# Sections are in the order of the file.

my @titles = ('Propagation', 'A new service', 'Request cost',
              'Prefix with variables',
              'Instructions of a prefix with variables', 'Nearness',
              'Certificates in etcd',
              'Locks',
              'Locks: where there are none',
              'Connections that are locks', 'Balancing', 'Two workers',
              'Instructions', 'Requests while members change',
              'Checks of members', 'Checks that are shared', 'Faults',
              'One slow member',
              'Beside HAProxy and reloads', 'A queue beside HAProxy',
              'Picking a member', 'Loading members', 'Lists in a stream',
              'Changing a member',
              'Decoding values', 'Status', 'Memory', 'Memory after changes',
              'Failover', 'Reconnect herd', 'Fleet: start',
              'Fleet: etcd returns', 'Fleet: idle', 'Fleet: changes',
              'Fleet: leases', 'Fleet: real nginxes',
              'Fleet: 10 000 on paper',
              'Failover to the next leader',
              'Switchover of PostgreSQL');

my $introduction = <<'END';
# Benchmark results

Written by `make bench`; `make bench T=t/bench/cost.pl` replaces one section.
Every figure stands beside that of a peer measured in the same run, the two in
turns, and is the median of several such pairs; brackets hold the middle half of
them. A ratio is the median of the pairs' ratios. nginx, etcd (its data in
memory), the peer and the load generator share one machine: ratios carry over to
another, absolute figures do not. Nothing here is a test, and no figure fails
the run.

END


# statistics

sub percentile {
    my ($percent, @values) = @_;

    my @sorted = sort { $a <=> $b } @values;
    my $i = POSIX::ceil(@sorted * $percent / 100) - 1;

    return $sorted[$i < 0 ? 0 : $i];
}


sub median {
    my @sorted = sort { $a <=> $b } @_;
    my $middle = int(@sorted / 2);

    return @sorted % 2 ? $sorted[$middle]
                       : ($sorted[$middle - 1] + $sorted[$middle]) / 2;
}


# "median [first quartile .. third]", each in the format given

sub spread {
    my ($format, @values) = @_;

    return sprintf("$format [$format .. $format]", median(@values),
                   map { percentile($_, @values) } 25, 75);
}


# spread() of a function of each round: spread_of('%.2f', sub { ... }, @rounds)

sub spread_of {
    my ($format, $function, @rounds) = @_;

    return spread($format, map { $function->($_) } @rounds);
}


# RESULTS.md

sub table {
    my ($head, @rows) = @_;

    return join('', map { '| ' . join(' | ', @$_) . " |\n" }
                    $head, [('---') x @$head], @rows);
}


sub publish {
    my ($title, @paragraphs) = @_;

    my %sections = read_sections();
    my $text = join("\n", map { /^\|/ ? $_ : fold($_) } @paragraphs,
                                                     machine());

    $sections{$title} = "$text\n";

    open(my $file, '>', $results) or die "open $results: $!\n";

    print $file $introduction,
        map({ defined $sections{$_} ? "## $_\n\n$sections{$_}" : () } @titles);

    close($file) or die "write $results: $!\n";

    print "\n## $title\n\n$text\n";
}


sub fold {
    my ($paragraph) = @_;

    local $Text::Wrap::columns = 80;

    return wrap('', '', $paragraph =~ s/\s+/ /gr =~ s/ \z//r) . "\n";
}


sub read_sections {
    open(my $file, '<', $results) or return;
    local $/;

    my (undef, %sections) = split(/^## (.*)\n\n/m, <$file>);

    return %sections;
}


sub machine {
    my $info = slurp('/proc/cpuinfo');
    my ($model) = $info =~ /^model name\s*:\s*(.*)$/m;
    my $cpus = () = $info =~ /^processor\s*:/mg;
    my ($nginx) = (run(Nginx::binary(), '-v'))[1] =~ m{nginx/(\S+)};
    my ($etcd) = (run('etcd', '--version'))[1] =~ /etcd Version: (\S+)/;
    my $kernel = (POSIX::uname())[2];
    my $script = "t/bench/" . (split(m{/}, $0))[-1];

    return "`make bench T=$script`, nginx $nginx, etcd $etcd, $cpus x "
        . ($model // 'CPU') . ", Linux $kernel; $others% of the CPUs was in use"
        . " before it began.\n";
}


# percent of all CPUs, in the second before a benchmark begins

sub cpu_used_by_others {
    my ($busy, $all) = cpu_ticks();

    sleep(1);

    my ($busy_then, $all_then) = cpu_ticks();

    return POSIX::floor(($busy_then - $busy) * 100
                        / ($all_then - $all || 1) + 0.5);
}


sub cpu_ticks {
    my ($user, $nice, $system, $idle, $iowait, @more) =
        slurp('/proc/stat') =~ /^cpu +(.*)/ ? split(' ', $1) : ();

    # The time of guests is in user and nice already.

    my $busy = sum($user, $nice, $system, @more[0 .. 2]);

    return ($busy, $busy + $idle + $iowait);
}


sub slurp {
    my ($path) = @_;

    open(my $file, '<', $path) or die "open $path: $!\n";
    local $/;

    return <$file>;
}


# CPU seconds that processes have used so far, user and system: the clocks
# behind utime and stime, without their rounding to ticks

sub cpu_time {
    my @pids = @_;

    return sum(map { clock_gettime((-$_ - 1) * 8 + 2) } @pids);
}


# kB of a process: all of it, its own, and shared

sub memory {
    my ($pid) = @_;

    my %kb = slurp("/proc/$pid/status") =~ /^(VmRSS|Rss\w+):\s*(\d+) kB/mg;

    return { all => $kb{VmRSS}, own => $kb{RssAnon}, shared => $kb{RssShmem} };
}


# CPU time of all workers for one request, in microseconds, by wrk

sub request_cost {
    my ($nginx, $path, $seconds, $connections) = @_;

    my @workers = $nginx->workers();
    my $before = cpu_time(@workers);

    my ($status, $output) = run('wrk', '-t', 1, '-c', $connections,
                                '-d', "${seconds}s", 'http://127.0.0.1:'
                                . $nginx->port . "/$path");

    my $used = cpu_time(@workers) - $before;
    my ($requests) = $output =~ /(\d+) requests in/;

    if ($status != 0 || !$requests || $output =~ /Non-2xx|Socket errors/) {
        die "wrk: $output\n";
    }

    return $used / $requests * 1e6;
}


# an nginx that answers "ANSWER" on all given ports

sub backend_config {
    my (%answers) = @_;

    my $servers = join('', map { <<"END" } sort keys %answers);
    server {
        listen 127.0.0.1:%%$_%% backlog=4096;
        location / { return 200 "$answers{$_}"; }
    }
END

    return "worker_processes 1;\n\nhttp {\n"
        . "    keepalive_requests 1000000000;\n$servers}\n";
}


# The status of one upstream, without decoding all the JSON, which takes Perl
# seconds.

sub status_of {
    my ($nginx) = @_;

    my $body = $nginx->get('/status')->{body};
    my ($agent) = $body =~ /"agent":\s*\{\s*"pid":\s*(\d+)/;
    my ($generation) = $body =~ /"generation":\s*(\d+)/;
    my ($used) = $body =~ /"used":\s*(\d+)/;
    my $members = () = $body =~ /"address":/g;

    return {
        agent      => $agent,
        generation => $generation,
        members    => $members,
        zone_used  => $used,
    };
}


# An upstream of %%PREFIX%% that is only asked by wait_ready(): nobody listens
# at the addresses of member_value().

sub many_config {
    my ($workers) = @_;

    return <<"END";

worker_processes $workers;

etcd {
    endpoints %%ETCD%%;
    zone 32m;
}

http {
    upstream api {
        etcd_members %%PREFIX%%;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /ready {
            proxy_pass http://api;
            proxy_next_upstream off;
            add_header X-Worker \$pid always;
            add_header X-Revision \$etcd_revision always;
            error_log /dev/null crit;
        }

        location /status {
            etcd_status;
        }
    }
}

END
}


# a member in etcd: 127.0.0.0/8 has an address for each of millions

sub member_value {
    my ($i, $weight) = @_;

    my $address = sprintf('127.%d.%d.%d:8080', 1 + ($i >> 16),
                          ($i >> 8) & 255, $i & 255);

    return qq({"address":"$address","weight":$weight});
}


sub fill {
    my ($etcd, $prefix, $n) = @_;

    my @puts = map {
        [put => sprintf('%s%06d', $prefix, $_), member_value($_, 1)]
    } 0 .. $n - 1;

    while (my @some = splice(@puts, 0, 100)) {
        $etcd->txn(@some);
    }

    return $etcd->revision();
}


# Nginx->start() looks now and then whether nginx has started: too rarely for
# a stopwatch

sub start_now {
    my ($nginx) = @_;

    Finish::later($nginx);
    system($nginx->command('error.log')) == 0
        or die "nginx did not start\n";

    $nginx->{pid} = $nginx->read_pid();
}


# Waits until every worker routes by the revision or a later one: /ready has to
# go to the upstream, and to send X-Worker and X-Revision.

sub wait_ready {
    my ($nginx, $workers, $revision) = @_;

    my $end = time() + PATIENCE;
    my %ready;

    while (keys %ready < $workers) {
        my $headers = $nginx->get('/ready')->{headers};

        if (($headers->{'x-revision'} // 0) >= $revision) {
            $ready{$headers->{'x-worker'}} = 1;
            next;
        }

        time() < $end or die "nginx did not come to revision $revision\n";
        sleep(PAUSE);
    }
}


# seconds that the code takes

sub stopwatch(&) {
    my ($what) = @_;

    my $start = time();

    $what->();

    return time() - $start;
}


1;
