package Invariant;

# A deleted member gets no request: a check that runs beside anything else.
#
#     my $invariant = Invariant->start($nginx, [$etcd], { KEY => ADDRESS });
#     ...
#     $invariant->holds('while this and that was done');     # a test
#
# A Writer puts and deletes the keys, if there is an etcd; clients ask nginx
# without pause, on kept and on new connections; and every request is in nginx's
# access log with the state that it was routed by.  The configuration has FORMAT
# in http{}, and STALE and access_log %%DIR%%/requests.log invariant; where
# requests go to the members.
#
# What is found:
#
#   - a request that was begun later than LATE after a member's deletion was
#     answered, and was sent to it by an nginx that had heard from etcd since
#     (staleness counts back from the begin);
#   - one that was routed by the revision of the deletion or a later one (an
#     etcd that lost changes counts revisions anew: by an nginx that has heard
#     from it since);
#   - one that failed.

use strict;
use warnings;

use List::Util qw(max);
use Test::More ();
use Time::HiRes qw(time);

use Control;
use Finish;
use Load;
use Wait;
use Writer;

my $slower = $ENV{TEST_SLOWER} || 1;

use constant {
    LATE   => 0.1,
    STALE  => 'set $stale $etcd_staleness;',
    FORMAT => 'log_format invariant "$msec $request_time $status '
              . '$etcd_revision $stale $upstream_addr";',
    SHOWN  => 5,
    LONG   => 0.5,
};


# root => PASSWORD, as of Writer; pause => SECONDS, as of Load; servers =>
# [ADDRESS, ...] for a control

