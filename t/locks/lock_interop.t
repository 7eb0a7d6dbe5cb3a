#!/usr/bin/perl

# A lock that nginx, etcdctl and programs with etcd's own client want.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Door;
use Etcd;
use Finish;
use Go;
use Holder;
use Nginx;
use Wait;

use constant {
    NAME  => '/locks/jobs/one',
    QUIET => 0.5,
};

my $etcd = Etcd->new()->start();
my $door = Door->new();

my $config = <<'EOF_CONFIG';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            etcd_lock /locks/jobs $arg_key wait=60s;
            proxy_pass http://%%DOOR%%;
            proxy_set_header X-Token $etcd_lock_token;
        }

        location /now {
            etcd_lock /locks/jobs $arg_key;
            proxy_pass http://%%DOOR%%;
        }
    }
}

EOF_CONFIG

my ($nginx, $second) = map {
    Nginx->new(etcd => $etcd)->set(DOOR => $door->address)->start($config)
} 1 .. 2;


# the keys of all that want the lock, in the order of the queue

sub queue {
    return sort { $a->{create_revision} <=> $b->{create_revision} }
        $etcd->list(NAME . '/');
}

sub queue_is {
    my ($n, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(wait_for(sub { my @queue = queue(); @queue == $n }, 10), $name);
}


sub ask {
    my ($from) = @_;

    my $http = $from->http;

    $http->{timeout} = 120;
    $http->send('GET', '/?key=one', undef, Connection => 'close');

    return $http;
}


sub let_out {
    my ($visit, $http, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $visit->leave;
    is($http->receive->{status}, 200, $name);
}


# Nobody may enter meanwhile.

sub nobody_enters {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(!$door->enters(QUIET), $name);
}


sub take_turns {
    my ($who, @program) = @_;

    my $want = sub { Holder->want($etcd, NAME, @program) };

    # nginx has the lock first.

    my $http = ask($nginx);
    my $visit = $door->enters(10);

    ok($visit, "$who: nginx lets a request in");
    is($visit->header('x-token'), (queue())[0]{create_revision},
       'its token is the revision of its key');

    my $other = $want->();

    queue_is(2, "$who waits");

    my $third = ask($second);

    queue_is(3, 'so does another nginx');
    nobody_enters('behind it');
    ok(!$other->has_won, 'who waits as well');

    let_out($visit, $http, 'nginx is done');
    ok($other->wins, "$who has the lock");
    nobody_enters('alone');
    is($nginx->get('/now?key=one')->{status}, 423,
       'nginx does not get it at once');

    # The other nginx has the lock next.

    ok($other->resign, "$who is done");
    $visit = $door->enters(10);
    ok($visit, 'the other nginx lets a request in');
    let_out($visit, $third, 'and it is done');
    queue_is(0, 'nobody is left');

    # The key of a program that dies is waited out.

    my $dies = $want->();

    ok($dies->wins, "$who has the lock first");
    $http = ask($nginx);
    queue_is(2, 'nginx waits');
    nobody_enters('behind it');

    my $lease = (queue())[0]{lease};

    $dies->crash;
    nobody_enters("$who dies: its key is still there");
    $etcd->revoke($lease);
    $visit = $door->enters(10);
    ok($visit, 'until its end: nginx has the lock');

    # A program that leaves while it waits leaves no gap.

    my ($leaves, $last) = ($want->());

    queue_is(2, "$who waits");
    $last = $want->();
    queue_is(3, 'twice');
    $lease = (queue())[1]{lease};
    $leaves->crash;
    $etcd->revoke($lease);
    queue_is(2, 'the first one leaves');
    sleep(QUIET);
    ok(!$last->has_won, 'the other one waits on');
    let_out($visit, $http, 'nginx is done');
    ok($last->wins, 'and the other one has the lock');
    ok($last->resign, 'and is done');
    queue_is(0, 'nobody is left');
}


# etcdctl's lease ends when the test wants that, and not sooner.

take_turns('etcdctl', 'etcdctl', '--endpoints', $etcd->url, 'lock', '--ttl',
           60);

SKIP: {
    my $go = Go::build("$FindBin::Bin/../go/hold.go") // skip(Go::MISSING, 1);

    take_turns('go', $go, 'lock', $etcd->url);
}

finish();
