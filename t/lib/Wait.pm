package Wait;

# wait_for { condition } SECONDS, 'what': asks again and again until the
# condition is true and returns its value; after SECONDS it says what it was
# waiting for and returns false.  Where nobody looks at the value, it dies
# instead: the test cannot go on.  TEST_SLOWER multiplies SECONDS.

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

    my $gave_up = "gave up after $seconds s waiting for "
                  . ($what // 'a condition');

    if (!defined wantarray) {
        die "$gave_up\n";
    }

    print STDERR "# $gave_up\n";

    return;
}


1;
