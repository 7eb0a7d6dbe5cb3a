#!/usr/bin/perl

# Requests follow a leader: an election's first candidate, a Vitess election's,
# the member in one key, or the member that a key names.  One member is used, or
# none.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Nginx;
use Process;
use State;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(one two three));
my ($at1, $at2, $at3) = map { $_->address } @backends;

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

thread_pool default threads=1;

http {
    upstream db {
        etcd_leader /election/db;
    }

    upstream all {
        etcd_members /election/db/;
    }

    upstream json {
        etcd_leader /election/json value_format=json;
    }

    upstream key {
        etcd_leader /key/leader format=key;
    }

    upstream named {
        etcd_leader /named/leader format=key members=/named/members/;
    }

    upstream vitess {
        etcd_leader /vitess/global/elections/main format=vitess;
    }

    upstream ids {
        etcd_leader /vitess/global/elections/ids/ format=vitess
                    members=/vitess/global/;
    }

    %%MORE%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            proxy_set_header X-Token $etcd_member_revision;
            add_header X-Key $etcd_member_key always;
            add_header X-Token $etcd_member_revision always;
        }
    }
}

END

my $nginx = Nginx->new(etcd => $etcd)->set(MORE => '')->start($config);

my %upstream = map { $_ => Upstream->new($nginx, $_) }
    qw(db all json key named vitess ids);


# Tests that nobody but the wanted backend answers, whichever worker is asked.

