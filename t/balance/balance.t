#!/usr/bin/perl

# The choice of members: by each method, when members fail or are full, and when
# a request is passed on.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    FAIL_TIMEOUT => 8,                  # requests take far less
    WORKERS      => 4,
    RANDOM       => 3000,

    # Chi-square of a right distribution is above this less than once in 10^6
    # (two degrees of freedom).
    CHI_SQUARE   => 27.63,
};

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d e f));
my %backend = map { $_->name => $_ } @backends;
my %at = map { $_->name => $_->address } @backends;

my @methods = qw(round_robin least_conn random);
my $upstreams = join("\n", map { <<"END" } @methods);
    upstream $_ {
        etcd_members /$_/ max_fails=0;
        etcd_balance $_;
    }
END

my $config = <<'END';

worker_processes WORKERS;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_next_upstream error timeout http_500;
    keepalive_requests 100000;

    UPSTREAMS

    upstream backup {
        etcd_members /backup/;
    }

    upstream conns {
        etcd_members /conns/ max_conns=2;
    }

    upstream fails {
        etcd_members /fails/ max_fails=3 fail_timeout=FAIL_TIMEOUT;
    }

    upstream alone {
        etcd_members /alone/;
    }

    upstream kept {
        etcd_members /kept/;
        keepalive 4;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        add_header X-Worker $pid always;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }

        location ~ ^/once/(.*)$ {
            proxy_pass http://$1;
            proxy_next_upstream off;
        }

        location ~ ^/keep/(.*)$ {
            proxy_pass http://$1;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}

END

$config =~ s/UPSTREAMS/$upstreams/;
$config =~ s/FAIL_TIMEOUT/FAIL_TIMEOUT/e;

my $single = Nginx->new(etcd => $etcd)->start($config =~ s/WORKERS/1/r);
my $nginx = Nginx->new(etcd => $etcd)->start($config =~ s/WORKERS/WORKERS/er);


sub json {
    my ($name, $rest) = @_;

    return "{\"address\":\"$at{$name}\",$rest}";
}


# NAME => fields of the member's value: replaces the members of an upstream, in
# both nginx.

sub set {
    my ($upstream, %members) = @_;

    $etcd->del_prefix("/$upstream/");
    $etcd->txn(map { [put => "/$upstream/$_", $members{$_}
                      ? json($_, $members{$_}) : $at{$_}] }
               sort keys %members);

    my $revision = $etcd->revision;

    for my $server ($single, $nginx) {
        wait_for {
            my $status = Upstream->new($server, $upstream)->status;
            $status->{revision} >= $revision - 1
                && keys %members == grep { $_->{mod_revision} >= $revision }
                                         @{ $status->{members} }
        } 10, "members of $upstream" or die "$upstream has no members\n";
    }

    for my $backend (@backends) {
        $backend->set(status => 200, hang => 0);
        $backend->reset;
    }
}


# N requests under way at the same time, each with its backend before the next
# one is sent

sub hang {
    my ($server, $path, $n, @names) = @_;

    my @clients;

    for my $i (1 .. $n) {
        my $client = $server->http;
        $client->send('GET', $path);
        push @clients, $client;

        wait_for { asked(@names) == $i } 10, "request $i" or last;
    }

    return @clients;
}


sub asked {
    my $sum = 0;

    $sum += $backend{$_}->requests for @_;

    return $sum;
}


sub counts { return join(' ', map { $_ . $backend{$_}->requests } @_) }


# the most turns by which a member was early or late

sub deviation {
    my ($weights, @order) = @_;

    my ($sum, $most) = (0, 0);
    my %turns = map { $_ => 0 } keys %$weights;

    $sum += $_ for values %$weights;

    for my $i (1 .. @order) {
        $turns{$order[$i - 1]}++;

        for (keys %turns) {
            my $early = abs($turns{$_} - $i * $weights->{$_} / $sum);
            $most = $early if $early > $most;
        }
    }

    return $most;
}


# smooth weighted round robin

set(round_robin => a => '"weight":5', b => '"weight":1', c => '"weight":1');

my @order = map { $single->get('/to/round_robin')->{body} } 1 .. 21;

like(join('', @order), qr/^([abc]{7})\1\1$/,
     'round_robin: weights of 5, 1 and 1 take turns');
cmp_ok(deviation({ a => 5, b => 1, c => 1 }, @order), '<', 1,
       'each is never more than one turn early or late');

$etcd->put('/round_robin/b', json('b', '"weight":5'));
Upstream->new($single, 'round_robin')->shows(
    { '/round_robin/a' => "$at{a} 5 up", '/round_robin/b' => "$at{b} 5 up",
      '/round_robin/c' => "$at{c} 1 up" }, 'one is re-weighted');
is_deeply($single->tally('/to/round_robin', 22), { a => 10, b => 10, c => 2 },
          'and asked more often from then on');

# the fewest connections for the weight

set(least_conn => a => '"weight":2', b => '"weight":1', c => '"weight":1');
$backend{$_}->set(hang => 1) for qw(a b c);

my @hanging = hang($single, '/to/least_conn', 8, qw(a b c));

is(counts(qw(a b c)), 'a4 b2 c2',
   'least_conn: requests under way are in proportion to weights');

$backend{b}->set(hang => 0);
wait_for {
    Upstream->new($single, 'least_conn')->member($at{b})->{conns} == 0
} 10, 'the answers of one';
is_deeply($single->tally('/to/least_conn', 2), { b => 2 },
          'least_conn: who is done is next');
$backend{$_}->set(hang => 0) for qw(a c);
is(scalar(grep { $_->receive->{status} == 200 } @hanging), 8, 'all answered');
@order = map { $single->get('/to/least_conn')->{body} } 1 .. 40;
cmp_ok(deviation({ a => 2, b => 1, c => 1 }, @order), '<', 2,
       'least_conn: round robin when all are idle');

# random

set(random => a => '"weight":1', b => '"weight":2', c => '"weight":5');

my %weights = (a => 1, b => 2, c => 5);
my $tally = $single->tally('/to/random', RANDOM);
my $chi_square = 0;

for (sort keys %weights) {
    my $expected = RANDOM * $weights{$_} / 8;
    $chi_square += (($tally->{$_} // 0) - $expected) ** 2 / $expected;
}

cmp_ok($chi_square, '<', CHI_SQUARE, 'random: as often as weights say')
    or diag(explain($tally));

set(random => a => '', b => '');
$backend{$_}->set(hang => 1) for qw(a b);
@hanging = hang($single, '/to/random', 2, qw(a b));
is(counts(qw(a b)), 'a1 b1',
   'random: of two the one with fewer connections');
$backend{$_}->set(hang => 0) for qw(a b);
is(scalar(grep { $_->receive->{status} == 200 } @hanging), 2, 'all answered');

# A request tries each member once.

for my $method (@methods) {
    set($method, map { $_ => '' } qw(a b c d e f));
    $_->set(status => 500) for @backends;

    is($single->get("/to/$method")->{status}, 500,
       "$method: all members fail");
    is(counts(qw(a b c d e f)), 'a1 b1 c1 d1 e1 f1',
       "$method: each was tried once");
}

set(round_robin => a => '"backup":false', b => '"backup":true');
$backend{a}->set(hang => 1);
@hanging = hang($single, '/to/round_robin', 1, 'a');
Upstream->new($single, 'round_robin')->sees(
    $etcd->put('/round_robin/a', json('a', '"weight":7')));
$backend{a}->set(status => 500, hang => 0);
is($hanging[0]->receive->{body}, 'b', 'a member changes while it is tried');
is(counts(qw(a b)), 'a1 b1', 'it is not tried again');

# backup

set(backup => a => '', b => '', c => '"backup":true');
is_deeply($single->tally('/to/backup', 6), { a => 3, b => 3 },
          'a backup is not asked');
$backend{$_}->set(status => 500) for qw(a b);
is($single->get('/to/backup')->{body}, 'c', 'before all others have failed');
$backend{$_}->reset for qw(a b c);
is_deeply($single->tally('/to/backup', 6), { c => 6 }, 'then for all requests');
is(counts(qw(a b)), 'a0 b0', 'and the others are left alone');

set(backup => a => '"down":true', b => '"drain":true', c => '"backup":true');
is_deeply($single->tally('/to/backup', 6), { c => 6 },
          'a backup, when no other takes requests');

set(backup => a => '"down":true', b => '"drain":true');
is($single->get('/to/backup')->{status}, 502, 'none takes requests');

# A single member is never unavailable.

set(alone => a => '');
$backend{a}->set(status => 500);
is_deeply($single->tally('/to/alone', 10), { 500 => 10 },
          'a lone member fails');
is($backend{a}->requests, 10, 'and is asked each time');

# kept connections

set(kept => a => '', b => '');
is_deeply($single->tally('/keep/kept', 20), { a => 10, b => 10 },
          'twenty requests');
is(join(' ', map { $backend{$_}->counts->{connections} } qw(a b)), '1 1',
   'over one connection to each member');

$backend{$_}->reset for qw(a b);
is_deeply($single->tally('/to/kept', 20), { a => 10, b => 10 },
          'twenty that are not to be kept');

# Since 1.29.7 connections are kept unless that is turned off; Angie keeps them,
# too.

is(join(' ', map { $backend{$_}->counts->{connections} } qw(a b)),
   Nginx::version() < 1029007 || Nginx::is_freenginx() ? '9 9' : '0 0',
   'over the two, and new ones from then on where nginx keeps none');

# a connection to each worker

my %client;

wait_for {
    my $client = $nginx->http;
    my $worker = $client->get('/status')->{headers}{'x-worker'};

    $client{$worker} //= $client if defined $worker;
    keys %client == WORKERS;
} 20, 'a connection to every worker';

my @clients = map { $client{$_} } sort keys %client;

is(scalar(@clients), WORKERS, 'a connection to every worker');


# the answers to N requests of each client

sub everywhere {
    my ($n, $path) = @_;

    my %got;

    for my $client (@clients) {
        $got{$client->get($path // '/to/fails')->{body}}++ for 1 .. $n;
    }

    return join(' ', map { "$_$got{$_}" } sort keys %got);
}


# max_conns

set(conns => a => '', b => '"max_conns":0');
$backend{$_}->set(hang => 1) for qw(a b);
@hanging = hang($nginx, '/once/conns', 12, qw(a b));
is(counts(qw(a b)), 'a2 b10', 'max_conns: no more than two at a time');

$backend{b}->set(hang => 0);
is(everywhere(4, '/once/conns'), 'b16', 'every worker finds that one is full');

$backend{a}->set(hang => 0);

my %workers = map { $_->receive->{headers}{'x-worker'} => 1 } @hanging;
cmp_ok(scalar(keys %workers), '>', 1, 'of several workers together');

for my $client (@clients) {
    ok(wait_for(sub { $client->get('/once/conns')->{body} eq 'a' }, 10, 'a'),
       'and when these are done it is asked again, by every worker');
}

set(conns => a => '', b => '"max_conns":1');
$backend{$_}->set(hang => 1) for qw(a b);
@hanging = hang($nginx, '/once/conns', 3, qw(a b));
is(counts(qw(a b)), 'a2 b1', 'max_conns: from the value and by default');
is($nginx->get('/once/conns')->{status}, 502, 'all are full');
$backend{$_}->set(hang => 0) for qw(a b);
is(scalar(grep { $_->receive->{status} == 200 } @hanging), 3, 'all answered');

# max_fails

set(fails => a => '', b => '"max_fails":0');
is(everywhere(4), 'a8 b8', 'each worker asks both');

my $fails = Upstream->new($nginx, 'fails');

$backend{a}->set(status => 500);
$backend{a}->reset;

# the time before the last failure

my $failed;

wait_for {
    $failed = time();
    everywhere(1);
    $backend{a}->requests >= 3;
} 10, 'three failures';

is($backend{a}->requests, 3, 'max_fails=3: three failures in all workers');
is($fails->member($at{a})->{fails}, 3, 'are counted');
is(everywhere(5), 'b20', 'then no worker asks it');
is($backend{a}->requests, 3, 'indeed');
$nginx->logs(qr/\[warn\].*upstream "fails": member \Q$at{a}\E .*disab/, 1,
             'the log says so once');

wait_for { everywhere(1); $backend{a}->requests > 3 } FAIL_TIMEOUT + 10,
    'another try';
cmp_ok(time() - $failed, '>=', FAIL_TIMEOUT, 'it is tried after fail_timeout');
is(everywhere(5), 'b20', 'which fails');
is($backend{a}->requests, 4, 'one request has tried for all workers');

$backend{a}->set(status => 200);
wait_for { everywhere(1) =~ /a/ } FAIL_TIMEOUT + 10, 'an answer';
is($fails->member($at{a})->{fails}, 0, 'an answer: no failures');
is(everywhere(4), 'a8 b8', 'each worker asks both again');

$backend{a}->down;
is(everywhere(8), 'b32', 'a member that refuses connections: none fails');
is($fails->member($at{a})->{fails}, 3, 'it was tried three times');

$backend{b}->set(status => 500);
$backend{b}->reset;
everywhere(5);
is($backend{b}->requests, 20, 'max_fails=0: it may fail any number of times');

finish();
