package Contenders;

# Clients that ask for registers behind locks, see Register, one request after
# another, of one nginx or another.
#
#     my $contenders = Contenders->start([@nginxes], ['fenced', 'bare'],
#                                        clients => 8, long => 3);
#                                       # name => 'c': requests are "c1-1"...
#     ...
#     $contenders->bait(1, 5, 'b'); # one more for each register, at the second
#                                   # nginx: they stay for 5 s
#     $contenders->program(...);    # a command that does the same, and gets the
#                                   # file of the history as its last argument
#     $contenders->end();           # what was asked is answered first
#     $contenders->history;         # see LockHistory
#
# The history has a line of JSON for each request in the order of the answers:
#
#     what        request
#     request, register, nginx
#                 the number of the nginx, or of none
#     sent, arrived
#                 of the request, and its answer; seconds, of time()
#     status      0: no answer
#     error       why there is none
#     left        1: the client was impatient
#     reads       1: it only reads
#
# Most requests for the registers "shared => [...]" only read, and say so by
# X-Read.  For the registers "served => { NAME => ADDRESS }" nginx answers with
# the lock itself, see Served.
#
# Most stay inside for some milliseconds; every now and then one stays for
# "long" seconds, and some are impatient and leave before they are answered.

use strict;
use warnings;

use JSON::PP;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

use Finish;
use Http;
use Process;
use Served;
use Wait;

use constant {
    SHORT     => 0.01,
    READS     => 0.75,          # the share of those that only read
    LONG      => 0.02,          # the share of requests that stay long
    IMPATIENT => 0.03,
    PATIENCE  => 0.3,           # of impatient clients, at most, in seconds
    ANSWER    => 60,            # seconds: a later answer counts as none
    PAUSE     => 0.005,
};

my $count = 0;


sub start {
    my ($class, $nginxes, $registers, %options) = @_;

    my $self = bless {
        nginxes   => [map { $_->port } @$nginxes],
        registers => $registers,
        file      => test_dir() . '/contenders' . ++$count,
        name      => 'c',
        served    => {},
        %options,
    }, $class;

    $self->{shared} = { map { ($_ => 1) } @{ $options{shared} // [] } };
    $self->{pids} = [map { $self->client($_) } 1 .. $self->{clients}];
    Finish::later($self);

    return $self;
}


sub client {
    my ($self, $number) = @_;

    return $self->fork_client(sub {
        my ($goes_on) = @_;

        for (my $i = 1; $goes_on->(); $i++) {
            $self->ask(request => "$self->{name}$number-$i", $self->choose());
            sleep(PAUSE);
        }
    });
}


sub registers { @{ $_[0]{registers} } }


# named "NAME-REGISTER"; returns the pids of clients, which end with the answer

sub bait {
    my ($self, $nginx, $stay, $name) = @_;

    local $?;

    $self->{pids} = [grep { waitpid($_, WNOHANG) == 0 } @{ $self->{pids} }];

    my @pids = map {
        my $register = $_;

        $self->fork_client(sub {
            $self->ask(request => "$name-$register", nginx => $nginx,
                       register => $register, stay => $stay);
        });
    } @{ $self->{registers} };

    push @{ $self->{pids} }, @pids;

    return @pids;
}


sub program {
    my ($self, @command) = @_;

    push @{ $self->{pids} }, spawn(test_dir() . '/programs', @command,
                                   $self->{file});
}


sub fork_client {
    my ($self, $what) = @_;

    my $parent = $$;
    my $seed = rand(2 ** 31);
    my $pid = fork() // die "fork: $!\n";

    return $pid if $pid;

    my $stopped = 0;

    @SIG{qw(HUP INT)} = ('DEFAULT') x 2;
    $SIG{TERM} = sub { $stopped = 1 };
    srand($seed);

    eval {
        open($self->{log}, '>>', $self->{file})
            or die "open $self->{file}: $!\n";
        $self->{log}->autoflush(1);
        $what->(sub { !$stopped && getppid() == $parent });
        1;
    } or warn $@;

    POSIX::_exit(0);
}


sub choose {
    my ($self) = @_;

    my $impatient = rand() < IMPATIENT;

    return (
        nginx     => int(rand(@{ $self->{nginxes} })),
        register  => $self->{registers}[rand(@{ $self->{registers} })],
        impatient => $impatient,
        stay      => $impatient || rand() < LONG ? $self->{long}
                                                 : rand(SHORT),
    );
}


# a connection of its own for each: none that the server may close meanwhile

sub ask {
    my ($self, %who) = @_;

    my $sent = time();
    my $reads = $self->{shared}{ $who{register} } && rand() < READS ? 1 : 0;
    my $served = $self->{served}{ $who{register} };
    my $port = $self->{nginxes}[ $who{nginx} ];
    my $timeout = $who{impatient} ? rand(PATIENCE) : ANSWER;
    my @request = ("/$who{register}", '', 'Connection' => 'close',
                   'X-Request' => $who{request},
                   'X-Stay' => sprintf('%.4f', $who{stay}),
                   $reads ? ('X-Read' => 1) : ());

    my $answer = $served
        ? Served::visit($port, $served, $timeout, @request)
        : Http->new($port, timeout => $timeout)->post(@request);

    my $error = $answer->{error};

    print {$self->{log}} encode_json({
        what     => 'request',
        request  => $who{request},
        register => $who{register},
        nginx    => $who{nginx},
        sent     => $sent,
        arrived  => time(),
        status   => $answer->{status},
        error    => $error,
        left     => $who{impatient} && ($error // '') eq 'timeout' ? 1 : 0,
        reads    => $reads,
    }), "\n";
}


sub history {
    my ($self) = @_;

    open(my $file, '<', $self->{file}) or return;

    return map { decode_json($_) } grep { /\n\z/ } <$file>;
}


# waits for the answers to what is under way

sub end {
    my ($self) = @_;

    kill('TERM', @{ $self->{pids} });

    return wait_for { !grep { is_running($_) } @{ $self->{pids} } }
        ANSWER, 'the clients to end';
}


sub stop {
    my ($self) = @_;

    stop_child($_) for splice(@{ $self->{pids} });
}


1;
