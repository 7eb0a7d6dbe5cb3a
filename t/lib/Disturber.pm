package Disturber;

# What can be done to nginxes with locks, and to the etcd that they use.
#
#     my $disturber = Disturber->new(
#         cluster => $cluster, net => $net, nginxes => \@nginxes, ttl => 2,
#         locks => '/locks/', contenders => $contenders,
#         registers => $registers);
#     $disturber->go_on(SECONDS, 'first', 'second');    # those first, then any
#     $disturber->disturbed; $disturber->killed;        # see LockHistory
#     $disturber->summary;
#
# One fault at a time, while somebody is inside by the nginx that it is done to,
# and a reload or the death of a worker of another nginx meanwhile.  Nginxes
# have a way each to the members, see Netns.

use strict;
use warnings;

use List::Util qw(shuffle);
use Time::HiRes qw(sleep time);

use Wait;

use constant {
    SETTLES => 1,       # until what was done to nginx is seen
    STAY    => 2.5,     # TTLs that somebody is inside meanwhile
    INSIDE  => 2,       # so many at least
    COMING  => 2,       # seconds for them
};

my $slower = $ENV{TEST_SLOWER} || 1;


sub new {
    my ($class, %options) = @_;

    return bless { disturbed => [], killed => [], done => {}, %options },
                 $class;
}


sub disturbed { @{ $_[0]{disturbed} } }
sub killed { @{ $_[0]{killed} } }


sub summary {
    my ($self) = @_;

    return join(', ', map { "$_: $self->{done}{$_}" }
                      sort keys %{ $self->{done} });
}


# Each gives back nothing, or for how long it lasts and how it is undone.

my %faults = (
    'workers stopped' => sub {
        my ($self, $n) = @_;
        my @workers = $self->{nginxes}[$n]->workers;

        return $self->stop_workers($n, @workers);
    },
    'a worker stopped' => sub {
        my ($self, $n) = @_;
        my ($worker) = shuffle($self->{nginxes}[$n]->workers);

        return $self->stop_workers($n, $worker);
    },
    'a worker killed' => sub {
        my ($self, $n) = @_;
        my ($worker) = shuffle($self->{nginxes}[$n]->workers);

        $self->dies($n, sub { $_[0]->kill_worker($worker) }) if $worker;
        return;
    },
    'reload' => sub {
        my ($self, $n) = @_;

        kill('HUP', $self->{nginxes}[$n]->pid);
        return;
    },
    'restart' => sub {
        my ($self, $n) = @_;
        my $nginx = $self->{nginxes}[$n];

        # in the middle of a reload nginx itself complains of what it leaves

        wait_for { $nginx->children == $nginx->workers } 60, 'old workers';

        $self->dies($n, sub { $_[0]->stop; $_[0]->start });
        return;
    },
    'crash' => sub {
        my ($self, $n) = @_;

        $self->dies($n, sub { $_[0]->crash; $_[0]->start });
        return;
    },
    'nginx cut off' => sub {
        my ($self, $n) = @_;

        $_->place->hide($n + 1) for $self->{cluster}->members;
        return [$self->{ttl} * 2.5, sub {
            $_->place->show($n + 1) for $self->{cluster}->members;
        }];
    },
    'nginx with a minority' => sub {
        my ($self, $n) = @_;
        my ($alone, @others) = shuffle($self->{cluster}->members);

        $_->place->hide($n + 1) for @others;
        $self->{net}->isolate($alone->place);
        return [$self->{ttl} * 2.5, sub {
            $_->place->show($n + 1) for @others;
            $self->{net}->rejoin($alone->place);
        }];
    },
    'all of etcd hidden' => sub {
        my ($self) = @_;

        $_->place->hide for $self->{cluster}->members;
        return [$self->{ttl} * 2, sub {
            $_->place->show for $self->{cluster}->members;
        }];
    },
    'etcd cut off' => sub {
        my ($self) = @_;
        my ($etcd) = shuffle($self->{cluster}->members);

        $self->{net}->isolate($etcd->place);
        return [$self->{ttl}, sub { $self->{net}->rejoin($etcd->place) }];
    },
    'etcd killed' => sub {
        my ($self) = @_;
        my ($etcd) = shuffle($self->{cluster}->members);

        $etcd->kill;
        return [0.5, sub { $self->{cluster}->revive }];
    },
    'etcd restarted' => sub {
        my ($self) = @_;
        my ($etcd) = shuffle($self->{cluster}->members);

        $etcd->stop;
        $self->{cluster}->revive;
        return;
    },
    'etcd stopped' => sub {
        my ($self) = @_;
        my ($etcd) = shuffle($self->{cluster}->members);

        $etcd->freeze;
        return [$self->{ttl} + 1, sub { $etcd->thaw }];
    },
    'compacted' => sub {
        my ($self) = @_;
        my $etcd = $self->{cluster}->any // return;

        # it may have lost its leader meanwhile

        eval { $etcd->compact; 1 };
        return;
    },
    'defragmented' => sub {
        my ($self) = @_;

        $_->etcdctl('defrag') for $self->{cluster}->members;
        return;
    },
    'a key deleted' => sub {
        my ($self) = @_;
        my $kv = $self->a_key // return;

        $self->takes_away(sub { $_[0]->del($kv->{key}) });
        return;
    },
    'a lease revoked' => sub {
        my ($self) = @_;
        my $kv = $self->a_key // return;

        $self->takes_away(sub { $_[0]->revoke($kv->{lease}) });
        return;
    },
);


