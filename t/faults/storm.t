#!/usr/bin/perl

# Storms on a system where strace may not delay writes of etcd: faults of disks
# are missing, and the summary says so.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Storm;

my ($usable, @told, @began) = (1);

{
    no warnings 'redefine';

    *Disk::usable = sub { $usable };
    *Disk::why_not = sub { $usable ? '' : 'strace may not attach' };
    *Test::More::diag = sub { push @told, join('', @_) };
}

# Nothing happens to this cluster.

{
    package Calm;

    sub members { $_[0] }
    sub wait_healthy { }
    sub ask { }
}


# Of etcd's own faults only those of disks may begin.

sub storm {
    return Storm->new(
        seed    => 7,
        cluster => bless({ name => 'calm' }, 'Calm'),
        nginxes => 1,
        faults  => {
            'one' => [0, sub { push @began, 'one'; return }],
            'two' => [0, sub { push @began, 'two'; return }],
        },
        @_,
    );
}


sub names { sort map { $_->{name} } $_[0]->plan($_[1]) }

my @first = ("the leader's disk stands still", 'one');

my $whole = storm();

is_deeply([names($whole, \@first)], [sort @first], 'a storm by its names');
is_deeply(\@told, [], 'all faults are there');
unlike($whole->summary, qr/NOT RUN/, 'as the summary says');

$usable = 0;
delete $ENV{TEST_SOAK};

my $storm = storm();

is(scalar(@told), 1, 'without strace: said once');
like($told[0], qr/without faults of disks: strace may not attach/, 'and why');

$storm->rage(0, \@first, ['two'], \@first);

is_deeply(\@began, ['one', 'two', 'one'], 'the others begin');
is(scalar(@told), 1, 'nothing else is said');
is($storm->summary, '3 storms: NOT RUN: a disk is slow, a disk stands still, '
                    . "the leader's disk stands still; one: 2, two: 1",
   'the summary names those that were not run');

my %drawn = map { ($_ => 1) } map { names($storm) } 1 .. 500;

is_deeply([grep { /disk/ } keys %drawn], [], 'none is drawn');
cmp_ok(scalar(keys %drawn), '>', 5, 'others are');

is(eval { $storm->plan(['on']); 1 }, undef, 'a name that is no fault');
like($@, qr/no such fault: on/, 'is refused');

$ENV{TEST_FAULTS} = 'a disk stands still, one';
is_deeply([grep { $_ ne 'one' } map { names(storm()) } 1 .. 9], [],
          'TEST_FAULTS');

$ENV{TEST_FAULTS} = 'a disk stands still';
is(eval { storm(); 1 }, undef, 'TEST_FAULTS with faults of disks alone');

finish();
