#!/usr/bin/perl

# The failsafe mode of a real Patroni: clients write on while etcd is away and
# the primary stays the primary, and reach nobody once it is not.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Etcd;
use Finish;
use Nginx;
use Patroni;
use PgClient;
use Port;
use Upstream;
use Wait;

use constant {
    TTL       => 20,
    MAX_STALE => 4,
    ENDS      => 3,
};

my $etcd = Etcd->new()->start();
my $patroni = Patroni->new(etcd => $etcd, ttl => TTL, failsafe => 1)->start();
my $to_writer = free_port();

my $nginx = Nginx->new(etcd => $etcd)->set(
    PREFIX => $patroni->prefix,
    WRITER => $to_writer,
    STALE  => MAX_STALE,
);

$nginx->start(<<'END');

etcd {
    endpoints %%ETCD%%;
}

stream {
    upstream writer {
        etcd_leader %%PREFIX%% format=patroni confirm=api on_change=close
                               failsafe=on max_stale=%%STALE%%s;
    }

    server {
        listen 127.0.0.1:%%WRITER%%;
        etcd_wait writer 60s;
        proxy_pass writer;
        proxy_connect_timeout 2s;
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

END

my $writer = Upstream->new($nginx, 'writer', 'stream');

PgClient::create_table($to_writer);

my $new = PgClient->start($to_writer);
my $kept = PgClient->start($to_writer, keep => 1);

ok(writing(), 'both clients write');

# etcd is away for longer than the lease of the leader's key.

my $primary = $patroni->primary;
my $since = without_etcd();

ok(wait_for(sub { staleness() > 1.5 * TTL }, 3 * TTL),
   'etcd is away for long');
is($patroni->primary, $primary, 'the primary is the same');
ok(in_use(), 'nginx uses it on');
ok(writing(), 'both clients write');
is(scalar($_->failed($since)), 0, 'without an error') for $new, $kept;
cmp_ok($_->outage($since), '<', MAX_STALE, 'and without a pause')
    for $new, $kept;

# A replica is away: Patroni demotes the primary.

my ($replica) = grep { $_ != $primary } $patroni->members;

$replica->crash();
ends('Patroni demotes the primary', sub { !$primary->answers('/primary') });
with_etcd($replica);

# The primary dies.

$primary = $patroni->primary;
without_etcd();
$primary->crash();
ends('the primary dies', sub { 1 });
with_etcd($primary);

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


sub staleness { $nginx->status->{clusters}{default}{staleness_ms} / 1000 }
sub in_use { $writer->status->{failsafe} }


# Waits until only failsafe mode keeps the leader; returns the time at which
# that began.

sub without_etcd {
    wait_for { keys %{ failsafe() } == $patroni->members } 60,
        'the key "failsafe"';

    my $since = time();

    $etcd->stop();

    ok(wait_for(sub { in_use() }, 10 * MAX_STALE), 'nginx uses failsafe mode');

    return $since;
}


sub failsafe {
    my $value = $etcd->get($patroni->prefix . 'failsafe');

    return decode_json($value || '{}');
}


sub ends {
    my ($name, $condition) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(wait_for(sub { $condition->() }, 4 * TTL), $name);

    my $begun = time();

    wait_for { return !in_use() } 10 * ENDS, 'no failsafe mode';

    cmp_ok(time() - $begun, '<', ENDS, "$name: nginx does not use it");
}


sub with_etcd {
    my ($member) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $etcd->start();
    $member->start();

    ok(wait_for(sub { $patroni->healthy }, 120), 'etcd is back');
    ok(writing(), 'both clients write');
    ok(!in_use(), 'without failsafe mode');
}
