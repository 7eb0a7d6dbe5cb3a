package Scripted;

# Backends that answer each request by a script, whatever the protocol is.
#
#     my $backends = Scripted->start(
#         NAME => [[0, 'bytes'], [2, 'more bytes']], ...);
#     $backends->address('NAME');
#     $backends->history('NAME');   # 'began', then 'finished', or 'left' if
#                                   # the connection was closed before
#     $backends->hold; $backends->go;
#
# A step is [SECONDS after the step before, BYTES]; undefined bytes close the
# connection.  Otherwise the connection stays, for another request.  Seconds
# below 0 begin to count when go() is called, if hold() was before.
#
# A backend gives up its work as soon as it reads the end of its connection, as
# servers do that watch for it.  One whose script begins with 'stays' works on.

use strict;
use warnings;

use IO::Select;
use POSIX ();
use Time::HiRes qw(time);

use Backend;
use Finish;
use Port;
use Process;
use Wait;

use constant {
    CHUNK    => 65536,
    FOR_EVER => 1e12,
};

my $count = 0;


sub start {
    my ($class, %scripts) = @_;

    my $self = bless {
        scripts => \%scripts,
        ports   => { map { ($_ => free_port()) } keys %scripts },
        file    => test_dir() . '/scripted' . ++$count,
    }, $class;

    my %listening = map { ($_ => Backend::listen_on($self->{ports}{$_})) }
                        keys %scripts;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        $SIG{PIPE} = 'IGNORE';
        eval { $self->serve(%listening); 1 } or warn $@;
        POSIX::_exit(1);
    }

    $self->{pid} = $pid;
    Finish::later($self);

    return $self;
}


sub address { "127.0.0.1:$_[0]{ports}{$_[1]}" }


# Orders are signals: the next one must not come before they are obeyed.

sub hold { $_[0]->order('USR2', 'held') }
sub go { $_[0]->order('USR1', 'goes') }


sub order {
    my ($self, $signal, $answer) = @_;

    my $before = $self->history('-');

    kill($signal, $self->{pid});
    wait_for { $self->history('-') > $before } 20, $answer;
}


sub history {
    my ($self, $name) = @_;

    open(my $file, '<', $self->{file}) or return;

    return map { /^\Q$name\E (\w+)\n/ ? $1 : () } <$file>;
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the server's side: clients by their sockets, with "steps" while they work

my (%clients, $select, $log, $held);


sub serve {
    my ($self, %listening) = @_;

    open($log, '>>', $self->{file}) or die "open $self->{file}: $!\n";
    $log->autoflush(1);

    my %names = map { ($listening{$_} => $_) } keys %listening;

    $select = IO::Select->new(values %listening);
    $SIG{USR1} = sub { obey(0) };
    $SIG{USR2} = sub { obey(1) };

    while (1) {
        my ($due) = sort { $a <=> $b } map { $_->{at} // () } values %clients;
        my $pause = defined $due ? $due - time() : undef;

        for my $socket ($select->can_read(defined $pause && $pause < 0
                                          ? 0 : $pause))
        {
            if (my $name = $names{$socket}) {
                accept_from($socket, $name);
            } else {
                $self->read_from($clients{$socket});
            }
        }

        for my $client (values %clients) {
            step($client) while defined $client->{at}
                                && $client->{at} <= time();
        }
    }
}


sub accept_from {
    my ($listening, $name) = @_;

    my $socket = $listening->accept() or return;

    $select->add($socket);
    $clients{$socket} = { socket => $socket, name => $name };
}


sub read_from {
    my ($self, $client) = @_;

    if (!sysread($client->{socket}, my $input, CHUNK)) {
        if ($client->{stays} && defined $client->{at}) {
            $select->remove($client->{socket});
            return;
        }

        print {$log} "$client->{name} left\n" if defined $client->{at};
        hang_up($client);
        return;
    }

    return if defined $client->{at};

    $client->{steps} = [@{ $self->{scripts}{ $client->{name} } }];
    $client->{stays} = shift @{ $client->{steps} } if !ref $client->{steps}[0];
    wind($client, time());

    print {$log} "$client->{name} began\n";
}


# Sets the time of the next step.

sub wind {
    my ($client, $now) = @_;

    my $pause = $client->{steps}[0][0];

    $client->{at} = $pause < 0 && $held ? FOR_EVER : $now + abs($pause);
}


sub obey {
    ($held) = @_;

    if (!$held) {
        wind($_, time())
            for grep { ($_->{at} // 0) == FOR_EVER } values %clients;
    }

    print {$log} "- obeyed\n";
}


sub step {
    my ($client) = @_;

    my (undef, $bytes) = @{ shift @{ $client->{steps} } };
    my $next = $client->{steps}[0];

    if ($next) {
        wind($client, $client->{at});

    } else {
        delete $client->{at};
        print {$log} "$client->{name} finished\n";
    }

    if (defined $bytes) {
        syswrite($client->{socket}, $bytes);
    } else {
        hang_up($client);
    }
}


sub hang_up {
    my ($client) = @_;

    delete $clients{ $client->{socket} };
    delete $client->{at};
    $select->remove($client->{socket});
    close($client->{socket});
}


1;
