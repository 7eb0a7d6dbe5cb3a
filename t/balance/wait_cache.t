#!/usr/bin/perl

# etcd_wait beside proxy_cache: a request that waits for a connection or for a
# member has asked the cache before, may have locked it, and asks again.  All
# times are longer than the test may take, unless their end is what is tested.
# finish() finds nginx's alert of a lock that is left in the cache.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Lock;
use Nginx;
use Wait;

use constant BODY => 300000;

my $etcd = Etcd->new()->start();
my ($one) = Backend->start('one');
my $at = $one->address;
my $nginx = Nginx->new(etcd => $etcd);

$nginx->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    upstream full {
        etcd_members /full/;
    }

    upstream late {
        etcd_members /late/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        proxy_cache_key $arg_key;
        proxy_cache_valid 200 1h;
        proxy_cache_bypass $arg_bypass;
        proxy_cache_lock_timeout 600s;
        proxy_cache_lock_age 600s;
        add_header X-Cache $upstream_cache_status always;

        location = /status {
            etcd_status;
        }

        location = /occupy {
            proxy_pass http://full;
        }

        location = /full {
            etcd_wait full 600s full;
            proxy_cache cache;
            proxy_cache_lock on;
            proxy_pass http://full;
        }

        location = /stale {
            etcd_wait full 600s full;
            proxy_cache cache;
            proxy_cache_use_stale updating;
            proxy_pass http://full;
        }

        location = /twice {
            etcd_wait full 600s full;
            proxy_cache cache;
            proxy_cache_min_uses 2;
            proxy_pass http://full;
        }

        location = /vain {
            etcd_wait full 300ms full;
            proxy_cache cache;
            proxy_cache_lock on;
            proxy_pass http://full;
        }

        location = /locked {
            etcd_lock /locks/wait wait=600s;
            etcd_wait full 600s full;
            proxy_cache cache;
            proxy_cache_lock on;
            proxy_pass http://full;
        }

        location = /late {
            etcd_wait late 600s;
            proxy_cache cache;
            proxy_cache_methods POST;
            proxy_cache_lock on;
            proxy_pass http://late;
        }

        location = /page.html {
            root %%DIR%%;
            ssi on;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd);


sub ask {
    my ($path) = @_;

    my $client = $nginx->http;

    $client->{timeout} = 60;
    $client->send('GET', $path);

    return $client;
}


# A request has the only connection, and the answer to it does not come.

sub occupy {
    my $n = $one->requests;

    $one->set(hang => 1);

    my $client = ask('/occupy');

    wait_for { $one->requests > $n } 10, 'a request with the connection';

    return $client;
}


sub answer {
    my ($body, %headers) = @_;

    $one->set(hang => 0, body => $body, headers => \%headers);
}


sub upstream { $nginx->upstream($_[0] // 'full') }


sub shown {
    my ($client) = @_;

    my $answer = $client->receive;

    return join(' ', $answer->{status}, $answer->{body},
                $answer->{headers}{'x-cache'} // '-');
}


# a request of which nginx has the header, and asks for the body

sub late {
    my ($path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port);

    syswrite($socket, "POST $path HTTP/1.1\r\nHost: a\r\n"
             . "Connection: close\r\nExpect: 100-continue\r\n"
             . 'Content-Length: ' . BODY . "\r\n\r\n");

    like(scalar(<$socket>), qr{^HTTP/1.1 100 }, "$path: asked for the body");
    <$socket>;

    return $socket;
}


# The only member comes, or goes.

sub member {
    my ($address) = @_;

    $address ? $etcd->put('/late/1', $address) : $etcd->del('/late/1');

    upstream('late')->shows($address ? { '/late/1' => "$address 1 up" } : {},
                            $address ? 'a member' : 'no member');
}


$nginx->write_file('page.html', '[<!--# include virtual="/full?key=ssi" -->]');
$etcd->put('/full/1', "{\"address\":\"$at\",\"max_conns\":1}");
upstream()->shows({ '/full/1' => "$at 1 up" }, 'a member');

# a response that is in the cache

answer('old');
is(shown(ask('/full?key=a')), '200 old MISS', 'a response');

my $first = occupy();

is(shown(ask('/full?key=a')), '200 old HIT', 'from the cache: no wait');

my $client = ask('/full?key=a&bypass=1');

upstream()->holds(1, 'proxy_cache_bypass: held');
answer('new');
$first->receive;
is(shown($client), '200 new BYPASS', 'and answered by the backend');
is(shown(ask('/full?key=a')), '200 new HIT', 'whose response is kept');

# the same if the wait is for a member, after the body

answer('old');
member($at);
$client = late('/late?key=b');
print $client 'x' x BODY;
like(Http::read_all($client), qr{old$}, 'a response to POST');

$client = late('/late?key=b&bypass=1');
member(undef);
print $client 'x' x BODY;
upstream('late')->holds(1, 'proxy_cache_bypass, no member: held');
answer('new');
member($at);
like(Http::read_all($client), qr{^X-Cache: BYPASS\r\n.*new$}ms,
     'and answered by the backend');

# A client that leaves has locked the cache.

$first = occupy();
$client = ask('/full?key=c');
upstream()->holds(1, 'proxy_cache_lock: held');

my @others = map { ask('/full?key=c') } 1 .. 3;

$client->close;
ok((wait_for { $nginx->count_log(qr/prematurely closed connection/) } 10,
   'the client to leave'), 'the client leaves');
upstream()->holds(1, 'one of the others takes its place');
$one->reset;
answer('new');
$first->receive;
is(join(', ', sort map { shown($_) } @others),
   '200 new HIT, 200 new HIT, 200 new MISS', 'all others are answered');
is($one->requests, 1, 'and the backend was asked once');

# A subrequest of a client that leaves has locked the cache.

$first = occupy();
$client = ask('/page.html');
upstream()->holds(1, 'a subrequest: held');
$client->close;
upstream()->holds(0, 'and gone');
$client = ask('/full?key=ssi');
upstream()->holds(1, 'another request is held');
answer('new');
$first->receive;
is(shown($client), '200 new MISS', 'and answered');

# a wait in vain

$first = occupy();
$client = ask('/vain?key=d');

my $other = ask('/full?key=d');

like(shown($client), qr/^502 .* MISS$/s, 'a wait in vain');
upstream()->holds(1, 'another request takes the place of the first one');
answer('new');
$first->receive;
is(shown($other), '200 new MISS', 'and is answered');

# the loss of another lock

$first = occupy();
$client = ask('/locked?key=e');
upstream()->holds(1, 'a request with a lock in etcd: held');
$other = ask('/full?key=e');
$etcd->del(($lock->keys('/locks/wait'))[0]);
like(shown($client), qr/^503 /, 'the lock is lost');
upstream()->holds(1, 'another request takes the place of the first one');
answer('new');
$first->receive;
is(shown($other), '200 new MISS', 'and is answered');

# The request that waits is the one that updates an expired response.

answer('old', 'X-Accel-Expires' => '@1');
is(shown(ask('/stale?key=f')), '200 old MISS', 'a response that expires');
$first = occupy();
$client = ask('/stale?key=f');
upstream()->holds(1, 'a request that updates: held');
is(shown(ask('/stale?key=f')), '200 old UPDATING', 'others get the old one');
answer('new', 'X-Accel-Expires' => '1000');
$first->receive;
is(shown($client), '200 new EXPIRED', 'the one that waited the new one');
is(shown(ask('/stale?key=f')), '200 new HIT', 'as all that come later');

# A request that waits is one use.

$first = occupy();
$client = ask('/twice?key=g');
upstream()->holds(1, 'proxy_cache_min_uses: held');
answer('new');
$first->receive;
is(shown($client), '200 new MISS', 'and answered');
is(shown(ask('/twice?key=g')), '200 new MISS', 'which is not kept');
is(shown(ask('/twice?key=g')), '200 new HIT', 'the next response is');

# a reload

$first = occupy();
$client = ask('/full?key=h');
upstream()->holds(1, 'a reload: held by the old worker');
ok($nginx->reload(), 'a reload');
$other = ask('/full?key=h');
$one->reset;
answer('new');
$first->receive;
is(shown($client), '200 new MISS', 'answered');
is(shown($other), '200 new HIT', 'in the new worker from the cache');
is($one->requests, 1, 'and the backend was asked once');

finish();
