#!/usr/bin/perl

# Many events that come at a time are handed on in pieces, so that requests are
# served in between: in order, all of them, and once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use Test::More;

use Etcd;
use Fake;
use Finish;
use Nginx;
use Protobuf;
use Upstream;
use Wait;

use constant {
    KEYS     => 3000,
    TOGETHER => 256,       # events of one revision, at most
    FROM     => 100,       # the revision of the list
    BATCH    => 100,
    LARGE    => 40,
    VALUE    => 60_000,
    MOST     => 65_536,    # events of several revisions take that at most
};


# Watch's events = 11; of an event type = 1 (DELETE is 1), kv = 2

sub event {
    my ($n, $revision, $address) = @_;

    my $kv = field(1, BYTES, "/s/$n") . field(3, VARINT, $revision);

    return field(11, BYTES, field(1, VARINT, 1) . field(2, BYTES, $kv))
        unless defined($address);

    return field(11, BYTES, field(2, BYTES, $kv . field(2, VARINT, $revision)
                                            . field(4, VARINT, 1)
                                            . field(5, BYTES, $address)));
}


# a JSON value with many elements

sub large {
    my ($n) = @_;

    my $begin = '{"address":"' . address($n, 80) . '","x":[0';

    return $begin . ',0' x ((VALUE - length($begin)) / 2) . ']}';
}


sub address { sprintf('127.1.%d.%d:%d', $_[0] / 256, $_[0] % 256, $_[1]) }


# Watch's created = 3, with the id 0: events come with it, and again if nginx
# lists again, since the fake is at its first revision.

sub watch {
    return answer_header(FROM) . field(3, VARINT, 1) . join('', @_);
}


my $nginx = Nginx->new();

my $own = watch(map { event($_, FROM + 1 + $_, address($_, 80)) }
                0 .. KEYS - 1);
my $one = watch((map { event($_, FROM + 1, address($_, 80)) } 0 .. KEYS - 1),
                (map { event($_, FROM + 2, address($_, 81)) } 0 .. KEYS - 2),
                event(KEYS - 1, FROM + 2));

my $large = watch(map { event($_, FROM + 1 + $_, large($_)) }
                  0 .. LARGE - 1);

my %fake = map {
    ($_->[0] => Fake->new()->start('ok', '--answer', 'Watch='
                                   . $nginx->write_file(@$_)))
} ['own', $own], ['one', $one], ['large', $large];

my $etcd = Etcd->new()->start();

$nginx->set(OWN => $fake{own}->endpoints, ONE => $fake{one}->endpoints,
            LARGE => $fake{large}->endpoints,
            ETCD => $etcd->endpoints)->start(<<'EOC');

error_log %%DIR%%/debug.log debug;

etcd own {
    endpoints %%OWN%%;
    zone 16m;
}

etcd one {
    endpoints %%ONE%%;
    zone 16m;
}

etcd large {
    endpoints %%LARGE%%;
}

etcd {
    endpoints %%ETCD%%;
    zone 16m;
}

http {
    upstream own {
        etcd_members /s/ cluster=own;
    }

    upstream one {
        etcd_members /s/ cluster=one;
    }

    upstream large {
        etcd_members /s/ cluster=large;
    }

    upstream real {
        etcd_members /s/ on_empty=drop;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


sub expected {
    my ($keys, $port) = @_;

    return { map { ("/s/$_" => address($_, $port) . ' 1 up') } 0 .. $keys - 1 };
}


sub comes {
    my ($name, $keys, $port, $revision) = @_;

    my $upstream = Upstream->new($nginx, $name);

    ok(wait_for(sub { ($upstream->status->{revision} // 0) == $revision }, 30,
                $name), "$name: all of it comes");
    is_deeply($upstream->members, expected($keys, $port),
              "$name: as it was sent");
}


comes('own', KEYS, 80, FROM + KEYS);
comes('one', KEYS - 1, 81, FROM + 2);

# Large events come one at a time.

comes('large', LARGE, 80, FROM + LARGE);

# A real etcd, whose messages are in fragments: workers that stood still have
# much to read.

my $real = Upstream->new($nginx, 'real');


sub put_all {
    my ($port) = @_;

    my $revision;

    for my $from (map { $_ * BATCH } 0 .. KEYS / BATCH - 1) {
        $revision = $etcd->txn(map { [put => "/s/$_", address($_, $port)] }
                               $from .. $from + BATCH - 1);
    }

    return $revision;
}


sub reached {
    my ($revision, $what) = @_;

    ok(wait_for(sub { ($real->status->{revision} // 0) >= $revision }, 30,
                $what), $what);
}


$etcd->put('/s/0', address(0, 80));
$real->shows({ '/s/0' => address(0, 80) . ' 1 up' }, 'a first member');

my @workers = $nginx->workers;

$nginx->freeze($_) for @workers;
put_all(80);
my $revision = put_all(81);
$nginx->thaw($_) for @workers;

reached($revision, 'changes of some time at once');
is_deeply($real->members, expected(KEYS, 81), 'the last of each counts');

# One revision changes everything.

$revision = $etcd->del_prefix('/s/');
reached($etcd->put('/s/1', address(1, 82)), 'all are deleted at once');
$real->shows({ '/s/1' => address(1, 82) . ' 1 up' }, 'and one is put');

# the most members of these that changed together

SKIP: {
    Nginx::built_with() =~ /--with-debug/
        or skip 'nginx writes no debugging log', 4;

    open(my $log, '<', $nginx->dir . '/debug.log') or die "debug.log: $!\n";

    my @pieces = map {
        /: (\d+) events of (\d+) bytes are handed on/ ? [$1, $2] : ()
    } <$log>;
    my @large = grep { $_->[1] > VALUE } @pieces;

    cmp_ok(scalar(@pieces), '>', 4 * KEYS / TOGETHER, 'they come in pieces');
    cmp_ok(max(map { $_->[0] } @pieces), '<=', TOGETHER, 'none is large');
    cmp_ok(scalar(@large), '>=', LARGE, 'large ones, too');
    cmp_ok(max(map { $_->[1] } @large), '<=', MOST, 'none of them is larger');
}

finish();
