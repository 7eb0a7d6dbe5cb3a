package Storm;

# Faults that overlap, in an order that a seed determines.
#
#     my $storm = Storm->new(
#         seed => $seed, cluster => $cluster, net => $net, nginxes => 3,
#         faults => { NAME => [SECONDS, sub {
#             my ($storm, $n, $draw) = @_;
#             ...
#             return sub { ... };       # undoes the fault, or nothing
#         }] },
#         before => sub { my ($n, $draw) = @_ },
#         calm => sub { my ($from) = @_ },
#     );
#     $storm->rage(SECONDS);
#     $storm->storms;       # { from, until, faults, next }
#     $storm->summary;
#
# A storm consists of one to MOST faults, which begin within SPREAD seconds, so
# that most of them overlap; each lasts up to its SECONDS.  A storm ends when
# all faults are undone and etcd can be written to; calm() is called then.
# before() is called before a storm with the nginx and the $draw of the first
# fault.
#
# The seed determines all faults, their times, the nginxes and etcd members;
# $draw, from 0 to 1, chooses everything else.  "longest" limits what a fault
# lasts.  TEST_FAULTS='NAME,...' leaves these faults only.
#
# Where strace may not delay etcd's writes (see Disk) no disk stands still: the
# test's output and the summary say so.
#
# The faults of etcd are here, those of nginx are the caller's.  Mostly all
# faults of a storm meet the same member, so that etcd keeps its majority.

use strict;
use warnings;

use List::Util qw(max min);
use Test::More ();
use Time::HiRes qw(sleep time);

use Disk;
use Wait;

use constant {
    MOST    => 4,
    SPREAD  => 3,
    SHORTER => 6,           # limit of a fault, in seconds, without TEST_SOAK
    ONE     => 0.8,         # the share of storms with one victim
    NOTICES => 0.3,         # seconds for the write that a disk is to delay
    STILL   => 3,           # disks stand still more often than other faults
};

# [SECONDS, the fault's code]

my %faults = (
    'etcd killed' => [4, sub {
        my ($self) = @_;
        my $etcd = $self->member // return;

        $etcd->kill;
        return sub { $etcd->launch if !$etcd->pid };
    }],
    'etcd stopped' => [20, sub {
        my ($self) = @_;

        return $self->stop_member($self->member);
    }],
    "etcd's leader stopped" => [20, sub {
        my ($self) = @_;

        return $self->stop_member($self->leader);
    }],
    'etcd cut off' => [8, sub {
        my ($self) = @_;
        my $place = $self->{victim}->place;

        $self->{net}->isolate($place);
        return sub { $self->{net}->rejoin($place) };
    }],
    'a disk stands still' => [15, sub {
        my ($self) = @_;

        return $self->disk($self->member, 'still');
    }],
    "the leader's disk stands still" => [15, sub {
        my ($self) = @_;

        return $self->disk($self->leader, 'still');
    }],
    'a disk is slow' => [15, sub {
        my ($self, undef, $draw) = @_;

        return $self->disk($self->member, 'slow', ms => 50 + 500 * $draw);
    }],
    'etcd leader moved' => [0, sub {
        my ($self, undef, $draw) = @_;
        my $leader = $self->leader // return;
        my @others = grep { $_ != $leader } $self->{cluster}->members;
        my $id = member_id($others[$draw * @others]) // return;

        $leader->etcdctl('move-leader', $id);
        return;
    }],
    'compacted' => [0, sub {
        my ($self) = @_;
        my $etcd = $self->{cluster}->any // return;

        eval { $etcd->compact; 1 };
        return;
    }],
    'defragmented' => [0, sub {
        my ($self) = @_;
        my $etcd = $self->member // return;

        $etcd->etcdctl('--command-timeout=3s', 'defrag');
        return;
    }],
);


