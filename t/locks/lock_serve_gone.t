#!/usr/bin/perl

# A client of etcd_lock_serve whose machine vanishes without a word: its lock is
# free after some pings, and not when TCP gives up.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Curl;
use Etcd;
use Finish;
use Lock;
use Netns;
use Nginx;

Netns::enter();

my ($place) = Netns->new(1)->places;
my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

etcd {
    endpoints %%ETCD%%;
    lock_ttl 600s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 10.0.1.254:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location /run {
            etcd_lock /locks/run;
            etcd_lock_serve;
            etcd_lock_serve_ping 500ms;
        }
    }
}

EOF

my $lock = Lock->new($nginx, $etcd);
my $url = 'http://10.0.1.254:' . $nginx->port . '/run';
my $curl = Curl->within([$place->within], $url);

ok($curl->token, 'a client on another machine has the lock');
is($nginx->get('/run')->{status}, 423, 'and no other one');
$place->hide();
$lock->gone('/locks/run', 'the machine is gone, and so is the lock');
$place->show();

finish();
