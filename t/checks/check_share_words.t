#!/usr/bin/perl

# nginx hears an observer ("share=" of "etcd_check"): its silence on members
# that it has not checked, a word against what nginx has found by itself,
# members that drain, a candidate that led before, and an observer that cannot
# check.  In most of it a candidate of this test speaks.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Compress::Zlib qw(crc32);
use List::Util qw(sum0);
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Nginx;
use SharedChecks;
use Wait;

use constant INTERVAL => 1;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(map { "b$_" } 1 .. 5);
my ($sick, @others) = @backends;

my $config = SharedChecks::config('rises=2 jitter=0% panic=0 share=/observer');

sub nginx {
    return Nginx->new(etcd => $etcd)
        ->set(INTERVAL => INTERVAL)
        ->start($config);
}


$etcd->put("/api/$_->{name}", $_->address) for @backends;

# A candidate before all others, which says anything.

my ($lease, $number) = ($etcd->grant(600), 0);

sub speak {
    my (@words) = @_;

    $etcd->put(sprintf('/observer/%x', $lease),
               join(' ', 'forged', ++$number, @words), lease => $lease);
}


speak();

my $nginx = nginx();

# The members that were checked, as an observer says it.

sub whom {
    my (@members) = @_;

    return sprintf('=%d:%x', scalar(@members),
                   sum0(map { crc32($_->address) } @members) & 0xffffffff);
}


# A test: the words are said again and again until the condition is met.

sub while_saying {
    my ($words, $condition, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok(wait_for(sub { speak(@$words); $condition->() }, 20, $name),
              $name);
}


# Waits until nginx has heard these words: they name one more member, and the
# log says so.

my @marks = @others;

sub heard {
    my (@words) = @_;

    my $mark = shift(@marks)->address;

    wait_for {
        speak(@words, $mark);
        $nginx->count_log(qr/\Q$mark\E has failed, says the observer/);
    } 20, 'the words to be heard';

    return;
}


# how often nginx has taken the observer's word that a member works, or has
# failed

sub said_again {
    return $nginx->count_log(qr/\Q$_[0]\E succeeds again, says the observer/);
}

sub said_failed {
    return $nginx->count_log(qr/\Q$_[0]\E has failed, says the observer/);
}


my $address = $sick->address;
my $all = whom(@backends);

while_saying([$all], sub { role($nginx) eq 'follows' },
             'an observer of the same members is followed');

# A member fails.  The observer loses it: it says nothing of it any more.

$sick->set(status => 500);
while_saying([$all, $address],
             sub { state_of($nginx, $sick) eq 'unhealthy' },
             'a member is named');
while_saying([whom(@others)], sub { role($nginx) eq 'alone' },
             'an observer of other members is not believed for long');
$nginx->logs(qr/\[notice\].*"api": the observer on forged checks other members/,
             1, 'the log says so');
is(said_again($address), 0, 'its silence says nothing meanwhile');
is(state_of($nginx, $sick), 'unhealthy', 'the failed member is left out');

# nginx has found by itself that it fails: the observer's word does not end it.

while_saying([$all, $address], sub { role($nginx) eq 'follows' },
             'it has the same members again, and names the failed one');
heard($all);
is(state_of($nginx, $sick), 'unhealthy', 'and does not any more: own checks '
                                         . 'decide');
is(said_again($address), 0, 'the log knows nothing else');
$sick->set(status => 200);
while_saying([$all], sub { state_of($nginx, $sick) eq 'up' }, 'it works again');

# A member that works is named: own checks put it back, and that stays when the
# observer was not heard for a while.

my $before = said_failed($address);

while_saying([$all, $address], sub { said_failed($address) > $before },
             'a member that works is named');
while_saying([$all, $address], sub { state_of($nginx, $sick) eq 'up' },
             'own checks say otherwise');
$before = said_failed($address);
becomes { role($nginx) } 'alone', 'the observer is not heard';
while_saying([$all, $address], sub { role($nginx) eq 'follows' },
             'it names the member again');
heard($all, $address);
is(state_of($nginx, $sick), 'up', 'it is used');
is(said_failed($address), $before, 'all the time');

# A new member is followed, and checked by nginx once.

my ($new) = Backend->start('new');

$etcd->put('/api/new', $new->address);
while_saying([whom(@backends, $new)], sub {
    state_of($nginx, $new) eq 'up' && $new->requests;
}, 'a new member is checked');
is(role($nginx), 'follows', 'the observer is followed');
$etcd->del('/api/new');

# Two nginxes, one observes.  A failed member drains: it is still named.

$etcd->revoke($lease);

my $second = nginx();
my @nginxes = ($nginx, $second);

becomes { join(' ', sort { $a cmp $b } map { role($_) } @nginxes) }
    'follows observes', 'one of two observes', 60;

my ($observer) = grep { role($_) eq 'observes' } @nginxes;
my ($follower) = grep { $_ != $observer } @nginxes;


# the candidates, the first one leads

sub candidates {
    return sort { $a->{create_revision} <=> $b->{create_revision} }
           $etcd->list('/observer/');
}

sub word { my ($first) = candidates(); return $first->{value} }


like(word(), qr/^\S+ \d+ \Q$all\E$/, 'it says whom it has checked');
$sick->set(status => 500);
ok(become($sick, 'unhealthy', @nginxes), 'a member fails');
$etcd->put("/api/.drain/$address", 'for a test');
ok(become($sick, 'drained', @nginxes), 'and drains');

my $said = word();

becomes { word() ne $said } 1, 'the observer goes on';
like(word(), qr/ \Q$address\E$/, 'and names it');
is($follower->count_log(qr/succeeds again, says/), 0,
   'for the follower it is still a failed one');

# The observer loses its lease: what it said before is not the word of its next
# candidate.

my ($first) = candidates();

$etcd->revoke($first->{lease});
becomes {
    my @keys = candidates();

    @keys == 2 && $keys[0]{key} ne $first->{key} ? $keys[1]{value} : '-';
} '', 'its next candidate says nothing';
becomes { role($follower) } 'observes', 'the other one observes', 60;
($observer, $follower) = ($follower, $observer);
becomes { role($follower) } 'follows', 'and is followed', 20;
$etcd->del("/api/.drain/$address");
ok(become($sick, 'unhealthy', @nginxes), 'the failed member does not drain');
$sick->set(status => 200);
ok(become($sick, 'up', @nginxes), 'it works again');

# The observer cannot open a connection: it is silent.

sub descriptors {
    my ($pid, $most) = @_;

    system('prlimit', "--pid=$pid", "--nofile=$most:") == 0
        or die "prlimit: $?\n";

    return;
}

$observer->expect(qr/socket\(\) failed \(24: /);

my ($worker) = $observer->workers;

becomes {
    my ($free) = grep { !-l "/proc/$worker/fd/$_" } 0 .. 1023;

    descriptors($worker, $free);
    role($follower);
} 'alone', 'an observer that cannot check is silent';
$sick->set(status => 500);
ok(become($sick, 'unhealthy', $follower), 'the other one checks');
descriptors($worker, 1024);
$sick->set(status => 200);
becomes { role($follower) } 'follows', 'the observer can check again', 30;
ok(become($sick, 'up', @nginxes), 'all is well');

$_->stop for @nginxes;

finish();
