#!/usr/bin/perl

# etcd_wait for http: requests are held until there is a member.  All times to
# wait are longer than any test may take, unless the end of the time is what
# is tested: an answer in time was woken.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Select;
use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(time);

use Backend;
use Becomes;
use Etcd;
use Finish;
use Http;
use Nginx;
use Process;
use Wait;

use constant {
    CLIENTS => 400,
    WORKERS => 2,
    BODY    => 300000,
};

plan(skip_all => 'this nginx has no HTTP/2 or auth_request')
    if !Nginx::has(qw(http_v2_module http_auth_request_module));

my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start('one', 'two');
my ($at1, $at2) = map { $_->address } $one, $two;

# upstreams that a location of the same name waits for, each in a test of its
# own: all of them are empty at first

my @names = qw(many abort pipe post reload down failing killed redirect auth
               sub order quit h2);

my $upstreams = join('', map { <<"END" } @names);
    upstream $_ {
        etcd_members /$_/;
    }
END

my $locations = join('', map { <<"END" } @names);
        location /$_ {
            etcd_wait $_ 600s queue=1000;
            proxy_pass http://$_;
        }
END

my $config = <<'END';

worker_processes WORKERS;

events {
    worker_connections 4096;
}

etcd {
    endpoints %%ETCD%%;
}

http {
    keepalive_requests 100000;
    log_format wait "$status $uri";

    UPSTREAMS

    upstream none {
        etcd_members /none/;
    }

    upstream static {
        server %%ONE%%;
        etcd_members /static/;
    }

    upstream backup {
        server %%ONE%% backup;
        etcd_members /backup/;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        listen 127.0.0.1:%%PORT_h2%% http2 reuseport;

        root %%DIR%%;
        access_log %%DIR%%/access.log wait;
        add_header X-Worker $pid always;
        etcd_wait none 600s;

        location = /status {
            etcd_wait off;
            etcd_status;
        }

        LOCATIONS

        location /static {
            etcd_wait static 600s;
            proxy_pass http://static;
        }

        location /backup {
            etcd_wait backup 600s;
            proxy_pass http://backup;
        }

        location /vain {
            etcd_wait none 300ms;
            proxy_pass http://none;
        }

        location /instead {
            etcd_wait none 300ms;
            proxy_pass http://none;
            error_page 502 = @instead;
        }

        location @instead {
            return 200 instead;
        }

        location /again {
            etcd_wait none 300ms;
            proxy_pass http://none;
            error_page 502 = @again;
        }

        location @again {
            etcd_wait none 300ms;
            proxy_pass http://many;
        }

        location /other {
            etcd_wait none 300ms;
            proxy_pass http://none;
            error_page 502 = @other;
        }

        location @other {
            etcd_wait redirect 600s;
            proxy_pass http://redirect;
        }

        location /denied {
            deny all;
            proxy_pass http://none;
        }

        location /rewritten {
            return 204;
        }

        location /unbuffered {
            etcd_wait post 600s;
            proxy_request_buffering off;
            proxy_pass http://post;
        }

        location /guarded {
            etcd_wait off;
            auth_request /auth;
            proxy_pass http://many;
        }

        location /page {
            etcd_wait off;
            ssi on;
            ssi_types *;
        }
    }
}

END

$config =~ s/ *UPSTREAMS\n/$upstreams/;
$config =~ s/ *LOCATIONS\n/$locations/;
$config =~ s/WORKERS/WORKERS/ge;

my $nginx = Nginx->new(etcd => $etcd)->set(
    ONE => $at1,
    TWO => $at2,
);

$nginx->write_file('page', join(' ', map {
    "<!--# include virtual=\"/sub?$_\" -->"
} 1 .. 3));

$nginx->start($config);


# a request that is held

sub hold {
    my ($path, @headers) = @_;

    my $client = $nginx->http;

    $client->send('GET', "/$path", undef, @headers);

    return $client;
}


sub log_of {
    my ($path) = @_;

    return join(' ', map { m{^(\d+) /\Q$path\E$} }
                         $nginx->lines_of('access.log'));
}


# the status of all requests to that path; a request counts no more before it is
# logged



sub times_held {
    my ($name) = @_;

    return $nginx->count_log(
        qr/\*\d+ waiting for a member of upstream "$name"/);
}



# many requests in all workers

