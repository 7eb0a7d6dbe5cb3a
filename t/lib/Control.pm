package Control;

# A control for what takes its time: a plain nginx, without the modules, that
# clients ask for the same servers at the same time.  What it cannot do either,
# because the machine has other things to do, is nobody's fault.
#
#     my $control = Control->start($backend->address, ...);
#     my $from = time();
#     ...
#     $control->since($from, time());   # seconds that the machine did not give
#     $control->lasted($from, time());  # all the others
#     $control->again(sub { ... });     # does it again where it was false, and
#                                       # the machine may be why
#     $control->finished();             # a test: it was asked all the time
#
# Without servers it has one of its own.  Control->beside($nginx, $path, $log)
# asks another nginx, which logs $msec of each request of that path.

use strict;
use warnings;

use List::Util qw(max min);
use Test::More ();
use Time::HiRes qw(time);

use Backend;
use Load;
use Nginx;
use Stall;
use Wait;

use constant {
    CLIENTS => 2,
    PAUSE   => 0.01,        # of clients
    MISSED  => 0.05,        # between two answers: what is shorter is nothing
    TIMES   => 10,
};

my $config = <<'EOC';

http {
    log_format control "$msec";

    upstream control {
        %%SERVERS%%
        keepalive 8;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/control.log control;

        location / {
            proxy_pass http://control;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}

EOC


sub start {
    my ($class, @servers) = @_;

    @servers = (Backend->start('control'))[0]->address if !@servers;

    my $nginx = Nginx->new(modules => [])->set(SERVERS => servers(@servers))
        ->start($config);

    return $class->beside($nginx, '/', 'control.log');
}


# "server" lines for an upstream

sub servers { join(' ', map { "server $_ max_fails=0;" } @_) }


sub beside {
    my ($class, $nginx, $path, $log, $stall) = @_;

    my $self = bless {
        nginx   => $nginx,
        file    => $nginx->dir . "/$log",
        offset  => 0,
        answers => [],
        begun   => time(),
        stall   => $stall // Stall->watch(),
        load    => Load->start($nginx->port, clients => CLIENTS, path => $path,
                               keepalive => 1, pause => PAUSE),
    }, $class;

    wait_for { $self->answers() } 20, 'an answer of the control';

    return $self;
}


sub nginx { $_[0]{nginx} }


# seconds between two times, without the time that the machine did not give

sub lasted {
    my ($self, $from, $until) = @_;

    return $until - $from - $self->since($from, $until);
}


# Seconds in which the machine stood still, see Stall, or the control was not
# served: each moment counts once.

sub since {
    my ($self, $from, $until) = @_;

    $until //= time();

    my $sum = 0;

    for ($self->moments($from)) {
        my $begin = max($_->[0], $from);
        my $end = min($_->[1], $until);

        if ($begin < $end) {
            $sum += $end - $begin;
            $from = $end;
        }
    }

    return $sum;
}


# Returns the value of the code, which is true, or else false when the machine
# had nothing else to do.

sub again {
    my ($self, $code) = @_;

    for (1 .. TIMES) {
        my $from = time();
        my $value = $code->();

        return $value if $value || !$self->since($from) && Wait::share() == 1;
    }

    return;
}


# [FROM, UNTIL] of each such moment since a time, in order

sub moments {
    my ($self, $from) = @_;

    my $stall = $self->{stall};

    return sort { $a->[0] <=> $b->[0] } $self->pauses($from),
           map { $stall->stalls($_) } @{ $stall->{watchers} };
}


# The longest time without an answer since a time: another client may have to
# wait as long at another moment.

sub longest {
    my ($self, $from) = @_;

    return max(0, map { $_->[1] - $_->[0] } $self->pauses($from));
}


# [from, until] between two answers, the last one being over now

sub pauses {
    my ($self, $from) = @_;

    my @answers = ($self->answers(), time());

    return map { [@answers[$_ - 1, $_]] }
           grep { $answers[$_] > $from
                  && $answers[$_] - $answers[$_ - 1] >= MISSED }
           1 .. $#answers;
}


# times of the control's answers, in order; the log has whole lines

sub answers {
    my ($self) = @_;

    open(my $file, '<', $self->{file}) or return;
    seek($file, $self->{offset}, 0);

    my @lines = grep { /\n\z/ } <$file>;

    $self->{offset} += length for @lines;
    push @{ $self->{answers} }, map { s/\n//r } @lines;

    return @{ $self->{answers} };
}


# a test at the end: a control that does nothing would excuse everything

sub finished {
    my ($self) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $lasted = time() - $self->{begun};
    my $seen = $self->{load}->results();

    Test::More::ok($seen->{requests} > min(100, $lasted)
                   && @{ $seen->{failed} } == 0,
                   'the control was served all the time')
        or Test::More::diag("$seen->{requests} requests in $lasted s\n"
                            . Load::describe($seen));
}


1;
