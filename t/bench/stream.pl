#!/usr/bin/perl

# Lists of 100 000 keys by RangeStream, which etcd has since 3.7, beside lists
# in pages: make bench ETCD=3.7 T=t/bench/stream.pl

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    KEYS   => $ENV{BENCH_SIZES} || 100000,
    ROUNDS => $ENV{BENCH_ROUNDS} || 15,
    AUDITS => 5,
};

my $config = many_config(1)
    =~ s/zone 32m;/zone 256m; audit_interval %%AUDIT%%;/r;
my $etcd = Etcd->new()->start();

if (!$etcd->is_since('3.7')) {
    print "etcd @{[$etcd->version]} has no RangeStream: ETCD=3.7\n";
    finish();
    exit(0);
}

fill($etcd, '/many/', KEYS);

my $revision = $etcd->revision();


# A library whose function takes the place of the module's: no stream can be
# had.

sub without_streams {
    my $source = test_dir() . '/pages.c';
    my $library = test_dir() . '/pages.so';

    open(my $file, '>', $source) or die "open $source: $!\n";
    print $file "long ngx_etcd_list_stream_start(void) { return -5; }\n";
    close($file);

    system('gcc', '-shared', '-fPIC', '-o', $library, $source) == 0
        or die "gcc failed\n";

    return $library;
}

my %preload = (stream => '', pages => without_streams());


# the highest memory of a process since forget(), in MB

sub forget {
    my ($pid) = @_;

    open(my $file, '>', "/proc/$pid/clear_refs") or die "clear_refs: $!\n";
    print $file "5\n";
    close($file) or die "clear_refs: $!\n";
}

sub highest {
    my ($pid) = @_;

    return (slurp("/proc/$pid/status") =~ /^VmHWM:\s*(\d+) kB/m)[0] / 1024;
}


sub streams {
    return $etcd->metric('grpc_server_handled_total{grpc_code="OK",'
                         . 'grpc_method="RangeStream",'
                         . 'grpc_service="etcdserverpb.KV",'
                         . 'grpc_type="server_stream"}') // 0;
}


sub start {
    my ($kind, $audit) = @_;

    local $ENV{LD_PRELOAD} = $preload{$kind};

    my $nginx = Nginx->new(etcd => $etcd)->set(PREFIX => '/many/',
                                               AUDIT  => $audit);

    $nginx->write_config($config);

    my $time = stopwatch {
        start_now($nginx);
        wait_ready($nginx, 1, $revision);
    };

    return ($nginx, $time);
}


# milliseconds of time, of etcd's CPU, of the agent's CPU, and MB

sub load {
    my ($kind) = @_;

    my $before = streams();
    my $used = cpu_time($etcd->pid);

    forget($etcd->pid);

    my ($nginx, $time) = start($kind, 0);
    my ($worker) = $nginx->workers();
    my $result = {
        time   => $time * 1000,
        etcd   => (cpu_time($etcd->pid) - $used) * 1000,
        agent  => cpu_time($worker) * 1000,
        memory => highest($etcd->pid),
        worker => highest($worker),
    };

    $nginx->stop();
    check($kind, streams() - $before, 1);

    return $result;
}


sub check {
    my ($kind, $streams, $lists) = @_;

    die "$kind: $streams streams\n"
        if $kind eq 'stream' ? $streams < $lists : $streams > 0;
}


# Does the same for an audit, of keys without values.

sub audit {
    my ($kind) = @_;

    my $before = streams();
    my ($nginx) = start($kind, '500ms');
    my ($worker) = $nginx->workers();
    my $audits = sub {
        $nginx->count_log(qr/audit at revision \d+ found nothing/);
    };
    my $first = $audits->();

    wait_for { $audits->() > $first } 60, 'an audit' or die "no audit\n";
    forget($_) for $etcd->pid, $worker;

    my @used = map { cpu_time($_) } $etcd->pid, $worker;

    $first = $audits->();
    wait_for { $audits->() >= $first + AUDITS } 120, 'audits'
        or die "no audits\n";

    my $n = $audits->() - $first;
    my $result = {
        etcd   => (cpu_time($etcd->pid) - $used[0]) * 1000 / $n,
        agent  => (cpu_time($worker) - $used[1]) * 1000 / $n,
        memory => highest($etcd->pid),
        worker => highest($worker),
    };

    $nginx->stop();
    check($kind, streams() - $before, AUDITS);

    return $result;
}


my @rounds;

for my $round (0 .. ROUNDS) {
    my @order = $round % 2 ? qw(stream pages) : qw(pages stream);

    push @rounds, { map { ("load $_" => load($_), "audit $_" => audit($_)) }
                        @order };
}

shift @rounds;


sub row {
    my ($name, $what, $figure) = @_;

    return [$name,
            map({ my $kind = $_;
                  spread_of('%.0f', sub { $_[0]{"$what $kind"}{$figure} },
                            @rounds) } qw(stream pages)),
            spread_of('%.2f', sub { $_[0]{"$what stream"}{$figure}
                                    / $_[0]{"$what pages"}{$figure} },
                      @rounds)];
}


my ($rounds, $keys) = (ROUNDS, KEYS);

publish('Lists in a stream', <<"END",
Reading $keys keys of etcd by a first page and one RangeStream, beside the same
in pages, by the same nginx, whose function that begins a stream was taken away;
$rounds rounds. A list is from the start of nginx until its worker routes by all
members; an audit reads the keys without their values. Memory is the highest of
the process.
END
    table(['', 'stream', 'pages', 'ratio'],
          row('list: ms', 'load', 'time'),
          row("list: CPU of etcd, ms", 'load', 'etcd'),
          row('list: CPU of the agent, ms', 'load', 'agent'),
          row('list: memory of etcd, MB', 'load', 'memory'),
          row('list: memory of the agent, MB', 'load', 'worker'),
          row('audit: CPU of etcd, ms', 'audit', 'etcd'),
          row('audit: CPU of the agent, ms', 'audit', 'agent'),
          row('audit: memory of etcd, MB', 'audit', 'memory'),
          row('audit: memory of the agent, MB', 'audit', 'worker')));

finish();
