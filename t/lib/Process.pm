package Process;

# Child processes of a test: start with output into a file, signal, suspend,
# reap.

use strict;
use warnings;

use Exporter 'import';
use POSIX qw(:sys_wait_h);

use Finish;
use Wait;

our @EXPORT = qw(cpu_time own_memory run spawn stop_child is_running suspend
                 stands_still);

# seconds; a command that takes minutes on a busy machine has not failed

use constant PATIENCE => 600;

# A variable of "make test ETCD=..." is not one of another makefile.

delete @ENV{qw(MAKEFLAGS MFLAGS MAKEOVERRIDES)};


# runs a command to its end; returns the exit status and all it printed

sub run {
    my @command = @_;

    my $log = test_dir() . '/output';

    unlink($log);

    my $pid = spawn($log, @command);

    local $?;

    if (!wait_for { waitpid($pid, WNOHANG) != 0 } PATIENCE, "@command") {
        kill('KILL', $pid);
        waitpid($pid, 0);
    }

    my $status = $?;

    open(my $file, '<', $log) or return ($status, '');
    local $/;

    return ($status, <$file> // '');
}


# starts a command in the background and returns its pid

sub spawn {
    my ($log, @command) = @_;

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>>', $log);
        open(STDERR, '>&', \*STDOUT);
        exec { $command[0] } @command or POSIX::_exit(127);
    }

    return $pid;
}


sub stop_child {
    my ($pid, $signal, $seconds) = @_;

    local $?;

    kill('CONT', $pid);
    kill($signal // 'TERM', $pid);

    wait_for { waitpid($pid, WNOHANG) != 0 } $seconds // 10, "$pid to exit"
        and return 1;

    kill('KILL', $pid);
    waitpid($pid, 0);

    return 0;
}


# seconds of CPU time that processes have taken together

sub cpu_time {
    my $ticks = 0;

    for my $pid (@_) {
        open(my $stat, '<', "/proc/$pid/stat") or next;

        my ($user, $system) = (split(/ /, <$stat> =~ s/^.*\) //r))[11, 12];

        $ticks += $user + $system;
    }

    return $ticks / POSIX::sysconf(&POSIX::_SC_CLK_TCK);
}


# KB that a process shares with nobody

sub own_memory {
    my ($pid) = @_;

    # /proc/PID/status says what the kernel has counted so far, and may be some
    # hundred KB behind

    open(my $file, '<', "/proc/$pid/smaps_rollup") or return 0;
    local $/;

    return <$file> =~ /^Anonymous:\s+(\d+)/m ? $1 : 0;
}


# for processes that are not our children; a zombie does not run

sub is_running {
    my ($pid) = @_;

    open(my $stat, '<', "/proc/$pid/stat") or return 0;

    return (<$stat> // '') =~ /\) [^ZX] / ? 1 : 0;
}


# Stops processes by SIGSTOP.  Where processors are short, the threads of a
# process go on for a while after kill() returns, and answer what is asked then:
# returns when all stand still, or have ended.

sub suspend {
    my @pids = @_;

    kill('STOP', @pids);

    wait_for { !grep { !stands_still($_) } @pids } 20, "@pids to stand still"
        or die "SIGSTOP does not stop @pids\n";
}


sub stands_still {
    my ($pid) = @_;

    for my $thread (glob("/proc/$pid/task/*/stat")) {
        open(my $stat, '<', $thread) or next;
        return 0 if (<$stat> // '') =~ /\) [^TtZX] /;
    }

    return 1;
}


1;
