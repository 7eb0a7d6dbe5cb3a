#!/usr/bin/perl

# on_change=close and clients of HTTP/2: of the requests on one connection those
# to the former leader end, each by itself, and the others go on.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Begun;
use Etcd;
use Finish;
use Http2;
use Nginx;
use Upstream;
use Wait;

plan(skip_all => 'this nginx has no HTTP/2')
    if !Nginx::has('http_v2_module');

my $etcd = Etcd->new()->start();
my ($one, $two, $other) = Begun->start('one', 'two', 'other');

my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(OTHER => $other->address)->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_http_version 1.1;
    proxy_next_upstream error timeout http_502 non_idempotent;

    upstream db {
        etcd_leader /db on_change=close;
    }

    upstream second {
        etcd_leader /second on_change=close;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_H2%% http2;

        postpone_output 0;

        location / {
            proxy_pass http://db;
        }

        location /begun/unbuffered {
            proxy_pass http://db;
            proxy_buffering off;
        }

        location /page {
            proxy_pass http://db;
            error_page 502 =503 /sorry;
        }

        location = /sorry {
            return 200 sorry;
        }

        location /second {
            proxy_pass http://second;
        }

        location /static {
            proxy_pass http://%%OTHER%%;
        }
    }
}

EOF

my %upstream = map { $_ => Upstream->new($nginx, $_) } qw(db second);
my $nginx_says = qr{<center><h1>502 Bad Gateway</h1></center>};
my $term = 'a';

sub leads {
    my ($name, $backend) = @_;

    my @former = map { [del => $_->{key}] } $etcd->list("/$name/");
    my @next = $backend ? [put => "/$name/" . $term++, $backend->address] : ();

    $upstream{$name}->sees($etcd->txn(@former, @next));
}


wait_for { $nginx->status->{clusters}{default}{staleness_ms} >= 0 } 10,
    'a proof';

my $client = Http2->new($nginx->port('PORT_H2'));

for my $next ($two, undef) {
    my $what = $next ? 'the leader changes' : 'the leader goes';

    leads('db', $one);
    leads('second', $two);
    $_->reset for $one, $two, $other;

    my %begun = map { $_ => $client->ask($_) } qw(/begun /begun/unbuffered);

    is($client->begun($begun{'/begun/unbuffered'}), 'begun',
       "$what: an answer begins");
    ok(wait_for(sub { $one->requests == 2 }, 10), 'and another one');

    $_->set(hang => 1) for $one, $two, $other;

    my %asked = map { $_ => $client->ask($_) }
                    qw(/static /wait /page /second /static/more);

    ok(wait_for(sub { $one->requests == 4 && $other->requests == 2
                      && $two->requests == 1 }, 10), 'five are not answered');

    leads('db', $next);

    like($client->answer($asked{'/wait'}), qr{^502 .*$nginx_says}s,
         'a request to the former leader');
    is($client->answer($asked{'/page'}), '503 sorry', 'error_page');
    is($client->answer($_), 'reset', 'an answer of it') for values %begun;
    ok(wait_for(sub { $one->counts->{open} == 0 }, 10),
       'its connections are closed');
    is($other->counts->{open} + $two->counts->{open}, 3, 'others are not');
    is($two->requests, 1, 'nothing is sent to another leader');

    $_->set(hang => 0) for $one, $two, $other;

    is($client->answer($asked{'/second'}), '200 two', 'of another upstream');
    is($client->answer($asked{$_}), '200 other', 'of a static one')
        for qw(/static /static/more);

    is($client->answer($client->ask('/second')), '200 two',
       'another request on the connection');
}

leads('db', $two);

is($client->answer($client->ask('/')), '200 two', 'and one to a new leader');
ok($client->is_open, 'the connection was good all the time');
ok($nginx->quit(), 'nothing is left open');

finish();
