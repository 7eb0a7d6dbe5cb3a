#!/usr/bin/perl

# Endpoints that fail: nginx tries the next one at once, then with growing,
# random pauses; it serves on with its members, and catches up on changes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Path qw(remove_tree);
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

use Backend;
use Chaos;
use Cluster;
use Control;
use Etcd;
use Fake;
use Finish;
use Load;
use Nginx;
use Wait;

use constant {
    PROXIES  => 10,
    ATTEMPTS => 6,
};


my $slower = $ENV{TEST_SLOWER} || 1;

my $control = Control->start();
my $cluster = Cluster->new(3)->start();
my $etcd = Etcd->new()->start();
my @backends = Backend->start(3);
my $fake = Fake->new()->start('ok', '--kv', '/s/1=127.0.0.1:1001');
my @proxies = map { Chaos->start($fake->port) } 1 .. PROXIES;

my @history = ('--kv', '/s/1=127.0.0.1:1001', '--kv', '/s/2=127.0.0.1:1002');
my %past = map { $_ => Fake->new()->start('ok', @history) }
    'lower', 'other', 'changed';

sub address { $backends[$_[0]]->address }

for my $n (0, 1) {
    $etcd->put('/s/' . ($n + 1), address($n));
    $cluster->ask('put', '/s/' . ($n + 1), address($n));
}

my $nginx = Nginx->new();

$nginx->set(
    THREE     => $cluster->endpoints,
    ONE       => $etcd->endpoints,
    CLUSTERS  => join('', (map {
        "etcd p$_ { endpoints " . $proxies[$_]->endpoints . "; zone 256k; }\n"
    } 0 .. PROXIES - 1), map {
        "etcd $_ { endpoints " . $past{$_}->endpoints . "; zone 256k; }\n"
    } keys %past),
    UPSTREAMS => join('', map {
        "upstream $_ { etcd_members /s/ cluster=$_; }\n"
    } keys %past, map { "p$_" } 0 .. PROXIES - 1),
);

# There is one agent: another one would count its reconnects from 0.

$nginx->start(<<'EOC');

worker_processes 1;
error_log %%DIR%%/debug.log debug;

%%CLUSTERS%%

etcd three {
    endpoints %%THREE%%;
}

etcd one {
    endpoints %%ONE%%;
}

