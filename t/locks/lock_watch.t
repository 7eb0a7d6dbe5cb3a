#!/usr/bin/perl

# The keys of a lock as a request knows them: it does not wait for a key that is
# gone, when the connection of the watch is lost while the keys are listed for
# the first time; and it does not hold the lock by a key of its own that was
# deleted before etcd's answer to the put came.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Chaos;
use Control;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Wait;

# nginx lists everything again after ten seconds, in any case: SOON is before
# that.  The list must not be answered before all is prepared, which takes luck:
# the test runs ROUNDS times.

use constant {
    ROUNDS => 3,
    TRIES  => 30,
    DELAY  => 0.2,
    SOON   => 5,
};

my $etcd = Etcd->new()->start();
my $control = Control->start();
my $backend = Backend->start('backend');
my @ways = map { Chaos->start($etcd->port) } 1 .. 2;

my $config = <<'EOF_CONFIG';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    db_check 0;
    lock_ttl 60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            etcd_lock /locks $uri wait=30s;
            proxy_pass http://127.0.0.1:%%PORT%%/empty;
        }

        location /held {
            etcd_lock /held permits=2 wait=30s;
            etcd_lock_max_hold 100ms;
            proxy_read_timeout 1h;
            proxy_pass http://%%BACKEND%%;
        }

        location /empty {
            etcd_lock off;
            empty_gif;
        }

        location = /status {
            etcd_lock off;
            etcd_status;
        }
    }
}

EOF_CONFIG


# the way of the requests, or of the watches

sub way {
    my ($nginx, $what) = @_;

    my ($url) = $nginx->error_log =~ /.*connecting to (\S+) for $what/s;

    return (grep { $_->url eq ($url // '') } @ways)[0];
}


# an nginx whose watches go another way than its requests

sub two_ways {
    for (1 .. TRIES) {
        my $nginx = Nginx->new()->set(
            BACKEND => $backend->address,
            ETCD    => join(' ', map { $_->url } @ways),
        )->start($config);

        $nginx->get('/first');

        wait_for { way($nginx, 'streams') } 10, 'a connection for watches';

        my @both = map { way($nginx, $_) } 'reads', 'streams';

        return ($nginx, @both) if $both[0] != $both[1];

        $nginx->quit;
    }

    die "all goes one way\n";
}


sub other_key {
    my ($lock) = @_;

    my $lease = $etcd->grant(300);
    my $key = sprintf('%s/%x', $lock, $lease);

    $etcd->put($key, '', lease => $lease);

    return $key;
}


sub watches { $etcd->metric('etcd_debugging_mvcc_watcher_total') }


for my $round (1 .. ROUNDS) {
    my ($nginx, $reads, $streams) = two_ways();
    my $lock = "/locks/%2Fround$round";
    my $holder = other_key($lock);
    my $passer = other_key($lock);
    my $http = $nginx->http;

    $reads->set(delay => DELAY);
    $http->send('GET', "/round$round", '', Connection => 'close');

    wait_for { $etcd->list("$lock/") == 3 } 10, 'it waits'
        or die "no key is put\n";
    $reads->set(hold_up => 1);
    wait_for { watches() } 10, 'it watches' or die "nothing is watched\n";

    $etcd->put($passer, 'again');

    # The event arrives.

    sleep(DELAY / 2);
    $streams->set(refuse => 1);
    $streams->cut();
    $etcd->del($passer);
    $reads->set(hold_up => 0, delay => 0);

    wait_for { way($nginx, 'streams') == $reads && watches() } 10,
        'it watches again' or die "nothing is watched any more\n";

    my $from = time();

    $etcd->del($holder);

    is($http->receive->{status}, 200, "round $round: the lock is free");
    cmp_ok($control->lasted($from, time()), '<', SOON,
           "round $round: it is granted soon");

    $streams->set(refuse => 0);
    $nginx->quit;
    wait_for { !watches() } 10, 'the end of the watch';
}



# A request that waited holds the lock now, and the prefix is watched.  Answers
# to requests take DELAY, events do not: an own key's end is known first.  A
# request that has the lock by another key then is with the backend, and its
# key stays for etcd_lock_max_hold when its client leaves.

my ($nginx, $reads) = two_ways();
my $lock = Lock->new($nginx, $etcd);

$backend->set(hang => 1);

my @others = map { other_key('/held') } 1 .. 2;
my $first = $nginx->http;

$first->send('GET', '/held');
$lock->waits('/held', 1, 'a request waits for a lock with two permits');
wait_for { watches() } 10, 'the watch';
$etcd->del($_) for @others;
$lock->holds('/held', 1, 'and has it');

for my $round (1 .. ROUNDS) {
    my $second = $nginx->http;
    my $lost = $lock->count('/held', 'lost');

    $reads->set(delay => DELAY);
    $second->send('GET', '/held');

    wait_for { $lock->keys('/held') == 2 } 10, 'another key';

    my ($own) = sort { $b->{create_revision} <=> $a->{create_revision} }
        $etcd->list('/held/');
    my $from = time();

    $etcd->del($own->{key});

    # Another key is put, or the same once more, by a copy of the request that
    # nginx sends if the answer takes long.  If the answer has come first, the
    # request was cut.

    ok(wait_for(sub {
           grep({ $_->{create_revision} > $own->{create_revision} }
                $etcd->list('/held/'))
               || $lock->count('/held', 'lost') > $lost;
       }, 30), "round $round: a key that was deleted holds no lock");
    cmp_ok($control->lasted($from, time()), '<', SOON,
           "round $round: which is noticed soon");

    $reads->set(delay => 0);
    $second->close();
    wait_for { $lock->keys('/held') == 1 } 30, 'the end of the key';
}

$backend->set(hang => 0);
is($first->receive->{status}, 200, 'the first request has held its lock');

$control->finished();

finish();
