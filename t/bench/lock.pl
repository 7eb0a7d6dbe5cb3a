#!/usr/bin/perl

# Requests that a lock lets in, beside etcd's own Mutex; and the cost for
# requests that need no lock.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(sum);

use Bench;
use Cluster;
use Etcd;
use Finish;
use Go;
use Nginx;
use Process;
use Tls;
use Wait;

use constant {
    ROUNDS      => $ENV{BENCH_ROUNDS} || 5,
    SECONDS     => $ENV{BENCH_SECONDS} || 1,
    IN_A_ROW    => $ENV{BENCH_CYCLES} || 1000,
    COST_ROUNDS => 4 * ($ENV{BENCH_ROUNDS} || 5),
    CONNECTIONS => 32,
    WAIT        => 60,
};

# etcd's defaults

my @timeouts = ('--heartbeat-interval', 100, '--election-timeout', 1000);

my $config = <<'EOF';

worker_processes %%WORKERS%%;

etcd {
    endpoints %%ENDPOINTS%%;
    %%TLS%%
    lock_ttl 60s;
}

http {
    keepalive_requests 1000000000;

    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;

        location /plain {
            empty_gif;
        }

        location /distinct {
            etcd_lock /locks/distinct $request_id;
            empty_gif;
        }

        location /own {
            etcd_lock /locks/own $pid-$connection;
            empty_gif;
        }

        location /one {
            etcd_lock /locks/one wait=60s;
            empty_gif;
        }

        location /shared {
            etcd_lock /locks/shared wait=60s shared=1;
            empty_gif;
        }

        location /handed {
            etcd_lock /locks/handed wait=60s reuse=17;
            empty_gif;
        }
    }
}

EOF

my $without = <<'EOF';

worker_processes 1;

http {
    keepalive_requests 1000000000;

    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;

        location /plain {
            empty_gif;
        }
    }
}

EOF

# [clients, the keys of Go, the path, the workers of each nginx, a name, the
# ratio that is to be reached]

my @contests = (
    [8, 'one', 'handed', [1], '8 on one key, `reuse=17`', '>= 50'],
    [8, 'one', 'one', [1], '8 on one key', '>= 12'],
    [64, 'one', 'handed', [1], '64 on one key, `reuse=17`', '>= 8'],
    [64, 'one', 'one', [1], '64 on one key', '>= 2'],
    [8, 'one', 'handed', [2, 2],
     '8 on one key, 2 nginx of 2 workers, `reuse=17`', '>= 8'],
    [8, 'one', 'one', [2, 2], '8 on one key, 2 nginx of 2 workers', '>= 8'],
    [64, 'own', 'own', [1], '64 on keys of their own', '>= 2'],
);

# [clients, the paths of two rows, the workers of each nginx, a name, the ratio]

my @sharing = (
    [64, 'one', 'shared', [1], '64 that share one key', '>= 10'],
    [64, 'one', 'shared', [2, 2],
     '64 that share one key, 2 nginx of 2 workers', '>= 10'],
);

# The order in which nginxes without the modules (and a second one) and with
# them are asked: it should make no difference.

my @orders = (
    [qw(without with control)], [qw(control with without)],
    [qw(with control without)], [qw(without control with)],
    [qw(control without with)], [qw(with without control)],
);


# etcd, the endpoints and TLS for nginx, and the arguments for Go

sub single {
    my (@options) = @_;

    my $etcd = Etcd->new(args => \@timeouts, @options)->start();

    return { any => $etcd, endpoints => $etcd->endpoints, tls => '',
             go => [$etcd->endpoints], stop => sub { $etcd->stop } };
}


sub three {
    my $ca = Tls->new('ca');
    my ($server, $client) = map { $ca->issue($_, san => 'IP:127.0.0.1') }
        'server', 'client';

    my $cluster = Cluster->new(3, args => \@timeouts, tls => {
        cert => $server->cert, key => $server->key, ca => $ca->cert,
    })->start();

    return {
        any       => $cluster->any,
        endpoints => $cluster->endpoints,
        tls       => 'ssl_trusted_certificate ' . $ca->cert
                     . '; ssl_certificate ' . $client->cert
                     . '; ssl_certificate_key ' . $client->key . ';',
        go        => ['-tls', $ca->cert, $client->cert, $client->key,
                      map { $_->endpoints } $cluster->members],
        stop      => sub { $_->stop for $cluster->members },
    };
}


