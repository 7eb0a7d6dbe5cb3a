package Sni;

# Clients that name a server in a ClientHello, for ssl_preread.  The backend
# gets it as a line of its protocol (Line), and answers it with its own name.
#
#     my $client = Sni->new($port, 'a.test');  # a Line::Client
#     $client->who;                            # 'pg1'; undef: no answer
#     Sni::who($port, 'a.test');               # of a client of its own

use strict;
use warnings;

use Line;

our @ISA = ('Line::Client');


sub new {
    my ($class, $port, $name) = @_;

    my $self = $class->SUPER::new($port);

    $self->tell(hello($name));

    return $self;
}


sub who {
    my ($self, $name) = @_;

    $self = Sni->new($self, $name) if !ref $self;

    my $answer = $self->hear();

    return defined $answer ? $answer =~ s/:.*//sr : undef;
}


# RFC 8446, 4.1.2, with one extension: server_name of RFC 6066, 3

sub hello {
    my ($name) = @_;

    my $names = pack('n/a', pack('C n/a', 0, $name));
    my $hello = pack('n a32 C/a n/a C/a n/a', 0x0303, 'r' x 32, '', "\x13\x01",
                     "\0", pack('n n/a', 0, $names));

    return pack('C n n/a', 22, 0x0301,
                pack('C C n/a', 1, 0, $hello));
}


1;
