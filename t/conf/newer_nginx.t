#!/usr/bin/perl

# Features of newer nginx for upstreams, with members and leaders from etcd:
# HTTP/2 to upstreams (1.29.4), tunnels (1.31.0) and version 2 of the PROXY
# protocol (1.31.4).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Line;
use Nginx;
use Wait;

my %has = (
    http2  => Nginx::has('http_v2_module')
              && Nginx::accepts('http { proxy_http_version 2; }'),
    tunnel => Nginx::accepts('http { tunnel_buffer_size 4k; }'),
    proxy2 => Nginx::has('stream')
              && Nginx::accepts('stream { proxy_protocol v2; }'),
);

plan(skip_all => 'this nginx has none of it') if !grep { $_ } values %has;

my $etcd = Etcd->new()->start();
my @lines = Line->start(qw(a b));
my ($http, $stream) = ('', '');


sub block {
    my ($name, $text) = @_;

    return $has{$name} ? $text : '';
}


$http .= block('http2', <<'END');
    server {
        listen 127.0.0.1:%%PORT_ONE%%;
        http2 on;
        return 200 "one $server_protocol";
    }

    server {
        listen 127.0.0.1:%%PORT_TWO%%;
        http2 on;

        location / {
            return 200 "two $server_protocol";
        }

        location /slow {
            proxy_pass http://127.0.0.1:%%PORT_NONE%%;
        }
    }

    # accepts and never answers

    server {
        listen 127.0.0.1:%%PORT_NONE%%;

        location / {
            etcd_wait never 1h;
            proxy_pass http://never;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_HTTP2%%;
        proxy_http_version 2;
        add_header X-Upstream $upstream_addr always;

        location /members {
            proxy_pass http://members;
        }

        location / {
            etcd_wait leads 10s;
            proxy_pass http://leads;
        }
    }
END

$http .= block('tunnel', <<'END');
    server {
        listen 127.0.0.1:%%PORT_TUNNEL%%;

        location / {
            etcd_wait tunnels 10s;
            tunnel_pass tunnels;
        }
    }
END

$http .= block('proxy2', <<'END');
    server {
        listen 127.0.0.1:%%PORT_PROXIED%% proxy_protocol;
        return 200 "$proxy_protocol_addr $proxy_protocol_server_port";
    }
END

$stream = block('proxy2', <<'END');
stream {
    upstream proxied {
        etcd_members /proxied/;
    }

    server {
        listen 127.0.0.1:%%PORT_PROXY2%%;
        proxy_pass proxied;
        proxy_protocol v2;
    }
}
END

my $nginx = Nginx->new(etcd => $etcd)->start(<<"END");

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream members {
        etcd_members /members/;
    }

    upstream leads {
        etcd_leader /election on_change=close;
    }

    upstream tunnels {
        etcd_leader /tunnels on_change=close;
    }

    upstream never {
        etcd_members /never/;
    }

    $http

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

$stream

END


sub address { return '127.0.0.1:' . $nginx->port("PORT_$_[0]") }


SKIP: {
    skip 'no HTTP/2 to upstreams', 1 if !$has{http2};

    my $client = $nginx->http('PORT_HTTP2');

    $etcd->put('/members/1', address('ONE'));
    $etcd->put('/members/2', address('TWO'));

    my $tally = sub {
        my %tally;

        $tally{$client->get('/members')->{body}}++ for 1 .. 20;

        return join(', ', map { "$_: $tally{$_}" } sort keys %tally);
    };

    becomes { $tally->() } 'one HTTP/2.0: 10, two HTTP/2.0: 10',
        'HTTP/2: two members in turn';

    # The request waits for a leader, and is cut when another one leads.

    $client->send('GET', '/');
    wait_for { $nginx->upstream('leads')->status->{waiting} } 10, 'a waiter';
    $etcd->put('/election/1', address('TWO'));

    my $answer = $client->receive;

    is($answer->{body}, 'two HTTP/2.0', 'HTTP/2: a held request goes on');
    is($client->get('/')->{body}, 'two HTTP/2.0', 'HTTP/2: and another one');

    $client->send('GET', '/slow');
    wait_for { $nginx->upstream('never')->status->{waiting} } 10, 'slow';
    $etcd->put('/election/2', address('ONE'));
    $etcd->del('/election/1');

    is($client->receive->{status}, 502,
       'HTTP/2: a request to a former leader ends');
    becomes { $client->get('/')->{body} } 'one HTTP/2.0',
        'HTTP/2: then the next leader answers';
}

SKIP: {
    skip 'no tunnels', 1 if !$has{tunnel};

    my $tunnel = Line::Client->new($nginx->port('PORT_TUNNEL'));

    $tunnel->tell("CONNECT example.test:443 HTTP/1.1\r\n"
                  . "Host: example.test:443\r\n\r");
    wait_for { $nginx->upstream('tunnels')->status->{waiting} } 10, 'a waiter';
    $etcd->put('/tunnels/1', $lines[0]->address);

    like($tunnel->hear(), qr{^HTTP/1.1 200 }, 'a held tunnel goes on');
    1 while ($tunnel->hear() // '') =~ /./ && $tunnel->{input} !~ /^\r\n/;
    $tunnel->{input} =~ s/^\r\n//;

    is($tunnel->ask('hello'), 'a: hello', 'and leads to the leader');

    $etcd->put('/tunnels/2', $lines[1]->address);
    $etcd->del('/tunnels/1');
    ok($tunnel->is_closed(), 'it is closed when there is another leader');
}

SKIP: {
    skip 'no version 2 of the PROXY protocol', 1 if !$has{proxy2};

    $etcd->put('/proxied/1', address('PROXIED'));

    becomes {
        Http->new($nginx->port('PORT_PROXY2'))
            ->get('/', Connection => 'close')->{body}
    } '127.0.0.1 ' . $nginx->port('PORT_PROXY2'), 'PROXY protocol, version 2';
}

finish();
