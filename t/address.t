#!/usr/bin/perl

# Many keys of one address: which of them shows, beside a model; what is left
# when the agent is killed at any instruction; and that one more key takes no
# more steps the more there are of them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

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

finish();
