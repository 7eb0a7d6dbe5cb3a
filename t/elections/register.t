#!/usr/bin/perl

# An nginx registers itself: the key is there while nginx is, and no longer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Select;
use Sys::Hostname;
use Test::More;
use Time::HiRes qw(sleep time);

use Etcd;
use Finish;
use Nginx;
use Stall;
use Wait;

# A key of LASTING does not end by itself: nginx has deleted it.

use constant {
    TTL     => 6,
    LASTING => 600,
    RESIGN  => 0.05,            # seconds; nginx waits for 0.1 s and more
    STALLED => 1,               # a stall of so many seconds may lose a lease
};

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();

my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    namespace /team;
    register /nginx/1 value=%%VALUE%% ttl=%%TTL%%s;
    register /nginx/10 value=another ttl=%%LASTING%%s;
    register /nginx/on-$hostname value=here;
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

$nginx->set(VALUE => 'at-$hostname', TTL => TTL, LASTING => LASTING);
$nginx->write_file('large', 'x' x 262144);
$nginx->start($config);


sub key {
    my ($key) = grep { $_->{key} eq '/team/nginx/1' }
        $etcd->list('/team/nginx/1');

    return $key // {};
}

sub lease { key()->{lease} // 'none' }

# The instance is registered, and the other key is there.

sub is_registered {
    my ($value) = @_;

    return (key()->{value} // '') eq $value
           && ($etcd->get('/team/nginx/10') // '') eq 'another';
}

sub registers {
    my ($value, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok(wait_for(sub { is_registered($value) }, 20, $value), $name);
}

# Both keys are gone.

sub are_gone {
    return wait_for { !%{ key() } && !defined $etcd->get('/team/nginx/10') }
        10, 'no keys';
}


# An nginx that ends in that way takes its keys along: it waits for etcd, but
# not for long.

my $slow;

sub takes_along {
    my ($end, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $again;

    return ok($stall->again(RESIGN, sub {
        if ($again++) {
            undef $slow;
            $nginx->quit();
        }

        $nginx->start() if !$nginx->pid;
        wait_for { is_registered('two') } 20, 'two' or return;
        $end->();
        are_gone();
    }), $name);
}

# The key is there all the time, with its lease.  The lease may be lost if the
# machine stands still when it is to be renewed: the test tries again then.

my $lease;

sub keeps_lease {
    my ($seconds, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $again;

    return ok($stall->again(STALLED, sub {
        if ($again++) {
            diag("$name: again, the machine stood still");
            wait_for { defined key()->{value} } 20, 'the key' or return;
            $lease = lease();
        }

        my $end = time() + $seconds;
        my %seen;

        while (time() < $end) {
            $seen{ lease() }++;
            sleep(0.02);
        }

        return join(' ', keys %seen) eq $lease;
    }), $name);
}


my $value = 'at-' . hostname();

registers($value, 'registered');
is(key()->{version}, 1, 'by one put');
is($etcd->get('/team/nginx/10'), 'another', 'and so is the other one');
ok(wait_for(sub { $etcd->get('/team/nginx/on-' . hostname()) }, 20, 'the host'),
   'and one with the name of the host in its key');
cmp_ok(key()->{lease}, '!=', 0, 'with a lease');
$lease = lease();
keeps_lease(TTL + 2, 'longer than the TTL');

$nginx->kill_worker($nginx->status->{agent}{pid});
ok($nginx->reload(undef, gone => 1), 'the agent is killed, and a reload');
keeps_lease(TTL + 1, 'it stays');
is(key()->{lease}, $lease, 'with the same lease');
is(key()->{version}, 1, 'nothing was put');

$nginx->set(VALUE => 'two');
ok($nginx->reload($config, gone => 1), 'a reload with another value');
registers('two', 'is put');
is(key()->{lease}, $lease, 'with the same lease');

# changes of the key by others

$etcd->del('/team/nginx/1');
registers('two', 'deleted: put again');

$etcd->revoke($lease);
registers('two', 'revoked: put again');
isnt(key()->{lease}, $lease, 'with another lease');

$etcd->put('/team/nginx/1', 'mine');
ok(wait_for(sub { $nginx->count_log(qr/is owned by another client/) }, 5),
   'owned by another client: logged');
$lease = lease();
keeps_lease(TTL / 2, 'it is not overwritten');
is(key()->{value}, 'mine', 'the value is the other one');

$etcd->del('/team/nginx/1');
registers('two', 'and taken back when it is gone');

$nginx->logs(qr/is owned by another client/, 1, 'it was logged once');

my $own = '/nginx/on-' . hostname();

$etcd->put("/team$own", 'mine');
ok(wait_for(sub {
    $nginx->count_log(qr/registration "\Q$own\E" is owned by another client/)
}, 5), 'the log has the name of the host in the key');
$nginx->expect(qr/is owned by another client/);

# etcd is away

$lease = key()->{lease};
$etcd->stop();
ok(wait_for(sub { $nginx->count_log(qr/is lost: it was not renewed/) },
            TTL * 3), 'etcd is away for longer than the TTL');

$etcd->start();
ok(wait_for(sub { (key()->{lease} // $lease) ne $lease }, 60),
   'it is back: so is the key, with another lease');
registers('two', 'as before');

# the end

takes_along(sub {
    $slow = $nginx->http;
    $slow->send('GET', '/slow/large');
    IO::Select->new($slow->{socket})->can_read($slow->{timeout})
        or die "no answer to the long request\n";

    kill('QUIT', $nginx->pid);
}, 'QUIT: it is gone at once');

ok($nginx->children, 'while requests are served');
$slow->close;
$nginx->quit();

takes_along(sub { $nginx->stop() }, 'TERM: it is gone at once');

$nginx->start();
registers('two', 'started again');

my $old = key()->{lease};

$nginx->crash();
is($etcd->get('/team/nginx/10'), 'another', 'all are killed: it stays');
$nginx->start();
ok(wait_for(sub { (key()->{lease} // $old) != $old }, 20),
   'a new nginx puts its own');
$lease = lease();
keeps_lease(TTL + 2, 'which does not go with the old lease');

(my $without = $config) =~ s/^ *register.*\n//mg;

ok($nginx->reload($without, gone => 1), 'a reload without it');
ok(are_gone(), 'it is gone, and so is the other one');

finish();
