#!/usr/bin/perl

# Kept connections to members: they are used again, and one that its member
# has closed in the meantime costs no request.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Wait;


my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start('one', 'two');

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /services/api/ max_fails=0;
        keepalive 8;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        proxy_http_version 1.1;
        proxy_set_header Connection "";

        location / {
            proxy_pass http://api;
        }

        location /next {
            proxy_pass http://api;
            proxy_next_upstream error http_500;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF


sub members { scalar(@{ $nginx->status->{upstreams}{api}{members} }) }


$etcd->put('/services/api/1', $one->address);
ok(wait_for(sub { members() == 1 }, 10), 'a lone member');

is_deeply($nginx->tally('/', 20), { one => 20 }, 'it answers');
is($one->counts->{connections}, 1, 'over one connection');

$one->set(once => 1);

is_deeply($nginx->tally('/', 10), { one => 10 },
          'a closed connection is no failure of a lone member');

$etcd->put('/services/api/2', $two->address);
ok(wait_for(sub { members() == 2 }, 10), 'two members');
$two->set(once => 1);

my $tally = $nginx->tally('/', 20);

is($tally->{one} + $tally->{two}, 20, 'nor of two, both closed') or
    diag(explain($tally));

# An error is an answer, on a kept or a new connection.

$_->set(once => 0, status => 500) for $one, $two;
$nginx->tally('/next', 4);
$_->reset() for $one, $two;

is_deeply($nginx->tally('/next', 10), { 500 => 10 }, 'both answer with 500');
is_deeply([$one->requests, $two->requests], [10, 10],
          'each is asked once for a request');

$_->set(status => 200) for $one, $two;

# A member that leaves is not asked again, kept connections or not.

$one->set(once => 0);
$two->set(once => 0);
$nginx->tally('/', 10);
$etcd->del('/services/api/2');
ok(wait_for(sub { members() == 1 }, 10), 'one is removed');
is_deeply($nginx->tally('/', 10), { one => 10 }, 'the other one answers');

finish();
