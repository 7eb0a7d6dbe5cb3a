#!/usr/bin/perl

# A member of a cluster that is stopped for a minute, and an etcd that is gone
# for a minute.  Meanwhile certificates, tokens and passwords of another etcd
# change.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Chaos;
use Cluster;
use Etcd;
use Fault;
use Finish;
use Tls;
use Wait;

use constant {
    STOPPED  => 60,
    INTERVAL => 5,              # ping_interval and ping_timeout of Fault
    TIMEOUT  => 1,
    TTL      => 5,
};


my $slower = $ENV{TEST_SLOWER} || 1;

# a cluster, and its nginx

my $cluster = Cluster->new(3)->start();
my $stop = Fault->start(etcds => [$cluster->members]);
my $stopped = $cluster->member_at($stop->endpoint);
my $start;

$stop->begin('SIGSTOP of the member in use for a minute', sub {
    $start = time();
    $stopped->freeze();

    ok(wait_for(sub { $stop->endpoint ne $stopped->url
                      && $stop->is_synced },
                4 * (INTERVAL + TIMEOUT)), 'another one is used');
    cmp_ok($stop->lasted($start, time()), '<=',
           (INTERVAL + TIMEOUT + 1) * $slower,
           'after ping_interval and ping_timeout');
});

# an etcd that is gone for as long, and its nginx

my $lone = Etcd->new()->start();
my $gone = Fault->start(etcds => [$lone], pause => 0.05);

$gone->begin('no etcd for a minute', sub { $lone->kill() });

# an etcd with TLS, and its nginx

my $dir = test_dir();
my $ca = Tls->new('ca');

sub install {
    $ca->issue('server', san => 'IP:127.0.0.1')->install($dir, 'server');
    $ca->issue('client')->install($dir, 'client');
    Tls::join_files("$dir/ca.crt", $ca->cert);
}

install();

my $etcd = Etcd->new(
    tls  => { cert => "$dir/server.crt", key => "$dir/server.key",
              ca => "$dir/ca.crt" },
    args => ['--auth-token-ttl', TTL, '--bcrypt-cost=4',
             '--log-level=debug'],
)->start();

my $way = Chaos->start($etcd->tls_port);
my $nginx = Fault::nginx();

$etcd->user_add('nginx', 'first', '/s/');
$nginx->write_secret('password', 'first');

my $test = Fault->start(
    etcds     => [$etcd],
    nginx     => $nginx,
    root      => 'root-secret',
    endpoints => 'https://127.0.0.1:' . $way->port,
    cluster   => "ssl_trusted_certificate $dir/ca.crt;"
                 . "ssl_certificate $dir/client.crt;"
                 . "ssl_certificate_key $dir/client.key;"
                 . 'user nginx; password_file password;',
);

# the newest token of nginx

sub token { ($etcd->tokens('nginx'))[-1] }


$test->fault('certificates are replaced', sub {
    install();
    ok($test->reconnects($way), 'the new ones are used');
}, sub { }, times => 2);

# The new certificates are of another authority: both are trusted while they are
# replaced.

$test->fault('the authority is replaced', sub {
    my $old = $ca->cert;

    $ca = Tls->new('another');
    Tls::join_files("$dir/ca.crt", $old, $ca->cert);
    $etcd->restart();
    install();
    ok($test->reconnects($way), 'its certificates are used');
}, sub { $etcd->restart() });

# Without a token, etcd takes the name in the certificate for the user's: it
# denies nginx the calls, and does not ask for a token.

$test->fault('authentication is enabled', sub {
    $etcd->auth_enable('root-secret');
    ok($test->reconnects($way), 'nginx authenticates');
}, sub { });

$test->fault('the token expires', sub {
    my $token = token();

    ok(wait_for(sub {
        $etcd->has_forgotten('nginx', $token)
    }, 6 * TTL), 'etcd has forgotten it');
    ok($test->reconnects($way), 'there is another one');
}, sub { });

$test->fault('the password is changed', sub {
    $etcd->user_passwd('nginx', 'second');
    $way->cut();
    ok(wait_for(sub { $test->state eq 'unauthorized' }, 10),
       'the old one is refused');
}, sub { $nginx->write_secret('password', 'second') });

$test->fault('rights are taken and given', sub {
    $etcd->revoke_read('nginx', '/s/');
    $way->cut();
    ok(wait_for(sub { $test->state eq 'denied' }, 10),
       'the prefix is denied');
}, sub { $etcd->grant_read('nginx', '/s/') });

$test->fault('authentication is disabled', sub {
    $etcd->auth_disable();
    ok($test->reconnects($way), 'nginx goes without');
}, sub { });

$test->finished();

# The member stays stopped for the whole minute.

sleep(0.1) while time() < $start + STOPPED;

$stop->end(sub {
    $stopped->thaw();
    $cluster->wait_healthy();
});

$gone->end(sub { $lone->start() });

$_->finished() for $stop, $gone;

finish();
