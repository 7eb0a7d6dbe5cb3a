package Crowd;

# Many clients at a time, some of which leave before they are answered.
#
#     my $seen = Crowd::come([$nginx->port, ...], '/path', n => 10_000,
#                            at_once => 300, leave => 0.5, within => 0.2);
#     $seen->{200}; $seen->{left}; $seen->{error};
#
# Each makes one request on a connection of its own; "leave" of them close it
# after up to "within" seconds, if there is no answer by then.  "watch" is
# called with what was seen so far, again and again.

use strict;
use warnings;

use IO::Socket::INET;
use Time::HiRes qw(time);

use constant {
    CHUNK    => 4096,
    TICK     => 0.01,
    PATIENCE => 60,
};


sub come {
    my ($ports, $path, %options) = @_;

    my ($left, %clients, %seen) = ($options{n});
    my $patience = PATIENCE * ($ENV{TEST_SLOWER} || 1);

    local $SIG{PIPE} = 'IGNORE';

    while ($left || %clients) {
        while ($left && keys %clients < $options{at_once}) {
            my $client = enter($ports->[$left % @$ports], $path);

            $left--;

            if (!$client) {
                $seen{error}++;
                next;
            }

            $client->{leaves} = time() + (rand() < $options{leave}
                                          ? rand($options{within})
                                          : $patience);
            $client->{patient} = $client->{leaves} > time()
                                                     + $options{within};
            $clients{ fileno($client->{socket}) } = $client;
        }

        look_after(\%clients, \%seen);
        $options{watch}->(\%seen) if $options{watch};
    }

    return \%seen;
}


sub enter {
    my ($port, $path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port")
        or return;

    syswrite($socket, "GET $path HTTP/1.1\r\nHost: localhost\r\n"
                      . "Connection: close\r\n\r\n");

    return { socket => $socket, input => '' };
}


# Removes the clients that have their answer, and those that leave without one.

sub look_after {
    my ($clients, $seen) = @_;

    my $ready = '';

    vec($ready, $_, 1) = 1 for keys %$clients;
    select($ready, undef, undef, TICK);

    my $now = time();

    for my $fd (keys %$clients) {
        my $client = $clients->{$fd};

        if (vec($ready, $fd, 1)) {
            my $n = sysread($client->{socket}, $client->{input}, CHUNK,
                            length($client->{input}));

            next if $n;

            $seen->{ $client->{input} =~ m{^HTTP/1.1 (\d+)} ? $1 : 'error' }++;

        } elsif ($now < $client->{leaves}) {
            next;

        } else {
            $seen->{ $client->{patient} ? 'hangs' : 'left' }++;
        }

        close($client->{socket});
        delete $clients->{$fd};
    }
}


1;
