#!/usr/bin/perl

# One member of ten is slow: how often it is asked, beside nginx's own
# least_conn.  And a member that starts slowly.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(min);
use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Load;
use Nginx;
use Stall;
use Upstream;
use Wait;

use constant {
    CLIENTS  => 6,
    REQUESTS => 1500,
    START    => 6 * ($ENV{TEST_SLOWER} || 1),
    TIMES    => 10,

    # SLOW: seconds that the slow member needs.  STALLED: a stall after which
    # the others seem to need nearly as long.
    SLOW     => 0.1 * ($ENV{TEST_SLOWER} || 1),
    STALLED  => 0.05 * ($ENV{TEST_SLOWER} || 1),

    QUICK    => 0.005,      # seconds that the others need
};

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my @backends = Backend->start(10);
my @starting = Backend->start(qw(old new));
my $slow = $backends[3];

$etcd->put("/s/$_", $backends[$_]->address) for 0 .. 9;
$etcd->put('/start/old', $starting[0]->address);

my $nginx = Nginx->new(etcd => $etcd)
    ->set(SERVERS => join(' ', map { 'server ' . $_->address . ';' }
                                   @backends),
          START => START)
    ->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream native {
        zone native 256k;
        least_conn;
        %%SERVERS%%
    }

    upstream least_conn {
        etcd_members /s/;
        etcd_balance least_conn;
    }

    upstream ewma {
        etcd_members /s/;
        etcd_balance ewma;
    }

    upstream start {
        etcd_members /start/ slow_start=%%START%%s;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /native     { proxy_pass http://native; }
        location /least_conn { proxy_pass http://least_conn; }
        location /ewma       { proxy_pass http://ewma; }
        location /start      { proxy_pass http://start; }

        location /status {
            etcd_status;
        }
    }
}

EOF

for my $name (qw(least_conn ewma)) {
    wait_for { keys %{ Upstream->new($nginx, $name)->members } == 10 } 10,
        'ten members';
}

$_->set(delay => QUICK) for @backends;
$slow->set(delay => SLOW);


sub requests {
    my $sum = 0;

    $sum += $_->requests for @backends;

    return $sum;
}


# the part of all requests that the slow member gets

sub share {
    my ($path) = @_;

    $_->reset for @backends;

    my @load = map { Load->start($nginx->port, path => $path, clients => 1,
                                 keepalive => 1) } 1 .. CLIENTS;

    wait_for { requests() > REQUESTS } 30, "requests to $path";

    my $failed = 0;

    $failed += @{ $_->results->{failed} } for @load;

    is($failed, 0, "$path: all are answered");

    return $slow->requests / requests();
}


# Any member that answers while the machine stands still is slow as well, and
# all members are if the machine is busy: then the requests take twice as long
# as they would by themselves, and are made again.

my %share = (native => share('/native'));

sub less {
    my ($name, $most) = @_;

    for (1 .. TIMES) {
        my $took;

        my $is_less = $stall->again(STALLED, sub {
            my $begun = time();

            $share{$name} = share("/$name");
            $took = time() - $begun;
            return $share{$name} < $most;
        });

        last if $is_less || $took < 2 * QUICK * REQUESTS / CLIENTS;
    }
}

less('least_conn', $share{native} + 0.01);
less('ewma', min($share{native} + 0.01, 0.02));

my $shares = join(', ', map { sprintf('%s %.4f', $_, $share{$_}) }
                            sort keys %share);

# By rotation it would be a tenth.

cmp_ok($share{least_conn}, '<', $share{native} + 0.01,
       "least_conn: asked as seldom as by nginx's own") or diag($shares);
cmp_ok($share{ewma}, '<', $share{native} + 0.01, 'ewma: no more often')
    or diag($shares);
cmp_ok($share{ewma}, '<', 0.02, 'ewma: almost never') or diag($shares);
note($shares);

# The share of a new member grows to a half.

Upstream->new($nginx, 'start')->shows(
    { '/start/old' => $starting[0]->address . ' 1 up' }, 'one member');

# of 60 requests, which take a small part of the time that the member starts in

sub early_share {
    my $start = Upstream->new($nginx, 'start');
    my $new;

    for (1 .. TIMES) {
        $start->sees($etcd->del('/start/new')) if defined $new;

        my $began = time();

        $start->sees($etcd->put('/start/new', $starting[1]->address));
        $new = $nginx->tally('/start', 60)->{new} // 0;
        last if time() - $began < START / 4;
    }

    return $new;
}

cmp_ok(early_share(), '<', 15, 'a new member starts slowly');

ok(wait_for(sub {
    ($nginx->tally('/start', 40)->{new} // 0) >= 18
}, START * 4, 'half of the requests'), 'and gets its share later');

finish();
