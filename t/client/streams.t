#!/usr/bin/perl

# However many workers and upstreams there are: one stream for all watches, and
# two connections.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant UPSTREAMS => 20;


my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

# The connections of this test itself are counted before.

my $before = $etcd->metric('etcd_debugging_mvcc_watch_stream_total') // 0;

$etcd->put("/services/$_/1", "127.0.0.1:10$_") for 10 .. 9 + UPSTREAMS;

$nginx->set(UPSTREAMS => join('', map {
    "upstream u$_ { etcd_members /services/$_/; }\n" } 10 .. 9 + UPSTREAMS));

$nginx->start(<<'EOC');

worker_processes 4;

etcd {
    endpoints %%ETCD%%;
}

http {
    %%UPSTREAMS%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


sub streams {
    return $etcd->metric('etcd_debugging_mvcc_watch_stream_total') - $before;
}


# established TCP connections from nginx's workers to etcd, from /proc

sub connections {
    my $port = sprintf('%04X', $etcd->port);
    my %socket;

    for my $pid ($nginx->workers) {
        for my $fd (glob("/proc/$pid/fd/*")) {
            my $target = readlink($fd) // next;
            $socket{$1} = 1 if $target =~ /^socket:\[(\d+)\]$/;
        }
    }

    open(my $tcp, '<', '/proc/net/tcp') or die "open /proc/net/tcp: $!\n";

    my @fields = map { [split(' ')] } <$tcp>;

    return scalar(grep { $_->[2] =~ /:$port$/ && $_->[3] eq '01'
                         && $socket{ $_->[9] } } @fields);
}


for my $n (10 .. 9 + UPSTREAMS) {
    Upstream->new($nginx, "u$n")->shows(
        { "/services/$n/1" => "127.0.0.1:10$n 1 up" }, "u$n");
}

is(scalar($nginx->workers), 4, 'four workers');

ok(wait_for(sub {
    $etcd->metric('etcd_debugging_mvcc_watcher_total') == UPSTREAMS
}, 10, 'watchers'), 'each prefix is watched once');

is(streams(), 1, 'on one stream');

# A connection that is given up, or is another worker's, may be there a little
# longer.

ok(wait_for(sub { my $n = connections(); $n >= 1 && $n <= 2 }, 10,
            'connections'), 'with two connections at most');

for my $n (1 .. 2) {
    ok($nginx->reload(undef, gone => 1), "reload $n");

    ok(wait_for(sub {
        $etcd->metric('etcd_debugging_mvcc_watcher_total') == UPSTREAMS
        && streams() == 1 && connections() <= 2
    }, 10, 'one stream'), 'one stream again after it');
}

is($nginx->count_log(qr/at once on a connection/), 0,
   'there is no limit to report');

$nginx->stop();

ok(wait_for(sub { streams() == 0 }, 10, 'no stream'),
   'none is left when nginx has ended');


# An etcd that limits the calls of a connection: an election needs three.

for my $limit (2, 3) {
    my $limited = Etcd->new(args => ["--max-concurrent-streams=$limit"])
        ->start();
    my $candidate = Nginx->new(etcd => $limited);
    my $warning = qr/\[warn\].* accepts 2 calls at once on a connection/;

    $candidate->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
    election  e /election/ value=me;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /led/ {
            alias %%DIR%%/;
            etcd_require_leader e;
        }
    }
}

EOC

    if ($limit == 2) {
        ok(wait_for(sub { $candidate->count_log($warning) }, 20, 'a warning'),
           'a limit that is too low is reported');

    } else {
        $candidate->write_file('page', "led\n");
        ok(wait_for(sub { $candidate->get('/led/page')->{status} == 200 }, 20,
                    'a leader'),
           'nginx leads with three calls at once');
        is($candidate->count_log(qr/at once on a connection/), 0,
           'without a report');
    }

    $candidate->stop();
}

finish();
