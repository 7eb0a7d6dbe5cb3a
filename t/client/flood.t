#!/usr/bin/perl

# Endpoints that send frames without end, of kinds that carry nothing: nginx
# leaves them as soon as it sees that, attempts become rarer, and others are
# served.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use POSIX ();
use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Process;
use Upstream;
use Wait;

use constant {
    ATTEMPTS => 32,       # in 4 seconds; a busy loop makes hundreds
    SHARE    => 0.5,      # of a CPU: to read all frames takes all of it
    MEASURED => 3,        # s; the first attempts come one after another
};

# Each is one frame, in hexadecimal; nghttp2 itself limits SETTINGS.

my %frames = (
    window_update => '000004080000000000' . '00000001',
    ping          => '000008060100000000' . '0000000000000000',
    settings      => '000000040000000000',
    unknown       => '0000000b0000000000',
    priority      => '000005020000000001' . '0000000010',
    early         => '000005010400000001' . '0803313033',     # status 103
);

my $etcd = Etcd->new()->start();
my ($backend) = Backend->start('one');
my %peer = map { $_ => Fake->new()->start("flood:$frames{$_}") } keys %frames;

$etcd->put('/s/1', $backend->address);

my $began = time();
my $nginx = Nginx->new(etcd => $etcd)->set(
    CLUSTERS => join('', map {
        "etcd $_ { endpoints " . $peer{$_}->endpoints . "; zone 256k; }\n"
    } sort keys %peer),
    UPSTREAMS => join('', map {
        "upstream $_ { etcd_members /s/ cluster=$_; server "
        . $backend->address . "; }\n"
    } sort keys %peer),
)->start(<<'EOC');

worker_processes 1;

%%CLUSTERS%%

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream good {
        etcd_members /s/;
    }

    %%UPSTREAMS%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://good;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

Upstream->new($nginx, 'good')->shows({ '/s/1' => $backend->address . ' 1 up' },
                                     'members of a good cluster are there');


my ($worker) = $nginx->workers;


sub connections { $peer{$_[0]}->count(qr/ open /) }


for my $name (sort keys %peer) {
    ok(wait_for(sub {
        $nginx->count_log(qr/\[error\].*cluster\ "$name":.*
                             (HTTP\/2\ flood:\ got|Flooding\ was\ detected)/x)
    }, 20, $name), "$name: the endpoint is left, and the log says why");
    ok(wait_for(sub { connections($name) >= 4 }, 20, $name),
       "$name: it is tried again");
    cmp_ok(connections($name), '<=', ATTEMPTS * (1 + (time() - $began) / 4),
           "$name: not without pause");
}

wait_for { time() - $began >= MEASURED } 20, 'the time to measure';

cmp_ok(cpu_time($worker), '<', SHARE * (time() - $began),
       'the worker has time for other things');
is_deeply([$nginx->workers], [$worker], 'and is the same');
is($nginx->get('/')->{body}, 'one', 'members are served meanwhile');

finish();