my @clients = map { hold('many') } 1 .. CLIENTS;

$nginx->upstream('many')->holds(CLIENTS, 'many requests are held');
$etcd->put('/many/1', $at1);

my (%answers, %workers);

for my $answer (map { $_->receive } @clients) {
    $answers{$answer->{body}}++;
    $workers{$answer->{headers}{'x-worker'} // ''}++;
}

is_deeply(\%answers, { one => CLIENTS }, 'a member: all are answered');
is(scalar(keys %workers), WORKERS, 'by all workers');
$nginx->upstream('many')->holds(0, 'none waits any more');
is($clients[0]->get('/many')->{body}, 'one', 'a kept connection goes on');

$etcd->del('/many/1');
$nginx->upstream('many')->shows({}, 'the member goes');

@clients = map { hold('many') } 1 .. 10;
$nginx->upstream('many')->holds(10, 'requests are held again');
$etcd->put('/many/2', $at2);
is(join(' ', map { $_->receive->{body} } @clients), join(' ', ('two') x 10),
   'and answered');
is(times_held('many'), CLIENTS + 10, 'each was held once');

# requests without a reason to wait

is($nginx->get('/static')->{body}, 'one', 'a static server: nothing waits');
is($nginx->get('/backup')->{body}, 'one', 'nor with a backup');
is($nginx->get('/denied')->{status}, 403, 'access is denied before');
is($nginx->get('/rewritten')->{status}, 204, '"return" is not held');
is(times_held('none'), 0, 'indeed');

# members that take nothing

my $client = hold('down');

$nginx->upstream('down')->holds(1, 'no member');

my $down = $nginx->upstream('down');

$down->sees($etcd->put('/down/1', "{\"address\":\"$at1\",\"down\":true}"));
$down->sees($etcd->put('/down/2', "{\"address\":\"$at2\",\"drain\":true}"));
$nginx->upstream('down')->holds(
    1, 'one that is down, one that is drained: held still');
$etcd->put('/down/1', $at1);
is($client->receive->{body}, 'one', 'one is up: answered');

# Members that fail are members.

$one->down;
$two->down;
$nginx->upstream('failing')->sees(
    $etcd->txn([put => '/failing/1', $at1], [put => '/failing/2', $at2]));
is($nginx->get('/failing')->{status}, 502, 'all members fail: 502');
is($nginx->get('/failing')->{status}, 502, 'all are disabled: 502');
is(times_held('failing'), 0, 'nothing waits for that');
$one->up;
$two->up;

# the time is over

my $begin = time();

is($nginx->get('/vain')->{status}, 502, 'no member in time: as without');
cmp_ok(time() - $begin, '>=', 0.298, 'after the time, to the millisecond');
is(times_held('none'), 1, 'it was held');
$nginx->logs(qr/no live upstreams.* upstream: "http:\/\/none/, 1,
             'and then failed in the upstream');
is($nginx->get('/instead')->{body}, 'instead', 'error_page works');
is(times_held('none'), 2, 'it was held once');

is($nginx->get('/again')->{body}, 'two', 'another upstream stands in');
is(times_held('none'), 3,
   'redirected, a request waits no longer for the same one');

$client = hold('other');
$nginx->upstream('redirect')->holds(1, 'redirected, it waits for another one');
$etcd->put('/redirect/1', $at1);
is($client->receive->{body}, 'one', 'and is answered');

# clients that go away

@clients = map { hold('abort') } 1 .. 20;
$nginx->upstream('abort')->holds(20, 'twenty are held');
$_->close for @clients[0 .. 9];
$nginx->upstream('abort')->holds(10, 'ten go away: ten are left');
becomes { log_of('abort') } join(' ', ('499') x 10), 'with status 499';
$one->reset;
$etcd->put('/abort/1', $at1);
is(join(' ', map { $_->receive->{body} } @clients[10 .. 19]),
   join(' ', ('one') x 10), 'the others are answered');
is($one->requests, 10, 'the backend is asked by those only');

# HTTP/1.1 pipelining, and the order of held requests

my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                   PeerPort => $nginx->port);

syswrite($socket, join('', map { "GET /pipe?$_ HTTP/1.1\r\nHost: a\r\n"
                                 . ($_ == 3 ? "Connection: close\r\n" : '')
                                 . "\r\n" } 1 .. 3));
