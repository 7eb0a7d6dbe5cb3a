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
use Process;
use Slurp;


my $HEADER = 'src/base/ngx_etcd_version.h';
my $NGINX_ORG = 'packaging/nginx-org';
my @FILES = ($HEADER, 'CHANGES', 'debian/changelog', 'tools/version',
             map { "$NGINX_ORG/$_" } 'README.md', 'docs/nginx-module-etcd.xml',
             'contrib/src/nginx-etcd/version');


# compares the files of a tree, and returns their version

sub version_of {
    my ($top) = @_;

    my %text = map { $_ => slurp("$top/$_") } @FILES;
    my ($version) = $text{$HEADER} =~ /NGX_ETCD_VERSION  "(\d+\.\d+\.\d+)"/;

    ok($version, 'there is a version') or die "no version\n";

    my $symbol = 'ngx_etcd_version_' . $version =~ tr/./_/r;
    my $is = qr/\Q$version\E/;

    like($text{$HEADER}, qr/ngx_etcd_version  $symbol$/m, 'the symbol has it');
    like($text{CHANGES}, qr/\A\nChanges with nginx-etcd $is$/m,
         'CHANGES has it');
    like($text{'debian/changelog'}, qr/\Anginx-etcd \($is-/,
         'the packages of Debian have it');
    like($text{"$NGINX_ORG/contrib/src/nginx-etcd/version"},
         qr/^NGINX_ETCD_VERSION := $is$/m, 'those of nginx.org have it');
    like($text{"$NGINX_ORG/docs/nginx-module-etcd.xml"},
         qr/\A(?:(?!<changes ).)*<changes [^>]*ver="$is"/s,
         'and their changes');
    like($text{"$NGINX_ORG/README.md"}, qr/nginx-etcd-$is\.tar/,
         'and how to make their archive');

    return $version;
}


my $version = version_of(Docs::top());
my $symbol = 'ngx_etcd_version_' . $version =~ tr/./_/r;

# tools/version sets another one everywhere

my $copy = test_dir() . '/copy';

for my $file (@FILES) {
    my ($dir) = "$copy/$file" =~ m{^(.*)/};

    is((run('sh', '-c', 'mkdir -p "$1" && cp -p "$2" "$1"', 'sh', $dir,
            Docs::top() . "/$file"))[0], 0, "a copy of $file");
}

is((run("$copy/tools/version", '9.8.7', '2031-02-03'))[0], 0,
   'a version is set');
is(version_of($copy), '9.8.7', 'that version');
like(slurp("$copy/debian/changelog"),
     qr/\A.*?^ -- [^\n]*>  Mon, 03 Feb 2031 12:00:00 \+0000$/ms,
     'and its date');
isnt((run("$copy/tools/version", '9.8.7', '2031-02-03'))[0], 0,
     'it is not set twice');

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