sub new {
    my ($class, %options) = @_;

    my %all = (%faults, %{ delete $options{faults} });

    my @wanted = split(/, */, $ENV{TEST_FAULTS} // '');

    !grep { !exists $all{$_} } @wanted or die "TEST_FAULTS: no such fault\n";

    my @missing = Disk::usable() ? () : sort grep { /disk/ } keys %all;

    if (@missing) {
        delete @all{@missing};
        Test::More::diag('storms without faults of disks: ', Disk::why_not());
    }

    my @names = @wanted ? grep { exists $all{$_} } @wanted
        : map { ($_) x (/still/ ? STILL : 1) } sort keys %all;

    @names or die "TEST_FAULTS: only faults of disks\n";

    return bless {
        all     => \%all,
        missing => \@missing,
        names   => \@names,
        state   => delete $options{seed},
        longest => $ENV{TEST_SOAK} ? undef : SHORTER,
        storms  => [],
        done    => {},
        %options,
    }, $class;
}


# the calm after each goes on until "next"

sub storms {
    my ($self) = @_;

    my @storms = @{ $self->{storms} };

    return map {
        +{ %{ $storms[$_] },
           next => $_ < $#storms ? $storms[$_ + 1]{from} : time() }
    } 0 .. $#storms;
}


sub summary {
    my ($self) = @_;

    my $missing = @{ $self->{missing} }
        ? 'NOT RUN: ' . join(', ', @{ $self->{missing} }) . '; ' : '';

    return @{ $self->{storms} } . " storms: $missing"
        . join(', ', map { "$_: $self->{done}{$_}" }
                     sort keys %{ $self->{done} });
}


# A generator of its own (the linear congruential one of POSIX): others draw
# from rand() meanwhile, as often as time allows.

sub draw {
    my ($self) = @_;

    $self->{state} = ($self->{state} * 1103515245 + 12345) % 2 ** 31;

    return $self->{state} / 2 ** 31;
}


# Both find the member without etcd, which may not answer.  Undefined if no
# member runs.

sub member {
    my ($self) = @_;

    return $self->{victim}->pid && $self->{victim};
}


sub leader {
    my ($self) = @_;

    my $leader = eval { $self->{cluster}->leader_now };

    return $self->{victim} = $leader if $leader && $leader->pid;
    return $self->member;
}


sub member_id {
    my ($etcd) = @_;

    my ($status, $output) = $etcd->etcdctl('-w', 'json', 'endpoint', 'status');

    return $output =~ /"member_id":(\d+)/ ? sprintf('%x', $1) : undef;
}


sub stop_member {
    my ($self, $etcd) = @_;

    $etcd // return;

    my $pid = $etcd->pid;

    $etcd->freeze;
    return sub { kill('CONT', $pid) if ($etcd->pid // 0) == $pid };
}


sub disk {
    my ($self, $etcd, $how, @options) = @_;

    $etcd // return;

    # The etcd may be traced already, or end meanwhile.

    my $disk = eval { Disk->$how($etcd, @options) } // return;

    # A quiet etcd writes nothing, and would not notice.

    $etcd->http(timeout => NOTICES)->post('/v3/kv/put',
                                          '{"key":"L2Rpc2s=","value":"MQ=="}');

    return sub { $disk->moves };
}


sub rage {
    my ($self, $seconds, @first) = @_;

    my $end = time() + $seconds;

    do {
        my @plan = $self->plan(splice(@first, 0, 1));

        $self->{before}->(@{ $plan[0] }{'n', 'draw'}) if $self->{before};
        $self->blow(@plan);
        $self->{calm}->($self->{storms}[-1]{until}) if $self->{calm};
    } while (time() < $end || @first);
}


# Returns the faults of a storm: [NAME, ...], or as the seed draws them; of the
# names, those that are available.

sub plan {
    my ($self, $wanted) = @_;

    my @members = $self->{cluster}->members;
    my $one = $members[$self->draw * @members];
    my $same = $self->draw < ONE;
    my @names = $self->available(@{ $wanted // [] });

    if (!@names) {
        @names = map { $self->{names}[$self->draw * @{ $self->{names} }] }
                 1 .. 1 + $self->draw * MOST;
    }

    my @plan = map { {
        name   => $_,
        at     => $self->draw * SPREAD,
        lasts  => $self->lasts($_),
        n      => int($self->draw * $self->{nginxes}),
        member => $same ? $one : $members[$self->draw * @members],
        draw   => $self->draw,
    } } @names;

    return sort { $a->{at} <=> $b->{at} } @plan;
}


# A name that was never a fault is a mistake of the test.

sub available {
    my ($self, @names) = @_;

    my %missing = map { ($_ => 1) } @{ $self->{missing} };

    for my $name (@names) {
        exists $self->{all}{$name} || $missing{$name}
            or die "no such fault: $name\n";
    }

    return grep { !$missing{$_} } @names;
}


sub lasts {
    my ($self, $name) = @_;

    my $most = min(grep { defined } $self->{all}{$name}[0], $self->{longest});

    return $most && max(0.3, $self->draw * $most);
}


sub blow {
    my ($self, @plan) = @_;

    my $from = time();
    my @agenda = map { my $fault = $_;
                       [$from + $_->{at}, sub { $self->begin($fault) }] } @plan;

    my $text = sprintf('storm %d at %.3f: ', 1 + @{ $self->{storms} }, $from)
        . join(', ', map { $self->describe($_) } @plan);

    $ENV{TEST_SOAK} ? Test::More::diag($text) : Test::More::note($text);

    while (@agenda) {
        my ($next) = sort { $a->[0] <=> $b->[0] } @agenda;

        @agenda = grep { $_ != $next } @agenda;

        my $pause = $next->[0] - time();

        sleep($pause) if $pause > 0;
        push @agenda, $next->[1]->();
    }

    $self->{cluster}->wait_healthy;
    $self->{cluster}->ask('put', '/calm', scalar(@{ $self->{storms} }));

    push @{ $self->{storms} }, { from => $from, until => time(),
                                 faults => [map { $_->{name} } @plan] };
}


# Begins a fault; returns the time of its end and the code that ends it, or
# nothing if the fault ends by itself.

sub begin {
    my ($self, $fault) = @_;

    $self->{victim} = $fault->{member};

    my $undo = $self->{all}{ $fault->{name} }[1]
                    ->($self, $fault->{n}, $fault->{draw});

    $self->{done}{ $fault->{name} }++;

    return $undo ? [time() + $fault->{lasts}, sub { $undo->(); return }] : ();
}


sub describe {
    my ($self, $fault) = @_;

    return sprintf('%s (%.1f..%.1f, %s, nginx %d)', $fault->{name},
                   $fault->{at}, $fault->{at} + $fault->{lasts},
                   $fault->{member}{name}, $fault->{n});
}


1;
