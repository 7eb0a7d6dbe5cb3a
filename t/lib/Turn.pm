package Turn;

# How long a turn of the event loop takes: what else a worker has to do waits
# for so long; and how long the mutex of a zone is held, for which other workers
# wait.  It is measured by loop.c, in CPU time, which a busy machine does not
# lengthen; a slow one does, and one whose page faults are slow.  So it is
# compared with all that the worker has done: work that is not done in pieces
# has a great part of it.
#
#     my $turns = Turn->measure(sub { $nginx->start($config) });
#     ...
#     $turns->longest($pid);        # one turn of that worker, as a share of
#                                   # its CPU time
#     $turns->longest_hold($pid);   # one hold, likewise

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use List::Util qw(max);

use Finish;
use Process;

my $source = abs_path(dirname(__FILE__)) . '/loop.c';
my $count = 0;


sub measure {
    my ($class, $start) = @_;

    my $library = test_dir() . '/loop.so';
    my $self = bless { file => test_dir() . '/turns' . ++$count }, $class;

    system('cc', '-O2', '-Wall', '-shared', '-fPIC', '-o', $library, $source)
        == 0 or die "loop.c does not compile\n";

    local $ENV{LD_PRELOAD} = $library;
    local $ENV{LOOP_TURNS} = $self->{file};

    $start->();

    return $self;
}


sub longest { $_[0]->share($_[1], 'turn') }

sub longest_hold { $_[0]->share($_[1], 'hold') }


sub share {
    my ($self, $pid, $what) = @_;

    open(my $file, '<', $self->{file}) or return 0;

    my $longest = max(0, map { /^$pid $what (\d+)$/ ? $1 / 1e6 : () } <$file>);
    my $all = cpu_time($pid);

    printf("# worker $pid: one $what of %.2f ms, all in %.2f s\n",
           1000 * $longest, $all);

    return $all ? $longest / $all : 0;
}


1;
