#!/usr/bin/perl

# Holders of a lock and requests that wait for it, in the status of every
# worker: requests of a worker count as long as it lives, and as far as there is
# room.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(sha256_hex);
use List::Util qw(sum0);
use Test::More;

use Door;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Wait;

use constant {
    WORKERS => 2,
    ROWS    => 64,           # rows of a worker
};

my $etcd = Etcd->new()->start();
my $door = Door->new();
my $config = <<'EOF_CONFIG';

worker_processes %%WORKERS%%;

events {
    worker_connections 2048;
}

etcd {
    endpoints %%ETCD%%;
    lock_ttl 5s;
    zone 512k;
}

http {
    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        # a client that leaves gives its lock up, whatever its backend does

        etcd_lock_hold client;
        proxy_set_header X-Token $etcd_lock_token;
        proxy_set_header X-Worker $pid;

        location = /status {
            etcd_status;
            add_header X-Worker $pid;
        }

        location /key {
            etcd_lock /locks/key $arg_k wait=600s;
            proxy_pass http://%%DOOR%%;
        }

        location /name {
            etcd_lock /locks/name wait=600s;
            proxy_pass http://%%DOOR%%;
        }

        location /permits {
            etcd_lock /locks/permits wait=600s permits=3;
            proxy_pass http://%%DOOR%%;
        }

        location /handoff {
            etcd_lock /locks/handoff wait=600s reuse=1001;
            proxy_pass http://%%DOOR%%;
        }
    }
}

EOF_CONFIG

my $nginx = Nginx->new(etcd => $etcd)
    ->set(DOOR => $door->address, WORKERS => WORKERS)->start($config);
my $lock = Lock->new($nginx, $etcd);


# N clients that send one request each, and are closed with the returned list

sub come {
    my ($n, $path) = @_;

    return map {
        my $client = $nginx->http;

        $client->{timeout} = 120;
        $client->send('GET', $path);
        $client;
    } 1 .. $n;
}


sub holders { @{ $lock->list($_[0], 'holders') } }
sub waiters { @{ $lock->list($_[0], 'waiters') } }
sub ordered { sort { $a <=> $b } @_ }
sub tokens { ordered(map { $_->header('x-token') } @_) }
sub tokens_of { ordered(map { $_->{token} } holders($_[0])) }
sub waiting { sum0(map { $_->{waiting} } waiters($_[0])) }


# A visitor that stays: some of the clients that left had just come in.

sub enters {
    my $visit;

    wait_for { $visit = $door->enters(1) and !$visit->is_gone } 30, 'a visit'
        or die "nobody comes in\n";

    return $visit;
}


# The holder is the request of that visit.

