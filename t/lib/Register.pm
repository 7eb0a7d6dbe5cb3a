package Register;

# Counters that are read, and some time later written, one more than they were:
# what goes wrong there when two are inside at a time.
#
#     my $registers = Register->start(fenced => 1, bare => 0);
#     $registers->address;          # POST /NAME, with headers:
#                                   #   X-Request  who asks
#                                   #   X-Token    of the lock
#                                   #   X-Stay     seconds until it writes
#                                   #   X-Read     1: it only reads
#     $registers->history;          # see LockHistory
#
# A register that is fenced takes no token below the highest that it has seen,
# neither when one comes in nor when it writes: 409.  Tokens of requests that
# only read are compared, and not kept.  When the connection is closed, a
# register goes on with its work, and closes its side in the end.
#
# One process writes the history, a line of JSON for each event in their order:
#
#     what        enter, write, or read at the end of one that only reads,
#                 refused, or gone (the client's side is closed)
#     at          seconds, of time()
#     register, request, token
#     read        enter, read: the value that was read
#     wrote       write: the new value

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(time);

use Finish;
use Port;
use Process;

use constant {
    CHUNK  => 65536,
    REFUSE => '409 Stale',
    ACCEPT => '200 OK',
};

my $count = 0;


sub start {
    my ($class, %fenced) = @_;

    my $self = bless {
        port   => free_port(),
        file   => test_dir() . '/register' . ++$count,
        fenced => \%fenced,
    }, $class;

    my $listening = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $self->{port},
        Listen    => 511,
        ReuseAddr => 1,
    ) or die "listen on $self->{port}: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        eval { $self->serve($listening); 1 } or warn $@;
        POSIX::_exit(1);
    }

    $self->{pid} = $pid;
    Finish::later($self);

    return $self;
}


sub port { $_[0]{port} }
sub address { "127.0.0.1:$_[0]{port}" }


sub history {
    my ($self) = @_;

    open(my $file, '<', $self->{file}) or return;

    return map { decode_json($_) } grep { /\n\z/ } <$file>;
}


# How often an event has happened, without decoding the whole history; to
# requests whose names begin with a pattern, since a mark, and of one register.

sub count {
    my ($self, $what, $name, $mark, $register) = @_;

    open(my $file, '<', $self->{file}) or return 0;
    seek($file, $mark, 0) if $mark;

    return scalar(grep {
        /"what":"$what"/
        && (!defined $name || /"request":"$name/)
        && (!defined $register || /"register":"$register"/)
    } <$file>);
}


sub mark { -s $_[0]{file} // 0 }


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the server's side: visits by the number of their connection, of which a socket
# is the visit's as long as it is open

my (%visits, %registers, $select, $log);
my $accepted = 0;


sub serve {
    my ($self, $listening) = @_;

    local $SIG{PIPE} = 'IGNORE';

    open($log, '>>', $self->{file}) or die "open $self->{file}: $!\n";
    $log->autoflush(1);

    %registers = map {
        $_ => { fenced => $self->{fenced}{$_}, value => 0, highest => 0 }
    } keys %{ $self->{fenced} };

    $select = IO::Select->new($listening);

    while (1) {
        my @due = sort { $a <=> $b } map { $_->{end} // () } values %visits;
        my $pause = @due ? $due[0] - time() : undef;
        my %ready = map { $_ => 1 }
            $select->can_read(defined $pause && $pause < 0 ? 0 : $pause);

        # Requests that are cut now are cut before another one comes.

        my @ready = grep { $_->{socket} && $ready{ $_->{socket} } }
            map { $visits{$_} } sort { $a <=> $b } keys %visits;

        @ready = (grep({ defined $_->{end} } @ready),
                  grep({ !defined $_->{end} } @ready));

        read_from($_) for @ready;

        come_in($listening) if $ready{$listening};

        my $now = time();
        my @over = grep { defined $_->{end} && $_->{end} <= $now }
            values %visits;

        leave($_) for sort { $a->{end} <=> $b->{end} } @over;
    }
}


sub note {
    my ($what, $visit, %more) = @_;

    print {$log} encode_json({
        what     => $what,
        at       => time(),
        register => $visit->{register},
        request  => $visit->{request},
        token    => $visit->{token},
        %more,
    }), "\n";
}


sub come_in {
    my ($listening) = @_;

    my $socket = $listening->accept() or return;

    $socket->blocking(0);
    $select->add($socket);
    $accepted++;
    $visits{$accepted} = { number => $accepted, socket => $socket,
                           input => '' };
}


sub read_from {
    my ($visit) = @_;

    my $n = sysread($visit->{socket}, $visit->{input}, CHUNK,
                    length($visit->{input}));

    if (!defined $n && $!{EAGAIN}) {
        return;
    }

    # The client may still read its answer.

    if (!$n && defined $visit->{end}) {
        note('gone', $visit);
        $select->remove($visit->{socket});
        return;
    }

    if (!$n) {
        hang_up($visit);
        delete $visits{ $visit->{number} };
        return;
    }

    if (!defined $visit->{end} && $visit->{input} =~ /\r\n\r\n/) {
        enter($visit);
    }
}


sub hang_up {
    my ($visit) = @_;

    my $socket = delete $visit->{socket};

    $select->remove($socket);
    close($socket);
}


sub enter {
    my ($visit) = @_;

    my $head = $visit->{input};
    my ($name) = $head =~ m{^POST /(\w+)};
    my $register = $registers{$name // ''} or return answer($visit, '404 No');

    $visit->{register} = $name;
    ($visit->{request}) = $head =~ /^x-request: *(\S+)/im;
    $visit->{token} = $head =~ /^x-token: *(\d+)/im ? $1 + 0 : 0;

    $visit->{reads} = $head =~ /^x-read: *1/im;

    my $stay = $head =~ /^x-stay: *([\d.]+)/im ? $1 : 0;

    if (is_stale($register, $visit)) {
        note('refused', $visit);
        answer($visit, REFUSE);
        return;
    }

    $visit->{read} = $register->{value};
    $visit->{end} = time() + $stay;
    note('enter', $visit, read => $visit->{read});
}


sub is_stale {
    my ($register, $visit) = @_;

    if (!$visit->{reads} && $register->{highest} < $visit->{token}) {
        $register->{highest} = $visit->{token};
    }

    return $register->{fenced} && $visit->{token} < $register->{highest};
}


sub leave {
    my ($visit) = @_;

    my $register = $registers{ $visit->{register} };

    if (is_stale($register, $visit)) {
        note('refused', $visit);
        answer($visit, REFUSE);
        return;
    }

    if ($visit->{reads}) {
        note('read', $visit, read => $visit->{read});

    } else {
        $register->{value} = $visit->{read} + 1;
        note('write', $visit, wrote => $register->{value});
    }

    answer($visit, ACCEPT);
}


sub answer {
    my ($visit, $status) = @_;

    delete $visits{ $visit->{number} };

    if ($visit->{socket}) {
        syswrite($visit->{socket}, "HTTP/1.1 $status\r\nContent-Length: 0\r\n"
                                   . "Connection: close\r\n\r\n");
        hang_up($visit);
    }
}


1;
