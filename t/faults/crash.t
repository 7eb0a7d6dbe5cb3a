#!/usr/bin/perl

# A process that writes shared memory is killed after each instruction which
# changes it: lists and counters are right as soon as the next owner of the zone
# has taken over, no reader ever sees half a change, and what is in etcd is in
# the zone when it was listed.  The next owner may be killed, too.
#
# The worst POINTS are tried, and all of them with TEST_SOAK.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use POSIX qw(uname);
use Test::More;

use Finish;
use Nginx;
use Process;
use Unit;

use constant {
    POINTS  => 5600,
    FEW     => 250,             # enough to find a broken owner
    LEAST   => 800,             # at least so many points exist
    SHOWN   => 40,
};

my $machine = (uname())[4];

plan(skip_all => "single steps are made on x86_64, not on $machine")
    if $machine ne 'x86_64';

my $module = build_unit('ngx_etcd_unit_crash_module');


# Kills at so many points (0: all of them); the next owner leaves out the step
# $broken, if one is given.

sub crash {
    my ($points, $broken) = @_;

    my ($ok, $output) = Nginx->new(modules => ['etcd'])->configtest(
        "load_module $module;\netcd_crash $points @{[ $broken // '' ]};\n");
    my %result = (faults => [$output =~ /^fault: (.*)$/mg],
                  allocator => [$output =~ /^allocator: (.*)$/mg],
                  lost => { $output =~ /^lost: (\S+) (\d+)$/mg });

    @result{qw(points tried twice found)}
        = $output =~ /^crash: (\d+) (\d+) (\d+) (\d+) \d+$/m
        or diag($output);

    return \%result;
}


# the line of the code where the process was killed, if it is known

sub place {
    my ($fault) = @_;

    my ($file, $offset) = $fault =~ /^\S+ \S+ (\S+)\+(0x[0-9a-f]+): /
        or return $fault;
    my (undef, $line) = eval { run('addr2line', '-f', '-s', '-e', $file,
                                   $offset) };

    return defined $line && $line =~ /^(\w+)\n(\S+)/ ? "$fault ($1, $2)"
                                                     : $fault;
}


my $all = crash($ENV{TEST_SOAK} ? 0 : POINTS);
my $seen = ($all->{tried} // 0) + ($all->{twice} // 0);
my @faults = @{ $all->{faults} };

diag("$all->{points} points, killed at $all->{tried}, and $all->{twice} times "
     . 'at one more of the next owner, ' . @{ $all->{allocator} }
     . " times harmed by nginx's allocator")
    if defined $all->{points};

cmp_ok($all->{points} // 0, '>', LEAST, 'instructions that change the zone');
is($all->{tried}, $all->{points}, 'a process is killed after each of them');
cmp_ok($seen, '>', POINTS * 0.9, 'and the next owner after some');
is($all->{found}, 0, 'the next owner makes good whatever they left')
    or diag(join("\n", map { place($_) } grep { defined }
                       @faults[0 .. SHOWN - 1]));

# A kill loses no more of the zone than was being written.

is_deeply([grep { $all->{lost}{$_} > 8192 } sort keys %{ $all->{lost} }], [],
          'no kill takes more than two pages of the zone')
    or diag(explain($all->{lost}));

# Owners at fault: lists are not counted again, sets that were given back in
# part stay so, and nobody releases the mutex.

for my $broken (qw(recover retire unlock)) {
    cmp_ok(crash(FEW, $broken)->{found}, '>', 0,
           "an owner that does not $broken is found");
}

finish();
