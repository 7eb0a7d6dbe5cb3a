#!/usr/bin/perl

# Answers that are made to take memory and time: millions of empty parts in a
# message of a length that is allowed.  The worker refuses them as soon as it
# has spent what a message may take, and goes on with others.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Etcd;
use Fake;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    SIZE => 12 * 1024 * 1024,
    MOST => 2 * (2 * 12 + 4) * 1024 + 8 * 1024,     # KB, of two such answers
                                                    # and 8 MB of others
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


# KB that a worker has had at most

sub peak {
    my ($pid) = $nginx->workers;

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

# what is no attack, but as long: the keys are listed instead

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

finish();
