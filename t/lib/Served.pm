package Served;

# A request to a register, see Register, by a client that has the lock from
# nginx: the answer of etcd_lock_serve is the lock.
#
#     my $answer = Served::visit($nginx_port, $register_port, $seconds,
#                                '/NAME', '', @headers);
#     $answer->{status}, $answer->{error}
#
# The client asks nginx for the path, and the register with the token that came.
# As soon as nginx ends its answer, or the seconds of its last line "# held" are
# over, the client closes its connection to the register: 503.  It does the same
# when its time is over.  The status of the register counts only if the lock is
# still held then; the status of a lock that was not got is that of nginx, or 0.

use strict;
use warnings;

use IO::Select;
use List::Util qw(max min);
use Time::HiRes qw(time);

use Http;

use constant {
    PING    => '200ms',         # etcd_lock_serve_ping
    CHUNK   => 65536,
};


sub visit {
    my ($nginx_port, $register_port, $timeout, $path, $body, @headers) = @_;

    my $end = time() + $timeout;
    my $nginx = Http->new($nginx_port, timeout => $timeout);

    $nginx->send('GET', $path, undef, @headers);

    my $token;

    while (!$nginx->{until}) {
        ($token) = $nginx->{buffer} =~ /^token (\d+)\n/m;
        heard($nginx) if defined $token;
        $nginx->{until} or $nginx->fill or return refused($nginx);
    }

    my $register = Http->new($register_port, timeout => $timeout);

    $register->send('POST', $path, $body, @headers, 'X-Token' => $token);

    my $answer = answer($nginx, $register, $end);

    # the lock is released last

    $register->close;
    $nginx->close;

    return $answer;
}


# An answer without a token, or none.

sub refused {
    my ($nginx) = @_;

    my $error = $nginx->{error};
    my ($status) = $nginx->{buffer} =~ m{^HTTP/1\.1 (\d+)};

    return { status => 0, error => $error } if !$status || $error eq 'timeout';
    return $status == 200 ? cut('no token') : { status => $status };
}


sub cut { { status => 503, error => $_[0] } }


# The last complete line says how long the lock is held.

sub heard {
    my ($nginx) = @_;

    $nginx->{buffer} =~ s/.*^# held (\d+\.\d+)\n//ms
        and $nginx->{until} = time() + $1;
}


sub answer {
    my ($nginx, $register, $end) = @_;

    my $both = IO::Select->new($nginx->{socket}, $register->{socket} // ());

    while (is_held($nginx)) {
        my $now = time();

        return cut('left') if $now >= $end;

        my $pause = min($nginx->{until}, $end) - $now;

        next if !grep { $_ == $register->{socket} }
                 $both->can_read(max(0, $pause));

        my $answer = $register->receive;

        return is_held($nginx) ? $answer : last;
    }

    return cut('the lock has ended');
}


sub is_held {
    my ($nginx) = @_;

    my $select = IO::Select->new($nginx->{socket});

    while ($select->can_read(0)) {
        sysread($nginx->{socket}, $nginx->{buffer}, CHUNK,
                length($nginx->{buffer})) or return 0;
        return 0 if $nginx->{buffer} =~ /^lost$/m;

        heard($nginx);
    }

    return time() < $nginx->{until};
}


1;
