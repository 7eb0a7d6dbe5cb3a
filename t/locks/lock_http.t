#!/usr/bin/perl

# The time in a request's life at which a lock is taken and given up: redirects
# and error pages, several locks, HTTP/2, phases before and after.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Lock;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my ($backend, $other) = Backend->start('one', 'two');

my $nginx = Nginx->new(etcd => $etcd)->set(
    ONE => $backend->address,
    TWO => $other->address,
);

$nginx->write_file('index.html', 'the index');
$nginx->write_file('first', 'a first file');

$nginx->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        root %%DIR%%;
        add_header X-Token $etcd_lock_token always;
        add_header X-Status $etcd_lock_result always;

        location = /status {
            etcd_status;
        }

        location / {
            etcd_lock /locks/redirect $uri;
        }

        location /error {
            etcd_lock /locks/error;
            error_page 502 = @error;
            proxy_intercept_errors on;
            proxy_pass http://%%ONE%%;
        }

        location @error {
            etcd_lock /locks/error;
            proxy_pass http://%%TWO%%;
        }

        location /refused {
            etcd_lock /locks/error;
            error_page 423 = @refused;
            proxy_pass http://%%ONE%%;
        }

        location @refused {
            etcd_lock off;
            return 200 refused;
        }

        location /two {
            etcd_lock /locks/b $arg_b wait=600s;
            etcd_lock /locks/a $arg_a wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location /reversed {
            etcd_lock /locks/a $arg_a wait=600s;
            etcd_lock /locks/b $arg_b wait=600s;
            proxy_pass http://%%ONE%%;
        }

        # "d" is held by a request for /d

        location /d {
            etcd_lock /locks/d;
            proxy_pass http://%%ONE%%;
        }

        location /both {
            etcd_lock /locks/c;
            etcd_lock /locks/d;
            error_page 423 = /either;
        }

        location /either {
            etcd_lock /locks/c;
            proxy_pass http://%%TWO%%;
        }

        location /again {
            etcd_lock /locks/d;
            etcd_lock /locks/c;
            error_page 423 = /both;
        }

        location /inherits {
            etcd_lock /locks/c;
            etcd_lock /locks/d;
            error_page 423 = /inherits/page;
            proxy_pass http://%%TWO%%;

            location /inherits/page {
                proxy_pass http://%%TWO%%;
            }
        }

        location /first {
            etcd_lock /locks/a $arg_a empty=pass;
            etcd_lock /locks/b $arg_b empty=pass;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd);


sub revision { return $etcd->revision }


# An index is an internal redirect, to a location with the same lock.

my $before = revision();

is($nginx->get('/')->{body}, 'the index', 'an internal redirect');
$lock->gone('/locks/redirect', 'its lock is given up');
is(revision() - $before, 2, 'and was taken once');

$backend->set(status => 502);
$other->set(hang => 1);

my $client = $nginx->begin('/error');

wait_for { $other->requests == 1 } 10, 'the error page';
is(scalar(() = $lock->keys('/locks/error')), 1, 'held through an error page');
is($nginx->get('/refused')->{body}, 'refused', 'a refusal may have a page');
$other->set(hang => 0);

my $answer = $client->receive;

is($answer->{status}, 200, 'which answers');
is($answer->{headers}{'x-status'}, 'acquired', 'with the lock');
$lock->gone('/locks/error', 'which is given up then');
is($lock->count('/locks/error', 'acquired'), 1, 'and was taken once');
$backend->set(status => 200);


# Several locks: many requests that take two each, in all orders.

$backend->reset;
$backend->set(delay => 0.002);

my @clients = map {
    ($nginx->begin("/two?a=$_&b=" . (4 - $_)),
     $nginx->begin("/reversed?a=$_&b=$_"))
} (1 .. 4) x 6;

is(join(' ', map { $_->receive->{status} } @clients),
   join(' ', (200) x 48), 'two locks at a time: nobody waits for ever');
$lock->gone("/locks/$_", 'all are given up') for qw(a b);

$answer = $nginx->get('/two?a=1&b=1');
like($answer->{headers}{'x-token'}, qr/^\d+, \d+$/, 'a token for each');

my ($a, $b) = split(/, /, $answer->{headers}{'x-token'});

cmp_ok($a, '<', $b, 'taken in the order of their names');
is($nginx->get('/first?a=1')->{body}, 'a first file', 'a key may be empty');
is($nginx->get('/first')->{headers}{'x-status'}, undef, 'or both');
$backend->set(delay => 0);

$backend->set(hang => 1);
$client = $nginx->begin('/two?a=x&b=y');
wait_for { $lock->keys('/locks/b') } 10, 'both locks';
is($nginx->get('/first?a=z&b=y')->{status}, 423, 'the second one is held');
wait_for { !$lock->keys('/locks/a/z') } 10, 'the first one';
is_deeply([$lock->keys('/locks/a/z')], [], 'the first one is given up then');
$backend->set(hang => 0);
is($client->receive->{status}, 200, 'the holder is answered');


# A lock that was given back since another one was refused.

$backend->set(hang => 1);
$client = $nginx->begin('/d');
$lock->holds('/locks/d', 1, 'one lock is held');

sub refused {
    my ($uri, $taken, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $before = $lock->count('/locks/c', 'acquired');
    my $answer = $nginx->get($uri);

    is($answer->{status}, 423, "$name: it is refused again");
    is($answer->{headers}{'x-status'}, 'timeout', "$name: and knows why");
    is($answer->{headers}{'x-token'}, undef, "$name: without a token");
    is($lock->count('/locks/c', 'acquired') - $before, $taken,
       "$name: the other lock is taken as often");
    $lock->gone('/locks/c', "$name: and given back");
}

$answer = $nginx->get('/both');
is($answer->{status}, 200, 'an error page may take the other one again');
is($answer->{headers}{'x-status'}, 'acquired', 'and has it');
like($answer->{headers}{'x-token'}, qr/^\d+$/, 'with its token');
$lock->gone('/locks/c', 'until its end');
refused('/again', 2, 'a page with both');
refused('/inherits', 1, 'a page that inherits both');
$backend->set(hang => 0);
is($client->receive->{status}, 200, 'the holder is answered');

finish();
