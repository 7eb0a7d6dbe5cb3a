package Told;

# Backends that say which token a request had: the header X-Token of HTTP, or
# the parameter TOKEN of FastCGI and uwsgi.
#
#     my ($a, $b) = Told->start('a', 'b');       # or Told::FastCgi, Told::Uwsgi
#     $a->seen;                                  # tokens of its requests, '' of
#                                                # one without
#
# The body of an answer is "NAME TOKEN".  What asks for another protocol gets
# it, and nothing more.

use strict;
use warnings;

use parent 'Backend';


sub take_request {
    my ($self, $client) = @_;

    my ($head) = $client->{input} =~ /^(.*?\r\n\r\n)/s or return;

    $self->SUPER::take_request($client) or return;

    $client->{upgrade} = $head =~ /^upgrade:/im;
    $self->note($client, $head =~ /^x-token: *(.*?)\r$/im ? $1 : '');

    return 1;
}


sub note {
    my ($self, $client, $token) = @_;

    push @{ $self->{seen} }, $token;
    $client->{token} = $token;
}


sub format_answer {
    my ($self, $client) = @_;

    if (delete $client->{upgrade}) {
        delete $client->{close};
        return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: lines\r\n"
            . "Connection: upgrade\r\n\r\n";
    }

    local $self->{behaviour}{body} = $self->{behaviour}{body}
                                     // "$self->{name} $client->{token}";

    return $self->SUPER::format_answer($client);
}


package Told::Uwsgi;

our @ISA = ('Told');


# a head of 4 bytes, and names and values with their lengths before them

sub take_request {
    my ($self, $client) = @_;

    length($client->{input}) >= 4 or return;

    my $size = unpack('x v', $client->{input});

    length($client->{input}) >= 4 + $size or return;

    my %vars = unpack('(v/a)*', substr($client->{input}, 4, $size));
    my $all = 4 + $size + ($vars{CONTENT_LENGTH} || 0);

    length($client->{input}) >= $all or return;
    substr($client->{input}, 0, $all, '');

    $client->{close} = 1;
    $self->note($client, $vars{TOKEN} // '');

    return 1;
}


package Told::FastCgi;

our @ISA = ('Told');

use constant {
    END_REQUEST => 3,
    PARAMS      => 4,
    INPUT       => 5,
    OUTPUT      => 6,
};


# records, the last of which is an empty one of input

sub take_request {
    my ($self, $client) = @_;

    my $params = '';
    my $at = 0;

    while (length($client->{input}) >= $at + 8) {
        my ($type, $length, $padding) =
            unpack('x C x2 n C', substr($client->{input}, $at, 8));

        $at + 8 + $length + $padding <= length($client->{input}) or return;

        $params .= substr($client->{input}, $at + 8, $length)
            if $type == PARAMS;

        $at += 8 + $length + $padding;

        if ($type == INPUT && $length == 0) {
            substr($client->{input}, 0, $at, '');
            $client->{close} = 1;
            $self->note($client, params($params)->{TOKEN} // '');
            return 1;
        }
    }

    return;
}


sub params {
    my ($text) = @_;

    my %params;

    while (length($text)) {
        my ($name, $value) = map {
            my ($n) = unpack('C', $text);
            my $size = $n < 128 ? 1 : 4;

            $n = unpack('N', $text) & 0x7fffffff if $size == 4;
            substr($text, 0, $size, '');
            $n;
        } 1, 2;

        my $key = substr($text, 0, $name, '');

        $params{$key} = substr($text, 0, $value, '');
    }

    return \%params;
}


sub format_answer {
    my ($self, $client) = @_;

    my $text = "Content-Type: text/plain\r\n\r\n$self->{name} "
        . "$client->{token}";

    return pack('C2 n2 C2', 1, OUTPUT, 1, length($text), 0, 0) . $text
        . pack('C2 n2 C2', 1, OUTPUT, 1, 0, 0, 0)
        . pack('C2 n2 C2 x8', 1, END_REQUEST, 1, 8, 0, 0);
}


1;
