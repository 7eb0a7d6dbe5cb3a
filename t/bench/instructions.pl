#!/usr/bin/perl

# Instructions of the worker per proxied request, by method and number of
# members: etcd_balance beside nginx's own methods.  They are the same on a
# busy machine and on another one; the kernel's are not among them, nor what is
# done by the clock: valgrind makes a request take fifty times as long.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Counted;
use Methods;

use constant {
    SIZES    => [split(/,/, $ENV{BENCH_SIZES} || '10,10000')],
    REQUESTS => $ENV{BENCH_REQUESTS} || 1000,
};


# an nginx of one process, in valgrind

package Side;

use parent -norequire, 'Methods';

sub launch {
    my ($self) = @_;

    $self->{counted} = Counted->start($self->{nginx});
}


sub pids { $_[0]{counted}->pid }


sub instructions {
    my ($self, $name, $whose, $requests) = @_;

    return $self->{counted}->instructions($requests, sub {
        $self->ask($name, $whose, $_[0]);
    });
}


package main;

my %got;

for my $size (@{ SIZES() }) {
    my $side = Side->new(
        members => $size,
        clients => 1,
        lazy    => 1,
        globals => 'daemon off; master_process off;',
    )->start();

    for my $method (Methods::names()) {
        $got{$size}{$method}{$_} =
            $side->instructions($method, $_, REQUESTS) for qw(native ours);
    }

    $side->stop();
}


sub cells {
    my ($size, $method) = @_;

    my $got = $got{$size}{$method};

    return (map { sprintf('%.0f', $_) } $got->{native}, $got->{ours},
        $got->{ours} - $got->{native}),
        sprintf('%.3f', $got->{ours} / $got->{native});
}


publish('Instructions', <<"END",
What a worker executes for one proxied request, in nginx, its modules and
libraries, without the kernel's part and without what timers do, which goes by
the clock: counted by `valgrind --tool=callgrind`
over @{[ REQUESTS ]} requests one after another, each with a connection of its
own on both sides, which nginx is the one to close: when it notices that the
other side has done so is chance. Beside `ewma`, which nginx has not, stands
`random two`.
END
    table(['method', map { my $n = $_; map { "$_, $n members" }
                           qw(nginx ours difference ratio) } @{ SIZES() }],
          map { my $method = $_;
                ["`$method`", map { cells($_, $method) } @{ SIZES() }] }
          Methods::names()));
