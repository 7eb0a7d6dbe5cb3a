#!/usr/bin/perl

# Balancing alone, without etcd and connections: how often each member is
# picked, also while members come and go.  Random picks are the same each time.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Compress::Zlib qw(crc32);
use List::Util qw(max);
use Test::More;

use Finish;
use Unit;

use constant {
    PICKS => 1_000_000,

    # 99 % of right distributions are below: degrees of freedom of 10 and 100
    # members.

    CHI_10  => 21.67,
    CHI_100 => 134.64,
};

my @methods = ('round_robin', 'least_conn', 'random', 'ewma');
my @hashes = ('hash', 'hash consistent');

# Members are picked in proportion to their weights.

for my $method (@methods) {
    my ($equal, $weights) = unit(
        "set 1 $method", 'add 0 10', 'picks 0 ' . PICKS,
        "set 1 $method", 'add 0 100 weights=1-100', 'picks 0 ' . PICKS,
    );

    is($equal->[0], 10, "$method: there are ten");
    cmp_ok($equal->[1], '<', CHI_10, "$method: as often as each other");
    is($weights->[0], 100, "$method: there are a hundred");
    cmp_ok($weights->[1], '<', CHI_100, "$method: as often as weights say");

    next if $method =~ /random|ewma/;

    cmp_ok($equal->[2], '<', 1, "$method: equals are never a turn away");
    cmp_ok($weights->[2], '<', 1, "$method: nor are others");
}

# Keys go to members in proportion to their weights: a member has 160 points for
# each unit, which makes its share differ by some 1/sqrt(160).

for my $method (@hashes) {
    my @keys = @{ (unit("set 1 $method", 'add 0 10 weight=10', 'sync 0',
                        'keys 0 100000'))[0] };
    my %got;

    $got{$_}++ for @keys;
    is(keys %got, 10, "$method: all get keys");
    cmp_ok(max(map { abs($_ / 10000 - 1) } values %got), '<',
           $method eq 'hash' ? 0.05 : 0.15, "$method: about as many");
}

# The part of all keys that each of a hundred members with weights from 1 on
# gets: nginx takes 15 bits of a CRC modulo the sum of weights, or the next of
# 160 points for each unit of weight.

sub shares_of_hash {
    my @shares = (0) x 100;
    my @at = map { ($_) x ($_ + 1) }
             sort { "10.0.0.$a:80" cmp "10.0.0.$b:80" } 0 .. 99;

    $shares[$at[$_ % @at]] += 1 / 32768 for 0 .. 32767;

    return @shares;
}


