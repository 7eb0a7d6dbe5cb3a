package Wait;

# wait_for { condition } SECONDS, 'what': asks again and again until the
# condition is true and returns its value; after SECONDS it says what it was
# waiting for and returns false.  Where nobody looks at the value, it dies
# instead: the test cannot go on.  TEST_SLOWER multiplies SECONDS.
#
# SECONDS are those of an idle machine.  Where three processes want to run on
# each processor, time counts for a third.  The pause between two questions is a
# control: one that takes longer than it was asked for counts for less, too.
#
# can_read(SOCKET, \SECONDS): whether something comes within SECONDS, which are
# less by the time that it took.  A tick that takes longer than TICK counts as
# TICK.

use strict;
use warnings;

use Exporter 'import';
use IO::Select;
use List::Util qw(max min);
use Time::HiRes qw(sleep time);

our @EXPORT = qw(wait_for);
our @EXPORT_OK = qw(can_read);

use constant {
    LONGEST_PAUSE => 0.02,
    TICK          => 0.1,
};


my $processors;


sub wait_for(&;$$) {
    my ($condition, $seconds, $what) = @_;

    $seconds = ($seconds // 10) * ($ENV{TEST_SLOWER} || 1);

    my $left = $seconds;
    my $pause = 0.001;
    my $last = time();

    while (1) {
        my $value = $condition->();

        if ($value) {
            return $value;
        }

        if ($left <= 0) {
            last;
        }

        my $begun = time();

        sleep($pause);

        my $now = time();

        my $slept = max($pause, $now - $begun);

        $left -= ($now - $last) * min(share(), $pause / $slept);
        $last = $now;
        $pause = min(LONGEST_PAUSE, $pause * 2);
    }

    my $gave_up = "gave up after $seconds s waiting for "
                  . ($what // 'a condition');

    if (!defined wantarray) {
        die "$gave_up\n";
    }

    print STDERR "# $gave_up\n";

    return;
}


sub can_read {
    my ($socket, $left) = @_;

    my $select = IO::Select->new($socket);

    # A signal is no timeout.

    while (1) {
        my $tick = max(0, min($$left, TICK));
        my $begun = time();
        my $ready = $select->can_read($tick);

        $$left -= min(time() - $begun, $tick) * share();

        return 1 if $ready;
        return 0 if $$left <= 0.001;
    }
}


# the share of a processor, at most 1, for a process that wants to run now

sub share {
    $processors //= processors();

    open(my $file, '<', '/proc/loadavg') or return 1;

    my ($running) = <$file> =~ m{ (\d+)/};

    return $running > $processors ? $processors / $running : 1;
}


sub processors {
    open(my $file, '<', '/proc/stat') or return 1;

    return scalar(grep { /^cpu\d/ } <$file>) || 1;
}


1;
