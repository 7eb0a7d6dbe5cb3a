package Chaos;

# A TCP proxy that spoils what goes through it.
#
#     my $chaos = Chaos->start($etcd->port);
#     $chaos->set(split => 1);          # one byte at a time, both ways
#     $chaos->set(delay => 0.1);        # seconds, each way
#     $chaos->set(hold_up => 1);        # nothing goes to the server any more,
#     $chaos->set(hold_down => 1);      # or to the client: half-open
#     $chaos->set(hold_after => 100);   # bytes to the client, then as above
#     $chaos->set(late => 1);           # what a client sends next, for 0.2 s,
#                                       # goes to the server when that ends,
#                                       # though it has left; what it sends
#                                       # after is lost
#     $chaos->set(cut_after => 100);    # bytes to the client, then RST
#     $chaos->set(greeting => "...");   # says that and asks no server
#     $chaos->set(refuse => 1);         # does not listen
#     $chaos->cut();                    # RST for what is open now
#     $chaos->cut_in(up => 10);         # the same after so many bytes to the
#     $chaos->cut_in(down => 0);        # server, or the next one to the client
#     $chaos->cut_in();                 # or not after all
#     $chaos->counts->{cuts};           # how often that was done
#     $chaos->counts->{accepted}; ...{open}; ...{times}
#     $chaos->set(seek => '9560a9');    # these bytes, in hexadecimal, on their
#     $chaos->counts->{found};          # way to the server, in one piece
#
# What set() says holds for connections that are open, too, but for greeting
# and cut_after; a value of 0 ends it.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use List::Util qw(min);
use POSIX ();
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_LINGER TCP_NODELAY);
use Time::HiRes qw(sleep time);

use Finish;
use Port;
use Process;

use constant {
    CHUNK      => 65536,
    LATE       => 0.2,
    MOST       => 4 * 1024 * 1024,
    BYTE_PAUSE => 0.0001,
    TICK       => 0.02,
};


sub start {
    my ($class, $target) = @_;

    my $self = bless { port => free_port() }, $class;
    my $control = listen_on(free_port());
    my $listening = listen_on($self->{port});

    $self->{control} = $control->sockport;
    $self->{pid} = fork() // die "fork: $!\n";

    if ($self->{pid} == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        eval { serve($control, $listening, $target); 1 } or warn $@;
        POSIX::_exit(1);
    }

    Finish::later($self);

    return $self;
}


sub listen_on {
    my ($port) = @_;

    return IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $port,
        Listen    => 511,
        ReuseAddr => 1,
    ) || die "listen on $port: $!\n";
}


sub port { $_[0]{port} }
sub url  { "http://127.0.0.1:$_[0]{port}" }
sub endpoints { $_[0]->url }


sub set {
    my ($self, %behaviour) = @_;

    return $self->tell({ set => \%behaviour });
}


sub cut { $_[0]->tell({ cut => 1 }) }
sub cut_in { my ($self, %bytes) = @_; $self->tell({ cut_in => \%bytes }) }
sub counts { $_[0]->tell({}) }


# latin1: a greeting is bytes

sub tell {
    my ($self, $order) = @_;

    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $self->{control},
    ) or die "chaos: connect: $!\n";

    print $socket JSON::PP->new->latin1->encode($order), "\n";
    $socket->flush();

    my $answer = <$socket> // die "chaos gave no answer\n";

    return decode_json($answer);
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the proxy's side

my (%links, %behaviour, $listening, $target, $port);
my ($accepted, $cuts, $found) = (0, 0, 0);
my @times;


sub serve {
    my $control = shift;

    ($listening, $target) = @_;
    $port = $listening->sockport;

    local $SIG{PIPE} = 'IGNORE';

    while (1) {
        my $select = IO::Select->new($control);

        $select->add($listening) if $listening;

        for my $link (values %links) {
            $select->add($_->{from}) for grep { wants($_) } @{ $link->{ways} };
        }

        my %ready = map { $_ => 1 } $select->can_read(pause());

        obey($control) if $ready{$control};
        greet() if $listening && $ready{$listening};

        for my $link (values %links) {
            move($link, \%ready);
        }
    }
}


sub pause {
    my @queued = grep { @{ $_->{queue} } && !held($_) }
        map { @{ $_->{ways} } } values %links;

    return @queued ? TICK / 10 : TICK;
}


sub held {
    my ($way) = @_;

    return $behaviour{"hold_$way->{name}"}
        || $way->{name} eq 'down' && $behaviour{hold_after}
           && $way->{sent} >= $behaviour{hold_after};
}


sub wants {
    my ($way) = @_;

    return !held($way) && !$way->{eof} && !$way->{left}
        && $way->{size} < MOST;
}


