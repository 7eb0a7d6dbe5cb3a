#!/usr/bin/perl

# The checker of histories accepts histories that some order explains, and no
# others.  The checker is the project's own: porcupine is not packaged, and the
# histories are written by tests in Perl.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(min shuffle);
use Test::More;

use Finish;
use Linearizability;

use constant {
    RANDOM => 1000,     # histories of some operations, tried in every order
    LONG   => 3000,     # holders of a lock, one after another
};

my $lock = Linearizability::lock();

# "WHO CALL RETURN TOKEN" is an acquisition, "WHO CALL RETURN" a release; RETURN
# is "-" for no answer, and "?" for an unknown outcome.

sub operations {
    return map {
        my ($who, $call, $return, $token) = split;

        { who => $who, call => $call, what => $token ? 'acquire' : 'release',
          return => $return =~ /\d/ ? $return : undef,
          maybe => $return eq '?', token => $token };
    } @_;
}


sub accepts {
    my ($name, $model, @history) = @_;

    is(Linearizability::check($model, operations(@history)), undef,
       "accepted: $name");
}


sub rejects {
    my ($name, $model, $why, @history) = @_;

    like(Linearizability::check($model, operations(@history)), $why,
         "rejected: $name");
}


accepts('nothing', $lock);
accepts('one after another', $lock, 'a 1 2 5', 'a 3 4', 'b 5 6 6', 'b 7 8');
accepts('a release that takes effect late', $lock,
        'a 1 2 5', 'a 3 -', 'b 1 9 6', 'b 10 -');
accepts('a waiter that overlaps', $lock, 'a 1 2 5', 'b 1 6 6', 'a 3 4');
accepts('a call as another one returns', $lock, 'a 1 3 5', 'a 3 4',
        'b 4 5 6');
accepts('a lock that is held in the end', $lock, 'a 1 2 5');

rejects('two holders', $lock, qr/acquire by b with 6/,
        'a 1 2 5', 'b 3 4 6', 'a 5 6', 'b 7 8');
rejects('a release never taken', $lock, qr/state '5 a'/,
        'a 1 2 5', 'b 3 4 6');
rejects('a release before its acquisition', $lock, qr/release by a/,
        'a 1 2', 'a 3 4 5');
rejects('a release by another', $lock, qr/release by b/,
        'a 1 2 5', 'b 3 4', 'c 5 6 6');
rejects('a token that goes back', $lock, qr/acquire by b with 4/,
        'a 1 2 5', 'a 3 4', 'b 5 6 4');
rejects('the same token twice', $lock, qr/acquire by b with 5/,
        'a 1 2 5', 'a 3 4', 'b 5 6 5');
rejects('two at once', $lock, qr/state '5 a'/, 'a 1 9 5', 'b 1 9 6');

# unknown outcomes

accepts('an acquisition that was never made', $lock,
        'a 1 ? 5', 'b 2 3 6', 'b 4 5');
accepts('a release that took effect after all', $lock,
        'a 1 2 5', 'a 3 ?', 'b 4 5 6');
accepts('and another one that did not', $lock, 'a 1 2 5', 'a 3 ?');
accepts('an acquisition that must have been made', $lock,
        'a 1 ? 5', 'a 2 3', 'b 4 5 6');
rejects('an unknown release that begins too late', $lock, qr/acquire by b/,
        'a 1 2 5', 'b 3 4 6', 'a 5 ?');
rejects('an unknown acquisition that begins too late', $lock, qr/release by a/,
        'a 1 2', 'a 3 ? 5');

# permits

my $pair = Linearizability::lock(2);

accepts('two with two permits', $pair, 'a 1 2 6', 'b 1 2 5', 'a 3 4', 'b 3 4');
rejects('three with two permits', $pair, qr/state '0 a b'/,
        'a 1 2 5', 'b 1 2 6', 'c 3 4 7');

# elections

sub leads {
    map { my ($who, $call, $return, $token) = split;
          { who => $who, call => $call, return => $return, token => $token,
            what => 'lead' } } @_;
}


sub election {
    return Linearizability::check(Linearizability::election(), leads(@_));
}


is(election('a 1 2 5', 'a 3 4 5', 'b 5 6 7', 'b 7 8 7'), undef,
   'accepted: leaders one after another');
is(election('a 1 4 5', 'b 2 3 7'), undef, 'accepted: answers that overlap');
like(election('a 1 2 5', 'b 3 4 7', 'a 5 6 5'), qr/lead by a with 5/,
     'rejected: a former leader');
like(election('a 1 2 5', 'b 3 4 5'), qr/lead by b/,
     'rejected: two leaders of one term');

# explains a history by trying all orders

sub explains {
    my ($model, $state, @operations) = @_;

    return 1 if !grep { !$_->{maybe} } @operations;

    for my $next (@operations) {
        my @others = grep { $_ != $next } @operations;

        next if grep { defined $_->{return} && $_->{return} < $next->{call} }
                     @others;

        my $then = $model->{next}->($state, $next) // next;

        return 1 if explains($model, $then, @others);
    }

    return 0;
}


srand(1);

my %times;
my @differ = grep {
    my @history = map {
        my $call = int(rand(12));
        my $release = $call + int(rand(6));
        my $outcome = (1, 1, 1, '-', '?')[rand(5)];

        ("$_ $call " . ($call + int(rand(6))) . ' ' . int(1 + rand(9)),
         "$_ $release " . ($outcome eq '1' ? $release + int(rand(6))
                                           : $outcome));
    } 'a' .. 'c';
    my @operations = operations(@history);
    my $expected = explains($lock, $lock->{initial}, @operations);

    $times{$expected}++;
    defined(Linearizability::check($lock, @operations)) == $expected;
} 1 .. RANDOM;

is(scalar(@differ), 0, 'random histories: as all orders tried out');
cmp_ok($times{$_} // 0, '>', RANDOM / 10, "of both kinds: $_") for 0, 1;

# long histories of a lock that works, and the same with a defect

sub long {
    my $at = 0;

    return map {
        my $from = $at + 1 + rand(1);
        my $until = $from + rand(1);

        $at = $until + rand(2);

        ({ what => 'acquire', who => "w$_", token => $_,
           call => $from - rand(10), return => $from + rand($until - $from) },
         { what => 'release', who => "w$_", call => $until, return => undef });
    } 1 .. LONG;
}

is(Linearizability::check($lock, long()), undef, 'accepted: a long history');

for (1 .. 10) {
    my @history = long();
    my $n = int(rand(LONG - 2)) * 2;
    my $who = $history[$n + 2]{who};

    # Another one had the lock before its release was asked for.

    $history[$n + 2]{return} = $history[$n + 1]{call} - 0.001;
    $history[$n + 2]{call} = min($history[$n + 2]{call},
                                 $history[$n + 2]{return});

    like(Linearizability::check($lock, shuffle(@history)),
         qr/acquire by $who /, "rejected: a defect, $_");
}

finish();
