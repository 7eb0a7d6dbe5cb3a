package Disk;

# An etcd whose disk stands still, or is slow.
#
#     Disk::need();                     # skips the test without strace
#     my $disk = Disk->still($etcd);
#     my $disk = Disk->slow($etcd, ms => 500);
#     $disk->waits;                     # etcd waits for it, or has done so
#     $disk->moves();                   # ends it
#
# strace delays each fdatasync() and fsync() of etcd's process, on any file
# system.  The constructor returns when strace traces all threads: the next call
# is delayed.  An etcd whose disk stands still keeps its connections and answers
# from its memory, but takes no part in Raft: a leader is deposed by the others
# and does not learn it.
#
# moves() ends a delay at once: strace detaches, and the kernel performs the
# call that was delayed.  etcd stays stopped if SIGSTOP has stopped it.  The end
# of the test ends strace, and thus a delay, too.
#
# A killed etcd is no longer traced, and its successor never is.  An etcd that
# is to end by SIGTERM may have to write first: call moves() before stop().

use strict;
use warnings;

use IO::Handle;
use POSIX qw(:sys_wait_h);
use Test::More ();

use Finish;
use Process;
use Wait;

use constant {
    CALLS => 'fdatasync,fsync',
    STILL => 1800 * 1000,           # ms; in us it has to fit in 31 bits
};

my $count = 0;
my $reason;


# skips the test where strace cannot trace another process

sub need {
    return if $^C;

    if (!usable()) {
        Test::More::plan(skip_all => why_not());
    }
}


sub usable { why_not() eq '' }


# the reason why strace cannot be used, or an empty string

sub why_not {
    if (!defined $reason) {
        $reason = probe();
        $reason =~ s/\s+/ /g;
    }

    return $reason;
}


# strace makes the fsync() of a child fail.

sub probe {
    my $path = test_dir() . '/probe';

    pipe(my $input, my $go) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        close($go);

        open(my $file, '>', $path) or POSIX::_exit(2);
        sysread($input, my $byte, 1);

        POSIX::_exit(!$file->sync && $!{EIO} ? 0 : 1);
    }

    close($input);

    my $self = bless { pid => $pid }, 'Disk';
    my $attached = $self->attach(CALLS . ':error=EIO');

    close($go);

    local $?;

    waitpid($pid, 0);

    my $works = $? == 0;

    $self->detach();

    return $works ? '' : 'strace cannot delay what other processes do: '
           . ($attached ? 'it changes nothing' : $self->output);
}


sub still { $_[0]->trace($_[1], STILL) }


sub slow {
    my ($class, $etcd, %options) = @_;

    return $class->trace($etcd, $options{ms});
}


sub trace {
    my ($class, $etcd, $ms) = @_;

    my $self = bless { pid => $etcd->pid // die("no etcd runs\n") }, $class;

    Finish::later($self);

    $self->attach(CALLS . ':delay_enter=' . int($ms * 1000))
        or die 'strace does not trace etcd: ', $self->output, "\n";

    # Etcd stops the trace before it ends the process.

    $etcd->{disk} = $self;

    return $self;
}


sub attach {
    my ($self, $injection) = @_;

    my $file = test_dir() . '/strace' . ++$count;

    $self->{calls} = "$file.calls";
    $self->{log} = "$file.log";

    $self->{strace} = spawn($self->{log}, 'strace', '-f', '-q',
                            '-o', $self->{calls}, '-e', 'trace=' . CALLS,
                            '-e', 'signal=none', '-e', "inject=$injection",
                            '-p', $self->{pid});

    wait_for { $self->is_attached || $self->has_ended } 20, 'strace';

    return $self->is_attached;
}


# Does strace trace all threads?  It traces new threads from their beginning.

sub is_attached {
    my ($self) = @_;

    my $strace = $self->{strace} // return 0;
    my @tracers = $self->tracers;

    return @tracers && !grep { $_ != $strace } @tracers;
}


# for each thread the pid of the process that traces the thread, or 0

sub tracers {
    my ($self) = @_;

    my @tracers;

    for my $thread (glob("/proc/$self->{pid}/task/*/status")) {
        open(my $status, '<', $thread) or next;
        push @tracers, map { /^TracerPid:\s+(\d+)/ } <$status>;
    }

    return @tracers;
}


sub has_ended {
    my ($self) = @_;

    local $?;

    if (defined $self->{strace} && waitpid($self->{strace}, WNOHANG) != 0) {
        delete $self->{strace};
    }

    return !defined $self->{strace};
}


# true as soon as a call was delayed

sub waits {
    my ($self) = @_;

    open(my $file, '<', $self->{calls}) or return 0;

    return scalar(grep { /sync\(/ } <$file>);
}


sub moves {
    my ($self) = @_;

    $self->detach();

    wait_for { !grep { $_ } $self->tracers } 10, 'strace to let go of etcd';
}


sub stop { $_[0]->detach() }


# strace ends by itself if the process that it traces has ended.

sub detach {
    my ($self) = @_;

    if (!$self->has_ended) {
        stop_child(delete $self->{strace});
    }
}


sub output {
    my ($self) = @_;

    open(my $file, '<', $self->{log}) or return '';
    local $/;

    return (<$file> // '') || 'no strace';
}


1;
