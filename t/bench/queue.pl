#!/usr/bin/perl

# More clients than connections to members: the queue of etcd_wait with "full"
# beside that of HAProxy.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Backend;
use Bench;
use Etcd;
use Finish;
use Methods;
use Nginx;
use Port;
use Process;
use Wait;

use constant {
    MEMBERS  => 4,
    CONNS    => 4,              # of each member
    CLIENTS  => [32, 128],
    DELAY    => 0.02,
    REQUESTS => $ENV{BENCH_REQUESTS} || 1500,
    ROUNDS   => $ENV{BENCH_ROUNDS} || 5,
    WORKERS  => 2,
};

my @who = ('nginx', 'haproxy');
my $etcd = Etcd->new()->start();
my @backends = Backend->start(MEMBERS);

$etcd->put("/q/$_", $backends[$_]->address) for 0 .. $#backends;
$_->set(delay => DELAY) for @backends;

my $nginx = Nginx->new(etcd => $etcd)
    ->set(WORKERS => WORKERS, CONNS => CONNS)->start(<<'END');

worker_processes %%WORKERS%%;

etcd {
    endpoints %%ETCD%%;
}

http {
    access_log off;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    keepalive_requests 1000000000;

    upstream api {
        etcd_members /q/ max_conns=%%CONNS%%;
        etcd_balance least_conn;
        keepalive 64;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location / {
            etcd_wait api 60s full;
            proxy_pass http://api;
        }

        location /status {
            etcd_status;
        }
    }
}

END

wait_for { status_of($nginx)->{members} == MEMBERS } 10, 'members'
    or die "there are no members\n";

my ($pid, $port) = haproxy();
my %ports = (nginx => $nginx->port, haproxy => $port);
my %pids = (nginx => [$nginx->workers], haproxy => [$pid]);


sub haproxy {
    my $free = free_port();
    my $file = test_dir() . '/haproxy.cfg';
    my $servers = join('', map {
        "    server s$_ " . $backends[$_]->address . "\n"
    } 0 .. $#backends);

    open(my $config, '>', $file) or die "$file: $!\n";
    print $config <<"END";
global
    nbthread @{[WORKERS]}
    maxconn 4096

defaults
    mode http
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    timeout queue 60s

listen api
    bind 127.0.0.1:$free
    balance leastconn
    default-server maxconn @{[CONNS]}
$servers
END
    close($config);

    my $child = spawn("$file.log", 'haproxy', '-f', $file, '-db');

    Finish::later(bless { pid => $child }, 'HAProxy');

    wait_for {
        IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $free)
    } 10, 'HAProxy' or die "there is no HAProxy\n";

    return ($child, $free);
}


sub HAProxy::stop {
    my ($self) = @_;

    stop_child($self->{pid}, 'TERM');
}


# requests a second, ms, and CPU time of a request in us

sub measure {
    my ($who, $clients) = @_;

    my $before = cpu_time(@{ $pids{$who} });

    my ($status, $output) = run(Methods::clients(), $ports{$who}, '/',
                                $clients, REQUESTS, 'keep');

    $status == 0 or die "clients: $output\n";

    my $cpu = cpu_time(@{ $pids{$who} }) - $before;
    my ($rate, $p50, $p99) = split(' ', $output);

    return { rate => $rate, p50 => $p50 / 1000, p99 => $p99 / 1000,
             cpu => $cpu / REQUESTS * 1e6 };
}


my %rounds;

for my $clients (@{ CLIENTS() }) {
    for my $round (0 .. ROUNDS) {
        my @order = $round % 2 ? reverse(@who) : @who;

        push @{ $rounds{$clients}{$_} }, measure($_, $clients) for @order;
    }

    shift @$_ for values %{ $rounds{$clients} };
}


sub ratio {
    my ($ours, $theirs, $what) = @_;

    return spread('%.2f', map { $ours->[$_]{$what} / $theirs->[$_]{$what} }
                              0 .. $#$ours);
}


sub row {
    my ($clients, $who) = @_;

    my $theirs = $rounds{$clients}{haproxy};
    my $ours = $rounds{$clients}{$who};

    return [
        $clients, $who eq 'nginx' ? '`etcd_wait ... full`' : 'HAProxy',
        (map { my $what = $_; spread_of('%.0f', sub { $_[0]{$what} }, @$ours) }
             'rate', 'p50', 'p99', 'cpu'),
        ratio($ours, $theirs, 'p99'), ratio($ours, $theirs, 'cpu'),
    ];
}


my ($members, $conns, $requests, $rounds, $workers)
    = (MEMBERS, CONNS, REQUESTS, ROUNDS, WORKERS);
my $delay = DELAY * 1000;

publish('A queue beside HAProxy', <<"END",
$members servers that take $conns requests at a time, each for $delay ms, and
more clients than that, each of which asks again when it was answered:
`max_conns=$conns` with `etcd_wait ... full` in $workers workers, and
`maxconn $conns` with `timeout queue` in HAProxy with $workers threads, both
with the fewest connections first and kept connections. $requests requests at a
time, the two in turns, $rounds times. Times are ms, CPU time is us of a request
in all workers or threads.
END
    table(['clients', 'queue', 'requests/s', 'p50', 'p99', 'CPU',
           'p99 / HAProxy', 'CPU / HAProxy'],
          map { my $clients = $_; map { row($clients, $_) } @who }
              @{ CLIENTS() }));
