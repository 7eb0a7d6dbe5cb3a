#!/usr/bin/perl

# etcd_status as JSON: every field of its schema, and the methods it answers.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Nginx;
use Port;
use Upstream;
use Wait;

my $started = time();
my $etcd = Etcd->new()->start();
my $one = Backend->start('one');
my $nobody = '127.0.0.1:' . free_port();

my $nginx = Nginx->new(etcd => $etcd)->set(NOBODY => $nobody);

$nginx->start(<<'EOF');

etcd {
    endpoints %%ETCD%% http://%%NOBODY%%;
    ping_interval 5s;
    ping_timeout 30s;
}

etcd away {
    endpoints %%NOBODY%%;
    zone 512k;
}

http {
    upstream api {
        etcd_members /services/api/;
    }

    upstream away {
        etcd_members /services/away/ cluster=away;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /json {
            etcd_status json;
        }

        location /limited {
            etcd_status json;
            limit_except POST { allow 127.0.0.1; deny all; }
        }

        location /to {
            proxy_pass http://api;
        }
    }
}

EOF

my $api = Upstream->new($nginx, 'api');

# A request is counted until its worker has done with it, a little longer than
# it takes the client.

sub conns_are {
    my ($n) = @_;

    wait_for { $api->member($one->address)->{conns} == $n } 10, 'connections';

    return $api->member($one->address)->{conns} == $n;
}


# From here on nginx sees each change by itself.

wait_for {
    my $status = $nginx->status;
    my $cluster = $status && $status->{clusters}{default};

    $cluster && $cluster->{state} eq 'synced'
             && grep({ $_->{version} } @{ $cluster->{endpoints} });
} 10, 'the first list';

$etcd->put('/services/api/up', $one->address);
$etcd->put('/services/api/spare',
           '{"address":"127.0.0.1:1","weight":7,"backup":true}');
$etcd->put('/services/api/down', '{"address":"127.0.0.1:2","down":true}');
$api->sees($etcd->put('/services/api/drain',
                      '{"address":"127.0.0.1:3","weight":0}'));

my $bad = $etcd->put('/services/api/bad', 'hello');

$api->sees($bad);
$nginx->get('/to') for 1 .. 3;
conns_are(0);

my $status = $nginx->status;


# Takes a field out; no test expects the fields that are left at the end.

sub take {
    my ($object, $name) = @_;

    return delete $object->{$name};
}


sub is_empty {
    my ($object, $name) = @_;

    is(join(' ', sort keys %$object), '', "$name: no other fields");
}


# the top

my ($nginx_version) = Nginx::built_with() =~ m{nginx/(\S+)};
my $agent = take($status, 'agent');

like(take($status, 'version'), qr/^\d+\.\d+\.\d+$/, 'version');
is(take($status, 'nginx'), $nginx_version, 'nginx');
is(scalar(grep { $_ == $agent->{pid} } $nginx->workers), 1,
   'agent.pid is one of the workers');
take($agent, 'pid');
is(take($agent, 'epoch'), 1, 'agent.epoch');
is_empty($agent, 'agent');

# clusters

my $clusters = take($status, 'clusters');
my $default = take($clusters, 'default');
my $away = take($clusters, 'away');

is_empty($clusters, 'clusters');

my $header = $etcd->call('kv/range', { key => 'AA==' })->{header};

is(take($default, 'state'), 'synced', 'state');
is(take($default, 'endpoint'), $etcd->url, 'endpoint');

my $endpoints = take($default, 'endpoints');

is_deeply($endpoints->[0], { url => $etcd->url, state => 'connected',
                             version => $etcd->version },
          'endpoints: the one in use');
is(take($endpoints->[1], 'url'), "http://$nobody", 'endpoints: the other');
like(take($endpoints->[1], 'state'), qr/^(?:unused|failed)$/,
     'which may have been tried first');
delete @{ $endpoints->[1] }{qw(error failing_for)};   # of such an attempt
is_empty($endpoints->[1], 'an endpoint');
is(take($default, 'cluster_id'), sprintf('%x', $header->{cluster_id}),
   'cluster_id');
is(take($default, 'revision'), $bad, 'revision');
like($default->{staleness_ms}, qr/^\d+$/, 'staleness_ms');
cmp_ok(take($default, 'staleness_ms'), '<', 1000 * (time() - $started),
       'which is not long');
