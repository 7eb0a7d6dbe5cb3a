#!/usr/bin/perl

# A prefix with variables finds the services that other systems register, each
# by its own name, and has all features of a fixed prefix: methods, weights,
# networks, host names, slow start, static servers.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Dns;
use Etcd;
use Finish;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my $dns = Dns->start();
my ($one, $two, $backup) = Backend->start(qw(one two backup));
my ($host, $port) = split(/:/, $one->address);

# Registrations of a service by other systems: upstream => [parameters of
# etcd_members, keys and values]; HOST and PORT are those of a backend.

my %registered = (
    kratos   => ['/microservices/$service/ format=kratos scheme=http',
                 '/microservices/NAME/node1-7f3a' =>
                 '{"name":"NAME","endpoints":["http://HOST:PORT"]}'],
    kratos_named => ['/microservices/$service format=kratos scheme=http',
                     '/microservices/NAME/node1-7f3a' =>
                     '{"name":"NAME","endpoints":["http://HOST:PORT"]}'],
    micro    => ['/micro/registry/$service/ format=go-micro',
                 '/micro/registry/NAME/NAME-1' =>
                 '{"name":"NAME","nodes":[{"id":"1","address":"HOST:PORT"}]}'],
    dubbo    => ['/dubbo/$service/providers/ format=dubbo scheme=tri',
                 '/dubbo/NAME/providers/tri%3A%2F%2FHOST%3APORT%2FNAME' => '',
                 '/dubbo/NAME/providers' => '', '/dubbo/NAME' => '',
                 '/dubbo/NAME/configurators/x' => ''],
    dubbo_app => ['/services/$service/ format=dubbo-app',
                  '/services/NAME/HOST:PORT' =>
                  '{"Host":"HOST","Port":PORT,"Enable":true,"Healthy":true}'],
    rpcx     => ['rpcx/$service/ format=rpcx',
                 'rpcx/NAME/tcp@HOST:PORT' => 'weight=3',
                 'rpcx/NAME' => 'NAME', 'rpcx' => 'rpcx'],
    apisix   => ['/apisix/upstreams/$service format=apisix',
                 '/apisix/upstreams/NAME' =>
                 '{"type":"roundrobin","nodes":{"HOST:PORT":1}}',
                 '/apisix/upstreams/' => 'init_dir'],
    skydns   => ['/skydns/local/$ns/$service/ format=skydns',
                 '/skydns/local/ns1/NAME/x1' =>
                 '{"host":"HOST","port":PORT,"priority":10}'],
    zero     => ['services/$service/ format=plain',
                 'services/NAME/7587870460981677828' => 'HOST:PORT'],
    spaced   => ['$service/ format=plain cluster=spaced',
                 'zero/NAME/7587870460981677828' => 'HOST:PORT'],
    grpc     => ['grpc/$service/ format=grpc',
                 'grpc/NAME/HOST:PORT' => '{"Op":0,"Addr":"HOST:PORT"}'],
    kitex    => ['kitex/registry-etcd/$service/ format=kitex',
                 'kitex/registry-etcd/NAME/HOST:PORT' =>
                 '{"network":"tcp","address":"HOST:PORT","weight":10}'],
    traefik  => ['traefik/http/services/$service/loadbalancer/servers/'
                 . ' format=traefik',
                 'traefik/http/services/NAME/loadbalancer/servers/0/url' =>
                 'http://HOST:PORT',
                 'traefik/http/services/NAME/loadbalancer/servers/0/weight' =>
                 '3',
                 'traefik/http/services/NAME/loadbalancer/sticky/cookie/name' =>
                 'foobar'],
    upsync   => ['/upstreams/$service/ format=upsync',
                 '/upstreams/NAME/HOST:PORT' => '{"weight":1,"max_fails":2}'],
    json     => ['/registry/$service/ format=json host=/ip port=/p',
                 '/registry/NAME/1' => '{"ip":"HOST","p":PORT}'],
);

# methods and other directives, over the same services

my %methods = (
    hash       => 'etcd_balance hash $arg_key;',
    ring       => 'etcd_balance hash $arg_key consistent;',
    least_conn => 'etcd_balance least_conn;',
    ewma       => 'etcd_balance ewma;',
    random     => 'etcd_balance random;',
    allowed    => 'etcd_allow 127.0.0.0/8;',
    foreign    => 'etcd_allow 10.0.0.0/8;',
    static     => 'server ' . $backup->address . ' backup;',
    beside     => 'server ' . $backup->address . ';',
);

my $upstreams = join('',
    (map { "upstream $_ { etcd_members $registered{$_}[0]; }\n" }
         sort keys %registered),
    (map { "upstream $_ { etcd_members /s/\$service/; $methods{$_} }\n" }
         sort keys %methods));

my $nginx = Nginx->new(etcd => $etcd)->set(DNS => $dns->address)
    ->start(<<'EOC' =~ s/UPSTREAMS/$upstreams/r);

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    resolver %%DNS%% ipv6=off;
    resolver_timeout 2s;
}

etcd spaced {
    endpoints %%ETCD%%;
    namespace zero/;
}

http {
    map $arg_s $service {
        default $arg_s;
    }

    map $arg_ns $ns {
        default $arg_ns;
        ""      ns1;
    }

    UPSTREAMS

    upstream slow {
        etcd_members /s/$service/ slow_start=1h;
    }

    upstream weighted {
        etcd_members /s/$service/ weight=2 max_fails=7;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }
}

