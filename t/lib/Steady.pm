package Steady;

# Clients that write at a steady rate, or with get => 1 read; see steady.c.
#
#     my $load = Steady->start($nginx->port, rate => 1000);
#     ...
#     my @requests = $load->results();
#         # in the order of their ends: { number, method, begun, ended, status }
#     Steady::describe(@requests);      # for diag()

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

use Finish;
use Process;
use Wait;

use constant {
    LONGEST  => 300,
    PATIENCE => 40,
};

my $source = abs_path(dirname(__FILE__)) . '/steady.c';
my $count = 0;
my $binary;


sub compile {
    return $binary if $binary;

    my $path = test_dir() . '/steady';

    system('cc', '-O2', '-o', $path, $source) == 0
        or die "steady.c does not compile\n";

    return $binary = $path;
}


sub start {
    my ($class, $port, %options) = @_;

    my $file = test_dir() . '/steady' . ++$count . '.out';

    my $self = bless {
        rate => $options{rate},
        file => $file,
        pid  => spawn($file, compile(), $port, $options{rate}, LONGEST,
                      $options{get} ? 'get' : ()),
    }, $class;

    Finish::later($self);

    return $self;
}


# Ends the clients; returns the results of all requests.

sub results {
    my ($self) = @_;

    kill('TERM', $self->{pid});

    wait_for { !is_running($self->{pid}) } PATIENCE, 'the last answers';
    $self->stop();

    open(my $file, '<', $self->{file}) or die "no result of clients: $!\n";

    return map {
        my %request;

        @request{qw(number method begun ended status)} = split;
        $request{status} // die "steady: $_";
        \%request;
    } <$file>;
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the number of requests, their rate, and the longest of all

sub describe {
    my (@requests) = @_;

    my ($first, $last) = (sort { $a <=> $b } map { $_->{begun} } @requests)
                         [0, -1];
    my ($longest) = sort { $b <=> $a } map { $_->{ended} - $_->{begun} }
                                           @requests;

    return sprintf('%d requests, %.0f a second, the longest took %.0f ms',
                   scalar(@requests), @requests / (($last - $first) || 1),
                   1000 * $longest);
}


1;
