#!/usr/bin/perl

# Many keys of one address: which of them shows, beside a model; what is left
# when the agent is killed at any instruction; and that one more key takes no
# more steps the more there are of them.  Many members of one key, too.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Unit;

use constant {
    SEED    => $ENV{TEST_SEED} || 20261123,
    CHANGES => $ENV{TEST_ROUNDS} || 300,
    KILLS   => $ENV{TEST_KILLS} || 150,
};


for my $case (['changes', CHANGES], ['owners', CHANGES], ['kills', KILLS]) {
    my ($what, $rounds) = @$case;
    my $seed = SEED;
    my ($answer) = unit('set 0 round_robin', "addresses $what $seed $rounds");

    is(join(' ', @{ $answer // [] }), "$rounds ok",
       "$what: as the model has them")
        or diag("seed $seed");
}

my ($few, $many) = map {
    (unit('set 0 round_robin', "instructions $_"))[0][0]
} 500, 32_000;

cmp_ok($few, '>', 0, "$few instructions among 500 keys");
cmp_ok($many, '<', 3 * $few, "$many among 32000");

# many members of one key: each is found, and leaves, at once

my ($one, $two) = map {
    (unit('set 0 round_robin', "members $_"))[0]
} 500, 8_000;

is("$one->[0] $two->[0]", '500 8000', 'members of a key');
cmp_ok($one->[1], '>', 0, "$one->[1] instructions for one of 500");
cmp_ok($two->[1], '<', 3 * $one->[1], "$two->[1] for one of 8000");

finish();
