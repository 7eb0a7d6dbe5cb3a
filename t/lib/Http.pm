package Http;

# A small HTTP/1.1 client.  One object is one keep-alive connection, to
# 127.0.0.1 if nothing else is said, made anew when the server has closed it.
#
#     my $http = Http->new($port);      # or with address => '10.0.0.1'
#     my $answer = $http->get('/path', 'X-Name' => 'value');
#     $answer->{status}, $answer->{headers}{'content-type'}, $answer->{body}
#
# An answer that did not come has status 0 and the reason in {error}.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);

use Wait;

use constant CHUNK => 65536;


sub new {
    my ($class, $port, %options) = @_;

    return bless {
        port    => $port,
        address => $options{address} // '127.0.0.1',
        timeout => ($options{timeout} // 10) * ($ENV{TEST_SLOWER} || 1),
        buffer  => '',
    }, $class;
}


sub get {
    my ($self, $path, @headers) = @_;

    return $self->request('GET', $path, undef, @headers);
}


sub post {
    my ($self, $path, $body, @headers) = @_;

    return $self->request('POST', $path, $body, @headers);
}


sub request {
    my ($self, @request) = @_;

    $self->send(@request);

    return $self->receive();
}


# request() in two halves, so that several requests may be under way at a time

sub send {
    my ($self, $method, $path, $body, @headers) = @_;

    $self->{request} = [$method, $path, $body, @headers];
    $self->{buffer} = '';
    $self->{left} = $self->{timeout};

    $self->connect() or return;

    my $request = "$method $path HTTP/1.1\r\nHost: localhost\r\n";

    while (my ($name, $value) = splice(@headers, 0, 2)) {
        $request .= "$name: $value\r\n";
    }

    if (defined $body) {
        $request .= 'Content-Length: ' . length($body) . "\r\n";
    }

    $self->write_all("$request\r\n" . ($body // ''));
}


sub receive {
    my ($self) = @_;

    # Each wait has the whole timeout.

    $self->{left} = $self->{timeout};

    my $answer = $self->receive_once();

    # the server may have closed an idle connection in this very moment

    if ($answer->{unanswered} && $self->{request}[0] eq 'GET') {
        $self->send(@{ $self->{request} });
        $answer = $self->receive_once();
    }

    return $answer;
}


sub receive_once {
    my ($self) = @_;

    my $head = $self->take_until("\r\n\r\n") // return $self->failed();

    my ($status_line, @lines) = split(/\r\n/, $head);
    my ($status) = $status_line =~ m{^HTTP/1\.[01] (\d{3})}
        or return $self->failed('no HTTP');

    my %headers = map { /^([^:]+):\s*(.*)$/ ? (lc $1, $2) : () } @lines;
    my $body = $self->take_body($status, \%headers) // return $self->failed();

    if (lc($headers{connection} // '') eq 'close') {
        $self->close();
    }

    return { status => $status, headers => \%headers, body => $body };
}


sub connect {
    my ($self) = @_;

    $self->{error} = undef;
    $self->{reused} = 0;

    # Between two requests only the end of the connection can be read.

    if ($self->{socket} && !IO::Select->new($self->{socket})->can_read(0)) {
        return $self->{reused} = 1;
    }

    $self->{socket} = IO::Socket::INET->new(
        PeerAddr => $self->{address},
        PeerPort => $self->{port},
        Timeout  => $self->{timeout},
    );

    if (!defined $self->{socket}) {
        $self->{error} = "connect: $!";
        return 0;
    }

    return $self->{socket}->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
}


sub close {
    my ($self) = @_;

    delete $self->{socket};
}


sub failed {
    my ($self, $reason) = @_;

    my $answer = {
        status     => 0,
        headers    => {},
        body       => '',
        error      => $reason // $self->{error},
        unanswered => $self->{reused} && $self->{error} ne 'timeout'
                      && $self->{buffer} eq '',
    };

    $self->{buffer} = '';
    $self->close();

    return $answer;
}


sub write_all {
    my ($self, $data) = @_;

    local $SIG{PIPE} = 'IGNORE';

    while (length($data)) {
        my $n = syswrite($self->{socket}, $data, CHUNK);

        if (!defined $n) {
            $self->{error} = "write: $!";
            return;
        }

        substr($data, 0, $n, '');
    }
}


# Reads once into the buffer; false at the end, on error and on timeout.

sub fill {
    my ($self) = @_;

    if (defined $self->{error}) {
        return;
    }

    if ($self->{left} <= 0
        || !Wait::can_read($self->{socket}, \$self->{left}))
    {
        $self->{error} = 'timeout';
        return;
    }

    my $n = sysread($self->{socket}, $self->{buffer}, CHUNK,
                    length($self->{buffer}));

    if (!$n) {
        $self->{error} = defined $n ? 'closed' : "read: $!";
    }

    return $n;
}


sub take_until {
    my ($self, $mark) = @_;

    my $at;

    while (($at = index($self->{buffer}, $mark)) < 0) {
        $self->fill() or return;
    }

    my $text = substr($self->{buffer}, 0, $at, '');
    substr($self->{buffer}, 0, length($mark), '');

    return $text;
}


sub take {
    my ($self, $n) = @_;

    while (length($self->{buffer}) < $n) {
        $self->fill() or return;
    }

    return substr($self->{buffer}, 0, $n, '');
}


sub take_body {
    my ($self, $status, $headers) = @_;

    if ($status == 204 || $status == 304) {
        return '';
    }

    if (lc($headers->{'transfer-encoding'} // '') eq 'chunked') {
        return $self->take_chunks();
    }

    if (defined $headers->{'content-length'}) {
        return $self->take($headers->{'content-length'});
    }

    # the body ends with the connection

    1 while $self->fill();

    $self->{error} eq 'closed' or return;

    my $body = $self->{buffer};

    $self->{buffer} = '';
    $self->close();

    return $body;
}


sub take_chunks {
    my ($self) = @_;

    my $body = '';

    while (1) {
        my $size = $self->take_until("\r\n") // return;

        $size =~ /^([0-9a-f]+)/i or return;
        my $n = hex($1);

        if ($n == 0) {
            last;
        }

        $body .= $self->take($n) // return;
        $self->take_until("\r\n") // return;
    }

    # trailers up to an empty line

    while (1) {
        my $line = $self->take_until("\r\n") // return;
        $line eq '' and return $body;
    }
}


# all bytes of a socket, to its end

sub read_all {
    my ($socket) = @_;

    local $/;

    return <$socket> // '';
}


# the statuses that clients get, in their order

sub statuses { join(' ', map { $_->receive->{status} } @_) }


# $n GET requests over $concurrency keep-alive connections, one on each at a
# time; returns the answers

sub burst {
    my ($port, $path, $n, $concurrency, @headers) = @_;

    my @clients = map { Http->new($port) } 1 .. $concurrency // 1;
    my @answers;

    while (@answers < $n) {
        my $left = $n - @answers;
        my @round = @clients[0 .. ($left < @clients ? $left : @clients) - 1];

        $_->send('GET', $path, undef, @headers) for @round;
        push @answers, map { $_->receive() } @round;
    }

    return @answers;
}


1;
