#!/usr/bin/perl

# Refusals of etcd to a user, through "etcd grpc-proxy": they are no outage.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use GrpcProxy;
use Nginx;
use Wait;

my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();

$etcd->user_add('nginx', 'secret', '/mine/');
$etcd->put('/mine/1', '127.0.0.1:1');
$etcd->put('/theirs/1', '127.0.0.1:1');
$etcd->auth_enable('root-secret');

my $proxy = GrpcProxy->new($etcd)->start();
my $nginx = Nginx->new(etcd => $proxy);

$nginx->write_secret('password', "secret\n");

$nginx->start(<<'EOC');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    user nginx;
    password_file password;
}

http {
    upstream mine {
        etcd_members /mine/;
    }

    upstream theirs {
        etcd_members /theirs/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

sub cluster { $nginx->status->{clusters}{default} }

my $denied = qr{"/theirs/" cannot be read: permission denied};

$nginx->upstream('mine')->shows({ '/mine/1' => '127.0.0.1:1 1 up' },
                                'what the user may read');
ok(wait_for(sub { cluster()->{state} eq 'denied' }, 20), 'and may not');
$nginx->logs(qr/\[error\].*$denied/, 1, 'is reported');
is($nginx->count_log(qr/endpoint .* failed/), 0, 'and is no outage');

# nginx tries a refused prefix again.

$etcd->grant_read('nginx', '/theirs/');
ok(wait_for(sub { cluster()->{state} eq 'synced' }, 30), 'the right is given');
is(cluster()->{reconnects}, 0, 'all over one connection');

finish();
