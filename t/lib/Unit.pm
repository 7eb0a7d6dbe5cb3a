package Unit;

# Balancing in one process, by commands: t/unit/unit_balance.c has them.
#
#     my ($order) = unit('set 1 round_robin', 'add 0 3', 'order 0 4');
#     # [0, 1, 2, 0]

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Test::More ();

use Finish;
use Nginx;
use Process;

use Exporter 'import';

our @EXPORT = qw(unit build_unit run_tests one_of);

my $dir = abs_path(dirname(__FILE__) . '/../unit');
my $module;


# the test module: its path, and what the compiler said

sub make_unit {
    my ($name) = @_;

    my $path = test_dir() . "/$name.so";
    my ($failed, $output) = run('make', '-s', '-C', $dir,
                                'BUILD=' . Nginx::modules_dir(),
                                'OUT=' . test_dir(), $path);

    return ($failed ? undef : $path, $output);
}


# Tests that the module builds.

sub build_unit {
    my ($path, $output) = make_unit(@_);

    Test::More::is($output, '', 'the test module builds without a warning');
    $path or die "no test module\n";

    return $path;
}


# the tests in C of a module: it prints TAP itself, see t/unit/ngx_etcd_tap.h

sub run_tests {
    my ($name) = @_;

    my ($path, $output) = make_unit($name);

    $path or die "no test module: $output\n";

    my $nginx = Nginx->new(modules => []);
    my ($ok, $tap) = $nginx->configtest("load_module $path;\netcd_tap;\n");

    print $tap;

    if (!$ok || $nginx->problems) {

        # prove does not show lines of nginx, which say why there is no TAP

        print STDERR map { "# $_\n" } grep { !/^(?:not )?ok |^1\.\./ }
                                       split(/\n/, $tap);
        exit 1;
    }
}


# Runs commands: 1 if they could be run, and the output

sub run_unit {
    my ($module, @commands) = @_;

    return Nginx->new(modules => ['etcd'])->configtest(
        join("\n", "load_module $module;", map { "etcd_unit $_;" } @commands)
        . "\n");
}


# Tests that the commands can be run; returns the answers of all commands except
# sync, each as a list without its name.

sub unit {
    my @commands = @_;

    $module //= build_unit('ngx_etcd_unit_balance_module');

    my ($ok, $output) = run_unit($module, @commands);

    Test::More::ok($ok, "run: $commands[0]") or Test::More::diag($output);

    return map { /^(\w+): ?(.*)$/ && $1 !~ /^(?:nginx|angie|sync)$/
                 ? [split(' ', $2)] : () } split(/\n/, $output);
}


# a random element

sub one_of { return $_[int(rand(@_))] }


1;
