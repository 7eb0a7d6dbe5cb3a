#!/usr/bin/perl

# etcd_wait with "full": requests are held while all members are at max_conns,
# and go on in the order in which they came when a connection ends, in this
# worker or in another one.  All times to wait are longer than any test may
# take, unless the end of the time is what is tested.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Becomes;
use Etcd;
use Finish;
use Http;
use Line;
use Nginx;
use Wait;

use constant {
    APART   => 0.02,    # s; NGX_ETCD_CONN_QUEUE_AHEAD is 10 ms
    WORKERS => 2,
    MANY    => 60,
};

plan(skip_all => 'this nginx has no stream') if !Nginx::has(qw(stream));

my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start('one', 'two');
my ($line) = Line->start('line');
my ($at1, $at2) = map { $_->address } $one, $two;

my @names = qw(order many abort killed reload fails added post);

my $upstreams = join('', map { <<"END" } @names);
    upstream $_ {
        etcd_members /$_/;
    }
END

my $locations = join('', map { <<"END" } @names);
        location /$_ {
            etcd_wait $_ 600s full;
            proxy_pass http://$_;
        }
END

my $streams = join('', map { <<"END" } qw(db hashed));
    upstream $_ {
        etcd_members /stream/$_/;
        @{[$_ eq 'hashed' ? 'etcd_balance hash $remote_addr;' : '']}
    }

    server {
        listen 127.0.0.1:%%PORT_$_%% reuseport;
        etcd_wait $_ 600s full;
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
    keepalive_requests 100000;
    log_format wait "$status $uri $pid";

    UPSTREAMS

    upstream lead {
        etcd_leader /lead format=key max_conns=1;
    }

    upstream sets {
        etcd_members /sets/$arg_set/;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        access_log %%DIR%%/access.log wait;
        add_header X-Worker $pid always;

        location = /status {
            etcd_status;
        }

        LOCATIONS

        location /few {
            etcd_wait order 600s queue=1 full;
            proxy_pass http://order;
        }

        location /vain {
            etcd_wait order 300ms full;
            proxy_pass http://order;
        }

        location /off {
            etcd_wait order 600s;
            proxy_pass http://order;
        }

        location /lead {
            etcd_wait lead 600s full;
            proxy_pass http://lead;
            proxy_set_header X-Leader $etcd_member_key;
        }

        location /sets {
            etcd_wait sets 600s full;
            proxy_pass http://sets;
        }
    }
}

stream {
    log_format wait "$status $server_port";
    access_log %%DIR%%/stream.log wait;

    STREAMS

    server {
        listen 127.0.0.1:%%PORT_vain%%;
        etcd_wait db 300ms full;
        proxy_pass db;
    }

    server {
        listen 127.0.0.1:%%PORT_few%%;
        etcd_wait db 600s full queue=1;
        proxy_pass db;
    }

    server {
        listen 127.0.0.1:%%PORT_elsewhere%%;
        etcd_wait db 600s full;
        proxy_pass hashed;
    }
}

END

$config =~ s/ *UPSTREAMS\n/$upstreams/;
$config =~ s/ *LOCATIONS\n/$locations/;
$config =~ s/ *STREAMS\n/$streams/;
$config =~ s/WORKERS/WORKERS/ge;

my $nginx = Nginx->new(etcd => $etcd)->start($config);


sub member {
    my ($address, $max) = @_;

    return "{\"address\":\"$address\",\"max_conns\":$max}";
}


sub hold {
    my ($path) = @_;

    my $client = $nginx->http;

    $client->{timeout} = 60;
    $client->send('GET', "/$path");

    return $client;
}


# a request that has the only connection, and hangs

sub occupy {
    my ($path) = @_;

    my $n = $one->requests;

    $one->set(hang => 1);

    my $client = hold($path);

    wait_for { $one->requests > $n } 10, "a request to $path";

    return $client;
}


# the numbers of answered requests, each with its worker

sub served {
    return map { m{/order/(\d+) (\d+)$} ? [$1, $2] : () }
               $nginx->lines_of('access.log');
}


# Later requests are later for other workers, too.

sub later {
    my $begun = time();

    wait_for { time() - $begun > APART } 10, 'some time';
}


