#!/usr/bin/perl

# Watches: every change once, whole revisions at a time, whatever happens to
# the connection in between.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Wait;

use constant {
    WATCHES => 40,
    CREATES => 16,
    PARTS   => 8,
    FIRST   => 0.3,             # seconds until the first fragments are sent
    LAST    => 4,               # seconds until the last one is sent
};


my $slower = $ENV{TEST_SLOWER} || 1;

# Progress notifications come often, and messages are cut into fragments early:
# at this limit and the 512 KB that etcd adds.

my $etcd = Etcd->new(args => [
    Etcd::option('watch-progress-notify-interval'), '200ms',
    '--max-request-bytes', 262144,
])->start();

my $chaos = Chaos->start($etcd->port);
my $split = Chaos->start($etcd->port);

$split->set(split => 1);

my %fake = (
    fragments => Fake->new()->start('fragments:' . LAST * 1000,
                                    events('/s/', 3)),
    cutoff    => Fake->new()->start('fragments-cut', events('/s/', 3)),
    stray     => Fake->new()->start('stray', events('/s/', 3)),
    descent   => Fake->new()->start('descending', events('/s/', 2)),
    lazy      => Fake->new()->start('lazy:1000'),
    refusing  => Fake->new()->start('watch-create-cancel', events('/s/', 2)),
    compacted => Fake->new()->start('compacted', '--kv',
                                    '/s/0=127.0.0.1:1000'),
);


# options: N events of one revision

sub events {
    my ($prefix, $n) = @_;

    return map { ('--event', "$prefix$_=127.0.0.1:100$_") } 1 .. $n;
}


sub expected {
    return { map { ("/s/$_" => "127.0.0.1:100$_ 1 up") } @_ };
}


my $nginx = Nginx->new();

$nginx->set(
    CHAOS    => $chaos->endpoints,
    SPLIT    => $split->endpoints,
    CLUSTERS => join('', map {
        "etcd $_ { endpoints " . $fake{$_}->endpoints . "; zone 512k;"
        . " connect_timeout 20s; request_timeout 60s; }\n"
    } keys %fake),
    UPSTREAMS => join('', (map {
        "upstream $_ { etcd_members /s/ cluster=$_; }\n"
    } keys %fake), map {
        "upstream lazy$_ { etcd_members /lazy$_/ cluster=lazy; }\n"
    } 2 .. WATCHES),
);

$nginx->start(<<'EOC');

%%CLUSTERS%%

etcd {
    endpoints %%CHAOS%%;
    request_timeout 60s;
}

etcd split {
    endpoints %%SPLIT%%;
    connect_timeout 20s;
    request_timeout 60s;
}

