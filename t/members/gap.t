#!/usr/bin/perl

# Changes that a watch missed while its connection was away are read at once,
# and events that come meanwhile are kept: nothing is lost, nothing goes back.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Path qw(remove_tree);
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    CUTS => 12,
    KEYS => 5,
};

my $etcd = Etcd->new()->start();
my $chaos = Chaos->start($etcd->port);
my $nginx = Nginx->new()->set(CHAOS => $chaos->endpoints);

# A connection ends when it is cut, and not because an answer takes long.  There
# is one agent: another one would count its reconnects from 0.

$nginx->start(<<'EOC');

worker_processes 1;

etcd {
    endpoints %%CHAOS%%;
    connect_timeout 60s;
    ping_timeout 60s;
    audit_interval 0;
}

http {
    upstream few {
        etcd_members /few/;
    }

    upstream many {
        etcd_members /many/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


sub member { qq({"address":"127.0.0.1:$_[0]","weight":$_[1]}) }


# Changes are made while the connection is away.

sub away {
    my ($changes) = @_;

    my $reconnects = $nginx->cluster()->{reconnects};

    $chaos->set(refuse => 1);
    $chaos->cut();
    $changes->();
    $chaos->set(refuse => 0);

    wait_for { $nginx->cluster()->{reconnects} > $reconnects } 10,
        'a reconnect';
}


# The watches are created again: a proof is younger than this call.

sub in_force {
    my $begun = time();

    wait_for {
        my $staleness = $nginx->cluster()->{staleness_ms};

        $staleness >= 0 && $staleness < 1000 * (time() - $begun)
    } 20, 'a proof';
}


sub reads {
    my ($name) = @_;

    return $nginx->count_log(qr{"/$name/": read from revision \d+ to \d+: ok});
}


$etcd->put("/few/$_", member("100$_", 1)) for 1 .. 3;
$nginx->upstream('few')->shows({ map { ("/few/$_" => "127.0.0.1:100$_ 1 up") }
                                 1 .. 3 }, 'members');

# A change, a new key, a deletion; compacted, so that no watch can tell of them.

away(sub {
    $etcd->put('/few/1', member(1001, 5));
    $etcd->put('/few/4', member(1004, 1));
    $etcd->del('/few/2');
    $etcd->compact();
});

$nginx->upstream('few')->shows({ '/few/1' => '127.0.0.1:1001 5 up',
                                 '/few/3' => '127.0.0.1:1003 1 up',
                                 '/few/4' => '127.0.0.1:1004 1 up' },
                               'what was missed is read');
is(reads('few'), 1, 'at once');
is($nginx->cluster()->{resyncs}, 0,
   'that etcd does not have it any more is no matter');

# nothing happened

my $generation = $nginx->upstream('few')->generation;

away(sub { });
in_force();
$etcd->put('/few/5', member(1005, 1));
$nginx->upstream('few')->shows({ '/few/1' => '127.0.0.1:1001 5 up',
                                 map { ("/few/$_" => "127.0.0.1:100$_ 1 up") }
                                 3 .. 5 }, 'the watch goes on');
is(reads('few'), 1, 'nothing is read where nothing was missed');
is($nginx->upstream('few')->generation, $generation + 1, 'and nothing changes');

# More keys change than are read at once.

for (my $n = 0; $n < 1100; $n += 100) {
    $etcd->txn(map { [put => "/many/$_", '127.0.0.1:' . (2000 + $_)] }
               $n .. $n + 99);
}

ok(wait_for(sub { keys %{ $nginx->upstream('many')->members } == 1100 }, 20,
            'many members'), 'many members');

away(sub {
    $etcd->del('/many/7');
    $etcd->put('/many/2000', '127.0.0.1:4000');
});

ok(wait_for(sub {
    my $members = $nginx->upstream('many')->members;
    !$members->{'/many/7'} && $members->{'/many/2000'}
}, 10, 'events'), 'more than is read at once: etcd tells what was missed');

# Another history has a revision past the known one: a key is gone, another came
# at the same revision as before with another value.

{
    my $known = $etcd->revision();
    my ($same) = grep { $_->{key} eq '/few/3' } $etcd->list('/few/');

    away(sub {
        $etcd->kill();
        remove_tree($etcd->{data});
        $etcd->start();

        $etcd->put('/unrelated', 1) while $etcd->revision()
                                          < $same->{mod_revision} - 1;
        $etcd->put('/few/3', member(3003, 1));
        $etcd->put('/few/1', member(1001, 9));
        $etcd->put('/unrelated', 1) while $etcd->revision() <= $known;
    });

    $nginx->upstream('few')->shows(
        { '/few/1' => '127.0.0.1:1001 9 up',
          '/few/3' => '127.0.0.1:3003 1 up' },
        'what is there is believed, not its revision');
}

$etcd->del_prefix($_) for '/many/', '/few/';
$nginx->upstream('few')->shows({}, 'empty');

# Members change all the time, each weight greater than the one before, while
# the connection is cut again and again.

my $writer = fork() // die "fork: $!\n";

if ($writer == 0) {
    my $end = 0;

    local $SIG{TERM} = sub { $end = 1 };

    for (my $n = 1; !$end; $n++) {
        $etcd->put('/few/' . (1 + $n % KEYS),
                   member(1001 + $n % KEYS, 1 + int($n / KEYS)));
    }

    POSIX::_exit(0);
}

my (%weight, @back);
my $before = reads('few');

for my $n (1 .. CUTS) {
    my $reconnects = $nginx->cluster()->{reconnects};

    $chaos->cut();

    wait_for {
        my $members = $nginx->upstream('few')->members;

        for my $key (keys %$members) {
            my ($weight) = $members->{$key} =~ / (\d+) up$/;

            push @back, "$key $weight after $weight{$key}"
                if $weight < ($weight{$key} // 0);
            $weight{$key} = $weight;
        }

        $nginx->cluster()->{reconnects} > $reconnects;
    } 10, 'the next connection';
}

kill('TERM', $writer);
waitpid($writer, 0);

cmp_ok(reads('few'), '>', $before, 'under changes: what was missed is read');
is_deeply(\@back, [], 'no member goes back to an older value');

my %expected = map {
    my ($key, $value) = @$_;
    my ($address, $weight) = $value =~ /"([\d.:]+)","weight":(\d+)/;

    ($key => "$address $weight up")
} map { [$_->{key}, $_->{value}] } $etcd->list('/few/');

$nginx->upstream('few')->shows(\%expected, 'and all are as the newest');

finish();
