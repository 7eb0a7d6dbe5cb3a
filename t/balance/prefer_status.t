#!/usr/bin/perl

# "etcd_prefer" in the status: the preference, the share of requests that goes
# to preferred members, and the preferred members, in JSON and in metrics.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Sys::Hostname qw(hostname);
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Metrics;
use Nginx;
use Wait;

use constant WORKERS => 2;

# a value that only JSON can write: a control character, and one of two bytes

use constant ODD => "a\x01\x{c3}\x{bc}";

my $etcd = Etcd->new()->start();
my %backends = map { $_->name => $_ } Backend->start(qw(a b c d e));
my %zones = (a => 'near', b => 'near', c => 'far', d => 'far');

$ENV{PREFER_ZONE} = 'near';
$ENV{PREFER_ODD} = ODD;

sub register {
    my ($prefix, %members) = @_;

    my $revision;

    $revision = $etcd->put("/$prefix/$_", sprintf(
        '{"address":"%s","tags":{"zone":"%s"}%s}', $backends{$_}->address,
        $zones{$_}, $members{$_} && ",$members{$_}")) for sort keys %members;

    return $revision;
}

my %all = map { $_ => '' } qw(a b c d);

register($_, %all) for qw(api check eject fails sets/t sets/u static);
$etcd->put("/host/$_", sprintf('{"address":"%s","tags":{"host":"%s"}}',
                               $backends{$_}->address, $_ eq 'a'
                               ? lc(hostname()) : 'other')) for qw(a b);
$etcd->put('/odd/1', sprintf('{"address":"%s","tags":{"zone":%s}}',
                             $backends{a}->address,
                             '"a\u0001\u00fc"'));

my $stream = Nginx::has('stream') ? <<'EOC' : '';
stream {
    upstream tcp {
        etcd_members /api/;
        etcd_prefer zone:far spill=100%;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%%;
        proxy_pass tcp;
    }
}
EOC

my $nginx = Nginx->new(etcd => $etcd)
    ->set(STATIC => $backends{e}->address, WORKERS => WORKERS)
    ->start(<<'EOC' . $stream);

