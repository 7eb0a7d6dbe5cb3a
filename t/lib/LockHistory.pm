package LockHistory;

# What is wrong with a history of locks: of registers, see Register, and of the
# clients that asked for them, see Contenders.  Pure: it reads and waits for
# nothing.
#
#     my $history = LockHistory->new(
#         events    => [...],           # of registers, in their order
#         requests  => [...],           # of clients
#         permits   => { NAME => 2 },   # of each lock; 1
#         disturbed => [[NGINX, FROM, UNTIL], ...],
#         killed    => [[NGINX, FROM, UNTIL], ...],
#         late      => SECONDS,
#     );
#     $history->lost_updates('NAME');   # each a list of texts
#     $history->overlaps('NAME');
#     $history->tokens('NAME');
#     $history->stale('NAME');
#     $history->unanswered();
#
# An nginx is disturbed while it could not know what happened to its locks: it
# was stopped, or a key or lease was taken away from it.  One that was killed
# gave no answers.  NGINX undef: all of them.
#
# A request is cut if its client did not get 200.  Its connection to the
# register is closed by that ("gone"), and it is no longer inside then, even if
# it will write.

use strict;
use warnings;


sub new {
    my ($class, %options) = @_;

    my $self = bless {
        permits => {}, disturbed => [], killed => [], late => 0, %options
    }, $class;

    $self->{request} = { map { $_->{request} => $_ }
                         @{ $self->{requests} } };

    return $self;
}


sub events {
    my ($self, $register, @what) = @_;

    my %what = map { $_ => 1 } @what;

    return grep { $_->{register} eq $register && $what{ $_->{what} } }
        @{ $self->{events} };
}


# the client has seen that it may not have been inside

sub is_cut {
    my ($self, $event) = @_;

    my $request = $self->{request}{ $event->{request} };

    return !$request || $request->{status} != 200;
}


# was that nginx in one of these times, between two others?

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


# writes that were made of what was no longer there

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


# more inside than there are permits, and not because some had been cut

sub overlaps {
    my ($self, $register) = @_;

    my $permits = $self->{permits}{$register} // 1;
    my (%inside, @found);
    my %gone = map { $_->{request} => $_->{at} }
        $self->events($register, 'gone');

    for my $event ($self->events($register, qw(enter write gone refused))) {
        if ($event->{what} ne 'enter') {
            delete $inside{ $event->{request} };
            next;
        }

        $inside{ $event->{request} } = $event;

        my @inside = sort { $a->{at} <=> $b->{at} } values %inside;
        my @sound = grep { !$self->excused($_, $event, \%gone) } @inside;

        push @found, join(' ', map { describe($_) } @inside)
            if @inside > $permits && @sound > $permits;
    }

    return @found;
}


# it was cut, and if that was too late, its nginx could not help it

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


# Each token is that of one request; where there is one permit, who comes later
# has a higher one, if nothing cut it.

sub tokens {
    my ($self, $register) = @_;

    my $ordered = ($self->{permits}{$register} // 1) == 1;
    my $highest = { token => 0 };
    my (%owner, @found);

    for my $event ($self->events($register, 'enter')) {
        my $owner = $owner{ $event->{token} } //= $event;

        if ($owner != $event) {
            push @found, 'twice: ' . join(' ', map { describe($_) }
                                               $owner, $event);

        } elsif (!$event->{token}) {
            push @found, 'none: ' . describe($event);

        } elsif ($event->{token} > $highest->{token}) {
            $highest = $event;

        } elsif ($ordered && !$self->is_cut($event)) {
            push @found, 'back: ' . join(' ', map { describe($_) }
                                              $highest, $event);
        }
    }

    return @found;
}


# a register refused who had not been cut, though nothing had disturbed it

sub stale {
    my ($self, $register) = @_;

    return map {
        my $request = $self->{request}{ $_->{request} };

        $request && $request->{status} == 409
            && !$self->was_disturbed($_, $_->{at})
            ? describe($_) : ();
    } $self->events($register, 'refused');
}


# a client may leave, and be cut off where its nginx was killed

sub unanswered {
    my ($self) = @_;

    my %answers = map { $_ => 1 } 200, 409, 423, 503;

    return map { sprintf('%s of %s at nginx %d, %.3f..%.3f: %d %s',
                         @$_{qw(request register nginx sent arrived status)},
                         $_->{error} // '') }
        grep { !$answers{ $_->{status} } && !$_->{left}
               && !($_->{status} == 0 && ($_->{error} // '') ne 'timeout'
                    && met($self->{killed}, $_->{nginx}, $_->{sent},
                           $_->{arrived})) }
        @{ $self->{requests} };
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
