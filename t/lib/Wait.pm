package Wait;

# wait_for { condition } SECONDS, 'what': asks again and again until the
# condition is true and returns its value; after SECONDS it says what it was
# waiting for and returns false.  TEST_SLOWER multiplies SECONDS.

use strict;
use warnings;

use Exporter 'import';
use Time::HiRes qw(sleep time);

our @EXPORT = qw(wait_for);

use constant LONGEST_PAUSE => 0.02;


sub wait_for(&;$$) {
    my ($condition, $seconds, $what) = @_;

    $seconds = ($seconds // 10) * ($ENV{TEST_SLOWER} || 1);

    my $end = time() + $seconds;
    my $pause = 0.001;

    while (1) {
        my $value = $condition->();

        if ($value) {
            return $value;
        }

        if (time() >= $end) {
            last;
        }

        sleep($pause);
        $pause = $pause * 2 > LONGEST_PAUSE ? LONGEST_PAUSE : $pause * 2;
    }

    print STDERR "# gave up after $seconds s waiting for "
        . ($what // 'a condition') . "\n";

    return;
}


1;
