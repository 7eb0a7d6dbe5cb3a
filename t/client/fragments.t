#!/usr/bin/perl

# A response in fragments that never ends: the memory for it is bounded, and
# counts as much as it takes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Fake;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    EVENTS => 40_000,               # of a fragment, two bytes each
    MOST   => (4 * 4 + 4 + 2 * 4 + 8) * 1024,   # KB: four times
                                    # max_message_size, what a message may take
                                    # while it is read, and 8 MB of others
};

my $fake = Fake->new()->start('fragments-endless:' . EVENTS,
                              '--kv', '/s/1=127.0.0.1:1', '--event', '/s/1=x');
my $nginx = Nginx->new(etcd => $fake, sanitizer => 'quarantine_size_mb=0')
    ->start(<<'EOC');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    max_message_size 4m;
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

my ($pid) = $nginx->workers;


# the most KB that the worker has had

sub peak {
    open(my $file, '<', "/proc/$pid/status") or die "status: $!\n";
    local $/;

    return <$file> =~ /^VmHWM:\s+(\d+)/m ? $1 : die "no VmHWM\n";
}


my $s = Upstream->new($nginx, 's');

$s->shows({ '/s/1' => '127.0.0.1:1 1 up' }, 'a member');

my $before = peak();

my $says = qr/buffered events take \d+ bytes, more than 4 times "max_message/;

ok(wait_for(sub { $nginx->count_log($says) }, 60, 'a line'),
   'the log says that it is too much');
ok(wait_for(sub { $fake->count(qr/ range .*kvs=1/) >= 2 }, 20, 'a list'),
   'the prefix is listed again');
ok(wait_for(sub { $fake->count(qr/ created /) >= 2 }, 20, 'a watch'),
   'and watched');
$s->shows({ '/s/1' => '127.0.0.1:1 1 up' }, 'the member stays');

SKIP: {
    Nginx::built_with() =~ /-fsanitize/
        and skip 'a sanitizer has its own memory', 1;

    cmp_ok(peak() - $before, '<', MOST, 'memory is bounded');
}

finish();
