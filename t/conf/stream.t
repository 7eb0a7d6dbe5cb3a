#!/usr/bin/perl

# TCP through stream: the same members, balancing and rules as for http.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Line;
use Nginx;
use Tls;
use Upstream;
use Wait;

plan(skip_all => 'this nginx has no stream, or not all of it')
    if !Nginx::has(qw(stream stream_ssl_module stream_ssl_preread_module));

my $etcd = Etcd->new()->start();
my @backends = Line->start(qw(a b c));
my %backend = map { $_->name => $_ } @backends;
my %at = map { $_->name => $_->address } @backends;
my ($web) = Backend->start('web');

my %balance = (
    (map { $_ => $_ } qw(round_robin least_conn random ewma)),
    hash    => 'hash $remote_port',
    ring    => 'hash $remote_port consistent',
    one     => 'hash $server_addr consistent',
    empty   => 'hash $proxy_protocol_addr',
    nothing => 'hash $proxy_protocol_addr consistent',
);
my @methods = sort keys %balance;
my $methods = join("\n", map { <<"END" } @methods);
    upstream $_ {
        etcd_members /$_/;
        etcd_balance $balance{$_};
    }

    server {
        listen 127.0.0.1:%%PORT_$_%% reuseport;
        proxy_pass $_;
    }
END

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream db {
        etcd_members /web/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://db;
        }

        location /status {
            etcd_status;
        }
    }
}

stream {
    log_format etcd "$status $etcd_member_key $etcd_member_revision "
                    "$etcd_revision $etcd_staleness";
    log_format peer "$pid $upstream_addr";

    proxy_timeout 60s;

    upstream db {
        etcd_members /db/;
    }

    upstream static {
        zone static 64k;
        server %%A%% weight=3;
        etcd_members /static/;
        server %%B%% down;
        server %%C%% backup;
    }

    upstream allow {
        etcd_members /allow/;
        etcd_allow 127.0.0.0/8;
    }

    upstream fails {
        etcd_members /fails/ max_fails=2 fail_timeout=60s;
    }

    upstream recovers {
        etcd_members /recovers/ fail_timeout=1s;
    }

    server {
        listen 127.0.0.1:%%PORT_recovers%%;
        proxy_pass recovers;
    }

    upstream conns {
        etcd_members /conns/ max_conns=1;
    }

    upstream secure {
        etcd_members /secure/;
    }

    server {
        listen 127.0.0.1:%%PORT_secure%%;
        proxy_ssl on;
        proxy_ssl_session_reuse on;
        proxy_pass secure;
    }

    server {
        listen 127.0.0.1:%%PORT_ssl%% ssl;
        ssl_certificate %%DIR%%/server.crt;
        ssl_certificate_key %%DIR%%/server.key;
        ssl_protocols TLSv1.2;
        return "$ssl_session_reused\n";
    }

    METHODS

    server {
        listen 127.0.0.1:%%PORT_db%%;
        access_log %%DIR%%/db.log peer;
        proxy_pass db;
    }

    server {
        listen 127.0.0.1:%%PORT_static%%;
        proxy_pass static;
    }

    server {
        listen 127.0.0.1:%%PORT_fails%%;
        proxy_pass fails;
    }

    server {
        listen 127.0.0.1:%%PORT_off%%;
        proxy_pass fails;
        proxy_next_upstream off;
    }

    server {
        listen 127.0.0.1:%%PORT_conns%%;
        proxy_pass conns;
    }

    map $server_port $picked {
        default db;
    }

    server {
        listen 127.0.0.1:%%PORT_variable%%;
        proxy_pass $picked;
    }

    server {
        listen 127.0.0.1:%%PORT_logged%%;
        access_log %%DIR%%/stream.log etcd;
        proxy_pass db;
    }

    server {
        listen 127.0.0.1:%%PORT_none%%;
        return "$etcd_member_key:$etcd_revision\n";
    }
}

END

$config =~ s/ *METHODS\n/$methods/;

my $nginx = Nginx->new(etcd => $etcd)->set(
    A => $at{a},
    B => $at{b},
    C => $at{c},
);

Tls->new('ca')->issue('server', san => 'IP:127.0.0.1')
    ->install($nginx->dir, 'server');

$nginx->start($config);


sub tally { return Line::Client::tally($nginx->port("PORT_$_[0]"), $_[1]) }


# Sets the members of an upstream: the name of each backend, and the rest of its
# JSON.

sub set {
    my ($name, %members) = @_;

    my @puts = map {
        [put => "/$name/$_", '{"address":"' . $at{$_} . '"'
                             . ($members{$_} && ",$members{$_}") . '}']
    } sort keys %members;

    my @gone = map { [del => "/$name/$_"] }
        grep { !exists $members{$_} } qw(a b c);

    $nginx->stream($name)->sees($etcd->txn(@puts, @gone));
}


