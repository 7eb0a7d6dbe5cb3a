#!/usr/bin/perl

# "make install" copies the modules, nginx-etcd-check and pages for man to below
# DESTDIR: what nginx loads, one script that runs by itself, and ngx_etcd(5)
# only where "make docs" has made it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Docs;
use Finish;
use Nginx;
use Process;
use Slurp;

my $top = Docs::top();
my $build = test_dir() . '/build';
my ($nginx) = run_of('sh', '-c', 'command -v "$1"', 'sh', Nginx::binary())
    =~ m{^(.*)$}m;
my $sbin = $nginx =~ s{/[^/]*$}{}r;
my $man = $sbin =~ s{/[^/]*$}{/share/man}r;
my ($modules) = Nginx::built_with() =~ /--modules-path=(\S+)/;

mkdir($build);
symlink($_, $build . '/' . s{.*/}{}r)
    for glob(Nginx::modules_dir() . '/*_module.so');

my @files = map { s{.*/}{}r } glob("$build/*.so");


sub run_of {
    my ($status, $output) = run(@_);

    is($status, 0, "@_[0, 1]") or diag($output);

    return $output;
}


# paths of files below a new DESTDIR

sub installed {
    my ($name, @variables) = @_;

    my $dir = test_dir() . "/$name";

    run_of('env', "DESTDIR=$dir", 'NGINX=' . Nginx::binary(), @variables,
           "$top/tools/install", $build);

    return ($dir, map { substr($_, length($dir)) }
                  sort(split(/\n/, run_of('find', $dir, '-type', 'f'))));
}


SKIP: {
    skip('nginx has no modules path', 1) if !defined $modules;

    my ($dir, @found) = installed('plain');
    my @wanted = sort(map({ "$modules/$_" } @files), "$sbin/nginx-etcd-check",
                      "$man/man8/nginx-etcd-check.8");

    is_deeply(\@found, \@wanted, 'modules, the script and its page');

    my ($status, $usage) = run('sh', '-c',
                               "cd / && $dir$sbin/nginx-etcd-check --help");

    is($status, 0, 'the script runs without its source');
    like($usage, qr/^usage: nginx-etcd-check /m, 'and tells its usage');
    like(slurp("$dir$man/man8/nginx-etcd-check.8"), qr/^\.TH NGINX-ETCD-CHECK/,
         'a page for man');

    mkdir("$build/docs");
    open(my $page, '>', "$build/docs/ngx_etcd.5") or die "open: $!\n";
    print $page ".TH ngx_etcd 5\n";
    close($page);

    ($dir, @found) = installed('pages', 'MANDIR=/opt/man');

    is_deeply([grep { m{/man\d/} } @found],
              ['/opt/man/man5/ngx_etcd.5', '/opt/man/man8/nginx-etcd-check.8'],
              'with a page that "make docs" has made, where MANDIR says');
    is(slurp("$dir/opt/man/man5/ngx_etcd.5"), ".TH ngx_etcd 5\n", 'that page');
}

finish();
