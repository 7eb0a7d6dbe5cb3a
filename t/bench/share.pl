#!/usr/bin/perl

# Checks that are shared: how many of them a member gets of 1, 10 and 100
# nginxes, beside as many that check by themselves; and how long it takes until
# all of them leave out a member that has become a black hole.
#
# That time is of the nginxes' own lines, which reach this process by a socket.
# The member becomes a black hole always as long after a check, which is that of
# the observer, or of the only nginx that checks alone: of several that do, each
# has a phase of its own.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use IO::Select;
use IO::Socket::UNIX;
use Socket qw(SOCK_DGRAM);
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
    OFFSET   => 0.5,         # seconds after a check
    PATIENCE => 30,
    ROUNDS   => $ENV{BENCH_ROUNDS} || 15,
    CYCLES   => $ENV{BENCH_CYCLES} || 10,     # intervals that are counted
    FLEET    => $ENV{BENCH_FLEET} || 100,
};

my $config = <<'END';

error_log syslog:server=unix:%%LOG%%,nohostname,tag=%%TAG%% notice;
worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 256k;
}

http {
    upstream api {
        etcd_members /api/ max_fails=0;
        etcd_check http interval=%%INTERVAL%%s timeout=500ms fails=2 rises=1
                   fast=100ms panic=0% jitter=0% %%SHARE%%;
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

my $path = test_dir() . '/log';
my $log = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $path)
    or die "socket: $!\n";
my $readable = IO::Select->new($log);

sub line {
    my ($patience) = @_;

    return $readable->can_read($patience)
        ? do { $log->recv(my $line, 4096); $line } : undef;
}

my $count = 0;

sub nginx {
    my ($share) = @_;

    return Nginx->new(etcd => $etcd)
        ->set(INTERVAL => INTERVAL, SHARE => $share, LOG => $path,
              TAG => 'nginx' . ++$count)->start($config);
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


# Seconds from when a member answers nothing until the last of so many nginxes
# has left it out.

sub black_hole {
    my (@nginxes) = @_;

    my $backend = $backends[rand(MEMBERS)];
    my $address = $backend->address;
    my $checks = $backend->requests;

    while ($backend->requests == $checks) {
        sleep(0.002);
    }

    sleep(OFFSET);

    while (defined line(0)) {
        # of the round before
    }

    $backend->set(hang => 1);

    my $begun = time();
    my (%left, $took);

    while (keys(%left) < @nginxes && time() - $begun < PATIENCE) {
        my $line = line(1) // next;

        $took = time() - $begun;
        $left{$1} = 1 if $line =~ / (nginx\d+): .*\Q$address\E has failed/;
    }

    keys(%left) == @nginxes or die "not all have left the member out\n";

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
                     spread('%.3f', @times)];
    }

    $_->stop for @nginxes;
}

publish('Checks that are shared',
    MEMBERS . ' members, `etcd_check http interval=' . INTERVAL . 's '
    . 'timeout=500ms fails=2 fast=100ms jitter=0%`, nginxes of one worker: the '
    . 'checks that a member gets in a second, and the time from when one '
    . 'member answers nothing, always ' . OFFSET . ' s after it had a check '
    . 'of the observer, or of any nginx that checks alone, until the last '
    . 'nginx says that it has left it out. Several that check alone have '
    . 'phases of their own: the time of one of them is that to compare with. '
    . 'Rounds: ' . ROUNDS . '.',
    table(['checks', 'nginxes', 'checks of a member in a second',
           'the last one has left it out, s'], @rows));

$etcd->stop;