sub all_say {
    my ($name, $who, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $tally;

    wait_for {
        $tally = $nginx->tally("/to/$name", 30, 3);
        join(' ', keys %$tally) eq $who;
    } 10, "$name: $what";

    is_deeply($tally, { $who => 30 }, $what);
}


# all_say(), once nginx knows the change of the revision

sub still_says {
    my ($name, $revision, $who, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $upstream{$name}->sees($revision);
    is_deeply($nginx->tally("/to/$name", 30, 3), { $who => 30 }, $what);
}


sub lines_of {
    my ($path) = @_;

    open(my $file, '<', $path) or return '';
    local $/;

    return <$file> // '';
}


sub leads { return { $_[0] => "$_[1] 1 up" } }


# an election

is($upstream{db}->status->{kind}, 'leader', 'kind: leader');
is($upstream{db}->status->{prefix}, '/election/db/',
   'an election is below its prefix');

is($nginx->who('db'), 502, 'nobody has campaigned: 502');

# The worker that is asked may stand still for a while, but not each time.

ok(wait_for(sub {
    my $start = time();
    $nginx->who('db') eq '502' && time() - $start < 1;
}, 10, 'an answer at once'), 'and at once');

my $first = $etcd->put('/election/db/a1', $at1);
$etcd->put('/election/db/a2', $at2);

my $third = $etcd->put('/election/db/a3', $at3);

$etcd->put('/election/db2/a0', $at3);

all_say(db => 'one', 'the first candidate leads');
$upstream{db}->shows(leads('/election/db/a1', $at1), 'nobody else is there');
$upstream{all}->sees($third);
is(scalar(keys %{ $upstream{all}->members }), 3,
   'to an upstream of members all of them are');

my $answer = $nginx->get('/to/db');

is($answer->{headers}{'x-key'}, '/election/db/a1', 'its key');
is($answer->{headers}{'x-token'}, $first, 'its revision is the token');

my $generation = $upstream{db}->generation;

$etcd->put('/election/db/a1', $at1);
$etcd->put('/election/db/a3', $at3);
$etcd->put('/election/db/a4', '127.0.0.1:4');
$upstream{db}->sees($etcd->del('/election/db/a4'));
is($upstream{db}->generation, $generation,
   'what does not change the leader is no change');

$etcd->del('/election/db/a1');
all_say(db => 'two', 'the next one, when it resigns');

$etcd->txn([del => '/election/db/a2'], [put => '/election/db/a1', $at1]);
all_say(db => 'three', 'who comes again is last');

my $lease = $etcd->grant(60);

$etcd->put('/election/db/a5', $at2, lease => $lease);
$etcd->txn([del => '/election/db/a3'], [del => '/election/db/a1']);
all_say(db => 'two', 'by a transaction');

$etcd->revoke($lease);
all_say(db => 502, 'with the last one the leader goes');
$upstream{db}->shows({}, 'the set is empty');

my $short = $etcd->grant(6);

$etcd->put('/election/db/b1', $at3, lease => $short);
$etcd->put('/election/db/b2', $at1);
all_say(db => 'three', 'one with a short lease');
ok(wait_for(sub { $nginx->who('db') eq 'one' }, 30), 'its lease expires');

# A leader moves without another election.

my $before = $etcd->put('/election/db/b2', $at2);

all_say(db => 'two', 'a leader proclaims another address');
cmp_ok($nginx->get('/to/db')->{headers}{'x-token'}, '<', $before,
       'its token is that of its election');

# a value that is no address

$etcd->put('/election/db/b3', $at1);
$etcd->put('/election/db/b2', 'nonsense');
all_say(db => 502, 'a leader without an address: no leader');
$upstream{db}->reports({
    '/election/db/b2' => 'address "nonsense" has no port'
}, 'it is reported');
$nginx->logs(qr/upstream "db": key "\/election\/db\/b2".*not used/, 1,
             'once in the log');

$upstream{db}->sees($etcd->put('/election/db/b3', $at3));
$nginx->logs(qr/upstream "db": key "\/election\/db\/b2".*not used/, 1,
             'and not with every change');

$etcd->put('/election/db/b2', $at2);
all_say(db => 'two', 'it leads when it is valid');
$upstream{db}->reports({}, 'nothing to report');

$etcd->put('/election/db/b2', $at2 . ',' . $at1);
all_say(db => 502, 'two addresses are none');
$etcd->del('/election/db/b2');
all_say(db => 'three', 'who comes next does not care');
$upstream{db}->reports({}, 'the report went with the key');

# a tie

my $tie = $etcd->txn(
    [put => '/election/json/a', "{\"address\":\"$at1\"}"],
    [put => '/election/json/b', "{\"address\":\"$at2\"}"]);

still_says(json => $tie, 502, 'two candidates of one transaction: no leader');
like((values %{ $upstream{json}->invalid })[0], qr/another candidate/,
     'it is reported');
$nginx->logs(qr/upstream "json".*another candidate/, 1, 'once');
still_says(json => $etcd->put('/election/json/c', "{\"address\":\"$at3\"}"),
           502, 'a third does not matter');
$nginx->logs(qr/upstream "json".*another candidate/, 1, 'still once');
$etcd->del('/election/json/a');
all_say(json => 'two', 'one of the two leads when the other is gone');
$etcd->put('/election/json/b', $at1);
all_say(json => 502, 'a value of another format');
still_says(json => $etcd->put('/election/json/b',
                              "{\"address\":\"$at1\",\"drain\":true}"),
           502, 'a leader that drains gets nothing');

# real candidates

{
    my $log = test_dir() . '/elect.log';
    my @elect = ('etcdctl', '--endpoints', $etcd->url, 'elect',
                 '/election/db');

    $etcd->del_prefix('/election/db/');

    local $ENV{ETCDCTL_API} = 3;

    my $one = spawn($log, @elect, $at1);

    ok(wait_for(sub { $nginx->who('db') eq 'one' }, 10), 'etcdctl elect');

    my $two = spawn($log, @elect, $at2);

    my @keys;

    wait_for { (@keys = $etcd->list('/election/db/')) == 2 } 10, 'both';
    still_says(db => $keys[-1]{mod_revision}, 'one', 'a second one waits');

    stop_child($one, 'INT');
    ok(wait_for(sub { $nginx->who('db') eq 'two' }, 10),
       'the first one resigns');

    # The second candidate resigns once it knows that it has won.

    wait_for { lines_of($log) =~ /\Q$at2\E/ } 10, 'the second one';
    stop_child($two, 'INT');
    ok(wait_for(sub { $nginx->who('db') eq '502' }, 10), 'so does the second');
}

# a key

is($nginx->who('key'), 502, 'no key, no leader');
my $token = $etcd->put('/key/leader', $at1);
$etcd->put('/key/leader2', $at2);
all_say(key => 'one', 'the address that a key holds');
$etcd->put('/key/leader', $at2);
all_say(key => 'two', 'another one');
is($nginx->get('/to/key')->{headers}{'x-token'}, $token, 'in the same term');
$etcd->put('/key/leader', '');
all_say(key => 502, 'none');
$etcd->txn([del => '/key/leader']);
$etcd->put('/key/leader', $at3);
all_say(key => 'three', 'a new key');
$etcd->del('/key/leader');
all_say(key => 502, 'gone');

# a name

$etcd->put('/named/members/a', $at1);
still_says(named => $etcd->put('/named/members/b', $at2), 502,
           'members, and no leader');
$token = $etcd->put('/named/leader', "b\n");
all_say(named => 'two', 'it names a member');
$answer = $nginx->get('/to/named');
is($answer->{headers}{'x-key'}, '/named/members/b', 'whose key it is');
is($answer->{headers}{'x-token'}, $token, 'the token is the leader key\'s');

$etcd->put('/named/members/b', $at2);
$generation = $upstream{named}->generation;
$etcd->put('/named/members/a', $at3);
$upstream{named}->sees($etcd->put('/named/members/b', $at2));
is($upstream{named}->generation, $generation, 'others do not matter');

$etcd->put('/named/members/b', $at1);
all_say(named => 'one', 'the member moves');
$etcd->put('/named/leader', 'c');
all_say(named => 502, 'a name without a member');
$upstream{named}->reports({
    '/named/leader' => 'value "c" does not name a member'
}, 'is reported');
$etcd->put('/named/members/c', $at3);
all_say(named => 'three', 'the member comes');
$upstream{named}->reports({}, 'which mends it');

for my $name ('', 'members/c', '../members/c', "c\0", "\xff") {
    still_says(named => $etcd->put('/named/leader', $name), 502,
               'a name that is none');
}

$etcd->txn([put => '/named/leader', 'd'], [put => '/named/members/d', $at2]);
all_say(named => 'two', 'name and member in one transaction');
$etcd->del('/named/members/d');
all_say(named => 502, 'the member goes, the name stays');

# Vitess, whose candidates have the decimal number of their lease as name

my $elections = '/vitess/global/elections';


# A candidate of an election takes part by a key under its lease.

sub takes_part {
    my ($election, $id) = @_;

    my $lease = $etcd->grant(60);
    my $key = "$elections/$election/locks/$lease";
    my $revision = $etcd->put($key, $id, lease => $lease);

    return { lease => $lease, key => $key, revision => $revision };
}


is($nginx->who('vitess'), 502, 'nobody takes part');

my $stranger = $etcd->put("$elections/main/1", $at3);
my $vt1 = takes_part(main => $at1);
my $vt2 = takes_part(main => $at2);

$etcd->put("$elections/main2/locks/1", $at3);

all_say(vitess => 'one', 'who took part first leads');
cmp_ok($stranger, '<', $vt1->{revision}, 'keys beside locks take no part');
$upstream{vitess}->shows({ $vt1->{key} => "$at1 1 up" }, 'nobody else');
$answer = $nginx->get('/to/vitess');
is($answer->{headers}{'x-key'}, $vt1->{key}, 'its key');
is($answer->{headers}{'x-token'}, $vt1->{revision}, 'its revision');

my $vt3 = takes_part(main => $at3);

$etcd->revoke($vt1->{lease});
all_say(vitess => 'two', 'its lease ends: the next one');

# The lowest mod_revision leads: a candidate that is put again is behind all
# others, and the token still grows.

$token = $etcd->put($vt2->{key}, $at2, lease => $vt2->{lease});
all_say(vitess => 'three', 'who is written anew is the last one');
is($nginx->get('/to/vitess')->{headers}{'x-token'}, $vt3->{revision},
   'the token grows');
$etcd->revoke($vt3->{lease});
all_say(vitess => 'two', 'and leads again after the others');
is($nginx->get('/to/vitess')->{headers}{'x-token'}, $token,
   'by a revision that grows, too');

my @tie = map { [put => "$elections/main/locks/$_", $at1] } 1, 2;

$etcd->txn(@tie);
$etcd->revoke($vt2->{lease});
all_say(vitess => 502, 'two of one transaction');
like((values %{ $upstream{vitess}->invalid })[0], qr/another candidate/,
     'are reported');
$etcd->del("$elections/main/locks/1");
all_say(vitess => 'one', 'until one of them is gone');

# The key has an id; the prefix of the members has the candidates, too.

$etcd->put('/vitess/global/zone1-100', $at1);
$etcd->put('/vitess/global/zone1-101', $at2);
still_says(ids => $etcd->put('/vitess/global/zone1-102', $at3), 502,
           'members, and no candidate');

my $id1 = takes_part(ids => 'zone1-101');
my $id2 = takes_part(ids => 'zone1-100');

all_say(ids => 'two', 'the leader names a member');
$answer = $nginx->get('/to/ids');
is($answer->{headers}{'x-key'}, '/vitess/global/zone1-101', 'whose key it is');
is($answer->{headers}{'x-token'}, $id1->{revision},
   'the token is the candidate\'s');
$etcd->put('/vitess/global/zone1-101', $at3);
all_say(ids => 'three', 'the member moves');
$etcd->revoke($id1->{lease});
all_say(ids => 'one', 'the next one names another');
$etcd->del('/vitess/global/zone1-100');
all_say(ids => 502, 'who is not there');
$upstream{ids}->reports({
    $id2->{key} => 'value "zone1-100" does not name a member'
}, 'which is reported');
$etcd->put('/vitess/global/zone1-100', $at2);
all_say(ids => 'two', 'it comes');

# Leaders outlive the agent, and a reload.

$etcd->put('/election/db/c1', $at1);
$etcd->put('/election/db/c2', $at2);
$etcd->put('/named/leader', 'a');
all_say(db => 'one', 'a leader before');

my $agent = $nginx->status->{agent}{pid};

$nginx->kill_worker($agent);
ok(wait_for(sub { ($nginx->status->{agent}{pid} // $agent) != $agent }, 10),
   'another agent');
all_say(db => 'one', 'the leader stays');
$etcd->del('/election/db/c1');
all_say(db => 'two', 'it knows who is next');
all_say(named => 'three', 'and who is named');

ok($nginx->reload(), 'a reload');
still_says(db => $etcd->put('/election/db/c3', $at3), 'two',
           'the leader stays after a reload');
$etcd->del('/election/db/c2');
all_say(db => 'three', 'and the next one is known');

# A change that no watch saw, as it was compacted.

still_says(db => $etcd->put('/election/db/c4', $at1), 'three',
           'before etcd is away');
$etcd->stop();
is($nginx->who('db'), 'three', 'while it is away');
ok($nginx->reload(), 'a reload without etcd');
is($nginx->who('db'), 'three',
   'the last known leader, as long as max_stale lets it');
$etcd->start();
$etcd->del('/election/db/c3');
$etcd->put('/other', 'so that the deletion is not the newest revision');
$etcd->compact();
all_say(db => 'one', 'who leads when it is back');

# Another way to select makes another set: nobody leads by the former members.

$nginx->reload($config =~ s{etcd_members}{etcd_leader}r
                       =~ s{etcd_leader /election/db;}{etcd_members /key/;}r);
all_say(all => 'one', 'members become candidates');
still_says(all => $etcd->put('/election/db/c0', $at2), 'one',
           'and the first of them leads');

# A start: no leader is known until etcd tells it.

wait_for { -s $nginx->dir . '/state/default.state' } 10, 'the state file';
$nginx->quit();

my $sets = saved_state($nginx->dir . '/state/default.state')->{sets};

is(scalar(grep { $_->{name} =~ /^(?:named|all)$/ } @$sets), 0,
   'leaders are not in the state file');

$etcd->stop();
$nginx->start();
is($nginx->who('named'), 502, 'without etcd nobody leads after a start');
$etcd->start();
ok(wait_for(sub { $nginx->who('named') eq 'three' }, 20), 'until it is there');

finish();