sub shares_of_ring {
    my (@points, @shares);

    for my $i (0 .. 99) {
        my $base = crc32("10.0.0.$i\0" . 80);
        my $hash = 0;

        for (1 .. 160 * ($i + 1)) {
            $hash = crc32(pack('V', $hash), $base);
            push @points, $hash * 128 + $i;
        }
    }

    my ($first, $last);

    for (sort { $a <=> $b } @points) {
        my $hash = $_ >> 7;

        $shares[$_ & 127] += ($hash - ($last // 0)) / 2 ** 32;
        $last = $hash;
        $first //= $_ & 127;
    }

    $shares[$first] += 1 - $last / 2 ** 32;

    return @shares;
}


my %shares = (hash              => [shares_of_hash()],
              'hash consistent' => [shares_of_ring()]);

for my $method (@hashes) {
    my (undef, $got) = unit("set 1 $method", 'add 0 100 weights=1-100',
                            'sync 0', 'keys 0 ' . PICKS, 'counts 0 100');
    my $chi = 0;

    for my $i (0 .. 99) {
        my $expected = PICKS * $shares{$method}[$i];

        $chi += ($got->[$i] - $expected) ** 2 / $expected;
    }

    cmp_ok($chi, '<', CHI_100, "$method: as many keys as it has to be");
}

# the order of equal members, and weights that do not divide each other

my ($order, $odd, $large, $one, $none) = unit(
    'set 1 round_robin', 'add 0 4', 'order 0 12',
    'set 1 round_robin', 'add 0 3 weights=3-5', 'add 3 40 weight=7',
    'add 43 1 weight=1000', 'picks 0 100000',
    'set 1 round_robin', 'add 0 200 weight=65535', 'add 200 1 weight=1',
    'add 201 1 weight=32767', 'picks 0 300000',
    'set 1 round_robin', 'add 0 1', 'order 0 3',
    'remove 0 1', 'order 0 2',
);

is("@$order", '0 1 2 3 0 1 2 3 0 1 2 3', 'round_robin: equals in rotation');
cmp_ok($odd->[2], '<', 1, 'round_robin: many of one weight and a heavy one');
cmp_ok($large->[2], '<', 1, 'round_robin: the highest weights');
is("@$one", '0 0 0', 'one member');
is("@$none", '-1 -1', 'no member');

# sums of weights of 2^31 - 1, of 2^31, and of more, some of which is not used

for my $method (@methods) {
    my @sums = unit("set 1 $method", 'add 0 32768 weight=65535',
                    'add 32768 1 weight=32767', 'sync 0', 'order 0 10000',
                    'add 32769 1', 'sync 0', 'order 0 10000',
                    'add 32769 231 weight=65535',
                    'add 33000 1000 weight=65535 down', 'sync 0',
                    'order 0 10000');

    for my $sum ('2^31 - 1', '2^31', 'over 2^31') {
        my @picks = grep { $_ >= 0 && $_ < 33000 } @{ shift @sums };
        my %different = map { $_ => 1 } @picks;

        is(@picks, 10_000, "$method: a sum of weights of $sum");
        cmp_ok(keys %different, '>', 8000, "$method: spread over all of them");
    }
}

# Members come and go: nobody is owed or given more than a turn by it.

my @changes = unit(
    'set 1 round_robin', 'add 0 50 weights=1-10', 'order 0 137',
    'add 50 1 weight=5', 'picks 0 20', 'add 51 30 weights=1-10', 'picks 0 999',
    'remove 10 20', 'picks 0 10000', 'add 31 1 weight=100', 'picks 0 10000',
    (map { ("remove 60 5", 'order 0 3', 'add 60 5 weight=4', 'order 0 2') }
         1 .. 100),
    'picks 0 10000',
    'set 1 round_robin', 'add 0 10', 'order 0 5',
    (map { ("add $_ 1 max_conns=100", 'order 0 1') } 0 .. 9), 'order 0 10',
);

my @picks = grep { @$_ == 3 && $_->[2] =~ /\./ } @changes;

is(@picks, 5, 'five times between changes');
cmp_ok(max(map { $_->[2] } @picks), '<', 2,
       'round_robin: never two turns away, of which one is from before');
is(join(' ', map { "@$_" } grep { @$_ == 1 } @changes[-11 .. -2]),
   '5 6 7 8 9 0 1 2 3 4', 'a member that is written anew keeps its turn');

# Many members come at once, and one leaves and comes: no burst.

my (undef, $new, undef, $flap) = unit(
    'set 1 round_robin', 'add 0 100', 'order 0 1234', 'add 100 100',
    'picks 0 400',
    'set 1 round_robin', 'add 0 10', 'order 0 1000',
    'remove 3 1', 'add 3 1', 'picks 0 5',
);

cmp_ok($new->[2], '<', 2, 'round_robin: a hundred come at once');
cmp_ok($flap->[2], '<', 1, 'round_robin: one goes and comes again');

# The work for thousands of members is done in pieces: steps, and the most
# members and points of a hash ring in one of them.  A reader looks at 64 slots
# at a time, but at all of the last 256 changes; the time of that is measured by
# the benchmarks.

use constant {
    SLOTS  => 64,
    RING   => 256,
    POINTS => 32,
};

for my $method (@methods, @hashes) {
    my @steps = unit("set 1 $method",
                     'add 0 10000 priority=2', 'steps 0',
                     'add 10000 10 priority=2', 'steps 0',
                     'add 10010 1 priority=1', 'steps 0',
                     'remove 10010 1', 'steps 0',
                     'remove 0 9000', 'steps 0',
                     'orphan', 'steps 0');

    my @want = (10000 / SLOTS, 1, 10000 / SLOTS, 10000 / SLOTS, 9000 / SLOTS,
                1000);
    my @what = ('ten thousand come', 'ten more come', 'they are backup',
                'they serve again', 'most of them go', 'a set is given up');

    for my $i (0 .. $#want) {
        cmp_ok($steps[$i][0], '>=', $want[$i],
               "$method: $what[$i] in so many steps");
    }

    cmp_ok(max(map { $_->[1] } @steps), '<=', SLOTS + RING,
           "$method: of so many members at most");
    is(join(' ', map { $_->[3] } @steps), '0 0 0 0 0 0',
       "$method: with no revision before it is read");

    next if $method ne 'hash consistent';

    cmp_ok($steps[0][0], '>=', 10000 * 160 / POINTS, "$method: and of points");
    cmp_ok(max(map { $_->[2] } @steps), '<=', POINTS,
           "$method: of so many points at most");
}

# A step tells whether it can be gone on with: not while another process writes.

is(join(' ', map { $_->[0] } unit('set 1 round_robin', 'add 0 10000', 'call 0',
                                  'call 0 held', 'call 0',
                                  'steps 0', 'call 0')),
   'again busy again ' . (unit('set 1 round_robin', 'add 0 10000',
                                    'call 0', 'call 0', 'steps 0'))[2][0]
   . ' ok', 'what a step returns');

# Weights do not size a ring: the points of all members are scaled down.  The
# parts of members, by points, stay what they are by weights.

use constant {
    MOST  => 3_900_000,
    KB    => 64 * 1024,
};

for my $case (['add 0 10 weight=65535'],
              ['add 0 3 weight=65535', 'add 3 40 weight=100'])
{
    my $name = join(', ', @$case);
    my ($ring) = unit('set 1 hash consistent', @$case, 'sync 0', 'ring 0');
    my ($points, $kb, undef, $least, $most) = @$ring;

    cmp_ok($points, '>', MOST / 2, "$name: as many points as there may be");
    cmp_ok($points, '<=', MOST, "$name: and no more");
    cmp_ok($kb, '<=', KB, "$name: in 64 MB");
    cmp_ok($most / $least, '<=', 1.01, "$name: in proportion to weights");
}

is((unit('set 1 hash consistent', 'add 0 243 weight=100', 'sync 0',
         'ring 0'))[0][0], 243 * 100 * 160,
   'up to there as many points as nginx has');

# Workers have the same ring after any events, wherever a step was interrupted.
# The sum of weights crosses the limit again and again.

{
    my @commands = ('set 2 hash consistent');
    my %members;

    srand(7);

    for (1 .. 25) {
        my $n = int(rand(12));
        my $weight = 1 + int(rand(9000));

        push @commands, "remove $n 1" if $members{$n};
        $members{$n} = rand() < 0.6;
        push @commands, "add $n 1 weight=$weight" if $members{$n};
        push @commands, 'some 0 ' . int(rand(4000)) if rand() < 0.8;
    }

    push @commands, 'sync 0', 'ring 0', 'sync 1', 'ring 1';

    my @got = unit(@commands);
    my ($last, $fresh) = grep { @$_ == 5 } @got;

    is_deeply([@$last[0, 2, 3, 4]], [@$fresh[0, 2, 3, 4]],
              'a ring is what its members make it');
    cmp_ok($last->[1], '<=', KB, 'in 64 MB');
}

# A worker that was the agent changes nothing after another one has taken over:
# the second growth of a set, from 16 slots to 64.

is_deeply([unit('set 1 round_robin', 'add 0 3', 'grow')],
          [[qw(again 0 done 48)]], 'the owner alone adds slots');

# A process that holds the mutex is put aside: a reload does not fail for that.

is_deeply([unit('set 1 round_robin', 'held 100')], [[qw(again done)]],
          'the master waits for the mutex');

# The members of the lowest priority serve, whatever number it is, and share as
# they would without the others.

sub range {
    my @sorted = sort { $a <=> $b } @_;

    return "$sorted[0]-$sorted[-1]";
}

for my $method (@methods, @hashes) {
    my $ask = $method =~ /hash/ ? 'keys 0 2000' : 'order 0 2000';

    my @got = unit(
        "set 1 $method", 'add 0 300 priority=20', 'sync 0', $ask,
        'add 300 20 priority=10', 'sync 0', $ask, 'remove 300 20', 'sync 0',
        $ask, 'add 300 20', 'add 0 300 priority=40', 'add 300 20 priority=50',
        'add 400 5 backup', 'sync 0', $ask, 'add 0 300 priority=60', 'sync 0',
        $ask, 'add 300 20 priority=50 down', 'sync 0', $ask,
        'add 0 300 drain', 'sync 0', $ask, 'add 300 1 priority=70', 'sync 0',
        $ask,
    );

    is(join(' ', map { range(@$_) } @got), '0-299 300-319 0-299 0-299 300-319 '
       . '0-299 400-404 300-300', "$method: priorities");

    next if $method !~ /hash/;

    is_deeply($got[2], $got[0], "$method: keys go where they went before");
}

# no member, one member, and an empty key

for my $method (@methods, @hashes) {
    my @got = unit(
        "set 1 $method", 'order 0 2', 'keys 0 2', 'add 0 1', 'order 0 2',
        'keys 0 2', 'remove 0 1', 'order 0 1', 'add 0 3', 'sync 0',
        'order 0 300', 'counts 0 3',
    );

    is(join(', ', map { "@$_" } @got[0 .. 4]), '-1 -1, -1 -1, 0 0, 0 0, -1',
       "$method: no member, and one");
    cmp_ok(max(map { abs($_ - 100) } @{ $got[6] }), '<',
           $method =~ /random|ewma/ ? 50 : 1,
           "$method: without a key all get as much");
}

# Keys, and a sum of weights of more than 2^31: nginx's "hash" knows 2^15 keys,
# all of which are the first member's then.

for my $method (@hashes) {
    my ($keys) = unit("set 1 $method",
                      $method eq 'hash' ? 'add 0 33000 weight=65535'
                                        : 'add 0 3 weight=6553',
                      'sync 0', 'keys 0 2000');

    is(scalar(grep { $_ < 0 } @$keys), 0, "$method: high weights");
    is(max(@$keys), $method eq 'hash' ? 0 : 2, "$method: as nginx does it");
}

# members that take no requests

for my $method (@methods, @hashes) {
    my @got = unit(
        "set 1 $method", 'add 0 4 down', 'sync 0', 'order 0 1',
        'add 0 4 drain', 'order 0 1', 'add 4 1 backup', 'sync 0', 'order 0 2',
        'add 0 4 max_conns=1', 'sync 0', 'open 0 9', 'conns 0 5',
        'add 4 1 down', 'order 0 1', 'close 0 1', 'open 0 2',
    );

    my @want = ('-1', '-1', '4 4', '9', '1 1 1 1 5', '-1', '1', '1');

    is_deeply([map { "@$_" } @got], \@want,
              "$method: down, drain, backup, and max_conns");
}

finish();
