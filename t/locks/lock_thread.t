#!/usr/bin/perl

# Background subrequests whose answers are written to files by threads: if a
# lock or a member is lost meanwhile, they end when the thread has written.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Unit;
use Wait;

plan(skip_all => 'this nginx has no threads') if !Nginx::has('threads');

my $etcd = Etcd->new()->start();
my ($one, $two) = Much->start('one', 'two');
my $busy = build_unit('ngx_etcd_unit_busy_module');

my $nginx = Nginx->new(etcd => $etcd, first => $busy)->set(
    ONE => $one->address, TWO => $two->address);

$nginx->start(<<'EOF_CONFIG');

worker_processes 1;
thread_pool default threads=1;
thread_pool other threads=1;
etcd_busy %%DIR%%/hold;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    aio threads;
    aio_write on;
    proxy_buffer_size 4k;
    proxy_buffers 2 4k;
    proxy_busy_buffers_size 4k;
    proxy_read_timeout 600s;
    add_header X-Client $connection always;
    add_header X-Cache $upstream_cache_status always;

    map $upstream_status $pool {
        volatile;
        ""       other;
        default  default;
    }

    upstream mirrored {
        etcd_members /services/mirrored/ close_after=1s;
    }

    upstream absent {
        etcd_members /services/absent/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /two {
            proxy_pass http://%%TWO%%;
        }

        location = /member {
            mirror /left;
            proxy_pass http://%%TWO%%;
        }

        location = /left {
            proxy_cache cache;
            proxy_cache_key $request_id;
            proxy_cache_valid 200 600s;
            proxy_pass http://mirrored/much;
        }

        location = /locked {
            etcd_lock /locks/main wait=60s;
            mirror /part;
            proxy_pass http://%%TWO%%;
        }

        location = /part {
            proxy_cache cache;
            proxy_cache_key $request_id;
            proxy_cache_valid 200 600s;
            proxy_pass http://%%ONE%%/much;
        }

        location = /waiting {
            etcd_lock /locks/main wait=60s;
            mirror /part;
            mirror /awaited;
            proxy_pass http://%%TWO%%;
        }

        location = /awaited {
            etcd_wait absent 600s;
            proxy_pass http://absent;
        }

        # the thread that reads the old response is not busy

        location = /updated {
            aio threads=$pool;
            etcd_lock /locks/main wait=60s;
            proxy_cache cache;
            proxy_cache_key updated;
            proxy_cache_valid 200 1s;
            proxy_cache_use_stale updating;
            proxy_cache_background_update on;
            proxy_pass http://%%ONE%%/$arg_part;
        }
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);
my ($worker) = $nginx->workers;
my $hold = $nginx->dir . '/hold';


# From now on, threads do nothing, or what they have to do.

sub hold {
    $nginx->write_file('hold', '');
    wait_for { -e "$hold.busy" } 20, 'a busy thread';
}


sub go_on { unlink($hold) }


sub lose { $etcd->del($lock->keys('/locks/main')) }


# A test: so many connections of each backend.

sub become_open {
    my ($wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        join(' ', map { $_->counts->{open} } $one, $two)
    } $wanted, $name;
}


# Tests: the client asks again, by the connection of its answer if it is kept.

sub goes_on {
    my ($client, $answer, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $next = $client->get('/two');

    is($next->{body}, 'two', "$name: the client is answered again");
    is($next->{headers}{'x-client'}, $answer->{headers}{'x-client'},
       "$name: by the same connection") if $answer;
}


# The member of a mirror leaves.

for my $answered (1, 0) {
    my $name = $answered ? 'a member, answered' : 'a member';
    my $revision = $etcd->put('/services/mirrored/1', $one->address);

    $nginx->upstream('mirrored')->sees($revision);
    hold();
    $two->set(hang => !$answered);

    my $client = $nginx->begin('/member');
    my $answer = $answered && $client->receive;

    become_open("1 @{[1 - $answered]}", "$name: the mirror is not written");
    $etcd->del('/services/mirrored/1');
    become_open("0 @{[1 - $answered]}", "$name: it leaves, the mirror ends");
    go_on();
    $two->set(hang => 0);
    $answer ||= $client->receive;
    is($answer->{body}, 'two', "$name: the client has its answer");
    goes_on($client, $answer, $name);
}


# The lock of the request is lost.

for my $path ('/locked', '/waiting') {
    for my $answered (1, 0) {
        my $name = $path . ($answered ? ', answered' : '');

        hold();
        $two->set(hang => !$answered);

        my $client = $nginx->begin($path);
        my $answer = $answered && $client->receive;

        become_open("1 @{[1 - $answered]}", "$name: the mirror is not written");
        $nginx->upstream('absent')->holds(1, "$name: another one waits")
            if $path eq '/waiting';
        lose();
        become_open('0 0', "$name: the lock is lost, it ends");
        go_on();
        $two->set(hang => 0);

        if (!$answered) {
            is($client->receive->{status}, 503, "$name: the client has 503");
        }

        # nginx must terminate the request whose other mirror waits.

        goes_on($client, $path eq '/locked' && $answer, $name);
        $lock->gone('/locks/main', "$name: no lock is left");
    }
}


# A cached response is updated in the background.

my $client = $nginx->http;
my $answer;

is($client->get('/updated')->{body}, 'one', 'a response for the cache');
$lock->gone('/locks/main', 'the lock is given up');
sleep(2);
hold();
$answer = $client->get('/updated?part=much');
is($answer->{body}, 'one', 'the client has the old one');
become_open('1 0', 'it is old, and not written');
lose();
become_open('0 0', 'the lock is lost: the update ends');
go_on();
goes_on($client, $answer, 'updated');
$lock->gone('/locks/main', 'nothing is left');

is_deeply([$nginx->workers], [$worker], 'the worker is still the same');
ok($nginx->quit, 'and ends, as no request is left');

finish();


package Much;

# A backend whose answers to /much have begun with more than nginx's buffers
# take.

use strict;
use warnings;

use parent 'Backend';

use constant PART => 100_000;


sub take_request {
    my ($self, $client) = @_;

    my ($path) = $client->{input} =~ /^\S+ (\S+)/;

    $self->SUPER::take_request($client) or return;
    $client->{path} = $path;

    return 1;
}


sub format_answer {
    my ($self, $client) = @_;

    if ($client->{path} =~ m{^/much}) {
        delete $client->{close};
        return "HTTP/1.1 200 OK\r\nContent-Length: " . 2 * PART . "\r\n\r\n"
            . 'x' x PART;
    }

    return $self->SUPER::format_answer($client);
}
