#!/usr/bin/perl

# Faults that a site must survive: the share of failed requests and p99, beside
# HAProxy before the same members, with the same load at the same time.
#
# BENCH_SECONDS=8 BENCH_ROUNDS=1 is a quick run; BENCH_FAULTS=a,c runs some.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Netns;

BEGIN { Netns::enter() }

use File::Path qw(remove_tree);
use IO::Socket::INET;
use List::Util qw(max shuffle);
use POSIX ();
use Time::HiRes qw(sleep time);

use Bench;
use Etcd;
use Finish;
use Members;
use Process;
use Rivals;
use Steady;
use Wait;

use constant {
    SECONDS => $ENV{BENCH_SECONDS} || 20,       # seconds of a fault
    ROUNDS  => $ENV{BENCH_ROUNDS} || 3,
    RATE    => 300,
    MANY    => $ENV{BENCH_MEMBERS} || 10_000,
    WARM    => 2,
    AFTER   => 8,
    TTL     => 5,
};

# The last two bytes of addresses: one half, the other half, and nearly all.

use constant {
    HALF   => [[257, 261]],
    OTHERS => [[513, 517]],
    NEARLY => [[257, 261], [513, 516]],
};

my %half = (members => 'ten', sides => ['nginx', 'haproxy']);
my %etcd = (members => 'ten', followed => 1,
            sides => ['nginx', 'guard', 'haproxy']);
my %panic = (members => 'ten', sides => ['nginx', 'no panic', 'haproxy']);

# seconds: times SECONDS; followed: HAProxy's file follows etcd

my @faults = (
    { %etcd, id => 'a', name => 'etcd is wiped',
      begin => \&wipe, end => \&register },
    { %etcd, id => 'b', name => 'the prefix is deleted',
      begin => sub { $_[0]{etcd}->del_prefix(Rivals::PREFIX) },
      end => \&register },
    { %etcd, id => 'c', name => 'all leases expire', seconds => 3, leases => 1,
      begin => sub { kill('USR1', $_[0]{services}{pid}) },
      end => sub { kill('USR2', $_[0]{services}{pid}) } },
    { %half, id => 'd', name => 'half are black-holed',
      begin => sub { $_[0]{place}->ip('link', 'set', 'half1', 'down') },
      end => \&connect_half },
    { %half, id => 'e', name => 'half answer after 10 s', gone('slow', HALF) },
    { %half, id => 'f', name => 'half answer by 500', gone('fail', HALF) },
    { %half, id => 'f', name => 'half answer by 500, which is tried again',
      again => 1, gone('fail', HALF) },
    { %half, id => 'g', name => 'half reset connections',
      gone('reset', HALF) },
    { %half, id => 'h', name => 'half hang, and a worker is killed',
      begin => \&hang_and_kill, end => sub { order($_[0], 'ok', HALF) } },
    { id => 'i', members => 'many', sides => ['nginx', 'haproxy'],
      interval => 5, seconds => 2.5, name => '5000 of 10000 hang',
      gone('hang', [[MANY / 2 + 1, MANY]]) },
    { %panic, id => 'j', name => '9 of 10 answer by 500',
      gone('fail', NEARLY) },
    { %panic, id => 'j', name => '9 of 10 hang', gone('hang', NEARLY) },
    { %panic, id => 'j',
      name => '9 of 10 fail checks only, one is not enough',
      gone('sick', NEARLY), prepare => \&narrow, alone => 1 },
);

my %names = (nginx => 'nginx', haproxy => 'HAProxy',
             'no panic' => 'nginx, `panic=0`',
             guard => 'nginx, `etcd_guard keep=50%`');

my %more = ('no panic' => { panic => 0 },
            guard => { guard => 'etcd_guard keep=50%;' });


sub order {
    my ($scene, $state, $ranges) = @_;

    $scene->{members}->tell($state, @$_) for @$ranges;
}


sub gone {
    my ($state, $ranges) = @_;

    return (begin => sub { order($_[0], $state, $ranges) },
            end   => sub { order($_[0], 'ok', $ranges) });
}


# At a time there are 6 requests.

sub narrow {
    my ($scene) = @_;

    $scene->{members}->tell('delay', 20, 0);
    $scene->{members}->tell('limit', 3, 0);
}


sub wipe {
    my ($scene) = @_;

    $scene->{etcd}->kill();
    remove_tree($scene->{etcd}{data});
    $scene->{etcd}->start();
}


sub register {
    my ($scene) = @_;

    my $n = 0;
    my @puts = map { [put => sprintf('%s%06d', Rivals::PREFIX, ++$n), $_] }
                   @{ $scene->{addresses} };

    while (my @some = splice(@puts, 0, 100)) {
        $scene->{etcd}->txn(@some);
    }
}


# A worker is killed a third into the fault, while checks are under way.

