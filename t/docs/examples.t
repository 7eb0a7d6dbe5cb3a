#!/usr/bin/perl

# conf-examples/discovery.conf, balance.conf, resilience.conf and
# two-regions.conf do what they say.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Etcd;
use Example;
use Finish;
use Http;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my ($one, $two, $three, $four) = Backend->start(1 .. 4);
my @all = ($one, $two, $three, $four);

# the steps in the comment of discovery.conf

my $nginx = Nginx->new(etcd => $etcd)->start(Example::text('discovery',
                                                           'etcd'));
my $api = Upstream->new($nginx, 'api');

$etcd->put('/services/api/1', $one->address);
$etcd->put('/services/api/2',
           '{"address":"' . $two->address . '","weight":2}');
$api->shows({ '/services/api/1' => $one->address . ' 1 up',
              '/services/api/2' => $two->address . ' 2 up' },
            'discovery.conf: the members');
is_deeply($nginx->tally('/', 30), { 1 => 10, 2 => 20 },
          'discovery.conf: their weights');

$etcd->del('/services/api/1');
$api->shows({ '/services/api/2' => $two->address . ' 2 up' },
            'discovery.conf: one has gone');
is_deeply($nginx->tally('/', 10), { 2 => 10 }, 'discovery.conf: the other one');

$nginx->stop();
$etcd->del_prefix('/services/');

# the steps in the comment of balance.conf

my @values = map { { address => $_->address } } @all;

$values[0]{weight} = 2;
$values[1]{max_conns} = 100;
$values[2]{drain} = JSON::PP::true;
$values[3]{backup} = JSON::PP::true;

$nginx = Nginx->new(etcd => $etcd)->start(Example::text('balance', 'etcd'));
$api = Upstream->new($nginx, 'api');

for my $n (1 .. 4) {
    $etcd->put("/services/api/$n", encode_json($values[$n - 1]));
    $etcd->put("/services/$_/$n", $all[$n - 1]->address)
        for qw(caches search);
}

$api->shows({ '/services/api/1' => $one->address . ' 2 up',
              '/services/api/2' => $two->address . ' 1 up',
              '/services/api/3' => $three->address . ' 1 drained',
              '/services/api/4' => $four->address . ' 1 backup' },
            'balance.conf: the members');

my $tally = $nginx->tally('/', 40, 4);

is_deeply([sort keys %$tally], [1, 2],
          'balance.conf: neither who drains nor who is backup');

for my $name (qw(caches search)) {
    my $upstream = Upstream->new($nginx, $name);

    ok(wait_for(sub { keys %{ $upstream->members } == 4 }, 10),
       "balance.conf: $name has its members");
}

for my $n (1 .. 5) {
    is(scalar(keys %{ $nginx->tally("/static/$n", 20) }), 1,
       "balance.conf: /static/$n goes to one cache");
}

is_deeply([grep { !/^[1-4]$/ } keys %{ $nginx->tally('/search/', 20) }], [],
          'balance.conf: the search answers');

$nginx->stop();
$etcd->del_prefix('/services/');

# the steps in the comment of resilience.conf

$nginx = Nginx->new(etcd => $etcd)->start(Example::text('resilience', 'etcd'));
$api = Upstream->new($nginx, 'api');

$etcd->put("/services/api/$_", $all[$_ - 1]->address) for 1 .. 3;
$one->set(status => 500);

ok(wait_for(sub {
    $nginx->tally('/', 24);
    ($api->members->{'/services/api/1'} // '') =~ / ejected$/;
}, 20), 'resilience.conf: the server that fails is ejected');

is_deeply([sort keys %{ $nginx->tally('/', 20) }], [2, 3],
          'resilience.conf: the others answer');

$nginx->upstream('chat')->sees(
    $etcd->put('/services/chat/1', $two->address));
is($nginx->get('/chat/')->{body}, 2, 'resilience.conf: a chat');
is($nginx->upstream('chat')->status->{closed}, 0,
   'resilience.conf: what is closed is counted');

$nginx->upstream('reports')->sees(
    $etcd->put('/services/reports/1', $four->address));
$four->set(hang => 1);

my @reports = map {
    my $client = $nginx->http;

    $client->send('GET', '/reports/');
    $client;
} 1 .. 5;

$nginx->upstream('reports')->holds(3, 'resilience.conf: two reports at a time');
$four->set(hang => 0);
is(Http::statuses(@reports), '200 200 200 200 200',
   'resilience.conf: in turn all are made');

$etcd->put("/services/web/$_", sprintf('{"address":"%s","tags":{"zone":"%s"}}',
           $all[$_ - 1]->address, $_ == 2 ? 'a' : 'b')) for 1 .. 3;

ok(wait_for(sub { keys %{ Upstream->new($nginx, 'web')->members } == 3 }, 20),
   'resilience.conf: three members, one of them in the zone');
is_deeply([sort keys %{ $nginx->tally('/web', 20) }], [2],
          'resilience.conf: the zone first');

my $shop = Upstream->new($nginx, 'shop');

$etcd->put("/services/shop/$_", $all[$_ - 1]->address) for 1 .. 3;

ok(wait_for(sub {
    (join(' ', map { / (\w+)$/ } map { $shop->members->{"/services/shop/$_"}
                                       // ' none' } 1 .. 3)
     eq 'unproven up up')
}, 20), 'resilience.conf: a server has to prove that it works');

is_deeply([sort keys %{ $nginx->tally('/shop/', 20) }], [2, 3],
          'resilience.conf: others have done so');

$nginx->stop();
$etcd->del_prefix('/services/');

# the steps in the comment of two-regions.conf

$_->set(status => 200, delay => 0) for @all;

my $west = Etcd->new()->start();

$nginx = Nginx->new(etcd => $etcd)
    ->start(Example::text('two-regions', 'etcd')
            =~ s{http://127\.0\.0\.1:12379}{$west->endpoints}ger);

$etcd->put('/services/api/1', $one->address);
$west->put('/services/api/1', $two->address);
ok(wait_for(sub { ($nginx->tally('/', 8)->{1} // 0) == 8 }, 10),
   'two-regions.conf: the own region');
$etcd->del('/services/api/1');
ok(wait_for(sub { ($nginx->tally('/', 8)->{2} // 0) == 8 }, 10),
   'two-regions.conf: the other one');
ok($nginx->upstream('api (2)')->status->{in_use},
   'two-regions.conf: the status says so');

finish();