is(take($default, $_), 0, $_) for qw(reconnects resyncs repairs);
is_empty($default, 'a cluster');

is($away->{state}, 'connecting', 'away: state');
is($away->{endpoint}, $nobody, 'away: the endpoint that is tried');
is_deeply([map { $_->{url} } @{ $away->{endpoints} }], [$nobody],
          'away: endpoints');
like($away->{reason}, qr/^endpoint \Q$nobody\E: connect\(\) failed/,
     'away: the endpoint has failed');
is($away->{revision}, 0, 'away: revision');
is($away->{staleness_ms}, -1, 'away: staleness_ms of what was never read');
is(join(' ', sort keys %$away), 'cluster_id endpoint endpoints reason '
   . 'reconnects repairs resyncs revision staleness_ms state',
   'away: the same fields');

# upstreams

my $upstreams = take($status, 'upstreams');
my $upstream = take($upstreams, 'api');
my $other = take($upstreams, 'away');

is_empty($upstreams, 'upstreams');
is_deeply(take($status, 'stream_upstreams'), {}, 'stream_upstreams');

is(take($upstream, 'cluster'), 'default', 'cluster');
is(take($upstream, 'prefix'), '/services/api/', 'prefix');
is(take($upstream, 'kind'), 'members', 'kind');
cmp_ok(take($upstream, 'generation'), '>=', 1, 'generation');
is(take($upstream, 'revision'), $bad, 'revision');

my $first = $bad - 4;
my @rows = (
    ['up', $one->address, 1, 'up', 3, $first],
    ['spare', '127.0.0.1:1', 7, 'backup', 0, $first + 1],
    ['down', '127.0.0.1:2', 1, 'down', 0, $first + 2],
    ['drain', '127.0.0.1:3', 1, 'drained', 0, $first + 3],
);

is_deeply([sort { $a->{mod_revision} <=> $b->{mod_revision} }
           @{ take($upstream, 'members') }],
          [map { { key => "/services/api/$_->[0]", address => $_->[1],
                   weight => $_->[2], state => $_->[3], conns => 0,
                   fails => 0, requests => $_->[4],
                   mod_revision => $_->[5],
                   $_->[3] eq 'drained' ? (drained_by => 'value') : () } }
           @rows], 'members');
is_deeply(take($upstream, 'invalid'),
          [{ key => '/services/api/bad', mod_revision => $bad,
             reason => 'address "hello" has no port' }], 'invalid');
is_deeply(take($upstream, 'unused'), [], 'unused');
is(take($upstream, 'state'), 'ok', 'state: those that are out are meant to be');
is(take($upstream, 'waiting'), 0, 'waiting');
is(take($upstream, 'holds'), 0, 'holds');
like(take($upstream, 'staleness_ms'), qr/^\d+$/, 'staleness_ms');
is_deeply(take($upstream, 'responses'),
          { '1xx' => 0, '2xx' => 3, '3xx' => 0, '4xx' => 0, '5xx' => 0 },
          'responses');
is_deeply(take($upstream, 'refused'), {}, 'refused');
cmp_ok(take($upstream, $_), '>', 0, $_) for qw(sent received);
is(take($upstream, 'response_time')->{count}, 3, 'response_time');
is_empty($upstream, 'an upstream');

my $times = take($other, 'response_time');

is_deeply([map { $_->{count} } $times, @{ $times->{buckets} }], [(0) x 13],
          'one that was never read: no times');
is_deeply($other, { cluster => 'away', prefix => '/services/away/',
                    kind => 'members', generation => 0, revision => 0,
                    state => 'down', reason => 'unreachable',
                    staleness_ms => -1, waiting => 0, holds => 0, sent => 0,
                    received => 0, refused => {},
                    responses => { map { $_ . 'xx' => 0 } 1 .. 5 },
                    members => [], invalid => [], unused => [] },
          'one that was never read');

# the rest

is_deeply(take($status, $_), {}, $_) for qw(elections locks);

my $zone = take($status, 'zone');

is(take($zone, 'size'), (8 * 1024 + 512) * 1024, 'zone.size');
cmp_ok($zone->{used}, '>', 4096, 'zone.used');
cmp_ok(take($zone, 'used'), '<', 1024 * 1024, 'which is not much');
like(take($zone, 'stall_us'), qr/^\d+$/, 'zone.stall_us');
is_empty($zone, 'zone');

