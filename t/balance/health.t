#!/usr/bin/perl

# Balancing alone: members that fail, are full, or start slowly, several
# workers, a worker that is killed, and keys when members leave.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use Test::More;

use Finish;
use Unit;

use constant KEYS => 10_000;

my @methods = ('round_robin', 'least_conn', 'random', 'ewma');
my @hashes = ('hash', 'hash consistent');


sub sum { my $sum = 0; $sum += $_ for @_; return $sum }
sub different { return scalar(keys %{ { map { $_ => 1 } @_ } }) }


# A request tries each member once, whatever the method; if all failed, as nginx
# does.

for my $method (@methods, @hashes) {
    my ($tried, $after, $picks) = unit(
        "set 1 $method", 'add 0 6', 'sync 0', 'retry 0 7', 'order 0 1',
        'time 11000', 'order 0 6',
    );

    is(join(' ', sort @$tried), '-1 0 1 2 3 4 5',
       "$method: one request tries each once");
    is("@$after", '-1', "$method: all have failed");
    is(different(@$picks), 6, "$method: each is tried after fail_timeout")
        unless $method =~ /random|ewma/;
    cmp_ok(sum(map { $_ >= 0 } @$picks), '==', 6, "$method: all can be");
}

# A failed member is out of the way, and back after fail_timeout; with
# max_fails=0 it never is.

for my $method (@methods) {
    my ($n) = unit(
        "set 1 $method", 'add 0 40 max_fails=1 fail_timeout=20s', 'open 0 30',
        'close 0 30 failed', 'order 0 2000', 'time 10000', 'order 0 2000',
        'time 11000', 'order 0 4000',
    ) or next;
    my (undef, undef, $out, $still, $back) = unit(
        "set 1 $method", 'add 0 40 max_fails=1 fail_timeout=20s', 'open 0 10',
        'close 0 10 failed', 'order 0 2000', 'time 10000', 'order 0 2000',
        'time 11000', 'order 0 4000',
    );

    my $left = different(@$out);

    cmp_ok($left, '<', 40, "$method: who failed gets nothing");
    cmp_ok($left, '>=', 30, "$method: others do");
    is(different(@$out, @$still), $left, "$method: within fail_timeout");
    is(different(@$back), 40, "$method: then all do");

    my (undef, undef, $never) = unit(
        "set 1 $method", 'add 0 4 max_fails=0', 'open 0 400',
        'close 0 400 failed', 'order 0 400',
    );

    is(different(@$never), 4, "$method: max_fails=0");
}

# Weight that is lost by a failure comes back, one a pick.

my (undef, undef, $lost) = unit(
    'set 1 round_robin', 'add 0 1 weight=100 max_fails=4', 'add 1 1 weight=100',
    'open 0 1', 'close 0 1 failed', 'order 0 200',
);
my $first = grep { $_ == 0 } @$lost[0 .. 49];

cmp_ok($first, '>', 20, 'a member that has failed once gets less');
cmp_ok($first, '<', 25, 'of a hundred a quarter less, then gradually more');

# A lone member is never unavailable.

for my $method (@methods, @hashes) {
    my (undef, undef, $alone) = unit(
        "set 1 $method", 'add 0 1 max_fails=1', 'sync 0', 'open 0 3',
        'close 0 3 failed', 'order 0 2',
    );

    is("@$alone", '0 0', "$method: one member that fails");
}

# Members that come and go touch nothing of the others: connections, failures,
# and the weight that a member has lost.

my @others = map { ('add 2 300 weight=3', 'sync 0', 'remove 2 300', 'sync 0') }
             1 .. 3;

for my $method (@methods, @hashes) {
    my ($had, $has, $failed) = (unit(
        "set 1 $method", 'add 0 2 max_fails=2', 'sync 0', 'open 0 21',
        'conns 0 2', @others, 'conns 0 2', 'close 0 21', 'retry 0 2', @others,
        'retry 0 2', 'order 0 1',
    ))[1, 2, 6];

    is(sum(@$had), 21, "$method: connections of two");
    is("@$has", "@$had", "$method: others come and go, and they stay");
    is("@$failed", '-1', "$method: as do failures");
}

