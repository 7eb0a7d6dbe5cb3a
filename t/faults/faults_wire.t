#!/usr/bin/perl

# Connections that break, lose their halves, crawl or come in single bytes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Etcd;
use Fault;
use Finish;
use Wait;

use constant {
    INTERVAL => 5,              # ping_interval and ping_timeout of Fault
    TIMEOUT  => 1,
    CHANGES  => 20,
    DELAY    => 0.2,
};


my $slower = $ENV{TEST_SLOWER} || 1;

# two ways to one etcd

my $etcd = Etcd->new()->start();
my @ways = map { Chaos->start($etcd->port) } 1 .. 2;
my $test = Fault->start(etcds => [$etcd],
                        endpoints => join(' ', map { $_->url } @ways));

sub in_use { (grep { $_->url eq $test->endpoint } @ways)[0] }
sub all { my @set = @_; $_->set(@set) for @ways }


# Members change all the time, and nginx follows.

sub changes {
    my ($name) = @_;

    my $revision = $etcd->revision() + CHANGES;

    ok(wait_for(sub { $test->revision >= $revision }, 60), $name);
}


$test->fault('one byte at a time', sub {
    all(split => 1);
    $test->reconnects(@ways);
    changes('changes come in single bytes');
}, sub { all(split => 0) }, late => 1);

$test->fault('a delay', sub {
    all(delay => DELAY * $slower);
    $test->reconnects(@ways);
    changes('changes come late');
}, sub { all(delay => 0) }, late => 4 * DELAY);

$test->fault('connections are reset', sub { $test->reconnects(@ways) },
             sub { }, times => 5);

# Connections break in the middle of a frame, wherever that is: the first ones,
# then later ones.

$test->fault('connections are reset after some bytes', sub {
    for my $n (map { 7 * $_ } 1 .. 12) {
        my $accepted = accepted();

        all(cut_after => $n);
        $_->cut() for @ways;

        wait_for { accepted() > $accepted } 10, 'another attempt';
    }
}, sub { all(cut_after => 0) });

sub accepted {
    my $n = 0;

    $n += $_->counts->{accepted} for @ways;

    return $n;
}


$test->fault('no way is open', sub {
    all(refuse => 1);
    $_->cut() for @ways;
    ok(wait_for(sub { $test->state eq 'connecting' }, 10),
       'nginx notices');
}, sub { all(refuse => 0) });

for my $held ('hold_up', 'hold_down') {
    my ($half, $start);

    $test->fault("half-open: $held", sub {
        $half = in_use();

        # A connection on which changes arrive has not failed.

        $test->pause();
        $start = time();
        $half->set($held => 1);

        ok(wait_for(sub { $test->endpoint ne $half->url
                          && $test->is_synced },
                    4 * (INTERVAL + TIMEOUT)), "$held: it is left");
        cmp_ok($test->lasted($start, time()), '<=',
               (INTERVAL + TIMEOUT + 1) * $slower,
               "$held: within ping_interval and ping_timeout");
    }, sub { $half->set($held => 0) });
}

$test->finished();

finish();
