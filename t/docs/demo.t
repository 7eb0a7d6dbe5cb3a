#!/usr/bin/perl

# The demo works, and with it the configuration that it shows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Nginx;
use Port;
use Process;


my $top = "$FindBin::Bin/../..";

local $ENV{DEMO_ONCE} = 1;
local $ENV{PORT} = free_port();
local $ENV{PORT2} = free_port();
local $ENV{PORT3} = free_port();
local $ENV{TEST_NGINX_BINARY} = Nginx::binary();
local $ENV{TEST_NGINX_MODULES} = Nginx::modules_dir();

delete local $ENV{NGINX};

my ($status, $output) = run("$top/tools/demo");

is($status, 0, 'the demo ends well') or diag($output);
unlike($output, qr/FAILED/, 'every step works') or diag($output);
cmp_ok(scalar(() = $output =~ /  ok$/mg), '>=', 14, 'it shows something');

finish();