sub start {
    my ($class, $nginx, $etcds, $members, %options) = @_;

    my $self = bless {
        nginx   => $nginx,
        file    => $nginx->dir . '/requests.log',
        members => $members,
        offset  => 0,
        control => Control->start(@{ $options{servers} // [] }),
    }, $class;

    $self->allow();

    if (@$etcds) {
        $self->{writer} = Writer->start($etcds, $members,
                                        root => $options{root});
    }

    $self->{loads} = [map {
        Load->start($nginx->port, clients => 2, keepalive => $_,
                    pause => $options{pause} // 0.01)
    } 0, 1];

    return $self;
}


sub writer { $_[0]{writer} }

sub control { $_[0]{control} }

# seconds between two times, without the time that the machine did not give

sub lasted { my $self = shift; $self->{control}->lasted(@_) }


# Allows seconds more than LATE, from now on.
sub allow { $_[0]{late} = (LATE + ($_[1] // 0)) * $slower }


# A test of all requests since the last test; returns the result of look().

sub holds {
    my ($self, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $seen = $self->look();
    my @found = @{ $seen->{found} };

    Test::More::is(scalar(@found), 0, $name)
        or Test::More::diag(join("\n", @found[0 .. (@found > SHOWN ? SHOWN
                                                     : @found) - 1]));

    return $seen;
}


# of the requests that have ended since the last look:
# { found => [TEXT, ...], requests => N, failed => N, gap => SECONDS }, the gap
# being the longest time without a request in which a control was served, and
# usual => SECONDS, the longest time without an answer of the control

sub look {
    my ($self) = @_;

    my @lines = $self->lines();
    my $read = time();          # to judge thousands of requests takes a while
    my @requests = map { parse($_) } @lines;
    my @history = $self->{writer} ? $self->{writer}->history() : ();
    my $deleted = deletions($self->{members}, @history);
    my @found = map { $self->judge($_, $deleted) } @requests;
    my @times = sort { $a <=> $b } map { $_->{end} } @requests;
    my $gap = $self->gap($self->{last} // (), @times, $read);

    my $usual = $self->{control}->longest($self->{looked} // time());

    $self->{last} = $times[-1] if @times;
    $self->{looked} = time();

    return {
        found    => \@found,
        requests => scalar(@requests),
        failed   => scalar(grep { $_->{status} !~ /^2/ } @requests),
        gap      => $gap,
        usual    => $usual,
    };
}


# the longest time between two requests, if it is LONG at all

sub gap {
    my ($self, @times) = @_;

    return max(0, map {
        my ($from, $until) = @times[$_ - 1, $_];

        $until - $from < LONG ? $until - $from : $self->lasted($from, $until)
    } 1 .. $#times);
}


# Waits until there is a request for the next look.

sub is_asked {
    my ($self) = @_;

    return wait_for { $self->news() } 20, 'a request';
}


# whole lines that came since the last call

sub lines {
    my ($self) = @_;

    my @lines = $self->news();

    $self->{offset} += length for @lines;

    return @lines;
}


sub news {
    my ($self) = @_;

    open(my $file, '<', $self->{file}) or return;
    seek($file, $self->{offset}, 0);

    return grep { /\n\z/ } <$file>;
}


sub parse {
    my ($line) = @_;

    my ($end, $took, $status, $revision, $staleness, $addresses) =
        $line =~ /^(\S+) (\S+) (\S+) (\S+) (\S+) (.*)\n/ or return;

    return {
        begin     => $end - $took,
        end       => $end,
        status    => $status,
        revision  => $revision =~ /^\d+$/ ? $revision : 0,
        staleness => $staleness =~ /^[\d.]+$/ ? $staleness : 9**9,
        addresses => [split(/, | : /, $addresses)],
        line      => $line =~ s/\n//r,
    };
}


# { ADDRESS => [{ from, until, revision, since }, ...] }: the times for which
# the member was surely deleted, from the answer to the deletion until the next
# put is sent, and the time since which etcd counts these revisions

sub deletions {
    my ($members, @history) = @_;

    my (%deleted, %open);
    my $since = 0;

    for my $entry (@history) {
        my ($op, $key) = @$entry{qw(op key)};

        if ($op eq 'lost') {
            $_->{until} = $_->{from} for values %open;
            %open = ();
            $since = $entry->{done};

        } elsif ($op eq 'del') {
            $open{$key} = {
                from     => $entry->{done},
                until    => 9**9**9,
                revision => $entry->{revision},
                since    => $since,
            };

            push @{ $deleted{ $members->{$key} } }, $open{$key};

        } elsif (my $deletion = delete $open{$key}) {
            $deletion->{until} = $entry->{sent};
        }
    }

    return \%deleted;
}


# Returns the fault of a request.

sub judge {
    my ($self, $request, $deleted) = @_;

    if ($request->{status} !~ /^2/) {
        return "failed: $request->{line}";
    }

    for my $address (@{ $request->{addresses} }) {
        for my $deletion (@{ $deleted->{$address} // [] }) {
            my $why = $self->too_late($request, $deletion) or next;

            return sprintf('%s was deleted at %.3f, revision %d, %s: %s',
                           $address, @$deletion{qw(from revision)}, $why,
                           $request->{line});
        }
    }

    return;
}


sub too_late {
    my ($self, $request, $deletion) = @_;

    my ($from, $until) = @$deletion{qw(from until)};

    # Times in the log are rounded to milliseconds.

    if ($request->{begin} <= $from + 0.002
        || $request->{end} >= $until - 0.002)
    {
        return;
    }

    my $heard = $request->{begin} - $request->{staleness};

    if ($request->{revision} >= $deletion->{revision}
        && $heard >= $deletion->{since})
    {
        return 'which nginx knew';
    }

    return $heard > $from + $self->{late}
        ? sprintf('%.3f s before', $request->{begin} - $from) : undef;
}


# a test at the very end, of what the clients saw

sub finished {
    my ($self) = @_;

    $self->{control}->finished();

    for my $load (@{ $self->{loads} }) {
        my $seen = $load->results();

        Test::More::cmp_ok($seen->{requests}, '>', 100,
                           'there was load all the time');
        Test::More::is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
            or Test::More::diag(Load::describe($seen));
    }
}


1;
