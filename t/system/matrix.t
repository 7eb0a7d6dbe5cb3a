#!/usr/bin/perl

# "make matrix" fails if a step of a cell fails.  Here a cell has no root:
# scripts stand in for tools/root and tools/tree.

use strict;
use warnings;

use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $dir = tempdir(CLEANUP => 1);
my $log = "$dir/roots/debian12";

# a root in which a step fails, or prints the output of a test run

my $ROOT = <<'END';
#!/bin/sh

case "$*" in
    *tools/packages*) exit ${PACKAGES_STATUS:-0} ;;
    *' demo')         exit ${DEMO_STATUS:-0} ;;
    *' test')         printf '%s\n' "$TEST_SAYS"; exit ${TEST_STATUS:-0} ;;
esac
END

my $PASSED = 'Files=2, Tests=10,  3 wallclock secs';
my $FAILED = "Test Summary Report\n"
             . "t/a.t (Wstat: 256 (exited 1) Tests: 4 Failed: 1)\n"
             . "Files=2, Tests=10,  3 wallclock secs";


sub script {
    my ($name, $text) = @_;

    open(my $file, '>', "$dir/tools/$name") or die "$name: $!";
    print $file $text;
    close($file);
    chmod(0755, "$dir/tools/$name");
}


make_path("$dir/tools", $log);
copy("$FindBin::Bin/../../tools/matrix", "$dir/tools/matrix") or die "copy: $!";
chmod(0755, "$dir/tools/matrix");
script('tree', "#!/bin/sh\n");
script('root', $ROOT);


sub cell {
    my (%environment) = @_;

    local %ENV = (%ENV, ROOTS => "$dir/roots", NGINX_SRC => '', %environment);

    my $output = `'$dir/tools/matrix' --cell debian12 2>&1`;

    return ($? >> 8, $output =~ s/.*; //sr);
}


sub is_cell {
    my ($status, $says, $test, @environment) = @_;

    my ($ended, $said) = cell(@environment);

    is($ended, $status, "$test: the status");
    is($said, "$says\n", "$test: what is said");
}


is_cell(0, '10 passed, 0 failed, of 2 files (0 skipped)', 'all is well',
        TEST_SAYS => $PASSED);
is_cell(1, 'the demonstration failed', 'no demo', DEMO_STATUS => 2,
        TEST_SAYS => $PASSED);
is_cell(1, '9 passed, 1 failed, of 2 files (0 skipped)', 'a test failed',
        TEST_SAYS => $FAILED, TEST_STATUS => 2);
is_cell(1, 'the tests did not end', 'no test ran', TEST_STATUS => 2);
is_cell(1, 'make ended with status 2', 'only make failed',
        TEST_SAYS => $PASSED, TEST_STATUS => 2);
is_cell(1, 'no packages', 'no packages', PACKAGES_STATUS => 1);
ok(-e "$log/unfinished", 'no packages: the layer is not used again');

SKIP: {
    skip 'only root makes roots', 2 if $> != 0;

    local %ENV = (%ENV, ROOTS => "$dir/roots", NGINX_SRC => '',
                  TEST_SAYS => $PASSED, DEMO_STATUS => 1);

    isnt(system("'$dir/tools/matrix' debian12 > /dev/null 2>&1"), 0,
         'a cell that fails is a matrix that fails');
    $ENV{DEMO_STATUS} = 0;
    is(system("'$dir/tools/matrix' debian12 > /dev/null 2>&1"), 0,
       'a cell that passes is a matrix that passes');
}

done_testing();
