#!/usr/bin/perl

# A lock that is lost while nginx looks up the name of the upstream: the request
# or connection is cut.  The DNS server does not answer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Etcd;
use Finish;
use Lock;
use Nginx;

plan(skip_all => 'this nginx has no stream') if !Nginx::has(qw(stream));

my $etcd = Etcd->new()->start();
my $dns = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'udp')
    or die "listen: $!\n";

my $nginx = Nginx->new(etcd => $etcd)->set(DNS => $dns->sockport);

$nginx->start(<<'EOF_CONFIG');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    resolver 127.0.0.1:%%DNS%%;
    resolver_timeout 600s;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /looked-up {
            etcd_lock /locks/http wait=60s;
            set $name name.invalid;
            proxy_pass http://$name;
        }
    }
}

stream {
    resolver 127.0.0.1:%%DNS%%;
    resolver_timeout 600s;

    map $protocol $name {
        default name.invalid:80;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%%;

        etcd_lock /locks/tcp wait=60s;
        proxy_pass $name;
    }

    server {
        listen 127.0.0.1:%%PORT_UDP%% udp;

        etcd_lock /locks/udp wait=60s;
        proxy_responses 1;
        proxy_pass $name;
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);
my ($worker) = $nginx->workers;


sub lose {
    my ($name) = @_;

    $lock->holds("/locks/$name", 1, "$name: a name is looked up");
    $etcd->del($lock->keys("/locks/$name"));
}


my $client = $nginx->begin('/looked-up');

lose('http');
is($client->receive->{status}, 503, 'http: the request is cut');

my ($tcp, $udp) = map {
    IO::Socket::INET->new(PeerAddr => '127.0.0.1', Proto => $_,
                          PeerPort => $nginx->port('PORT_' . uc))
        or die "connect: $!\n"
} qw(tcp udp);

lose('tcp');
is($tcp->getline, undef, 'tcp: the connection is closed');

$udp->send('hello');
lose('udp');
$lock->holds('/locks/udp', 0, 'udp: the session ends');

$lock->gone("/locks/$_", "$_: nothing is left") for qw(http tcp udp);

is_deeply([$nginx->workers], [$worker], 'the worker is still the same');

finish();
