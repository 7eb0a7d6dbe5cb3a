package Methods;

# etcd_balance beside nginx's own methods with "zone": one nginx with an
# upstream of each over the same members, for http or for stream, and requests
# to each of them.
#
#     my $methods = Methods->new(members => 10_000, workers => 2);
#
#     $methods->start();
#     my $figures = $methods->ask('least_conn', 'native', 1000);
#     # { cost => us of CPU, rate => a second, p50 => us, p99 => us }

use strict;
use warnings;

use FindBin;
use Time::HiRes qw(sleep);

use Bench;
use Etcd;
use Finish;
use Nginx;
use Process;
use Wait;

# [NAME, etcd_balance, nginx's own]; a method that nginx lacks stands beside the
# method that costs nginx least, and $key is the text that is hashed.

my @methods = (
    ['round_robin', 'round_robin', ''],
    ['least_conn', 'least_conn', 'least_conn;'],
    ['random', 'random', 'random two;'],
    ['hash', 'hash $key', 'hash $key;'],
    ['hash consistent', 'hash $key consistent', 'hash $key consistent;'],
    ['ewma', 'ewma', 'random two;'],
);

# A request id is too expensive to be the key.

my %keys = (http => '$connection$msec$connection_requests',
            stream => '$connection$msec');

my ($backend, $etcd, %filled, $clients);


sub names { map { $_->[0] } @methods }


# members => N; workers => 1, keepalive => 0, kind => 'http', clients => 32,
# pace => 0 (requests a second; 0: each client as soon as it was answered),
# as => [] (a command that runs the clients), lazy => 1 (the backend leaves it
# to nginx to close connections), parameters => '' (of all members),
# globals => '', server => '' (more of the configuration); and by which methods:
# ours => [names()], native => [names()], unshared => [] (native without "zone")

sub new {
    my ($class, %options) = @_;

    return bless {
        workers    => 1,
        keepalive  => 0,
        kind       => 'http',
        clients    => 32,
        pace       => 0,
        as         => [],
        parameters => '',
        globals    => '',
        server     => '',
        ours       => [names()],
        native     => [names()],
        unshared   => [],
        %options,
    }, $class;
}


# The backends of all: one process at all addresses.

sub backend {
    $backend //= Nginx->new(modules => [])->start(<<'EOF');
worker_processes 1;

http {
    keepalive_requests 1000000000;

    server {
        listen *:%%PORT_1%% backlog=4096;
        location / { return 200 "ok"; }
    }
}
EOF

    return $backend;
}


sub address {
    my ($i) = @_;

    return sprintf('127.%d.%d.%d:%d', 1 + ($i >> 16), ($i >> 8) & 255,
                   $i & 255, backend()->port('PORT_1'));
}


sub etcd {
    my ($n) = @_;

    $etcd //= Etcd->new()->start();

    return $etcd if $filled{$n}++;

    my @puts = map { [put => "/$n/$_", address($_)] } 0 .. $n - 1;

    while (my @some = splice(@puts, 0, 100)) {
        $etcd->txn(@some);
    }

    return $etcd;
}


sub number {
    my ($name) = @_;

    my ($i) = grep { $methods[$_][0] eq $name } 0 .. $#methods;

    return $i;
}


# Upstreams and ports are "ours_0", "native_0" and so on.

sub each_upstream {
    my ($self) = @_;

    return map { my $whose = $_;
                 map { "${whose}_" . number($_) } @{ $self->{$whose} } }
           qw(ours native unshared);
}


sub upstreams {
    my ($self) = @_;

    my $n = $self->{members};
    my $parameters = $self->{parameters};
    my $servers = join("\n        ", map { 'server ' . address($_)
                                           . " $parameters;" } 0 .. $n - 1);
    my $keep = $self->{keepalive}
        ? 'keepalive 128; keepalive_requests 1000000000;' : '';
    my $text = '';

    for my $name ($self->each_upstream) {
        my ($whose, $i) = split(/_/, $name);
        my (undef, $ours, $native) = @{ $methods[$i] };

        my $members = $whose eq 'ours'
            ? "etcd_members /$n/ $parameters; etcd_balance $ours;"
            : "$native\n        $servers";

        $members = "zone $name 32m; $members" if $whose eq 'native';

        $text .= <<"END";
    upstream $name {
        $members
        $keep
    }

END
    }

    # Each client has another key with every request.

    return $text =~ s/\$key/$keys{$self->{kind}}/gr;
}


sub http {
    my ($self) = @_;

    my $header = $self->{keepalive} || $self->{lazy} ? '' : 'close';
    my $servers = join('', map { <<"END" } $self->each_upstream);
    server {
        listen 127.0.0.1:%%PORT_$_%% reuseport backlog=4096;
        $self->{server}
        location / { proxy_pass http://$_; }
    }

END

    return <<"END";
http {
@{[ $self->upstreams ]}
    proxy_http_version 1.1;
    proxy_set_header Connection "$header";
    keepalive_requests 1000000000;

$servers
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}
END
}


sub stream {
    my ($self) = @_;

    my $servers = join('', map { <<"END" } $self->each_upstream);
    server {
        listen 127.0.0.1:%%PORT_$_%% reuseport backlog=4096;
        proxy_pass $_;
    }

END

    return <<"END";
http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

stream {
@{[ $self->upstreams ]}
$servers
}
END
}


# an nginx whose workers have the members

sub start {
    my ($self) = @_;

    my $kind = $self->{kind};
    my $nginx = Nginx->new(etcd => etcd($self->{members}));

    $self->{nginx} = $nginx;
    $nginx->write_config(<<"END");
$self->{globals}
worker_processes $self->{workers};
worker_rlimit_nofile 8192;

events {
    worker_connections 4096;
}

etcd {
    endpoints %%ETCD%%;
    zone 64m;
}

@{[ $self->$kind ]}
END
    $self->launch();

    wait_for {
        status_of($nginx)->{members}
            == $self->{members} * @{ $self->{ours} }
    } 60, 'the members' or die "there are no members\n";

    $self->settle();

    return $self;
}


# Late work of the start, and of the status, is no part of the figures.

sub settle {
    my ($self) = @_;

    wait_for {
        my $before = cpu_time($self->pids);

        sleep(0.1);
        cpu_time($self->pids) - $before < 0.005;
    } 60, 'idle workers' or die "the workers are never idle\n";
}


sub launch { $_[0]{nginx}->start() }
sub pids { $_[0]{nginx}->workers() }
sub stop { $_[0]{nginx}->stop() }


# Sends so many requests by the method, "ours", "native" or "unshared".

sub ask {
    my ($self, $name, $whose, $requests) = @_;

    my $i = number($name);
    my @command = (
        @{ $self->{as} }, clients(),
        $self->{nginx}->port("PORT_${whose}_$i"), '/', $self->{clients},
        $requests, $self->{keepalive} ? 'keep' : 'close',
        $self->{pace} || (),
    );

    my @pids = $self->pids;
    my $before = cpu_time(@pids);
    my ($status, $output) = run(@command);
    my $used = cpu_time(@pids) - $before;

    $status == 0 or die "clients: $output\n";

    my ($rate, $p50, $p99) = split(' ', $output);

    return { cost => $used / $requests * 1e6, rate => $rate, p50 => $p50,
             p99 => $p99 };
}


sub clients {
    return $clients if defined $clients;

    $clients = test_dir() . '/clients';

    system('cc', '-O2', '-o', $clients, "$FindBin::Bin/clients.c") == 0
        or die "clients.c does not compile\n";

    return $clients;
}


1;
