package Disturber;

# Storms of faults (see Storm) for nginxes with locks, and the etcd they use.
#
#     my $disturber = Disturber->new(
#         cluster => $cluster, net => $net, nginxes => \@nginxes, ttl => 2,
#         locks => '/locks/', contenders => $contenders,
#         registers => $registers, seed => $seed);
#     $disturber->go_on(SECONDS, ['first', 'storm'], ['second']);
#     $disturber->disturbed; $disturber->killed;        # see LockHistory
#     $disturber->calms(0);     # ([FROM, UNTIL], ...), without faults
#     $disturber->outlived;     # seconds that leases of dead workers were left
#                               # in etcd, after a storm and their TTL
#     $disturber->summary;
#
# When a storm begins, requests are inside by the nginx that its first fault is
# done to.  After a storm every nginx is asked for every lock, and the calm goes
# on until it has answered and each lock was granted once, CALM seconds at most.
# Nginxes have a way each to the members, see Netns.

use strict;
use warnings;

use List::Util qw(max min);
use Time::HiRes qw(sleep time);

use Process;
use Storm;
use Wait;

use constant {
    SETTLES => 1,       # seconds until nginx has noticed a fault
    STAY    => 5,       # TTLs that a request stays inside meanwhile, at most
    INSIDE  => 2,       # at least so many requests are inside
    COMING  => 2,       # seconds for these requests to come
    CALM    => 25,
    LOOKS   => 0.05,    # seconds between looks at leases

    # A lease has ended for certain so many seconds after its TTL.  The next
    # leader of raft extends each lease to the whole TTL and an election timeout
    # (1 s); it looks for leases that have ended every 0.5 s, and revokes them
    # by a proposal.

    EXPIRES => 2,
};

my $slower = $ENV{TEST_SLOWER} || 1;


sub new {
    my ($class, %options) = @_;

    my $self = bless { disturbed => [], taken => [], killed => [], baits => 0,
                       %options },
                     $class;

    $self->{storm} = Storm->new(
        seed    => $self->{seed},
        cluster => $self->{cluster},
        net     => $self->{net},
        nginxes => scalar(@{ $self->{nginxes} }),
        faults  => $self->faults,
        before  => sub { $self->bait(@_) },
        calm    => sub { $self->calm(@_) },
    );

    return $self;
}


sub go_on { my $self = shift; $self->{storm}->rage(@_) }
sub summary { $_[0]{storm}->summary }
sub disturbed { @{ $_[0]{disturbed} } }
sub taken { @{ $_[0]{taken} } }
sub killed { @{ $_[0]{killed} } }


# The calms of the storms in which no worker died, or those in which some did:
# these begin when the leases of the dead were seen to be gone from etcd, or
# when etcd must have ended them.

sub calms {
    my ($self, $died) = @_;

    my $expires = $self->{ttl} + EXPIRES;

    return grep { $_->[0] < $_->[1] } map {
        my $storm = $_;
        my $dead = grep { $_->[1] > $storm->{from} - $expires
                          && $_->[1] < $storm->{until} } $self->killed;

        !$dead == !$died
            ? [$dead ? min($storm->{until} + $expires,
                           $self->{gone}{ $storm->{until} })
                     : $storm->{until}, $storm->{next}] : ();
    } $self->{storm}->storms;
}


sub outlived {
    my ($self) = @_;

    return max(0, map { $self->{gone}{$_} - $_ - $self->{ttl} }
                      keys %{ $self->{gone} });
}


sub faults {
    my ($self) = @_;

    my $ttl = $self->{ttl};

    return {
        'workers stopped' => [$ttl * 4, sub {
            my (undef, $n) = @_;

            return $self->stop_workers($n, $self->{nginxes}[$n]->workers);
        }],
        'a worker stopped' => [$ttl * 4, sub {
            my (undef, $n, $draw) = @_;
            my @workers = $self->{nginxes}[$n]->workers or return;

            return $self->stop_workers($n, $workers[$draw * @workers]);
        }],
        'a worker killed' => [0, sub {
            my (undef, $n, $draw) = @_;
            my @workers = $self->{nginxes}[$n]->workers or return;

            $self->dies($n, sub {
                $_[0]->kill_worker($workers[$draw * @workers]);
            });
            return;
        }],
        'reload' => [0, sub {
            my (undef, $n) = @_;

            kill('HUP', $self->{nginxes}[$n]->pid);
            return;
        }],
        'restart' => [0, sub {
            my (undef, $n) = @_;
            my $nginx = $self->{nginxes}[$n];

            # nginx complains of connections that it leaves in the middle of a
            # reload.

            $nginx->children == $nginx->workers or return;
            $self->dies($n, sub { $_[0]->stop; $_[0]->start });
            return;
        }],
        'crash' => [0, sub {
            my (undef, $n) = @_;

            $self->dies($n, sub { $_[0]->crash; $_[0]->start });
            return;
        }],
        'nginx cut off' => [$ttl * 4, sub {
            my ($storm, $n) = @_;

            return $self->cut_off($n, $self->{cluster}->members);
        }],
        'nginx with a minority' => [$ttl * 4, sub {
            my ($storm, $n) = @_;
            my $alone = $storm->{victim};
            my $show = $self->cut_off($n, grep { $_ != $alone }
                                              $self->{cluster}->members);

            $self->{net}->isolate($alone->place);
            return sub {
                $show->();
                $self->{net}->rejoin($alone->place);
            };
        }],
        'all of etcd hidden' => [$ttl * 3, sub {
            $_->place->hide for $self->{cluster}->members;
            return sub { $_->place->show for $self->{cluster}->members };
        }],
        'a key deleted' => [0, sub {
            my (undef, undef, $draw) = @_;
            my $kv = $self->a_key($draw) // return;

            $self->takes_away(sub { $_[0]->del($kv->{key}) });
            return;
        }],
        'a lease revoked' => [0, sub {
            my (undef, undef, $draw) = @_;
            my $kv = $self->a_key($draw) // return;

            $self->takes_away(sub { $_[0]->revoke($kv->{lease}) });
            return;
        }],
    };
}


