#!/usr/bin/perl

# conf-examples/tls.conf works with an etcd that is as it says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Example;
use Finish;
use Nginx;
use Tls;
use Upstream;


my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'IP:127.0.0.1');

my $etcd = Etcd->new(tls => {
    cert => $server->cert,
    key  => $server->key,
    ca   => $ca->cert,
})->start();

my ($backend) = Backend->start('one');
my $address = $backend->address;

my $nginx = Nginx->new(etcd => $etcd);

Tls::join_files($nginx->dir . '/ca.crt', $ca->cert);
$ca->issue('client')->install($nginx->dir, 'client');

$nginx->start(Example::text('tls', 'etcd'));

$etcd->put('/services/api/1', $address);

Upstream->new($nginx, 'api')->shows(
    { '/services/api/1' => "$address 1 up" }, 'members are followed');

is($nginx->get('/')->{body}, 'one', 'and get requests');

finish();