http {
    %%UPSTREAMS%%

    upstream api {
        etcd_members /api/;
    }

    upstream parts {
        etcd_members /parts/;
    }

    upstream txn {
        etcd_members /txn/ cluster=split;
    }

    upstream neighbour {
        etcd_members /t/ cluster=descent;
    }

    upstream bad {
        etcd_members /bad/ cluster=refusing;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


# the number of lists that the fake was asked for, without repetitions for want
# of an answer in time

sub ranges {
    my ($name) = @_;

    return $fake{$name}->count(qr/ range /)
           - $nginx->count_log(qr/"$name": range failed: deadline/);
}


# a value; its port has the number at the end of the key

sub member {
    my ($key, $weight, $note) = @_;

    my ($n) = $key =~ /(\d+)$/;

    $note //= '';

    return qq({"address":"127.0.0.1:10$n","weight":$weight,"note":"$note"});
}


# Tests that a condition is met; returns { STATE => the time of its last
# question }.

sub states_until {
    my ($condition, $name, $seconds, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my %seen;

    ok(wait_for(sub {
        my $asked = time();
        my $members = $nginx->upstream($name)->members;
        my $state = join(' ', map { "$_=$members->{$_}" } sort keys %$members);

        $seen{$state} = $asked;
        $condition->($members);
    }, $seconds, $what), $what);

    return \%seen;
}


# Fragments: the fake sends the last of three long after the others.

my $seen = states_until(sub { keys %{ $_[0] } == 3 }, 'fragments', 10,
                        'fragments');
my ($created) = $fake{fragments}->times(qr/ created /);

$nginx->upstream('fragments')->shows(expected(1 .. 3),
                                     'fragments are put together');

is(scalar(keys %$seen), 2, 'no part of a revision was to be seen')
    or diag(join("\n", keys %$seen));
cmp_ok($seen->{''} // 0, '>', $created + FIRST, 'while it was there');

$nginx->upstream('cutoff')->shows(
    expected(1 .. 3), 'fragments of a connection that was lost come again');

is($fake{cutoff}->count(qr/ watch /), 2, 'the watch was made again');
like($fake{cutoff}->lines(qr/ watch /)->[1] // '', qr/ revision=0\n/,
     'from now on');
is(ranges('cutoff'), 2, 'and what was missed was read');

# etcd's messages for watches that do not exist

$nginx->upstream('stray')->shows(expected(3), 'unknown watch ids are dropped');
is($fake{stray}->count(qr/ open /), 2, 'the connections stay');

$nginx->upstream('descent')->shows(expected(1, 2), 'watch ids in any order');
is_deeply($nginx->upstream('neighbour')->members, {}, 'each for its own watch');

# a refused watch and its neighbour

$nginx->upstream('refusing')->shows(expected(1, 2),
                                    'a refused watch leaves the others alone');
ok(wait_for(sub { $fake{refusing}->count(qr{ watch .*/bad/}) > 1 }, 10,
            'another attempt'), 'it is tried again');
$nginx->logs(qr{\[error\].*prefix "/bad/" cannot be read: permission denied},
             1, 'the log says so once');

# pipelining

ok(wait_for(sub { $fake{lazy}->count(qr/ created /) == WATCHES }, 10,
            'all creates'), 'all watches are created');

{
    my ($open, $most) = (0, 0);

    for my $line (@{ $fake{lazy}->lines(qr/ watch | created /) }) {
        $open += $line =~ / watch / ? 1 : -1;
        $most = $open if $open > $most;
    }

    is($most, CREATES, 'creates are pipelined, with a bound');
    is($fake{lazy}->count(qr{/Watch/Watch|Watch\.Watch|Watch/}), 1,
       'on one stream');
}

# The watch's revision is compacted as soon as it is made.

$nginx->upstream('compacted')->shows(expected(0), 'compacted at once: members');
is(ranges('compacted'), 2, 'listed again');
ok(wait_for(sub {
    ($fake{compacted}->lines(qr/ watch /)->[-1] // '') =~ / revision=200\n/
}, 10, 'the second watch'), 'watched from the revision of that list');
is($nginx->cluster('compacted')->{resyncs}, 1, 'which the status counts');

# A transaction is seen as a whole, also when its bytes come one at a time.  Of
# more than 16 members the status is not of one moment.

{
    my @keys = map { "/txn/$_" } 10 .. 25;
    my %states;

    for my $weight (1 .. 3) {
        $etcd->txn(map { [put => $_, member($_, $weight)] } @keys);

        my $seen = states_until(sub {
            grep({ / $weight up/ } values %{ $_[0] }) == @keys
        }, 'txn', 40, "weight $weight");

        $states{$_}++ for keys %$seen;
    }

    $etcd->del_prefix('/txn/');
    $seen = states_until(sub { !%{ $_[0] } }, 'txn', 40, 'no member');
    $states{$_}++ for keys %$seen;

    is(scalar(grep { my %w = map { $_ => 1 } / (\d) up/g; keys %w > 1 }
              keys %states), 0, 'no state between two transactions');
    is(scalar(grep { my @n = / up/g; @n && @n != @keys } keys %states), 0,
       'no part of a transaction');
}

# Members change while connections break, again and again.

{
    my $resyncs = $nginx->cluster()->{resyncs};
    my (@wanted, %members);

    for my $n (10 .. 49) {
        $chaos->cut() if $n % 3 == 0;

        my $revision = $etcd->put("/api/$n", "127.0.0.1:10$n");

        push @wanted, "/api/$n add $revision";
        $members{"/api/$n"} = "127.0.0.1:10$n 1 up";
    }

    $nginx->upstream('api')->shows(\%members,
                                   'all changes around lost connections');

    my @events = map { "$_->{key} $_->{change} $_->{revision}" }
        sort { $a->{revision} <=> $b->{revision} }
        grep { $_->{upstream} eq 'api' } @{ $nginx->status->{events} };

    is_deeply(\@events, \@wanted, 'each of them once');

    $chaos->set(refuse => 1);
    $chaos->cut();

    $etcd->put('/api/10', '127.0.0.1:2010');
    $etcd->del('/api/11');
    $etcd->put('/api/12', '127.0.0.1:2012');
    $etcd->del('/api/12');
    $etcd->put('/api/13', '127.0.0.1:2013');
    $etcd->put('/api/13', '127.0.0.1:1013');

    $chaos->set(refuse => 0);

    delete @members{'/api/11', '/api/12'};
    $members{'/api/10'} = '127.0.0.1:2010 1 up';

    $nginx->upstream('api')->shows(\%members, 'changes while it was away');
    is($nginx->cluster()->{resyncs}, $resyncs, 'nothing was listed for that');
    cmp_ok($nginx->cluster()->{reconnects}, '>=', 2, 'the watch was resumed');
}

# A key is written after the list, before the watch: the create's answer carries
# a later revision than the event that is still to come.

{
    $chaos->set(delay => 0.2 * $slower);
    $chaos->cut();
    $etcd->put('/api/99', '127.0.0.1:1099');

    $etcd->put('/unrelated', 1);

    ok(wait_for(sub { ($nginx->upstream('api')->members->{'/api/99'} // '')
                      eq '127.0.0.1:1099 1 up' }, 20, '/api/99'),
       'the answer to a create is no barrier');

    $chaos->set(delay => 0);
}

# Progress notifications move the position where a watch goes on.

{
    my $resyncs = $nginx->cluster()->{resyncs};
    my $revision = $etcd->put('/unrelated', 2) + 5;

    $etcd->put('/unrelated', $_) for 1 .. 5;

    ok(wait_for(sub { $nginx->upstream('api')->status->{revision}
                     >= $revision }, 10,
                'progress'), 'a quiet prefix follows the revision');

    $chaos->set(refuse => 1);
    $chaos->cut();
    $etcd->compact($revision);
    $etcd->put('/api/98', '127.0.0.1:1098');
    $chaos->set(refuse => 0);

    ok(wait_for(sub { $nginx->upstream('api')->members->{'/api/98'} }, 10,
                '/api/98'),
       'what came after the compaction');
    is($nginx->cluster()->{resyncs}, $resyncs,
       'a compaction up to that position costs no list');
}

# Fragments of a real etcd: 8 revisions of 160 KB in one answer, each of which
# changes all keys.

{
    my $resyncs = $nginx->cluster()->{resyncs};
    my $note = 'x' x 10_000;
    my $parts = sub {
        my ($weight) = @_;
        $etcd->txn(map { [put => "/parts/$_", member($_, $weight, $note)] }
                   10 .. 25);
    };

    $parts->(1);
    $seen = states_until(sub { keys %{ $_[0] } == 16 }, 'parts', 20, 'parts');

    $chaos->set(refuse => 1);
    $chaos->cut();
    $parts->($_) for 2 .. PARTS;
    $chaos->set(refuse => 0);

    my $last = PARTS;
    my $more = states_until(sub {
        grep({ / $last up/ } values %{ $_[0] }) == 16
    }, 'parts', 20, 'all parts');

    is(scalar(grep { / $last up/ }
              values %{ $nginx->upstream('parts')->members }), 16,
       'more than a message may hold');
    is(scalar(grep { my %w = map { $_ => 1 } / (\d) up/g; keys %w > 1 }
              keys %$seen, keys %$more), 0, 'no revision was seen in part');
    is($nginx->cluster()->{resyncs}, $resyncs, 'it came from the watch');
}

finish();
