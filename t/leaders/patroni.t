#!/usr/bin/perl

# Keys that Patroni writes into etcd, and members that are used: the leader,
# replicas, all; members that have confirmed that they lead; members with a
# name.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Dns;
use Becomes;
use Etcd;
use Example;
use Finish;
use Line;
use Nginx;
use Upstream;
use Wait;

my $has_stream = Nginx::has('stream');

my $etcd = Etcd->new()->start();
my $dns = Dns->start();

my %pg = map { $_->name => $_ } Backend->start(qw(pg1 pg2 pg3));
my %api = map { $_->name => $_ } Backend->start(qw(pg1 pg2 pg3));

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    resolver %%DNS%% ipv6=off;
    resolver_timeout 1s;
}

http {
    upstream writer {
        etcd_leader /service/batman format=patroni;
    }

    upstream readers {
        etcd_leader /service/batman/ format=patroni role=replica;
    }

    upstream near {
        etcd_leader /service/batman format=patroni role=replica max_lag=1k;
    }

    upstream any {
        etcd_leader /service/batman format=patroni role=any;
    }

    upstream streaming {
        etcd_leader /service/batman format=patroni role=replica
                                    replication_state=streaming;
    }

    upstream citus {
        etcd_leader /service/citus/$arg_group format=patroni role=replica;
    }

    upstream sure {
        etcd_leader /service/batman format=patroni confirm=api;
    }

    upstream sync {
        etcd_leader /service/roles format=patroni role=sync;
    }

    upstream quorum {
        etcd_leader /service/roles format=patroni role=quorum;
    }

    upstream async {
        etcd_leader /service/roles format=patroni role=async;
    }

    upstream standby_leader {
        etcd_leader /service/roles format=patroni role=standby_leader
                                   confirm=api;
    }

    upstream tagged {
        etcd_leader /service/roles format=patroni role=any
                                   tag=zone:a tag=fast:true tag=n:7;
    }

    upstream tagged_leader {
        etcd_leader /service/roles format=patroni tag=zone:a;
    }

    upstream pooled {
        etcd_leader /service/roles format=patroni url=proxy_url;
    }

    upstream allowed {
        etcd_leader /service/batman format=patroni confirm=api;
        etcd_allow 10.0.0.0/8;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            add_header X-Token $etcd_member_revision always;
        }
    }
}

END

my $nginx = Nginx->new(etcd => $etcd)->set(DNS => $dns->address);

$nginx->start($config);

my %upstream = map { $_ => Upstream->new($nginx, $_) }
    qw(writer readers near any sure allowed);


# a member as Patroni writes it

sub value {
    my ($name, %fields) = @_;

    return encode_json({
        conn_url      => 'postgres://' . $pg{$name}->address . '/postgres',
        api_url       => 'http://' . $api{$name}->address . '/patroni',
        state         => 'running',
        role          => 'replica',
        version       => '2.1.7',
        xlog_location => 67108960,
        timeline      => 1,
        %fields,
    });
}


sub member_key { "/service/batman/members/$_[0]" }
sub put { $etcd->put(member_key($_[0]), value(@_)) }
sub lead { $etcd->put('/service/batman/leader', $_[0]) }


# Tests that all of these are used, and nobody else, in every worker.

