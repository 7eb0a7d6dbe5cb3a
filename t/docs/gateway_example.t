#!/usr/bin/perl

# conf-examples/gateway.conf does what it says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Backend;
use Etcd;
use Example;
use Finish;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my ($shop, $cart, $v2) = Backend->start(qw(shop cart new));

my $nginx = Nginx->new(etcd => $etcd)->start(Example::text('gateway', 'etcd'));


sub got {
    my ($host, @headers) = @_;

    my $answer = $nginx->http->get("http://$host/", @headers);

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}


sub goes {
    my ($what, $name, @request) = @_;

    ok((wait_for { got(@request) eq $what } 20, "$what at $request[0]"),
       $name);
}


# 503 until nginx has read etcd
goes(404, 'a service that does not exist', 'shop.example.com');

$etcd->put('/services/shop/1', $shop->address);
goes('shop', 'its first key', 'shop.example.com');
$etcd->put('/services/cart/1', $cart->address);
goes('cart', 'another service', 'cart.example.com');

$etcd->put('/versions/shop/v2/1', $v2->address);
goes('new', 'a version', 'shop.example.com', 'X-Version' => 'v2');
is(got('shop.example.com'), 'shop', 'for requests that ask for it');
is(got('shop.example.com', 'X-Version' => 'v3'), 404, 'and no other version');

is(got($_), 404, "no service: $_")
    for qw(example.com shop.example.org a.shop.example.com shop.example.com.x);

# weights: one client has one version, and many have both

sub from {
    my ($n) = @_;

    my $http = IO::Socket::INET->new(LocalAddr => "127.0.0.$n",
                                     PeerAddr  => '127.0.0.1',
                                     PeerPort  => $nginx->port)
        or return "$!";

    print $http "GET / HTTP/1.0\r\nHost: shop.example.com\r\n\r\n";

    return (split(/\r\n\r\n/, join('', <$http>)))[1];
}

$etcd->put('/weights/shop', '{"stable":0,"v2":1}');
goes('new', 'all of the clients get the version', 'shop.example.com');
is(got('shop.example.com', 'X-Version' => 'stable'), 'shop', 'but for one');
is(got('cart.example.com'), 'cart', 'and but for another service');

$etcd->put('/weights/shop', '{"stable":50,"v2":50}');
ok((wait_for { got('shop.example.com') eq from(1) && grep { from($_) eq 'shop' }
               2 .. 40 } 20, 'shares'), 'some of the clients do not');

my %first = map { $_ => from($_) } 2 .. 41;
my $new = grep { $_ eq 'new' } values %first;

ok($new > 5 && $new < 35, "$new of 40 clients have the version");
is_deeply({ map { $_ => from($_) } 2 .. 41 }, \%first, 'and keep it');

$etcd->del('/weights/shop');
ok((wait_for { !grep { from($_) ne 'shop' } 2 .. 41 } 20, 'no weights'),
   'without weights none has it');

$etcd->del('/services/cart/1');
goes(404, 'the service goes', 'cart.example.com');

finish();
