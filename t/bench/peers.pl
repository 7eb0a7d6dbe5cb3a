#!/usr/bin/perl

# Members that change, and ways to follow them: HAProxy with server slots that a
# script fills by the runtime API, and nginx with a file that a script renders,
# and reloads; beside etcd_members.  Least connections everywhere.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use IO::Socket::UNIX;
use List::Util qw(sum);
use POSIX ();
use Time::HiRes qw(sleep time);

use Bench;
use Changes;
use Finish;
use Follower;
use Methods;
use Nginx;
use Port;
use Process;
use Wait;

use constant {
    MEMBERS  => $ENV{BENCH_MEMBERS} || 1000,
    RATES    => [split(/,/, $ENV{BENCH_RATES} // '0,10')],
    ROUNDS   => $ENV{BENCH_ROUNDS} || 5,
    REQUESTS => $ENV{BENCH_REQUESTS} || 10_000,
    CLIENTS  => 8,
};

my $etcd = Methods::etcd(MEMBERS);
my $prefix = '/' . MEMBERS . '/';
my $ticks = POSIX::sysconf(POSIX::_SC_CLK_TCK());

my $http = <<'EOF';
http {
    proxy_http_version 1.1;

    upstream api {
        %%MEMBERS%%
    }

    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;

        location / { proxy_pass http://api; }
        location /status { %%STATUS%% }
    }
}
EOF


# { port => PORT, pids => [processes whose CPU time counts, with children] }

sub start_ours {
    my $nginx = Nginx->new(etcd => $etcd)->set(
        MEMBERS => "etcd_members $prefix; etcd_balance least_conn;",
        STATUS  => 'etcd_status;',
    )->start("worker_processes 1;\netcd { endpoints %%ETCD%%; }\n$http");

    wait_for { status_of($nginx)->{members} == MEMBERS } 30, 'the members'
        or die "there are no members\n";

    return { port => $nginx->port, pids => [$nginx->pid] };
}


sub start_static {
    my $nginx = static_nginx();

    return { port => $nginx->port, pids => [$nginx->pid] };
}


sub static_nginx {
    my $nginx = Nginx->new(modules => []);

    $nginx->set(
        MEMBERS => 'zone api 8m; least_conn; include '
                   . $nginx->dir . '/servers;',
        STATUS  => 'return 404;',
    );
    render($nginx, {});

    return $nginx->start("worker_processes 1;\n$http");
}


sub render {
    my ($nginx, $weights) = @_;

    my $text = join('', map {
        'server ' . Methods::address($_) . ' weight=' . ($weights->{$_} // 1)
            . ";\n"
    } 0 .. MEMBERS - 1);

    $nginx->write_file('servers.new', $text);
    rename($nginx->dir . '/servers.new', $nginx->dir . '/servers')
        or die "rename: $!\n";
}


# A template, and a reload, as by confd.

sub start_reload {
    my $nginx = static_nginx();
    my %weights;

    my $follower = Follower->start($etcd, $prefix, sub {
        for (@_) {
            my ($i) = $_->[0] =~ m{(\d+)$};
            ($weights{$i}) = $_->[1] =~ /"weight":(\d+)/;
        }

        render($nginx, \%weights);
        kill('HUP', $nginx->pid);
    });

    return { port => $nginx->port, pids => [$nginx->pid, $follower->pid] };
}


sub start_haproxy {
    my $dir = test_dir();
    my $port = free_port();
    my $backend = Methods::backend()->port('PORT_1');

    open(my $file, '>', "$dir/haproxy.cfg") or die "haproxy.cfg: $!\n";
    print $file <<"END";
global
    nbthread 1
    maxconn 4096
    stats socket $dir/haproxy.sock level admin

defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s

frontend in
    bind 127.0.0.1:$port
    default_backend api

backend api
    balance leastconn
    option http-server-close
    server-template s 1000 127.1.0.0:$backend disabled
END
    close($file);

    my $pid = spawn("$dir/haproxy.log", 'haproxy', '-db', '-f',
                    "$dir/haproxy.cfg");

    Finish::later(bless { pid => $pid }, 'Follower');

    wait_for { -S "$dir/haproxy.sock" } 20, 'HAProxy'
        or die "HAProxy did not start: " . slurp("$dir/haproxy.log") . "\n";

    haproxy("$dir/haproxy.sock", map {
        my ($ip, $port) = split(/:/, Methods::address($_));
        my $server = 'set server api/s' . ($_ + 1);

        ("$server addr $ip port $port", "$server state ready")
    } 0 .. MEMBERS - 1);

    my $follower = Follower->start($etcd, $prefix, sub {
        haproxy("$dir/haproxy.sock", map {
            my ($i) = $_->[0] =~ m{(\d+)$};
            my ($weight) = $_->[1] =~ /"weight":(\d+)/;

            'set server api/s' . ($i + 1) . " weight $weight"
        } @_);
    });

    return { port => $port, pids => [$pid, $follower->pid] };
}


# Commands take several connections, for a line may not be too long.

sub haproxy {
    my ($path, @commands) = @_;

    while (my @some = splice(@commands, 0, 50)) {
        my $socket = IO::Socket::UNIX->new(Peer => $path)
            or die "$path: $!\n";

        print $socket join(';', @some), "\n";
        $socket->flush();
        local $/;
        my $answer = <$socket>;
    }
}


# CPU seconds of processes and of their children, also of those that ended

sub used {
    return sum(map { my $pid = $_; ticks($pid, 13 .. 16),
                     map { ticks($_, 13 .. 16) } children($pid) } @_) / $ticks;
}


sub ticks {
    my ($pid, @fields) = @_;

    my $stat = eval { slurp("/proc/$pid/stat") } // return 0;
    my @stat = (0, 0, split(' ', $stat =~ s/^.*\) //sr));

    return sum(@stat[@fields]);
}


sub children {
    my ($pid) = @_;

    return split(' ', eval { slurp("/proc/$pid/task/$pid/children") } // '');
}


sub measure {
    my ($side, $rate) = @_;

    my $changes = Changes->start($etcd, MEMBERS, $rate);
    my $began = time();
    my $used = -used(@{ $side->{pids} });
    my ($status, $output) = run(Methods::clients(), $side->{port}, '/',
                                CLIENTS, REQUESTS, 'close');

    # A follower that is late then is not waited for.

    my $failed = $status != 0;
    my $took = time() - $began;
    my (undef, undef, $p99) = split(' ', $output);

    $used += used(@{ $side->{pids} });
    $changes->stop();

    return { cost => $used / REQUESTS * 1e6, p99 => $failed ? 'inf' : $p99,
             failed => $failed, cpu => $used / $took * 100 };
}


my @sides = (
    ['`etcd_members`', start_ours()],
    ['nginx, static', start_static(), 'still'],
    ['nginx, a file and reloads', start_reload()],
    ['HAProxy, runtime API', start_haproxy()],
);

my %rounds;

for (0 .. ROUNDS) {
    for my $rate (@{ RATES() }) {
        push @{ $rounds{$rate}{$_->[0]} }, measure($_->[1], $rate) for @sides;
    }
}

shift @$_ for map { values %$_ } values %rounds;


sub row {
    my ($side, $rate) = @_;

    my @rounds = @{ $rounds{$rate}{$side->[0]} };

    return [
        $side->[0], $side->[2] ? "$rate, not followed" : $rate,
        spread_of('%.1f', sub { $_[0]{cost} }, @rounds),
        spread_of('%.0f', sub { $_[0]{p99} }, @rounds),
        spread_of('%.0f', sub { $_[0]{cpu} }, @rounds),
        sum(map { $_->{failed} } @rounds),
    ];
}


my ($members, $clients, $requests, $rounds) =
    (MEMBERS, CLIENTS, REQUESTS, ROUNDS);

publish('Beside HAProxy and reloads', <<"END",
Least connections over $members members, one worker or thread, no keepalive:
`etcd_members`; nginx's own `least_conn` with `zone`, which stays as it is; the
same with its `server` lines rendered into a file, and a reload, at every
change that a script hears of; and HAProxy, whose 1000 slots a script fills
through the runtime API. CPU is that of the servers, the processes that they
start, and the scripts with their `etcdctl watch`, without etcd. $requests
requests by $clients clients, $rounds rounds; a run fails when a request does.
END
    table(['', 'changes a second', 'CPU for a request, us', 'p99, us',
           'CPU, percent', 'failed runs'],
          map { my $rate = $_; map { row($_, $rate) } @sides } @{ RATES() }));
