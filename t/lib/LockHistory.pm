package LockHistory;

# Finds faults in a history of locks: of registers, see Register, and of the
# clients that asked for them, see Contenders.  Pure: reads nothing, and waits
# for nothing.
#
#     my $history = LockHistory->new(
#         events    => [...],           # of registers, in their order
#         requests  => [...],           # of clients
#         permits   => { NAME => 2 },   # of each lock; 1
#         disturbed => [[NGINX, FROM, UNTIL], ...],
#         taken     => [[FROM, UNTIL], ...],
#         killed    => [[NGINX, FROM, UNTIL], ...],
#         lost      => [[NGINX, FROM, UNTIL], ...],
#         late      => SECONDS,
#         foreign   => qr/.../,         # requests of other programs
#     );
#     $history->lost_updates('NAME');   # each a list of texts
#     $history->overlaps('NAME');
#     $history->tokens('NAME');
#     $history->stale('NAME');
#     $history->unanswered();
#     $history->unexplained('NAME');    # see Linearizability
#     $history->operations('NAME');     # for another judge: of the lock
#     $history->additions('NAME');      # and of the register
#     $history->idle('NAME', [FROM, UNTIL], ...);
#                                       # those of them when it was idle
#
# An nginx is disturbed while it could not know what happened to its locks: it
# was stopped, or a key or lease was taken away from it.  One that was killed
# gave no answers.  NGINX undef: all of them.
#
# A request is cut if its client did not get 200.  Its connection to the
# register is closed by that ("gone"), and it is no longer inside then, even if
# it will write.
#
# A client that leaves, and a time-out (504), do not cut a request: nginx keeps
# the lock until the register has written, unless the lock is lost or the worker
# dies.  "lost" are the times in which an nginx has logged that.
#
# Requests that only read ("reads" of a request) may be inside together, but
# with no other one.
#
# A register is idle while it has a free permit and a request waits for it; one
# that is shared, while nobody is inside.

use strict;
use warnings;

use List::Util qw(max min);

use Linearizability;

use constant LEAVES => qw(write read refused);

use constant {
    KEPT    => 10,          # seconds that the register may want, at most
    FOREVER => 9 ** 20,
};


sub new {
    my ($class, %options) = @_;

    my $self = bless {
        permits => {}, disturbed => [], taken => [], killed => [], lost => [],
        late => 0, %options
    }, $class;

    $self->{request} = { map { $_->{request} => $_ }
                         @{ $self->{requests} } };
    $self->{written} = { map { $_->{what} =~ /^(write|read)$/
                               ? ($_->{request} => $_->{at}) : () }
                         @{ $self->{events} } };

    return $self;
}


sub events {
    my ($self, $register, @what) = @_;

    my %what = map { $_ => 1 } @what;

    return grep { $_->{register} eq $register && $what{ $_->{what} } }
        @{ $self->{events} };
}


sub reads {
    my ($self, $event) = @_;

    my $request = $self->{request}{ $event->{request} };

    return $request && $request->{reads};
}


# The client of the request has seen that it may not have been inside.

sub is_cut {
    my ($self, $event) = @_;

    my $request = $self->{request}{ $event->{request} };

    return !$request || $request->{status} != 200 && !$self->keeps($request)
        || $self->ends_when_taken($event->{request});
}


sub ends_when_taken {
    my ($self, $request) = @_;

    my $at = $self->{written}{$request} // return 0;

    return grep { $_->[0] <= $at && $at <= $_->[1] } @{ $self->{taken} };
}


# true if nginx keeps the lock although the request has no client

sub keeps {
    my ($self, $request) = @_;

    my $until = $self->{written}{ $request->{request} }
                // $request->{arrived} + KEPT;

    return alone($request)
        && !grep { met($self->{$_}, $request->{nginx}, $request->{sent},
                       $until) } qw(lost killed disturbed);
}


# true if a request has no client, for no fault of nginx or etcd

sub alone { $_[0]{left} || $_[0]{status} == 504 }


# true if an nginx was in one of these times, between two others

sub met {
    my ($times, $nginx, $from, $until) = @_;

    return grep { (!defined $_->[0] || !defined $nginx || $_->[0] == $nginx)
                  && $_->[1] <= $until && $_->[2] >= $from } @$times;
}


sub was_disturbed {
    my ($self, $event, $until) = @_;

    my $request = $self->{request}{ $event->{request} };

    return met($self->{disturbed}, $request && $request->{nginx},
               $request ? $request->{sent} : $event->{at}, $until);
}


# writes that were based on a value that had changed

