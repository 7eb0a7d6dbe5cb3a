#!/usr/bin/perl

# The fencing token of a leader, at the leader: a request that is built with
# $etcd_member_revision goes to that leader in that term, or to nobody.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Etcd;
use Finish;
use Http;
use Http2;
use Nginx;
use Told;
use Upstream;
use Wait;

use constant BODY => 300000;

my $etcd = Etcd->new()->start();
my ($one, $two, $other) = Told->start(qw(one two other));
my ($fast) = Told::FastCgi->start('fast');
my ($uwsgi) = Told::Uwsgi->start('uwsgi');

# Another nginx is the upstream that speaks HTTP/2.

my $grpc = Nginx->new();

if (Nginx::has('http_v2_module')) {
    my $listen = Http2::listens('PORT');

    $grpc->{modules} = [];
    $grpc->start(<<"END");

http {
    server {
        $listen

        location / {
            return 200 "grpc \$http_x_token";
        }
    }
}

END
}

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    log_format token "$uri $status <$etcd_member_revision>";
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    map $etcd_member_revision $cached {
        default "t$etcd_member_revision";
    }

    map $etcd_member_revision $mapped {
        volatile;
        default "t$etcd_member_revision";
    }

    upstream db {
        etcd_leader /election/db;
    }

    upstream kept {
        etcd_leader /election/db;
        keepalive 4;
    }

    upstream other {
        etcd_leader /election/other;
    }

    upstream members {
        etcd_members /election/db/;
    }

    upstream fast {
        etcd_leader /election/fast;
    }

    upstream uwsgi {
        etcd_leader /election/uwsgi;
    }

    upstream grpc {
        etcd_leader /election/grpc;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        access_log %%DIR%%/access.log token;
        add_header X-Used "<$etcd_member_revision>" always;

        proxy_set_header X-Token $etcd_member_revision;

        location = /status {
            etcd_status;
        }

        location /db {
            proxy_pass http://db;
        }

        location /kept {
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Token $etcd_member_revision;
            proxy_pass http://kept;
        }

        location /key {
            proxy_set_header X-Token $etcd_member_key;
            proxy_pass http://db;
        }

        location /named {
            set $name db;
            proxy_pass http://$name;
        }

        location /members {
            proxy_pass http://members;
        }

        location /mapped {
            proxy_set_header X-Token $mapped;
            etcd_wait db 600s;
            proxy_pass http://db;
        }

        location /cached {
            proxy_set_header X-Token $cached;
            etcd_wait db 600s;
            proxy_pass http://db;
        }

        location /set {
            set $early $etcd_member_revision;
            proxy_set_header X-Token "<$early>";
            proxy_pass http://db;
        }

        location /held {
            etcd_wait db 600s;
            proxy_pass http://db;
        }

        location /store {
            etcd_wait db 600s;
            proxy_cache cache;
            proxy_cache_valid 200 1h;
            proxy_cache_lock on;
            proxy_pass http://db;
        }

        location /unbuffered {
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_pass http://db;
        }

        location /upgrade {
            proxy_http_version 1.1;
            proxy_set_header Connection upgrade;
            proxy_set_header Upgrade lines;
            proxy_set_header X-Token $etcd_member_revision;
            proxy_pass http://db;
        }

        location /failed {
            error_page 502 = @failed;
            proxy_connect_timeout 10s;
            proxy_pass http://db;
        }

        location @failed {
            proxy_pass http://other;
        }

        location /mirrored {
            mirror /copy;
            proxy_pass http://db;
        }

        location /copy {
            internal;
            proxy_pass http://other;
        }

        location /asked {
            auth_request /copy;
            proxy_pass http://db;
        }

        location /page {
            root %%DIR%%;
            ssi on;
        }

        location /fast {
            fastcgi_param TOKEN $etcd_member_revision;
            fastcgi_pass fast;
        }

        location /uwsgi {
            uwsgi_param TOKEN $etcd_member_revision;
            uwsgi_pass uwsgi;
        }

        %%GRPC%%
    }
}

END

my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(GRPC => Nginx::has('http_v2_module') ? <<'END' : '');
        location /grpc {
            grpc_set_header X-Token $etcd_member_revision;
            grpc_pass grpc://grpc;
        }
END

$nginx->start($config);
$nginx->write_file('page.html', '[<!--# include virtual="/db" -->]'
                   . '[<!--# include virtual="/copy" -->]');

my $db = Upstream->new($nginx, 'db');
my $terms = 0;


# Makes an address lead /election/NAME, in another term, waits until nginx
# knows, and returns the token.

sub leads {
    my ($address, $name) = @_;

    $name //= 'db';
    $etcd->del_prefix("/election/$name/");

    my $key = "/election/$name/" . ++$terms;
    my $token = $address ? $etcd->put($key, $address) : undef;
    my @names = $name eq 'db' ? qw(db kept) : $name;

    Upstream->new($nginx, $_)->shows($address ? { $key => "$address 1 up" }
                                              : {},
                                     "term $terms of $_") for @names;

    return $token;
}


sub body { $nginx->get($_[0])->{body} }


# After a start, a leader is used once it is proved to be one.

sub works {
    my ($path) = @_;

    return wait_for { $nginx->get($path)->{status} == 200 } 30, $path;
}


# a request of which nginx has the header and a part of the body

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


sub rest { my ($socket) = @_; print $socket 'x' x BODY; return $socket }
# tokens that a leader gets, by all directives that lead to it

my $token = leads($one->address);

works($_) for qw(/db /kept /members);

