package Turn;

# How long a turn of the event loop takes: what else a worker has to do waits
# for so long.  It is measured by loop.c, in CPU time, which a busy machine does
# not lengthen.
#
#     my $turns = Turn->measure(sub { $nginx->start($config) });
#     ...
#     $turns->longest($pid);        # seconds of one turn of that worker

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use List::Util qw(max);

use Finish;

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


sub longest {
    my ($self, $pid) = @_;

    open(my $file, '<', $self->{file}) or return 0;

    return max(0, map { /^$pid (\d+)$/ ? $1 / 1e6 : () } <$file>);
}


1;