sub worker_of {
    my ($answer) = @_;

    return $answer->{headers}{'x-worker'};
}


# A member with one connection: waiting requests have an order.

$etcd->put('/order/1', member($at1, 1));
$nginx->upstream('order')->shows({ '/order/1' => "$at1 1 up" }, 'a member');

my $first = occupy('order');

is($nginx->get('/off')->{status}, 502, 'without "full": 502 at once');

my @clients = map {
    my $client = hold("order/$_");

    $nginx->upstream('order')->holds($_, "request $_ is held");
    later();
    $client;
} 1 .. 10;

is($nginx->upstream('order')->status->{queued}, 10,
   'they wait for connections');
like($nginx->get('/status', Accept => 'text/plain')->{body},
     qr/^nginx_etcd_upstream_queued_requests\{[^}]*"order"[^}]*\} 10$/m,
     'and in the metrics');
is($nginx->get('/vain')->{status}, 502, 'the time is over: 502');

# Of three, each worker holds one at most.

my @few_http = map { hold('few') } 1 .. WORKERS + 1;

ok((wait_for {
    grep { m{^503 /few } } $nginx->lines_of('access.log')
} 10, 'one to be refused'), 'the queue is full: 503');
$_->close for @few_http;
$nginx->upstream('order')->holds(10, 'nothing is left of them');
$one->reset;
$one->set(hang => 0);
is(Http::statuses($first, @clients), join(' ', (200) x 11), 'all are answered');
wait_for { served() == 10 } 10, 'ten lines in the log';
is(join(' ', map { $_->[0] } served()), join(' ', 1 .. 10),
   'in their order, in all workers');
