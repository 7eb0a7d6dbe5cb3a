#!/usr/bin/perl

# etcd_wait for http if there was a member when the request came, and is none
# any more when nginx picks one: a body was read meanwhile.  Waiting times are
# longer than the test may take, unless their end is what is tested.

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
use Upstream;
use Wait;

use constant BODY => 300000;

my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start('one', 'two');
my ($at1, $at2) = map { $_->address } $one, $two;
my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(ONE => $at1)->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    log_format late "$uri $status";
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    upstream late {
        etcd_members /late/;
    }

    upstream kept {
        etcd_members /late/;
        keepalive 4;
    }

    upstream hashed {
        etcd_members /late/;
        etcd_balance hash $uri;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        access_log %%DIR%%/access.log late;
        add_header X-Addr "<$upstream_addr>" always;

        location = /status {
            etcd_status;
        }

        location /late {
            etcd_wait late 600s;
            proxy_pass http://late;
        }

        location /variable {
            set $name late;
            etcd_wait late 600s;
            proxy_pass http://$name;
        }

        location /kept {
            etcd_wait kept 600s;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://kept;
        }

        location /hashed {
            etcd_wait hashed 600s;
            proxy_pass http://hashed;
        }

        location /cached {
            etcd_wait late 600s;
            proxy_cache cache;
            proxy_cache_methods POST;
            proxy_cache_valid 200 1h;
            proxy_cache_lock on;
            proxy_pass http://late;
        }

        location /gone {
            etcd_wait late 600s;
            proxy_pass http://late;
        }

        location /vain {
            etcd_wait late 300ms;
            proxy_pass http://late;
        }

        location /instead {
            etcd_wait late 300ms;
            error_page 502 = @instead;
            proxy_pass http://late;
        }

        location @instead {
            return 200 instead;
        }

        location /full {
            etcd_wait late 600s queue=1;
            proxy_pass http://late;
        }

        location /page {
            root %%DIR%%;
            ssi on;
        }

        location = /part {
            etcd_wait late 600s;
            proxy_cache cache;
            proxy_cache_lock on;
            proxy_cache_lock_timeout 600s;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://late;
        }

        location /locked {
            etcd_lock /locks/late wait=600s;
            etcd_wait late 600s;
            proxy_pass http://late;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd);


sub upstream { return Upstream->new($nginx, $_[0] // 'late') }


# The member is the only one, or there is none, and nginx knows.

sub member {
    my ($address, @names) = @_;

    $etcd->del_prefix('/late/');
    $etcd->put('/late/1', $address) if $address;

    my $members = $address ? { '/late/1' => "$address 1 up" } : {};
    my $what = $address ? "a member $address" : 'no member';

    upstream($_)->shows($members, "$what of $_")
        for @names ? @names : 'late';
}


# a request of which nginx has the header, and asks for the body

sub late {
    my ($path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port);

    syswrite($socket, "POST /$path HTTP/1.1\r\nHost: a\r\n"
             . "Connection: close\r\nExpect: 100-continue\r\n"
             . 'Content-Length: ' . BODY . "\r\n\r\n");

    like(scalar(<$socket>), qr{^HTTP/1.1 100 }, "/$path: asked for the body");
    <$socket>;

    return $socket;
}


# held requests by everything that may be between a request and its upstream

my %upstream = (kept => 'kept', hashed => 'hashed');

for my $path (qw(late variable kept hashed cached)) {
    my $name = $upstream{$path} // 'late';

    member($at1, $name);
    $one->reset;

    my $client = late($path);

    member(undef, $name);
    print $client 'x' x BODY;
    upstream($name)->holds(1, "/$path: held, with its body");
    member($at2, $name);

    my $answer = Http::read_all($client);

    like($answer, qr{^HTTP/1.1 200 .*\r\n\r\ntwo$}s, "/$path: answered");
    like($answer, qr{^X-Addr: <\Q$at2\E>\r$}m, "/$path: as by one try");
    is($one->requests, 0, "/$path: who is gone is not asked");
}

# The answer to a held request is in the cache.

member($at1);

my $again = late('cached');

print $again 'x' x BODY;
like(Http::read_all($again), qr{^X-Addr: <>\r\n.*two$}ms, 'it is in the cache');

# A subrequest, which has no body, is held after it has waited for another one.

{
    $nginx->write_file('page.html', '[<!--# include virtual="/part" -->]');
    member($at1);
    $one->set(hang => 1);
    $two->reset;

    my @pages = map { Http->new($nginx->port) } 1, 2;

    $_->send('GET', '/page.html') for @pages;
    wait_for { $one->requests == 1 } 10, 'the first subrequest';
    member(undef);
    $one->set(hang => 0);
    upstream()->holds(1, '/part: the second one is held');
    member($at2);

    is(join(' ', sort map { $_->receive->{body} } @pages), '[one] [two]',
       '/part: both are answered');
    is($two->requests, 1, '/part: it was sent once');
}

# requests that wait in vain

for my $path ('vain', 'instead') {
    member($at1);

    my $client = late($path);

    member(undef);
    print $client 'x' x BODY;
    like(Http::read_all($client),
         $path eq 'vain' ? qr{^HTTP/1.1 502 }
                         : qr{^HTTP/1.1 200 .*\r\n\r\ninstead$}s,
         "/$path: until the time is over");
}

$nginx->logs(qr/timed out waiting for a member of upstream "late"/, 2,
             'and the log says so');

# more requests than may be held

member($at1);

my @clients = map { late('full') } 1, 2;

member(undef);
print { $clients[0] } 'x' x BODY;
upstream()->holds(1, '/full: one is held');
print { $clients[1] } 'x' x BODY;
like(Http::read_all($clients[1]), qr{^HTTP/1.1 502 }, '/full: no other');
member($at2);
like(Http::read_all($clients[0]), qr{two$}, '/full: the one that is goes on');

# a client that goes away

member($at1);

my $client = late('gone');

member(undef);
print $client 'x' x BODY;
upstream()->holds(1, '/gone: held');
close($client);
upstream()->holds(0, '/gone: nothing is left of it');
is(scalar(grep { m{^/gone 499$} } $nginx->lines_of('access.log')), 1,
   '/gone: with status 499');

# a lock that is lost

member($at1);
$client = late('locked');
member(undef);
print $client 'x' x BODY;
upstream()->holds(1, '/locked: held');
$etcd->del(($lock->keys('/locks/late'))[0]);
like(Http::read_all($client), qr{^HTTP/1.1 503 }, '/locked: the lock is lost');
upstream()->holds(0, '/locked: nothing is left of it');

finish();
