#!/usr/bin/perl

# conf-examples/gateway.conf does what it says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Backend;
use Etcd;
use Example;
use Finish;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my ($shop, $cart, $new) = Backend->start(qw(shop cart new));

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


is(got('shop.example.com'), 404, 'a service that does not exist');

$etcd->put('/services/shop/1', $shop->address);
goes('shop', 'its first key', 'shop.example.com');
$etcd->put('/services/cart/1', $cart->address);
goes('cart', 'another service', 'cart.example.com');

$etcd->put('/versions/shop/v2/1', $new->address);
goes('new', 'a version', 'shop.example.com', 'X-Version' => 'v2');
is(got('shop.example.com'), 'shop', 'for requests that ask for it');
is(got('shop.example.com', 'X-Version' => 'v3'), 404, 'and no other version');

is(got($_), 404, "no service: $_")
    for qw(example.com shop.example.org a.shop.example.com shop.example.com.x);

$etcd->del('/services/cart/1');
goes(404, 'the service goes', 'cart.example.com');

finish();
