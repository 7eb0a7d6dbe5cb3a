#!/usr/bin/perl

# conf-examples/formats.conf: each upstream finds what its system registers.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Tls;
use Upstream;

my $etcd = Etcd->new()->start();
my ($backend, $canary) = Backend->start('one', 'canary');
my $address = $backend->address;
my ($host, $port) = split(/:/, $address);

# Files, ports and modules are the test's.

my $text = Tls::read_file("$FindBin::Bin/../../conf-examples/formats.conf");

$text =~ s/^load_module .*\n//mg;
$text =~ s/(listen 127\.0\.0\.1:)8080/$1%%PORT%%/g;
$text =~ s{http://127\.0\.0\.1:2379;}{%%ETCD%%;};

my $nginx = Nginx->new(etcd => $etcd)->start($text);


sub kratos {
    my ($track, $at) = @_;

    return "{\"name\":\"helloworld\",\"metadata\":{\"track\":\"$track\"},"
           . "\"endpoints\":[\"grpc://127.0.0.1:1\",\"http://$at\"]}";
}


# a key and a value for each upstream

my %registered = (
    greet      => ['greet.rpc/7587870460981677828', $address],
    users      => ["my-svc/$address", "{\"Op\":0,\"Addr\":\"$address\"}"],
    echo       => ["kitex/registry-etcd/echo/$address",
                   "{\"network\":\"tcp\",\"address\":\"$address\","
                   . '"weight":10,"tags":{}}'],
    helloworld => ['/microservices/helloworld/a', kratos('stable', $address)],
    helloworld_canary => ['/microservices/helloworld/b',
                          kratos('canary', $canary->address)],
    greeter    => ['/micro/registry/greeter/greeter-1',
                   "{\"name\":\"greeter\",\"nodes\":[{\"id\":\"1\","
                   . "\"address\":\"$address\"}]}"],
    dubbo      => ['/dubbo/com.example.Greet/providers/'
                   . "tri%3A%2F%2F$host%3A$port%2Fcom.example.Greet", ''],
    dubbo_app  => ["/services/app/$address",
                   "{\"Host\":\"$host\",\"Port\":$port,\"Enable\":true,"
                   . '"Healthy":true}'],
    arith      => ["rpcx/Arith/tcp\@$address", 'weight=3&calls=12.00'],
    milvus     => ['by-dev/meta/session/proxy-7',
                   "{\"ServerName\":\"proxy\",\"Address\":\"$address\"}"],
    skydns     => ['/skydns/local/skydns/web/x1',
                   "{\"host\":\"$host\",\"port\":$port,\"priority\":20}"],
    apisix     => ['/apisix/upstreams/1',
                   "{\"type\":\"roundrobin\",\"nodes\":{\"$address\":1}}"],
    traefik    => ['traefik/http/services/web/loadbalancer/servers/0/url',
                   "http://$address"],
    upsync     => ["/upstreams/test/$address", '{"weight":10,"down":0}'],
    workers    => ["dolphinscheduler/nodes/worker/$address",
                   "{\"host\":\"$host\",\"port\":$port,"
                   . '"serverStatus":"NORMAL"}'],
    custom     => ['/registry/custom/a',
                   "{\"spec\":{\"ip\":\"$host\",\"ports\":[$port]},"
                   . '"weight":"3","ready":true}'],
);

my $revision = $etcd->txn(map { [put => @$_] } values %registered);
my $leased = $etcd->put(@{ $registered{greet} }, lease => $etcd->grant(600));

for my $name (sort keys %registered) {
    my $upstream = Upstream->new($nginx, $name);
    my $wanted = $name eq 'helloworld_canary' ? 'canary' : 'one';

    $upstream->sees($name eq 'greet' ? $leased : $revision);
    is($nginx->get("/to/$name")->{body}, $wanted, "$name: it answers");
    $upstream->reports({}, "$name: nothing is invalid");
}

my @upstreams = $text =~ /^\s*upstream (\w+)/mg;

is("@{[sort @upstreams]}", "@{[sort keys %registered]}",
   'each upstream of the example has a key here');

is_deeply([sort keys %{ $nginx->tally('/helloworld/', 200) }],
          ['canary', 'one'], 'the canary gets a part');

finish();
