#!/usr/bin/perl

# Locks that are lost while requests hold them: such a request is cut, before
# any other request can have the lock, or told.  Leases that are not meant to
# end are longer than any test may take.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Stall;
use Wait;

use constant {
    TTL  => 3,
    LONG => 600,
};

my $etcd = Etcd->new()->start();
my ($backend, $redirects) = Backend->start('one', 'two');

my $stall = Stall->watch();
my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $backend->address,
                                           TWO => $redirects->address,
                                           TTL => LONG, REQUEST => LONG);

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl %%TTL%%s;
    request_timeout %%REQUEST%%s;
}

http {
    log_format lock "$uri $status $etcd_lock_result $upstream_status";

    upstream nobody {
        etcd_members /services/nobody/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        access_log %%DIR%%/access.log lock;
        add_header X-Status $etcd_lock_result always;
        add_header X-Token $etcd_lock_token always;

        location = /status {
            etcd_status;
        }

        location /cut {
            etcd_lock /locks/cut wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location /page {
            etcd_lock /locks/page wait=600s;
            etcd_lock_unavailable_status 500;
            error_page 500 = /sorry;
            proxy_pass http://%%ONE%%;
        }

        location /named {
            etcd_lock /locks/named wait=600s;
            error_page 503 = /named/page;
            proxy_pass http://%%ONE%%;

            location /named/page {
                etcd_lock /locks/named wait=600s;
                root %%DIR%%;
            }
        }

        location /sorry {
            return 200 sorry;
        }

        location /go-on {
            etcd_lock /locks/go-on wait=600s;
            etcd_lock_lost continue;
            proxy_pass http://%%ONE%%;
        }

        location /two {
            etcd_lock /locks/second wait=600s;
            etcd_lock /locks/first wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location /second {
            etcd_lock /locks/second wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location /redirected {
            etcd_lock /locks/redirected wait=600s;
            proxy_pass http://%%TWO%%;
        }

        location /nobody {
            etcd_wait nobody 600s;
            proxy_pass http://nobody;
        }

        location /body {
            etcd_lock /locks/body wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location /now {
            etcd_lock /locks/now;
            proxy_pass http://%%ONE%%;
        }
    }
}

END

$nginx->start($config);

my $lock = Lock->new($nginx, $etcd);


sub begin {
    my ($path, @body) = @_;

    my $client = $nginx->http;

    $client->send(@body ? 'POST' : 'GET', $path, @body);

    return $client;
}


# a request that is with the backend, and holds the lock

sub hold {
    my ($name, @body) = @_;

    my $n = $backend->requests;
    my $client = begin("/$name", @body);

    wait_for { $backend->requests > $n } 10, "a request for $name";

    return $client;
}


sub key { return ($lock->keys("/locks/$_[0]"))[0] }

sub requests { return $backend->requests }


$backend->set(hang => 1);


# The key is deleted.

my $holder = hold('cut');
my $waiter = begin('/cut');
$lock->waits('/locks/cut', 1, 'another one waits');
my $n = requests();

$etcd->del(key('cut'));

my $answer = $holder->receive;
is($answer->{status}, 503, 'the key is deleted: the request is cut');
is($answer->{headers}{'x-status'}, 'lost', 'and says why');
wait_for { requests() == $n + 1 } 10, 'the waiter';
is(requests(), $n + 1, 'the next one has its turn, and the first is not '
                       . 'tried again');
$lock->counts('/locks/cut', { held => 1, waiting => 0, acquired => 2,
                              timeouts => 0, lost => 1, handoffs => 0 },
              'as counted');
$backend->set(hang => 0);
is($waiter->receive->{status}, 200, 'it is answered');

$backend->set(hang => 1);
$holder = hold('page');
$etcd->del(key('page'));
is($holder->receive->{body}, 'sorry', 'there may be a page for it');

$holder = hold('named');
$etcd->del(key('named'));
$answer = $holder->receive;
is($answer->{status}, 503, 'unless the page needs the lock');
is($answer->{headers}{'retry-after'}, undef, 'as its work may be done');

$holder = hold('go-on');
$etcd->del(key('go-on'));
wait_for { $lock->count('/locks/go-on', 'lost') } 10, 'the loss';
$backend->set(hang => 0);
$answer = $holder->receive;
is($answer->{status}, 200, 'continue: the request goes on');
is($answer->{headers}{'x-status'}, 'lost', 'and is told');


# The request loses its lock while it waits for another lock.

$backend->set(hang => 1);
$holder = hold('second');
$waiter = begin('/two');
wait_for { key('first') && $lock->keys('/locks/second') } 10, 'both locks';
$lock->waits('/locks/second', 1, 'one lock is held, the other waited for');
$etcd->del(key('first'));
$answer = $waiter->receive;
is($answer->{status}, 503, 'the first is lost: it waits no longer');
is($answer->{headers}{'retry-after'}, undef, 'and need not come again');
$lock->waits('/locks/second', 0, 'for neither');
$backend->set(hang => 0);
is($holder->receive->{status}, 200, 'the other one is still held');


# The request waits after a redirect, to a location that does not have its lock.

sub redirected {
    my ($to, $waits, $none) = @_;

    $redirects->set(headers => { 'X-Accel-Redirect' => $to });
    $waiter = begin('/redirected');
    $waits->("$to: it waits");
    $etcd->del(key('redirected'));
    is($waiter->receive->{status}, 503, "$to: it waits no longer");
    $none->("$to: nobody waits");
}

my $nobody = $nginx->upstream('nobody');

$backend->set(hang => 1);
$holder = hold('second');
redirected('/second', map { my $n = $_;
                            sub { $lock->waits('/locks/second', $n, @_) } }
                      1, 0);
$backend->set(hang => 0);
is($holder->receive->{status}, 200, '/second: the holder is answered');
redirected('/nobody', map { my $n = $_; sub { $nobody->holds($n, @_) } } 1, 0);


# The request loses its lock while its body is read.

$waiter = $nginx->http;
$waiter->send('POST', '/body', undef, 'Content-Length' => 10);
$lock->holds('/locks/body', 1, 'a request that is not complete');
$n = requests();
$etcd->del(key('body'));
is($waiter->receive_once->{status}, 503, 'is cut');
is(requests(), $n, 'and never sent');


# The lease is revoked.

$backend->set(hang => 1);
$holder = hold('cut');
my ($lease) = $etcd->leases;
$etcd->revoke($lease);
is($holder->receive->{status}, 503, 'the lease is revoked: the request is cut');
$backend->set(hang => 0);
is($nginx->get('/cut')->{status}, 200, 'with another one locks are to be had');
isnt(($etcd->leases)[0], $lease, 'which is another');


# A worker ends.

$backend->set(hang => 1);
$holder = hold('cut');
$nginx->reload;
$backend->set(hang => 0);
is($holder->receive->{status}, 200, 'a lock is held through a reload');
wait_for { !$nginx->leaving && !$etcd->leases } 10, 'the old worker leaves';
is(scalar(() = $etcd->leases), 0, 'and leaves nothing');
is($nginx->get('/cut')->{status}, 200, 'the new one has the lock');


# etcd does not answer: the lock is lost by its deadline.

$nginx->set(TTL => TTL, REQUEST => 1);
$nginx->reload($config, gone => 1);
$backend->set(hang => 1);
$holder = hold('cut');
$etcd->freeze;
is($holder->receive->{status}, 503, 'etcd hangs: the request is cut in time');
is($nginx->get('/now')->{status}, 503, 'no lock can be had');
like($nginx->get('/now')->{headers}{'retry-after'}, qr/^\d+$/, 'for now');
$etcd->thaw;
$backend->set(hang => 0);
ok(wait_for(sub { $nginx->get('/now')->{status} == 200 }, 20),
   'until it is back');


# The worker is stopped for longer than the deadline.

$backend->set(hang => 1);
$holder = hold('cut');

my ($worker) = $nginx->workers;

$nginx->freeze($worker);
wait_for { !$lock->keys('/locks/cut') } 20, 'the lease expires';
is_deeply([$lock->keys('/locks/cut')], [], 'the key is gone with the lease');
$backend->set(hang => 0);
$nginx->thaw($worker);
ok($holder->receive->{status} =~ /^(?:200|503)$/, 'it is answered or cut');
ok(wait_for(sub { $nginx->get('/cut')->{status} == 200 }, 20),
   'and goes on');


# A worker is killed.

$nginx->set(TTL => 2 * TTL, REQUEST => LONG);
$nginx->reload($config, gone => 1);
($worker) = $nginx->workers;
$backend->set(hang => 1);
$holder = hold('cut');
$lock->holds('/locks/cut', 1, 'a worker holds a lock');
$nginx->kill_worker($worker);
$backend->set(hang => 0);

my $next = $nginx->http;

$next->{timeout} = 60;
is($next->get('/cut')->{status}, 200,
   'its lock is free when the lease is over');
$lock->holds('/locks/cut', 0, 'nothing of it is counted');
$lock->gone('/locks/cut', 'or left');


# On a fast exit nginx waits only a moment for etcd's answer: if etcd gave none
# because the machine stood still, the test tries again.

$nginx->set(TTL => LONG);
$nginx->reload($config, gone => 1);

for my $attempt (1 .. 10) {
    $backend->set(hang => 1);
    $holder = hold('cut');

    my $began = time();

    $nginx->stop;
    wait_for { !$etcd->leases } 10, 'the end of the lease';
    $backend->set(hang => 0);

    last if !$etcd->leases || !$stall->since($began);

    diag('a fast exit: again, the machine stood still');
    $etcd->revoke($_) for $etcd->leases;
    $nginx->start($config);
}

is(scalar(() = $etcd->leases), 0, 'a fast exit leaves nothing either');

finish();
