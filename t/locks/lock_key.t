#!/usr/bin/perl

# The KEY of etcd_lock, which clients may choose: an empty one, of one lock or
# of several, for http and stream, a map that lets only expected values through,
# and long ones.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(sha256_hex);
use Test::More;

use Backend;

use Docs;
use Etcd;
use Finish;
use Line;
use Lock;
use Nginx;
use Process;
use Wait;

my $etcd = Etcd->new()->start();
my $line = Line->start('one');
my $stream = Nginx::has('stream');

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    map $arg_id $order {
        ~^[1-9][0-9]*$  $arg_id;
        default         "";
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        root %%DIR%%;
        add_header X-Token $etcd_lock_token always;
        add_header X-Order $order always;

        location = /status {
            etcd_status;
        }

        location /long {
            etcd_lock /locks/long $arg_k;
            proxy_pass http://%%BACKEND%%;
        }

        location /refuse {
            etcd_lock /locks/refuse $arg_k;
        }

        location /pass {
            etcd_lock /locks/pass $arg_k empty=pass;
        }

        location /two {
            etcd_lock /locks/c $arg_c empty=pass;
            etcd_lock /locks/b $arg_b;
            etcd_lock /locks/a $arg_a;
        }

        location /page {
            etcd_lock /locks/page $arg_k;
            error_page 400 = @page;
        }

        location @page {
            etcd_lock off;
            return 200 page;
        }

        location /orders {
            etcd_lock /locks/orders $order;
        }
    }
}

END

$config .= <<'END' if $stream;

stream {
    map $server_port $none {
        default "";
    }

    log_format lock "$server_port $status";
    access_log %%DIR%%/stream.log lock;

    server {
        listen 127.0.0.1:%%PORT_refuse%%;
        etcd_lock /locks/refuse $none;
        proxy_pass %%ONE%%;
    }

    server {
        listen 127.0.0.1:%%PORT_two%%;
        etcd_lock /locks/a $server_port;
        etcd_lock /locks/b $none;
        proxy_pass %%ONE%%;
    }

    server {
        listen 127.0.0.1:%%PORT_pass%%;
        etcd_lock /locks/pass $none empty=pass;
        proxy_pass %%ONE%%;
    }
}

END

my $backend = Backend->start('backend');
my $nginx = Nginx->new(etcd => $etcd)->set(
    ONE     => $line->address,
    BACKEND => $backend->address,
);
my $lock = Lock->new($nginx, $etcd);

$nginx->write_file($_, 'a file') for qw(refuse pass two orders);
$nginx->start($config);


