#!/usr/bin/perl

# The modules that "make" builds with Debian's nginx-dev are hardened: see
# docs/compatibility.md.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Nginx;

my $dir = Nginx::modules_dir();
my @options = qw(--nopie --nofortify --nocfprotection);
my @modules = map { "$dir/ngx_${_}_module.so" } qw(etcd http_etcd stream_etcd);


sub built_with {
    open(my $file, '<', "$dir/Makefile") or return '';
    local $/;

    return scalar(<$file>);
}


built_with() =~ /-fstack-protector-strong/ && built_with() !~ /-fsanitize=/
    or plan(skip_all => 'this nginx was built with other options');


sub readelf {
    my ($option, $module) = @_;

    return scalar(`readelf -W $option '$module'`);
}


# Only the core module is sure to use checked variants of functions.

for my $module (grep { -e } @modules) {
    my $name = $module =~ s/.*\///r;
    my $segments = readelf('-l', $module);
    my $dynamic = readelf('-d', $module);
    my $symbols = readelf('--dyn-syms', $module);

    ok($segments =~ /GNU_RELRO/, "$name: RELRO");
    ok($segments !~ /GNU_STACK .* RWE/, "$name: the stack is not executable");
    ok($dynamic =~ /BIND_NOW/, "$name: symbols are bound at once");
    ok($dynamic !~ /TEXTREL/, "$name: no relocation of text");
    ok($symbols =~ / __stack_chk_fail@/, "$name: the stack is protected");
    ok($symbols =~ / __\w+_chk@/, "$name: functions are checked")
        if $name eq 'ngx_etcd_module.so';
}

SKIP: {
    skip 'there is no hardening-check', 1
        if system('which hardening-check > /dev/null 2>&1') != 0;

    for my $module (grep { -e } @modules) {
        my $output = `hardening-check @options '$module' 2>&1`;

        is($?, 0, 'hardening-check ' . $module =~ s/.*\///r) or diag($output);
    }
}

done_testing();
