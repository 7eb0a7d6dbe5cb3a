#!/usr/bin/perl

# What a request that waits for a lock knows of the others' keys, when the
# connection of the watch is lost while these are listed for the first time: it
# does not wait for a key that is gone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Chaos;
use Control;
use Etcd;
use Finish;
use Nginx;
use Wait;

# nginx lists everything again after ten seconds, in any case: SOON is before
# that.  The list must not be answered before all is prepared, which takes
# luck: so it is done ROUNDS times.

use constant {
    ROUNDS => 3,
    TRIES  => 30,
    DELAY  => 0.2,
    SOON   => 5,
};

my $etcd = Etcd->new()->start();
my $control = Control->start();
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

        location /empty {
            etcd_lock off;
            empty_gif;
        }
    }
}

EOF_CONFIG


# the way that requests go, or watches

sub way {
    my ($nginx, $what) = @_;

    my ($url) = $nginx->error_log =~ /.*connecting to (\S+) for $what/s;

    return (grep { $_->url eq ($url // '') } @ways)[0];
}


# an nginx whose watches go another way than its requests

sub two_ways {
    for (1 .. TRIES) {
        my $nginx = Nginx->new()->set(
            ETCD => join(' ', map { $_->url } @ways),
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
    my $key = sprintf('/locks/%s/%x', $lock, $lease);

    $etcd->put($key, '', lease => $lease);

    return $key;
}


sub watches { $etcd->metric('etcd_debugging_mvcc_watcher_total') }


for my $round (1 .. ROUNDS) {
    my ($nginx, $reads, $streams) = two_ways();
    my $lock = "%2Fround$round";
    my $holder = other_key($lock);
    my $passer = other_key($lock);
    my $http = $nginx->http;

    $reads->set(delay => DELAY);
    $http->send('GET', "/round$round", '', Connection => 'close');

    wait_for { $etcd->list("/locks/$lock/") == 3 } 10, 'it waits'
        or die "no key is put\n";
    $reads->set(hold_up => 1);
    wait_for { watches() } 10, 'it watches' or die "nothing is watched\n";

    $etcd->put($passer, 'again');

    # for the event to arrive

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

$control->finished();

finish();