EOC


sub got {
    my ($name, $service, $args) = @_;

    my $answer = $nginx->get("/to/$name?s=$service" . ($args // ''));

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}


sub goes {
    my ($name, $service, $what, $test) = @_;

    ok((wait_for { got($name, $service) eq $what } 20,
        "$name $service is $what"), $test) or diag(got($name, $service));
}


for my $name (sort keys %registered) {
    my ($prefix, %keys) = @{ $registered{$name} };

    for my $key (sort keys %keys) {
        my $value = $keys{$key};

        for ($key, $value) {
            s/NAME/user/g;
            s/HOST/$host/g;
            s/PORT/$port/g;
        }

        $etcd->put($key, $value);
    }

    goes($name, 'user', 'one', "$name: $prefix");
    is(got($name, 'other'), 404, "$name: another service is unknown");
}

is(got('skydns', 'user', '&ns=ns2'), 404, 'skydns: the same in another one');


# Several keys make one member.

my $server = 'traefik/http/services/user/loadbalancer/servers';

$etcd->put("$server/1/url", 'http://' . $two->address);
ok((wait_for { my $seen = $nginx->tally('/to/traefik?s=user', 8);
               ($seen->{one} // 0) == 6 && ($seen->{two} // 0) == 2 } 20,
    'both'), 'traefik: a second server, and the weight of the first one');
$etcd->del_prefix("$server/0/");
goes('traefik', 'user', 'two', 'traefik: the first one goes');
$etcd->del_prefix("$server/1/");
goes('traefik', 'user', 404, 'traefik: the service goes with its last server');

is($etcd->put('/dubbo/other/consumers/x', '') && got('dubbo', 'other'), 404,
   'dubbo: consumers make no service');


# methods and weights

$etcd->put('/s/a/1', '{"address":"' . $one->address . '","weight":3}');
$etcd->put('/s/a/2', $two->address);
my $revision = $etcd->put('/s/b/1', $two->address);

# Each upstream has a watch of its own: one may know the keys later than others.

$nginx->upstream($_)->sees($revision) for sort keys %methods, qw(slow weighted);

goes('weighted', 'b', 'two', 'two services');

ok((wait_for { my $seen = $nginx->tally('/to/weighted?s=a', 10);
               ($seen->{one} // 0) == 6 && ($seen->{two} // 0) == 4 } 20,
    'weights'), 'weights: of the value, and of weight=');

# the members that some keys go to

sub spread {
    my ($name, $service) = @_;

    my %seen = map { got($name, $service, "&key=$_") => 1 } 1 .. 100;

    return join(' ', sort keys %seen);
}


for my $name (qw(hash ring)) {
    is(spread($name, 'a'), 'one two', "$name: keys are spread");

    my $first = got($name, 'a', '&key=x');
    is(scalar(grep { got($name, 'a', '&key=x') eq $first } 1 .. 5), 5,
       "$name: a key keeps its member");
    is(got($name, 'b', '&key=x'), 'two', "$name: another service");
}

# A ring of many points is read in pieces, one soon after another: while as many
# keys are asked for, the rest of the first read comes.

my @large = map { "large$_" } 1 .. 10;

for my $service (@large) {
    $etcd->put("/s/$service/1",
               '{"address":"' . $one->address . '","weight":30}');
    $revision = $etcd->put("/s/$service/2", '{"address":"' . $two->address
                                            . '","weight":20}');
}

$nginx->upstream('ring')->sees($revision);

cmp_ok(scalar(grep { spread('ring', $_) eq 'one two' } @large), '>=', 8,
       'ring: a large one is read on at once');

for my $name (qw(least_conn ewma random allowed slow)) {
    my $seen = $nginx->tally("/to/$name?s=a", 60);

    ok($seen->{one} && $seen->{two}, "$name: both members")
        or diag(explain($seen));
    is(got($name, 'b'), 'two', "$name: another service");
}

is(got('foreign', 'a'), 502, 'etcd_allow: no member is allowed');
ok((wait_for {
        $nginx->error_log =~ m{"foreign": key .*/s/a/1.* is invalid};
    } 20, 'the report'), 'which is reported');


# Static servers are members of each set, and of no set that does not exist.

goes('static', 'a', 'one', 'a backup server waits');
is(got('static', 'b'), 'two', 'in each set');
my $seen = $nginx->tally('/to/beside?s=b', 10);
is_deeply($seen, { two => 5, backup => 5 }, 'a static server in a set');
is(got('static', 'none'), 404, 'a service that does not exist has none');

$etcd->put('/s/b/1', '{"address":"' . $two->address . '","drain":true}');
goes('static', 'b', 'backup', 'the backup server of a set serves');


# host names

$dns->set('one.test' => ['127.0.0.1']);
$etcd->put('/s/c/1', "one.test:$port");
goes('allowed', 'c', 'one', 'a host name');
$etcd->put('/s/d/1', "none.test:$port");
goes('allowed', 'd', 502, 'one without an address: a service without member');
$etcd->del('/s/c/1');
goes('allowed', 'c', 404, 'the service goes');


unlike($nginx->error_log, qr/audit|differs/, 'the audit finds no difference');

finish();
