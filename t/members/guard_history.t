#!/usr/bin/perl

# An etcd that comes back empty, or in a former state: its lost members are held
# without any directive, with keys and sets of all kinds.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Path qw(remove_tree);
use Test::More;

use Backend;
use Becomes;
use Dns;
use Etcd;
use Finish;
use Load;
use Nginx;
use State;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my $dns = Dns->start();
my @backends = Backend->start(qw(a b c));
my %at = map { $_->{name} => $_->address } @backends;

my $configuration = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
    resolver %%DNS%%;
}

http {
    upstream s {
        etcd_members /s/;
    }

    upstream off {
        etcd_members /off/;
        etcd_guard off;
    }

    upstream twice {
        etcd_members /twice/;
    }

    upstream names {
        etcd_members /names/;
    }

    upstream traefik {
        etcd_members traefik/http/services/web/ format=traefik;
    }

    upstream tenants {
        etcd_members /tenants/$arg_tenant/;
        etcd_guard hold=%%HOLD%%;
    }

    upstream leader {
        etcd_leader /leader/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            proxy_next_upstream off;
        }
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)
    ->set(HOLD => '10m', DNS => $dns->address)
    ->start($configuration);

my %upstream = map { $_ => Upstream->new($nginx, $_) }
    qw(s off twice names traefik leader);


sub register {
    my ($n, $backend) = @_;

    my ($name, $address) = ($backend->{name}, $backend->address);

    $etcd->put("/$_/$name", $address) for qw(s off tenants/one tenants/two);
    $etcd->put("/twice/$_$name", $address) for qw(x y);
    $etcd->put("/names/$name", "$name.test:" . $backend->port);
    $etcd->put("traefik/http/services/web/loadbalancer/servers/$n/url",
               "http://$address");
}


sub members { $upstream{$_[0]}->states(%at) }


sub shows {
    my ($name, $wanted, $what) = @_;

    return becomes { members($name) } $wanted, $what;
}


sub used {
    my ($path) = @_;

    my $tally = $nginx->tally("/to/$path", 16);

    return join ' ', sort keys %$tally;
}


# etcd loses all its data, and starts again.

sub wipe {
    $etcd->kill();
    remove_tree($etcd->{data});
    $etcd->start();
}


$dns->set("$_.test", ['127.0.0.1']) for qw(a b c);

register($_, $backends[$_]) for 0 .. 2;
$etcd->put('/leader/a', $at{a});

shows($_, 'a:up b:up c:up', "the members of $_")
    for qw(s off twice names traefik);
shows('leader', 'a:up', 'the leader');
wait_for { used("tenants?tenant=$_") eq 'a b c' } 10, "tenant $_"
    for qw(one two);

my $snapshot = $etcd->save();

# wiped under load

my $load = Load->start($nginx->port, path => '/to/s', clients => 4);

wait_for { $backends[0]->requests > 100 } 10, 'the load';
wipe();
shows('s', 'a:held b:held c:held', 'wiped: all members are held');
shows('twice', 'a:held b:held c:held', 'members of several keys');
shows('names', 'a:held b:held c:held', 'members by host name');
shows('traefik', 'a:held b:held c:held', 'members of several keys each');
shows('off', '', 'without the guard they go');
shows('leader', '', 'a leader is not held');

is(used("tenants?tenant=$_"), 'a b c', "a set: tenant $_") for qw(one two);

# New members come beside those that are held.

$etcd->put('/s/new', $at{b});
shows('s', 'a:held b:up c:held', 'registered again by another key');
is($upstream{s}->member($at{b})->{key}, '/s/new', 'the key is the new one');

my $seen = $load->results();

is(scalar @{ $seen->{failed} }, 0, "none of $seen->{requests} requests failed")
    or diag(Load::describe($seen));

wait_for { $nginx->count_log(qr/upstream "s": .* etcd has another history/) }
    10, 'the log line';
$nginx->logs(qr/upstream "s": \d+ keys .* held/, 1, 'one line says so');

wait_for { $nginx->count_log(qr/upstream "tenants": .* are held/) == 2 } 10,
    'the lines of the sets';
$nginx->logs(qr/\[warn\].* upstream "tenants": .* are held/, 1,
             'one warning for all sets');

$etcd->put('/twice/xa', $at{a});
shows('twice', 'a:up b:held c:held', 'one of two keys of a member');

# another agent, a reload, and a start from the state file

