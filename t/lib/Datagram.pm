package Datagram;

# UDP backends that say who they are, and clients.
#
#     my ($a, $b) = Datagram->start('a', 'b');
#     $a->address;                          # 127.0.0.1:12345
#     my $client = Datagram::Client->new($port);
#     $client->ask('hello');                # 'a 40123 hello'; undef: no answer
#     $client->tell('hello x3');            # is answered three times
#     $client->hear(0.1);                   # within that many seconds
#
# 40123 is the port that it came from.  What begins with a backend's name is
# not answered by it: "a, be silent", or later: "a, wait 0.15".

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(sleep);

use Finish;
use Port;
use Process;

use constant LONGEST => 65535;


sub start {
    my ($class, @names) = @_;

    my @backends = map {
        bless { name => $_, port => free_port() }, $class
    } @names;

    my @sockets = map { listen_on($_->{port}) } @backends;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        eval { serve(\@backends, \@sockets); 1 } or warn $@;
        POSIX::_exit(1);
    }

    Finish::later(bless { pid => $pid }, 'Datagram::Server');

    return wantarray ? @backends : $backends[0];
}


sub listen_on {
    my ($port) = @_;

    return IO::Socket::INET->new(
        Proto     => 'udp',
        LocalAddr => '127.0.0.1',
        LocalPort => $port,
    ) || die "listen on $port: $!\n";
}


sub name { $_[0]{name} }
sub port { $_[0]{port} }
sub address { "127.0.0.1:$_[0]{port}" }


sub Datagram::Server::stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


sub serve {
    my ($backends, $sockets) = @_;

    my %name = map { fileno($sockets->[$_]) => $backends->[$_]{name} }
        0 .. $#$backends;

    my $select = IO::Select->new(@$sockets);

    while (1) {
        answer($_, $name{fileno($_)}) for $select->can_read();
    }
}


sub answer {
    my ($socket, $name) = @_;

    defined $socket->recv(my $text, LONGEST) or return;

    my $times = $text =~ / x(\d+)$/ ? $1 : 1;

    if ($text =~ /^\Q$name\E, wait (\S+)/) {
        sleep($1);

    } elsif ($text =~ /^\Q$name\E\b/) {
        return;
    }

    $socket->send("$name " . $socket->peerport . " $text") for 1 .. $times;
}


package Datagram::Client;

use constant {
    LONGEST => 65535,
    PATIENT => 10,
};


sub new {
    my ($class, $port) = @_;

    my $socket = IO::Socket::INET->new(
        Proto    => 'udp',
        PeerAddr => '127.0.0.1',
        PeerPort => $port,
    ) or die "socket: $!\n";

    return bless { socket => $socket }, $class;
}


sub ask {
    my ($self, $text) = @_;

    $self->tell($text);

    return $self->hear();
}


sub tell {
    my ($self, $text) = @_;

    $self->{socket}->send($text);
}


sub hear {
    my ($self, $seconds) = @_;

    $seconds = ($seconds // PATIENT) * ($ENV{TEST_SLOWER} || 1);

    IO::Select->new($self->{socket})->can_read($seconds) or return;

    defined $self->{socket}->recv(my $text, LONGEST) or return;

    return $text;
}


1;
