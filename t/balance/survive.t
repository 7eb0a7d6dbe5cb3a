#!/usr/bin/perl

# Half of the members go wrong in one way or another, under load: with checks,
# requests stop failing, though none is tried again, while requests to the same
# members without checks go on failing; the agent is killed in the middle of
# that; and far more members hang than can be checked at a time.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Netns;

BEGIN { Netns::enter() }

use IO::Socket::INET;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Load;
use Nginx;
use Port;
use Upstream;
use Wait;

use constant {
    STRETCH => 200,             # requests without a failure
    HANGING => 150,             # more than a round of checks has room for
};

# Packets to addresses behind this link vanish, unless the addresses are here,
# too.

Netns::ip('link', 'add', 'hole', 'type', 'veth', 'peer', 'name', 'nowhere');
Netns::ip('addr', 'add', '10.9.0.1/24', 'dev', 'hole');
Netns::ip('link', 'set', 'hole', 'up');

my @holes = map { "10.9.0.1$_" } 1 .. 3;

sub holes { Netns::ip('addr', $_[0], "$_/32", 'dev', 'lo') for @holes }

holes('add');

# connections that nobody accepts

my $silent = IO::Socket::INET->new(LocalAddr => '0.0.0.0', Listen => 4096,
                                   LocalPort => free_port())
    or die "listen: $!\n";

my $etcd = Etcd->new()->start();
my @sick = Backend->start(map { "sick$_" } 1 .. 3);
my @sound = Backend->start(map { "sound$_" } 1 .. 3);
my @names = map { $_->{name} } @sick, @sound;

for my $prefix (qw(api plain)) {
    $etcd->put("/$prefix/$_->{name}", $_->address) for @sick, @sound;
}

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOC');

worker_processes 2;

events {
    worker_connections 256;
}

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_connect_timeout 300ms;
    proxy_read_timeout 300ms;
    proxy_next_upstream off;

    upstream api {
        etcd_members /api/ max_fails=0;
        etcd_check http uri=/health interval=200ms timeout=200ms mandatory;
    }

    upstream plain {
        etcd_members /plain/ max_fails=0;
    }

    upstream holes {
        etcd_members /holes/ max_fails=0;
        etcd_check http uri=/health interval=200ms timeout=200ms mandatory;
    }

    upstream holes_plain {
        etcd_members /holes/ max_fails=0;
    }

    upstream many {
        etcd_members /many/ max_fails=0;
        etcd_check http uri=/health interval=300ms timeout=300ms panic=0;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /api         { proxy_pass http://api; }
        location /plain       { proxy_pass http://plain; }
        location /holes       { proxy_pass http://holes; }
        location /holes_plain { proxy_pass http://holes_plain; }
        location /many        { proxy_pass http://many; }

        location /status {
            etcd_status;
        }
    }

    server {
        listen 10.9.0.11:%%PORT_HOLE%%;
        listen 10.9.0.12:%%PORT_HOLE%%;
        listen 10.9.0.13:%%PORT_HOLE%%;
        return 200 hole;
    }
}

EOC

my $hole = $nginx->port('PORT_HOLE');

$etcd->put("/holes/$_->{name}", $_->address) for @sound;
$etcd->put("/holes/$_", "$_:$hole") for @holes;


# a stretch of requests in which none fails

sub serves {
    my ($path) = @_;

    return !grep { /^\d+$/ } keys %{ $nginx->tally($path, STRETCH, 4) };
}

# true if one of a few requests fails

sub fails { return grep { /^\d+$/ } keys %{ $nginx->tally($_[0], 12, 4) } }

sub answering { join(' ', sort keys %{ $nginx->tally($_[0], 48, 4) }) }

sub agent { $nginx->status->{agent}{pid} }

sub members {
    my ($upstream, $state) = @_;

    return grep { $_->{state} eq $state }
        @{ Upstream->new($nginx, $upstream)->status->{members} // [] };
}


# Makes a fault, and ends it, under load; tests the answers meanwhile.

sub survive {
    my ($name, $path, $who, $begin, $end) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $all = answering($path);
    my $load = Load->start($nginx->port, path => $path, pause => 0.01);

    $begin->();
    ok(wait_for(sub { serves($path) }, 30), "$name: requests fail no more");
    is(answering($path), $who, "$name: those that work answer");

    my $plain = $path eq '/holes' ? '/holes_plain' : '/plain';

    ok(fails($plain), "$name: without checks they do fail");

    $end->();
    ok(wait_for(sub { answering($path) eq $all }, 30), "$name: all are back");
    ok(wait_for(sub { !fails($plain) }, 30), "$name: it is over");

    my $seen = $load->results();

    note("$name: $seen->{requests} requests, ", scalar(@{ $seen->{failed} }),
         ' failed');
}


wait_for { answering($_) eq join(' ', @names) } 20, 'members'
    for qw(/api /plain);
wait_for { answering('/holes') eq 'hole sound1 sound2 sound3' } 20, 'members';

my $sound = 'sound1 sound2 sound3';

survive('black-holed', '/holes', $sound, sub { holes('del') },
        sub { holes('add') });

my @ways = (
    ['500', status => 500, 200],
    ['an answer after 10 s', delay => 10, 0],
    ['reset', abort => 1, 0],
    ['no answer', hang => 1, 0],
);

for my $way (@ways) {
    my ($name, $what, $bad, $good) = @$way;

    survive($name, '/api', $sound, sub { $_->set($what => $bad) for @sick },
            sub { $_->set($what => $good) for @sick });
}

# The agent is killed again and again, while it waits for checks.

sub kill_agents {
    $_->set(hang => 1) for @sick;

    for (1 .. 3) {
        my $agent = agent();

        wait_for { grep { $_->counts->{open} } @sick } 20, 'checks under way';
        $nginx->kill_worker($agent);
        wait_for { my $pid = agent(); $pid && $pid != $agent } 20,
            'another agent';
    }
}

survive('the agent is killed', '/api', $sound, \&kill_agents,
        sub { $_->set(hang => 0) for @sick });

# Few checks run at a time, and most of them take all their time.

my @many = map { [put => sprintf('/many/%03d', $_), "127.1.0.$_:"
                                                   . $silent->sockport] }
           1 .. HANGING;

$etcd->txn(splice(@many, 0, 50)) while @many;
$etcd->put("/many/$_->{name}", $_->address) for @sound;

ok(wait_for(sub { members('many', 'unhealthy') == HANGING }, 60),
   'many members hang, and all have failed');
ok(wait_for(sub { serves('/many') }, 30), 'requests to the others do not fail');
is(answering('/many'), $sound, 'they answer');

$sound[0]->set(status => 500);
ok(wait_for(sub { answering('/many') eq 'sound2 sound3' }, 60),
   'the others are still checked');

$sound[0]->set(status => 200);
ok(wait_for(sub { answering('/many') eq $sound }, 60), 'and again');

finish();
