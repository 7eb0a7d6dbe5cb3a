#!/usr/bin/perl

# Clients write, 1000 times a second, through etcd_leader and etcd_wait while
# the leader resigns, and is killed, again and again: no request fails, except
# requests that were on their way when the leader died, and of these none is
# sent twice unless it may be.  An nginx that is slower gets fewer requests: one
# that cannot accept as many loses connections.

package Written;

# A backend that writes a line "NAME METHOD NUMBER" for each request, when it
# gets the request.

use parent -norequire, 'Backend';

my $file;

sub written_to { $file = $_[1] }

sub take_request {
    my ($self, $client) = @_;

    my ($method, $number) = $client->{input} =~ m{^(\S+) /(\d+) };

    $self->SUPER::take_request($client) or return;

    if (defined $number) {
        open($self->{log}, '>>', $file) or die "open $file: $!\n"
            if !$self->{log};
        syswrite($self->{log}, "$self->{name} $method $number\n");
    }

    return 1;
}


package main;

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max min sum0);
use Test::More;
use Time::HiRes qw(sleep);

use Backend;
use Etcd;
use Example;
use Finish;
use Nginx;
use Steady;
use Wait;

use constant {
    RESIGNATIONS => $ENV{TEST_SOAK} ? 100 : 40,
    KILLS        => $ENV{TEST_SOAK} ? 20 : 4,
    SLOWER       => $ENV{TEST_SLOWER} || 1,
    DELAY        => 0.005,
};

use constant {
    TTL          => 2 * SLOWER,
    RATE         => 1000 / SLOWER,
};

# The file shows requests that were sent twice.

Written->written_to(test_dir() . '/written');

my $etcd = Etcd->new()->start();
my @backends = Written->start('a' .. 'c');

$_->set(delay => DELAY) for @backends;

# A leader may answer requests that are on their way when it resigns.  When a
# leader has died, thousands of requests wait until its key is gone, however
# long that takes etcd, and none of them is to try that leader.  All of them are
# accepted, see Backend.

my $text = Example::text('leader', 'etcd')
    =~ s/on_change=close/on_change=keep/r
    =~ s/fail_timeout=1s/'fail_timeout=' . (TTL + 1) . 's'/er
    =~ s/(etcd_wait orders) 5s/$1 60s queue=16384/r
    =~ s/(listen 127[^;]*)/$1 backlog=16384/r
    =~ s/events \{\n/events {\n    worker_connections 16384;\n/r
    =~ s/events/worker_rlimit_nofile 16384;\n\nevents/r;

my $nginx = Nginx->new(etcd => $etcd)->start($text);
my $term = 'a0000';
my (%lease, %key);


# Joins the election, with a lease of its own.

sub campaign {
    my ($backend) = @_;

    my $name = $backend->name;

    $lease{$name} = $etcd->grant(600);
    $key{$name} = '/election/orders/' . $term++;
    $etcd->put($key{$name}, $backend->address, lease => $lease{$name});
}


sub follows {
    my ($backend) = @_;

    my $answer;

    my $follows = wait_for {
        $answer = $nginx->get('/');
        $answer->{body} eq $backend->name
    } 20, 'the leader ' . $backend->name;

    if (!$follows) {
        diag("the last answer: $answer->{status} $answer->{body}");
        diag($nginx->error_log);
    }

    return $follows;
}


# { NUMBER => { NAME => times } }, of all requests so far

sub written {
    my %times;

    open(my $file, '<', test_dir() . '/written') or die "open: $!\n";

    while (<$file>) {
        my ($name, undef, $number) = split;
        $times{$number}{$name}++;
    }

    truncate(test_dir() . '/written', 0);

    return \%times;
}


# requests that were repeated and may not be

sub repeated {
    my ($written, @requests) = @_;

    return grep { $_->{method} eq 'POST' && times_of($written, $_) > 1 }
           @requests;
}


sub times_of { sum0(values %{ $_[0]{$_[1]{number}} // {} }) }


sub list { join(' ', map { "$_->{method} $_->{number}: $_->{status}" } @_) }


campaign($_) for @backends;
follows($backends[0]) or die "the first leader is not followed\n";

# resignations

my $load = Steady->start($nginx->port, rate => RATE);
my $followed = 0;

for my $n (1 .. RESIGNATIONS) {
    my ($first, $second) = @backends;

    # Now and then nobody leads for a while.

    if ($n % 10 == 0) {
        $etcd->txn(map { [del => $key{$_->name}] } @backends);
        sleep(0.2);
        campaign($_) for $second, $backends[2], $first;

    } else {
        $etcd->del($key{$first->name});
        campaign($first);
    }

    push @backends, shift @backends;
    $followed++ if follows($backends[0]);
}

my @requests = $load->results();
my $written = written();

diag(RESIGNATIONS . ' leaders resigned: ' . Steady::describe(@requests));

is($followed, RESIGNATIONS, 'every leader was followed');
cmp_ok(scalar(@requests), '>', RESIGNATIONS, 'requests all the time');
is(list(grep { $_->{status} != 200 } @requests), '', 'none of them failed');
is(list(grep { times_of($written, $_) != 1 } @requests), '',
   'each of them was sent once');

# Deaths: the leader does not answer, and its lease goes on.

my $most = 0;

for my $n (1 .. KILLS) {
    my ($first, $second) = @backends;

    $etcd->txn(map { [del => $key{$_->name}] } @backends);
    campaign($_) for @backends;
    ok(follows($first), "death $n: a leader is followed") or last;

    my $writers = Steady->start($nginx->port, rate => RATE);

    sleep(0.2);

    # The leader dies, and its lease goes on for TTL: nobody renews it.

    $etcd->put($key{$first->name}, $first->address, lease => $etcd->grant(TTL));
    $first->down;
    $followed = follows($second);

    my @requests = $writers->results();
    my @failed = grep { $_->{status} != 200 } @requests;

    $written = written();

    diag("death $n: " . Steady::describe(@requests) . ', ' . @failed
         . ' failed');

    ok($followed, "death $n: the next leader is followed");

    # nginx knows of the death before it has answered the first request.

    my $known = min(map { $_->{ended} } @failed) // 0;

    is(list(grep { $_->{begun} > $known } @failed), '',
       'nobody failed but who was on the way');
    is(list(grep { my $at = $written->{$_->{number}} // {};
                   grep { $_ ne $first->name } keys %$at } @failed),
       '', 'to the one that died');
    is(list(repeated($written, @requests)), '',
       'no request was repeated that may not be');

    $most = max($most, scalar(@failed));
    $first->up;
    push @backends, shift @backends;
}

diag("at most $most requests failed when a leader died");

finish();