sub stop_workers {
    my ($self, $n, @workers) = @_;

    my $nginx = $self->{nginxes}[$n];
    my $from = time();

    $nginx->freeze($_) for grep { defined } @workers;

    return [$self->{ttl} * 2.5, sub {
        $nginx->thaw($_) for grep { defined } @workers;
        push @{ $self->{disturbed} }, [$n, $from, time() + SETTLES * $slower];
    }];
}


sub dies {
    my ($self, $n, $what) = @_;

    my $from = time();

    $what->($self->{nginxes}[$n]);
    push @{ $self->{killed} }, [$n, $from, time() + SETTLES * $slower];
}


# one of those that are there, the first of its lock more often

sub a_key {
    my ($self) = @_;

    my $etcd = $self->{cluster}->any // return;
    my ($first, @others) = sort {
        $a->{create_revision} <=> $b->{create_revision}
    } grep { $_->{lease} } eval { $etcd->list($self->{locks}) };

    return rand() < 0.5 ? $first : (shuffle(@others))[0] // $first;
}


# what somebody holds: who is next gets it at once.  It may have been gone.

sub takes_away {
    my ($self, $what) = @_;

    my $etcd = $self->{cluster}->any // return;
    my $from = time();

    eval { $what->($etcd); 1 };
    push @{ $self->{disturbed} }, [undef, $from, time() + SETTLES * $slower];
}


sub go_on {
    my ($self, $seconds, @deck) = @_;

    my $end = time() + $seconds;

    while (time() < $end || @deck) {
        my $name = shift(@deck) // (shuffle(keys %faults))[0];

        $self->disturb($name);
        sleep(rand(0.7));
    }
}


# Nobody may be let in now, and then there is none.

sub bait {
    my ($self, $n) = @_;

    my $name = 'b' . ++$self->{baits};
    my $end = time() + COMING * $slower;

    $self->{contenders}->bait($n, STAY * $self->{ttl}, $name);

    while ($self->{registers}->count('enter', "$name-") < INSIDE
           && time() < $end)
    {
        sleep(0.01);
    }
}


sub disturb {
    my ($self, $name) = @_;

    my ($n, $other) = shuffle(0 .. $#{ $self->{nginxes} });

    $self->bait($n);

    my $undo = $faults{$name}->($self, $n);

    $self->{done}{$name}++;

    if ($undo) {
        my ($second) = shuffle('reload', 'a worker killed', 'compacted');

        sleep($undo->[0] / 2);
        eval { $faults{$second}->($self, $other); 1 }
            and $self->{done}{$second}++;
        sleep($undo->[0] / 2);
        $undo->[1]->();
    }
}


1;
