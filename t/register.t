#!/usr/bin/perl

# An nginx registers itself: the key is there while it is, and no longer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Sys::Hostname;
use Test::More;
use Time::HiRes qw(sleep time);

use Etcd;
use Finish;
use Nginx;
use Wait;

use constant TTL => 3;

my $etcd = Etcd->new()->start();

my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    namespace /team;
    register /nginx/1 value=%%VALUE%% ttl=%%TTL%%s;
    register /nginx/10 value=another ttl=60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /slow/ {
            alias %%DIR%%/;
            limit_rate 1k;
        }
    }
}

EOF_CONFIG

my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(VALUE => 'at-$hostname', TTL => TTL);
$nginx->write_file('large', 'x' x 16384);
$nginx->start($config);


sub key {
    my ($key) = grep { $_->{key} eq '/team/nginx/1' }
        $etcd->list('/team/nginx/1');

    return $key // {};
}

sub becomes {
    my ($value, $name, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { (key()->{value} // '') eq $value } $seconds // 10, $value;

    return is(key()->{value}, $value, $name);
}

sub gone {
    my ($name, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok(wait_for(sub { !%{ key() } }, $seconds), $name);
}

# it is there all the time, with the same lease

sub stays {
    my ($seconds, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $end = time() + $seconds;
    my %seen;

    while (time() < $end) {
        $seen{key()->{lease} // 'gone'}++;
        sleep(0.02);
    }

    is(scalar(keys %seen), 1, $name) or diag(join(' ', keys %seen));
}


my $value = 'at-' . hostname();

becomes($value, 'registered');
is(key()->{version}, 1, 'by one put');
is($etcd->get('/team/nginx/10'), 'another', 'and so is the other one');
cmp_ok(key()->{lease}, '!=', 0, 'with a lease');
stays(TTL * 2, 'longer than the TTL');

my $lease = key()->{lease};

$nginx->kill_worker($nginx->status->{agent}{pid});
ok($nginx->reload(undef, gone => 1), 'the agent is killed, and a reload');
stays(TTL + 1, 'it stays');
is(key()->{lease}, $lease, 'with the same lease');
is(key()->{version}, 1, 'nothing was put');

$nginx->set(VALUE => 'two');
ok($nginx->reload($config, gone => 1), 'a reload with another value');
becomes('two', 'is put');
is(key()->{lease}, $lease, 'with the same lease');

# what others do to it

$etcd->del('/team/nginx/1');
becomes('two', 'deleted: put again');

$etcd->revoke($lease);
becomes('two', 'revoked: put again');
isnt(key()->{lease}, $lease, 'with another lease');

$etcd->put('/team/nginx/1', 'mine');
ok(wait_for(sub { $nginx->count_log(qr/put by somebody else/) }, 5),
   'put by somebody else: said');
stays(TTL, 'it is left to him');
is(key()->{value}, 'mine', 'as he put it');

$etcd->del('/team/nginx/1');
becomes('two', 'and taken back when it is gone');
is($nginx->count_log(qr/put by somebody else/), 1, 'it was said once');
$nginx->expect(qr/put by somebody else/);

# etcd is away

$lease = key()->{lease};
$etcd->stop();
ok(wait_for(sub { $nginx->count_log(qr/is lost: it was not renewed/) },
            TTL * 2), 'etcd is away for longer than the TTL');

$etcd->start();
ok(wait_for(sub { (key()->{lease} // $lease) ne $lease }, 20),
   'it is back: so is the key, with another lease');
becomes('two', 'as before');

# the end

my $slow = $nginx->http;

$slow->send('GET', '/slow/large');
ok(wait_for(sub { $nginx->status }, 5), 'a long request');
kill('QUIT', $nginx->pid);
gone('QUIT: it is gone at once', 1);
ok($nginx->children, 'while requests are served');
$slow->close;
$nginx->quit();

$nginx->start();
becomes('two', 'started again');
$nginx->stop();
gone('TERM: it is gone at once', 0.5);
is($etcd->get('/team/nginx/10'), undef, 'and so is the other one');

$nginx->start();
becomes('two', 'started again');

my $old = key()->{lease};

$nginx->crash();
is(key()->{value}, 'two', 'all are killed: it stays');
$nginx->start();
ok(wait_for(sub { (key()->{lease} // $old) != $old }, 10),
   'a new nginx puts its own');
stays(TTL * 2, 'which does not go with the old lease');

(my $without = $config) =~ s/^ *register.*\n//mg;

ok($nginx->reload($without, gone => 1), 'a reload without it');
gone('it is gone', 1);
is($etcd->get('/team/nginx/10'), undef, 'and so is the other one');

finish();
