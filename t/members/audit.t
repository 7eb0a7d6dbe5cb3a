#!/usr/bin/perl

# Audits: events that a watch should have reported and did not are found by
# comparing keys, and repaired; events that are on their way are left alone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Path qw(remove_tree);
use Test::More;
use Time::HiRes qw(sleep time);

use Becomes ();
use Chaos;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Protobuf;
use Stall;
use Upstream;
use Wait;

use constant {
    BUSY    => 6,                       # seconds, at least
    AUDITS  => 2,                       # at least, however long they take
    CHANGES => 201,                     # at least
    PATIENT => 60,
    MANY    => 1500,                    # three pages of an audit
    SETTLE  => 2,
    STALLED => 0.5,                     # seconds that an event may be late by
};


my $slower = $ENV{TEST_SLOWER} || 1;

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my $reset = Etcd->new()->start();
my $chaos = Chaos->start($reset->port);

my @kv = map { ('--kv', "/s/$_=127.0.0.1:100$_") } 1 .. 3;

# A member changes, another is new, a third goes: these events never come, or a
# second after an audit has begun.

my @events = map { ('--event', $_) } '/s/1=127.0.0.1:2001',
    '/s/4=127.0.0.1:1004', '-/s/3=';

# Members of several keys: one changes, one goes, one is new.

my @parts = ((map { ('--kv', $_) }
              '/s/1/url=http://127.0.0.1:1', '/s/1/weight=1',
              '/s/2/url=http://127.0.0.1:2', '/s/2/weight=2',
              '/s/3/url=http://127.0.0.1:3', '/s/3/other=3'),
             (map { ('--event', $_) }
              '/s/1/weight=5', '-/s/2/weight=', '/s/4/url=http://127.0.0.1:4',
              '/s/4/other=4'));

my %fake = (
    lost => Fake->new()->start('withhold:0', @kv, @events),
    map({ ("late$_" => Fake->new()) } 1 .. Stall::TIMES),
    off  => Fake->new()->start('withhold:0', @kv, @events),
    lead => Fake->new()->start('withhold:0', @kv, '--event', '-/s/1='),
    elect => Fake->new()->start('withhold:0', '--kv', '/e/1=one',
                                '--event', '-/e/1='),
    group => Fake->new()->start('withhold:0', @parts),
    value => Fake->new()->start('withhold:0', @kv, @events),
    reg => Fake->new(),
);

# These values are too long for a read after a reconnect: nginx lists the keys.

