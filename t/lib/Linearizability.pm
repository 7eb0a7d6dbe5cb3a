package Linearizability;

# Is a history of operations linearizable?  The algorithm of Wing and Gong
# (Testing and Verifying Concurrent Objects, 1993), with Lowe's memory of the
# configurations that have failed (Testing for Linearizability, 2017).
#
#     my $why = Linearizability::check($model, @operations);
#                                       # undef, or what cannot be explained
#
# An operation is a hash:
#
#     call        when it was asked for
#     return      when its answer arrived; undef: no answer has come, so that it
#                 took effect at any time after "call"
#     maybe       true: or never (its outcome is unknown)
#     what, who, token...
#                 what the model looks at; "what" and "who" are printed
#
# A model has an initial state, a string, and next($state, $operation), which
# gives back the state after the operation, or undef if the operation cannot
# have had its effect, and its answer, in that state.
#
#     Linearizability::lock(PERMITS)
#         acquire  who, token   A permit is free; where there is but one, the
#                               token is higher than all before.
#         release  who          "who" holds the lock.
#     Linearizability::election()
#         lead     who, token   The token is not lower than any before, and not
#                               that of another one.
#
# The search is exponential at worst, and linear where few operations overlap,
# as in histories of locks.

use strict;
use warnings;

use constant FOREVER => 9 ** 20;


sub lock {
    my ($permits) = @_;

    return {
        initial => '0',
        next    => sub { lock_step($permits // 1, @_) },
    };
}


# State: the highest token, then the clients that hold the lock.

sub lock_step {
    my ($permits, $state, $operation) = @_;

    my ($highest, @holders) = split(' ', $state);
    my $who = $operation->{who};

    if ($operation->{what} eq 'release') {
        my @others = grep { $_ ne $who } @holders;

        return @others < @holders ? join(' ', $highest, @others) : undef;
    }

    my $token = $operation->{token};

    if (@holders >= $permits || $permits == 1 && $token <= $highest) {
        return;
    }

    return join(' ', $permits == 1 ? $token : 0, sort(@holders, $who));
}


# State: the highest token, and its leader.

sub election {
    return {
        initial => '0 -',
        next    => sub {
            my ($state, $operation) = @_;

            my ($highest, $leader) = split(' ', $state);
            my ($token, $who) = @$operation{qw(token who)};

            return $token > $highest || $token == $highest && $who eq $leader
                   ? "$token $who" : undef;
        },
    };
}


# Depth first.  A configuration is the set of operations that have taken effect,
# and the state; operations are in the order of their calls.  "first" is the
# first operation that is not in the set, "later" has the operations after it
# that are.

sub check {
    my ($model, @operations) = @_;

    @operations = sort { $a->{call} <=> $b->{call} } @operations;

    my @path = ({ first => 0, later => {}, state => $model->{initial},
                  tries => undef });
    my (%failed, $furthest);
    my $depth = -1;

    while (@path) {
        my $at = $path[-1];

        if (!$at->{tries}) {
            $at->{tries} = [candidates($at, \@operations)];

            if (done($at, \@operations)) {
                return;
            }
        }

        if (@path > $depth) {
            ($depth, $furthest) = (scalar(@path), $at);
        }

        my $i = shift(@{ $at->{tries} });

        if (!defined $i) {
            pop(@path);
            next;
        }

        my $state = $model->{next}->($at->{state}, $operations[$i]) // next;
        my $then = taken($at, $i, $state);

        push @path, $then if !$failed{ name($then) }++;
    }

    return describe($furthest, \@operations);
}


# Operations that may be next: none was called after another one had returned.

sub candidates {
    my ($at, $operations) = @_;

    my $end = FOREVER;
    my @candidates;

    for (my $i = $at->{first}; $i < @$operations; $i++) {
        my $operation = $operations->[$i];

        last if $operation->{call} > $end;
        next if $at->{later}{$i};

        push @candidates, $i;

        my $return = $operation->{return} // FOREVER;

        $end = $return if $return < $end;
    }

    # Operations that may have had no effect are tried last.

    return sort { ($operations->[$a]{maybe} // 0)
                  <=> ($operations->[$b]{maybe} // 0)
                  || ($operations->[$a]{return} // FOREVER)
                  <=> ($operations->[$b]{return} // FOREVER)
                  || $a <=> $b } @candidates;
}


# true if only operations are left that may have had no effect

sub done {
    my ($at, $operations) = @_;

    return !grep { !$operations->[$_]{maybe} } @{ $at->{tries} };
}


sub taken {
    my ($at, $i, $state) = @_;

    my %later = (%{ $at->{later} }, $i => 1);
    my $first = $at->{first};

    while (delete $later{$first}) {
        $first++;
    }

    return { first => $first, later => \%later, state => $state };
}


sub name {
    my ($at) = @_;

    return join(' ', $at->{first}, '-', sort(keys %{ $at->{later} }), '-',
                $at->{state});
}


sub describe {
    my ($at, $operations) = @_;

    return "state '$at->{state}', next would be one of: "
        . join(', ', map {
            my $operation = $operations->[$_];

            "$operation->{what} by $operation->{who}"
            . (defined $operation->{token} ? " with $operation->{token}" : '')
            . " ($operation->{call}.." . ($operation->{return} // '') . ')'
        } candidates($at, $operations));
}


1;
