#!/usr/bin/perl

# Modules of one version load together, and no others do.  The version is the
# same in all files that have it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Docs;
use Finish;
use Nginx;
use Slurp;


sub text_of { slurp(Docs::top() . "/$_[0]") }

my $header = text_of('src/base/ngx_etcd_version.h');
my ($version) = $header =~ /NGX_ETCD_VERSION  "(\d+\.\d+\.\d+)"/;

ok($version, 'there is a version') or die "no version\n";

my $symbol = 'ngx_etcd_version_' . $version =~ tr/./_/r;

like($header, qr/ngx_etcd_version  \Q$symbol\E$/m, 'the symbol has it');
like(text_of('CHANGES'), qr/^Changes with nginx-etcd \Q$version\E$/m,
     'CHANGES has it');
like(text_of('debian/changelog'), qr/^nginx-etcd \(\Q$version\E-/,
     'the packages of Debian have it');

my $nginx_org = 'packaging/nginx-org';

like(text_of("$nginx_org/contrib/src/nginx-etcd/version"),
     qr/^NGINX_ETCD_VERSION := \Q$version\E$/m, 'those of nginx.org have it');
like(text_of("$nginx_org/docs/nginx-module-etcd.xml"),
     qr/ver="\Q$version\E"/, 'and their changes');

# the name of the symbol, with another version in it

my $other = $symbol =~ tr/0-9/9/r;

for my $name (Nginx::has('stream') ? qw(http stream) : qw(http)) {
    my @modules = $name eq 'stream' ? qw(etcd stream) : qw(etcd http);
    my $module = Nginx::modules_dir() . "/ngx_${name}_etcd_module.so";
    my $nginx = Nginx->new(modules => \@modules);
    my $former = $nginx->write_file(
        'former.so', slurp($module) =~ s/\Q$symbol\E\0/$other\0/r);

    $nginx->write_config("\n");
    $nginx->{load} =~ s/\Q$module\E/$former/;

    my ($status, $output) = $nginx->run_nginx($nginx->command('log', '-t'));

    isnt($status, 0, "$name: another version is refused");
    like($output, qr/undefined symbol: \Q$other\E\b/, 'and is named');
}

finish();