worker_processes %%WORKERS%%;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /api/;
        etcd_prefer zone:env:PREFER_ZONE;
    }

    upstream check {
        etcd_members /check/;
        etcd_check tcp interval=200ms timeout=200ms;
        etcd_prefer zone:near;
    }

    upstream eject {
        etcd_members /eject/;
        etcd_eject errors=50% window=1s min=1 time=1h max=50%;
        etcd_prefer zone:near;
    }

    upstream fails {
        etcd_members /fails/ max_fails=1 fail_timeout=1h;
        etcd_prefer zone:near;
    }

    upstream host {
        etcd_members /host/;
        etcd_prefer host:$hostname;
    }

    upstream none {
        etcd_members /api/;
        etcd_prefer zone:no_such;
    }

    upstream odd {
        etcd_members /odd/;
        etcd_prefer zone:env:PREFER_ODD;
    }

    upstream plain {
        etcd_members /api/;
    }

    upstream static {
        server %%STATIC%%;
        etcd_members /static/;
        etcd_prefer zone:near;
    }

    upstream sets {
        etcd_members /sets/$arg_set/;
        etcd_prefer zone:near;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        add_header X-Worker $pid always;

        location = /status { etcd_status; }
        location = /metrics { etcd_status prometheus members=on; }
        location /api { proxy_pass http://api; }
        location /eject { proxy_pass http://eject; }
        location /fails { proxy_pass http://fails; }
        location /sets { proxy_pass http://sets; }
    }
}
EOC


sub upstream { return $nginx->upstream($_[0])->status }

# the preferred members by name, and others

sub near {
    my %of = map { $_->{near} // 'none' => 1 } @{ $_[0]{members} };

    return { map { my $near = $_;
                   ($near => join(' ', sort map { $_->{key} || 'static' }
                                       grep { ($_->{near} // 'none') eq $near }
                                       @{ $_[0]{members} })) } keys %of };
}


sub share {
    my ($name, $percent, $what) = @_;

    becomes { upstream($name)->{near_percent} } $percent, "$name: $what";

    my ($ratio) = Metrics->of($nginx, '/metrics')
        ->values('nginx_etcd_upstream_near_ratio', upstream => $name,
                 module => 'http');

    is(sprintf('%.0f', 100 * $ratio), $percent, "$name: the metric");
}


# share(), once requests have come

sub share_after {
    my ($path, $name, $percent, $what) = @_;

    becomes {
        $nginx->get($path);
        upstream($name)->{near_percent};
    } $percent, "$name: $what";
}


share('api', 100, 'all members are there');
is(upstream('api')->{prefer}, 'zone:near', 'the preference');
is_deeply(near(upstream('api')),
          { 1 => '/api/a /api/b', 0 => '/api/c /api/d' },
          'the preferred members');
is_deeply([map { Metrics->of($nginx, '/metrics')
                     ->values('nginx_etcd_member_near', upstream => 'api',
                              key => "/api/$_") } qw(a b c d)],
          [1, 1, 0, 0], 'and in the metrics');

share('host', 100, 'this machine');
is(upstream('host')->{prefer}, 'host:' . lc(hostname()), 'its name');
is_deeply(near(upstream('host')), { 1 => '/host/a', 0 => '/host/b' },
          'its members');

share('none', 0, 'no member has the tag');
is_deeply(near(upstream('none')),
          { 0 => join(' ', map { "/api/$_" } 'a' .. 'd') },
          'and none is preferred');

is(upstream('odd')->{prefer}, "zone:a\x01\x{fc}", 'any bytes are a value');
is_deeply(near(upstream('odd')), { 1 => '/odd/1' }, 'and are compared');

ok(!exists(upstream('plain')->{$_}), "without the directive: no $_")
    for qw(prefer near_percent);
is_deeply(near(upstream('plain')),
          { none => join(' ', map { "/api/$_" } 'a' .. 'd') }, 'nor members');

share('static', 100, 'with a static server');
is(near(upstream('static'))->{0}, '/static/c /static/d static',
   'which is not preferred');

SKIP: {
    skip('this nginx has no stream', 2) if !$stream;

    my $tcp = $nginx->upstream('tcp', 'stream')->status;

    is($tcp->{prefer}, 'zone:far', 'stream: the preference');
    is($tcp->{near_percent}, 100, 'stream: the share');
}


# changes of the share

register('api', a => '"drain":true');
share('api', 71, 'one of two is drained');
register('api', b => '"down":true');
share('api', 0, 'none is left');
register('api', map { $_ => '"down":true' } qw(c d));
register('api', b => '"weight":3');
share('api', 100, 'nothing else is left');
register('api', %all, a => '"backup":true');
share('api', 100, 'a backup is none of them');
register('api', map { $_ => '"backup":true' } qw(a b));
share('api', 0, 'both are backups');
is(near(upstream('api'))->{1}, '/api/a /api/b', 'with the tag');
register('api', %all, a => '"slow_start":"1d"');
share('api', 100, 'a member changes');
$etcd->del('/api/a');
$nginx->upstream('api')->sees(register('api', b => '"weight":2'));
register('api', a => '"slow_start":"1d"');
share('api', 96, 'a third starts slowly: it has 1/64 of its weight');

# A connection that fills a member, and a failure: another worker shows both.

my %clients;

wait_for {
    my $client = $nginx->http;

    $clients{ $client->get('/status')->{headers}{'x-worker'} } //= $client;
    keys %clients == WORKERS;
} 10, 'a client of each worker';

my ($busy, $idle) = values %clients;

sub of_idle {
    my ($name) = @_;

    return decode_json($idle->get('/status')->{body})
        ->{upstreams}{$name}{near_percent};
}

$nginx->upstream('api')->sees(register('api', %all, a => '"down":true',
                                       b => '"max_conns":1'));
becomes { of_idle('api') } 71, 'half of the zone';
$backends{b}->set(hang => 1);

my @held;

while ($backends{b}->requests == 0) {
    push @held, $nginx->http;
    $held[-1]->{timeout} = 60;
    $held[-1]->send('GET', '/api');
    wait_for {
        my $n = 0;

        $n += $_->requests for values %backends;
        $n == @held;
    } 10, 'a request';
}

is(of_idle('api'), 0, 'a full member, in a worker without requests');
$backends{b}->set(hang => 0);
is(Http::statuses(@held), join(' ', (200) x @held), 'it is free again');
is(of_idle('api'), 71, 'and is shown so');

is(of_idle('fails'), 100, 'all members work');
$backends{a}->down;
is($busy->get('/fails')->{status}, 200, 'a request') for 1 .. 2;
is(of_idle('fails'), 71, 'a failure of another worker');

# a failed check, the panic in which it is ignored, and an ejection

share('check', 71, 'one of two fails its checks');
$backends{$_}->down for qw(b c);
share('check', 100, 'a panic: checks are ignored');
$backends{$_}->up for qw(a b c);
becomes { scalar grep { $_->{state} eq 'up' }
                      @{ upstream('check')->{members} } } 4, 'all are up again';
share('check', 100, 'all of them');

$backends{a}->set(status => 500);
share_after('/eject', 'eject', 71, 'one of two is ejected');
$backends{a}->set(status => 200);


# A set: a worker that has used it tells the share.

sub set {
    return decode_json($idle->get("/status?upstream=sets&set=$_[0]")->{body})
        ->{upstreams}{sets};
}

sub set_metrics {
    return $idle->get("/metrics?set=$_[0]")->{body};
}

my $ratio = qr/^nginx_etcd_upstream_near_ratio\{[^}]*set="t"\} 1\.0+$/m;

is(upstream('sets')->{prefer}, 'zone:near', 'sets: the preference');
ok(!exists(upstream('sets')->{near_percent}), 'sets: no share of them all');
is_deeply(near(set('t')->{set}),
          { 1 => '/sets/t/a /sets/t/b', 0 => '/sets/t/c /sets/t/d' },
          'a set: the preferred members');
ok(!exists(set('t')->{set}{near_percent}), 'a set: not used yet');
unlike(set_metrics('t'), $ratio, 'nor in the metrics');
is($idle->get('/sets?set=t')->{status}, 200, 'a request');
is(set('t')->{set}{near_percent}, 100, 'a set: the share');
like(set_metrics('t'), $ratio, 'and in the metrics');
register('sets/t', b => '"drain":true');
becomes { set('t')->{set}{near_percent} } 71, 'a set: one of two is drained';
ok(!exists(set('u')->{set}{near_percent}), 'another set: not used');
is(set('t')->{tables}, 1, 'looking makes no table');
is($idle->get('/sets?set=u')->{status}, 200, 'a request for it');
is(set('u')->{set}{near_percent}, 100, 'a share of its own');

finish();
