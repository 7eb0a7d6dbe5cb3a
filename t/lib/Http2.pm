package Http2;

# A small client of HTTP/2 in plaintext: one object is one connection, with any
# number of requests on it.
#
#     my $client = Http2->new($port);
#     my $stream = $client->ask('/path');
#     my $stream = $client->ask('/path', 'BODY');     # POST: the body goes on
#     $client->send_body($stream, 'MORE');
#     $client->end_body($stream, 'LAST');
#     $client->answer($stream);     # when it is over: '200 BODY', 'reset',
#                                   # or 'closed', with the connection
#     $client->begun($stream);      # when there is something: the body so far
#     $client->cancel($stream);     # by RST_STREAM
#     $client->settle;              # nginx has read all that was sent
#     $client->hang_up();           # closes the connection
#     $client->is_open;             # nginx has not said that it ends
#
# Of headers only the status is read.

use strict;
use warnings;

use IO::Socket::INET;

use Nginx;
use Wait;

use constant {
    PREFACE    => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    HEAD       => 9,
    CHUNK      => 65536,
    PATIENCE   => 10,

    # frames, an error, and flags

    DATA       => 0,
    HEADERS    => 1,
    RST_STREAM => 3,
    SETTINGS   => 4,
    PING       => 6,
    GOAWAY     => 7,
    CANCEL     => 8,
    ACK        => 0x1,
    END_STREAM => 0x1,
    END_HEADERS => 0x4,
    PADDED     => 0x8,
    PRIORITY   => 0x20,
};

# HPACK: indices of the static table that have a status

my %status = (8 => 200, 9 => 204, 10 => 206, 11 => 304, 12 => 400, 13 => 404,
              14 => 500);


# the lines of a server for HTTP/2 on the port of that name; none if this nginx
# has no HTTP/2

sub listens {
    my ($port) = @_;

    return '' if !Nginx::has('http_v2_module');

    return "listen 127.0.0.1:%%$port%%"
           . (Nginx::version() >= 1025001 ? '; http2 on;' : ' http2;');
}


sub new {
    my ($class, $port) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $port)
        or die "connect: $!\n";

    my $self = bless {
        socket  => $socket,
        input   => '',
        next    => 1,
        streams => {},
    }, $class;

    $self->write(PREFACE . frame(SETTINGS, 0, 0, ''));

    return $self;
}


sub frame {
    my ($type, $flags, $stream, $payload) = @_;

    return substr(pack('N', length($payload)), 1)
        . pack('CCN', $type, $flags, $stream) . $payload;
}


sub write {
    my ($self, $data) = @_;

    local $SIG{PIPE} = 'IGNORE';

    syswrite($self->{socket}, $data);
}


# a header that is not indexed, with a name of the static table

sub header {
    my ($name, $value) = @_;

    return chr($name) . chr(length($value)) . $value;
}


sub ask {
    my ($self, $path, $body) = @_;

    my $stream = $self->{next};

    # :method GET or POST, :scheme http, :path, :authority

    my $headers = (defined $body ? "\x83" : "\x82") . "\x86"
                  . header(4, $path) . header(1, 'localhost');
    my $flags = END_HEADERS | (defined $body ? 0 : END_STREAM);

    $self->{next} += 2;
    $self->{streams}{$stream} = { body => '' };
    $self->write(frame(HEADERS, $flags, $stream, $headers));
    $self->send_body($stream, $body) if defined $body;

    return $stream;
}


sub send_body {
    my ($self, $number, $part) = @_;

    $self->write(frame(DATA, 0, $number, $part));
}


sub end_body {
    my ($self, $number, $part) = @_;

    $self->write(frame(DATA, END_STREAM, $number, $part));
}


# nginx answers a PING after it has read all that came before.

sub settle {
    my ($self) = @_;

    $self->{pongs} = 0;
    $self->write(frame(PING, 0, 0, 'settling'));

    return $self->wait(sub { $self->{pongs} });
}


sub answer {
    my ($self, $number) = @_;

    my $stream = $self->{streams}{$number};

    $self->wait(sub { $stream->{end} }) or return 'timeout';

    return $stream->{end} eq 'end' ? "$stream->{status} $stream->{body}"
                                   : $stream->{end};
}


sub cancel {
    my ($self, $number) = @_;

    $self->write(frame(RST_STREAM, 0, $number, pack('N', CANCEL)));
}


sub begun {
    my ($self, $number) = @_;

    my $stream = $self->{streams}{$number};

    $self->wait(sub { $stream->{end} || $stream->{body} ne '' });

    return $stream->{body};
}


sub is_open { !$_[0]{closed} && !$_[0]{goaway} }


# Reads until the condition is true.

sub wait {
    my ($self, $condition) = @_;

    my $left = PATIENCE * ($ENV{TEST_SLOWER} || 1);

    until ($condition->()) {
        return 0 if $self->{closed};
        return 0 if !Wait::can_read($self->{socket}, \$left);

        sysread($self->{socket}, $self->{input}, CHUNK,
                length($self->{input}))
            or $self->close();

        1 while $self->take_frame();
    }

    return 1;
}


sub close {
    my ($self) = @_;

    $self->{closed} = 1;
    $_->{end} //= 'closed' for values %{ $self->{streams} };
}


sub hang_up {
    my ($self) = @_;

    $self->{socket}->close();
    $self->close();
}


sub take_frame {
    my ($self) = @_;

    length($self->{input}) >= HEAD or return;

    my $length = unpack('N', "\0" . $self->{input});
    my ($type, $flags, $number) = unpack('x3 CCN', $self->{input});

    length($self->{input}) >= HEAD + $length or return;

    my $payload = substr(substr($self->{input}, 0, HEAD + $length, ''), HEAD);
    my $stream = $self->{streams}{$number};

    if ($type == SETTINGS && !($flags & ACK)) {
        $self->write(frame(SETTINGS, ACK, 0, ''));

    } elsif ($type == PING) {
        $flags & ACK ? $self->{pongs}++
                     : $self->write(frame(PING, ACK, 0, $payload));

    } elsif ($type == GOAWAY) {
        $self->{goaway} = 1;

    } elsif ($type == RST_STREAM) {
        $stream->{end} = 'reset' if $stream && !$stream->{end};

    } elsif ($stream && ($type == HEADERS || $type == DATA)) {
        die "a frame with padding or a priority\n"
            if $flags & (PADDED | ($type == HEADERS ? PRIORITY : 0));

        $stream->{status} = status_of($payload) if $type == HEADERS;
        $stream->{body} .= $payload if $type == DATA;
        $stream->{end} = 'end' if $flags & END_STREAM;
    }

    return 1;
}


# nginx puts :status first, after changes of the table's size.

sub status_of {
    my ($block) = @_;

    $block =~ s/^[\x20-\x3f]+//;

    my $first = ord($block);

    return $first & 0x80 ? $status{$first & 0x7f} // 'unknown'
                         : substr($block, 2, 3);
}


1;
