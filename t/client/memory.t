#!/usr/bin/perl

# Answers that are made to take memory and time: millions of empty parts in a
# message of an allowed length.  The worker refuses them as soon as they have
# taken all that a message may take, and goes on with others.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Fake;
use Finish;
use Nginx;
use Protobuf;
use Upstream;
use Wait;

use constant {
    SIZE => 12 * 1024 * 1024,
    MOST => 2 * (2 * 12 + 6) * 1024 + 8 * 1024,     # KB, of two such answers
                                                    # and 8 MB of others
    LONG => 15_900_000,
    ROOM => 2 * 16 * 1024 + 6 * 1024 + 2 * 1024,    # KB, of a long one, and
                                                    # 2 MB of what it causes
    KEYS => 40_000,
};

# WatchResponse.events = 11 and RangeResponse.kvs = 2, empty; an unknown field

my $nginx = Nginx->new(sanitizer => 'quarantine_size_mb=0');
my %parts = (
    Watch => $nginx->write_file('watch', "\x5a\x00" x (SIZE / 2)),
    Range => $nginx->write_file('range', "\x12\x00" x (SIZE / 2)),
);
my %fake = map {
    ($_ => Fake->new()->start('ok', '--answer', "$_=$parts{$_}",
                              '--kv', '/s/1=127.0.0.1:1'))
} sort keys %parts;

my $etcd = Etcd->new()->start();

$nginx->set(WATCH => $fake{Watch}->endpoints, RANGE => $fake{Range}->endpoints,
            ETCD => $etcd->endpoints)->start(<<'EOC');

worker_processes 1;

etcd watch {
    endpoints %%WATCH%%;
    zone 256k;
}

etcd range {
    endpoints %%RANGE%%;
    zone 256k;
}

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream watched {
        etcd_members /s/ cluster=watch;
    }

    upstream ranged {
        etcd_members /s/ cluster=range;
    }

    upstream many {
        etcd_members /many/ on_empty=drop;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

my $says = qr/got a message of \d+ bytes in more than \d+ parts/;


# the most KB that a worker has had

sub peak {
    my ($pid) = ($_[0] // $nginx)->workers;

    open(my $file, '<', "/proc/$pid/status") or die "status: $!\n";
    local $/;

    return <$file> =~ /^VmHWM:\s+(\d+)/m ? $1 : die "no VmHWM\n";
}


my ($pid) = $nginx->workers;
my $before = peak();

ok(wait_for(sub { $fake{$_}->count(qr{/\Q$_\E\n}) >= 3 }, 60, $_),
   "$_: such an answer comes, again and again") for sort keys %fake;

SKIP: {
    Nginx::built_with() =~ /-fsanitize/
        and skip 'a sanitizer has its own memory', 1;

    cmp_ok(peak() - $before, '<', MOST, 'memory is bounded');
}

cmp_ok($nginx->count_log($says), '>', 0, 'the log says why it is refused');
is_deeply([$nginx->workers], [$pid], 'the worker lives');

# An answer that is no attack, but as long: the keys are listed instead.

for my $from (map { $_ * 100 } 0 .. KEYS / 100 - 1) {
    $etcd->txn(map { [put => "/many/$_", 'x'] } $from .. $from + 99);
}

my $many = Upstream->new($nginx, 'many');

$etcd->put('/many/last', '127.0.0.1:1');
ok(wait_for(sub { ($many->members)->{'/many/last'} }, 60, 'the last key'),
   'as many keys as make a long answer');

$etcd->del_prefix('/many/');
$etcd->put('/many/next', '127.0.0.1:2');

$many->shows({ '/many/next' => '127.0.0.1:2 1 up' },
             'all of them are deleted at once');

$nginx->quit;


# the most KB that a worker takes until it has that revision, or refuses it

sub takes {
    my ($until, %answers) = @_;

    my $own = Nginx->new(sanitizer => 'quarantine_size_mb=0');
    my $fake = Fake->new()->start('ok', map {
        ('--answer', "$_=" . $own->write_file($_, $answers{$_}))
    } sort keys %answers);

    $own->set(ETCD => $fake->endpoints)->start(<<'EOC');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 1m;
}

http {
    upstream s {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

    my $s = Upstream->new($own, 's');

    ok(wait_for(sub { ref($until) ? $own->count_log($until)
                                  : ($s->status->{revision} // 0) == $until },
                20, $until), 'a long answer');

    my $peak = peak($own);

    $own->quit;
    $fake->stop;

    return $peak;
}


# Long answers within the limits: deletions of keys that are not there, keys
# without contents, a key, and one that is refused for a text of that length.

my $created = answer_header(100) . field(3, VARINT, 1);
my $kv = sub { field(1, BYTES, "/s/$_[0]") . field(3, VARINT, 50) };
my $base = takes(100, Range => answer_header(100) . field(2, BYTES, $kv->(1)));

for (
    ['changes', 101 + 99_000, Watch => $created . join('', map {
        field(11, BYTES, field(1, VARINT, 1)
              . field(2, BYTES, field(1, BYTES, "/s/$_")
                                . field(3, VARINT, 101 + $_)
                                . field(5, BYTES, 'x' x 130)))
    } 1 .. 99_000)],
    ['a key', 100, Range => answer_header(100)
     . field(2, BYTES, $kv->(1) . field(5, BYTES, 'x' x LONG))],
    ['a text', $says,
     Watch => $created . field(4, VARINT, 1)
              . field(6, BYTES, 'x' x LONG)],
)
{
    my ($name, $said, %answers) = @$_;
    my $peak = takes($said, %answers);

    SKIP: {
        Nginx::built_with() =~ /-fsanitize/
            and skip 'a sanitizer has its own memory', 1;

        cmp_ok($peak - $base, '<', ROOM, "$name: memory is bounded");
        note("$name: ", $peak - $base, ' KB');
    }
}

finish();
