#!/usr/bin/perl

# A listener for many PostgreSQL clusters of Patroni: the name that the client
# sends, or the port, chooses the cluster.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Line;
use Nginx;
use Sni;
use Wait;

plan(skip_all => 'this nginx has no stream, or not all of it')
    if !Nginx::has(qw(stream stream_ssl_preread_module));

my $etcd = Etcd->new()->start();

my %pg = map { $_->name => $_ } Line->start(qw(pg1 pg2 pg3));
my %api = map { $_->name => $_ } Backend->start(qw(pg1 pg2 pg3));

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOC');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

stream {
    log_format set "$server_port $etcd_set $status";
    access_log %%DIR%%/stream.log set;

    map $ssl_preread_server_name $tenant {
        ~^(?<name>[a-z0-9]+)\.db\.test$  $name;
    }

    map $server_port $numbered {
        %%PORT_a%%  a;
        %%PORT_b%%  b;
    }

    upstream primary {
        etcd_leader /service/$tenant format=patroni on_change=close;
    }

    upstream replicas {
        etcd_leader /service/$tenant/ format=patroni role=replica;
    }

    upstream sure {
        etcd_leader /service/$numbered format=patroni confirm=api;
    }

    upstream safe {
        etcd_leader /service/$tenant format=patroni failsafe=on max_stale=1s;
    }

    upstream stale {
        etcd_leader /service/$tenant format=patroni max_stale=1s;
    }

    server {
        listen 127.0.0.1:%%PORT_primary%%;
        ssl_preread on;
        proxy_pass primary;
    }

    server {
        listen 127.0.0.1:%%PORT_replicas%%;
        ssl_preread on;
        proxy_pass replicas;
    }

    server {
        listen 127.0.0.1:%%PORT_safe%%;
        ssl_preread on;
        proxy_pass safe;
    }

    server {
        listen 127.0.0.1:%%PORT_stale%%;
        ssl_preread on;
        proxy_pass stale;
    }

    server {
        listen 127.0.0.1:%%PORT_a%%;
        listen 127.0.0.1:%%PORT_b%%;
        etcd_wait sure 60s;
        proxy_pass sure;
    }
}

EOC


# a member as Patroni writes it

sub put {
    my ($tenant, $name) = @_;

    return $etcd->put("/service/$tenant/members/$name", encode_json({
        conn_url => 'postgres://' . $pg{$name}->address . '/postgres',
        api_url  => 'http://' . $api{$name}->address . '/patroni',
        state    => 'running',
        role     => 'replica',
    }));
}


sub lead { $etcd->put("/service/$_[0]/leader", $_[1]) }


# the backend of a tenant; '' without one

sub who {
    my ($port, $tenant) = @_;

    return Sni::who($nginx->port("PORT_$port"), "$tenant.db.test") // '';
}


sub goes {
    my ($port, $tenant, $to, $name) = @_;

    ok((wait_for { who($port, $tenant) eq $to } 20, "$tenant goes to '$to'"),
       $name);
}


$api{$_}->set(status => 503) for keys %api;

is(who('primary', 'a'), '', 'a tenant without keys: the session is closed');

# Before the keys are read, that is the reason.

ok((wait_for {
    who('primary', 'a') eq ''
        && $nginx->error_log =~ /no such set in upstream "primary"/
} 20, 'the reason'), 'and it is logged why');

for my $tenant (qw(a b)) {
    put($tenant, $_) for qw(pg1 pg2);
    $etcd->put("/service/$tenant/$_", '{}') for qw(config history status);
}

$etcd->put('/service/noise/history', '[]');

goes('replicas', 'a', 'pg1', 'without a leader, each member is a replica');
is(who('primary', 'a'), '', 'and nobody leads');

lead('a', 'pg1');
lead('b', 'pg2');
goes('primary', 'a', 'pg1', 'the leader of one tenant');
goes('primary', 'b', 'pg2', 'and of another');
goes('replicas', 'a', 'pg2', 'the replica of one');
goes('replicas', 'b', 'pg1', 'and of the other');
is(who('primary', 'noise'), '', 'other keys make no tenant');


