#!/usr/bin/perl

# A zone that is too small for all members: those that fit serve, one line
# says what to do, other upstreams do not notice, and a larger zone heals it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    FIRST   => 100,
    MEMBERS => 2000,
};


my $etcd = Etcd->new()->start();

sub address { sprintf('127.1.%d.%d:80', $_[0] / 256, $_[0] % 256) }
sub key { sprintf('/large/%04d', $_[0]) }

sub register {
    my @numbers = @_;

    while (my @some = splice(@numbers, 0, 100)) {
        $etcd->txn(map { [put => key($_), address($_)] } @some);
    }
}


$etcd->put("/small/$_", "127.0.0.1:100$_") for 1, 2;

my $nginx = Nginx->new(etcd => $etcd)->set(ZONE => '256k');

my $config = <<'EOF';

etcd {
    endpoints %%ETCD%%;
    zone %%ZONE%%;
}

http {
    upstream small {
        etcd_members /small/;
    }

    upstream large {
        etcd_members /large/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOF

$nginx->start($config);

my $small = Upstream->new($nginx, 'small');

sub large { @{ ($nginx->status // return 0)->{upstreams}{large}{members} } }
sub state { ($nginx->status // return '')->{clusters}{default}{state} }


# The first upstream in the zone has room.

$small->shows({ '/small/1' => '127.0.0.1:1001 1 up',
                '/small/2' => '127.0.0.1:1002 1 up' },
              'another upstream is complete');

my %first = map { key($_) => address($_) . ' 1 up' } 0 .. FIRST - 1;

register(0 .. FIRST - 1);
Upstream->new($nginx, 'large')->shows(\%first, 'the first members');
register(FIRST .. MEMBERS - 1);

ok(wait_for(sub { &state() eq 'zone full' }, 10, 'a full zone'),
   'the status says that the zone is full');

my $there = large();
my $members = Upstream->new($nginx, 'large')->members;

cmp_ok($there, '>', FIRST, 'what fits is there');
cmp_ok($there, '<', MEMBERS, 'but not all');
is_deeply({ map { $_ => $members->{$_} } keys %first }, \%first,
          'who was there stays');

my $line = qr{
    \[error\].*"large":\ no\ room\ for\ \d+\ members.*set\ "zone"\ in\ "etcd"
}x;

wait_for { $nginx->count_log($line) } 10, 'a line';
$nginx->logs($line, 1, 'a line says what to do');

my ($size) = $nginx->error_log() =~ /set "zone" in "etcd" to (\d+m) or more/;

like($size, qr/^[1-4]m$/, 'and which size would do');

# To read again and again must not disturb the others, nor fill the log.

my $reads = $etcd->metric('etcd_mvcc_range_total');

ok(wait_for(sub {
    $etcd->metric('etcd_mvcc_range_total') > $reads + 1
}, 20, 'another try'), 'it is tried again');

$etcd->del('/small/2');
$small->shows({ '/small/1' => '127.0.0.1:1001 1 up' },
              'the other upstream is followed');

$nginx->logs($line, 1, 'it is not said again');
is($nginx->count_log(qr/cannot be read/), 0, 'and no watch is lost for it');

# Members leave, and others get their room.

my $left = int($there / 2);
my @gone = ($left .. MEMBERS - 1);

while (my @some = splice(@gone, 0, 100)) {
    $etcd->txn(map { [del => key($_)] } @some);
}

ok(wait_for(sub { large() == $left && &state() eq 'synced' }, 20, 'room'),
   'when members leave there is room for the rest');

# a larger zone

register(0 .. MEMBERS - 1);
ok(wait_for(sub { &state() eq 'zone full' }, 10, 'a full zone'), 'full again');
wait_for { $nginx->count_log($line) > 1 } 10, 'another line';
$nginx->logs($line, 2, 'which is said again');

$nginx->set(ZONE => $size);
ok($nginx->reload($config), 'a reload with a zone of that size');
ok(wait_for(sub { large() == MEMBERS && &state() eq 'synced' }, 10, 'all'),
   'takes all members');

finish();