$reset->put("/s/$_", qq({"address":"127.0.0.1:100$_","note":")
                     . ($_ == 1 ? 'x' x 65_000 : '') . '"}') for 1 .. 3;

for (my $n = 1; $n <= MANY; $n += 100) {
    $etcd->txn(map { [put => sprintf('/s/%05d', $_), address($_)] }
               $n .. $n + 99);
}

sub address { '10.0.' . int($_[0] / 250) . '.' . $_[0] % 250 . ':80' }

my $nginx = Nginx->new();

# The key of a registration is deleted; its lease is granted, with a TTL, and
# each Txn puts the key.

$fake{reg}->start('withhold:0', '--kv', '/r=own', '--event', '-/r=',
    '--answer', 'LeaseGrant=' . $nginx->write_file('grant',
        answer_header() . field(2, VARINT, 1) . field(3, VARINT, 600)),
    '--answer', 'Txn=' . $nginx->write_file('txn',
        answer_header() . field(2, VARINT, 1)));

$nginx->set(
    RESET => $chaos->endpoints,
    FAKES => join('', map {
        "etcd $_ { endpoints " . $fake{$_}->endpoints . '; audit_interval '
            . (/off|elect/ ? 0 : '200ms') . '; zone 512k; '
            . (/elect/ ? 'election lost /e ttl=2s; ' : '')
            . (/reg/ ? 'register /r value=own ttl=600s; ' : '') . "}
"
    } keys %fake),
    UPSTREAMS => join('', map {
        $_ eq 'lead' ? "upstream lead { etcd_leader /s cluster=lead; }\n"
        : $_ eq 'elect' ? ''
        : $_ eq 'group' ? 'upstream group { etcd_members /s/ cluster=group '
                          . "format=traefik; }\n"
        : $_ eq 'value' ? "etcd_set \$changed /s/1 cluster=value;\n"
                          . "etcd_set \$new /s/4 cluster=value default=none;\n"
                     : "upstream $_ { etcd_members /s/ cluster=$_; }\n"
    } keys %fake),
);

$nginx->start(<<'EOC');

%%FAKES%%

etcd reset {
    endpoints %%RESET%%;
    audit_interval 500ms;
}

http {
    %%UPSTREAMS%%

    upstream reset {
        etcd_members /s/ cluster=reset;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /values {
            return 200 "$changed $new";
        }

        location /leader {
            return 200 "<$etcd_leader_lost>";
        }
    }
}

EOC


sub members { return { map { ("/s/$_->[0]" => "$_->[1] 1 up") } @_ } }

my $before = members(map { [$_, "127.0.0.1:100$_"] } 1 .. 3);
my $after = members([1, '127.0.0.1:2001'], [2, '127.0.0.1:1002'],
                    [4, '127.0.0.1:1004']);

# workers are told of a repair, and of what it found, one after the other

sub repairs {
    my ($name, $wanted, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { $nginx->cluster($name)->{repairs} == $wanted } 10, $what;
    is($nginx->cluster($name)->{repairs}, $wanted, $what);
}

# Late events come in time.  If the machine has delayed them, another etcd tries
# again.

{
    my $n = 0;
    my $late;

    ok($stall->again(STALLED, sub {
        my $found = 0;

        $late = 'late' . ++$n;
        $fake{$late}->start('withhold-listed:1000', @kv, @events);

        wait_for {
            $found ||= $nginx->cluster($late)->{repairs};
            Becomes::text($nginx->upstream($late)->members)
                eq Becomes::text($after);
        } 20, 'late events';

        return !$found;
    }), 'events on their way are not taken for lost');

    is_deeply($nginx->upstream($late)->members, $after, 'they have come');
    cmp_ok(time() - ($fake{$late}->times(qr/ keys /))[0], '>=', 1,
           'they were on their way when an audit had begun');
}

# An event that never comes is found, once it should have come.

$nginx->upstream('lost')->shows($after,
                                'lost events: an audit repairs the members');
repairs('lost', 1, 'which is counted');
$nginx->logs(qr{\[warn\].*"lost": prefix "/s/" differs from }
             . qr{etcd at revision 101, listing again}, 1,
             'and logged, once');
cmp_ok(($fake{lost}->times(qr/ range /))[-1]
       - ($fake{lost}->times(qr/ created /))[0], '>=', SETTLE,
       'not before they had the time to come');

$nginx->upstream('lead')->shows(
    members([2, '127.0.0.1:1002']),
    'a leader whose end was lost is followed by the next');
repairs('lead', 0, 'which its own verification found, before an audit');
cmp_ok($nginx->cluster('lead')->{resyncs}, '>=', 1, 'and listed again for');

ok(wait_for(sub { $nginx->get('/leader')->{body} eq '<>' }, 10),
   'a candidate whose end was lost is no leader for longer than its TTL');
ok(wait_for(sub { $nginx->cluster('elect')->{resyncs} }, 10),
   'candidates are listed again');

$nginx->upstream('group')->shows({ '/s/1' => '127.0.0.1:1 5 up',
                                   '/s/2' => '127.0.0.1:2 1 up',
                                   '/s/3' => '127.0.0.1:3 1 up',
                                   '/s/4' => '127.0.0.1:4 1 up' },
                                 'parts of members: an audit repairs them');
repairs('group', 1, 'by one list');

ok(wait_for(sub {
    $nginx->get('/values')->{body} eq '127.0.0.1:2001 127.0.0.1:1004';
}, 10), 'values of keys: an audit repairs them');
repairs('value', 2, 'both of them');

ok(wait_for(sub { $fake{reg}->count(qr{/Txn}) > 1 }, 10),
   'a registration whose deletion was lost: an audit has it put again');
repairs('reg', 1, 'by one list');

$nginx->upstream('off')->shows($before, 'audit_interval 0: no audit');
is($fake{off}->count(qr/ keys /), 0, 'at all');


# Another history is at the same address, with a revision past the known one.

{
    my @history = map { [$_, "127.0.0.1:100$_"] } 1 .. 3;

    $nginx->upstream('reset')->shows(members(@history), 'reset: members');

    my $other = $reset->put('/unrelated', 1);

    ok(wait_for(sub {
        $nginx->count_log(qr/"reset": audit at revision $other found nothing/)
    }, 20, 'an audit'), 'a quiet prefix is audited');

    my $revision = $nginx->cluster('reset')->{revision};
    my $resyncs = $nginx->cluster('reset')->{resyncs};

    $chaos->set(refuse => 1);
    $chaos->cut();
    $reset->kill();
    remove_tree($reset->{data});
    $reset->start();

    # A member is gone, another came at the same revision as before, with
    # another value, a third is new.

    $reset->put('/s/1', '127.0.0.1:3001');
    $reset->put('/s/4', '127.0.0.1:1004');
    $reset->put('/s/3', '127.0.0.1:1003');
    $reset->put('/unrelated', $_) for 1 .. $revision + 5;
    $chaos->set(refuse => 0);

    ok(wait_for(sub { $nginx->cluster('reset')->{repairs} }, 30, 'a repair'),
       'etcd was replaced while nobody was connected: an audit finds it');
    ok(wait_for(sub { !$nginx->upstream('reset')->members->{'/s/2'} }, 10,
                '/s/2'),
       'a member that etcd does not have is gone');
    $nginx->upstream('reset')->shows(
        members([1, '127.0.0.1:3001'], [3, '127.0.0.1:1003'],
                [4, '127.0.0.1:1004']),
        'the others are as they are there, whatever their revisions');
    is($nginx->cluster('reset')->{resyncs}, $resyncs, 'the watch had gone on');
}


# 1500 members change all the time: audits find nothing.

$nginx->quit();

$nginx = Nginx->new(etcd => $etcd)->start(<<'EOC');

etcd busy {
    endpoints %%ETCD%%;
    audit_interval 200ms;
    zone 16m;
}

etcd full {
    endpoints %%ETCD%%;
    audit_interval 200ms;
    zone 256k;
}

http {
    upstream busy {
        etcd_members /s/ cluster=busy;
    }

    upstream invalid {
        etcd_members /invalid/ cluster=busy;
    }

    upstream full {
        etcd_members /s/ cluster=full;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

sub audits { $nginx->count_log(qr/"busy": audit at revision \d+ found/) }

{
    my ($n, $changes, %now) = (0, 0);
    my $before = audits();
    my $end = time() + BUSY;

    $etcd->put('/invalid/1', 'nonsense');

    while (time() < $end
           || (($changes < CHANGES || audits() < $before + AUDITS)
               && time() < $end + PATIENT * $slower))
    {
        my $key = sprintf('/s/%05d', 1 + $n++ % 100);

        if ($n % 3 == 0) {
            $etcd->del($key);
            delete $now{$key};
        } else {
            $etcd->put($key, "10.1.0.$_:" . (1000 + $n)) for 1, 2;
            $now{$key} = "10.1.0.2:" . (1000 + $n) . ' 1 up';
        }

        if ($n % 50 == 0) {
            $etcd->txn(map { [del => sprintf('/s/%05d', $_)] } 200 .. 299);
            $etcd->txn(map { [put => sprintf('/s/%05d', $_), address($_)] }
                       200 .. 299);
        }

        $changes++;
    }

    my $revision = $etcd->put('/s/last', '10.2.0.1:80');

    $nginx->upstream('busy')->sees($revision);
    cmp_ok($changes, '>=', CHANGES, 'many changes');

    cmp_ok(audits() - $before, '>=', AUDITS, 'audits meanwhile');
    is($nginx->cluster('busy')->{repairs}, 0,
       'no audit takes a change for a loss');

    my $members = $nginx->upstream('busy')->members;

    is_deeply({ map { $_ => $members->{$_} } keys %now }, \%now,
              'the members are those of etcd');
}

ok(wait_for(sub { $nginx->cluster('full')->{state} eq 'zone full' }, 10),
   'a zone that is full');
is($nginx->cluster('full')->{repairs}, 0, 'has nothing to be repaired');

finish();