sub is_holder {
    my ($holder, $visit, $key, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my %rest = %{ $holder // {} };
    my $held = delete $rest{held_ms};

    is_deeply(\%rest, { key => $key, pid => $visit->header('x-worker') + 0,
                        token => $visit->header('x-token') + 0,
                        shared => 0 }, $name);
    like($held, qr/^\d+$/, "$name: for how long");
}


# no requests

is_deeply($lock->list('/locks/key', $_), [], "no $_") for qw(holders waiters);

# one request

my @first = come(1, '/key?k=a/b%3C');
my $visit = enters();

is(scalar(holders('/locks/key')), 1, 'a holder');
is_holder((holders('/locks/key'))[0], $visit, 'a%2Fb%253C',
          'by its worker and its token');
is_deeply([waiters('/locks/key')], [], 'nobody waits');

my ($then) = holders('/locks/key');

ok(wait_for(sub { (holders('/locks/key'))[0]{held_ms} > $then->{held_ms} }, 10),
   'the time goes by');

# Every worker shows the same.

my %workers;

wait_for {
    my $answer = $nginx->http->get('/status');

    $workers{$answer->{headers}{'x-worker'}}
        = $answer->{body} =~ /"key": ?"a%2Fb%253C"/;
    keys %workers == WORKERS;
} 20, 'the status of each worker';

is_deeply([values %workers], [(1) x WORKERS], 'every worker shows it');

# Others come for that key, and for another one.

my @others = come(6, '/key?k=a/b%3C');
my @another = come(1, '/key?k=2');
my $second = enters();

$lock->waits('/locks/key', 6, 'others wait');
is(waiting('/locks/key'), 6, 'in the queues of workers');

my %pids = map { $_ => 1 } $nginx->workers;

is_deeply([grep { !$pids{$_->{pid}} || $_->{waiting_ms} !~ /^\d+$/
                  || $_->{key} ne 'a%2Fb%253C' }
           waiters('/locks/key')], [], 'of which each is a worker\'s');
is(join(' ', sort map { $_->{key} } holders('/locks/key')),
   '2 a%2Fb%253C', 'another key has another holder');

my $token = $visit->header('x-token');

$visit->leave();
$visit = enters();
cmp_ok($visit->header('x-token'), '>', $token, 'it is the turn of the next');
$lock->waits('/locks/key', 5, 'one less waits');
is(waiting('/locks/key'), 5, 'and is shown no more');

my ($now) = grep { $_->{key} ne '2' } holders('/locks/key');

is_holder($now, $visit, 'a%2Fb%253C', 'the next holder');

$_->close() for @others, @another, @first;
$lock->gone('/locks/key', 'all leave');
$lock->holds('/locks/key', 0, 'nobody holds it');
is_deeply($lock->list('/locks/key', $_), [], "there are no $_ any more")
    for qw(holders waiters);

# requests without a key, and with more permits

my @name = come(1, '/name');
my $named = enters();

is_holder((holders('/locks/name'))[0], $named, '', 'a lock without a key');
$_->close() for @name;

my @permits = come(5, '/permits');
my @permitted = map { enters() } 1 .. 3;

is_deeply([tokens_of('/locks/permits')],
          [tokens(@permitted)],
          'three permits: three holders');
$lock->waits('/locks/permits', 2, 'two wait');
is(waiting('/locks/permits'), 2, 'as is shown');
$_->close() for @permits;
$lock->gone('/locks/permits', 'they leave');

# The lock goes from hand to hand within a worker.

my @hands = come(10, '/handoff');

for my $n (1 .. 10) {
    my $inside = enters();

    $lock->waits('/locks/handoff', 10 - $n, 'the rest waits') if $n == 1;
    is_holder((holders('/locks/handoff'))[0], $inside, '', "hand $n");
    $inside->leave();
}

cmp_ok($lock->count('/locks/handoff', 'handoffs'), '>', 0, 'there were hands');
$_->close() for @hands;
$lock->gone('/locks/handoff', 'nobody is left');

# There are more keys than a worker has rows for.

my $long = 'x' x 200;
my @many = come(1, "/key?k=$long");
my @inside = enters();

push @many, map { come(1, "/key?k=$_") } 1 .. 3 * ROWS;
push @inside, map { enters() } 1 .. 3 * ROWS;

my %of;

$of{$_->header('x-worker')}++ for @inside;

my @shown = holders('/locks/key');
my %shown;

$shown{$_->{pid}}++ for @shown;

is($lock->count('/locks/key', 'held'), 3 * ROWS + 1, 'all are counted');
is_deeply(\%shown, { map { $_ => $of{$_} < ROWS ? $of{$_} : ROWS } keys %of },
          'and shown as far as there are rows');
is((grep { length($_->{key}) > 3 } @shown)[0]{key},
   'x' x 24 . '~' . sha256_hex($long), 'a long key is shown as it is in etcd');

$_->leave() for splice(@inside, 0, 3 * ROWS - 5);
$lock->holds('/locks/key', 6, 'most leave');
push @many, come(4, '/key?k=again');
push @inside, enters();
$lock->waits('/locks/key', 3, 'others come');
is(waiting('/locks/key'), 3, 'and find a row for their queues');
is(scalar(grep { $_->{key} eq 'again' } holders('/locks/key')), 1,
   'and for who holds it');
$_->close() for @many;
$lock->gone('/locks/key', 'all leave again');
is_deeply($lock->list('/locks/key', $_), [], "there are no $_ then")
    for qw(holders waiters);

# A worker is killed.

my @for_life = map { come(1, "/key?k=$_") } 1 .. 40;
my @lives = map { enters() } 1 .. 40;
my ($victim) = map { $_->header('x-worker') } @lives;
my @survive = grep { $_->header('x-worker') != $victim } @lives;

is(scalar(grep { $_->{pid} == $victim } holders('/locks/key')),
   @lives - @survive, 'what a worker holds');
$nginx->kill_worker($victim);

ok(wait_for(sub { $nginx->workers == WORKERS }, 20), 'another takes its place');
is_deeply([tokens_of('/locks/key')],
          [tokens(@survive)],
          'a killed worker holds nothing that is shown');

my @back = map { come(1, "/key?k=new$_") } 1 .. 40;
my @backs = map { enters() } 1 .. 40;

is_deeply([tokens_of('/locks/key')],
          [tokens(@survive, @backs)],
          'and the next one shows its own');

# A reload: requests that are still inside are shown beside new ones.

ok($nginx->reload(), 'a reload');

my @after = come(1, '/key?k=after');
my $young = enters();

is_deeply([tokens_of('/locks/key')],
          [tokens(@survive, @backs, $young)], 'old workers and new ones');
$_->leave() for @survive, @backs;
ok(wait_for(sub { !$nginx->leaving }, 30), 'the old ones leave');
is_holder((holders('/locks/key'))[0], $young, 'after', 'whoever stays');
is(scalar(holders('/locks/key')), 1, 'alone');
$young->leave();
$lock->gone('/locks/key', 'and is gone at last');

finish();
