#!/usr/bin/perl

# tools/vim: Vim knows each directive in the index, and no other word.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Process;
use Slurp;

my $top = "$FindBin::Bin/../..";
my $dir = test_dir() . '/after/syntax/nginx';

my ($status, $output) = run("$top/tools/vim", $dir);

is("$status $output", '0 ', 'tools/vim says nothing');

my @known = slurp("$dir/etcd.vim")
    =~ /^syn keyword ngxDirectiveThirdParty (\S+)$/mg;

# The index has the context of each directive beside its name, and variables
# in a table of their own.

my %index = map { $_ => 1 } slurp("$top/docs/README.md")
    =~ /^\| \[([a-z_]+)\]\([a-z-]+\.md#\1\) \|/mg;

cmp_ok(scalar(keys %index), '>', 50, 'there is an index');
is_deeply(\@known, [sort keys %index], 'Vim knows its directives');

($status) = run("$top/tools/vim");
isnt($status, 0, 'a directory is needed');

finish();
