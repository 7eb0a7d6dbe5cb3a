#!/usr/bin/perl

# nginx's "zone" in upstreams: it changes nothing for members, nor for servers
# that are reached under a lock or by the leader alone.  Angie reads the current
# peer of such an upstream, whatever balances it; and its "sticky", which is
# another one than nginx's, reads the list of servers.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Line;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b));
my @lines = Line->start(qw(x y));

$etcd->put("/http/$_", $backends[$_]->address) for 0, 1;
$etcd->put("/stream/$_", $lines[$_]->address) for 0, 1;

# Angie's "sticky" finds the server of a cookie in a list of servers.

my $angie = Nginx::is_angie();
my $sticky = $angie ? 'sticky cookie s;' : '';
my $route = $angie ? 'sticky route $remote_addr;' : '';

my $nginx = Nginx->new(etcd => $etcd)->set(
    A => $backends[0]->address,
    B => $backends[1]->address,
    X => $lines[0]->address,
    Y => $lines[1]->address,
);

$nginx->start(<<"END");

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election main /election value=me;
}

http {
    proxy_next_upstream error http_500;
    proxy_http_version 1.1;
    proxy_set_header Connection "";

    upstream members {
        zone http 256k;
        etcd_members /http/ max_fails=0;
        keepalive 4;
    }

    upstream ewma {
        zone http;
        etcd_members /http/ max_fails=0;
        etcd_balance ewma;
    }

    upstream servers {
        zone http;
        server %%A%% max_fails=0;
        server %%B%% max_fails=0;
        keepalive 4;
    }

    upstream cookies {
        etcd_members /http/ max_fails=0;
        $sticky
    }

    upstream cookies_zone {
        zone http;
        etcd_members /http/ max_fails=0;
        $sticky
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /members {
            proxy_pass http://members;
        }

        location /ewma {
            proxy_pass http://ewma;
        }

        location /servers {
            proxy_pass http://servers;
        }

        location /gated {
            etcd_require_leader main;
            proxy_pass http://servers;
        }

        location /locked {
            etcd_lock /lock wait=10s;
            proxy_pass http://servers;
        }

        location /both {
            etcd_require_leader main;
            etcd_lock /lock wait=10s;
            proxy_pass http://members;
        }

        location /waited {
            etcd_wait members 10s;
            proxy_pass http://members;
        }

        location /waited_gated {
            etcd_wait members 10s;
            etcd_require_leader main;
            proxy_pass http://members;
        }

        location /cookies {
            proxy_pass http://cookies;
        }

        location /cookies_zone {
            proxy_pass http://cookies_zone;
        }
    }
}

stream {
    upstream members {
        zone stream 256k;
        etcd_members /stream/;
    }

    upstream routes {
        etcd_members /stream/;
        $route
    }

    upstream routes_zone {
        zone stream;
        etcd_members /stream/;
        $route
    }

    upstream servers {
        zone stream;
        server %%X%%;
        server %%Y%%;
    }

    server {
        listen 127.0.0.1:%%PORT_members%%;
        proxy_pass members;
    }

    server {
        listen 127.0.0.1:%%PORT_routes%%;
        proxy_pass routes;
    }

    server {
        listen 127.0.0.1:%%PORT_routes_zone%%;
        proxy_pass routes_zone;
    }

    server {
        listen 127.0.0.1:%%PORT_gated%%;
        etcd_require_leader main;
        proxy_pass servers;
    }
}

END

# { NAME => the number of its requests }, with requests that failed there

sub asked {
    my ($path, $n, @headers) = @_;

    my %bodies;

    $_->reset() for @backends;
    $bodies{$nginx->get($path, @headers)->{body} // ''}++ for 1 .. $n;

    return (join(' ', map { "$_=$bodies{$_}" } sort keys %bodies),
            join(' ', map { $_->name . '=' . $_->requests } @backends));
}


sub answered {
    my ($path, @headers) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my ($bodies) = asked($path, 4, @headers);

    is($bodies, 'a=2 b=2', "$path @headers");
}


ok(wait_for(sub { $nginx->get('/gated')->{status} == 200 }, 20), 'it leads');

for my $name (qw(members ewma cookies cookies_zone)) {
    ok(wait_for(sub { keys %{ $nginx->upstream($name)->members } == 2 }, 20),
       "$name: both are there");
}

for my $name (qw(members routes routes_zone)) {
    ok(wait_for(sub { keys %{ $nginx->stream($name)->members } == 2 }, 20),
       "stream: $name: both are there");
}

answered($_) for map { "/$_" } qw(members servers gated locked both waited
                                  waited_gated cookies cookies_zone);

# a failed try, and then another one

$backends[0]->set(status => 500);

for my $path (map { "/$_" } qw(members ewma servers gated locked both waited
                               waited_gated cookies cookies_zone))
{
    my ($bodies, $requests) = asked($path, 4);

    is($bodies, 'b=4', "$path: all are answered by the other one");
    like($requests, $path eq '/ewma' ? qr/^a=\d b=4$/ : qr/^a=[1-4] b=4$/,
         "$path: after a try");
}

$backends[0]->set(status => 200);

# a session of Angie's that no server knows

for my $path ('/cookies', '/cookies_zone') {
    answered($path, Cookie => "s=$_") for '', 'x', 'f' x 32;
}

for my $path (qw(members gated routes routes_zone)) {
    my $tally = Line::Client::tally($nginx->port("PORT_$path"), 4);

    is_deeply($tally, { x => 2, y => 2 }, "stream: $path");
}

finish();
