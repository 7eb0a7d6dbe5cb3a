#!/usr/bin/perl

# Porcupine refuses invented histories of a lock and of what it protects, and
# accepts their like without the fault.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Porcupine;

ok(Porcupine::is_built(), 'tools/clients has built the program') or exit(1);


# [WHO, TOKEN, FROM, UNTIL]: who asks a second before, and never hears that the
# lock was released.

sub holds {
    return map {
        my ($who, $token, $from, $until) = @$_;

        ({ what => 'acquire', who => $who, token => $token,
           call => $from - 1, return => $from },
         { what => 'release', who => $who, call => $until });
    } @_;
}


sub adds { map { { what => 'add', who => $_->[0], wrote => $_->[1],
                   call => $_->[2], return => $_->[3] } } @_ }

ok(Porcupine::accepts('mutex', holds(['a', 5, 10, 11], ['b', 6, 12, 13],
                                     ['a', 7, 13.5, 14])),
   'one after the other');
ok(!Porcupine::accepts('mutex', holds(['a', 5, 10, 12], ['b', 6, 11, 13])),
   'not two inside');
ok(Porcupine::accepts('mutex', holds(['a', 5, 10, 11], ['b', 6, 11, 13])),
   'at the same time');
ok(!Porcupine::accepts('mutex', holds(['a', 6, 10, 11], ['b', 5, 12, 13])),
   'not a token that goes back');
ok(!Porcupine::accepts('mutex', holds(['a', 5, 10, 11], ['b', 5, 12, 13])),
   'nor the same twice');
ok(Porcupine::accepts('mutex', holds(['b', 6, 10.5, 12], ['a', 5, 10, 10.2])),
   'in the order of times, not of lines');
ok(!Porcupine::accepts('mutex', grep { $_->{what} ne 'release' }
                                holds(['a', 5, 10, 11], ['b', 6, 12, 13])),
   'nobody has released it');

ok(Porcupine::accepts('counter', adds(['a', 1, 10, 11], ['b', 2, 12, 13])),
   'two add');
ok(Porcupine::accepts('counter', adds(['a', 2, 10, 13], ['b', 1, 11, 12])),
   'one within the other');
ok(!Porcupine::accepts('counter', adds(['a', 1, 10, 13], ['b', 1, 11, 12])),
   'not a lost update');
ok(!Porcupine::accepts('counter', adds(['a', 2, 10, 11], ['b', 1, 12, 13])),
   'not in the other order');

finish();
