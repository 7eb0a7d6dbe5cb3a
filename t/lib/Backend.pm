package Backend;

# HTTP backends that say who they are: one process serves any number of them.
#
#     my ($a, $b) = Backend->start(2);      # or Backend->start('a', 'b')
#     $a->address;                          # 127.0.0.1:12345
#     $a->set(status => 500, delay => 0.2); # from now on
#     $a->set(hang => 1);                   # answers nothing,
#     $a->set(hang => 0);                   # then all that were asked of it
#     $a->set(abort => 1);                  # resets connections
#     $a->down; $a->up;                     # refuses connections
#     $a->requests; $a->reset;
#
# The body of an answer is the backend's name.  X-Connection numbers the
# connections that the backend has seen, so keep-alive shows.
#
# Another protocol is another class: see Line.  Another class may have another
# host, too.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Socket qw(SOL_SOCKET SO_LINGER);
use Time::HiRes qw(time);

use Finish;
use Http;
use Port;
use Process;
use Wait;

# Thousands of requests may come at once, and a connection for which there is no
# room comes after the kernel's next attempts, which take up to 25 seconds.

use constant {
    BACKLOG => 16384,
    CHUNK   => 65536,
};

my $count = 0;


sub start {
    my ($class, @names) = @_;

    if (@names == 1 && $names[0] =~ /^\d+$/) {
        @names = map { 'b' . ++$count } 1 .. $names[0];
    }

    my @backends = map {
        bless { name => $_, port => free_port() }, $class
    } @names;

    my $control = listen_on(free_port());
    my @listening = map { listen_on($_->{port}, $_->host) } @backends;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        eval { serve($control, \@backends, \@listening); 1 } or warn $@;
        POSIX::_exit(1);
    }

    my $process = bless { pid => $pid }, 'Backend::Server';

    for my $i (0 .. $#backends) {
        $backends[$i]{index} = $i;
        $backends[$i]{process} = $process;
        $backends[$i]{control} = $control->sockport;
    }

    Finish::later($process);

    return wantarray ? @backends : $backends[0];
}


sub listen_on {
    my ($port, $host) = @_;

    return IO::Socket::INET->new(
        LocalAddr => $host // '127.0.0.1',
        LocalPort => $port,
        Listen    => BACKLOG,
        ReuseAddr => 1,
    ) || die "listen on $port: $!\n";
}


sub name { $_[0]{name} }
sub port { $_[0]{port} }
sub host { '127.0.0.1' }
sub address { $_[0]->host . ":$_[0]{port}" }


# options: status, delay (seconds), hang, abort, once, body,
# headers => { NAME => VALUE }

sub set {
    my ($self, %behaviour) = @_;

    $self->tell({ set => \%behaviour });
}


sub down { $_[0]->tell({ listen => 0 }) }
sub up   { $_[0]->tell({ listen => 1 }) }


# { requests, connections, open (connections now), most (requests at a time) }

sub counts { $_[0]->tell({}) }
sub requests { $_[0]->counts->{requests} }

# records of requests by a subclass, such as Told

sub seen { @{ $_[0]->counts->{seen} } }
sub reset { $_[0]->tell({ reset => 1 }) }


sub tell {
    my ($self, $order) = @_;

    my $body = encode_json({ %$order, index => $self->{index} });
    my $answer = Http->new($self->{control})->post('/', $body);

    $answer->{status} == 200 or die "backends: $answer->{error}\n";

    return decode_json($answer->{body});
}


sub Backend::Server::stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the server's side: one select() loop for all

my (%clients, @timers, $select);


sub serve {
    my ($control, $backends, $listening) = @_;

    local $SIG{PIPE} = 'IGNORE';

    my %owner = map {
        $backends->[$_]{listening} = $listening->[$_];
        clear($backends->[$_]);
        (fileno($listening->[$_]) => $backends->[$_])
    } 0 .. $#$backends;

    $select = IO::Select->new($control, @$listening);

    while (1) {
        my $wait = @timers ? $timers[0]{at} - time() : undef;
        my @came;

        for my $socket (ready(defined $wait && $wait < 0 ? 0 : $wait)) {
            if ($socket == $control) {
                obey($control, $backends, \%owner);

            } elsif (!defined fileno($socket)) {

                # The connection was closed while others were served.

            } elsif (my $backend = $owner{fileno($socket)}) {
                add_client($socket, $backend);

            } else {
                push @came, read_client($socket);
            }
        }

        next_request($_) for grep { !$_->{busy} } @came;

        while (@timers && $timers[0]{at} <= time()) {
            respond(shift @timers);
        }
    }
}


# The kernel asks one socket after the other: one that it has asked may have
# ended before the request that it finds on another came.  All are asked again,
# and all ends are seen before a request begins.

sub ready {
    my ($wait) = @_;

    return $select->can_read($wait) ? $select->can_read(0) : ();
}


sub clear {
    my ($backend) = @_;

    @$backend{qw(requests connections active most)} = (0) x 4;
    $backend->{seen} = [];
}


