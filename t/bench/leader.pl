#!/usr/bin/perl

# The time from the deletion of the leader's key until requests and connections
# reach the next leader, whose key was there already.

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

my $prefix = '/election/';

my $config = <<'EOF';

worker_processes 4;

events {
    worker_connections 4096;
}

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream leader {
        etcd_leader /election/;
        keepalive 16;
        keepalive_requests 1000000000;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        keepalive_requests 1000000000;

        location / {
            etcd_wait leader 5s;
            proxy_pass http://leader;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            add_header X-Worker $pid;
        }
    }
}

stream {
    upstream leader {
        etcd_leader /election/;
    }

    server {
        listen 127.0.0.1:%%PORT_STREAM%% reuseport;
        etcd_wait leader 5s;
        proxy_pass leader;
    }
}

EOF


my $backend = Nginx->new(modules => [])
    ->start(backend_config(PORT_A => '0', PORT_B => '1'));

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);
my $stream = $nginx->port('PORT_STREAM');

# Each candidate in turn goes, and stands again behind the other.

my @changes = map { failover(@$_) } ['a', 'PORT_A', 1], ['b', 'PORT_B', 0];


sub failover {
    my ($name, $port, $next) = @_;

    my $key = $prefix . $name;
    my $value = '127.0.0.1:' . $backend->port($port);
    my %key = (key => encode_base64($key, ''));

    $etcd->put($key, $value);

    return ['failover', 'DELETE', $next,
            'deleterange', encode_json(\%key), 120, 80,
            'put', encode_json({ %key, value => encode_base64($value, '') })];
}


$nginx->start($config);

my ($closeness, @http) = Propagation::measure($etcd, $nginx->port, WORKERS,
    CYCLES, $prefix, \@changes);
my (undef, @stream) = Propagation::measure($etcd, $stream, -(WORKERS), CYCLES,
    $prefix, \@changes);

my $late = sum(map { $_->{late} } @http);

publish('Failover to the next leader', <<"END",
From the moment the deletion of the leader's key is sent to etcd until
`etcdctl watch` has it, and until requests are answered by the next leader,
whose key was there before. In http each of 4 workers is asked over one
connection, every $closeness->{apart}[0] us; in stream 4 clients make a new
connection every ms each, whichever worker takes it, and the last of them counts
after which none reached the former leader any more. Milliseconds, p50 / p99; a
negative difference means that nginx was first.
END
    table(Propagation::head('deletion', 'the last of 4'),
          Propagation::row('http', @http),
          Propagation::row('stream', @stream)),
    <<"END");
Once a worker had followed, $late requests to it went to a former leader.
END