sub stop_workers {
    my ($self, $n, @workers) = @_;

    my $nginx = $self->{nginxes}[$n];
    my $from = time();

    $nginx->freeze($_) for @workers;

    return sub {
        $nginx->thaw($_) for @workers;
        push @{ $self->{disturbed} }, [$n, $from, time() + SETTLES * $slower];
    };
}


sub cut_off {
    my ($self, $n, @members) = @_;

    $_->place->hide($n + 1) for @members;

    return sub { $_->place->show($n + 1) for @members };
}


sub dies {
    my ($self, $n, $what) = @_;

    my $from = time();

    $what->($self->{nginxes}[$n]);
    push @{ $self->{killed} }, [$n, $from, time() + SETTLES * $slower];
}


# a key that is drawn, every second time the oldest one

sub a_key {
    my ($self, $draw) = @_;

    my $etcd = $self->{cluster}->any // return;
    my @keys = sort { $a->{create_revision} <=> $b->{create_revision} }
               grep { $_->{lease} } eval { $etcd->list($self->{locks}) };

    return $keys[max(0, 2 * $draw - 1) * @keys];
}


# The next client in the queue gets the lock at once.  The key may be gone.

sub takes_away {
    my ($self, $what) = @_;

    my $etcd = $self->{cluster}->any // return;
    my $from = time();

    eval { $what->($etcd); 1 };

    my $until = time() + SETTLES * $slower;

    push @{ $self->{disturbed} }, [undef, $from, $until];
    push @{ $self->{taken} }, [$from, $until];
}


# Sends a request for each register, and waits a while until some are inside.

sub bait {
    my ($self, $n, $draw) = @_;

    my $name = 'b' . ++$self->{baits};
    my $end = time() + COMING * $slower;
    my $mark = $self->{registers}->mark;

    $self->{contenders}->bait($n, $draw * STAY * $self->{ttl}, $name);

    while ($self->{registers}->count('enter', "$name-", $mark) < INSIDE
           && time() < $end)
    {
        sleep(0.01);
    }
}


# LockHistory finds out whether the return to calm took too long.

sub calm {
    my ($self, $from) = @_;

    # keys of nginxes, which have a hexadecimal number after that of the lease;
    # other programs are not killed

    my %left = map { ($_->{lease} => 1) }
               grep { $_->{key} =~ m{/[0-9a-f]+-[0-9a-f]+(-shared)?$} }
               $self->ask('list', $self->{locks});
    my $looked = 0;

    $self->{gone}{$from} = $from;

    my $registers = $self->{registers};
    my $mark = $registers->mark;
    my $name = 'q' . ++$self->{calms};
    my @pids = map { $self->{contenders}->bait($_, 0, "$name-$_") }
               0 .. $#{ $self->{nginxes} };

    wait_for {
        if (time() > $looked + LOOKS) {
            $looked = time();
            $self->look($from, \%left);
        }

        !grep { is_running($_) } @pids
        and !grep { !$registers->count('enter', undef, $mark, $_) }
                  $self->{contenders}->registers
    } CALM, 'all locks to be granted';

    # Requests that waited for a lease of the dead come as soon as it has ended.

    $self->look($from, \%left);
}


# The keys of a lease go with it.

sub look {
    my ($self, $from, $left) = @_;

    my %leases = map { ($_ => 1) } $self->ask('leases');
    my @gone = grep { !$leases{$_} } keys %$left;

    $self->{gone}{$from} = time() if @gone;
    delete @$left{@gone};
}


sub ask { my $self = shift; return $self->{cluster}->ask(@_) }


1;
