#!/usr/bin/perl

# With ewma the time of an answer is the time of its header, if nginx tells of
# headers (1.29.6 and later): a member with long answers is not slow.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Stall;
use Upstream;

use constant {
    LATE    => 0.15,                    # seconds until the late member answers
    STALLED => 0.03,
};

Nginx::has_sticky() || Nginx::is_angie()
    or plan(skip_all => 'this nginx does not tell of headers');

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my $late = Backend->start('late');

$late->set(delay => LATE);

my $nginx = Nginx->new(etcd => $etcd);

# Answers of "long" begin at once and take twice as long in all.

$nginx->write_file('long', 'x' x 2048);
$nginx->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /api/;
        etcd_balance ewma;
    }

    upstream bound {
        etcd_members /api/;
        etcd_balance ewma;
        keepalive 4;
        sticky cookie sid;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        add_header X-Upstream $upstream_addr;
        proxy_buffering off;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1/long;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_LONG%%;
        root %%DIR%%;
        sendfile off;
        output_buffers 1 1k;
        limit_rate 4k;
    }
}

END

$etcd->put('/api/late', $late->address);
$etcd->put('/api/long', '127.0.0.1:' . $nginx->port('PORT_LONG'));

for my $name (qw(api bound)) {
    $nginx->upstream($name)->shows({
        '/api/late' => $late->address . ' 1 up',
        '/api/long' => '127.0.0.1:' . $nginx->port('PORT_LONG') . ' 1 up',
    }, "$name: two members");
}


sub who {
    my ($name) = @_;

    my $answer = $nginx->get("/to/$name");

    return $answer->{headers}{'x-upstream'} eq $late->address ? 'late' : 'long';
}


sub prefers {
    my ($name) = @_;

    my %seen;

    for (1 .. 20) {
        $seen{who($name)} = 1;
        last if keys %seen == 2;
    }

    return !grep { who($name) ne 'long' } 1 .. 4;
}


for my $name (qw(api bound)) {
    ok($stall->again(STALLED, sub { prefers($name) }),
       "$name: the one whose header comes first is preferred");
}

finish();