$nginx->kill_worker($nginx->status->{agent}{pid});
wait_for { ($nginx->status // {})->{agent} } 10, 'the next agent';
shows('s', 'a:held b:up c:held', 'another agent');
is(used('tenants?tenant=one'), 'a b c', 'and the sets');

$nginx->reload(undef, gone => 1);
shows('s', 'a:held b:up c:held', 'after a reload');
is(used('tenants?tenant=two'), 'a b c', 'and the sets');

my $left = $upstream{s}->status->{held_for};

my $state = $nginx->dir . '/state/default.state';

wait_for { grep { $_->{held_until} } @{ saved_state($state)->{sets} } } 10,
    'the state file';

$nginx->quit();
$nginx->start();
shows('s', 'a:held b:up c:held', 'after a restart');
shows('twice', 'a:up b:held c:held', 'several keys after a restart');
shows('names', 'a:held b:held c:held', 'host names after a restart');
shows('traefik', 'a:held b:held c:held', 'several keys each after a restart');
is(used('tenants?tenant=one'), 'a b c', 'the sets after a restart');
cmp_ok($upstream{s}->status->{held_for}, '<=', $left,
       'the time goes on, not anew');
cmp_ok($upstream{s}->status->{held_for}, '>', 0, 'and is not over');

# an operator

$etcd->put('/twice/.release', '1');
shows('twice', 'a:up', 'released');
$etcd->put('traefik/http/services/web/.release', '1');
shows('traefik', '', 'released: several keys each');
$etcd->put('/tenants/one/.release', '1');
wait_for { used('tenants?tenant=one') eq '404' } 10, 'the set to go';
pass('released: a set is gone');
is(used('tenants?tenant=two'), 'a b c', 'the other one is not');

# the end of the time

$nginx->set(HOLD => '2s')->reload($configuration);
$etcd->put('/tenants/two/a', $at{a});
wait_for { used('tenants?tenant=two') eq 'a' } 10, 'the end';
pass('at the end of the time, what is registered stays');

# a snapshot of former times

$etcd->restore($snapshot);
shows('s', 'a:up b:up c:up', 'all are registered in the snapshot');
$etcd->put('/s/later', '127.0.0.1:9');
shows('s', '127.0.0.1:9:up a:up b:up c:up', 'a member after the snapshot');
$etcd->restore($snapshot);
shows('s', '127.0.0.1:9:held a:up b:up c:up', 'it is held');

# an empty list of the same history

$nginx->quit();
$etcd->del_prefix($_) for '/s/', 'traefik/';
$etcd->compact();
$nginx->start();
shows('s', '127.0.0.1:9:held a:held b:held c:held', 'an empty list');
shows('traefik', 'a:held b:held c:held', 'one of several keys each');
wait_for { $nginx->count_log(qr/upstream "s": .* all that there were/) } 10,
    'the log line';
register($_, $backends[$_]) for 0 .. 2;

# Another history that is not empty is seen first by another agent, or by an
# nginx that has only its state file.

wait_for { members('s') =~ /\ba:up b:up c:up/ } 10, 'registered again';
$etcd->kill();
remove_tree($etcd->{data});
$nginx->kill_worker($nginx->status->{agent}{pid});
wait_for { ($nginx->status // {})->{agent} } 10, 'the next agent';
$etcd->start();
$etcd->put('/s/a', $at{a});
shows('s', '127.0.0.1:9:held a:up b:held c:held',
        'wiped while there was no agent');

# Revisions go back only if there were more of them.

register($_, $backends[$_]) for 0 .. 2;
shows('s', '127.0.0.1:9:held a:up b:up c:up', 'registered again');
$nginx->quit();
wipe();
$etcd->put('/s/new', $at{b});
$nginx->start();
shows('s', '127.0.0.1:9:held a:held b:up c:held',
        'wiped while there was no nginx');
register($_, $backends[$_]) for 0 .. 2;
$etcd->put('/s/mark', $at{a});
wait_for { grep { $_->{key} eq '/s/mark' } state_members($state) } 10,
    'the state file';
$nginx->crash();
wipe();
$etcd->put('/s/c', $at{c});
$nginx->start();
shows('s', '127.0.0.1:9:held a:held b:held c:up',
        'wiped while nginx was killed');
register($_, $backends[$_]) for 0 .. 2;

# An etcd is silent: the time does not end.

$nginx->reload($configuration =~ s/(etcd_members .s.;)/$1
etcd_guard hold=5s;/r);
shows('s', 'a:up b:up c:up', 'a shorter time is for what is held, too');
wipe();
shows('s', 'a:held b:held c:held', 'wiped again');
$etcd->kill();
wait_for { ($upstream{s}->status->{staleness_ms} // 0) > 13_000 } 30,
    'a silence';
is(members('s'), 'a:held b:held c:held', 'held while etcd is silent');
$etcd->start();
wait_for { members('s') eq '' } 20, 'the end of the time';
pass('released when etcd is there again, and has nothing');

finish();
