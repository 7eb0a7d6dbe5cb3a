#!/usr/bin/perl

# "config" refuses systems that the modules cannot be built for, and says why.
# It runs in a shell with the variables that nginx's configure has.

use strict;
use warnings;

use FindBin;
use Test::More;

my $SENTENCE = 'error: nginx-etcd needs a 64-bit system: its workers share '
               . '64-bit words, which a 32-bit system does not read in one '
               . 'piece';


sub configure {
    my ($pointer) = @_;

    my $top = "$FindBin::Bin/../..";
    my $output = `(cd '$top' && ngx_ptr_size=$pointer && . ./config) 2>&1`;

    return ($? >> 8, $output);
}


my ($status, $output) = configure(4);

is($status, 1, 'a 32-bit system: configure fails');
like($output, qr/ $SENTENCE$/m, 'and says why');

# This part needs functions of configure.

unlike((configure(8))[1], qr/$SENTENCE/, 'a 64-bit system');

done_testing();
