package Load;

# Clients that ask without pause until they are stopped.
#
#     my $load = Load->start($nginx->port, clients => 4, keepalive => 1);
#     ...
#     my $seen = $load->results();
#     $seen->{requests}; $seen->{failed};      # what failed, with its time
#     $seen->{last}{NAME};                     # when a body was seen last, by
#                                              # the time of its request
#
# One process, its clients in turn: new connections for every request, or
# with keepalive => 1 one kept for each client.

use strict;
use warnings;

use JSON::PP;
use POSIX ();
use Time::HiRes qw(time sleep);

use Finish;
use Http;
use Process;
use Wait;

my $count = 0;


sub start {
    my ($class, $port, %options) = @_;

    my $self = bless {
        file => test_dir() . '/load' . ++$count,
        %options,
    }, $class;

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        eval { ask($self, $port); 1 } or warn $@;
        POSIX::_exit(0);
    }

    $self->{pid} = $pid;
    Finish::later($self);

    return $self;
}


sub ask {
    my ($self, $port) = @_;

    my $stopped = 0;

    local @SIG{qw(INT HUP)} = ('DEFAULT') x 2;
    local $SIG{TERM} = sub { $stopped = 1 };

    my @clients = map { Http->new($port) } 1 .. $self->{clients} // 4;
    my %seen = (requests => 0, failed => [], last => {});
    my @headers = $self->{keepalive} ? () : (Connection => 'close');

    # A test that is killed cannot stop its clients: they end by themselves.

    my $test = getppid();

    open(my $asked, '>', "$self->{file}.asked") or die "open: $!\n";

    until ($stopped || getppid() != $test) {
        my $now = time();

        seek($asked, 0, 0);
        print $asked $seen{requests};
        $asked->flush();

        $_->send('GET', $self->{path} // '/', undef, @headers) for @clients;

        for my $client (@clients) {
            my $answer = $client->receive();

            $seen{requests}++;

            if ($answer->{status} == 200) {
                $seen{last}{$answer->{body}} = $now;
                next;
            }

            push @{ $seen{failed} }, {
                time   => time(),
                status => $answer->{status},
                error  => $answer->{error},
            };
        }

        if ($self->{pause}) {
            sleep($self->{pause});
        }
    }

    open(my $file, '>', "$self->{file}.new") or die "open: $!\n";
    print $file encode_json(\%seen);
    close($file);
    rename("$self->{file}.new", $self->{file});
}


# the requests so far

sub asked {
    my ($self) = @_;

    open(my $file, '<', "$self->{file}.asked") or return 0;

    return <$file> || 0;
}


sub results {
    my ($self) = @_;

    kill('TERM', $self->{pid});

    wait_for { !is_running($self->{pid}) } 20, 'the clients to end';
    $self->stop();

    open(my $file, '<', $self->{file}) or die "no result of clients: $!\n";

    return decode_json(<$file>);
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the failures, for diag()

sub describe {
    my ($seen) = @_;

    return join("\n", map { "$_->{status} " . ($_->{error} // '') }
                      @{ $seen->{failed} });
}


1;
