#!/usr/bin/perl

# "etcd_guard": many keys go at once, deleted or by leases that expire together:
# their members stay in use until they are registered again, fail, are released,
# or the time is over.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Http;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d));
my %at = map { $_->{name} => $_->address } @backends;

my $configuration = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream s {
        etcd_members /s/;
        %%GUARD%%
    }

    upstream plain {
        etcd_members /plain/;
    }

    upstream dry {
        etcd_members /dry;
        etcd_guard keep=75% dry_run;
    }

    upstream brief {
        etcd_members /brief/;
        etcd_guard keep=100% hold=5s;
    }

    upstream checked {
        etcd_members /checked/;
        etcd_guard keep=100%;
        etcd_check http interval=200ms timeout=200ms rises=1 fails=2;
    }

    upstream slowly {
        etcd_members /slowly/;
        etcd_guard keep=60% window=1s;
    }

    upstream steady {
        etcd_members /steady/;
        etcd_guard keep=50% window=1s;
    }

    upstream kept {
        etcd_members /kept/ on_empty=keep;
        etcd_guard keep=50% hold=2s;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /metrics {
            etcd_status prometheus;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            proxy_next_upstream off;
        }
    }
}

stream {
    upstream tcp {
        etcd_members /tcp/;
        etcd_guard keep=50%;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%%;
        proxy_pass tcp;
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)
    ->set(GUARD => 'etcd_guard keep=50%;')
    ->start($configuration);

my %upstream = map { $_ => Upstream->new($nginx, $_) }
    qw(s plain dry brief checked slowly steady kept);
$upstream{tcp} = Upstream->new($nginx, 'tcp', 'stream');


# registers the backends below /NAME/

sub register {
    my ($name, @who) = @_;

    $etcd->put("/$name/$_", $at{$_}) for @who;

    return;
}


sub members { $upstream{$_[0]}->states(%at) }


sub shows {
    my ($name, $wanted, $what) = @_;

    return becomes { members($name) } $wanted, $what;
}


sub used {
    my ($name) = @_;

    my $tally = $nginx->tally("/to/$name", 16);

    return join ' ', sort keys %$tally;
}


register($_, qw(a b c d)) for keys %upstream;
shows($_, 'a:up b:up c:up d:up', "the members of $_") for sort keys %upstream;

# A single member may go.

$etcd->del('/s/d');
shows('s', 'a:up b:up c:up', 'one goes');

# A mass delete: as many members go as may.

$etcd->del_prefix('/s/');
$etcd->del_prefix('/plain/');
shows('plain', '', 'no guard without the directive: deletes are believed');

wait_for { members('s') =~ /^\S+:held \S+:held$/ } 10, 'held members';
pass('half of those in the last minute stay');

my ($first, $second) = members('s') =~ /(\w):/g;

is(used('s'), "$first $second", 'they are used');

my $status = $upstream{s}->status;

is($status->{holds}, 2, 'the status counts them');
cmp_ok($status->{held_for}, '>', 590, 'and how long they are held');
cmp_ok($status->{held_for}, '<=', 600, 'for ten minutes');
ok(!exists $status->{would_hold}, 'no dry run');

like($nginx->get('/metrics')->{body},
     qr/^nginx_etcd_upstream_members\{[^}]*upstream="s",state="held"\}\ 2$
        .*
        ^nginx_etcd_upstream_holds_total\{[^}]*upstream="s"\}\ 2$/mxs,
     'the metrics, too');

wait_for { $nginx->count_log(qr/upstream "s": 2 keys .* are held/) } 10,
    'the log line';
$nginx->logs(qr/upstream "s": .* held/, 1, 'one line for all');
like($nginx->error_log,
     qr{"s":\ 2\ keys\ of\ prefix\ "/s/"\ are\ gone,
        \ too\ large\ a\ share\ to\ be\ believed:
        \ their\ members\ are\ held\ for\ 600s;
        \ the\ key\ "\.release"\ below\ the\ prefix\ releases\ them}x,
     'it says what, why, and what to do');

# A member is registered again, by its key or by another one.

$etcd->put("/s/$first", $at{$first});
$etcd->put('/s/other', $at{$second});
shows('s', "$first:up $second:up", 'registered again, also by another key');
is($upstream{s}->member($at{$second})->{key}, '/s/other', 'the other key');

# The operator releases the key of the member that is still held.

$etcd->del_prefix('/s/');
wait_for { members('s') =~ /held/ } 10, 'held again';
$etcd->put('/s/.release', '');
shows('s', '', 'released by an operator');
is_deeply($upstream{s}->invalid, {}, 'the key ".release" is no member');
$nginx->logs(
    qr{"s":\ \d\ keys\ of\ prefix\ "/s/"\ are\ not\ held\ any\ more:
       \ the\ key\ ".release"\ was\ written}x, 1, 'reported');

