#!/usr/bin/perl

# etcd_lock for stream: a connection has its lock from before it is proxied
# until it ends.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Etcd;
use Finish;
use Line;
use Lock;
use Nginx;
use Stall;
use Tls;
use Wait;

plan(skip_all => 'this nginx has no stream, or not all of it')
    if !Nginx::has(qw(stream stream_ssl_module stream_ssl_preread_module));

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my $backend = Line->start('one');

my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $backend->address);

Tls->new('ca')->issue('server', san => 'DNS:db.example')
    ->install($nginx->dir, 'server');

$nginx->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /status {
            etcd_status;
        }

        location = /lock {
            etcd_lock /locks/shared;
            return 204;
        }

        location /file {
            etcd_lock /locks/shared;
        }
    }
}

stream {
    log_format lock "$server_port $status $etcd_lock_result $etcd_lock_token "
                    "$etcd_lock_status";
    access_log %%DIR%%/stream.log lock;

    log_format wait "$server_port $etcd_lock_wait";
    access_log %%DIR%%/wait.log wait;

    server {
        listen 127.0.0.1:%%PORT_wait%%;
        etcd_lock /locks/wait $remote_addr wait=600s;
        proxy_pass %%ONE%%;
    }

    server {
        listen 127.0.0.1:%%PORT_now%%;
        etcd_lock /locks/shared;
        proxy_pass %%ONE%%;
    }

    server {
        listen 127.0.0.1:%%PORT_on%%;
        etcd_lock /locks/on;
        etcd_lock_lost continue;
        proxy_pass %%ONE%%;
    }

    server {
        listen 127.0.0.1:%%PORT_two%%;
        etcd_lock /locks/zzz wait=600s;
        etcd_lock /locks/on wait=600s;
        etcd_lock /locks/shared wait=600s;
        proxy_pass %%ONE%%;
    }

    # a client of TLS, what has a lock for its server's name, and the server

    server {
        listen 127.0.0.1:%%PORT_client%%;
        proxy_ssl on;
        proxy_ssl_server_name on;
        proxy_ssl_name db.example;
        proxy_pass 127.0.0.1:%%PORT_named%%;
    }

    server {
        listen 127.0.0.1:%%PORT_named%%;
        ssl_preread on;
        etcd_lock /locks/named $ssl_preread_server_name wait=600s;
        proxy_pass 127.0.0.1:%%PORT_server%%;
    }

    server {
        listen 127.0.0.1:%%PORT_server%% ssl;
        ssl_certificate %%DIR%%/server.crt;
        ssl_certificate_key %%DIR%%/server.key;
        proxy_pass %%ONE%%;
    }
}

END

my $lock = Lock->new($nginx, $etcd);

# Sessions have the lock one at a time.

my $first = $nginx->line('wait');

is($first->ask('a'), 'one: a', 'a free lock lets in');
is(scalar(() = $lock->keys('/locks/wait/127.0.0.1')), 1, 'by a key');

my $second = $nginx->line('wait');

$second->tell('b');
$lock->waits('/locks/wait', 1, 'another connection waits');
is($first->ask('c'), 'one: c', 'the first one goes on');
$first->close;
is($second->hear(20), 'one: b', 'it ends: the next one is let in');

my @others = map { $nginx->line('wait') } 1 .. 5;

$lock->waits('/locks/wait', 5, 'more wait');

my $since = time();

wait_for { time() - $since >= 0.1 } 10, 'a time to be logged';
$_->close for @others;
$lock->waits('/locks/wait', 0, 'those that leave wait no longer');

my ($port) = ($nginx->port('PORT_wait'));
my $left = sub { grep { /^$port (.*)$/ && $1 >= 0.1 }
                 $nginx->lines_of('wait.log') };

ok(wait_for(sub { $left->() == 5 }, 10), 'the log has how long they waited');
$second->close;
$lock->gone('/locks/wait', 'nothing is left');


# The name that ssl_preread has found may be a lock's key.

$first = $nginx->line('client');

is($first->ask('a'), 'one: a', 'TLS is passed on');
is(scalar(() = $lock->keys('/locks/named/db.example')), 1,
   'with a lock for the name that the client wants');
$second = $nginx->line('client');
$second->tell('b');
$lock->waits('/locks/named', 1, 'another client waits for it');
$first->close;
is($second->hear(20), 'one: b', 'and is let in');
$second->close;
$lock->gone('/locks/named', 'nothing is left');


# http and stream share a lock.

$first = $nginx->line('now');
is($first->ask('a'), 'one: a', 'a connection has a lock');
$second = $nginx->line('now');
ok($second->is_closed(20), 'another one is closed');
is($nginx->get('/file')->{status}, 423, 'a request does not get it');
is($nginx->get('/lock')->{status}, 204, 'unless it is answered before gates');
$first->close;
$lock->gone('/locks/shared', 'it is given up');
is($nginx->get('/file')->{status}, 404, 'a request gets it');


# losses

$first = $nginx->line('now');
is($first->ask('a'), 'one: a', 'a connection has a lock');
$etcd->del($lock->keys('/locks/shared'));
ok($first->is_closed(20), 'its key is deleted: it is closed');

$first = $nginx->line('on');
is($first->ask('a'), 'one: a', 'a connection has another lock');
$etcd->del($lock->keys('/locks/on'));
wait_for { $lock->count('/locks/on', 'lost') == 1 } 10, 'the loss';
is($first->ask('b'), 'one: b', 'continue: it is not closed');
$first->close;

$first = $nginx->line('now');
is($first->ask('a'), 'one: a', 'a connection has a lock');
$second = $nginx->line('two');
$lock->waits('/locks/shared', 1, 'another one waits for it');
is(scalar(() = $lock->keys('/locks/on')), 1, 'with a lock that comes before');
$etcd->del($lock->keys('/locks/on'));
ok($second->is_closed(20), 'which is lost: it waits no longer');
$lock->waits('/locks/shared', 0, 'for any');
$first->close;
$lock->gone("/locks/$_", "nothing is left of $_") for qw(on shared zzz);


# the log

my %seen;

$seen{$_}++ for map { /^\d+ (\d+ \w*) / } $nginx->lines_of('stream.log');

ok($seen{'200 acquired'}, 'the log knows who had a lock');
ok($seen{'503 timeout'}, 'who had none');
ok($seen{'200 lost'}, 'and who lost it');
is(scalar(grep { !/^\d+ \d+ (\w*|-) \S* \1$/ } $nginx->lines_of('stream.log')),
   0, 'the former name of the variable has the same');

# A worker that ends gives etcd a second to take its lease back: where nothing
# ran meanwhile, the lease has its whole TTL.

for (1 .. 5) {
    my $start = time();

    $nginx->quit;
    last if !$etcd->leases || $stall->since($start) < 0.5;

    $nginx->start;
    is($nginx->line('now')->ask('a'), 'one: a', 'a lease is taken again');
    wait_for { $etcd->leases == 1 } 20, 'the end of the last one';
}

is(scalar(() = $etcd->leases), 0, 'no lease is left');

finish();
