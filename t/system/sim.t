#!/usr/bin/perl

# Mirrors, locks, elections and registrations against a model of etcd, on a
# virtual clock: t/sim/README.md.  Runs SEEDS seeds, and seeds that once failed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Nginx;
use Process;

my $seeds = $ENV{TEST_SEEDS} || 20000;
my $first = $ENV{TEST_SEED} || 1;

my $dir = "$FindBin::Bin/../sim";
my $module = test_dir() . '/ngx_etcd_sim_module.so';

my ($failed, $output) = run('make', '-s', '-j2', '-C', $dir,
                            'BUILD=' . Nginx::modules_dir(),
                            'OUT=' . test_dir(), 'READY=yes', $module);

is($output, '', 'the simulation builds without a warning');
!$failed or die "no simulation\n";


# lines of seeds that failed; the number of seeds that have run

sub simulate {
    my ($from, $count, $workers) = @_;

    my ($ok, $told) = Nginx->new(modules => [])->configtest(
        "load_module $module;\netcd_sim $from $count $workers 0;\n");

    my @lines = $told =~ /^sim: (seed .*|a worker died .*)$/mg;
    my ($ran) = $told =~ /^sim: (\d+) seeds$/m;

    return (\@lines, $ran);
}

my ($lines, $ran) = simulate($first, $seeds, 2);

is_deeply($lines, [], "no seed from $first on fails");
is($ran, $seeds, "$seeds have run");

# Old failures are found again by their seeds, as long as the simulation is the
# same.

open(my $in, '<', "$dir/seeds") or die "open: $!\n";

for (grep { /^\d/ } <$in>) {
    my ($seed, $why) = /^(\d+)\s+(.*)$/;

    ($lines, $ran) = simulate($seed, 1, 1);
    is_deeply([@$lines, $ran], [1], "seed $seed: $why");
}

finish();
