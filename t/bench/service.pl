#!/usr/bin/perl

# The time from the put of its first key until a new service is served: by a
# prefix with variables, beside "etcdctl watch", and beside an nginx whose file
# of upstreams is written and which is reloaded, as confd does it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use JSON::PP;
use MIME::Base64;
use POSIX ();
use Time::HiRes qw(time);

use Bench;
use Etcd;
use Finish;
use Http;
use Nginx;
use Propagation;
use Wait;

use constant {
    WORKERS => 2,
    CYCLES  => $ENV{BENCH_CYCLES} || 200,
    PAIRS   => $ENV{BENCH_PAIRS} || 60,
    OTHERS  => 100,
    PATIENCE => 10,             # seconds until a service is served
};

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream services {
        etcd_members /services/$service/;
    }

    map $uri $service {
        ~^/s/(?<name>[^/]+) $name;
        default             new;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        keepalive_requests 1000000000;

        location / {
            error_page 404 502 =200 @none;
            add_header X-Worker $pid;
            proxy_pass http://services;
        }

        location @none {
            add_header X-Worker $pid;
            return 200 0;
        }

        location /s/ {
            proxy_pass http://services;
        }
    }
}

EOC

# two files, which a script writes

my $reloaded = <<'EOC';

worker_processes 2;

http {
    include upstreams.conf;

    map $uri $name {
        ~^/s/(?<service>[^/]+) $service;
    }

    map $name $upstream {
        include names.conf;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location / {
            if ($upstream = "") {
                return 404;
            }

            proxy_pass http://$upstream;
        }
    }
}

EOC


my $backend = Nginx->new(modules => [])->start(backend_config(PORT_1 => 1));
my $address = '127.0.0.1:' . $backend->port('PORT_1');
my $etcd = Etcd->new()->start();

$etcd->put("/services/s$_/1", $address) for 1 .. OTHERS;

my $ours = Nginx->new(etcd => $etcd)->start($config);
my $peer = Nginx->new(modules => []);


# The way of confd: waits for a change, reads all keys, writes the files, and
# reloads nginx by the signal that "nginx -s reload" sends.

sub etcdctl {
    my (@arguments) = @_;

    open(my $output, '-|', 'etcdctl', '--endpoints', $etcd->url, @arguments)
        or die "etcdctl: $!\n";

    return $output;
}


sub render {
    my $output = etcdctl('get', '--prefix', '/services/');
    my (%services, $service);

    while (<$output>) {
        chomp;

        if (m{^/services/([^/]+)/}) {
            $service = $1;

        } elsif (defined $service) {
            push @{ $services{$service} }, $_;
            undef $service;
        }
    }

    my @names = sort keys %services;

    $peer->write_file('upstreams.conf', join('', map {
        my $servers = join(' ', map { "server $_;" } @{ $services{$_} });

        "upstream u_$_ { $servers }\n";
    } @names));

    $peer->write_file('names.conf', join('', map { "$_ u_$_;\n" } @names));
}


sub follow {
    my $watch = etcdctl('watch', '--prefix', '/services/');
    my $lines = 0;

    while (<$watch>) {

        # An event of a put has three lines: PUT, key, value.

        if (++$lines % 3 == 0) {
            render();
            kill('HUP', $peer->pid);
        }
    }
}


# milliseconds until a service is served

sub served {
    my ($nginx, $service, $begin) = @_;

    my $http = Http->new($nginx->port, timeout => 2);

    while (time() < $begin + PATIENCE) {
        my $answer = $http->get("/s/$service");

        return (time() - $begin) * 1000 if ($answer->{status} // 0) == 200;
    }

    die "$service is not served\n";
}


local $ENV{ETCDCTL_API} = 3;

wait_for { ($ours->get('/s/s' . OTHERS) // {})->{status} == 200 } 30,
    'the services' or die "the services are not served\n";

# Every worker has the service, and then has not.

my %key = (key => encode_base64('/services/new/1', ''));
my $put = encode_json({ %key, value => encode_base64($address, '') });

my (undef, @changes) = Propagation::measure($etcd, $ours->port, WORKERS,
    CYCLES, '/services/new/', [
        ['comes', 'PUT', 1, 'put', $put, 60, 40],
        ['goes', 'DELETE', 0, 'deleterange', encode_json({ %key }), 60, 40],
    ]);

# in turns with the reloaded nginx

render();
$peer->start($reloaded);

my $confd = fork() // die "fork: $!\n";

if ($confd == 0) {
    setpgrp();
    open(STDOUT, '>', '/dev/null');
    open(STDERR, '>', '/dev/null');
    follow();
    POSIX::_exit(0);
}

my $bench = $$;

END { kill('TERM', -$confd) if $confd && $$ == $bench }

wait_for {
    my $name = 'warm' . int(rand(1e9));
    my $begin = time();

    $etcd->put("/services/$name/1", $address);
    eval { served($peer, $name, $begin) };
} 30, 'the script' or die "the script does nothing\n";

my @pairs = map {
    my $number = $_;
    my %pair;

    for my $whose ($number % 2 ? qw(ours peer) : qw(peer ours)) {
        my $begin = time();

        $etcd->put("/services/$whose$number/1", $address);
        $pair{$whose} = served($whose eq 'ours' ? $ours : $peer,
                               "$whose$number", $begin);

        # Nothing is measured while the other nginx is busy with the change.

        served($whose eq 'ours' ? $peer : $ours, "$whose$number", $begin);
        wait_for { !$peer->leaving } 10, 'former workers';
    }

    \%pair;
} 1 .. PAIRS;

my %kinds;

push @{ $kinds{$_->{kind}} }, $_ for @changes;

my $others = OTHERS;

publish('A new service', <<"END", <<"END",
From the moment the first key of a service, or the deletion of its last one, is
sent to etcd until the same process has it from `etcdctl watch`, and until it
has the answer to the first request that follows, on each of 2 workers of
`etcd_members /services/\$service/`, beside $others other services.
Milliseconds, p50 / p99; see "Propagation".
END
The second table is of the same put until the first request to the new service
is answered by any worker: ms, in turns. The peer is an nginx with an `upstream`
for each service, and a script in place of confd, which Debian does not have, as
it has no Traefik and no APISIX: `etcdctl watch`, `etcdctl get` of all services,
two files are written, and nginx gets the signal of `nginx -s reload`.
END
    table(Propagation::head('a put or delete', 'the last of 2 workers'),
          Propagation::row('the service comes', @{ $kinds{comes} }),
          Propagation::row('the service goes', @{ $kinds{goes} })),
    table(['', 'ms', 'p99, ms'],
          ['a prefix with variables',
           spread_of('%.2f', sub { $_[0]{ours} }, @pairs),
           sprintf('%.2f', percentile(99, map { $_->{ours} } @pairs))],
          ['written and reloaded',
           spread_of('%.1f', sub { $_[0]{peer} }, @pairs),
           sprintf('%.1f', percentile(99, map { $_->{peer} } @pairs))],
          ['ratio',
           spread_of('%.1f', sub { $_[0]{peer} / $_[0]{ours} }, @pairs), '']));
