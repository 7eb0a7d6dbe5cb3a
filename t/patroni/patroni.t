#!/usr/bin/perl

# PostgreSQL under Patroni: writers reach the primary and nobody else, without
# an error if waiting helps, in all faults of the primary.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Etcd;
use Finish;
use Nginx;
use Patroni;
use Port;
use Wait;
use PgClient;

use constant {
    TTL         => 20,
    SWITCHOVERS => 3,
};

my $etcd = Etcd->new()->start();
my $patroni = Patroni->new(etcd => $etcd, ttl => TTL)->start();
my $to_writer = free_port();
my $to_readers = free_port();
my $since;

my $nginx = Nginx->new(etcd => $etcd)->set(
    PREFIX  => $patroni->prefix,
    WRITER  => $to_writer,
    READERS => $to_readers,
);

$nginx->start(<<'EOF');

etcd {
    endpoints %%ETCD%%;
}

stream {
    upstream writer {
        etcd_leader %%PREFIX%% format=patroni confirm=api on_change=close
                                        max_fails=1 fail_timeout=5s;
    }

    upstream readers {
        etcd_leader %%PREFIX%% format=patroni role=replica;
    }

    server {
        listen 127.0.0.1:%%WRITER%%;
        etcd_wait writer 60s;
        proxy_pass writer;
        proxy_connect_timeout 2s;
    }

    server {
        listen 127.0.0.1:%%READERS%%;
        etcd_wait readers 60s;
        proxy_pass readers;
    }
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;
        location /status {
            etcd_status;
        }
    }
}

EOF

PgClient::create_table($to_writer);

my $new = PgClient->start($to_writer);
my $kept = PgClient->start($to_writer, keep => 1);

ok(writing(), 'both clients write');

for my $n (1 .. SWITCHOVERS) {
    fault("switchover $n", sub { $patroni->switchover() });

    is(scalar($new->failed($since)), 0,
       "switchover $n: no new connection sees an error");
}

my $primary = $patroni->primary;

fault('the primary is killed', sub { $primary->crash() });
$primary->start();
ok(wait_for(sub { $patroni->healthy }, 120), 'it comes back as a replica');

$primary = $patroni->primary;

fault('the primary is stopped', sub { $primary->freeze() });
$primary->thaw();
ok(wait_for(sub { $patroni->healthy }, 120), 'it comes back as a replica');
ok(writing(), 'both clients write on');

my ($recovering) = map { $_->selectrow_array('SELECT pg_is_in_recovery()') }
                       Patroni::connect($to_readers);

ok($recovering, 'readers reach a replica');

$_->stop() for $new, $kept;

my %written = map { $_ => 1 } PgClient::written($to_writer);

is(scalar(grep { !$written{$_} } $new->acknowledged, $kept->acknowledged), 0,
   'no write that was acknowledged is lost');

finish();


sub writing {
    my $now = time();

    return wait_for { $new->writes_since($now)
                      && $kept->writes_since($now) } 10, 'writes';
}


# Breaks the primary; both clients are to write to another one.

sub fault {
    my ($name, $break) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    # Only a synchronous replica may take over.

    wait_for { $patroni->healthy } 120, "a healthy cluster";

    my $before = $patroni->primary;

    $since = time();
    $break->();

    ok(wait_for(sub {
        my $primary = $patroni->primary;

        return $primary && $primary != $before;
    }, 4 * TTL), "$name: there is another primary");

    ok(writing(), "$name: both clients write to it");

    diag(sprintf('%s: new connections without a write for %.0f ms, %d errors; '
                 . 'a kept one for %.0f ms, stuck for %.0f', $name,
                 1000 * $new->outage($since),
                 scalar($new->failed($since)),
                 1000 * $kept->outage($since),
                 1000 * $kept->stuck($since)));
}