sub obey {
    my ($control) = @_;

    my $socket = $control->accept() or return;
    my $order = JSON::PP->new->latin1->decode(scalar <$socket>);
    my $set = $order->{set} // {};

    $behaviour{$_} = $set->{$_} for keys %$set;

    if ($behaviour{refuse} && $listening) {
        $listening->close();
        $listening = undef;

    } elsif (!$behaviour{refuse} && !$listening) {
        $listening = listen_on($port);
    }

    if ($order->{cut}) {
        reset_link($_) for values %links;
    }

    cut_later($order->{cut_in}) if $order->{cut_in};

    print $socket encode_json({
        accepted => $accepted,
        cuts     => $cuts,
        found    => $found,
        open     => scalar(keys %links),
        times    => \@times,
    }), "\n";

    close($socket);
}


sub cut_later {
    my ($bytes) = @_;

    for my $way (map { @{ $_->{ways} } } values %links) {
        my $more = $bytes->{ $way->{name} };

        $way->{cut_at} = defined $more ? $way->{sent} + $more : undef;
    }
}


sub greet {
    my $client = $listening->accept() or return;

    $accepted++;
    push @times, time();

    if ($behaviour{greeting}) {
        syswrite($client, $behaviour{greeting});
        $links{$client} = { client => $client, ways => [] };
        drain($links{$client});
        return;
    }

    my $server = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $target,
    ) or return;

    for my $socket ($client, $server) {
        $socket->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
        $socket->blocking(0);
    }

    $links{$client} = {
        client => $client,
        server => $server,
        ways   => [way('up', $client, $server),
                   way('down', $server, $client,
                       $behaviour{cut_after} || undef)],
    };
}


sub way {
    my ($name, $from, $to, $cut_at) = @_;

    return { name => $name, from => $from, to => $to, queue => [], size => 0,
             sent => 0, cut_at => $cut_at };
}


# A client that only gets a greeting: its bytes are read, so that no RST
# destroys the greeting.

sub drain {
    my ($link) = @_;

    $link->{client}->blocking(0);
    $link->{ways} = [way('greeted', $link->{client}, undef)];
}


sub move {
    my ($link, $ready) = @_;

    for my $way (@{ $link->{ways} }) {
        if ($ready->{ $way->{from} } && !receive($way)) {
            $way->{eof} = 1;
        }

        if (!$behaviour{late} && defined $way->{late}) {
            push @{ $way->{queue} }, [time(), $way->{late}];
            delete @$way{qw(late until)};
        }

        if (!$way->{to}) {
            $way->{queue} = [];

        } elsif (!held($way) && !forward($way) && !$link->{ways}[0]{left}) {
            return reset_link($link);
        }
    }

    if (grep { $_->{eof} && !@{ $_->{queue} } } @{ $link->{ways} }) {
        close_link($link);
    }
}


sub receive {
    my ($way) = @_;

    my $n = sysread($way->{from}, my $data, CHUNK);

    if (!defined $n) {
        return $!{EAGAIN} || $!{EINTR};
    }

    if ($behaviour{seek} && $way->{name} eq 'up') {
        $found += () = $data =~ /\Q${\ pack('H*', $behaviour{seek}) }/g;
    }

    if ($behaviour{late} && $way->{name} eq 'up') {
        $way->{until} //= time() + LATE;
        $way->{late} .= $data if time() < $way->{until};
        $way->{left} ||= !$n;

        return 1;
    }

    if ($n) {
        push @{ $way->{queue} }, [time() + ($behaviour{delay} // 0), $data];
        $way->{size} += $n;
    }

    return $n;
}


# Returns false if the connection is to be cut, or its owner has ended it.

sub forward {
    my ($way) = @_;

    while (@{ $way->{queue} } && $way->{queue}[0][0] <= time()) {
        my $data = \$way->{queue}[0][1];
        my $most = $behaviour{split} ? 1 : length($$data);

        my $cut = $way->{cut_at};
        my $hold = $way->{name} eq 'down' ? $behaviour{hold_after} : 0;

        if (defined $cut && $way->{sent} >= $cut) {
            $cuts++;
            return 0;
        }

        $hold && $way->{sent} >= $hold and return 1;

        $most = min($most, map { $_ ? $_ - $way->{sent} : () } $cut, $hold);

        my $n = syswrite($way->{to}, $$data, $most);

        if (!defined $n) {
            return $!{EAGAIN} || $!{EINTR};
        }

        substr($$data, 0, $n, '');
        $way->{size} -= $n;
        $way->{sent} += $n;

        shift @{ $way->{queue} } if $$data eq '';
        sleep(BYTE_PAUSE) if $behaviour{split};
    }

    return 1;
}


sub reset_link {
    my ($link) = @_;

    $link->{client}->setsockopt(SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));

    return close_link($link);
}


sub close_link {
    my ($link) = @_;

    delete $links{ $link->{client} };

    close($_) for grep { defined } $link->{client}, $link->{server};

    return;
}


1;
