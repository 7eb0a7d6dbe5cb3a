#!/usr/bin/perl

# Tens of thousands of keys of one address come, are all written anew in another
# order, and vanish: the mutex of the zone, for which other workers wait in the
# path of a request, is held for a moment each time.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use Test::More;

use Fake;
use Finish;
use Nginx;
use Protobuf;
use Turn;
use Upstream;
use Wait;

use constant {
    KEYS  => 40_000,
    FROM  => 100,
    LIMIT => 0.02,      # of the CPU time of the worker
    TRIES => 3,         # a busy machine has slower caches: the best run counts
};

plan(skip_all => 'a sanitizer takes time of its own')
    if Nginx::built_with() =~ /-fsanitize/;



# a list at a revision; the code returns the revision of the n-th key

sub range {
    my ($at, $keys, $revision) = @_;

    return answer_header($at) . join('', map {
        my $written = $revision->($_);

        field(2, BYTES, field(1, BYTES, "/s/$_") . field(2, VARINT, $written)
                        . field(3, VARINT, $written) . field(4, VARINT, 1)
                        . field(5, BYTES, '127.0.0.1:80'))
    } 0 .. $keys - 1);
}


# A watch that always begins with the news that its revision is compacted: the
# prefix is listed again.

my $compacted = answer_header(FROM) . field(3, VARINT, 1) . field(4, VARINT, 1)
                . field(5, VARINT, FROM + 1);

my @lists = (
    range(FROM + 1, KEYS, sub { $_[0] + 1 }),
    range(FROM + 2, KEYS, sub { 2 * KEYS - $_[0] }),
    range(FROM + 3, 0),
);


# Returns whether all lists came, and the share of the longest hold.

sub measure {
    my $nginx = Nginx->new();
    my $file = $nginx->write_file('range', $lists[0]);
    my $fake = Fake->new()->start('ok', '--answer', "Range=$file", '--answer',
                                  'Watch=' . $nginx->write_file('watch',
                                                                $compacted));
    my $turns = Turn->measure(sub {
        $nginx->set(ETCD => $fake->endpoints)->start(<<'EOC');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    zone 64m;
}

http {
    upstream s {
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
    });

    my $s = Upstream->new($nginx, 's');
    my $came = 1;

    for my $n (0 .. $#lists) {
        rename($nginx->write_file('later', $lists[$n]), $file)
            or die "rename: $!\n";

        $came &&= wait_for(sub { ($s->status->{revision} // 0)
                                 == FROM + 1 + $n }, 60, "list $n");
    }

    my $longest = max(map { $turns->longest_hold($_) } $nginx->workers);

    $nginx->quit;
    $fake->stop;

    return ($came, $longest);
}


my ($came, $longest);

for my $try (1 .. TRIES) {
    ($came, $longest) = measure();

    last if !$came || $longest < LIMIT;
}

ok($came, 'all lists come');
cmp_ok($longest, '>', 0, 'holds are measured');
cmp_ok($longest, '<', LIMIT, 'the longest hold of the mutex');

finish();
