#!/usr/bin/perl

# Checks that are shared: how many of them a member gets of 1, 10 and 100
# nginxes, beside as many that check by themselves; and how long it takes until
# all of them leave out a member that has become a black hole.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Time::HiRes qw(sleep time);

use Backend;
use Bench;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    MEMBERS  => 10,
    INTERVAL => 2,
    ROUNDS   => $ENV{BENCH_ROUNDS} || 5,
    CYCLES   => $ENV{BENCH_CYCLES} || 10,     # intervals that are counted
    FLEET    => $ENV{BENCH_FLEET} || 100,
};

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 256k;
}

http {
    upstream api {
        etcd_members /api/ max_fails=0;
        etcd_check http interval=%%INTERVAL%%s timeout=500ms fails=2 rises=1
                   fast=100ms panic=0% %%SHARE%%;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / { proxy_pass http://api; }
        location /status { etcd_status; }
    }
}

END

my $etcd = Etcd->new()->start();
my @backends = Backend->start(MEMBERS);

$etcd->put("/api/$_", $backends[$_]->address) for 0 .. $#backends;

sub nginx {
    my ($share) = @_;

    return Nginx->new(etcd => $etcd)
        ->set(INTERVAL => INTERVAL, SHARE => $share)->start($config);
}

sub state {
    my ($nginx, $backend) = @_;

    return (Upstream->new($nginx, 'api')->member($backend->address)
            // {})->{state} // '';
}

sub role { Upstream->new($_[0], 'api')->status->{check_role} // 'alone' }

sub become {
    my ($backend, $state, @nginxes) = @_;

    return wait_for {
        !grep { state($_, $backend) ne $state } @nginxes
    } 60, "a member that is $state";
}


# Checks of a member in a second, while nothing happens.

sub rate {
    $_->reset for @backends;

    my $begun = time();

    sleep(INTERVAL * CYCLES);

    my $checks = 0;

    $checks += $_->requests for @backends;

    return $checks / MEMBERS / (time() - $begun);
}


# Seconds from when a member answers nothing until all have left it out.

sub black_hole {
    my (@nginxes) = @_;

    my $backend = $backends[rand(MEMBERS)];
    my $begun = time();

    $backend->set(hang => 1);
    become($backend, 'unhealthy', @nginxes);

    my $took = time() - $begun;

    $backend->set(hang => 0);
    become($backend, 'up', @nginxes);

    return $took;
}


my @rows;

for my $share ('', 'share=/observer/api') {
    my @nginxes;

    for my $n (grep { $_ <= FLEET } 1, 10, 100) {
        push @nginxes, nginx($share) while @nginxes < $n;

        become($_, 'up', @nginxes) for @backends;
        wait_for {
            !$share || 1 == grep { role($_) ne 'follows' } @nginxes
        } 60, 'an observer';

        my $rate = rate();
        my @times = map { black_hole(@nginxes) } 1 .. ROUNDS;

        push @rows, [$share ? '`share=`' : 'alone', $n,
                     sprintf('%.2f', $rate),
                     spread('%.2f', @times)];
    }

    $_->stop for @nginxes;
}

publish('Checks that are shared',
    MEMBERS . ' members, `etcd_check http interval=' . INTERVAL . 's '
    . 'timeout=500ms fails=2 fast=100ms`, nginxes of one worker: the checks '
    . 'that a member gets in a second, and the time from when one member '
    . 'answers nothing until all nginxes have left it out, which each of them '
    . 'is asked in turn. Rounds: ' . ROUNDS
    . '.',
    table(['checks', 'nginxes', 'checks of a member in a second',
           'all have left it out, s'], @rows));

$etcd->stop;
