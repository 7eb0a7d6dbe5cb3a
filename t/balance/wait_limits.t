#!/usr/bin/perl

# etcd_wait at its limits: the number of held requests, an etcd that comes late,
# the end of a worker with a time limit, and a lone process.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Upstream;
use Wait;

use constant {
    QUEUE => 5,
    MORE  => 100,    # more requests than one batch
};

my $late = Etcd->new();
my $etcd = Etcd->new()->start();
my ($one) = Backend->start('one');
my $at = $one->address;

my $config = <<'EOF';

worker_processes 1;
MAIN

events {
    worker_connections 2048;
}

etcd {
    endpoints %%ETCD%%;
}

etcd late {
    endpoints %%LATE%%;
}

http {
    upstream api {
        etcd_members /api/;
    }

    upstream late {
        etcd_members /late/ cluster=late;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /few {
            etcd_wait api 600s queue=5;
            proxy_pass http://api;
        }

        location /many {
            etcd_wait api 600s;
            proxy_pass http://api;
        }

        location /short {
            etcd_wait api 6s;
            proxy_pass http://api;
        }

        location /late {
            etcd_wait late 600s;
            proxy_pass http://late;
        }
    }
}

EOF

my $nginx;


sub start {
    my ($main) = @_;

    $nginx = Nginx->new(etcd => $etcd)->set(LATE => $late->endpoints);
    $nginx->start($config =~ s/^MAIN$/$main/mr);
}


sub api { return Upstream->new($nginx, 'api') }


sub hold {
    my ($path, $n) = @_;

    return map {
        my $client = $nginx->http;

        # The answer comes after much else.

        $client->{timeout} = 60;
        $client->send('GET', "/$path");
        $client;
    } 1 .. $n;
}


start('');

# the limit of held requests

my @few = hold('few', QUEUE);

api()->holds(QUEUE, 'as many as may are held');
is(Http::statuses(hold('few', 3)), '503 503 503', 'others are refused');
api()->holds(QUEUE, 'and leave nothing');

my $many = qr/\[error\].*no usable member in upstream "api", and 5/;

ok(wait_for(sub { $nginx->count_log($many) }, 10), 'the log says why');
cmp_ok($nginx->count_log($many), '<=', 3, 'at most once for each');

my @many = hold('many', MORE);

api()->holds(QUEUE + MORE, 'another location allows more');
is(Http::statuses(hold('few', 1)), '503', 'but not for the first');

(shift @few)->close;
(shift @many)->close for 1 .. MORE - 1;
api()->holds(QUEUE, 'most of them go away');
(shift @few)->close;
api()->holds(QUEUE - 1, 'one more');
push @few, hold('few', 1);
api()->holds(QUEUE, 'there is room again');

$etcd->put('/api/1', $at);
is(Http::statuses(@few, @many), join(' ', (200) x QUEUE), 'all are answered');
api()->holds(0, 'none waits any more');

# One change wakes more requests than one batch.

$etcd->del('/api/1');
api()->shows({}, 'no member');
@many = hold('many', MORE);
api()->holds(MORE, 'many are held');
$etcd->put('/api/1', $at);
is(Http::statuses(@many), join(' ', (200) x MORE),
   'one change: all are answered');

# The members go while some requests are still held.

$etcd->del('/api/1');
api()->shows({}, 'no member');
@many = hold('many', MORE);
api()->holds(MORE, 'many are held');
$etcd->put('/api/1', $at);
$etcd->del('/api/1');
$etcd->put('/api/1', $at);
is(Http::statuses(@many), join(' ', (200) x MORE),
   'members come, go and come: all are answered');

# etcd is not there when nginx starts.

my @late = hold('late', 3);

Upstream->new($nginx, 'late')->holds(3,
                                     'without any contact with etcd: held');
$late->start();
$late->put('/late/1', $at);
is(Http::statuses(@late), '200 200 200', 'it comes, with a member: answered');

# the end of a worker

$etcd->del('/api/1');
api()->shows({}, 'no member');
$_->close for @few, @many, @late;
@many = hold('many', 3);
api()->holds(3, 'three are held');
$etcd->put('/api/1', $at);
is(Http::statuses(@many), '200 200 200', 'and answered');

$etcd->del('/api/1');
api()->shows({}, 'no member');

my ($short) = hold('short', 1);

api()->holds(1, 'one is held');
kill('QUIT', $nginx->pid);
wait_for { $nginx->leaving == 1 } 10, 'the worker to leave';
is(Http::statuses($short), '502', 'a worker that ends serves it before');
$_->close for @many;
ok($nginx->quit(), 'and then it ends');

start('worker_shutdown_timeout 200ms;');
@many = hold('many', 3);
api()->holds(3, 'three are held');
ok($nginx->reload(undef, gone => 1), 'worker_shutdown_timeout: it ends');
is(Http::statuses(@many), '0 0 0', 'what it held is closed');
api()->holds(0, 'and waits no more');
ok($nginx->quit(), 'nginx ends');

# A reload brings the directive.

my $without = $config =~ s/^MAIN$//mr =~ s/etcd_wait .*;//gr;

start('');
$nginx->reload($without, gone => 1);
is($nginx->get('/many')->{status}, 502, 'without etcd_wait nothing is held');
ok($nginx->reload($config =~ s/^MAIN$//mr, gone => 1), 'it comes by a reload');
@many = hold('many', 3);
api()->holds(3, 'three are held');
$etcd->put('/api/1', $at);
is(Http::statuses(@many), '200 200 200', 'and answered');
$etcd->del('/api/1');
api()->shows({}, 'no member');
@many = hold('many', 3);
api()->holds(3, 'three are held again');
ok($nginx->reload($without), 'it goes by a reload');
api()->holds(3, 'which keeps them');
$etcd->put('/api/1', $at);
is(Http::statuses(@many), '200 200 200', 'until there is a member');
$etcd->del('/api/1');
ok($nginx->quit(), 'nginx ends');

# all in one process

start('master_process off;');
@many = hold('many', 3);
api()->holds(3, 'a lone process: three are held');
$etcd->put('/api/1', $at);
is(Http::statuses(@many), '200 200 200', 'and answered');
$nginx->stop();

finish();