sub hang_and_kill {
    my ($scene) = @_;

    order($scene, 'hang', HALF);
    sleep(3);
    $scene->{nginx}->kill_worker(status_of($scene->{nginx})->{agent});
    $scene->{haproxy}->kill_worker();
}


# A namespace for members: each half of them is behind one of its two links.

sub place {
    my $place = Netns::Place->new(1);

    for my $half (1, 2) {
        $place->connect("half$half", "10.9.$half", undef, "to$half");
        $place->ip('addr', 'add', "10.9.$half.$_/32", 'dev', 'lo') for 2 .. 5;
        Netns::ip('route', 'add', "10.9.$half.0/24", 'dev', "to$half");
    }

    return $place;
}


sub connect_half {
    my ($scene) = @_;

    $scene->{place}->ip('link', 'set', 'half1', 'up');
    $scene->{place}->ip('route', 'replace', '10.9.1.254', 'dev', 'half1',
                        'src', '10.9.1.1');
}


# Services keep their keys by leases, each by its own.

sub services {
    my ($scene) = @_;

    my $pid = fork() // die "fork: $!\n";

    if ($pid) {
        my $self = bless { pid => $pid }, 'Services';

        Finish::later($self);
        return $self;
    }

    my ($cut, %leases) = (0);
    my $bench = getppid();
    my $etcd = $scene->{etcd};

    $etcd->{http} = $etcd->http(timeout => 1);
    @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
    $SIG{USR1} = sub { $cut = 1 };
    $SIG{USR2} = sub { $cut = 0 };

    while (getppid() == $bench) {
        for my $address ($cut ? () : @{ $scene->{addresses} }) {
            eval { keep($etcd, $address, \%leases); 1 } or warn $@;
        }

        sleep(TTL / 5);
    }

    POSIX::_exit(0);
}


sub keep {
    my ($etcd, $address, $leases) = @_;

    if (my $lease = $leases->{$address}) {
        my $answer = $etcd->call('lease/keepalive', { ID => $lease });

        return if $answer->{result}{TTL};
    }

    my $lease = $leases->{$address} = $etcd->grant(TTL);

    $etcd->put(Rivals::PREFIX . $address, $address, lease => $lease);
}


sub Services::stop {
    my ($self) = @_;

    stop_child($self->{pid}, 'KILL');
}


# all parts of a fault, made anew

