#!/usr/bin/perl

# A member of etcd that was stopped may process requests when it goes on, long
# after nginx has given them up, and put keys of locks that nobody holds.  nginx
# finds and deletes them.
#
# A member that goes on also reads that the call was cancelled, and most often
# that comes first.  So a proxy keeps what was asked for, and nothing else, and
# that is processed in any case.  Then the same with a real member of three,
# whatever it processes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Chaos;
use Cluster;
use Control;
use Door;
use Etcd;
use Finish;
use Http;
use Nginx;
use Wait;

# PAUSE is longer than anything that nginx repeats.

use constant {
    LOCKS => 24,
    TTL   => 60,
    PAUSE => 16,
    GONE  => 2,                 # seconds after a key's appearance
    QUIET => 4,
    LOOK  => 0.05,
    PATIENCE => 60,
};

my $slower = $ENV{TEST_SLOWER} || 1;

my $control = Control->start();
my $etcd = Etcd->new()->start();
my @ways = map { Chaos->start($etcd->port) } 1 .. 2;

my $config = <<'EOF_CONFIG';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    db_check 0;
    lock_ttl %%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            etcd_lock /locks $uri %%WAIT%%;
            proxy_pass http://127.0.0.1:%%PORT%%/empty;
        }

        location /held {
            etcd_lock /held;
            proxy_pass http://%%DOOR%%;
        }

        location /empty {
            etcd_lock off;
            empty_gif;
        }
    }
}

EOF_CONFIG

my $door = Door->new();
my $nginx = Nginx->new()->set(
    ETCD => join(' ', map { $_->url } @ways),
    DOOR => $door->address,
    TTL  => TTL,
    WAIT => 'wait=30s',
)->start($config);

my $other = Nginx->new(etcd => $etcd)->set(
    DOOR => $door->address,
    TTL  => TTL,
    WAIT => '',
)->start($config);

my @paths = map { "/lock$_" } 1 .. LOCKS;


# the URL that the requests of an nginx's locks go to

sub asked {
    my ($who) = @_;

    my ($url) = $who->error_log =~ /.*connecting to (\S+) for reads/s;

    return $url;
}


# the statuses of requests for all locks at the same time

sub ask { statuses(begin($_[0])) }


sub begin {
    my ($who) = @_;

    return map {
        my $http = Http->new($who->port, timeout => PATIENCE);

        $http->send('GET', $_, '', Connection => 'close');
        $http;
    } @paths;
}


sub statuses {
    my %statuses;

    $statuses{ $_->receive->{status} }++ for @_;

    return join(' ', map { "$_: $statuses{$_}" } sort keys %statuses);
}


# The seconds for which each key was there that appeared since a time, without
# the time that the machine did not give; waits until no key has been there for
# QUIET, and, if keys are expected, for the first one.

sub lives {
    my ($from, $expected) = @_;

    my (%first, %last);
    my $seen = time();

    wait_for {
        my @keys = map { $_->{key} } $from->list('/locks/');
        my $now = time();

        for my $key (@keys) {
            $first{$key} //= $now;
            $last{$key} = $now;
        }

        $seen = $now if @keys || $expected && !%first;
        sleep(LOOK);

        $control->lasted($seen, time()) >= QUIET * $slower;
    } 60, 'late keys, and their end';

    return map { $control->lasted($first{$_}, $last{$_}) } keys %first;
}


is(ask($nginx), '200: ' . LOCKS, 'all locks are free');

# While a lock is held, there is no other lease.

my $http = $nginx->http;

$http->send('GET', '/held', '', Connection => 'close');

my $visit = $door->enters(20) // die "nobody comes in\n";

my ($way) = grep { $_->url eq asked($nginx) } @ways;
my $from = time();

$way->set(late => 1);

is(ask($nginx), '200: ' . LOCKS, 'etcd is asked another way');
ok(wait_for(sub { !$etcd->list('/locks/') }, 10), 'the locks are given up');

sub rest {
    my ($from) = @_;

    my $pause = $from + PAUSE - time();

    sleep($pause) if $pause > 0;
}


rest($from);
$way->set(late => 0);

my @lives = lives($etcd, 1);

cmp_ok(scalar(@lives), '>', 0, 'keys are put late');
is(scalar(grep { $_ > GONE * $slower } @lives), 0,
   'they are deleted within ' . GONE . ' s');
is(scalar(my @left = $etcd->list('/locks/')), 0, 'none is left');
is(ask($other), '200: ' . LOCKS, 'another nginx gets all locks');

note(sprintf('%d keys, the longest was there for %.2f s', scalar(@lives),
             (sort { $b <=> $a } @lives)[0] // 0));

cmp_ok($nginx->count_log(qr/was put after its request was given up/), '>', 0,
       'the log says so');

# Another lease ends the search.

$visit->leave();
is($http->receive->{status}, 200, 'the lock was held');

ok(wait_for(sub {
       $nginx->count_log(qr/is given up: etcd may still process old puts/)
   }, 30), 'the lease is given up when no lock is held');

is(ask($nginx), '200: ' . LOCKS, 'and there is another one');

# The member that an nginx uses stands still, with the requests of that nginx.

my $cluster = Cluster->new(3)->start();
my ($third, $fourth) = map {
    Nginx->new()->set(ETCD => $cluster->endpoints, DOOR => $door->address,
                      TTL => TTL, WAIT => $_)->start($config)
} 'wait=30s', '';

for my $role ('a follower', 'the leader') {
    is(ask($third), '200: ' . LOCKS, "$role: all locks are free");

    my $still = $cluster->member_at(asked($third));
    my ($running) = grep { $_ != $still } $cluster->members;

    ok($cluster->lead($role eq 'a follower' ? $running : $still),
       "$role is asked");

    my @asked = begin($third);

    $still->freeze;
    $from = time();

    is(statuses(@asked), '200: ' . LOCKS, "$role stands still meanwhile");
    is(ask($third), '200: ' . LOCKS, "$role: all locks are free");
    isnt(asked($third), $still->url, "$role: another member is asked");

    rest($from);
    $still->thaw;

    @lives = lives($running);

    is(scalar(grep { $_ > GONE * $slower } @lives), 0,
       "$role: no key is without an owner for longer");
    is(scalar(@left = $running->list('/locks/')), 0, "$role: none is left");
    is(ask($fourth), '200: ' . LOCKS, "$role: another nginx gets all locks");

    note(sprintf('%s: %d keys, the longest was there for %.2f s', $role,
                 scalar(@lives), (sort { $b <=> $a } @lives)[0] // 0));

    $cluster->wait_healthy();
}

$control->finished();

finish();
