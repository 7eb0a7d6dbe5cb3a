#!/usr/bin/perl

# An etcd that misbehaves for a while: towards calls, towards the watch alone,
# and towards a watch that runs.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Fake;
use Fault;
use Finish;
use Wait;

# the number of times that nginx has to meet a fault, and seconds for that

use constant {
    SETS     => 4,
    MET      => 2,
    PATIENCE => 60,
};


my @watch = ('--only', 'Watch');

# [NAME, the fake's mode, the line of its log when nginx has met the fault]

my @faults = (
    ['GOAWAY without streams in flight', ['goaway-drain:1'], ' call '],
    ['GOAWAY with streams in flight', ['goaway-now:0'], ' end-running '],
    ['GOAWAY that lets streams end', ['goaway-now:2147483647'],
     ' end-running '],
    ['REFUSED_STREAM', ['refuse-first:1000'], ' call '],
    ['REFUSED_STREAM for watches', ['refuse-first:1000', @watch], 'Watch$'],
    ['RST of the watch', ['rst:2', @watch], 'Watch$'],
    ['RST of a running watch', ['watch-rst:2'], ' end-running '],
    ['CANCEL of a running watch', ['watch-rst:8'], ' end-running '],
    ['a running watch ends with an error', ['watch-end:14'], ' end-running '],
    ['a running watch ends with an error, and RST', ['watch-end-rst:14'],
     ' end-running '],
    ['a running watch ends without one', ['watch-end:0'], ' end-running '],
    ['trailers-only errors', ['trailers-only:14:no%20leader'], ' call '],
    ['trailers-only errors for watches', ['trailers-only:14:no', @watch],
     'Watch$'],
    ['1xx headers', ['continue'], 'Watch$', 1],
    ['a huge header block', ['big-headers'], ' call '],
    ['a huge header block for watches', ['big-headers', @watch], 'Watch$'],
    ['compressed messages', ['compressed'], ' call '],
    ['compressed messages of watches', ['compressed', @watch], 'Watch$'],
    ['a message cut in the middle', ['truncate', @watch], 'Watch$', 1],
    ['a stream of fragments cut in the middle', undef, ' watch ', 2],
    ['watches canceled when created', ['watch-create-cancel:/s/'],
     ' created '],
    ['another cluster', ['ok', '--cluster-id', 99], ' range ', 1],
    ['silence', ['silent'], ' open ', 2],
);

my @backends = Backend->start(6);

# Several faults run at a time: most of the time goes by with waiting for an
# nginx that has been disappointed before.

my @sets = map { {
    fake     => Fake->new(),
    revision => 100,
    members  => { '/s/0' => $backends[0]->address },
} } 1 .. SETS;


sub start {
    my ($set, $mode, @options) = @_;

    my $members = $set->{members};

    $set->{fake}->stop();
    $set->{fake}->start($mode, @options, '--revision', $set->{revision},
                        map { ('--kv', "$_=$members->{$_}") }
                            sort keys %$members);
}


# Starts the fake with puts of one revision, soon after a watch begins.

sub with_events {
    my ($set, $mode, %events) = @_;

    start($set, $mode, map { ('--event', "$_=$events{$_}") }
                           sort keys %events);

    $set->{members}{$_} = $events{$_} for keys %events;
    $set->{revision}++;
}


# The fake is well again, and has a change.

sub well {
    my ($set) = @_;

    my $other = $backends[1 + $set->{revision} % 2];

    with_events($set, 'ok', '/s/1' => $other->address);
}


# Fragments are of a revision that nginx does not know yet.

sub fragments {
    with_events($_[0], 'fragments-cut',
                map { ("/s/$_" => $backends[$_]->address) } 3 .. 5);
}


for my $set (@sets) {
    well($set);

    $set->{test} = Fault->start(
        endpoints => $set->{fake}->url,
        cluster   => 'connect_timeout 500ms; request_timeout 2s;',
        truth     => sub { $set->{members} },
        pause     => 0.05,
    );

    wait_for { $set->{test}->revision == $set->{revision} } 10, 'members';
}

while (my @round = splice(@faults, 0, SETS)) {

    for my $set (@sets) {
        my ($name, $options, $pattern, $times) = @{ shift @round or next };

        $set->{met} = sub { $set->{fake}->count(qr/$pattern/) };
        $set->{enough} = $set->{met}->() + ($times // MET);
        $set->{test}->begin($name, sub {
            $options ? start($set, @$options) : fragments($set);
        });
    }

    for my $set (@sets) {
        my $met = delete $set->{met} or next;

        ok(wait_for(sub {
            $met->() >= $set->{enough}
            && $set->{test}->revision >= $set->{revision}
        }, PATIENCE), 'it was met');

        $set->{test}->end(sub { well($set) });
    }
}

$_->{test}->finished() for @sets;

finish();
