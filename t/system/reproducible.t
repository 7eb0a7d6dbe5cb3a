#!/usr/bin/perl

# Modules do not tell where they were built, nor when: the same source makes the
# same bytes in another directory.  "make deb-test" builds everything twice, and
# compares; here are the causes that there were.

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
my $dir = Nginx::modules_dir();

for my $module (glob("$dir/ngx_*etcd_module.so")) {
    my $text = slurp($module);
    my $name = $module =~ s{.*/}{}r;

    is(index($text, $_), -1, "$name does not have the path $_") for $top, $dir;
}

my ($status, $found) = run('grep', '-rnE', '__(DATE|TIME|TIMESTAMP)__',
                           "$top/src", "$top/proto", "$top/config");

is($found, '', 'no source asks for the time');

# An archive of a tree does not depend on the umask of who has checked it out.

my @modes = map {
    my $copy = test_dir() . "/$_";

    run('sh', '-c', 'umask $1; mkdir "$2"; cd "$2"; : > file; : > script;'
                    . ' chmod u+x script', 'sh', $_, $copy);
    (run('sh', '-c', '"$1"/tools/tree "$2" | tar -tvf - | cut -c 1-10 | sort',
         'sh', $top, $copy))[1];
} '022', '077';

is($modes[0], "-rw-r--r--\n-rwxr-xr-x\n", 'modes in an archive');
is($modes[1], $modes[0], 'with another umask');

finish();