$nginx->upstream('pipe')->holds(1, 'of pipelined requests the first is held');
$etcd->put('/pipe/1', $at1);

my $text = do { local $/; <$socket> };

is(scalar(() = $text =~ m{HTTP/1.1 200 }g), 3, 'all are answered');

# bodies

for my $path ('post', 'unbuffered') {
    my $name = "a body to /$path";

    $etcd->del_prefix('/post/');
    $nginx->upstream('post')->shows({}, "$name: no member");

    $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                    PeerPort => $nginx->port);

    syswrite($socket, "POST /$path HTTP/1.1\r\nHost: a\r\n"
             . "Connection: close\r\nExpect: 100-continue\r\n"
             . 'Content-Length: ' . BODY . "\r\n\r\n");
    $nginx->upstream('post')->holds(1, "$name is held");
    ok(!IO::Select->new($socket)->can_read(0.05), "$name is not asked for");
    $etcd->put('/post/1', $at1);
    like(scalar(<$socket>), qr{^HTTP/1.1 100 }, "$name: asked for now");
    <$socket>;
    print $socket 'x' x BODY;
    $text = do { local $/; <$socket> };
    like($text, qr{^HTTP/1.1 200 .*\r\n\r\none$}s, "$name is answered");
}

$etcd->del_prefix('/post/');
$nginx->upstream('post')->shows({}, 'no member');
$client = $nginx->http;
$client->send('POST', '/post', 'x' x BODY);
$nginx->upstream('post')->holds(1, 'a body that is sent at once is held');
$etcd->put('/post/1', $at1);
is($client->receive->{body}, 'one', 'and answered');

# subrequests

$client = hold('guarded');
$nginx->upstream('auth')->holds(1, 'the subrequest of auth_request is held');
$etcd->put('/auth/1', $at1);
is($client->receive->{body}, 'two', 'and the request goes on after it');

$client = hold('page');
$nginx->upstream('sub')->holds(3, 'three subrequests of one page are held');
$etcd->put('/sub/1', $at1);
is($client->receive->{body}, 'one one one', 'the page is complete');

$etcd->del('/sub/1');
$nginx->upstream('sub')->shows({}, 'no member');
$client = hold('page');
$nginx->upstream('sub')->holds(3, 'three are held again');
$client->close;
$nginx->upstream('sub')->holds(0, 'the client goes away: none is left');

# HTTP/2

my $url = 'http://127.0.0.1:' . $nginx->port('PORT_h2') . '/h2';
my @curl = ('curl', '-s', '--http2-prior-knowledge', '--max-time', 600);
my $h2 = spawn($nginx->dir . '/h2', @curl, $url);
my $killed = spawn($nginx->dir . '/h2', @curl, $url);

$nginx->upstream('h2')->holds(2, 'HTTP/2: two are held');
stop_child($killed);
$nginx->upstream('h2')->holds(1, 'one goes away: one is left');
becomes { log_of('h2') } '499', 'with status 499';
$etcd->put('/h2/1', $at1);
waitpid($h2, 0);
is($?, 0, 'the other is answered');
is_deeply([$nginx->lines_of('h2')], ['one'], 'as it should be');


# A worker dies: its held requests count no more.

@clients = map { hold('killed') } 1 .. 40;
$nginx->upstream('killed')->holds(40, 'forty are held');
$nginx->kill_worker($_) for $nginx->workers;
wait_for { $nginx->workers == WORKERS } 10, 'new workers';
$nginx->upstream('killed')->holds(0, 'the workers die: none is left');

# over a reload

@clients = map { hold('reload') } 1 .. 20;
$nginx->upstream('reload')->holds(20, 'twenty are held');
ok($nginx->reload(), 'a reload');
push @clients, map { hold('reload') } 1 .. 5;
$nginx->upstream('reload')->holds(25, 'and five more');
cmp_ok(scalar($nginx->leaving), '>', 0, 'old workers stay for them');
$etcd->put('/reload/1', $at1);
is(join(' ', map { $_->receive->{body} } @clients),
   join(' ', ('one') x 25), 'all are answered');
$_->close for @clients;
ok((wait_for { !$nginx->leaving } 20, 'the end of old workers'),
   'then old workers end');

ok($nginx->quit(), 'nginx ends');

finish();