my ($lost_less) = (unit(
    'set 1 round_robin', 'add 0 1 weight=100 max_fails=4', 'add 1 1 weight=100',
    'open 0 1', 'close 0 1 failed', @others, 'order 0 200',
))[2];

is("@$lost_less[0 .. 49]", "@$lost[0 .. 49]",
   'and the weight that one has lost');

# Slow start: of a new member, of one that is back from failure, not of members
# from the first; and the share at any time.

my %picks = (round_robin => 6400, least_conn => 6400, random => 64_000,
             ewma => 64_000, hash => 64_000, 'hash consistent' => 64_000);

for my $method (@methods, @hashes) {
    my $n = $picks{$method};
    my $ask = $method =~ /hash/ ? "keys 0 $n" : "order 0 $n";
    my (@shares) = map { my $got = $_; sum(map { $_ == 10 } @$got) / $n } unit(
        "set 1 $method", 'add 0 10 slow_start=100s', 'news', 'sync 0',
        'add 10 1 slow_start=100s', 'sync 0', $ask, 'time 25000', $ask,
        'time 25000', $ask, 'time 50100', $ask,
    );

    my $all = $shares[-1];

    cmp_ok(abs($all - 1 / 11), '<', 0.02, "$method: at the end it has all");
    cmp_ok($shares[0], '<', $all / 16, "$method: it starts slowly");
    cmp_ok($shares[0], '>', 0, "$method: but it does") if $method !~ /hash/;
    cmp_ok(abs($shares[1] / $all - 1 / 4), '<', 0.06, "$method: a quarter");
    cmp_ok(abs($shares[2] / $all - 1 / 2), '<', 0.09, "$method: a half");
}

my (undef, undef, undef, $failed, undef, undef, $slow) = unit(
    'set 1 round_robin', 'add 0 2 slow_start=10s max_fails=1', 'order 0 4',
    'open 0 1', 'close 0 1 failed', 'order 0 20', 'time 11000', 'open 0 2',
    'close 0 2', 'order 0 64',
);

is(different(@$failed), 1, 'one of two has failed');
cmp_ok(sum(map { $_ != $failed->[0] } @$slow), '<', 4,
       'back from failure: it starts slowly');

# least_conn over workers: each sees the connections of the other.

my (undef, $a, undef, $b, undef, $both, undef, $all) = unit(
    'set 2 least_conn', 'add 0 10', 'open 0 15', 'conns 0 10',
    'open 1 15', 'conns 0 10', 'close 0 15', 'conns 0 10', 'open 1 5',
    'conns 0 10',
);

is(join('', sort @$a), '1111122222', 'least_conn: one worker');
is(join('', @$b), '3' x 10, 'least_conn: another fills up what it has left');
cmp_ok(max(@$all), '<=', 2, 'least_conn: and what it closes');

# Weights of 2500 in sum: no pick looks at all of a thousand members, and yet
# connections are in proportion to the weights.

my @opens = map { ("open 0 50", "open 1 50", "open 2 50", "open 3 50") }
                1 .. 10;
my ($spread, $level) = grep { @$_ == 1000 } unit(
    'set 4 least_conn', 'add 0 1000 weights=1-4', (map { "sync $_" } 0 .. 3),
    @opens, 'conns 0 1000', @opens, 'open 0 1000', 'conns 0 1000',
);

is(max(map { $spread->[$_] / (1 + $_ % 4) } 0 .. 999), 1,
   'least_conn: of many none gets more than others have');
is(sum(map { $level->[$_] == 2 * (1 + $_ % 4) } 0 .. 999), 1000,
   'and at last all have as many for their weights');

# max_conns, over workers, is never exceeded

my @full = unit(
    'set 3 least_conn', 'add 0 20 max_conns=3', 'open 0 25', 'open 1 100',
    'open 2 100', 'conns 0 20', 'close 0 5', 'open 2 100', 'time 1',
    'open 2 100', 'conns 0 20',
);

