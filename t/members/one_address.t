#!/usr/bin/perl

# An instance that registers itself with another key each time it starts, and
# never deletes a key: thousands of keys of one address.  Whatever is done with
# them, the agent stays the agent, an election its winner, and requests are
# answered.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Control;
use Etcd;
use Finish;
use Load;
use Nginx;
use Upstream;
use Wait;

my $slower;

BEGIN { $slower = $ENV{TEST_SLOWER} || 1 }

use constant {
    KEYS  => $ENV{TEST_KEYS} || 40_000 / $slower ** 2,
    TXN   => 100,
    KILLS => 12,
    PART  => 2000,              # keys that are registered before a kill
    ROOM  => 65536,             # of the zone: pages that are not full
    STILL => 0.5,               # s: after such a stall a lost agent says
                                # nothing about nginx
    TTL   => 600,               # no stall lasts as long: a lease that is gone
                                # was given up
};

my $control = Control->start();
my $etcd = Etcd->new()->start();
my ($backend, $other) = Backend->start(2);
my $address = $backend->address;

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    election one /elect/ value=me ttl=%%TTL%%s;
    zone %%ZONE%%;
    state_path %%DIR%%/state;
}

http {
    log_format slow "$msec $request_time $uri";
    access_log %%DIR%%/requests.log slow;
    keepalive_requests 100;         # each client asks both workers

    upstream many {
        etcd_members /many/ %%PARAMETERS%%;
    }

    %%ALSO%%

    upstream control {
        etcd_members /control/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://many;
        }

        location /control {
            proxy_pass http://control;
        }

        location /status {
            access_log off;
            etcd_status;
        }
    }
}

EOC

$etcd->put('/many/first', $address);
$etcd->put('/control/1', $other->address);

my $nginx = Nginx->new(etcd => $etcd)
    ->set(ZONE => '64m', PARAMETERS => '', ALSO => '', TTL => TTL)
    ->start($config);
my ($many, $also) = map { Upstream->new($nginx, $_) } qw(many also);
my $newest = sprintf('/many/%06d', KEYS);

sub shown { ($many->members)->{$_[0]} }

wait_for { shown('/many/first') && $etcd->list('/elect/') } 10, 'a member';


# lines of the log

sub agents { $nginx->count_log(qr/this worker is the agent/) }

sub lost { $nginx->count_log(qr/this nginx does not lead any more/) }