is(body('/db'), "one $token", 'HTTP/1.0');
is(body('/named'), "one $token", 'an upstream named by a variable');
is(body('/kept'), "one $token", 'HTTP/1.1');
is(body('/kept'), "one $token", 'and on a connection that was kept');
is(body('/mapped'), "one t$token", 'by a map');
is(body('/unbuffered'), "one $token", 'without buffering');
is(body('/key'), "one /election/db/$terms", 'the key, too');
is(body('/members'), 'one ', 'of members it is not known');
is(body('/set'), 'one <>', 'nor before the upstream is');
is($nginx->get('/db')->{headers}{'x-used'}, "<$token>",
   'the header of the answer has it as well');

my $second = leads($two->address, 'other');

works('/asked');
is(body('/mirrored'), "one $token", 'what is mirrored');
ok(wait_for(sub { ($two->seen)[-1] eq $second }, 10),
   'and the copy, which goes to another leader');
$two->reset;
is(body('/asked'), "one $token", 'what is asked for');
is(join(' ', $two->seen), $second, 'and the question');
is(body('/page.html'), "[one $token][two $second]", 'parts of a page');

{
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port);

    $one->reset;
    print $socket "GET /upgrade HTTP/1.1\r\nHost: a\r\n"
        . "Connection: upgrade\r\nUpgrade: lines\r\n\r\n";
    like(scalar(<$socket>), qr{^HTTP/1.1 101 }, 'another protocol');
    is(join(' ', $one->seen), $token, 'begins with it');
}


$token = leads($fast->address, 'fast');
works('/fast');
is(body('/fast'), "fast $token", 'FastCGI');
$token = leads($uwsgi->address, 'uwsgi');
works('/uwsgi');
is(body('/uwsgi'), "uwsgi $token", 'uwsgi');

SKIP: {
    Nginx::has('http_v2_module') or skip('no HTTP/2', 1);

    $token = leads('127.0.0.1:' . $grpc->port, 'grpc');
    works('/grpc');
    is(body('/grpc'), "grpc $token", 'gRPC');
}

# A body takes its time, while another leader begins to lead.

for my $path (qw(/db /named /kept /held /mapped)) {
    $token = leads($one->address);

    my $client = late($path);

    $one->reset;
    $token = leads($two->address);

    my $wanted = ($path eq '/mapped' ? 't' : '') . $token;

    like(Http::read_all(rest($client)), qr{two $wanted$},
         "$path: the one that leads");
    is($one->requests, 0, "$path: nobody else");
}

{
    $one->reset;
    $token = leads($one->address);

    my $client = late('/unbuffered');

    syswrite($client, 'x');
    leads($two->address);

    syswrite($client, 'x' x (BODY - 1));
    like(Http::read_all($client), qr{one $token$},
         '/unbuffered: it went to whoever led when it was sent');
}

# Nobody leads when the body is there.

{
    leads($one->address);

    my $client = late('/db');

    leads(undef);
    like(Http::read_all(rest($client)), qr{^HTTP/1.1 502 .*^X-Used: <>\r$}ms,
         'nobody leads any more');
}

for my $path (qw(/held /mapped /store)) {
    leads($one->address);

    my $client = late($path);

    leads(undef);
    $one->reset;
    $two->reset;
    rest($client);
    $db->holds(1, "$path: held");
    $token = leads($two->address);

    my $wanted = ($path eq '/mapped' ? 't' : '') . $token;

    like(Http::read_all($client), qr{two $wanted$},
         "$path: with the token of whoever leads then");
    is(join(' ', $two->seen), $wanted, "$path: it was sent once");
    is($one->requests, 0, "$path: and to nobody else");
}

# nginx is reloaded while the request is held.

{
    leads($one->address);

    my $client = late('/held');

    leads(undef);
    rest($client);
    $db->holds(1, '/held: held');
    ok($nginx->reload(), 'a reload');
    $token = leads($two->address);
    like(Http::read_all($client), qr{two $token$}, 'the old worker sends it');
}

# A variable was cached for a former leader: the request is not sent.

{
    leads($one->address);

    my $client = late('/cached');

    leads(undef);
    rest($client);
    $db->holds(1, '/cached: held');
    $two->reset;
    leads($two->address);
    like(Http::read_all($client), qr{^HTTP/1.1 502 },
         '/cached: it is not sent');
    is($two->requests, 0, '/cached: to nobody');
    $nginx->logs(qr/variable in it was cached for a former leader/, 1,
                 'and the log says why');
}

# A kept connection breaks: the request is tried again.

{
    $token = leads($one->address);
    $nginx->get('/kept');
    $one->reset;
    $one->set(hang => 1);
    $two->reset;

    my $http = $nginx->http;

    $http->send('GET', '/kept');
    wait_for { $one->requests == 1 } 10, 'a request that is not answered';
    leads($two->address);
    $one->down;

    is($http->receive->{status}, 502, 'a try after the term: 502');
    is(join(' ', $two->seen), '', 'the next leader is not asked');
    $nginx->logs(qr/it was built for the former leader \S+/, 1,
                 'and the log says why');

    $one->set(hang => 0);
    $one->up;
}

# A server that is asked in place of the leader gets its own token.

{
    leads($one->address);
    $second = leads($other->address, 'other');
    $one->down;
    is(body('/failed'), "other $second", 'an error page: the token is its own');
    $one->up;
}

# A request that was sent nowhere shows no token.

{
    leads($one->address);

    my $client = late('/db');

    close($client);
    ok(wait_for(sub { grep { m{^/db 400 <->$} } $nginx->lines_of('access.log')
                    }, 10), 'a client that leaves before it is sent');
}

finish();
