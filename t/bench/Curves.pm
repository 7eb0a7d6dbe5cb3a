package Curves;

# A picture beside RESULTS.md, by gnuplot.

use strict;
use warnings;

use File::Basename qw(dirname);
use FindBin;


# Both axes are logarithmic; curves are [TITLE, [X, Y], ...].  Returns a
# paragraph that shows the picture.

sub draw {
    my ($name, $title, $x, $y, @curves) = @_;

    my $dir = $ENV{BENCH_RESULTS} ? dirname($ENV{BENCH_RESULTS})
                                  : $FindBin::Bin;

    my $data = join('', map {
        my ($label, @points) = @{ $curves[$_] };

        "\$curve$_ << END\n" . join('', map { "@$_\n" } @points) . "END\n"
    } 0 .. $#curves);

    my $plot = join(', ', map {
        "\$curve$_ with linespoints title '$curves[$_][0]'"
    } 0 .. $#curves);

    open(my $gnuplot, '|-', 'gnuplot') or die "gnuplot: $!\n";

    print $gnuplot <<"END";
set terminal svg size 900,600 dynamic background 'white'
set output '$dir/$name'
set title '$title' noenhanced
set xlabel '$x'
set ylabel '$y'
set logscale xy
set grid
set key left top noenhanced
$data
plot $plot
END

    close($gnuplot) or die "gnuplot failed\n";

    return "![$title]($name)";
}


1;
