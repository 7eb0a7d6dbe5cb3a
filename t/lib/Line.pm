package Line;

# A protocol of lines, for what is proxied without being understood.
#
#     my ($a, $b) = Line->start('a', 'b');  # backends, as of Backend
#     my $client = Line::Client->new($port);
#     $client->ask('hello');                # 'a: hello'; undef: no answer
#     $client->tell('hello');               # and later
#     $client->hear(0.1);                   # within that many seconds
#     $client->is_closed(5);                # by the other side, by then
#     $client->close;
#     $client->shutdown;                    # has no more to say
#     Line::Client::tally($port, 10);       # { a => 5, b => 5 }
#
# A backend answers each line with one that has its name before it.

use strict;
use warnings;

use parent 'Backend';


sub take_request {
    my ($self, $client) = @_;

    $client->{input} =~ s/^(.*)\n// or return;
    $client->{line} = $1;

    return 1;
}


sub format_answer {
    my ($self, $client) = @_;

    return "$self->{name}: $client->{line}\n";
}


package Line::Client;

use IO::Socket::INET;

use Wait;

use constant {
    CHUNK   => 65536,
    PATIENT => 10,
};


sub new {
    my ($class, $port) = @_;

    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $port,
    );

    return bless { socket => $socket, input => '' }, $class;
}


sub ask {
    my ($self, $line) = @_;

    $self->tell($line);

    return $self->hear();
}


sub tell {
    my ($self, $line) = @_;

    local $SIG{PIPE} = 'IGNORE';

    syswrite($self->{socket}, "$line\n") if $self->{socket};
}


sub hear {
    my ($self, $seconds) = @_;

    my $left = ($seconds // PATIENT) * ($ENV{TEST_SLOWER} || 1);

    while (1) {
        if ($self->{input} =~ s/^(.*)\n//) {
            return $1;
        }

        $self->fill(\$left) or return;
    }
}


sub is_closed {
    my ($self, $seconds) = @_;

    my $left = ($seconds // PATIENT) * ($ENV{TEST_SLOWER} || 1);

    1 while $self->fill(\$left);

    return $self->{closed};
}


# Reads once; false at the end of the connection and of the time.

sub fill {
    my ($self, $left) = @_;

    if (!$self->{socket}) {
        $self->{closed} = 1;
        return;
    }

    Wait::can_read($self->{socket}, $left) or return;

    my $n = sysread($self->{socket}, $self->{input}, CHUNK,
                    length($self->{input}));

    $self->close() if !$n;

    return $n;
}


sub close {
    my ($self) = @_;

    delete $self->{socket};
    $self->{closed} = 1;
}


# The client has sent everything.

sub shutdown {
    my ($self) = @_;

    shutdown($self->{socket}, 1);
}


# Counts how many of so many connections, one after the other, each backend
# answered; '' is no answer.

sub tally {
    my ($port, $n) = @_;

    my %tally;

    for (1 .. $n) {
        my $answer = Line::Client->new($port)->ask('hello') // '';

        $tally{$answer =~ s/: hello$//r}++;
    }

    return \%tally;
}


1;
