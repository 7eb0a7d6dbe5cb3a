package Door;

# A backend that is the test itself: who comes in stays until the test lets it
# out.
#
#     my $door = Door->new();
#     $door->address;
#     my $visit = $door->enters(10);        # waits; undef: nobody
#     $door->enters(0);                     # has somebody come?
#     $visit->header('x-token');
#     $visit->say($text);                   # a part of an answer
#     $visit->leave;                        # is answered with 200
#     $visit->is_gone;                      # its connection was closed
#
# Each visit has a connection of its own: nginx keeps none by default.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

use Port;

use constant CHUNK => 65536;


sub new {
    my ($class) = @_;

    my $port = free_port();
    my $listening = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $port,
        Listen    => 511,
        ReuseAddr => 1,
    ) or die "listen on $port: $!\n";

    return bless { port => $port, listening => $listening }, $class;
}


sub port { $_[0]{port} }
sub address { "127.0.0.1:$_[0]{port}" }


sub enters {
    my ($self, $seconds) = @_;

    my $slower = $ENV{TEST_SLOWER} || 1;

    IO::Select->new($self->{listening})->can_read($seconds * $slower)
        or return;

    my $socket = $self->{listening}->accept() or return;
    my $visit = bless { socket => $socket, head => '' }, 'Door::Visit';

    while ($visit->{head} !~ /\r\n\r\n/) {
        sysread($socket, $visit->{head}, CHUNK, length($visit->{head}))
            or return;
    }

    return $visit;
}


package Door::Visit;


sub header {
    my ($self, $name) = @_;

    return $self->{head} =~ /^\Q$name\E: *(.*?)\r$/im ? $1 : undef;
}


sub say {
    my ($self, $text) = @_;

    local $SIG{PIPE} = 'IGNORE';

    syswrite($self->{socket}, $text);
}


sub leave {
    my ($self) = @_;

    $self->say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
               . "Connection: close\r\n\r\nout");
    close(delete $self->{socket});
}


# A client that is inside sends nothing: bytes to be read are its end.

sub is_gone {
    my ($self) = @_;

    return scalar(IO::Select->new($self->{socket})->can_read(0));
}


1;