my $events = take($status, 'events');

is_deeply([map { "$_->{upstream} $_->{key} $_->{change} $_->{revision}" }
           @$events],
          ["api /services/api/bad invalid $bad",
           map { "api /services/api/$_->[0] add $_->[5]" } reverse @rows],
          'events, the newest first');
is(join(' ', sort keys %{ $events->[0] }), 'change key revision time upstream',
   'no other fields');
is_deeply([grep { $_->{time} !~ /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/ }
           @$events], [], 'the time of each');
is_deeply(take($status, 'variables'), {}, 'no variables');
is_empty($status, 'status');

# events of all kinds, and no more than are kept

$etcd->put('/services/api/up',
           '{"address":"' . $one->address . '","weight":9}');
$api->sees($etcd->del('/services/api/spare'));

my $newest = $nginx->status->{events};

is($newest->[0]{key} . ' ' . $newest->[0]{change}, '/services/api/spare remove',
   'an event of a removal');
is($newest->[1]{key} . ' ' . $newest->[1]{change}, '/services/api/up update',
   'an event of a change');

$api->sees(
    $etcd->txn(map { [put => "/services/api/n$_", "127.0.1.$_:80"] } 1 .. 100));

my $many = $nginx->status;

is(scalar(@{ $many->{events} }), 64, 'the last 64 events are kept');
is(scalar(@{ $many->{upstreams}{api}{members} }), 103, 'of 103 members');
is($many->{events}[0]{key}, '/services/api/n100', 'up to the newest');

# counters under way

$one->set(hang => 1);
$one->reset;

my $client = $nginx->http;
my $before = $api->member($one->address)->{requests};

$api->sees($etcd->del_prefix('/services/api/n'));
$client->send('GET', '/to');
wait_for { $one->requests == 1 } 10, 'a request';
is($api->member($one->address)->{conns}, 1, 'conns during a request');
$one->set(hang => 0);
$client->receive;
ok(conns_are(0), 'conns after it');
is($api->member($one->address)->{requests}, $before + 1, 'requests');

# methods

my $get = $nginx->get('/status');

is($get->{headers}{'content-type'}, 'application/json', 'GET: JSON');
is($get->{headers}{'content-length'}, length($get->{body}), 'of known length');
is_deeply([sort keys %{ decode_json($nginx->get('/json')->{body}) }],
          [sort keys %{ decode_json($get->{body}) }], 'etcd_status json');
is($nginx->get('/limited')->{headers}{'content-type'}, 'application/json',
   'also of a method that limit_except does not except');
is($nginx->http->post('/status', 'x')->{status}, 405, 'POST: 405');
is($nginx->http->request('PUT', '/status', 'x')->{status}, 405, 'PUT: 405');
is($nginx->http->request('DELETE', '/status', '')->{status}, 405,
   'DELETE: 405');

my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                   PeerPort => $nginx->port);

print $socket "HEAD /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

my $head = do { local $/; <$socket> };

like($head, qr{^HTTP/1\.1 200 .*^Content-Type: application/json\r$}ms,
     'HEAD: 200');
like($head, qr/\r\n\r\n\z/, 'without a body');

# etcd goes, and comes back.

$etcd->stop();
wait_for {
    $nginx->status->{clusters}{default}{state} eq 'connecting'
} 10, 'an outage';

my $cluster = $nginx->status->{clusters}{default};

is($cluster->{state}, 'connecting', 'etcd is away: state');
is(scalar(grep { $_->{state} eq 'connected' } @{ $cluster->{endpoints} }), 0,
   'no endpoint is connected');
is(scalar(keys %{ $api->members }), 3, 'the members stay');

$etcd->start();
wait_for {
    $nginx->status->{clusters}{default}{state} eq 'synced'
} 30, 'the end of the outage';

$cluster = $nginx->status->{clusters}{default};
is($cluster->{state}, 'synced', 'etcd is back: state');
is($cluster->{endpoint}, $etcd->url, 'endpoint');
cmp_ok($cluster->{reconnects}, '>=', 1, 'reconnects');

# A reload is another epoch.

ok($nginx->reload(undef, gone => 1), 'a reload');
wait_for { $nginx->status->{agent}{epoch} == 2 } 10, 'the next agent';
is($nginx->status->{agent}{epoch}, 2, 'the next epoch');

finish();