sub tokens {
    my ($path) = @_;

    my $answer = $nginx->get($path);
    my @tokens = split(/, /, $answer->{headers}{'x-token'} // '');

    return "$answer->{status} " . @tokens;
}


# a request with one lock

is(tokens('/refuse?k=1'), '200 1', 'a key');
is(tokens("/refuse$_"), '400 0', "no key: /refuse$_")
    for '', '?k=', '?K', '?kk=1';
is(tokens("/pass$_"), '200 0', "no key, and no lock: /pass$_") for '', '?k=';
is(tokens('/pass?k=1'), '200 1', 'a key, and a lock');
is($nginx->get('/page')->{body}, 'page', 'a refusal may have a page');
$nginx->logs(qr/key "\$arg_k" of lock "\/locks\/refuse" is empty/, 4,
             'the log says which key is empty');


# Several locks: all keys but those with "empty=pass" have to be there.

is(tokens('/two?a=1&b=1&c=1'), '200 3', 'three keys');
is(tokens('/two?a=1&b=1'), '200 2', 'one may be empty');

$lock->gone("/locks/$_", "$_: nothing is left") for qw(a b c);

my $before = $etcd->revision;

is(tokens($_), '400 0', "a key less: $_")
    for '/two?a=1&c=1', '/two?b=1&c=1', '/two?a=1&b=&c=1', '/two';
is($etcd->revision, $before, 'who is refused takes none of the others');


# the map of the documentation

is(tokens('/orders?id=17'), '200 1', 'an expected key');
is(tokens("/orders?$_"), '400 0', "one that is not: $_")
    for 'id=', 'id=%31', 'id=017', 'id=1%32', 'id=+1', 'id=1/', 'x=1', 'id=a';
is($nginx->get('/orders?id=1&id=2')->{headers}{'x-order'}, 1,
   'the backend is told the key that the lock has');


# Long keys: their names in etcd are bounded, different keys are different
# locks, and none is the lock of a short key.

$backend->set(hang => 1);

my $long = 'x' x 65;
my %segment = (
    'x' x 64          => 'x' x 64,
    '/' x 21 . 'x'    => '%2F' x 21 . 'x',
    '/' x 21 . 'xx'   => '%2F' x 8 . '~' . sha256_hex('/' x 21 . 'xx'),
    'x/' x 33         => 'x%2F' x 6 . '~' . sha256_hex('x/' x 33),
    'xx' . '/' x 33   => 'xx' . '%2F' x 7 . '~' . sha256_hex('xx' . '/' x 33),
    $long             => 'x' x 24 . '~' . sha256_hex($long),
    'x' x 4000        => 'x' x 24 . '~' . sha256_hex('x' x 4000),
    'x' x 3999 . 'y'  => 'x' x 24 . '~' . sha256_hex('x' x 3999 . 'y'),
);

$segment{$segment{$long}} = 'x' x 24 . '~' . sha256_hex($segment{$long});

my @keys = sort keys %segment;
my @clients = map { $nginx->http } @keys;

$clients[$_]->send('GET', "/long?k=$keys[$_]") for 0 .. $#keys;

$lock->holds('/locks/long', scalar(@keys), 'each key is a lock of its own');

my @held = map { m{^/locks/long/(.*)/[0-9a-f]+-[0-9a-f]+$} }
           $lock->keys('/locks/long');

is_deeply([sort @held], [sort values %segment], 'named as documented');
is($nginx->get("/long?k=$keys[$_]")->{status}, 423, "key $_ is held")
    for 0 .. $#keys;
is((sort { $b <=> $a } map { length } @held)[0], 89,
   'the longest has 89 bytes');
$backend->set(hang => 0);
$_->receive for @clients;
$lock->gone('/locks/long', 'nothing is left');


# The shell lines of the documentation take the same lock.

my ($shell) = map { $_->{text} =~ /^(key=.*?)^etcdctl /ms }
              Docs::page('docs/locks.md')->fences;
my ($key) = $shell =~ /key=(\S+)/;
my ($status, $segment) = run('sh', '-c', "$shell printf %s \"\$segment\"");

is($status, 0, 'the shell lines of the documentation');
is($segment, substr($key, 0, 24) . '~' . sha256_hex($key),
   'say how a long key is named');

$etcd->put("/locks/long/$segment/1", '');
is($nginx->get("/long?k=$key")->{status}, 423, 'which nginx does alike');
$etcd->del("/locks/long/$segment/1");
is($nginx->get("/long?k=$key")->{status}, 200, 'and no other lock');


# stream

SKIP: {
    skip('this nginx has no stream', 5) if !$stream;

    my %client = map {
        $_ => Line::Client->new($nginx->port("PORT_$_"))
    } qw(refuse two pass);

    ok($client{$_}->is_closed(20), "$_: no key, and no connection")
        for qw(refuse two);
    is($client{pass}->ask('a'), 'one: a', 'no key, and no lock');
    $client{pass}->close;

    my @lines;

    wait_for { (@lines = $nginx->lines_of('stream.log')) == 3 } 10, 'the log';
    is(join(' ', sort map { (split)[1] } @lines),
       '200 400 400', 'the log has the status');
    $nginx->logs(qr/key "\$none" of lock "\/locks\/\w+" is empty/, 2,
                 'and why');
}

finish();
