#!/usr/bin/perl

# An answer to a Txn that holds another one, which holds another one, thousands
# of times: protobuf-c would unpack it by recursion.  The worker lives, and logs
# the fault of the answer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Protobuf;
use Upstream;
use Wait;

use constant DEPTH => 6000;

my $header = answer_header();


# TxnResponse.responses = 3, ResponseOp.response_txn = 4

sub nested {
    my ($depth) = @_;

    my $txn = field(2, VARINT, 1);

    $txn = field(2, VARINT, 1) . field(3, BYTES, field(4, BYTES, $txn))
        for 1 .. $depth;

    return $header . $txn;
}


my $nginx = Nginx->new();
my $grant = $nginx->write_file('grant', $header . field(2, VARINT, 99)
                                        . field(3, VARINT, 10));
my $txn = $nginx->write_file('txn', nested(DEPTH));

my $fake = Fake->new()->start('ok', '--answer', "LeaseGrant=$grant",
                              '--answer', "Txn=$txn");

cmp_ok(-s $txn, '<', 64 * 1024, 'it is a small message');

my $etcd = Etcd->new()->start();
my ($backend) = Backend->start('one');

$etcd->put('/s/1', $backend->address);

$nginx->set(FAKE => $fake->endpoints, ETCD => $etcd->endpoints)->start(<<'EOC');

etcd hostile {
    endpoints %%FAKE%%;
    register /register/nginx value=127.0.0.1:80;
    zone 256k;
}

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream good {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://good;
        }

        location /locked {
            etcd_lock key cluster=hostile;
            proxy_pass http://good;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

my @workers = $nginx->workers;

ok(wait_for(sub { $fake->count(qr{/Txn}) }, 20, 'a Txn'),
   'the answer came to who registers');
is($nginx->get('/locked')->{status}, 503, 'no lock is granted by it');
ok(wait_for(sub {
    $nginx->count_log(qr/lock.*the response could not be used/)
}, 10, 'the log'), 'the log says why');

Upstream->new($nginx, 'good')->shows({ '/s/1' => $backend->address . ' 1 up' },
                                     'members of another cluster are there');
is($nginx->get('/')->{body}, 'one', 'which are served');
is(join(' ', $nginx->workers), "@workers", 'no worker has died');
is($nginx->count_log(qr/exited on signal/), 0, 'at any time');

finish();