# Open sessions of a member: closed ones are counted until nginx notices.

sub has_sessions {
    my ($name, $backend, $n, $test) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $conns = sub { $nginx->stream($name)->member($at{$backend})->{conns} };

    wait_for { $conns->() == $n } 10, "$backend of $name: $n sessions";

    return is($conns->(), $n, $test);
}


# All sessions of an upstream are over.

sub idle {
    my ($name) = @_;

    return wait_for {
        !grep { $_->{conns} } @{ $nginx->stream($name)->status->{members} }
    } 10, "$name without sessions";
}


# Workers take turns by themselves, and nobody knows how many connections each
# of them takes: in each worker no member is a whole turn away from its share.

sub holds_weights {
    my (%weights) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $n = 12;
    my $sum = 0;
    my $before = my @before = $nginx->lines_of('db.log');

    $sum += $_ for values %weights;
    is(tally('db', $n)->{''} // 0, 0, 'all are answered');

    wait_for { (my @lines = $nginx->lines_of('db.log')) >= $before + $n } 10,
        'the log';

    my @lines = $nginx->lines_of('db.log');
    my %picks;

    for (@lines[$before .. $#lines]) {
        my ($pid, $address) = split;

        $picks{$pid}{$address}++;
        $picks{$pid}{all}++;
    }

    for my $picks (values %picks) {
        for my $name (sort keys %weights) {
            my $share = $picks->{all} * $weights{$name} / $sum;

            cmp_ok(abs(($picks->{ $at{$name} } // 0) - $share), '<', 1,
                   "weights hold: $name");
        }
    }
}


# Members come and go.

is(tally('db', 1)->{''}, 1, 'no member: the connection is closed');
$nginx->logs(qr/no live upstreams.* upstream: "db"/, 1,
             'and the log names the upstream');

my $db = $nginx->stream('db');

set(db => a => '');
is_deeply($db->members, { '/db/a' => "$at{a} 1 up" }, 'a member');
is($nginx->line('db')->ask('hello'), 'a: hello', 'answers');
is($nginx->line('variable')->ask('hello'), 'a: hello',
   'through a variable, too');

set(db => a => '"weight":2', b => '');
holds_weights(a => 2, b => 1);

$etcd->put('/web/1', $web->address);
Upstream->new($nginx, 'db')->shows(
    { '/web/1' => $web->address . ' 1 up' },
    'an upstream of http with the same name is another one');
is_deeply($db->members,
          { '/db/a' => "$at{a} 2 up", '/db/b' => "$at{b} 1 up" },
          'and changes nothing here');
is($nginx->get('/')->{body}, 'web', 'it answers');

# A session stays with its member.

my $session = $nginx->line('db');
my ($held) = $session->ask('hello') =~ /^(\w):/;
my ($other) = grep { $_ ne $held } qw(a b);

has_sessions('db', $held, 1, 'a session is counted');

set(db => $other => '');
is_deeply(tally('db', 4), { $other => 4 }, 'its member goes: others take over');
is($session->ask('more'), "$held: more", 'the session goes on');

set(db => a => '', b => '');
$session->close;

$session = $nginx->line('db');
($held) = $session->ask('hello') =~ /^(\w):/;
($other) = grep { $_ ne $held } qw(a b);
set(db => $held => '"drain":true', $other => '');
is_deeply(tally('db', 4), { $other => 4 }, 'it is drained: others take over');
is($session->ask('more'), "$held: more", 'the session goes on, too');
has_sessions('db', $held, 1, 'and is counted still');

# A session survives a reload, but not the end of its worker.

ok($nginx->reload(), 'a reload');
is_deeply(tally('db', 4), { $other => 4 }, 'members stay');
is($session->ask('again'), "$held: again", 'the session goes on');
has_sessions('db', $held, 1, 'and is counted');

$session->close;
has_sessions('db', $held, 0, 'until its end');
ok((wait_for { !$nginx->leaving } 10, 'the old worker'), 'with it its worker');

# variables

my $log;

wait_for {
    $nginx->status->{clusters}{default}{staleness_ms} >= 0
} 10, 'a proof of freshness';
tally('logged', 1);
wait_for { ($log) = $nginx->lines_of('stream.log') } 10, 'the log';

my ($status, $key, $created, $revision, $staleness) = split(' ', $log);

is("$status $key", "200 /db/$other", '$etcd_member_key');
is($created, ($etcd->list("/db/$other"))[0]{create_revision},
   '$etcd_member_revision');
is($revision, $db->status->{revision}, '$etcd_revision');
like($staleness, qr/^\d+\.\d{3}$/, '$etcd_staleness');

like($nginx->line('none')->hear(), qr/^:\d+$/, 'without an upstream of ours');

# static servers

my $static = $nginx->stream('static');

is_deeply($static->members, { $at{a} => "$at{a} 3 up",
                              $at{b} => "$at{b} 1 down",
                              $at{c} => "$at{c} 1 backup" },
          'static servers');
is_deeply(tally('static', 4), { a => 4 }, 'answer');
$backend{a}->down;
is_deeply(tally('static', 2), { c => 2 }, 'or the backup, if need be');
set(static => b => '');
is_deeply([sort keys %{ tally('static', 4) }], ['b'],
          'a key with the address of a server goes before it');
$backend{a}->up;

# etcd_allow

$etcd->txn([put => '/allow/in', '127.0.0.9:80'],
           [put => '/allow/out', '10.0.0.1:80']);
$nginx->stream('allow')->shows({ '/allow/in' => '127.0.0.9:80 1 up' },
                               'etcd_allow');
$nginx->stream('allow')->reports(
    { '/allow/out' => 'address "10.0.0.1:80" is not allowed by etcd_allow' },
    'others are reported');

# methods

for my $method (@methods) {
    set($method => a => '', b => '', c => '');

    my @asked = sort keys %{ tally($method, 60) };

    if ($method eq 'one') {
        is(@asked, 1, 'hash of what is always the same: one is asked');
        next;
    }

    is("@asked", 'a b c', "$method: all are asked");

    set($method => a => '"down":true', b => '"drain":true', c => '"down":true');
    is_deeply(tally($method, 2), { '' => 2 }, "$method: nobody can be asked");
    set($method => a => '', b => '', c => '');
}

idle('least_conn');

my @open = map {
    my $client = $nginx->line('least_conn');
    $client->ask('x');
    $client;
} 1 .. 6;

is_deeply([map { $nginx->stream('least_conn')->member($at{$_})->{conns} }
           qw(a b c)],
          [2, 2, 2], 'least_conn: sessions of all workers are counted');
$_->close for @open;

# TLS to members: their TLS sessions are kept.

$nginx->stream('secure')->sees(
    $etcd->put('/secure/1', '127.0.0.1:' . $nginx->port('PORT_ssl')));

my @reused = map { $nginx->line('secure')->hear() // '' } 1 .. 8;

is((grep { $_ eq '.' } @reused) + (grep { $_ eq 'r' } @reused), 8,
   'TLS to a member');
cmp_ok(scalar(grep { $_ eq 'r' } @reused), '>=', 6, 'sessions are reused');

# Failures: the next member is asked, and all workers know.

set(fails => a => '', b => '');
$backend{a}->down;
is_deeply(tally('fails', 10), { b => 10 }, 'a member that is down: none fails');
is($nginx->stream('fails')->member($at{a})->{fails}, 2, 'it was tried twice');
$nginx->logs(qr/upstream "fails": member \Q$at{a}\E .*disabled/, 1,
             'the log says so');
is_deeply(tally('off', 4), { b => 4 }, 'then nobody tries it');
$backend{a}->up;

set(fails => b => '');
set(fails => a => '', b => '');
is($nginx->stream('fails')->member($at{a})->{fails}, 0, 'it comes anew');
$backend{a}->down;
is(tally('off', 8)->{''}, 2, 'proxy_next_upstream off: two fail');
$backend{a}->up;

# A member that works again is known by the connection, not by its end.

set(recovers => a => '', b => '');
$backend{a}->down;
is_deeply(tally('recovers', 4), { b => 4 }, 'a member is down');
cmp_ok($nginx->stream('recovers')->member($at{a})->{fails}, '>=', 1,
       'it has failed, and more often if that took long');
$backend{a}->up;

wait_for {
    $session = $nginx->line('recovers');
    ($session->ask('hello') // '') eq 'a: hello'
} 10, 'the member to be tried again';

has_sessions('recovers', 'a', 1, 'a session to it is open');
is($nginx->stream('recovers')->member($at{a})->{fails}, 0,
   'it has no failures then');
$session->close;

# max_conns

set(conns => a => '', b => '');
@open = map {
    my $client = $nginx->line('conns');
    $client->ask('x');
    $client;
} 1, 2;
is(tally('conns', 1)->{''}, 1, 'max_conns: both members are full');
$_->close for @open;

# Of three sessions, one worker at least takes two.

my %asked;

for (1 .. 3) {
    idle('conns');
    $asked{$_}++ for keys %{ tally('conns', 1) };
}

is(join(' ', sort keys %asked), 'a b', 'then they are not');

# nginx ends: nothing is left.

ok($nginx->quit, 'nginx ends');

finish();
