#!/usr/bin/perl

# Requests a second by two workers, over those by one, when only the workers are
# busy.  Every member refuses the connection, so that a request is many picks
# and attempts in nginx, and next to nothing for the client; there is no
# backend.  The control is nginx without "zone", whose workers share nothing:
# the most that two workers can give on this machine.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use POSIX ();

use Bench;
use Cpus;
use Methods;

use constant {
    SIZES   => [split(/,/, $ENV{BENCH_SIZES} || '10,1000,10000')],
    ROUNDS  => $ENV{BENCH_ROUNDS} || 5,
    SECONDS => $ENV{BENCH_SECONDS} || 0.25,
    CLIENTS => 32,
    TRIES   => 10,
    CONTROL => 'random',
};

my $server = 'proxy_next_upstream_tries ' . TRIES . ';'
    . ' error_page 502 =200 /refused; error_log /dev/null crit;'
    . ' location = /refused { return 200 "refused"; }';

my @asked = (map({ my $name = $_; map { [$name, $_] } qw(ours native) }
                 Methods::names()),
             [CONTROL, 'unshared']);


sub start {
    my ($size, $workers) = @_;

    my $side = Methods->new(
        members => $size, workers => $workers, keepalive => 1,
        clients => CLIENTS, as => [Cpus::command()], server => $server,
        parameters => 'max_fails=0', unshared => [CONTROL],
    )->start();

    Cpus::spread($side->pids);

    return $side;
}


# requests a second, for about so long

sub rate {
    my ($side, $name, $whose) = @_;

    my $n = \$side->{requests}{$name}{$whose};
    my $rate = $side->ask($name, $whose, $$n // 2 * CLIENTS)->{rate};

    $$n //= POSIX::ceil($rate * SECONDS) + 2 * CLIENTS;

    return $rate;
}


# { NAME => { ours => [{ one => rate, two => rate }, ...] } }; the first round
# finds the number of requests for the time.

sub rounds {
    my ($size) = @_;

    my ($one, $two) = map { start($size, $_) } 1, 2;
    my %rounds;

    for my $round (0 .. ROUNDS) {
        for (@asked) {
            my ($name, $whose) = @$_;
            my $rate = rate($one, $name, $whose);

            push @{ $rounds{$name}{$whose} },
                { one => $rate, two => rate($two, $name, $whose) };
        }
    }

    $_->stop() for $one, $two;
    shift @$_ for map { values %$_ } values %rounds;

    return \%rounds;
}


sub ratio_cell {
    my ($rounds) = @_;

    return spread_of('%.2f', sub { $_[0]{two} / $_[0]{one} }, @$rounds);
}


sub rate_cell {
    my ($rounds) = @_;

    return sprintf('%.0f', TRIES * median(map { $_->{two} } @$rounds) / 1000);
}


# Nobody has the port of all members from now on.

Methods::backend()->stop();
Cpus::divide();

my %got = map { $_ => rounds($_) } @{ SIZES() };


sub rows {
    my ($cell) = @_;

    my @control = map { ('', $cell->($got{$_}{+CONTROL}{unshared})) }
                      @{ SIZES() };

    return (map { my $name = $_; ["`$name`", map { my $size = $_;
                  map { $cell->($got{$size}{$name}{$_}) } qw(ours native) }
                  @{ SIZES() }] } Methods::names()),
           ['control', @control];
}


my @head = ('method', map { my $size = $_; map { "$_, $size members" }
                                               qw(ours nginx) } @{ SIZES() });

publish('Two workers', <<"END",
Requests a second of two workers over those of one, in turns, @{[ ROUNDS ]}
rounds. The members refuse all connections: each of the requests, which
@{[ CLIENTS ]} clients make over connections that stay, is @{[ TRIES ]} picks
and attempts to connect, and answered by nginx itself; so nearly all of the CPU
is for the workers. The control is `random two` of nginx without `zone`, of
which workers share nothing: what two workers can give here. Beside `ewma`,
which nginx has not, stands `random two`. @{[ Cpus::note() ]}
END
    table(\@head, rows(\&ratio_cell)),
    'Attempts a second by two workers, in thousands:',
    table(\@head, rows(\&rate_cell)));
