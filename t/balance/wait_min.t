#!/usr/bin/perl

# "min=" of etcd_wait, for http and stream: requests are held until so many
# members are usable.  All times to wait are longer than any test may take,
# unless the end of the time is what is tested.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Line;
use Nginx;
use Port;
use Wait;

plan(skip_all => 'this nginx has no stream') if !Nginx::has('stream');

my $etcd = Etcd->new()->start();
my @at = map { $_->address } Backend->start(qw(one two three));
my @lines = map { $_->address } Line->start(qw(one two three));
my $dead = '127.0.0.1:' . free_port();

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    log_format reason "$uri $status $etcd_reason";

    upstream three {
        etcd_members /three/;
    }

    upstream checked {
        etcd_members /checked/;
        etcd_check http interval=100ms timeout=100ms mandatory;
    }

    upstream few {
        etcd_members /few/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        access_log %%DIR%%/access.log reason;

        location = /status {
            etcd_status;
        }

        location /three {
            etcd_wait three 600s min=3;
            proxy_pass http://three;
        }

        location /one {
            etcd_wait three 600s;
            proxy_pass http://three;
        }

        location /limited {
            etcd_wait few 600s min=2 queue=1;
            proxy_pass http://few;
        }

        location /soon {
            etcd_wait few 200ms min=2;
            proxy_pass http://few;
        }

        location /checked {
            etcd_wait checked 600s min=2;
            proxy_pass http://checked;
        }
    }
}

stream {
    upstream three {
        etcd_members /lines/;
    }

    server {
        listen 127.0.0.1:%%PORT_THREE%%;
        etcd_wait three 600s min=3;
        proxy_pass three;
    }

    server {
        listen 127.0.0.1:%%PORT_SOON%%;
        etcd_wait three 200ms min=3;
        proxy_pass three;
    }
}

EOF

my $three = $nginx->upstream('three');
my $few = $nginx->upstream('few');
my $checked = $nginx->upstream('checked');
my $stream = $nginx->stream('three');


# Members come one after another; requests come before the first and after it.

my @early = map { $nginx->begin('/three') } 1 .. 4;
my $one = $nginx->begin('/one');

$three->holds(5, 'no member: all are held');
$etcd->put('/three/1', $at[0]);
is($one->receive->{status}, 200, 'the first member is enough for one');
$three->holds(4, 'and for no other');
is($nginx->get('/one')->{status}, 200, 'another one is not held');
push @early, map { $nginx->begin('/three') } 1, 2;
$three->holds(6, 'others are');
$three->sees($etcd->put('/three/2', $at[1]));
$three->holds(6, 'two members are too few');
$etcd->put('/three/3', $at[2]);
is(Http::statuses(@early), join(' ', (200) x @early), 'the third is enough');
$three->holds(0, 'nobody is held');
is($nginx->get('/three')->{status}, 200, 'now none has to wait');

# Members go.

$three->sees($etcd->del('/three/3'));

my $late = $nginx->begin('/three');

$three->holds(1, 'one is gone: requests are held again');
$etcd->put('/three/drained', $at[2]);
is($late->receive->{status}, 200, 'until another one comes');


# The queue is full, and the time is over.

$few->sees($etcd->put('/few/1', $at[0]));

my @limited = map { $nginx->begin('/limited') } 1 .. 3;

$nginx->expect(qr/no further usable member in upstream "few", and 1 requests /);
wait_for { $nginx->count_log(qr/no further usable member/) } 10, 'the refusal';
is($nginx->get('/soon')->{status}, 200,
   'the time is over: the request goes to the member that there is');
is($nginx->count_log(qr/timed out waiting for a member of upstream "few"/), 1,
   'as the log says');
ok(wait_for(sub {
    grep { $_ eq "/soon 200 -\n" } $nginx->lines_of('access.log')
}, 10), 'which is no refusal');
$etcd->put('/few/2', $at[1]);

my %statuses;

$statuses{$_->receive->{status}}++ for @limited;
is($statuses{200} + $statuses{503}, 3, 'those in the queue go on');
cmp_ok($statuses{503}, '>=', 1, 'others were refused');


# A member that was never found to work does not count.

$checked->sees($etcd->put('/checked/1', $at[0]));
$checked->sees($etcd->put('/checked/2', $dead));

my $proven = $nginx->begin('/checked');

$checked->holds(1, 'one of two is proven at most: the request is held');
$etcd->put('/checked/3', $at[1]);
is($proven->receive->{status}, 200, 'until two are');


# Connections.

my @clients = map { Line::Client->new($nginx->port('PORT_THREE')) } 1 .. 3;

$_->tell('hello') for @clients;
$stream->holds(3, 'stream: connections are held');
$stream->sees($etcd->put('/lines/1', $lines[0]));
$stream->sees($etcd->put('/lines/2', $lines[1]));
$stream->holds(3, 'stream: two members are too few');
like(Line::Client->new($nginx->port('PORT_SOON'))->ask('hello'),
     qr/^(?:one|two): hello/, 'stream: the time is over');
$etcd->put('/lines/3', $lines[2]);
like($_->hear(10), qr/: hello/, 'stream: the third is enough') for @clients;

finish();
