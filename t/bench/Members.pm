package Members;

# Servers that go wrong when they are told so: see members.c.
#
#     my $members = Members->start(place => $place);
#     $members->tell('hang', 257, 261);
#     $members->port;

use strict;
use warnings;

use FindBin;
use IO::Socket::INET;
use POSIX ();

use Finish;
use Port;
use Process;
use Wait;

my $count = 0;
my $binary;


sub start {
    my ($class, %options) = @_;

    my $fifo = test_dir() . '/members' . ++$count;
    my @within = $options{place} ? $options{place}->within() : ();

    POSIX::mkfifo($fifo, 0600) or die "mkfifo $fifo: $!\n";

    my $self = bless { port => free_port(), fifo => $fifo }, $class;

    $self->{pid} = spawn("$fifo.log", @within, compile(), $self->{port}, $fifo);
    Finish::later($self);

    # To open the FIFO for reading, too, does not wait for the other end.

    open($self->{orders}, '+<', $fifo) or die "open $fifo: $!\n";
    $self->{orders}->autoflush(1);

    return $self;
}


sub compile {
    return $binary if $binary;

    my $path = test_dir() . '/members';

    system('cc', '-O2', '-o', $path, "$FindBin::Bin/members.c") == 0
        or die "members.c does not compile\n";

    return $binary = $path;
}


sub port { $_[0]{port} }


sub tell {
    my ($self, @order) = @_;

    print { $self->{orders} } "@order\n";
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


1;
