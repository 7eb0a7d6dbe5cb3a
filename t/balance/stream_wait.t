#!/usr/bin/perl

# etcd_wait for stream: connections are held, and nothing of them lost, until
# there is a member.  All times to wait are longer than any test may take,
# unless the end of the time is what is tested: an answer in time was woken.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Becomes;
use Etcd;
use Finish;
use Line;
use Lock;
use Nginx;
use Tls;
use Wait;

use constant {
    CLIENTS => 300,
    WORKERS => 2,
};

plan(skip_all => 'this nginx has no stream, or not all of it')
    if !Nginx::has(qw(stream stream_ssl_module stream_ssl_preread_module));

my $etcd = Etcd->new()->start();
my ($one, $two) = Line->start('one', 'two');
my ($at1, $at2) = map { $_->address } $one, $two;

# upstreams that a server waits for, each in a test of its own: all of them
# are empty at first

my @names = qw(many abort sent halved tls reload killed failing preread
               prelast locked lost limited);

my $servers = join('', map { <<"END" } @names);
    upstream $_ {
        etcd_members /$_/;
    }

    server {
        listen 127.0.0.1:%%PORT_$_%% reuseport;
        etcd_wait $_ 600s;
        proxy_pass $_;
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
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

stream {
    log_format wait "$status $server_port";
    access_log %%DIR%%/stream.log wait;

    proxy_timeout 60s;

    SERVERS

    upstream none {
        etcd_members /none/;
    }

    etcd_wait none 600s;

    server {
        listen 127.0.0.1:%%PORT_vain%%;
        etcd_wait none 300ms;
        proxy_pass none;
    }

    server {
        listen 127.0.0.1:%%PORT_off%%;
        etcd_wait off;
        proxy_pass none;
    }

    server {
        listen 127.0.0.1:%%PORT_inherits%%;
        proxy_pass none;
    }

    server {
        listen 127.0.0.1:%%PORT_denied%%;
        deny all;
        proxy_pass none;
    }

    # TLS ends at the second one, which is the one that waits

    server {
        listen 127.0.0.1:%%PORT_plain%%;
        etcd_wait off;
        proxy_ssl on;
        proxy_pass 127.0.0.1:%%PORT_ssl%%;
    }

    server {
        listen 127.0.0.1:%%PORT_ssl%% ssl;
        ssl_certificate %%DIR%%/server.crt;
        ssl_certificate_key %%DIR%%/server.key;
        etcd_wait tls 600s;
        proxy_pass tls;
    }
}

END

$config =~ s/ *SERVERS\n/$servers/;
$config =~ s/WORKERS/WORKERS/e;
$config =~ s/(PORT_limited\S+) reuseport;\n.*?;/$1;/;
$config =~ s/proxy_pass limited;/etcd_wait limited 600s queue=3;\n$&/;
$config =~ s/proxy_pass pre\w+;/ssl_preread on;\n$&/g;
$config =~ s{proxy_pass (lo\w+);}{etcd_lock /locks/$1 wait=600s;\n$&}g;
$config =~ s/proxy_pass halved;/proxy_half_close on;\n$&/;

my $nginx = Nginx->new(etcd => $etcd);

Tls->new('ca')->issue('server', san => 'IP:127.0.0.1')
    ->install($nginx->dir, 'server');

$nginx->start($config);

my $lock = Lock->new($nginx, $etcd);


# a connection that is held, with a line that it has sent

sub hold {
    my ($name, $line) = @_;

    my $client = $nginx->line($name);

    $client->tell($line) if defined $line;

    return $client;
}


sub log_of {
    my ($name) = @_;

    my $port = $nginx->port("PORT_$name");

    return join(' ', map { /^(\d+) $port$/ } $nginx->lines_of('stream.log'));
}


# the status of all connections; a connection counts no more before it is logged



# many connections in all workers

my @clients = map { hold('many', "line $_") } 1 .. CLIENTS;

$nginx->stream('many')->holds(CLIENTS, 'many connections are held');
is($nginx->count_log(qr/connected to \Q$at1\E/), 0, 'nothing is sent');
$etcd->put('/many/1', $at1);

my $answered = grep {
    ($clients[$_ - 1]->hear() // '') eq "one: line $_"
} 1 .. CLIENTS;

is($answered, CLIENTS, 'a member: all are answered');
$nginx->stream('many')->holds(0, 'none waits any more');

my %workers = map { $_ => 1 }
    $nginx->error_log =~ / (\d+)#\d+: .*connected to \Q$at1\E$/mg;

is(scalar(keys %workers), WORKERS, 'by all workers');
is($clients[0]->ask('more'), 'one: more', 'a session goes on');
$_->close for @clients;
is($nginx->line('many')->ask('hello'), 'one: hello',
   'with a member nothing is held');

# connections without a reason to wait

is($nginx->line('denied')->is_closed, 1, 'access is denied before');
becomes { log_of('denied') } '403', 'as it should be';
is($nginx->line('off')->is_closed, 1, 'off: it fails at once');
becomes { log_of('off') } '502', 'as without';

my $client = hold('inherits', 'hello');

$nginx->stream('none')->holds(1, 'what is said for all servers holds for one');
$client->close;

$nginx->stream('failing')->sees(
    $etcd->txn([put => '/failing/1', $at1], [put => '/failing/2', $at2]));
$one->down;
$two->down;
is($nginx->line('failing')->is_closed, 1, 'members that fail are members');
$one->up;
$two->up;

# the time is over

my $begin = time();

is($nginx->line('vain')->is_closed, 1, 'no member in time: as without');
cmp_ok(time() - $begin, '>=', 0.298, 'after the time, to the millisecond');
becomes { log_of('vain') } '502', 'with status 502';

# The limit: connections are to one port without reuseport, and so fill one
# worker after the other.

@clients = map { hold('limited', 'hello') } 1 .. 3 * WORKERS + 4;

my $held;

wait_for {
    $held = $nginx->stream('limited')->waiting;
    $held + (() = log_of('limited') =~ /503/g) == @clients
} 10, 'some to be held, others to be refused';

cmp_ok($held, '<=', 3 * WORKERS, 'no more are held than may');
cmp_ok($held, '>=', 3, 'and as many as may in a worker');
is(log_of('limited'), join(' ', ('503') x (@clients - $held)),
   'the others are closed with status 503');
cmp_ok($nginx->count_log(qr/\[error\].*no usable member in upstream "limited",/
                         . qr/ and 3 requests wait/), '>=', 1,
       'the log says why');
$etcd->put('/limited/1', $at1);
is(scalar(grep { ($_->hear() // '') eq 'one: hello' } @clients), $held,
   'those that were held are answered');

# clients that go away

@clients = map { hold('abort') } 1 .. 20;
$nginx->stream('abort')->holds(20, 'twenty are held');
$_->close for @clients[0 .. 9];
$nginx->stream('abort')->holds(10, 'ten go away: ten are left');
becomes { log_of('abort') } join(' ', ('200') x 10), 'as ended by the client';
$etcd->put('/abort/1', $at1);
is(scalar(grep { ($_->ask('x') // '') eq 'one: x' } @clients[10 .. 19]), 10,
   'the others are served');
ok(wait_for(sub { $one->counts->{open} == 10 }, 10),
   'the backend knows of those only');
$_->close for @clients;

# Bytes that were sent before the end are passed on.

$one->reset;
$client = hold('sent', 'last words');
$nginx->stream('sent')->holds(1, 'a client that has sent something is held');
$client->close;
$etcd->put('/sent/1', $at1);
wait_for { $one->requests == 1 } 10, 'what it has sent';
is($one->requests, 1, 'it goes away: what it has sent arrives');

$client = hold('halved', 'question');
$nginx->stream('halved')->holds(1, 'another one');
$client->shutdown();
$etcd->put('/halved/1', $at1);
is($client->hear(), 'one: question', 'that ends its half: it is answered');

# ssl_preread comes before: its data are kept.

$client = hold('preread', 'no TLS at all');
$nginx->stream('preread')->holds(1, 'a client of ssl_preread is held');
$etcd->put('/preread/1', $at1);
is($client->hear(), 'one: no TLS at all', 'and answered');

$one->reset;
$client = hold('prelast', 'last words');
$nginx->stream('prelast')->holds(1, 'another one, that is through with it');
$client->close;
$etcd->put('/prelast/1', $at1);
wait_for { $one->requests == 1 } 10, 'what it has sent';
is($one->requests, 1, 'it goes away: what it has sent arrives');

# A member goes away while ssl_preread waits for the client.

my $preread = $nginx->port('PORT_preread');
my $known = $nginx->count_log(qr/ client \S+ connected to \S+:$preread$/);

$nginx->stream('preread')->shows({ '/preread/1' => "$at1 1 up" }, 'a member');
$client = $nginx->line('preread');
wait_for {
    $nginx->count_log(qr/ client \S+ connected to \S+:$preread$/) > $known
} 10, 'a client that says nothing';
$etcd->del('/preread/1');
$nginx->stream('preread')->shows({}, 'no member');
$client->tell('at last');
$nginx->stream('preread')->holds(1, 'the member went away meanwhile: held');
$etcd->put('/preread/1', $at2);
is($client->hear(), 'two: at last', 'and answered by the next one');

# Locks are not taken before there is a member, and kept if it leaves after
# that.

$client = hold('locked', 'hello');
$nginx->stream('locked')->holds(1, 'a connection that wants a lock is held');
is(scalar(() = $lock->keys('/locks/locked')), 0, 'without the lock');
$etcd->put('/locked/1', $at1);
is($client->hear(), 'one: hello', 'it is answered');
is(scalar(() = $lock->keys('/locks/locked')), 1, 'with the lock');

my $second = hold('locked', 'goodbye');

$lock->waits('/locks/locked', 1, 'another one waits for the lock');
$etcd->del('/locked/1');
$nginx->stream('locked')->shows({}, 'no member');
$client->close;
$nginx->stream('locked')->holds(1, 'it gets the lock: now it is held');
is(scalar(() = $lock->keys('/locks/locked')), 1, 'with the lock');
$etcd->put('/locked/1', $at2);
is($second->hear(), 'two: goodbye', 'it is answered');

$etcd->put('/lost/1', $at1);
$nginx->stream('lost')->shows({ '/lost/1' => "$at1 1 up" }, 'a member');
$client = $nginx->line('lost');
is($client->ask('hello'), 'one: hello', 'a connection has a lock');
$second = hold('lost', 'goodbye');
$lock->waits('/locks/lost', 1, 'another one waits for it');
$etcd->del('/lost/1');
$nginx->stream('lost')->shows({}, 'no member');
$client->close;
$nginx->stream('lost')->holds(1, 'it gets the lock and is held');
$etcd->del(($lock->keys('/locks/lost'))[0]);
is($second->is_closed, 1, 'the lock is lost: it is closed');
$nginx->stream('lost')->holds(0, 'nothing is left of it');
becomes { log_of('lost') } '200 503', 'with status 503';

# TLS

my ($silent, $talker, $aborts) = map { $nginx->line('plain') } 1 .. 3;

$talker->tell('secret');
$nginx->stream('tls')->holds(3, 'TLS: three are held');
$aborts->close;
$nginx->stream('tls')->holds(2, 'one goes away: two are left');
$etcd->put('/tls/1', $at1);
is($talker->hear(), 'one: secret', 'one is answered');
is($silent->ask('later'), 'one: later', 'the other as well');

# A worker dies: its held connections count no more.

@clients = map { hold('killed') } 1 .. 40;
$nginx->stream('killed')->holds(40, 'forty are held');
$nginx->kill_worker($_) for $nginx->workers;
wait_for { $nginx->workers == WORKERS } 10, 'new workers';
$nginx->stream('killed')->holds(0, 'the workers die: none is left');

# over a reload

@clients = map { hold('reload', 'hello') } 1 .. 20;
$nginx->stream('reload')->holds(20, 'twenty are held');
ok($nginx->reload(), 'a reload');
push @clients, map { hold('reload', 'hello') } 1 .. 5;
$nginx->stream('reload')->holds(25, 'and five more');
cmp_ok(scalar($nginx->leaving), '>', 0, 'old workers stay for them');
$etcd->put('/reload/1', $at1);
is(scalar(grep { ($_->hear() // '') eq 'one: hello' } @clients), 25,
   'all are answered');
$_->close for @clients, $silent, $talker;
ok((wait_for { !$nginx->leaving } 20, 'the end of old workers'),
   'then old workers end');

# the end of a worker that has a time limit

$nginx->reload("worker_shutdown_timeout 200ms;\n$config", gone => 1);
$etcd->del('/many/1');
$nginx->stream('many')->shows({}, 'no member');
@clients = map { hold('many', 'hello') } 1 .. 10;
$nginx->stream('many')->holds(10, 'ten are held');
ok($nginx->reload(undef, gone => 1), 'worker_shutdown_timeout: workers end');
is(scalar(grep { $_->is_closed } @clients), 10, 'what they held is closed');
$nginx->stream('many')->holds(0, 'and waits no more');

ok($nginx->quit(), 'nginx ends');

finish();
