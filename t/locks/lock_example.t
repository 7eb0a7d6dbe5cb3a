#!/usr/bin/perl

# conf-examples/lock.conf does what it says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Example;
use Finish;
use Lock;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my $backend = Backend->start('one');

my $text = Example::text('lock', 'etcd');

$text =~ s/127\.0\.0\.1:9000/%%ONE%%/g;
$text =~ s{(?=        # one request at a time for each)}
          {        location = /status { etcd_status; }\n\n};

# a rate that does not depend on the time that the test takes

$text =~ s{rate=10r/s}{rate=1r/m};

# All requests are to wait until the test has looked at them.

$text =~ s/ wait=5s/ wait=60s/g;

my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $backend->address)
                                     ->start($text);
my $lock = Lock->new($nginx, $etcd);

$backend->set(hang => 1);

my ($order, $same, $another) = map { $nginx->begin("/orders/$_") } 1, 1, 2;

wait_for { $backend->requests == 2 } 10, 'requests for two orders';
$lock->waits('/locks/orders', 1, 'a second one for an order waits');
is($backend->requests, 2, 'those for others do not');

my @reports = map { $nginx->begin("/reports/$_") } 1 .. 6;

$lock->holds('/locks/reports', 4, 'four reports at a time');
$lock->waits('/locks/reports', 2, 'others wait');
wait_for { $backend->requests == 6 } 10, 'reports';
is($backend->requests, 6, 'before the backend');

is($nginx->get($_)->{status}, 404, "no other way to write an order: $_")
    for '/orders/01', '/orders/1/', '/orders/';

my @reads = map { $nginx->begin('/catalog/') } 1, 2;
my @writes = map {
    my $client = $nginx->http;

    $client->send('DELETE', '/catalog/');
    $client;
} 1, 2;

$lock->holds('/locks/catalog', 1, 'a change of the catalogue');
$lock->waits('/locks/catalog', 1, 'one change of the catalogue at a time');
wait_for { $backend->requests == 9 } 10, 'reads';
is($backend->requests, 9, 'and reads without a lock');

my $job = $nginx->begin('/jobs/nightly');

$lock->holds('/locks/jobs', 1, 'a job runs');
is($nginx->get('/jobs/nightly')->{status}, 423, 'once at a time');

$backend->set(hang => 0);
is(join(' ', map { $_->receive->{status} }
             $order, $same, $another, $job, @reports, @reads, @writes),
   join(' ', (200) x 14), 'all are answered');
$lock->gone("/locks/$_", "$_: nothing is left")
    for qw(orders reports jobs catalog);
is($nginx->get('/jobs/nightly')->{status}, 200, 'the job may run again');

# A client goes through the orders: 21 at once, of which 3 were its share.

my %got;

$got{$nginx->get("/orders/$_")->{status}}++ for 101 .. 140;

is_deeply(\%got, { 200 => 18, 429 => 22 }, 'a client has a limit');
is($lock->count('/locks/orders', 'acquired'), 21,
   'beyond which it locks nothing');

finish();
