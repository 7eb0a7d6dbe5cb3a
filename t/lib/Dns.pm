package Dns;

# A name server on loopback that says what a test wants, over UDP, and over TCP
# what is too long for that.
#
#     my $dns = Dns->start();
#     $dns->set('etcd.test' => ['127.0.0.1', '127.0.0.2']);
#     $dns->set('_a._tcp.test' => ["srv 0 0 $port one.test"]);
#     $dns->set('etcd.test' => 'silence');    # no answer at all
#     $dns->set('etcd.test' => 'failure');    # SERVFAIL
#     $dns->set('etcd.test' => undef);        # there is no such name
#     $dns->address;                          # what goes after "resolver"
#     $dns->queries('etcd.test');             # how often it was asked for
#
# Answers may not be kept, unless there is another TTL: Dns->start(ttl => 2).
# With rotate => 1 each answer begins with another address than the last one.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Socket qw(AF_INET6 inet_pton);

use Finish;
use Port;
use Process;

use constant {
    TYPE_A   => 1,
    TYPE_AAAA => 28,
    TYPE_SRV => 33,
    UDP_MAX  => 512,
    CLASS_IN => 1,
    SERVFAIL => 2,
    NXDOMAIN => 3,
};

my $count = 0;


sub start {
    my ($class, %options) = @_;

    my $base = test_dir() . '/dns' . ++$count;

    my $self = bless {
        port  => free_port(),
        names => {},
        ttl   => $options{ttl} // 0,
        rotate => $options{rotate},
        file  => "$base.json",
        log   => "$base.log",
    }, $class;

    $self->set();

    my $socket = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $self->{port},
        Proto     => 'udp',
    ) or die "bind: $!\n";

    my $listening = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $self->{port},
        Listen    => 16,
        ReuseAddr => 1,
    ) or die "listen: $!\n";

    $self->{pid} = fork() // die "fork: $!\n";

    if ($self->{pid} == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        eval { $self->serve($socket, $listening); 1 } or warn $@;
        POSIX::_exit(1);
    }

    Finish::later($self);

    return $self;
}


sub address { "127.0.0.1:$_[0]{port}" }


# the server reads the file when it has changed

sub set {
    my ($self, %answers) = @_;

    @{ $self->{names} }{keys %answers} = values %answers;

    open(my $file, '>', "$self->{file}.new") or die "open: $!\n";
    print $file ++$self->{version}, "\n", encode_json($self->{names});
    close($file) or die "close: $!\n";

    rename("$self->{file}.new", $self->{file}) or die "rename: $!\n";

    return $self;
}


sub queries {
    my ($self, $name) = @_;

    open(my $log, '<', $self->{log}) or return 0;

    return scalar(grep { $_ eq "$name\n" } <$log>);
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the server's side

sub serve {
    my ($self, $socket, $listening) = @_;

    open(my $log, '>>', $self->{log}) or die "open: $!\n";
    $log->autoflush(1);

    my $select = IO::Select->new($socket, $listening);

    while (1) {
        for my $ready ($select->can_read()) {

            if ($ready == $socket) {
                my $peer = $socket->recv(my $query, 512) // next;
                my $reply = $self->answer($log, $query, UDP_MAX) // next;

                $socket->send($reply, 0, $peer);

            } elsif ($ready == $listening) {
                $select->add($listening->accept() // next);

            } elsif (!$self->serve_tcp($log, $ready)) {
                $select->remove($ready);
                close($ready);
            }
        }
    }
}


# a query is short enough to come at once

sub serve_tcp {
    my ($self, $log, $socket) = @_;

    $socket->sysread(my $data, 2 + 512) or return 0;

    my $reply = $self->answer($log, substr($data, 2), 65535) // return 0;

    return $socket->syswrite(pack('n', length($reply)) . $reply);
}


sub answer {
    my ($self, $log, $query, $max) = @_;

    my ($id, $name, $type, $question) = parse($query) or return;

    print $log "$name\n";

    return $self->reply($id, $question, $type, $self->names->{$name}, $max);
}


# The names as the test has set them last; decoding takes its time, and is done
# once for each set.

sub names {
    my ($self) = @_;

    open(my $file, '<', $self->{file}) or die "open: $!\n";

    my $version = <$file>;

    if ($self->{version} ne $version) {
        $self->{version} = $version;
        $self->{names} = decode_json(<$file>);
    }

    return $self->{names};
}


# A query of nginx has one question.

sub parse {
    my ($query) = @_;

    length($query) > 12 or return;

    my $id = unpack('n', $query);
    my ($at, @labels) = (12);

    while (my $length = ord(substr($query, $at, 1))) {
        push @labels, substr($query, $at + 1, $length);
        $at += 1 + $length;
        $at < length($query) or return;
    }

    my $type = unpack('n', substr($query, $at + 1, 2));

    return ($id, join('.', @labels), $type,
            substr($query, 12, $at + 5 - 12));
}


# The data of a record, if it has the type that was asked for.

sub record {
    my ($type, $value) = @_;

    if (my ($priority, $weight, $port, $target) =
        $value =~ /^srv (\d+) (\d+) (\d+) (\S+)$/)
    {
        return if $type != TYPE_SRV;

        return pack('n3 (C/a)* x', $priority, $weight, $port,
                    grep { length } split(/\./, $target));
    }

    my $data = $value =~ /:/ ? inet_pton(AF_INET6, $value)
                             : pack('C4', split(/\./, $value));
    my %length = (TYPE_A, 4, TYPE_AAAA, 16);

    return length($data) == ($length{$type} // 0) ? $data : ();
}


sub reply {
    my ($self, $id, $question, $type, $answer, $max) = @_;

    my $code = !defined $answer ? NXDOMAIN
             : ref $answer      ? 0
             : $answer eq 'failure' ? SERVFAIL
             : return;

    my @addresses = map { record($type, $_) } ref $answer ? @$answer : ();

    if ($self->{rotate} && @addresses) {
        my $first = $self->{turns}++ % @addresses;

        push @addresses, splice(@addresses, 0, $first);
    }

    # a response, recursion wanted and available; names point to the question

    my $body = $question . join('', map {
        pack('n3 N n/a', 0xc00c, $type, CLASS_IN, $self->{ttl}, $_)
    } @addresses);

    if (12 + length($body) > $max) {
        return pack('n6', $id, 0x8380 | $code, 1, 0, 0, 0) . $question;
    }

    return pack('n6', $id, 0x8180 | $code, 1, scalar(@addresses), 0, 0)
        . $body;
}


1;