sub used {
    my ($name, $who, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $nginx->comes_to_use($name, $who, $what);
}


# used(), once nginx knows the change of the revision

sub still_used {
    my ($name, $revision, @rest) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $upstream{$name}->sees($revision);

    return used($name, @rest);
}


# Sibling keys alone make no members.

for my $sibling (qw(config initialize failover history status sync failsafe)) {
    $etcd->put("/service/batman/$sibling", '{"conn_url":"127.0.0.1:1"}');
}

$etcd->put('/service/batman2/leader', 'pg3');
$etcd->put('/service/batman2/members/pg3', value('pg3'));

used($_ => 502, 'nobody') for qw(writer readers any sure);
is_deeply($upstream{any}->invalid, {}, 'siblings are no members');

# members, then a leader

put($_) for qw(pg1 pg2 pg3);
used(writer => 502, 'members do not lead');
used(readers => 'pg1 pg2 pg3', 'they are replicas');

$api{$_}->set(status => 503) for keys %api;

my $token = lead('pg1');

used(writer => 'pg1', 'the leader');
used(readers => 'pg2 pg3', 'the others');
used(any => 'pg1 pg2 pg3', 'all');

my $answer = $nginx->get('/to/writer');

is($answer->{headers}{'x-token'}, $token, 'the token is the leader key\'s');

# Keys that are rewritten every few seconds change nothing.

$_->sees($token) for values %upstream;

my %generation = map { $_ => $upstream{$_}->generation }
    qw(writer readers any near);

for my $n (1 .. 3) {
    put('pg1', xlog_location => 67108960 + $n, role => 'master');
    put('pg2', xlog_location => 67108960 + $n);
    $etcd->put('/service/batman/status', "{\"optime\":$n}");
}

my $rewritten = put('pg3', xlog_location => 67108961);

for my $name (sort keys %generation) {
    $upstream{$name}->sees($rewritten);
    is($upstream{$name}->generation, $generation{$name},
       "$name: nothing is new");
}

# states, tags, lag

put('pg2', state => 'starting');
used(readers => 'pg3', 'one that is not running is none');
used(any => 'pg1 pg3', 'at all');
put('pg2', tags => { noloadbalance => JSON::PP::true });
used(readers => 'pg3', 'noloadbalance');
used(any => 'pg1 pg3', 'neither');
put('pg2', tags => { noloadbalance => JSON::PP::false,
                     nofailover => JSON::PP::true });
used(readers => 'pg2 pg3', 'other tags');

# The tag is true for whatever Patroni takes for true.

for my $tag ('true', 'yes', 1, 0.5, 'false') {
    put('pg2', tags => { noloadbalance => JSON::PP::false });
    used(readers => 'pg2 pg3', 'no noloadbalance');
    put('pg2', tags => { noloadbalance => $tag });
    used(readers => 'pg3', "noloadbalance: $tag");
}

for my $tag (undef, 0, '') {
    put('pg2', tags => { noloadbalance => JSON::PP::true });
    used(readers => 'pg3', 'noloadbalance');
    put('pg2', tags => { noloadbalance => $tag });
    used(readers => 'pg2 pg3', 'noloadbalance: ' . ($tag // 'null'));
}

put('pg1', xlog_location => 67109000);
put('pg2', xlog_location => 67109000 - 1024);
put('pg3', xlog_location => 67109000 - 1025);
used(near => 'pg2', 'max_lag');
used(readers => 'pg2 pg3', 'without a limit');
put('pg3', xlog_location => 67109001);
used(near => 'pg2 pg3', 'one may be ahead of what the leader has written');
put('pg3', xlog_location => undef);
used(near => 'pg2', 'a lag that is not known');
put('pg3');

# leadership moves: key races

$etcd->txn([del => '/service/batman/leader']);
used(writer => 502, 'nobody leads');
used(readers => 'pg1 pg2 pg3', 'replicas serve meanwhile');
lead('pg2');
used(writer => 'pg2', 'the next one');
used(readers => 'pg1 pg3', 'its replicas');

# The own role of a member decides.  While Patroni is paused, a second primary
# may run without the leader's key.

for my $role (qw(primary master promoted standby_leader demoted uninitialized
                 leader Replica))
{
    put('pg1', role => $role);
    used(readers => 'pg3', "a member whose own role is $role is no replica");
    used(any => 'pg2 pg3', 'and neither the leader');
    used(writer => 'pg2', 'the leader leads');
    put('pg1');
    used(readers => 'pg1 pg3', 'it is a replica again');
}

$etcd->txn([del => '/service/batman/leader']);
put('pg1', role => 'primary');
put('pg2', role => 'primary');
used(readers => 'pg3', 'nobody leads, and two are primaries');
used(any => 'pg3', 'nobody leads');
put($_) for qw(pg1 pg2);
$token = lead('pg2');

for my $none (undef, 7, {}) {
    put('pg1', role => $none);
    used(readers => 'pg3', 'a member without a role is no replica');
    $upstream{readers}->reports({ member_key('pg1') => 'role is missing' },
                                'which is reported');
}

put('pg1');
$upstream{readers}->reports({}, 'nothing to report');

for my $role (qw(demoted uninitialized)) {
    put('pg2', role => $role);
    used(writer => 502, "a leader whose own role is $role");
    used(any => 'pg1 pg3', 'gets no requests');
    put('pg2', role => 'primary');
    used(writer => 'pg2', 'a primary');
    used(any => 'pg1 pg2 pg3', 'which leads');
}

put('pg2');

# the state of the replication

used(streaming => 502, 'no replica says that it is streaming');
put('pg1', replication_state => 'streaming');
put('pg3', replication_state => 'in archive recovery');
used(streaming => 'pg1', 'the one that does');
used(readers => 'pg1 pg3', 'replication_state= is not the default');
put($_) for qw(pg1 pg3);

# Citus keeps each group below the scope.

for my $group (0, 1) {
    $etcd->put("/service/citus/$group/members/$_", value($_)) for qw(pg1 pg2);
    $etcd->put("/service/citus/$group/leader", $group ? 'pg1' : 'pg2');
}

is_deeply([map { $nginx->get("/to/citus?group=$_")->{status} } 'x', ''],
          [404, 404], 'groups that do not exist')
    if wait_for { $nginx->get('/to/citus?group=1')->{body} eq 'pg2' } 20,
                'group 1';

is($nginx->get('/to/citus?group=0')->{body}, 'pg1', 'the replica of a group');
is($nginx->get('/to/citus?group=1')->{body}, 'pg2', 'and of another one');
$etcd->put('/service/citus/1/members/pg2', value('pg2', role => 'primary'));
ok(wait_for(sub { $nginx->get('/to/citus?group=1')->{status} == 502 }, 20),
   'a second primary of a group is no replica');
is($nginx->get('/to/citus?group=0')->{body}, 'pg1', 'the other group has one');

# During a switchover nothing new is sent to the leader that is to leave.

for my $order ('{"leader":"pg2","member":"pg3"}', '{"leader":"pg2"}',
               '{"member":"pg3"}')
{
    $etcd->put('/service/batman/failover', $order);
    used(writer => 502, "failover $order");
    $upstream{writer}->shows({
        member_key('pg2') => $pg{pg2}->address . ' 1 drained'
    }, 'the leader drains');
    $etcd->put('/service/batman/failover', '{}');
    used(writer => 'pg2', 'which is taken back');
}

for my $order ('{"leader":"pg1","member":"pg3"}', '{"member":"pg2"}', '{',
               '{"leader":"pg2","scheduled_at":"2030-01-01T00:00:00+00:00"}',
               '[]', '{"leader":"","member":""}', '{"leader":7}', '')
{
    still_used(writer => $etcd->put('/service/batman/failover', $order),
               'pg2', "not of it, or not now: failover $order");
}

is_deeply($upstream{$_}->invalid, {}, "$_: it is no member")
    for qw(any readers);

# a leader whose PostgreSQL does not run

for my $state ('stopping', 'crashed', 'starting', undef) {
    put('pg2', state => $state);
    used(writer => 502, 'a leader that is ' . ($state // 'in no state'));
    put('pg2');
    used(writer => 'pg2', 'it runs');
}

# A former leader that was stopped overwrites the key by a plain put, when its
# own key is gone.

$etcd->del(member_key('pg1'));
still_used(writer => lead('pg1'), 502,
           'the name of one without a key: nobody is guessed');
$upstream{writer}->reports({
    '/service/batman/leader' => 'value "pg1" does not name a member'
}, 'it is reported');
sleep(0.09);
put('pg1');
used(writer => 'pg1', 'its key is there again');
$upstream{writer}->reports({}, 'nothing to report');

# A lease expires: leader and member go in one revision.

$etcd->txn([del => '/service/batman/leader'], [del => member_key('pg1')]);
used(writer => 502, 'leader and member go');
used(readers => 'pg2 pg3', 'two are left');
$etcd->txn([put => '/service/batman/leader', 'pg3'],
           [put => member_key('pg1'), value('pg1')]);
used(writer => 'pg3', 'and come');

# bad values

put('pg3', conn_url => 'mysql://127.0.0.1:3306/');
used(writer => 502, 'a leader without an address');
$upstream{writer}->reports({
    member_key('pg3') => 'conn_url "mysql://127.0.0.1:3306/" '
        . 'does not begin with postgres://HOST'
}, 'is reported');

my $lines = $nginx->count_log(qr/"writer": key .*pg3.* is invalid/);

$upstream{writer}->sees(put('pg3', conn_url => 'mysql://127.0.0.1:3306/',
                            xlog_location => 1));
is($nginx->count_log(qr/"writer": key .*pg3.* is invalid/), $lines,
   'not with every rewriting');

for my $url (undef, 7, '', 'postgres://', 'postgres://:5432/', 'postgres://[/',
             'postgres:///db', 'postgres://127.0.0.1:99999/')
{
    still_used(writer => put('pg3', conn_url => $url), 502,
               'no address in ' . ($url // 'nothing'));
}

for my $value ('', 'pg3', '[]', '{', '{}', '{"conn_url":{}}', "\0") {
    still_used(writer => $etcd->put(member_key('pg3'), $value), 502,
               'no address in a value that is none');
}

used(readers => 'pg1 pg2', 'the others do not care');

my $port = $pg{pg3}->port;

for my $url ("postgres://user:p%40ss\@127.0.0.1:$port/db?sslmode=prefer",
             "postgresql://127.0.0.1:$port", "postgres://127.0.0.1:$port?a=b/c")
{
    put('pg3', conn_url => $url);
    used(writer => 'pg3', $url);
}

put('pg3', conn_url => 'postgres://10.1.2.3/postgres');
$upstream{writer}->shows({ member_key('pg3') => '10.1.2.3:5432 1 up' },
                         'PostgreSQL\'s port');
put('pg3', conn_url => 'postgres://[2001:db8::7]/postgres');
$upstream{writer}->shows({ member_key('pg3') => '[2001:db8::7]:5432 1 up' },
                         'IPv6');

# names

put('pg3', conn_url => "postgres://pg3.test:$port/postgres");
$upstream{writer}->reports({
    member_key('pg3') => '"pg3.test" could not be resolved: Host not found'
}, 'a name that is not known');
used(writer => 502, 'does not lead');
sleep(2.5);
is($nginx->count_log(qr/"writer": key .*pg3.* could not be resolved/), 1,
   'which is said once, however often it is asked for');

$dns->set('pg3.test' => ['127.0.0.1']);
used(writer => 'pg3', 'it is known later');
$upstream{writer}->reports({}, 'nothing to report');
is_deeply($upstream{readers}->invalid, {}, 'replicas have addresses');

$dns->set('pg2.test' => 'silence');
put('pg2', conn_url => 'postgres://pg2.test:' . $pg{pg2}->port);
still_used(readers => put('pg1'), 'pg1', 'a name that is not answered');
is($nginx->who('writer'), 'pg3', 'nobody waits for it');
$dns->set('pg2.test' => ['127.0.0.1']);
used(readers => 'pg1 pg2', 'an answer, at last');
put($_) for qw(pg2 pg3);

# confirm=api: nobody has confirmed anything so far.

used(sure => 502, 'nobody that does not say that it is primary');
is($upstream{allowed}->invalid->{ member_key('pg3') },
   'api_url "' . $api{pg3}->address . '" is not allowed by etcd_allow',
   'nobody is asked whom etcd_allow does not let');

$api{pg3}->set(status => 200);
used(sure => 'pg3', 'it is');

$_->reset for values %api;

my $since = time();

lead('pg1');
put('pg1', xlog_location => 5);
ok(wait_for(sub { $api{pg1}->requests >= 10 }, 10),
   'it is asked again and again');
is($nginx->who('sure'), 502, 'the next one is not yet');
used(writer => 'pg1', 'though it has the key');

my $asked = $api{pg1}->requests;

cmp_ok($asked, '<=', 10 + (time() - $since) / 0.004,
       'every 5 ms, at first');
is($api{pg2}->requests + $api{pg3}->requests, 0, 'nobody else is');

$api{pg1}->set(status => 200);
used(sure => 'pg1', 'then it is');
$_->reset for values %api;
put('pg1', xlog_location => 6);
$upstream{sure}->sees(put('pg2'));
sleep(0.1);
is($api{pg1}->requests, 0, 'after that it is not asked any more');

ok($nginx->reload(), 'a reload');
used(sure => 'pg1', 'it still leads');
is($api{pg1}->requests, 0, 'without being asked');

$api{pg1}->set(status => 503);
put('pg1', xlog_location => 7);
used(sure => 'pg1', 'it has confirmed this term');

$etcd->txn([del => '/service/batman/leader']);
lead('pg1');
sleep(0.1);
used(sure => 502, 'another term is to be confirmed');
$api{pg1}->set(status => 200);
used(sure => 'pg1', 'it is');

# Patroni answers 200 before PostgreSQL is promoted.

$api{pg2}->set(status => 200, body => '{"state":"running","role":"replica"}');
lead('pg2');
sleep(0.2);
used(sure => 502, 'one that still recovers');

for my $role (qw(master primary)) {
    $etcd->txn([del => '/service/batman/leader']);
    lead('pg2');
    $api{pg2}->set(body => "{\"state\":\"running\",\"role\":\"$role\"}");
    used(sure => 'pg2', "a $role");
}

$api{pg2}->set(body => undef);

# APIs hang, are away, break off, and send other answers.

for my $case (
    ['hangs', sub { $api{pg2}->set(hang => 1, status => 200) },
              sub { $api{pg2}->set(hang => 0) }],
    ['is away', sub { $api{pg2}->down }, sub { $api{pg2}->up }],
    ['says 302', sub { $api{pg2}->set(status => 302) },
                 sub { $api{pg2}->set(status => 200) }],
) {
    my ($name, $break, $mend) = @$case;

    lead('pg1');
    used(sure => 'pg1', 'before');
    $break->();
    lead('pg2');
    sleep(0.2);
    used(sure => 502, "an API that $name");
    $mend->();
    used(sure => 'pg2', 'and not for ever');
}

# URLs that no API can have

$api{pg3}->set(status => 503);
lead('pg3');
used(sure => 502, 'one that does not confirm');

for my $case (
    ['ftp://127.0.0.1:1/patroni', 'api_url "ftp://127.0.0.1:1/patroni" does '
     . 'not begin with http://HOST or https://HOST'],
    ['https://127.0.0.1:1/patroni', 'api_url is https, which requires '
     . '"api_trusted_certificate"'],
    [undef, 'api_url null is not a string'],
) {
    put('pg3', api_url => $case->[0]);
    $upstream{sure}->reports({ member_key('pg3') => $case->[1] },
                             'an API that is not asked');
    used(sure => 502, 'confirms nothing');
}

$api{pg3}->set(status => 200);
$dns->set('api.test' => ['127.0.0.1']);
put('pg3', api_url => 'http://api.test:' . $api{pg3}->port . '/patroni');
used(sure => 'pg3', 'an API by name');

# After the bound the API is asked seldom, and the log says so once.

my $said = $nginx->count_log(qr/not confirmed that it leads/);

$api{pg1}->set(status => 503);
put('pg1');
lead('pg1');
ok(wait_for(sub { $nginx->count_log(qr/not confirmed that it leads/) > $said },
            15), 'one that does not confirm within 10 s');
$since = time();
$_->reset for values %api;
sleep(1.5);
cmp_ok($api{pg1}->requests, '<=', 2 + (time() - $since),
       'is asked every second');
is($nginx->count_log(qr/not confirmed that it leads/), $said + 1, 'said once');
used(sure => 502, 'it is not used');
$api{pg1}->set(status => 200);
used(sure => 'pg1', 'until it does');

# other roles

sub role_put {
    my ($name, %fields) = @_;

    $etcd->put("/service/roles/members/$name", value($name, %fields));
}

sub role_set { $etcd->put("/service/roles/$_[0]", $_[1]) }

role_put($_) for qw(pg1 pg2 pg3);
role_set('leader', 'pg1');

used(async => 'pg2 pg3', 'no replica is synchronous');
used(sync => 502, 'none');

role_set('sync', '{"leader":"pg1","sync_standby":"PG2, other","quorum":0}');
used(async => 'pg2 pg3', 'synchronous_mode is off');
role_set('config', '{"ttl":30,"synchronous_mode":true}');
used(sync => 'pg2', 'the one that /sync names');
used(async => 'pg3', 'the one that it does not');
used(quorum => 502, 'quorum commit is off');
role_set('sync', '{"leader":"pg1","sync_standby":"pg3,pg2"}');
used(sync => 'pg2 pg3', 'both');
used(async => 502, 'none is left');
role_set('sync', '{"leader":"pg1","sync_standby":"pg1,pg3,"}');
used(sync => 'pg3', 'not the leader');
role_set('config', '{"synchronous_mode":"quorum"}');
used(quorum => 'pg3', 'quorum commit');
used(sync => 502, 'which is not the same');
used(async => 'pg2', 'and not asynchronous');
role_put('pg3', tags => { noloadbalance => JSON::PP::true });
used(quorum => 502, 'noloadbalance');
role_put('pg3');
role_set('sync', '{"leader":null,"sync_standby":null}');
used(async => 'pg2 pg3', 'Patroni has emptied /sync');
role_set('sync', '{');
used(async => 'pg2 pg3', 'a broken /sync names nobody');

$api{pg1}->set(status => 200, body => '{"role":"standby_leader"}');
used(standby_leader => 502, 'a primary is none');
role_put('pg1', role => 'standby_leader');
used(standby_leader => 'pg1', 'the standby leader');
$api{pg1}->set(body => undef);
role_put('pg1', role => 'primary');
used(standby_leader => 502, 'its cluster is no standby any more');

# tags: of all types, and all of them

used(tagged => 502, 'no tags');
role_put('pg1', tags => { zone => 'a' });
used(tagged_leader => 'pg1', 'a leader by its tag');
role_put('pg2', tags => { zone => 'a', fast => JSON::PP::true, n => 7 });
used(tagged => 'pg2', 'all tags');
role_put('pg3', tags => { zone => 'b', fast => JSON::PP::true, n => 7 });
role_put('pg1', tags => { zone => 'a', fast => 'true', n => '7' });
used(tagged => 'pg1 pg2', 'a tag of another value, and strings');
role_put('pg1', tags => { zone => 'b' });
used(tagged_leader => 502, 'a leader without the tag');

# the address of PgBouncer

used(pooled => 502, 'there is none');
is(Upstream->new($nginx, 'pooled')->invalid->{'/service/roles/members/pg1'},
   'proxy_url is missing', 'which is reported');
role_put('pg1', proxy_url => 'postgres://' . $pg{pg2}->address . '/db');
used(pooled => 'pg2', 'proxy_url');

# The agent ends while it asks.

$api{pg2}->set(status => 503);
put('pg2');
lead('pg2');
sleep(0.1);
$nginx->kill_worker($nginx->status->{agent}{pid});
$api{pg2}->set(status => 200);
used(sure => 'pg2', 'another agent asks');


SKIP: {
    skip('this nginx has no stream', 1) if !$has_stream;

    my %line = map { $_->name => $_ } Line->start(qw(pg1 pg2));

    for my $name (keys %line) {
        put($name, conn_url => 'postgres://' . $line{$name}->address);
    }

    $etcd->del(member_key('pg3'));
    lead('pg1');

    my $example = Nginx->new(etcd => $etcd)
        ->start(Example::text('patroni', 'etcd'));
    my $port = sub { $example->port("PORT_$_[0]") };

    my $writer = Line::Client->new($port->(5432));

    is($writer->ask('write'), 'pg1: write', 'patroni.conf: the primary');

    # Each upstream of the example is read for itself.

    becomes { Line::Client->new($port->(5433))->ask('read') } 'pg2: read',
        'patroni.conf: a replica';

    $etcd->del('/service/batman/leader');
    ok($writer->is_closed(), 'patroni.conf: a session with a former primary '
       . 'is closed');

    my $next = Line::Client->new($port->(5432));

    $next->tell('write');
    $api{pg2}->set(status => 503);
    lead('pg2');
    is($next->hear(0.3), undef, 'patroni.conf: a new one waits');
    $api{pg2}->set(status => 200);
    is($next->hear(), 'pg2: write', 'patroni.conf: for a primary that is one');
}

finish();