# A key of the operator that was left there does not release later members.

register('s', qw(a b c d));
shows('s', 'a:up b:up c:up d:up', 'registered again');
$etcd->del($_) for map { "/s/$_" } qw(a b c d);
wait_for { members('s') =~ /^\S+:held \S+:held$/ } 10, 'held';

my $held = members('s');

pass('held beside a former key ".release"');
$nginx->kill_worker($nginx->status->{agent}{pid});
wait_for { ($nginx->status // {})->{agent} } 10, 'the next agent';
shows('s', $held, 'another agent');
is(used('s'), join(' ', $held =~ /(\w):/g), 'they are used');

# A reload keeps held members; without the guard all go.

$nginx->reload();
shows('s', $held, 'after a reload');
cmp_ok($upstream{s}->status->{held_for}, '<=', 600, 'with the time left');
$nginx->set(GUARD => 'etcd_guard off;')->reload($configuration);
shows('s', '', 'a reload without the guard releases them');

# a dry run

$etcd->del_prefix('/dry/');
shows('dry', '', 'a dry run holds nothing');
is($upstream{dry}->status->{would_hold}, 3, 'but counts');
is($upstream{dry}->status->{holds}, 0, 'as what was not held');
wait_for { $nginx->count_log(qr/upstream "dry": 3 keys .* would be held/) } 10,
    'the log line';
pass('and says so');

# leases that expire together; the end of the time

my @leases = map { $etcd->grant(60) } qw(a b);

$etcd->put("/brief/$_", $at{$_}, lease => shift @leases) for qw(a b);
$etcd->del("/brief/$_") for qw(c d);

wait_for { members('brief') eq 'a:up b:up c:held d:held' } 10, 'deleted';
$etcd->revoke($_) for $etcd->leases;
wait_for { members('brief') =~ /a:held/ } 10, 'expired';
wait_for { members('brief') eq '' } 20, 'the end of the time';
pass('the time is over');
$nginx->logs(qr/"brief": \d keys .* the time to hold them is over/, 1,
             'reported');
$nginx->logs(qr/"brief": 4 keys .* over \(4 members\)/, 1, 'with what went');
ok(!exists $upstream{brief}->status->{held_for}, 'nothing is held');

# By now more than a window has passed without a change.

$etcd->del_prefix('/steady/');
wait_for { members('steady') =~ /^\S+:held \S+:held$/ } 10, 'held members';
pass('members that were there for longer than the window are counted');

# A member that fails is not held, unless all fail.

$etcd->del_prefix('/checked/');
shows('checked', 'a:held b:held c:held d:held', 'all of them');
$backends[0]->down;
shows('checked', 'b:held c:held d:held', 'one that fails its checks goes');
$backends[0]->up;

$etcd->del_prefix('/tcp/');
shows('tcp', 'a:held b:held', 'in stream');
$backends[0]->down;
wait_for {
    Http->new($nginx->port('PORT_TCP'))->get('/');
    members('tcp') eq 'b:held';
} 20, 'the member that fails to go';
pass('a member that has failed (max_fails) goes');

$backends[1]->down;
Http->new($nginx->port('PORT_TCP'))->get('/') for 1 .. 4;
is(members('tcp'), 'b:held', 'the last one stays though it fails');
$etcd->put('/tcp/c', $at{c});
wait_for {
    Http->new($nginx->port('PORT_TCP'))->get('/');
    members('tcp') eq 'c:up';
} 20, 'only the registered one';
pass('it goes when there is another one');
$_->up for @backends[0, 1];

# Two of three members may go, but not two of four: members of before the window
# do not count.

$etcd->del('/slowly/d');
shows('slowly', 'a:up b:up c:up', 'one of four goes');
$etcd->del('/slowly/c');
wait_for {
    if (members('slowly') eq 'a:up b:up c:held') {
        register('slowly', 'c');
        shows('slowly', 'a:up b:up c:up', 'held, and registered again');
        $etcd->del('/slowly/c');
    }
    members('slowly') eq 'a:up b:up';
} 10, 'the window to pass';
pass('one of three goes after the window');

# on_empty=keep holds members after the guard.

$etcd->del_prefix('/kept/');
wait_for { members('kept') =~ /held/ } 10, 'held';
shows('kept', 'a:up b:up c:up d:up',
        'on_empty=keep: the last ones stay for good');
is(used('kept'), 'a b c d', 'and are used');

finish();
