#!/usr/bin/perl

# conf-examples/tls.conf works with an etcd that is as it says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Tls;
use Upstream;


my $dir = test_dir();
my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'IP:127.0.0.1');

my $etcd = Etcd->new(tls => {
    cert => $server->cert,
    key  => $server->key,
    ca   => $ca->cert,
})->start();

my ($backend) = Backend->start('one');
my $address = $backend->address;

Tls::join_files("$dir/ca.crt", $ca->cert);
$ca->issue('client')->install($dir, 'client');

# files, ports and modules are the test's

my $text = Tls::read_file("$FindBin::Bin/../conf-examples/tls.conf");

$text =~ s/^load_module .*\n//mg;
$text =~ s/(listen 127\.0\.0\.1:)8080/$1%%PORT%%/g;
$text =~ s{/etc/nginx/etcd/}{$dir/}g;
$text =~ s{https://127\.0\.0\.1:2379;}{%%ETCD%%;};

my $nginx = Nginx->new(etcd => $etcd)->start($text);

$etcd->put('/services/api/1', $address);

Upstream->new($nginx, 'api')->shows(
    { '/services/api/1' => "$address 1 up" }, 'members are followed');

is($nginx->get('/')->{body}, 'one', 'and get requests');

finish();
