#!/usr/bin/perl

# A free lock is granted to the next request in line as soon as etcd answers
# again after a fault: within a second of the first linearizable write and read
# that a plain client, which asks all the time, gets answered.  The client and
# nginx share the machine, so both are as slow as it is.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Cluster;
use Control;
use Etcd;
use Finish;
use Netns;
use Nginx;
use Wait;

Netns::enter();

use constant {
    PROMISE => 1,
    OUTAGE  => 8,       # pauses between attempts have grown by then
    TTL     => 30,
};

my $net = Netns->new(3);
my $cluster = Cluster->new(3, places => [$net->places])->start();
my @members = $cluster->members;
my $number = 0;
my $control = Control->start();

my $config = <<'EOF_CONFIG';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    db_check 0;
    connect_timeout 500ms;
    lock_ttl %%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            etcd_lock /locks $uri wait=60s;
            proxy_pass http://127.0.0.1:%%PORT%%/empty;
        }

        location /empty {
            etcd_lock off;
            empty_gif;
        }
    }
}

EOF_CONFIG


sub nginx {
    return Nginx->new()->set(ETCD => $cluster->endpoints, TTL => TTL)
                       ->start($config);
}


# the member that nginx's connection for "reads" or "streams" goes to

sub member_of {
    my ($nginx, $what) = @_;

    my ($url) = $nginx->error_log =~ /.*connecting to (\S+) for $what/s;

    return $cluster->member_at($url);
}


# a key before the key of nginx, with a long time to live

sub other_key {
    my ($lock, $ttl) = @_;

    my $lease = $cluster->ask('grant', $ttl // 300);
    my $key = sprintf('/locks/%%2F%s/%x', $lock, $lease);

    $cluster->ask('put', $key, '', lease => $lease);

    return $key;
}


sub keys_of {
    my ($lock) = @_;

    return $cluster->ask('count', "/locks/%2F$lock/");
}


sub wait_in_line {
    my ($nginx, $lock) = @_;

    my $http = $nginx->http;
    $http->send('GET', "/$lock", '', Connection => 'close');

    wait_for { keys_of($lock) == 2 } 10, 'it waits'
        or die "no key is put\n";

    # The watch of the waiter is in force, and has been silent.

    sleep(1);

    return $http;
}


# Waits until etcd answers; returns that time.

sub answers {
    my ($member) = @_;

    wait_for {
        eval {
            $member->put('/control', ++$number);
            $member->get('/control');
            1;
        };
    } 60, 'etcd to answer' or die "etcd does not answer\n";

    return time();
}


sub granted_within {
    my ($http, $from, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $answer = $http->receive;
    my $took = $control->lasted($from, time());

    is($answer->{status}, 200, "$name: the lock is granted");
    cmp_ok($took, '<', PROMISE * ($ENV{TEST_SLOWER} || 1),
           "$name: soon after etcd answers");
    diag(sprintf('%s: %.3f s', $name, $took)) if $ENV{TEST_SOAK};
}


# The watch is stuck: packets of its endpoint vanish, and TCP repeats them late.

my $nginx = nginx();
my $key = other_key('stuck');
my $http = wait_in_line($nginx, 'stuck');
my $member = member_of($nginx, 'streams');
my ($other) = grep { $_ != $member } @members;

$_->place->hide() for @members;
$other->del($key);
sleep(OUTAGE);
$_->place->show() for @members;
granted_within($http, answers($other), 'all connections cut');
$nginx->quit;


# The endpoint of the watch stands still, and goes on.

$nginx = nginx();
$key = other_key('still');
$http = wait_in_line($nginx, 'still');
$member = member_of($nginx, 'streams');
($other) = grep { $_ != $member } @members;

$member->freeze;
answers($other);
$other->del($key);
granted_within($http, answers($other), 'the endpoint of the watch stopped');
$member->thaw;
$cluster->wait_healthy();
$nginx->quit;


# etcd has no quorum for long, and then has one again.

$nginx = nginx();
$key = other_key('quorum');
$http = wait_in_line($nginx, 'quorum');

$_->freeze for @members[0, 1];
sleep(OUTAGE);
$_->thaw for @members[0, 1];
answers($members[2]);
$cluster->ask('del', $key);
granted_within($http, time(), 'no quorum');
$nginx->quit;


# A request ends while the member that nginx asks stands still.

my $backend = Backend->start('one');

$nginx = Nginx->new()->set(ETCD => $cluster->endpoints, TTL => TTL)
              ->start($config =~ s{(proxy_pass http://)127.*}
                                  {$1@{[$backend->address]};}r);
$backend->set(hang => 1);

my $first = $nginx->http;
$first->send('GET', '/release', '', Connection => 'close');
wait_for { $backend->requests == 1 } 10, 'a request inside';

my $waiter = nginx();

$http = $waiter->http;
$http->send('GET', '/release', '', Connection => 'close');
wait_for { keys_of('release') == 2 } 10, 'it waits';
sleep(1);

$member = member_of($nginx, 'reads');
($other) = grep { $_ != $member } @members;
$member->freeze;
answers($other);
$backend->set(hang => 0);
$first->receive;
granted_within($http, answers($other), 'a release, the endpoint stopped');
$member->thaw;
$cluster->wait_healthy();
$_->quit for $nginx, $waiter;


# The leader is killed, and the lease of the holder ends.

$nginx = nginx();
$key = other_key('dead', 2);
$http = wait_in_line($nginx, 'dead');
$member = $cluster->leader;
($other) = grep { $_ != $member } @members;

$member->kill;
answers($other);
wait_for { keys_of('dead') < 2 } 60,
    'the end of the lease';
granted_within($http, time(), 'a dead holder, and a dead leader');
$cluster->revive();
$nginx->quit;

$control->finished();

done_testing();
