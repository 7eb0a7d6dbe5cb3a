package Stall;

# For how long the machine stood still: what a test measures may take longer by
# that, and by nothing else.
#
#     my $stall = Stall->watch();
#     my $start = time();
#     ...
#     cmp_ok(time() - $start - $stall->since($start), '<=', 1, 'in time');
#
#     # does it again where it was false and a stall of 0.1 s may be why
#     ok($stall->again(0.1, sub { ... }), 'it works');
#
# On each core that the test may use a process looks at the clock all the time,
# and notes when it was kept from that.  Only stalls that are longer than LEAST
# count; those of several cores at once count once.

use strict;
use warnings;

use IO::Handle;
use List::Util qw(max min);
use POSIX ();
use Socket qw(AF_UNIX PF_UNSPEC SOCK_STREAM);
use Time::HiRes qw(time);

use Finish;
use Process;

use constant {
    TICK  => 0.01,
    LEAST => 0.05,
    TIMES => 10,
};


sub watch {
    my ($class) = @_;

    my $self = bless { watchers => [map { watcher($_) } cores()] }, $class;

    Finish::later($self);

    return $self;
}


sub cores {
    open(my $file, '<', '/proc/self/status') or die "status: $!\n";

    my ($list) = map { /^Cpus_allowed_list:\s+(\S+)/ ? $1 : () } <$file>;

    return map { /^(\d+)-(\d+)$/ ? $1 .. $2 : $_ } split(/,/, $list);
}


sub watcher {
    my ($core) = @_;

    socketpair(my $ours, my $its, AF_UNIX, SOCK_STREAM, PF_UNSPEC)
        or die "socketpair: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        close($ours);
        $its->autoflush(1);
        eval { look_on($core, $its); 1 } or warn $@;
        POSIX::_exit(1);
    }

    $ours->autoflush(1);

    return { pid => $pid, socket => $ours };
}


# the watcher's side; who asks gets all stalls so far, on one line

sub look_on {
    my ($core, $socket) = @_;

    my @stalls;
    my $ready = '';

    open(my $null, '>', '/dev/null') or die "/dev/null: $!\n";
    open(STDOUT, '>&', $null) or die "/dev/null: $!\n";
    system('taskset', '-cp', $core, $$) == 0 or die "taskset does not work\n";

    my $last = time();

    while (1) {
        vec($ready, fileno($socket), 1) = 1;

        my $asked = select($ready, undef, undef, TICK);
        my $now = time();

        push @stalls, "$last-$now" if $now - $last > TICK + LEAST;
        $last = $now;

        if ($asked > 0) {
            defined <$socket> or POSIX::_exit(0);
            print {$socket} "@stalls\n";
        }
    }
}


# seconds of the time since then, or from then to an end

sub since {
    my ($self, $start, $end) = @_;

    my @stalls = sort { $a->[0] <=> $b->[0] } map { $self->stalls($_) }
                 @{ $self->{watchers} };
    my $sum = 0;

    for (@stalls) {
        my ($from, $until) = @$_;

        $from = max($from, $start);
        $until = min($until, $end) if defined $end;

        if ($from < $until) {
            $sum += $until - $from;
            $start = $until;
        }
    }

    return $sum;
}


# Returns the value of the code, which is true, or else false without a stall of
# so many seconds.

sub again {
    my ($self, $least, $code) = @_;

    for (1 .. TIMES) {
        my $start = time();
        my $value = $code->();

        return $value if $value || $self->since($start) < $least;
    }

    return;
}


# [from, until] on one core, up to now

sub stalls {
    my ($self, $watcher) = @_;

    my $socket = $watcher->{socket};

    print {$socket} "\n";

    my $line = <$socket> // die "nobody watches for stalls\n";

    return map { [split(/-/)] } split(' ', $line);
}


sub stop {
    my ($self) = @_;

    stop_child($_->{pid}) for splice(@{ $self->{watchers} });
}


1;