# A session is closed when the leader of its tenant changes.

my %session = map { $_ => Sni->new($nginx->port('PORT_primary'), "$_.db.test") }
    qw(a b);

is($session{a}->who, 'pg1', 'a session of one tenant');
is($session{b}->who, 'pg2', 'a session of another');

lead('a', 'pg2');
ok($session{a}->is_closed(20), 'its leader changes: closed');
is($session{b}->ask('still'), 'pg2: still', 'that of another tenant stays');
goes('primary', 'a', 'pg2', 'the next one goes to the new leader');

my @sessions = map { Sni->new($nginx->port('PORT_primary'), 'a.db.test') }
    1 .. 20;
is(scalar(grep { $_->who eq 'pg2' } @sessions), 20, 'sessions of the new one');

# A worker that sleeps learns of a closed session when the set is gone.

my $agent = $nginx->status->{agent}{pid};
my $lines = $nginx->count_log(qr/no such set in upstream "primary"/);
my @asleep = grep { $_ != $agent } $nginx->workers;

$nginx->freeze($_) for @asleep;
$etcd->del_prefix('/service/a/');
ok((wait_for {
        Sni->new($nginx->port('PORT_primary'), 'a.db.test');
        $nginx->count_log(qr/no such set in upstream "primary"/) > $lines;
    } 20, 'the end of the tenant'), 'all keys of the tenant go');
$nginx->thaw($_) for @asleep;

is(scalar(grep { $_->is_closed(20) } @sessions), 20, 'its sessions are closed');
is($session{b}->ask('still'), 'pg2: still', 'that of another tenant stays');


# confirm=api, by port: no API is asked for a tenant that nobody uses.

put('a', $_) for qw(pg1 pg2);
lead('a', 'pg1');
goes('primary', 'a', 'pg1', 'the tenant is back');

$_->reset for values %api;

my $client = Line::Client->new($nginx->port('PORT_b'));
$client->tell('hello');
ok((wait_for { $api{pg2}->requests >= 3 } 20, 'requests'),
   'the API of the leader of a tenant in use is asked');
is($api{pg1}->requests, 0, 'and no API of one that is not in use');

$api{pg2}->set(status => 200);
is($client->hear(20), 'pg2: hello', 'confirmed: the session goes on');

$_->reset for values %api;
is(Line::Client->new($nginx->port('PORT_b'))->ask('more'), 'pg2: more',
   'the next session');
is($api{pg2}->requests, 0, 'asks for nothing');

$api{pg1}->set(status => 200);
is(Line::Client->new($nginx->port('PORT_a'))->ask('first'), 'pg1: first',
   'the first session of another tenant waits for the confirmation');
ok($api{pg1}->requests > 0, 'which its API gave');


# etcd is away: a leader that nobody proves is not used, unless the APIs confirm
# it.

for my $tenant (qw(a b)) {
    $etcd->put("/service/$tenant/failsafe", encode_json({
        map { $_ => 'http://' . $api{$_}->address . '/patroni' } qw(pg1 pg2)
    }));
}

goes('safe', 'a', 'pg1', 'failsafe=on');
goes('stale', 'a', 'pg1', 'max_stale');
$api{pg1}->set(status => 200, body => '{"state":"running","role":"primary"}');
$api{pg2}->set(status => 503);
$etcd->stop;

goes('stale', 'a', '', 'etcd is away: the leader is not used any more');
goes('safe', 'a', 'pg1', 'unless its API confirms it');
ok((wait_for { $nginx->error_log =~ /"safe": no proof.*stays in use/ } 20,
    'the report'), 'which is logged');
goes('safe', 'a', 'pg1', 'it stays in use');
$nginx->logs(qr/"safe": no proof.*stays in use/, 1,
             'nobody is asked for a tenant that is not in use');

$etcd->start;
goes('stale', 'a', 'pg1', 'etcd is back');

ok((grep { /\d a 200$/ } $nginx->lines_of('stream.log')),
   '$etcd_set in stream');


finish();