is($one->requests, 10, 'each is sent once');
$nginx->logs(qr{waiting for a connection to a member of .*"GET /order/\d+ },
             10, 'and was woken once');
$nginx->upstream('order')->holds(0, 'none waits any more');
is($nginx->upstream('order')->status->{queued}, 0, 'and none is shown');

# many requests, in all workers, with more connections than one

$etcd->put('/many/1', member($at1, 3));
$nginx->upstream('many')->shows({ '/many/1' => "$at1 1 up" }, 'a member');
$one->set(hang => 1);
@clients = map { hold('many') } 1 .. MANY;
$nginx->upstream('many')->holds(MANY - 3, 'all but three are held');
$one->reset;
$one->set(hang => 0, delay => 0.01);

my @answers = map { $_->receive } @clients;
my %workers = map { worker_of($_) => 1 } @answers;

is(join(' ', map { $_->{status} } @answers), join(' ', (200) x MANY),
   'all are answered');
is(scalar(keys %workers), WORKERS, 'by all workers');
$one->set(delay => 0);

# A connection ends in one worker: a request of another one goes on.

my (%by, @rest);

wait_for {
    my $client = $nginx->http;

    $by{worker_of($client->get('/status'))} //= $client;
    keys %by == WORKERS;
} 10, 'a client of each worker';

for my $pair ([0, 1], [1, 0]) {
    my ($has, $waits) = map { (values %by)[$_] } @$pair;

    $one->reset;
    $one->set(hang => 1);
    $has->send('GET', '/order');
    wait_for { $one->requests == 1 } 10, 'a request';
    $waits->send('GET', '/order');
    $nginx->upstream('order')->holds(1, 'a request of another worker is held');
    $one->set(hang => 0);
    is($has->receive->{status}, 200, 'a connection ends in one worker');
    is($waits->receive->{status}, 200, 'a request of another one goes on');
}

# a body

$first = occupy('order');

my $client = $nginx->http;

$client->send('POST', '/order', 'x' x 100000);
$nginx->upstream('order')->holds(1, 'a request with a body is held');
$one->set(hang => 0);
is(Http::statuses($first, $client), '200 200', 'and answered');

# clients that go away

$first = occupy('order');
@clients = map { hold('order/gone') } 1 .. 6;
$nginx->upstream('order')->holds(6, 'six are held');
$_->close for @clients[0 .. 2];
$nginx->upstream('order')->holds(3, 'three go away');
$one->reset;
$one->set(hang => 0);
is(Http::statuses($first, @clients[3 .. 5]), '200 200 200 200',
   'the others are answered');
is($one->requests, 3, 'the backend is asked by those only');

# The client that has the connection goes away.

$first = occupy('order');
$client = hold('order');
$nginx->upstream('order')->holds(1, 'one is held');
$first->close;
$nginx->upstream('order')->holds(0, 'the one with the connection goes away');
$one->set(hang => 0);
is(Http::statuses($client), '200', 'the other is answered');

# another member

$etcd->put('/added/1', member($at1, 1));
$nginx->upstream('added')->shows({ '/added/1' => "$at1 1 up" }, 'a member');
$first = occupy('added');
$client = hold('added');
$nginx->upstream('added')->holds(1, 'one is held');
$etcd->put('/added/2', $at2);
is($client->receive->{body}, 'two', 'another member comes: answered');
$one->set(hang => 0);
is(Http::statuses($first), '200', 'the first as well');

# Failing members are not full.

$two->down;
$nginx->upstream('fails')->sees(
    $etcd->txn([put => '/fails/1', member($at2, 1)],
               [put => '/fails/2', member('127.0.0.1:1', 1)]));
is($nginx->get('/fails')->{status}, 502, 'members that fail');
is($nginx->get('/fails')->{status}, 502, 'are not waited for');
$two->up;

# a leader, for which the request is built

$etcd->put('/lead', $at1);
wait_for { $nginx->get('/lead')->{status} == 200 } 10, 'a leader';
$first = occupy('lead');
@clients = map { hold('lead') } 1 .. 3;
$nginx->upstream('lead')->holds(3, 'a leader that is full');
$etcd->put('/lead', $at2);
is(Http::statuses(@clients), '200 200 200', 'another one takes all');
is($nginx->get('/lead')->{body}, 'two', 'indeed');
$one->set(hang => 0);
is(Http::statuses($first), '200', 'and the first is answered');

# a prefix with variables

$etcd->put('/sets/a/1', member($at1, 1));
wait_for { $nginx->get('/sets?set=a')->{status} == 200 } 10, 'a set';
$first = occupy('sets?set=a');
@clients = map { hold('sets?set=a') } 1 .. 3;
wait_for {
    $nginx->count_log(qr/\*\d+ waiting for a connection .* "sets"/) >= 3
} 10, 'three to be held';
$one->set(hang => 0);
is(Http::statuses($first, @clients), '200 200 200 200',
   'of a prefix with variables: held, and answered');

# A worker dies.

$etcd->put('/killed/1', member($at1, 1));
$nginx->upstream('killed')->shows({ '/killed/1' => "$at1 1 up" }, 'a member');
%by = ();
wait_for {
    $client = $nginx->http;
    $by{worker_of($client->get('/status'))} //= $client;
    keys %by == WORKERS;
} 10, 'a client of each worker';

my ($dies, $lives) = sort keys %by;

$one->reset;
$one->set(hang => 1);
$by{$dies}->send('GET', '/killed');
wait_for { $one->requests == 1 } 10, 'a request';
$by{$lives}->send('GET', '/killed');
$nginx->upstream('killed')->holds(1, 'a request is held');
$one->set(hang => 0);
is($by{$dies}->receive->{status}, 200, 'the first is answered');
is($by{$lives}->receive->{status}, 200, 'and the other');

$one->reset;
$one->set(hang => 1);
$by{$dies}->send('GET', '/killed');
wait_for { $one->requests == 1 } 10, 'a request';
$by{$lives}->send('GET', '/killed');
$nginx->upstream('killed')->holds(1, 'a request is held again');
$nginx->kill_worker($dies);
wait_for { $one->requests == 2 } 20, 'the other request';
$one->set(hang => 0);
is($by{$lives}->receive->{status}, 200,
   'the worker with the connection dies: the other goes on');
wait_for { $nginx->workers == WORKERS } 10, 'new workers';

# A worker that holds an older request stands still.

my %two;

wait_for {
    $client = $nginx->http;
    push @{ $two{worker_of($client->get('/status'))} }, $client;
    keys %two == WORKERS && !grep { @$_ < 2 } values %two;
} 10, 'two clients of each worker';

my ($still, $goes) = sort keys %two;

$one->reset;
$one->set(hang => 1);
$two{$goes}[0]->send('GET', '/killed');
wait_for { $one->requests == 1 } 10, 'a request';
$two{$still}[0]->send('GET', '/killed');
$nginx->upstream('killed')->holds(1, 'an older one');
$two{$goes}[1]->send('GET', '/killed');
$nginx->upstream('killed')->holds(2, 'a newer one');
$nginx->freeze($still);
$one->set(hang => 0);
is($two{$goes}[0]->receive->{status}, 200, 'a worker stands still');
is($two{$goes}[1]->receive->{status}, 200, 'others go on without it');
$nginx->thaw($still);
is($two{$still}[0]->receive->{status}, 200, 'and it goes on later');

# a reload

$etcd->put('/reload/1', member($at1, 1));
$nginx->upstream('reload')->shows({ '/reload/1' => "$at1 1 up" }, 'a member');
$first = occupy('reload');
@clients = map { hold('reload') } 1 .. 5;
$nginx->upstream('reload')->holds(5, 'five are held');
ok($nginx->reload(), 'a reload');
push @clients, map { hold('reload') } 1 .. 5;
$nginx->upstream('reload')->holds(10, 'and five more');
$one->set(hang => 0);
is(Http::statuses($first, @clients), join(' ', (200) x 11),
   'all are answered, in old and new workers');
$_->close for $first, @clients, values %by, map { @$_ } values %two;
ok((wait_for { !$nginx->leaving } 20, 'the end of old workers'),
   'old workers end');

# stream

$etcd->put('/stream/db/1', member($line->address, 2));
$nginx->stream('db')->shows(
    { '/stream/db/1' => $line->address . ' 1 up' }, 'stream: a member');

my @sessions = map { $nginx->line('db') } 1 .. 2;

is($_->ask('a'), 'line: a', 'a session') for @sessions;

my @held = map {
    my $session = $nginx->line('db');

    # Data that was sent would be passed on without the client.
    $session->tell("held $_") if $_ != 2;
    $nginx->stream('db')->holds($_, "session $_ is held");
    later();
    $session;
} 1 .. 4;

is($nginx->line('vain')->is_closed, 1, 'the time is over: closed');

# Of three, each worker holds one at most.

my @few = map { $nginx->line('few') } 1 .. WORKERS + 1;
my $few = $nginx->port('PORT_few');

ok((wait_for {
    grep { /^503 $few$/ } $nginx->lines_of('stream.log')
} 10, 'one to be refused'), 'the queue is full: closed');
$_->close for @few;
$nginx->stream('db')->holds(4, 'nothing is left of them');
$sessions[0]->close;
is($held[0]->hear(), 'line: held 1', 'a session ends: the oldest goes on');
$nginx->stream('db')->holds(3, 'and no other');
$held[1]->close;
$nginx->stream('db')->holds(2, 'one goes away');
$sessions[1]->close;
is($held[2]->hear(), 'line: held 3', 'the next one goes on');
$held[0]->close;
is($held[3]->hear(), 'line: held 4', 'and the last one');
$nginx->stream('db')->holds(0, 'none waits any more');

# A connection that was reserved is not kept by a session of another upstream.

$etcd->put('/stream/hashed/1', $line->address);
$nginx->stream('hashed')->shows(
    { '/stream/hashed/1' => $line->address . ' 1 up' }, 'another upstream');
$held[2]->close;

my $elsewhere = $nginx->line('elsewhere');

is($elsewhere->ask('x'), 'line: x', 'a session of another upstream');
becomes {
    $nginx->stream('db')->member($line->address)->{conns}
} 1, 'keeps no connection';
$_->close for $elsewhere, $held[3];

@sessions = map { $nginx->line('db') } 1 .. MANY;
$_->tell('x') for @sessions;

my %left = map { $_ => $_ } @sessions;
my $answered = 0;

wait_for {
    for my $session (grep { defined $_->hear(0) } values %left) {
        $session->close;
        delete $left{$session};
        $answered++;
    }

    !%left;
} 20, 'all sessions to be answered';

is($answered, MANY, 'stream: many sessions, two at a time');

ok($nginx->quit(), 'nginx ends');

finish();
