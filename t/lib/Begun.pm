package Begun;

# A backend that begins its answers: to /begun with a part of one, to /upgrade
# with another protocol, that answers lines by lines; to all else as Backend.

use strict;
use warnings;

use parent 'Backend';


sub take_request {
    my ($self, $client) = @_;

    if ($client->{upgraded}) {
        $client->{input} =~ s/^(.*\n)// or return;
        $client->{line} = $1;
        return 1;
    }

    my ($path) = $client->{input} =~ /^\S+ (\S+)/;

    $self->SUPER::take_request($client) or return;
    $client->{path} = $path;

    return 1;
}


sub format_answer {
    my ($self, $client) = @_;

    if ($client->{upgraded}) {
        return "$self->{name}: $client->{line}";
    }

    if ($client->{path} =~ m{^/begun}) {
        delete $client->{close};
        return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun";
    }

    if ($client->{path} =~ m{^/upgrade}) {
        delete $client->{close};
        $client->{upgraded} = 1;
        return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: lines\r\n"
            . "Connection: upgrade\r\n\r\n";
    }

    return $self->SUPER::format_answer($client);
}


1;