is("$full[0][0] $full[1][0] $full[2][0]", '25 35 0', 'max_conns: 60 in all');
is(max(@{ $full[3] }), 3, 'none has more');
is($full[5][0] + $full[6][0], 5, 'five that were closed by another worker');
is(join('', @{ $full[7] }), '3' x 20, 'all are full again');

is(join(' ', map { "@$_" } unit('set 1 round_robin', 'add 0 1', 'take 0 2',
                                'take 0 2', 'take 0 2', 'take 0 0')),
   '1 2 busy 3', 'whoever is too late gets none');

# A worker is killed.

my (undef, undef, $before, undef, $after, undef, $again) = unit(
    'set 2 round_robin', 'add 0 10', 'open 0 30', 'open 1 20', 'conns 0 10',
    'kill 0', 'conns 0 10', 'close 1 20', 'conns 0 10',
);

is("@$before", '5 ' x 9 . '5', 'connections of two workers');
is("@$after", '2 ' x 9 . '2', 'one is killed: those of the other');
is("@$again", '0 ' x 9 . '0', 'and none at the end');

# A killed worker had many connections, to many members: they are given back in
# pieces.

my $others = (unit('set 2 round_robin', 'add 0 20000', 'open 0 50000',
                   'open 1 20000', 'kill 0', 'conns 0 20000'))[3];

is(sum(@{ $others // [] }), 20_000, 'of thousands those of the other worker');

# A member that leaves or comes back moves its own keys only; a change of weight
# moves no more keys than necessary.

my ($was, $left, $down, $is, $more) = unit(
    'set 1 hash consistent', 'add 0 50', 'sync 0', 'keys 0 ' . KEYS,
    'remove 7 1', 'sync 0', 'keys 0 ' . KEYS,
    'add 7 1', 'add 9 1 down', 'sync 0', 'keys 0 ' . KEYS,
    'add 9 1', 'sync 0', 'keys 0 ' . KEYS,
    'add 20 1 weight=2', 'sync 0', 'keys 0 ' . KEYS,
);


# the number of keys in which two results differ, without keys of the member

sub moved {
    my ($one, $two, $member) = @_;

    return scalar(grep { $one->[$_] != $two->[$_] && $one->[$_] != $member
                         && $two->[$_] != $member } 0 .. KEYS - 1);
}


is(moved($was, $left, 7), 0, 'consistent: who leaves moves its own keys');
is(sum(map { $_ == 7 } @$left), 0, 'and has none');
is(moved($was, $down, 9), 0, 'consistent: so does who is down');
is_deeply($is, $was, 'consistent: all are back');
is(moved($was, $more, 20), 0, 'consistent: more weight takes keys only');
cmp_ok(sum(map { $_ == 20 } @$more), '>',
       1.5 * sum(map { $_ == 20 } @$was), 'and that about as many again');

($was, $down) = unit(
    'set 1 hash', 'add 0 50', 'sync 0', 'keys 0 ' . KEYS, 'add 9 1 down',
    'sync 0', 'keys 0 ' . KEYS,
);

is(moved($was, $down, 9), 0, 'hash: who is down moves its own keys');

# Thousands of changes at once, in pieces, have the same result as all at once.

for my $method ('round_robin', @hashes) {
    my @changes = ('add 0 1000 weights=1-3', 'sync 1', 'remove 100 700',
                   'sync 1', 'add 300 900 weight=2', 'sync 1',
                   'add 0 1200 weights=1-2', 'sync 1', 'remove 5 1000',
                   'sync 1');
    my $ask = $method =~ /hash/ ? 'keys 1 2000' : 'picks 1 60000';

    my ($pieces) = unit("set 2 $method", @changes, $ask);
    my ($once) = unit("set 2 $method", (grep { !/^sync/ } @changes), 'sync 1',
                      $ask);

    if ($method =~ /hash/) {
        is_deeply($pieces, $once, "$method: in pieces");
    } else {
        is($pieces->[0], 200, "$method: all are there");
        cmp_ok($_->[1], '<', 1, "$method: in pieces, or at once")
            for $pieces, $once;
    }
}

finish();
