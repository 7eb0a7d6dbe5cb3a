#!/usr/bin/perl

# One slow member of ten: the latency of clients, beside nginx's own least_conn.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Backend;
use Bench;
use Etcd;
use Methods;
use Nginx;
use Process;
use Wait;

use constant {
    MEMBERS  => 10,
    CLIENTS  => [4, 16, 64],
    FAST     => 0.005,
    SLOW     => 0.1,
    REQUESTS => $ENV{BENCH_REQUESTS} || 1500,
    ROUNDS   => $ENV{BENCH_ROUNDS} || 5,
};

my @methods = ('native', 'least_conn', 'ewma');
my $etcd = Etcd->new()->start();
my @backends = Backend->start(MEMBERS);

$etcd->put("/s/$_", $backends[$_]->address) for 0 .. $#backends;

my $nginx = Nginx->new(etcd => $etcd)
    ->set(SERVERS => join(' ', map { 'server ' . $_->address . ';' }
                                   @backends))
    ->start(<<'END');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    keepalive_requests 1000000000;

    upstream native {
        zone native 256k;
        least_conn;
        %%SERVERS%%
        keepalive 64;
    }

    upstream least_conn {
        etcd_members /s/;
        etcd_balance least_conn;
        keepalive 64;
    }

    upstream ewma {
        etcd_members /s/;
        etcd_balance ewma;
        keepalive 64;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /native     { proxy_pass http://native; }
        location /least_conn { proxy_pass http://least_conn; }
        location /ewma       { proxy_pass http://ewma; }

        location /status {
            etcd_status;
        }
    }
}

END

wait_for { status_of($nginx)->{members} == 2 * MEMBERS } 10, 'members'
    or die "there are no members\n";

$_->set(delay => FAST) for @backends;
$backends[3]->set(delay => SLOW);


# ms, and the percentage of the requests that the slow member got

sub measure {
    my ($method, $clients) = @_;

    $_->reset for @backends;

    my ($status, $output) = run(Methods::clients(), $nginx->port, "/$method",
                                $clients, REQUESTS, 'keep');

    $status == 0 or die "clients: $output\n";

    my (undef, @times) = split(' ', $output);
    my $slow = $backends[3]->requests;

    return { p50 => $times[0] / 1000, p99 => $times[1] / 1000,
             share => $slow / REQUESTS * 100 };
}


my %rounds;

for my $clients (@{ CLIENTS() }) {
    for (0 .. ROUNDS) {
        push @{ $rounds{$clients}{$_} }, measure($_, $clients) for @methods;
    }

    shift @$_ for values %{ $rounds{$clients} };
}


sub row {
    my ($clients, $method) = @_;

    my $native = $rounds{$clients}{native};
    my $ours = $rounds{$clients}{$method};

    return [
        $clients, $method eq 'native' ? "nginx's `least_conn`" : "`$method`",
        (map { my $what = $_; spread_of('%.1f', sub { $_[0]{$what} }, @$ours) }
             'p50', 'p99'),
        spread('%.2f', map { $ours->[$_]{p99} / $native->[$_]{p99} }
                       0 .. $#$ours),
        spread_of('%.2f', sub { $_[0]{share} }, @$ours),
    ];
}


my ($members, $requests, $rounds) = (MEMBERS, REQUESTS, ROUNDS);
my ($fast, $slow) = map { $_ * 1000 } FAST, SLOW;

publish('One slow member', <<"END",
Of $members members one needs $slow ms for an answer, the others $fast ms; two
workers, keepalive on both sides, $requests requests by some clients, $rounds
rounds in turns. Times of requests in milliseconds, the ratio of their p99 to
that of the same round by nginx's own `least_conn`, and the part of them that
the slow one gets, in percent.
END
    table(['clients', 'method', 'p50, ms', 'p99, ms', 'ratio of p99',
           'slow one, %'],
          map { my $clients = $_; map { row($clients, $_) } @methods }
              @{ CLIENTS() }));