sub lost_updates {
    my ($self, $register) = @_;

    my $value = 0;
    my %read;
    my @found;

    for my $event ($self->events($register, 'enter', 'write')) {
        if ($event->{what} eq 'enter') {
            $read{ $event->{request} } = $event->{read};
            next;
        }

        my $read = $read{ $event->{request} };

        push @found, "$event->{request} read $read, and wrote $event->{wrote} "
                     . "over $value"
            if $read != $value;

        $value = $event->{wrote};
    }

    return @found;
}


# More requests are inside than may be, and not because some had been cut.  Each
# text begins with "succeeded" if all have got 200, "left" if some clients have
# left or timed out, "cut" if some got another answer too late.

sub overlaps {
    my ($self, $register) = @_;

    my (%inside, @found);
    my %gone = map { $_->{request} => $_->{at} }
        $self->events($register, 'gone');

    for my $event ($self->events($register, 'enter', LEAVES, 'gone')) {
        if ($event->{what} ne 'enter') {
            delete $inside{ $event->{request} } if $self->ends($event);
            next;
        }

        $inside{ $event->{request} } = $event;

        my @inside = sort { $a->{at} <=> $b->{at} } values %inside;
        my @sound = grep { !$self->excused($_, $event, \%gone) } @inside;

        push @found, join(' ', $self->kind(@inside) . ':',
                          map { describe($_) } @inside)
            if $self->crowd($register, @inside)
               && $self->crowd($register, @sound);
    }

    return @found;
}