sub scene {
    my ($fault, $place, @sides) = @_;

    my $scene = { etcd => Etcd->new()->start() };
    my $many = $fault->{members} eq 'many';

    $scene->{place} = $place;
    $scene->{members} = Members->start($many ? () : (place => $place));

    my $port = $scene->{members}->port;

    # Turns begin with the first one: the same disorder for both sides.

    $scene->{addresses} = [map { "$_:$port" } $many
        ? shuffle(map({ sprintf('127.1.%d.%d', $_ >> 8, $_ & 255) } 1 .. MANY))
        : map({ ("10.9.1.$_", "10.9.2.$_") } 1 .. 5)];

    if ($fault->{leases}) {
        $scene->{services} = services($scene);
    } else {
        register($scene);
    }

    $fault->{prepare}->($scene) if $fault->{prepare};

    my %options = map { $fault->{$_} ? ($_ => $fault->{$_}) : () }
                      qw(interval again);

    for my $side (@sides) {
        $scene->{$side} = $side eq 'haproxy'
            ? Rivals::haproxy($scene->{addresses}, %options)
            : Rivals::nginx($scene->{etcd}, %options, %{ $more{$side} // {} });
    }

    $scene->{haproxy}->follow($scene->{etcd}) if $fault->{followed};

    for my $nginx (map { $scene->{$_} } grep { $_ ne 'haproxy' } @sides) {
        wait_for { up($nginx) == @{ $scene->{addresses} } } 60, 'members'
            or die "members are not up\n";
    }

    return $scene;
}


sub up {
    my ($nginx) = @_;

    my $n = () = $nginx->get('/status')->{body} =~ /"state":\s*"up"/g;

    return $n;
}


# results of requests that began from one time to another

sub outcome {
    my ($from, $until, @requests) = @_;

    my @these = grep { $_->{begun} >= $from && $_->{begun} < $until } @requests;
    my @failed = grep { $_->{status} != 200 } @these;
    my @times = map { ($_->{ended} - $_->{begun}) * 1000 } @these;

    return {
        all    => scalar(@these),
        failed => @failed * 100 / (@these || 1),
        p99    => percentile(99, @times),
        last   => max(0, map { $_->{begun} - $from } @failed),
    };
}


sub measure {
    my ($fault, @sides) = @_;

    my $scene = scene($fault, place(), @sides);
    my %load = map {
        ($_ => Steady->start($scene->{$_}->port, rate => RATE, get => 1))
    } @sides;

    sleep(WARM);

    my $begin = time();

    $fault->{begin}->($scene);

    my $end = $begin + SECONDS * ($fault->{seconds} // 1);

    sleep(max(0, $end - time()));

    $fault->{end}->($scene);
    sleep(AFTER);

    my %result;

    for my $side (@sides) {
        my @requests = $load{$side}->results();

        $result{$side} = {
            before => outcome($begin - WARM, $begin, @requests),
            during => outcome($begin, $end, @requests),
            after  => outcome($end, $end + AFTER, @requests),
        };
    }

    # All processes of the fault end before the next fault begins.

    Finish::stop_all();

    return %result;
}


sub run_round {
    my ($wanted) = @_;

    for my $fault (@faults) {
        next if $wanted && $wanted !~ /$fault->{id}/;

        my @sides = @{ $fault->{sides} };
        my %result = map { measure($fault, @$_) }
                         $fault->{alone} ? map({ [$_] } @sides) : \@sides;

        for my $side (@sides) {
            my $of = $result{$side};

            print "$fault->{id}  $fault->{name}: $side:",
                map({ my $what = $of->{$_};
                      sprintf('  %s %d, failed %.2f%%, p99 %.0f ms, last %.1f',
                              $_, @$what{qw(all failed p99 last)}) }
                    qw(before during after)), "\n";

            push @{ $fault->{results}{$side} }, $of;
        }
    }
}


sub row {
    my ($fault, $side) = @_;

    my @rounds = @{ $fault->{results}{$side} };
    my $of = sub {
        my ($format, $when, $what) = @_;

        return spread_of($format, sub { $_[0]{$when}{$what} }, @rounds);
    };

    return [$fault->{name}, $names{$side}, $of->('%.2f', 'during', 'failed'),
            $of->('%.0f', 'during', 'p99'), $of->('%.1f', 'during', 'last'),
            $of->('%.2f', 'after', 'failed'), $of->('%.1f', 'after', 'last')];
}


$| = 1;
run_round($ENV{BENCH_FAULTS}) for 1 .. ROUNDS;

my ($seconds, $rate, $rounds, $after) = (SECONDS, RATE, ROUNDS, AFTER);
my ($tries, $ttl, $outage, $long) = (Rivals::TRIES, TTL, 3 * SECONDS,
                                     2.5 * SECONDS);

publish('Faults', <<"END",
Ten members, of which some go wrong for $seconds s, under $rate requests a
second, each sent when it is due, half of them over new connections: to nginx,
with `etcd_check http interval=2s fast=200ms mandatory` and `etcd_eject
errors=50% max=34%`, as in resilience.conf; and at the same time to HAProxy,
whose servers are these members, with `option httpchk`, `inter 2s fastinter
200ms fall 3 rise 2`, `observe layer7`, `on-error mark-down`, `option
redispatch 1` and `retry-on conn-failure empty-response response-timeout`.
Both have two workers or threads, 1 s to connect, 3 s for an answer, 1 s for a
check, and $tries attempts. A request has failed if its answer is not 200: the
share of all that were sent while the fault lasted, their p99, and how long
after its begin the last one was sent that failed; and the same of those that
were sent in the $after s after its end, when members work, or are registered,
again. Rounds: $rounds.
END
    table(['fault', 'by', 'failed, %', 'p99, ms', 'last one after, s',
           'failed afterwards, %', 'last one after, s'],
          map { my $fault = $_; map { row($fault, $_) } @{ $fault->{sides} } }
              grep { $_->{results} } @faults),
    <<"END", <<"END", <<"END");
In the first three the members work all the time. HAProxy knows no etcd: a
script in place of confd, which Debian does not have, asks etcd every 100 ms,
writes the file when members are others, and reloads HAProxy; while etcd does
not answer, it leaves all as it is. The data of etcd are deleted and it starts
empty; all keys are deleted; each key has a lease of $ttl s that its service
cannot keep alive for $outage s. What is tried again is `proxy_next_upstream
error timeout http_500`, and `retry-on` with 500. Black-holed members are behind
a link that swallows everything. Those that hang accept, and answer neither
requests nor checks. The worker that is killed after 3 s is the agent of two,
while checks of the hanging members are under way; HAProxy has one worker, its
master ends with it, and both are started again after 100 ms, as systemd does
it.
END
The 10000 members are addresses of the loopback net, are checked every 5 s, and
5000 of them hang for $long s. With 9 of 10 that fail, fewer than half are
healthy: a panic, in which nginx asks all of them, unless `panic=0` says that it
is not to. That is meant for checks that are wrong: in the last fault the checks
of 9 members fail, their requests do not, and a member takes 3 requests of 20 ms
at a time, and answers 503 beyond that; each server is alone with it.
END
Debian 12 has neither Envoy nor Traefik.
END