sub nginx {
    my ($etcd, $workers) = @_;

    return Nginx->new()->set(
        WORKERS   => $workers,
        ENDPOINTS => $etcd->{endpoints},
        TLS       => $etcd->{tls},
    )->start($config);
}


# Lock() and Unlock() per second

sub mutex {
    my ($binary, $etcd, $clients, $keys) = @_;

    my ($status, $output) = run($binary, SECONDS, $clients, $keys,
                                @{ $etcd->{go} });
    my ($cycles, $seconds) = $output =~ /^(\d+) ([\d.]+)$/;

    $status == 0 && $cycles or die "$binary: $output\n";

    return $cycles / $seconds;
}


# requests per second, the clients shared among nginxes

sub ask {
    my ($path, $clients, @nginxes) = @_;

    my %output;

    for my $nginx (@nginxes) {
        my $file = test_dir() . '/wrk' . $nginx->port;

        unlink($file);

        my $pid = spawn($file, 'wrk', '-t', 1, '-c', $clients / @nginxes,
                        '-d', SECONDS . 's', '--timeout', WAIT . 's',
                        'http://127.0.0.1:' . $nginx->port . "/$path");

        $output{$pid} = $file;
    }

    waitpid($_, 0) for keys %output;

    return sum(map { rate(slurp($_)) } values %output);
}


sub rate {
    my ($output) = @_;

    my ($rate) = $output =~ m{^Requests/sec: +([\d.]+)}m;

    if (!$rate || $output =~ /Non-2xx|Socket errors/) {
        die "wrk: $output\n";
    }

    return $rate;
}


# Revisions for each request of one client, once all is unlocked: no request
# waits for that.

sub writes {
    my ($etcd, $nginx) = @_;

    idle($etcd);

    my $before = $etcd->{any}->revision;
    my $http = $nginx->http;

    for (1 .. IN_A_ROW) {
        my $status = $http->get('/one')->{status};

        $status == 200 or die "a request got $status\n";
    }

    idle($etcd);

    return ($etcd->{any}->revision - $before) / IN_A_ROW;
}


sub idle {
    my ($etcd) = @_;

    wait_for { !$etcd->{any}->list('/locks/') } WAIT, 'all to be unlocked'
        or die "a key is left\n";
}


sub rounds {
    my ($binary, $etcd) = @_;

    my %nginxes = (
        '1'   => [nginx($etcd, 1)],
        '2 2' => [map { nginx($etcd, 2) } 1 .. 2],
    );

    # The first one warms up.

    my @rounds = map { contest($binary, $etcd, \%nginxes) } 0 .. ROUNDS;

    $_->stop for map { @$_ } values %nginxes;
    $etcd->{stop}->();
    shift @rounds;

    return @rounds;
}


# of one client in ms, those of a request by itself taken off; then in a second

sub contest {
    my ($binary, $etcd, $nginxes) = @_;

    my $one = $nginxes->{1}[0];
    my $plain = 1000 / ask('plain', 1, $one);
    my %round = (
        go    => 1000 / mutex($binary, $etcd, 1, 'own'),
        nginx => 1000 / ask('distinct', 1, $one) - $plain,
    );
    my %go;

    for my $contest (@contests) {
        my ($clients, $keys, $path, $workers) = @$contest;

        # several rows stand beside the same figure

        $go{"$clients $keys"} //= mutex($binary, $etcd, $clients, $keys);

        push @{ $round{contests} }, {
            go    => $go{"$clients $keys"},
            nginx => ask($path, $clients, @{ $nginxes->{"@$workers"} }),
        };
    }

    for my $contest (@sharing) {
        my ($clients, $alone, $shared, $workers) = @$contest;

        push @{ $round{sharing} }, {
            map { $_ => ask($_, $clients, @{ $nginxes->{"@$workers"} }) }
                $alone, $shared
        };
    }

    $round{writes} = writes($etcd, $one);

    return \%round;
}


sub figures {
    my ($format, @rounds) = @_;

    return (spread_of($format, sub { $_[0]{go} }, @rounds),
            spread_of($format, sub { $_[0]{nginx} }, @rounds),
            spread_of('%.2f', sub { $_[0]{nginx} / $_[0]{go} }, @rounds));
}