# An order comes on a connection of its own and is small enough for one read.

sub obey {
    my ($control, $backends, $owner) = @_;

    my $socket = $control->accept() or return;
    my $text = '';

    while ($text !~ /\r\n\r\n.*\}$/s) {
        sysread($socket, $text, CHUNK, length($text)) or return;
    }

    my $order = decode_json($text =~ s/^.*?\r\n\r\n//sr);
    my $backend = $backends->[$order->{index}];
    my $set = $order->{set} // {};

    $backend->{behaviour}{$_} = $set->{$_} for keys %$set;

    if (!$backend->{behaviour}{hang}) {
        respond($_) for grep { $_->{backend} == $backend && $_->{hangs} }
                             values %clients;
    }

    clear($backend) if $order->{reset};
    take_down($backend, $owner) if defined $order->{listen};
    bring_up($backend, $owner) if $order->{listen};

    my $open = grep { $_->{backend} == $backend } values %clients;
    my $body = encode_json({
        open => $open,
        map { $_ => $backend->{$_} } qw(requests connections most seen)
    });

    syswrite($socket, "HTTP/1.1 200 OK\r\nConnection: close\r\n"
                      . 'Content-Length: ' . length($body) . "\r\n\r\n$body");
}


sub take_down {
    my ($backend, $owner) = @_;

    my $listening = delete $backend->{listening} or return;

    delete $owner->{fileno($listening)};
    $select->remove($listening);
    $listening->close();

    for my $client (values %clients) {
        drop($client) if $client->{backend} == $backend;
    }
}


sub bring_up {
    my ($backend, $owner) = @_;

    my $listening = listen_on($backend->{port}, $backend->host);

    $backend->{listening} = $listening;
    $owner->{fileno($listening)} = $backend;
    $select->add($listening);
}


sub add_client {
    my ($listening, $backend) = @_;

    my $socket = $listening->accept() or return;

    $backend->{connections}++;
    $select->add($socket);

    $clients{$socket} = {
        socket  => $socket,
        backend => $backend,
        number  => $backend->{connections},
        input   => '',
    };
}


sub drop {
    my ($client) = @_;

    if (delete $client->{busy}) {
        $client->{backend}{active}--;
        @timers = grep { $_ != $client } @timers;
    }

    $select->remove($client->{socket});
    delete $clients{$client->{socket}};
    close($client->{socket});
}


# the client, if it has sent something

sub read_client {
    my ($socket) = @_;

    my $client = $clients{$socket} or return;

    if (!sysread($socket, $client->{input}, CHUNK, length($client->{input}))) {
        drop($client);
        return;
    }

    return $client;
}


sub next_request {
    my ($client) = @_;

    my $backend = $client->{backend};

    $backend->take_request($client) or return;

    $client->{busy} = 1;

    $backend->{requests}++;
    $backend->{active}++;

    if ($backend->{most} < $backend->{active}) {
        $backend->{most} = $backend->{active};
    }

    if ($backend->{behaviour}{abort}) {
        setsockopt($client->{socket}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
        drop($client);
        return;
    }

    if ($backend->{behaviour}{hang}) {
        $client->{hangs} = 1;
        return;
    }

    if (my $delay = $backend->{behaviour}{delay}) {
        $client->{at} = time() + $delay;
        push @timers, $client;

        # Deadlines come in order as a rule.

        @timers = sort { $a->{at} <=> $b->{at} } @timers
            if @timers > 1 && $timers[-2]{at} > $client->{at};
        return;
    }

    respond($client);
}


# Takes one request from the client's input: true if it is complete.  A subclass
# may leave in the client how the request is to be answered.

sub take_request {
    my ($self, $client) = @_;

    $client->{input} =~ /^(.*?\r\n\r\n)/s or return;

    my $head = $1;
    my $length = $head =~ /^content-length:\s*(\d+)/im ? $1 : 0;

    if (length($client->{input}) < length($head) + $length) {
        return;
    }

    substr($client->{input}, 0, length($head) + $length, '');

    $client->{close} = $head =~ m{^\S+ \S+ HTTP/1\.0|^connection:\s*close}im;

    return 1;
}


sub format_answer {
    my ($backend, $client) = @_;

    my $behaviour = $backend->{behaviour};
    my $status = $behaviour->{status} // 200;
    my $body = $behaviour->{body} // $backend->{name};
    my %headers = (
        'Content-Length' => length($body),
        'Connection'     => $client->{close} ? 'close' : 'keep-alive',
        'X-Connection'   => $client->{number},
        %{ $behaviour->{headers} // {} },
    );

    return "HTTP/1.1 $status Answer\r\n"
        . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers)
        . "\r\n$body";
}


sub respond {
    my ($client) = @_;

    my $backend = $client->{backend};

    syswrite($client->{socket}, $backend->format_answer($client));

    $backend->{active}--;
    delete @$client{qw(busy hangs)};

    if ($client->{close}) {
        drop($client);
        return;
    }

    next_request($client);
}


1;
