package Registrant;

# A program of t/clients/, which registers by the library of its system, and
# says what a client of the system finds.
#
#     my $greet = Registrant->start($etcd, 'gozero', 'greet.rpc');
#     $greet->tell('register 127.0.0.1:8080');
#     $greet->resolve;              # { '127.0.0.1:8080' => 1 }: its weight
#     $greet->kill;                 # its keys stay until their leases end
#
# t/clients/command/command.go has the lines that go in and out.  What libraries
# print goes to a file.

use strict;
use warnings;

use File::Basename qw(dirname);
use IO::Handle;
use POSIX ();

use Finish;
use Process;
use Wait qw(can_read wait_for);

use constant {
    PATIENCE => 60,                 # s, for one answer
    CHUNK    => 4096,
    LAST     => 5,                  # lines
};

my $top = dirname(__FILE__) . '/../..';
my $built = "$top/build/clients";
my $count = 0;


# "make test-clients" builds the programs, and lays scripts beside the packages
# that they need.  Python's package is Debian's, for Debian's Python.

sub command {
    my ($program) = @_;

    return $program eq 'node'   ? ('node', "$built/node/register.js")
         : $program eq 'python' ? ('/usr/bin/python3',
                                   "$top/t/clients/python/register.py")
         :                        "$built/$program";
}


# true if the program, with all that it needs, is there

sub is_built {
    my ($program) = @_;

    return $program eq 'node'   ? -d "$built/node/node_modules"
         : $program eq 'python' ? system('/usr/bin/python3', '-c',
                                         'import etcd3') == 0
         :                        -x "$built/$program";
}


sub start {
    my ($class, $etcd, $program, $service) = @_;

    my $self = bless {
        program => $program,
        log     => test_dir() . "/$program." . ++$count,
        input   => '',
    }, $class;

    pipe(my $words, $self->{to}) or die "pipe: $!\n";
    pipe($self->{from}, my $answers) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        my @command = command($program);

        open(STDIN, '<&', $words);
        open(STDOUT, '>&', $answers);
        open(STDERR, '>', $self->{log});
        exec({ $command[0] } @command, '127.0.0.1:' . $etcd->port, $service)
            or POSIX::_exit(127);
    }

    $self->{to}->autoflush(1);
    $self->{pid} = $pid;
    Finish::later($self);

    my $answer = $self->answer();

    $answer eq 'ready' or die "$program: $answer\n";

    return $self;
}


# Sends a command, and returns the answer.

sub ask {
    my ($self, $command) = @_;

    print { $self->{to} } "$command\n";

    return $self->answer();
}


sub tell {
    my ($self, $command) = @_;

    my $answer = $self->ask($command);

    $answer eq 'done' or die "$self->{program}: $command: $answer\n";
}


# Instances with a weight of 0 or less get no requests from any of the systems.
# A client that could not ask etcd says so instead: { failed => REASON }.

sub resolve {
    my ($self) = @_;

    my $answer = $self->ask('resolve');

    return { failed => $1 } if $answer =~ /^failed: (.*)/;

    my %weight = map { split / / } split(/, /, $answer);

    return { map { $weight{$_} > 0 ? ($_ => $weight{$_}) : () } keys %weight };
}


sub answer {
    my ($self) = @_;

    my $left = PATIENCE * ($ENV{TEST_SLOWER} || 1);

    while (1) {
        while ($self->{input} =~ s/^(.*)\n//) {
            my $line = $1;

            return $line if $line =~ s/^=> ?//;
        }

        can_read($self->{from}, \$left)
            or die "$self->{program} does not answer, see $self->{log}\n";
        sysread($self->{from}, $self->{input}, CHUNK, length($self->{input}))
            or die "$self->{program} has ended: " . $self->last_words() . "\n";
    }
}


sub last_words {
    my ($self) = @_;

    open(my $file, '<', $self->{log}) or return '';

    my @lines = <$file>;

    return join('', splice(@lines, @lines > LAST ? -(LAST) : 0));
}


sub kill {
    my ($self) = @_;

    stop_child(delete $self->{pid}, 'KILL');
}


sub stop {
    my ($self) = @_;

    $self->kill() if $self->{pid};
}


1;