http {
    %%UPSTREAMS%%

    upstream three {
        etcd_members /s/ cluster=three;
    }

    upstream one {
        etcd_members /s/ cluster=one on_empty=keep;
        etcd_guard off;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://one;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC


sub members { return { map { ("/s/$_->[0]" => "$_->[1] 1 up") } @_ } }

my @both = ([1, address(0)], [2, address(1)]);

$nginx->upstream($_)->shows(members(@both), "$_: members") for 'three', 'one';
$nginx->upstream($_)->shows(members([1, '127.0.0.1:1001'],
                                    [2, '127.0.0.1:1002']),
                            "$_: members") for sort keys %past;

for my $n (0 .. PROXIES - 1) {
    $nginx->upstream("p$n")->shows(members([1, '127.0.0.1:1001']),
                                   "p$n: members");
}

my $load = Load->start($nginx->port, clients => 2);


# Ten endpoints close every connection at once from now on: the time of each
# attempt is random within limits.

my @began = map { scalar(@{ $_->set(cut_after => 1)->{times} }) } @proxies;

$_->cut() for @proxies;

# seconds between two times, without stalls of the machine

sub lasted {
    my ($from, $until) = @_;

    return $control->lasted($from, $until);
}


# Meanwhile, the member in use dies, and another one takes over.

sub member_in_use {
    my $url = $nginx->cluster('three')->{endpoint};

    return (grep { $_->url eq $url } $cluster->members)[0];
}

my $dead;
my $took = 0;

$control->again(sub {
    if ($dead) {
        diag("a takeover: again, $took s on a busy machine");
        $dead->launch($dead->{cluster});
        $cluster->wait_healthy();
    }

    $dead = member_in_use();

    my $start = time();

    $dead->kill();

    my $came = wait_for {
        my $now = $nginx->cluster('three');
        $now->{endpoint} ne $dead->url
            && grep({ $_->{url} eq $now->{endpoint}
                      && $_->{state} eq 'connected' } @{ $now->{endpoints} })
    } 10, 'another endpoint';

    ok($came, 'the next endpoint takes over');
    $took = lasted($start, time());

    return $took <= 0.5 * $slower;
});

cmp_ok($took, '<=', 0.5 * $slower, 'at once');

my ($failed) = grep { $_->{url} eq $dead->url }
    @{ $nginx->cluster('three')->{endpoints} };

is($failed->{state}, 'failed', 'the status tells which one failed');

# The killed member may have been raft's leader.

$cluster->ask('put', '/s/3', address(2));
$nginx->upstream('three')->shows(members(@both, [3, address(2)]),
                                 'changes arrive through it');

# Without a majority there is no leader, and the stream has to say so, since
# nginx asked for that.

my ($survivor, $second) = $cluster->running;

$second->kill();

ok(wait_for(sub { $nginx->count_log(qr/"three".*no leader/) }, 10,
            'no leader'), 'a member that lost its leader ends the watch');
is_deeply($nginx->upstream('three')->members, members(@both, [3, address(2)]),
          'the members stay');

$_->launch($_->{cluster}) for $dead, $second;

$cluster->ask('del', '/s/3');
$nginx->upstream('three')->shows(members(@both),
                                 'the cluster is back, so is the watch');
is($nginx->cluster('three')->{resyncs}, 0, 'it went on at the next revision');


# A single etcd ends: by SIGTERM (a bare end of the connection), and SIGKILL.

for my $signal ('stop', 'kill') {
    my $reconnects = $nginx->cluster('one')->{reconnects};

    $etcd->$signal();

    ok(wait_for(sub { $nginx->cluster('one')->{state} eq 'connecting' }, 10,
                'the end'), "$signal: noticed");
    is_deeply($nginx->upstream('one')->members, members(@both),
              "$signal: the members stay");

    $etcd->start();
    $etcd->put('/s/3', address(2));
    $nginx->upstream('one')->shows(members(@both, [3, address(2)]),
                                   "$signal: a change after the restart");
    $etcd->del('/s/3');
    $nginx->upstream('one')->shows(members(@both), "$signal: and another");
    cmp_ok($nginx->cluster('one')->{reconnects}, '>', $reconnects,
           "$signal: it has reconnected");
    is($nginx->cluster('one')->{resyncs}, 0, "$signal: no list was needed");
}

# etcd loses all its data.

$etcd->kill();
remove_tree($etcd->{data});
$etcd->start();

ok(wait_for(sub { $nginx->count_log(qr/"one": the revision went back/) }, 10,
            'the revision'), 'an etcd that lost its data is noticed');
is_deeply($nginx->upstream('one')->members, members(@both),
          'on_empty=keep: the members stay');

$etcd->put('/s/2', address(1));
$etcd->put('/s/4', address(2));
$nginx->upstream('one')->shows(members([2, address(1)], [4, address(2)]),
                               'they become what it has now');


# A fake loses its data: it comes back with a lower revision, or another id.

my %back = (
    lower => ['--revision', 90],
    other => ['--cluster-id', 77, '--revision', 100],
);

# Another agent reads small prefixes once more.

sub agents { $nginx->count_log(qr/"$_[0]": this worker is the agent/) }

for my $name (sort keys %back) {
    my $generation = $nginx->upstream($name)->generation;
    my $lists = $past{$name}->count(qr/ range /);
    my $agents = agents($name);

    $past{$name}->stop();
    $past{$name}->start('ok', @history, @{ $back{$name} });

    ok(wait_for(sub { $nginx->cluster($name)->{resyncs} == 1
                      && $nginx->cluster($name)->{state} eq 'synced'
                      && $past{$name}->count(qr/ range /) > $lists }, 10,
                $name),
       "$name: everything is read again");
    is($nginx->upstream($name)->generation, $generation,
       "$name: the same as before: no update");
    ok($past{$name}->count(qr/ range /) == $lists + 1
       || agents($name) > $agents, "$name: by one list")
        or diag(@{ $past{$name}->lines(qr/ range /) });
}

is($nginx->cluster('other')->{cluster_id}, '4d', 'the status has the new id');

# The fake gives a changed key its former revision.

$past{changed}->stop();
$past{changed}->start('ok', @history[0 .. 2], '/s/2=127.0.0.1:2002',
                      '--revision', 90);

$nginx->upstream('changed')->shows(
    members([1, '127.0.0.1:1001'], [2, '127.0.0.1:2002']),
    'changed: values are read again, whatever their revisions');


my $seen = $load->results();

cmp_ok($seen->{requests}, '>', 100, 'there was load all the time');
is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
    or diag(Load::describe($seen));


# The ten endpoints have been tried often enough by now.

ok(wait_for(sub {
    !grep { $proxies[$_]->counts->{accepted} < $began[$_] + ATTEMPTS }
        0 .. PROXIES - 1
}, 60, 'attempts'), 'endpoints are tried again and again');

my @gaps;

for my $n (0 .. PROXIES - 1) {
    my @times = @{ $proxies[$n]->counts->{times} };

    for my $i (1 .. ATTEMPTS - 1) {
        my $at = $began[$n] + $i;

        push @{ $gaps[$i] }, $times[$at] - $times[$at - 1];
    }
}

# The first attempt follows the failure at once, the next one after up to
# 0.1 s, and then up to twice as much each time.

for my $i (3 .. ATTEMPTS - 1) {
    my @sorted = sort { $a <=> $b } @{ $gaps[$i] };

    cmp_ok($sorted[-1] - $sorted[0], '>=', 0.05, "pause $i is random");
}

SKIP: {
    Nginx::built_with() =~ /--with-debug/
        or skip 'nginx writes no debugging log', ATTEMPTS;

    open(my $log, '<', $nginx->dir . '/debug.log') or die "debug.log: $!\n";

    my @delays;

    while (my $line = <$log>) {
        push @{ $delays[$1] }, $2
            if $line =~ /"p\d+": \w+: failures: (\d+), delay: (\d+) ms/;
    }

    for my $i (0 .. ATTEMPTS - 1) {
        cmp_ok(max(@{ $delays[$i] }), '<=', $i ? 1 + 50 * 2 ** $i : 1,
               "pause $i has a limit");
    }
}

my $sum = 0;

$sum += $_ for map { @$_ } @gaps[3 .. ATTEMPTS - 1];

cmp_ok($sum / (PROXIES * (ATTEMPTS - 3)), '>=', 0.15, 'the pauses grow');

$control->finished();

finish();