sub leads { ($nginx->status // {})->{agent}{pid} && $etcd->list('/elect/') }


# Tests that since the last such test so many workers became the agent.  A
# sanitizer's memory may stop one process alone for longer than an agent is
# waited for: there it is enough that there is one, and that it leads.

my $agents = agents();
my $lost = lost();
my $begun = time();

sub stays {
    my ($others, $name) = @_;

    my $still = $control->since($begun);
    my $now = agents() - $others;

    ok($now == $agents && lost() == $lost || $still >= STILL
       || $slower > 1 && wait_for(\&leads, 10, 'agent'), $name)
        or diag("agents: $agents, $now; ", lost(), " times it leads no more; ",
                "$still s of the control");

    $agents = $now + $others;
    $lost = lost();
    $begun = time();
}


# Puts all keys again: newest last, or in another order by revision.

sub register {
    my (@numbers) = @_;

    while (my @part = splice(@numbers, 0, TXN)) {
        $etcd->txn(map { [put => sprintf('/many/%06d', $_), $address] } @part);
    }
}


# The key is the only one that shows.

sub shows {
    my ($key, $name) = @_;

    return ok(wait_for(sub { shown($key) }, 60, $key), $name);
}


# seconds that the longest request took since a time, by the control

sub longest {
    my ($from) = @_;

    my $longest = 0;

    open(my $file, '<', $nginx->dir . '/requests.log') or die "log: $!\n";

    while (<$file>) {
        my ($end, $took) = split(/ /);

        next if $. <= $from;

        $took = $control->lasted($end - $took, $end) if $took > 0.2;
        $longest = $took if $took > $longest;
    }

    return ($longest, $.);
}


my $load = Load->start($nginx->port, clients => 2, keepalive => 1);
my $others = Load->start($nginx->port, clients => 2, keepalive => 1,
                         path => '/control');

register(1 .. KEYS);
shows($newest, 'the newest of ' . KEYS . ' keys shows');

register(reverse(KEYS - 1000 .. KEYS - 1), 1);
shows('/many/000001', 'then another one');

my @range = keys(%{ $many->members });

is_deeply(\@range, ['/many/000001'], 'all of them are one member');
stays(0, 'the agent has not changed');

my ($longest, $lines) = longest(0);

cmp_ok($longest, '<', $slower, 'no request waited for it');

# All other keys go at once, and come back: a list.

$etcd->del_prefix('/many/0');
shows('/many/first', 'all but one are deleted in one revision');
register(1 .. KEYS);
shows($newest, 'they are there again');
stays(0, 'the agent has not changed');

# A reload reads every value anew.

my ($leader) = $etcd->list('/elect/');

$nginx->set(PARAMETERS => 'weight=5');
ok($nginx->reload($config), 'reloaded');
ok(wait_for(sub { (($many->member($address) // {})->{weight} // 0) == 5 }, 60,
            'weight'), 'with another weight of all');

# The zone has another size; then the set is given up.

$nginx->set(ZONE => '80m');
ok($nginx->reload($config), 'reloaded with another zone');
shows($newest, 'what shows is the same');

# A second set of the keys comes, and is given up.

$nginx->set(ALSO => 'upstream also { etcd_members /many/; }');
ok($nginx->reload($config), 'reloaded with another upstream of them');
ok(wait_for(sub { ($also->members)->{$newest} }, 60, $newest),
   'which shows the same');

$nginx->set(ALSO => '');
ok($nginx->reload($config), 'reloaded without it');
wait_for { !$nginx->leaving } 30, 'old workers';
stays(4, 'one agent for each of four reloads');

# All keys go at once.

$etcd->del_prefix('/many/0');
shows('/many/first', 'all but one are deleted');
stays(0, 'the agent has not changed, and leads');

is(join(' ', map { $_->{key} } $etcd->list('/elect/')), $leader->{key},
   'an election has still its winner');

($longest) = longest($lines);
cmp_ok($longest, '<', $slower, 'no request waited for any of that');

my ($seen, $seen_others) = map { $_->results } $load, $others;

is_deeply($seen->{failed}, [], 'no request has failed')
    or diag(Load::describe($seen));
is_deeply($seen_others->{failed}, [], 'of the others neither')
    or diag(Load::describe($seen_others));
cmp_ok($seen->{requests}, '>', $seen_others->{requests} / 3,
       'they had as many answers');

# The agent is killed again and again, amid the changes.

my $used = $nginx->status->{zone}{used};

for my $n (1 .. KILLS) {
    my $agent = wait_for { ($nginx->status // return)->{agent}{pid} } 10,
        'agent';

    register(map { $n * TXN + $_ } 1 .. PART);
    $etcd->del_prefix("/many/00$n") if $n % 3 == 0;
    select(undef, undef, undef, rand(0.02));
    $nginx->kill_worker($agent);
}

register(1 .. PART);
shows(sprintf('/many/%06d', PART), 'after ' . KILLS . ' kills: the newest');
$etcd->del_prefix('/many/0');
shows('/many/first', 'and the last one');
ok(wait_for(sub { $nginx->status->{zone}{used} <= $used + ROOM }, 10, 'room'),
   'what they had is given back')
    or diag("$used bytes before, $nginx->status->{zone}{used} now");

diag(join("\n", grep { m{agent|compared|signal|full} }
               split(m{\n}, $nginx->error_log)))
    if !Test::More->builder->is_passing;

$control->finished();

finish();
