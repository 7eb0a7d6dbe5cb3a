package Cpus;

# A CPU for what is measured, and the others for all else.  There, who answers
# and who measures never waits for anybody else, by real-time priority; the rest
# of the benchmark comes next, and then everybody else on the machine.
#
#     Cpus::divide();                      # first: what is started is the rest
#     Cpus::alone($nginx->workers);        # to the CPU that nobody else is on
#     Cpus::aside($nginx->workers);        # to the others, as it was started
#     Cpus::first($backend->workers);      # before all others where they are
#     Cpus::spread($nginx->workers);       # each to another CPU, and the rest
#     run(Cpus::command(), 'clients');     # the same for a command
#
#     Cpus::move(0, $pid, ...);            # to that one, and nothing else
#
# Where that priority is not permitted note() says so, and is empty otherwise.
# A process is ended when it has run for SECONDS without a pause, and the kernel
# leaves others a part of each second.

use strict;
use warnings;

use Process;

use constant {
    FIRST   => 20,
    REST    => 10,
    SECONDS => 10,
};

my ($last, $permitted);


sub divide {
    $last = must('nproc') - 1;
    $permitted = (run('chrt', '-f', FIRST, 'true'))[0] == 0;

    move(others(), $$);
    rank(REST, $$);
}


sub others { $last > 1 ? '0-' . ($last - 1) : 0 }


sub alone {
    my @pids = @_;

    move($last, @pids);
    rank(FIRST, @pids);
}


sub aside {
    my @pids = @_;

    rank(REST, @pids);
    move(others(), @pids);
}


sub spread {
    my @pids = @_;

    move($_ % ($last + 1), pop @pids) for reverse($last - $#pids .. $last);
}


sub first { rank(FIRST, @_) }


sub command { $permitted ? ('chrt', '-f', FIRST) : () }


sub move {
    my ($cpus, @pids) = @_;

    must('taskset', '-cp', $cpus, $_) for @pids;
}


sub rank {
    my ($priority, @pids) = @_;

    return if !$permitted;

    for my $pid (@pids) {
        must('prlimit', '--pid', $pid, '--rttime=' . SECONDS * 1_000_000);
        must('chrt', '-f', '-p', $priority, $pid);
    }
}


sub note {
    return !$last ? 'There was one CPU for all.'
        : !$permitted ? 'Real-time priority was not permitted: who measures'
                        . ' has waited for a CPU, too.'
        : '';
}


sub must {
    my @command = @_;

    my ($status, $output) = run(@command);

    $status == 0 or die "@command: $output\n";

    return $output;
}


1;
