#!/usr/bin/perl

# The demo works, and with it the configuration that it shows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Finish;
use Nginx;
use Port;
use Process;
use Tls;


my $top = "$FindBin::Bin/..";

local $ENV{DEMO_ONCE} = 1;
local $ENV{PORT} = free_port();
local $ENV{TEST_NGINX_BINARY} = Nginx::binary();
local $ENV{TEST_NGINX_MODULES} = Nginx::modules_dir();

delete local $ENV{NGINX};

my ($status, $output) = run("$top/tools/demo");

is($status, 0, 'the demo ends well') or diag($output);
unlike($output, qr/FAILED/, 'every step works') or diag($output);
cmp_ok(scalar(() = $output =~ /  ok$/mg), '>=', 7, 'it shows something');

# every example is a configuration that nginx accepts

my $dir = test_dir();
my $ca = Tls->new('ca');

Tls::join_files("$dir/ca.crt", $ca->cert);
$ca->issue('client')->install($dir, 'client');

for my $path (glob("$top/conf-examples/*.conf")) {
    my ($name) = $path =~ m{([^/]+)$};

    open(my $file, '<', $path) or die "open $path: $!\n";
    my $text = do { local $/; <$file> };

    # modules, ports and paths are the test's

    $text =~ s{/var/lib/nginx\b}{%%DIR%%}g;
    $text =~ s/^load_module .*\n//mg;
    $text =~ s/(listen 127\.0\.0\.1:)8080/$1%%PORT%%/g;

    $text =~ s{/etc/nginx/etcd/}{$dir/}g;

    my $nginx = Nginx->new();

    $nginx->write_secret('etcd.password', "secret\n");

    my ($ok, $messages) = $nginx->configtest($text);

    ok($ok, "$name is accepted") or diag($messages);
}

finish();
