package Slurp;

# slurp(PATH): the bytes of a file; dies where it cannot be read.

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(slurp);


sub slurp {
    my ($path) = @_;

    open(my $in, '<:raw', $path) or die "open $path: $!\n";
    local $/;

    return <$in> // '';
}


1;
