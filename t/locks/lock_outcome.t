#!/usr/bin/perl

# A connection is cut at every byte of an acquire, and of a release, of a lock:
# nginx cannot know the outcome in etcd.  Nobody holds the lock for longer than
# the TTL afterwards, and never two at a time.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Etcd;
use Finish;
use LockHistory;
use Nginx;
use Register;
use Wait;

# SLOTS locks at a time, each with a way of its own to etcd that is cut: at
# every byte with TEST_SOAK, and otherwise at every STRIDE-th byte, each time
# from another one on.

use constant {
    SLOTS  => 8,
    STRIDE => $ENV{TEST_SOAK} ? 1 : 9,

    # No lease is renewed while a request stays: the bytes of that would be cut.

    TTL    => 10,
    SHORT  => 0.02,
    LONG   => 0.3,              # long enough to prepare the cut
};

my $slower = $ENV{TEST_SLOWER} || 1;
my $wait = 4 * TTL * $slower;

my $etcd = Etcd->new()->start();
my @ways = map { Chaos->start($etcd->port) } 1 .. SLOTS;
my @names = map { "lock$_" } 1 .. SLOTS;
my $registers = Register->start(map { $_ => 0 } @names);


# Requests that are cut come by /cut, and the next ones by /next.

sub config {
    my $clusters = join('', map { <<"EOF_CLUSTER" } 0 .. $#names);
etcd $names[$_] {
    endpoints ${\ $ways[$_]->url};
    lock_ttl ${\ TTL}s;
}

EOF_CLUSTER

    my $locations = join('', map { <<"EOF_LOCATIONS" } @names);
        location /cut/$_ {
            etcd_lock /locks/$_ cluster=$_ wait=${wait}s;
            proxy_pass http://%%REGISTER%%/$_;
        }

        location /next/$_ {
            etcd_lock /locks/$_ cluster=direct wait=${wait}s;
            proxy_pass http://%%REGISTER%%/$_;
        }

EOF_LOCATIONS

    return <<"EOF_CONFIG";
worker_processes 1;

${clusters}etcd direct {
    endpoints %%ETCD%%;
    lock_ttl ${\ TTL}s;
}

http {
    proxy_set_header X-Token \$etcd_lock_token;

    server {
        listen 127.0.0.1:%%PORT%%;

$locations    }
}

EOF_CONFIG
}


my $nginx = Nginx->new(etcd => $etcd)->set(REGISTER => $registers->address)
    ->start(config());

my (@requests, $asked);


# Requests are under way until answer().

sub ask {
    my ($slot, $kind, $stay) = @_;

    my $http = $nginx->http;
    my $request = "$kind-" . ++$asked;

    $http->{timeout} = 3 * $wait;
    $http->send('POST', "/$kind/$names[$slot]", '', Connection => 'close',
                'X-Request' => $request, 'X-Stay' => $stay // SHORT);

    return { http => $http, entry => {
        what => 'request', request => $request, register => $names[$slot],
        nginx => 0, sent => time(),
    } };
}


sub answer {
    my ($asked) = @_;

    my $answer = $asked->{http}->receive;
    my $entry = $asked->{entry};

    @$entry{qw(arrived status error)} = (time(), @$answer{qw(status error)});
    push @requests, $entry;

    return $entry->{status};
}


sub all_answer {
    my ($name, $wanted, @asked) = @_;

    my @wrong = grep { $_ !~ $wanted } map { answer($_) } @asked;

    return is("@wrong", '', $name);
}


# nginx has connected again, and has a lease.

sub ready {
    my (@slots) = @_;

    for my $slot (@slots) {
        wait_for { answer(ask($slot, 'cut')) == 200 } 10 * TTL, 'a session'
            or die "there is no session\n";
    }
}


# Makes one round, with the bytes of each slot after which its connection is
# cut; returns the slots that were cut, or nothing if no bytes were left.

sub round {
    my ($what, $way, %bytes) = @_;

    my @slots = sort { $a <=> $b } keys %bytes;
    my %cuts = map { $_ => $ways[$_]->counts->{cuts} } @slots;
    my $inside = $registers->count('enter') + @slots;
    my $at = join(' ', map { $bytes{$_} } @slots);
    my $cut = sub { $ways[$_]->cut_in($way => $bytes{$_}) for @slots };

    $cut->() if $what eq 'acquire';

    my $stay = $what eq 'release' ? LONG * $slower : SHORT;
    my @first = map { ask($_, 'cut', $stay) } @slots;

    if ($what eq 'release') {
        wait_for { $registers->count('enter') >= $inside } 10, 'all inside'
            or die "they do not get in\n";
        $cut->();
    }

    my @next = map { ask($_, 'next') } @slots;

    all_answer("$what, $way $at: the next ones get the lock", qr/^200$/, @next);
    all_answer("$what, $way $at: the others an answer",
               $what eq 'release' ? qr/^200$/ : qr/^(?:200|503)$/, @first);

    $ways[$_]->cut_in() for @slots;

    return grep { $ways[$_]->counts->{cuts} > $cuts{$_} } @slots;
}


for my $what ('acquire', 'release') {
    for my $way ('up', 'down') {
        my @slots = 0 .. SLOTS - 1;
        my $byte = int(rand(STRIDE));

        while (@slots) {
            ready(@slots);
            @slots = round($what, $way,
                           map { $_ => $byte + $_ * STRIDE } @slots);
            $byte += SLOTS * STRIDE;
        }

        cmp_ok($byte, '>', SLOTS * STRIDE + 20,
               "$what, $way: that were $byte bytes");
    }
}

ok(wait_for(sub { !$etcd->list('/locks/') }, 10 * TTL), 'no key is left');

my $history = LockHistory->new(events   => [$registers->history],
                               requests => \@requests);

for my $what ('overlaps', 'tokens') {
    is(join("\n", map { $history->$what($_) } @names), '',
       "$what: nothing is wrong");
}

note(sprintf('%d requests, the longest took %.1f s', scalar(@requests),
             max(map { $_->{arrived} - $_->{sent} } @requests)));

finish();
