#!/usr/bin/perl

# The time from a put or a delete until requests follow it, on every worker,
# beside the time at which "etcdctl watch" has printed it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use JSON::PP;
use List::Util qw(sum);
use MIME::Base64;

use Bench;
use Etcd;
use Finish;
use Nginx;
use Propagation;

use constant {
    WORKERS => 4,
    CYCLES  => $ENV{BENCH_CYCLES} || 100,
};

my $key = '/services/api/1';

my $config = <<'EOF';

worker_processes 4;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /services/api/;
        server 127.0.0.1:%%WITHOUT%% backup;
        keepalive 16;
        keepalive_requests 1000000000;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        keepalive_requests 1000000000;

        location / {
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            add_header X-Worker $pid;
        }
    }
}

EOF


my %key = (key => encode_base64($key, ''));
my @apart = (120, 80);          # ms, and more at random


my $backend = Nginx->new(modules => [])
    ->start(backend_config(PORT_WITH => '1', PORT_WITHOUT => '0'));

my $etcd = Etcd->new()->start();

my $nginx = Nginx->new(etcd => $etcd)
    ->set(WITHOUT => $backend->port('PORT_WITHOUT'))->start($config);

my $put = encode_json({ %key, value => encode_base64(
    '127.0.0.1:' . $backend->port('PORT_WITH'), '') });
my @add = ('PUT', 1, 'put', $put);
my @remove = ('DELETE', 0, 'deleterange', encode_json({ %key }));

my ($closeness, @changes) = Propagation::measure($etcd, $nginx->port, WORKERS,
    CYCLES, $key, [
        ['add', @add, @apart],
        ['removal', @remove, @apart],
        ['add', @add, 50, 0],
        ['following', @remove, @apart],
    ]);

my %kinds;

push @{ $kinds{$_->{kind}} }, $_ for @changes;

my $late = sum(map { $_->{late} } @changes);

publish('Propagation', <<"END",
From the moment a put or a delete of a member is sent to etcd (through its JSON
gateway) until the same process has it from `etcdctl watch`, and until it has
the answer to the first request that follows the change, on each of 4 workers.
Milliseconds, p50 / p99; a negative difference means that nginx was first. The
time of a request is part of the figure: asked for all the time, one took
$closeness->{took}[0] us at p50 and $closeness->{took}[1] us at p99, and each
worker was asked every $closeness->{apart}[0] us (p99:
$closeness->{apart}[1] us). The last column counts up to when that request was
sent, which is before nginx had it.
END
    table(Propagation::head('a put or delete', 'the last of 4 workers'),
          Propagation::row('add', @{ $kinds{add} }),
          Propagation::row('removal', @{ $kinds{removal} }),
          Propagation::row('removal 50 ms after an add',
                           @{ $kinds{following} }),
          Propagation::row('all', @changes)),
    <<"END");
Once a worker had followed a change, $late requests to it were routed by the
state before it, a deleted member included.
END