sub rows {
    my ($name, @rounds) = @_;

    my @rows = ([$name, 'one, ms', figures('%.2f', @rounds), '<= 0.5']);

    for my $i (0 .. $#contests) {
        my ($title, $wanted) = @{ $contests[$i] }[4, 5];

        push @rows, [$name, $title,
                     figures('%.0f', map { $_->{contests}[$i] } @rounds),
                     $wanted];
    }

    for my $i (0 .. $#sharing) {
        my ($alone, $shared, $title, $wanted) = @{ $sharing[$i] }[1, 2, 4, 5];
        my @pairs = map { $_->{sharing}[$i] } @rounds;

        push @rows, [$name, $title,
                     spread_of('%.0f', sub { $_[0]{$alone} }, @pairs),
                     spread_of('%.0f', sub { $_[0]{$shared} }, @pairs),
                     spread_of('%.1f', sub { $_[0]{$shared} / $_[0]{$alone} },
                               @pairs), $wanted];
    }

    return (@rows, [$name, 'one on one key, writes', 2,
                    spread_of('%.2f', sub { $_[0]{writes} }, @rounds),
                    spread_of('%.2f', sub { $_[0]{writes} / 2 }, @rounds),
                    '<= 1']);
}


sub publish_locks {
    my ($binary) = @_;

    my @rows;

    for (['in memory', sub { single() }],
         ['on disk', sub { single(disk => 1) }],
         ['3 members, mTLS', \&three])
    {
        my ($name, $start) = @$_;

        push @rows, rows($name, rounds($binary, $start->()));
    }

    my ($rounds, $seconds, $in_a_row) = (ROUNDS, SECONDS, IN_A_ROW);

    publish('Locks', <<"END",
Requests of locations with `etcd_lock`, beside Lock() and Unlock() of etcd's own
Mutex (concurrency, in Go) with a session for each client: with one etcd and its
data in memory, with one and its data on disk, and with 3 members in memory over
TLS with certificates of clients. $rounds rounds, $seconds s for each figure.
One client takes another key for each request: the time that the lock adds to a
request, in ms, beside that of a Lock() and Unlock(), the lower the better. The
other rows are requests, and locks, in a second; one nginx of one worker, where
nothing else is said. Clients that share one key stand beside as many of nginx
that have the lock alone. The writes are those of $in_a_row requests one after
another, as revisions that etcd counted. The last column is what the ratio is to
be.
END
        table(['etcd', 'clients', 'Mutex', 'nginx', 'ratio', 'to be'], @rows));
}


sub costs {
    my ($etcd) = @_;

    my %nginxes = (
        with    => nginx($etcd, 1),
        without => Nginx->new(modules => [])->start($without),
        control => Nginx->new(modules => [])->start($without),
    );
    my @rounds;

    for my $i (0 .. COST_ROUNDS) {
        my @order = @{ $orders[$i % @orders] };

        push @rounds, { map { $_ => request_cost($nginxes{$_}, 'plain',
                                                 SECONDS, CONNECTIONS) }
                        @order };
    }

    shift @rounds;

    return @rounds;
}


sub publish_costs {
    my (@rounds) = @_;

    my ($rounds, $seconds, $connections) = (COST_ROUNDS, SECONDS, CONNECTIONS);

    publish('Locks: where there are none', <<"END",
CPU time of a worker per request of a location without `etcd_lock`, in
microseconds: with the modules, a cluster and locks in other locations, over the
same in an nginx without the modules. The request is as cheap as one can be:
`empty_gif`. $rounds rounds, $seconds s of wrk with $connections connections
for each, in every order as often. The control is a second nginx without them
over the first: what it differs from 1 by is the error of the measurement. The
ratio is to be 1, within 0.01.
END
        table(['without, us', 'with, us', 'ratio', 'control'],
              [spread_of('%.2f', sub { $_[0]{without} }, @rounds),
               spread_of('%.2f', sub { $_[0]{with} }, @rounds),
               spread_of('%.3f', sub { $_[0]{with} / $_[0]{without} },
                         @rounds),
               spread_of('%.3f', sub { $_[0]{control} / $_[0]{without} },
                         @rounds)]));
}


my $binary = Go::build("$FindBin::Bin/lock.go");

if (defined $binary) {
    publish_locks($binary);

} else {
    print 'skipped: ', Go::MISSING, "\n";
}

publish_costs(costs(single()));

finish();
