#!/usr/bin/perl

# CPU time of the workers per proxied request, and requests a second, by method
# and number of members: etcd_balance beside nginx's own methods with "zone",
# in the same nginx.  The main curves become a picture.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Curves;
use Methods;

use constant {
    SIZES     => [split(/,/, $ENV{BENCH_SIZES} || '1,10,100,1000,10000')],
    WORKERS   => [split(/,/, $ENV{BENCH_WORKERS} || '1,2')],
    KINDS     => [split(/,/, $ENV{BENCH_KINDS} || 'close,keep,stream')],
    ROUNDS    => $ENV{BENCH_ROUNDS} || 5,
    REQUESTS  => $ENV{BENCH_REQUESTS} || 1000,
    CLIENTS   => 32,
    FLOOR     => 'random',
};

# NAME => [options of Methods, the name in the table]

my %kinds = (
    close  => [{ keepalive => 0 }, 'http, no keepalive on either side'],
    keep   => [{ keepalive => 1 }, 'http, keepalive on both sides'],
    stream => [{ keepalive => 0, kind => 'stream' },
               'stream, connections of one request'],
);

my @whose = ('ours', 'native');


# { METHOD => [{ ours => figures, native => figures }, ...] }; the first round
# only warms up.

sub rounds {
    my ($size, $workers, $kind) = @_;

    my $side = Methods->new(members => $size, workers => $workers,
                            clients => CLIENTS, %{ $kinds{$kind}[0] })
        ->start();

    my %rounds;

    for my $i (0 .. ROUNDS) {
        for my $name (Methods::names()) {
            push @{ $rounds{$name} }, {
                map { $_ => $side->ask($name, $_, REQUESTS) }
                    $i % 2 ? @whose : reverse @whose
            };
        }
    }

    $side->stop();
    shift @$_ for values %rounds;

    return \%rounds;
}


sub middle {
    my ($rounds, $whose, $what) = @_;

    return median(map { $_->{$whose}{$what} } @$rounds);
}


sub cost_cell {
    my ($rounds) = @_;

    return sprintf('%.1f / %.1f = ', map { middle($rounds, $_, 'cost') } @whose)
        . spread_of('%.2f', sub { $_[0]{ours}{cost} / $_[0]{native}{cost} },
                    @$rounds);
}


sub rate_cell {
    my ($rounds) = @_;

    return sprintf('%.0f / %.0f', map { middle($rounds, $_, 'rate') } @whose);
}


# nginx's method that does not walk its list, round by round

sub floor_cell {
    my ($rounds, $floor) = @_;

    return spread('%.2f', map {
        $rounds->[$_]{ours}{cost} / $floor->[$_]{native}{cost}
    } 0 .. $#$rounds);
}


sub rows {
    my ($cell, $figures) = @_;

    return map {
        my $name = $_;
        ["`$name`", map { $cell->($figures->{$_}{$name}, $figures->{$_}{+FLOOR})
                        } @{ SIZES() }]
    } Methods::names();
}


my @head = map { $_ == 1 ? '1 member' : "$_ members" } @{ SIZES() };
my @paragraphs;
my %curves;

for my $kind (@{ KINDS() }) {
    for my $workers (@{ WORKERS() }) {

        my %figures = map { $_ => rounds($_, $workers, $kind) } @{ SIZES() };

        push @paragraphs, "Workers: $workers; $kinds{$kind}[1]. CPU time of a"
            . ' request, in microseconds:',
            table(['ours / nginx = ratio', @head],
                  rows(\&cost_cell, \%figures)),
            'Ours over `random two` of nginx:',
            table(['ratio', @head], rows(\&floor_cell, \%figures)),
            'Requests a second:',
            table(['ours / nginx', @head], rows(\&rate_cell, \%figures));

        $curves{figures} //= \%figures;
        $curves{title} //= "workers: $workers; $kinds{$kind}[1]";
    }
}


sub curve {
    my ($title, $name, $whose) = @_;

    return [$title, map {
        [$_, middle($curves{figures}{$_}{$name}, $whose, 'cost')]
    } @{ SIZES() }];
}


my $picture = Curves::draw(
    'curves.svg', "CPU time of the workers per request ($curves{title})",
    'members', 'us',
    (map { curve("nginx, $_", $_, 'native') }
         'round_robin', 'least_conn', 'hash consistent'),
    curve('nginx, random two', 'random', 'native'),
    (map { curve("etcd_balance $_", $_, 'ours') }
         'round_robin', 'least_conn', 'hash consistent', 'ewma'),
);

my ($rounds, $requests, $clients) = (ROUNDS, REQUESTS, CLIENTS);

publish('Balancing', <<"END", @paragraphs, $picture);
`etcd_balance` beside the same method of nginx over as many `server` lines with
`zone`, in the same nginx. Beside `ewma`, which nginx has not, stands `random
two`. $rounds rounds of $requests requests by $clients clients for each, in
turns; the backend is one process, and the clients are another: with two
workers they have less than a CPU each, of two, and what is served in a second
says more about the machine than CPU time does. "Two workers" below has what two
can do more than one.
END
