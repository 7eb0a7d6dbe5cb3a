#!/usr/bin/perl

# A member of etcd that was stopped may process what it was asked for when it
# goes on, long after nginx has given that up, and put keys of locks that nobody
# holds.  nginx finds and deletes them.
#
# A member that goes on also reads that the call was cancelled, and most often
# that comes first.  Here a proxy keeps what was asked for, and nothing else, so
# that it is processed in any case.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Chaos;
use Control;
use Door;
use Etcd;
use Finish;
use Nginx;
use Wait;

# PAUSE: nothing that nginx repeats lasts for so long

use constant {
    LOCKS => 24,
    TTL   => 60,
    PAUSE => 16,
    GONE  => 2,                 # seconds after its appearance
    QUIET => 4,
    LOOK  => 0.05,
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


# the way that the locks' requests go

sub asked {
    my ($url) = $nginx->error_log =~ /.*connecting to (\S+) for reads/s;

    return (grep { $_->url eq $url } @ways)[0];
}


# what all locks answer at the same time

sub ask {
    my ($who) = @_;

    my @asked = map {
        my $http = $who->http;

        $http->send('GET', $_, '', Connection => 'close');
        $http;
    } @paths;

    my %statuses;

    $statuses{ $_->receive->{status} }++ for @asked;

    return join(' ', map { "$_: $statuses{$_}" } sort keys %statuses);
}


# For how long each key was there that appeared since, in seconds, without those
# that the machine did not give; until none has been there for QUIET.

sub lives {
    my (%first, %last);
    my $seen = time();

    wait_for {
        my @keys = map { $_->{key} } $etcd->list('/locks/');
        my $now = time();

        for my $key (@keys) {
            $first{$key} //= $now;
            $last{$key} = $now;
        }

        $seen = $now if @keys || !%first;
        sleep(LOOK);

        $control->lasted($seen, time()) >= QUIET * $slower;
    } 60, 'late keys, and their end';

    return map { $control->lasted($first{$_}, $last{$_}) } keys %first;
}


is(ask($nginx), '200: ' . LOCKS, 'all locks are free');

# while a lock is held, there is no other lease

my $http = $nginx->http;

$http->send('GET', '/held', '', Connection => 'close');

my $visit = $door->enters(20) // die "nobody comes in\n";

my $way = asked();
my $from = time();

$way->set(late => 1);

is(ask($nginx), '200: ' . LOCKS, 'etcd is asked another way');
ok(wait_for(sub { !$etcd->list('/locks/') }, 10), 'the locks are given up');

my $pause = $from + PAUSE - time();

sleep($pause) if $pause > 0;
$way->set(late => 0);

my @lives = lives();

cmp_ok(scalar(@lives), '>', 0, 'keys are put late');
is(scalar(grep { $_ > GONE * $slower } @lives), 0,
   'they are deleted within ' . GONE . ' s');
is(scalar(my @left = $etcd->list('/locks/')), 0, 'none is left');
is(ask($other), '200: ' . LOCKS, 'another nginx gets all locks');

note(sprintf('%d keys, the longest was there for %.2f s', scalar(@lives),
             (sort { $b <=> $a } @lives)[0] // 0));

cmp_ok($nginx->count_log(qr/was put after its request was given up/), '>', 0,
       'the log says so');

# another lease ends the search

$visit->leave();
is($http->receive->{status}, 200, 'the lock was held');

ok(wait_for(sub {
       $nginx->count_log(qr/is given up: etcd may still process old puts/)
   }, 30), 'the lease is given up when no lock is held');

is(ask($nginx), '200: ' . LOCKS, 'and there is another one');

$control->finished();

finish();