sub crowd {
    my ($self, $register, @inside) = @_;

    return @inside > ($self->{permits}{$register} // 1)
        && grep { !$self->reads($_) } @inside;
}


# the worst that happened to a request of those that are inside together

sub kind {
    my ($self, @inside) = @_;

    my @requests = grep { defined }
                   map { $self->{request}{ $_->{request} } } @inside;

    return @requests < @inside || grep({ $_->{status} != 200 && !alone($_) }
                                       @requests) ? 'cut'
           : grep({ alone($_) } @requests) ? 'left' : 'succeeded';
}


# The connection may end before the work that it was for.

sub ends {
    my ($self, $event) = @_;

    my $request = $self->{request}{ $event->{request} };

    return $event->{what} ne 'gone' || !$request || !$self->keeps($request);
}


# The request was cut; if the cut came too late, its nginx could not help it.

sub excused {
    my ($self, $inside, $event, $gone) = @_;

    if (!$self->is_cut($inside)) {
        return 0;
    }

    my $gone_at = $gone->{ $inside->{request} };

    return $inside != $event && defined $gone_at
        && $gone_at <= $event->{at} + $self->{late}
        || $self->was_disturbed($inside, $event->{at});
}


sub describe {
    my ($event) = @_;

    return sprintf('%s at %.3f with %s', @$event{qw(request at token)});
}


# Each token belongs to one request, or to several that only read.  With one
# permit, a later request has a higher token, unless one of the requests was
# cut; those that read are not ordered among themselves.

sub tokens {
    my ($self, $register) = @_;

    my $ordered = ($self->{permits}{$register} // 1) == 1;
    my $highest = { token => 0 };
    my $written = $highest;
    my (%owner, @found);

    for my $event ($self->events($register, 'enter')) {
        my $owner = $owner{ $event->{token} } //= $event;
        my $reads = $self->reads($event);
        my $before = $reads ? $written : $highest;

        if ($owner != $event && !($reads && $self->reads($owner))) {
            push @found, 'twice: ' . join(' ', map { describe($_) }
                                               $owner, $event);

        } elsif (!$event->{token}) {
            push @found, 'none: ' . describe($event);

        } elsif ($event->{token} < $before->{token}) {
            push @found, 'back: ' . join(' ', map { describe($_) }
                                              $before, $event)
                if $ordered && !$self->is_cut($event);

        } else {
            $written = $event if !$reads;
            $highest = $event if $event->{token} > $highest->{token};
        }
    }

    return @found;
}


# refusals by a register of requests that were not cut, though nothing had
# disturbed their nginx

sub stale {
    my ($self, $register) = @_;

    return map {
        my $request = $self->{request}{ $_->{request} };

        $request && $request->{status} == 409
            && !$self->was_disturbed($_, $_->{at})
            ? describe($_) : ();
    } $self->events($register, 'refused');
}


# Clients may leave, or be cut off when their nginx is killed.

sub unanswered {
    my ($self) = @_;

    my %answers = map { $_ => 1 } 200, 409, 423, 503, 504;

    return map { sprintf('%s of %s at nginx %s, %.3f..%.3f: %d %s',
                         @$_{qw(request register nginx sent arrived status)},
                         $_->{error} // '') }
        grep { !$answers{ $_->{status} } && !$_->{left}
               && !($_->{status} == 0 && ($_->{error} // '') ne 'timeout'
                    && met($self->{killed}, $_->{nginx}, $_->{sent},
                           $_->{arrived})) }
        @{ $self->{requests} };
}


# [FROM, UNTIL], within the given times, the longest first

sub idle {
    my ($self, $register, @within) = @_;

    my @times = both([$self->free_times($register)],
                     [$self->waiting_times($register)]);

    return sort { $b->[1] - $b->[0] <=> $a->[1] - $a->[0] }
           both(\@times, \@within);
}


sub free_times {
    my ($self, $register) = @_;

    my $permits = $self->{permits}{$register} // 1;
    my $free = 0;
    my (%inside, @times);

    for my $event ($self->events($register, 'enter', LEAVES, 'gone')) {
        my $request = $event->{request};
        my $was_free = keys(%inside) < $permits;

        # a request that is refused at once was granted the lock, too

        if ($event->{what} eq 'enter' || $event->{what} eq 'refused'
                                         && !$inside{$request})
        {
            push @times, [$free, $event->{at}] if $was_free;
            $inside{$request} = 1 if $event->{what} eq 'enter';

        } elsif (!$inside{$request} || !$self->ends($event)) {
            next;

        } else {
            delete $inside{$request};
        }

        $free = $event->{at};
    }

    return keys(%inside) < $permits ? (@times, [$free, FOREVER]) : @times;
}


# The times in which some request had not got in yet.  Those of other programs
# wait for a client of their own.

sub waiting_times {
    my ($self, $register) = @_;

    my %entered = map { $_->{request} => $_->{at} }
                  reverse $self->events($register, qw(enter refused));
    my @times;

    for my $request (sort { $a->{sent} <=> $b->{sent} }
                     grep { $_->{register} eq $register
                            && !($self->{foreign}
                                 && $_->{request} =~ $self->{foreign}) }
                     @{ $self->{requests} })
    {
        my $until = min(grep { defined } $request->{arrived},
                                         $entered{ $request->{request} });

        if (@times && $times[-1][1] >= $request->{sent}) {
            $times[-1][1] = max($times[-1][1], $until);

        } else {
            push @times, [$request->{sent}, $until];
        }
    }

    return @times;
}


# the intersection of two lists of times, both in order

sub both {
    my ($first, $second) = @_;

    my ($i, $j) = (0, 0);
    my @times;

    while ($i < @$first && $j < @$second) {
        my ($one, $other) = ($first->[$i], $second->[$j]);
        my ($from, $until) = (max($one->[0], $other->[0]),
                              min($one->[1], $other->[1]));

        push @times, [$from, $until] if $from < $until;

        $one->[1] < $other->[1] ? $i++ : $j++;
    }

    return @times;
}


# The history of the lock as operations.  A request has acquired the lock before
# it came in.  It releases the lock some time after it has written; a request
# that was cut, some time after it was sent: its lock was lost then.  Requests
# that have not come in have left no trace.

sub operations {
    my ($self, $register) = @_;

    my (%acquired, @operations);

    for my $event ($self->events($register, 'enter', LEAVES)) {
        my $who = $event->{request};
        my $request = $self->{request}{$who};
        my $sent = $request ? $request->{sent} : $event->{at};
        my $cut = $self->is_cut($event);

        if (!$acquired{$who}++) {
            push @operations, { what => 'acquire', who => $who, call => $sent,
                                return => $event->{at},
                                token => $event->{token} };

            push @operations, { what => 'release', who => $who, call => $sent }
                if $cut;
        }

        push @operations, { what => 'release', who => $who,
                            call => $event->{at} }
            if $event->{what} ne 'enter' && !$cut;
    }

    return @operations;
}


# Requests add to the register: these operations each have read the value that
# was there, and then written one more.

sub additions {
    my ($self, $register) = @_;

    my %entered = map { $_->{request} => $_->{at} }
                  $self->events($register, 'enter');

    return map { { what => 'add', who => $_->{request}, wrote => $_->{wrote},
                   call => $entered{ $_->{request} }, return => $_->{at} } }
        $self->events($register, 'write');
}


# the operations, if no order of them suits a correct lock

sub unexplained {
    my ($self, $register) = @_;

    my $lock = Linearizability::lock($self->{permits}{$register});

    return Linearizability::check($lock, $self->operations($register)) // ();
}


# how many of the requests of a register got each status

sub statuses {
    my ($self, $register) = @_;

    my %statuses;

    $statuses{ $_->{status} }++
        for grep { $_->{register} eq $register } @{ $self->{requests} };

    return \%statuses;
}


1;
