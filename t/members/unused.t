#!/usr/bin/perl

# Keys that are valid but not used: they are counted, and one of each kind is
# named, in the status, in metrics, and in the log once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();

my $nginx = Nginx->new(etcd => $etcd);

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

%%STREAM%%

http {
    upstream tag { etcd_members /tag/ tag=zone:eu; }
    upstream not { etcd_members /tag/ tag=!zone:eu; }
    upstream scheme { etcd_members /scheme/ format=kratos scheme=grpc; }
    upstream field { etcd_members /field/; }
    upstream hidden { etcd_members /hidden/; }
    upstream other { etcd_members /other/ format=rpcx; }
    upstream empty { etcd_members /empty/; }
    upstream citus { etcd_leader /service/batman/ format=patroni; }
    upstream tidb { etcd_members /topology/ format=json host=/ip port=/port; }
    upstream replicas { etcd_leader /service/pg/ format=patroni role=any
                                    tag=zone:eu; }
    upstream leader { etcd_leader /election; }
    upstream sets { etcd_members /sets/$arg_s/ tag=zone:eu; }
    upstream nosets { etcd_members /nosets/$arg_s/; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

my $stream = Nginx->stream_module ? <<'EOC' : '';
stream {
    upstream tag { etcd_members /tag/ tag=zone:eu; }

    server {
        listen 127.0.0.1:%%PORT_STREAM%%;
        proxy_pass tag;
    }
}
EOC

$config =~ s/%%STREAM%%/$stream/;

sub json { return "{\"address\":\"10.1.0.$_[0]:80\"$_[1]}" }

sub patroni {
    my ($n, $role, $zone) = @_;

    return "{\"conn_url\":\"postgres://10.3.0.$n:5432/pg\",\"role\":\"$role\","
           . "\"state\":\"running\",\"tags\":{\"zone\":\"$zone\"}}";
}

# all keys but those of /empty/ and /nosets/

$etcd->txn(
    [put => '/tag/1', json(1, ',"tags":{"zone":"us"}')],
    [put => '/tag/2', json(2, ',"tags":["zone:us","v2"]')],
    [put => '/tag/3', '10.1.0.3:80'],
    [put => '/scheme/1', '{"name":"a","endpoints":["http://10.1.0.1:80"]}'],
    [put => '/field/1', json(1, ',"wieght":3')],
    [put => '/field/2', json(2, ',"wieght":3,"enabled":false')],
    [put => '/field/3', json(3, ',"weight":3')],
    [put => '/hidden/1', '10.1.0.1:80'],
    [put => '/other/base', ''],
    [put => '/service/batman/0/leader', 'pg1'],
    [put => '/service/batman/0/members/pg1', '{}'],
    [put => '/service/batman/1/leader', 'pg2'],
    [put => '/service/pg/leader', 'pg1'],
    [put => '/service/pg/members/pg1', patroni(1, 'primary', 'eu')],
    [put => '/service/pg/members/pg2', patroni(2, 'replica', 'us')],
    [put => '/election/1', json(1, ',"priorty":3')],
    [put => '/sets/a/1', json(1, '')],
    [put => '/sets/b/1', json(2, ',"tags":["zone:eu"]')],
    [put => '/topology/10.2.0.1:4000/info', '{"ip":"10.2.0.1","port":4000}'],
    [put => '/topology/10.2.0.1:4000/ttl', '1700000000000000001'],
);

$nginx->start($config);

my %upstream = map { $_ => Upstream->new($nginx, $_) }
    qw(tag not scheme field hidden other empty citus replicas leader tidb);

sub unused {
    my ($name) = @_;

    return { map { $_->{kind} => "$_->{keys} " . ($_->{key} // '-') }
             @{ $upstream{$name}->status->{unused} // [] } };
}

sub is_unused {
    my ($name, $wanted, $text) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    becomes { unused($name) } $wanted, "$name: $text";
}

sub metric {
    my ($name, $kind) = @_;

    my $body = $nginx->get('/status?format=prometheus')->{body};
    my ($n) = $body =~ /^nginx_etcd_upstream_unused_keys\{
                        [^}]*module="http",upstream="$name"[^}]*
                        state="$kind"\}\ (\d+)/mx;

    return $n;
}

sub logged { return $nginx->count_log($_[0]) }


# Tags

is_unused('tag', { tag => '3 /tag/1' }, 'three keys have another tag');
is(metric('tag', 'tag'), 3, 'and so says the metric');
$upstream{not}->shows({ '/tag/1' => '10.1.0.1:80 1 up',
                        '/tag/2' => '10.1.0.2:80 1 up',
                        '/tag/3' => '10.1.0.3:80 1 up' },
                      'a tag excludes: keys without it are members');
like($upstream{tag}->status->{unused}[0]{reason}, qr/tag=zone:eu/,
     'the status says which tag');
$upstream{tag}->reports({}, 'nothing is invalid');
is(logged(qr{\[warn\].*upstream "tag": no key of prefix "/tag/" is used: 3 }),
   $stream ? 2 : 1, 'no key is used: a warning, for each upstream');

$etcd->put('/tag/4', json(4, ',"tags":["zone:eu"]'));
$etcd->put('/tag/5', json(5, ',"tags":{"zone":"us"}'));
$upstream{tag}->shows({ '/tag/4' => '10.1.0.4:80 1 up' }, 'one has the tag');
is_unused('tag', { tag => '4 /tag/1' }, 'four others');
$upstream{not}->shows({ map { ("/tag/$_" => "10.1.0.$_:80 1 up") } 1, 2, 3, 5 },
                      'the others are members where the tag excludes');
is_unused('not', { tag => '1 /tag/4' }, 'that one is not');

if ($stream) {
    my $tag = Upstream->new($nginx, 'tag', 'stream');

    becomes { join ' ', map { $_->{keys} } @{ $tag->status->{unused} } } 4,
        'the same in stream';
}

is(logged(qr/\[info\].*upstream "tag": key "\S+" at revision/),
   $stream ? 2 : 1, 'the log names one');

# The named key goes: the number is right, the next one is named.

$etcd->del('/tag/1');
becomes { (unused('tag')->{tag} // '') =~ /^(\d+)/ ? $1 : '' } 3, 'one less';
$etcd->put('/tag/2', json(2, ',"tags":["zone:us","v3"]'));
is_unused('tag', { tag => '3 /tag/2' }, 'another one is named');
$etcd->put('/tag/2', json(2, ',"tags":["zone:eu"]'));
$upstream{tag}->shows({ '/tag/2' => '10.1.0.2:80 1 up',
                        '/tag/4' => '10.1.0.4:80 1 up' }, 'it is used now');
becomes { metric('tag', 'tag') } 2, 'and not counted any more';

# A scheme that nobody has

is_unused('scheme', { scheme => '1 /scheme/1' }, 'another scheme');
is(logged(qr{\[warn\].*upstream "scheme": no key of prefix "/scheme/" is used}),
   1, 'which is a warning');

# An unknown field of the module's own format

$upstream{field}->shows({ '/field/1' => '10.1.0.1:80 1 up',
                          '/field/2' => '10.1.0.2:80 1 up',
                          '/field/3' => '10.1.0.3:80 3 up' },
                        'values with unknown fields are used');
is_unused('field', { field => '2 /field/1' }, 'two of them');
like($upstream{field}->status->{unused}[0]{reason}, qr/"wieght" is unknown/,
     'the status names the field');
is(logged(qr/\[notice\].*key "\/field\/1" .*field "wieght" is unknown/), 1,
   'the log names it once');
is(logged(qr/\[notice\].*field "(?:wieght, enabled|enabled, wieght)" is/), 1,
   'and two of them');

$etcd->put('/field/1', json(1, ',"weight":3'));
becomes { (unused('field')->{field} // '') =~ /^(\d+)/ ? $1 : '' } 1,
    'one is mended';
$etcd->put('/field/4', json(4, ',"wieght":3'));
is_unused('field', { field => '2 /field/4' }, 'another one');
is(logged(qr/field "wieght" is unknown/), 1, 'it is still logged once');

# A key that another key of its address hides

is_unused('hidden', {}, 'one key');
$etcd->put('/hidden/2', '{"address":"10.1.0.1:80","weight":5}');
$upstream{hidden}->shows({ '/hidden/2' => '10.1.0.1:80 5 up' }, 'a newer one');
is_unused('hidden', { hidden => '1 -' }, 'hides the other one');
is($upstream{hidden}->member('10.1.0.1:80')->{hides}, '/hidden/1',
   'which is named at the member');
is(metric('hidden', 'hidden'), 1, 'and counted');
is(logged(qr{\[info\].*key "/hidden/2" and another key have the address}), 1,
   'and logged');
$etcd->put('/hidden/3', '10.1.0.1:80');
is_unused('hidden', { hidden => '2 -' }, 'a third one');
is(logged(qr{and another key have the address}), 1, 'is not logged');
$etcd->del('/hidden/2');
$etcd->del('/hidden/3');
is_unused('hidden', {}, 'the first one is shown again');
is($upstream{hidden}->member('10.1.0.1:80')->{hides}, undef, 'and hides none');

# A key that is no registration; a prefix without keys

is_unused('other', { other => '1 /other/base' }, 'no registration');
is(logged(qr{upstream "other": key}), 0, 'which is no event');
is(logged(qr{\[notice\].*upstream "empty": prefix "/empty/" has no keys}), 1,
   'a prefix without keys is logged');
is(logged(qr{\[notice\].*upstream "nosets": prefix "/nosets/" has no keys}), 1,
   'one with variables as well');
is(logged(qr/upstream "(?:tag|field|sets)": prefix "\S*" has no keys/), 0,
   'others are not');

# The prefix of a Citus cluster lacks the group.

is_unused('citus', { other => '2 /service/batman/0/leader' }, 'two groups');
is(logged(qr{\[warn\].*"/service/batman/0/leader" is not used: the prefix }), 1,
   'are a warning');

# Leaders

$upstream{replicas}->shows(
    { '/service/pg/members/pg1' => '10.3.0.1:5432 1 up' }, 'one with a tag');
is_unused('replicas', { tag => '1 /service/pg/members/pg2' },
          'a replica without it');
$upstream{leader}->shows({ '/election/1' => '10.1.0.1:80 1 up' }, 'a leader');
is_unused('leader', { field => '1 /election/1' }, 'with an unknown field');

# Sets

my $sets = Upstream->new($nginx, 'sets');

sub of_set {
    my ($set) = @_;

    my $status = $nginx->status("/status?upstream=sets&set=$set") // {};

    return join ' ', map { "$_->{kind} $_->{keys} $_->{key}" }
        @{ $status->{upstreams}{sets}{set}{unused} // [] };
}

becomes { of_set('a') } 'tag 1 /sets/a/1', 'a set tells its unused keys';
is(of_set('b'), '', 'another one has none');
becomes { metric('sets', 'tag') } 1, 'the metric is the sum';

# A key that never was a member is reported once, not at each heartbeat.

my $ttl = '/topology/10.2.0.1:4000/ttl';
my $reports = qr/key "\Q$ttl\E" at revision \d+ is invalid/;

$upstream{tidb}->shows(
    { '/topology/10.2.0.1:4000/info' => '10.2.0.1:4000 1 up' }, 'a member');
becomes { logged($reports) } 1, 'its heartbeat is reported';

my $events = grep { $_->{key} eq $ttl } @{ $nginx->status->{events} };

for (2 .. 20) {
    $upstream{tidb}->sees($etcd->put($ttl, "170000000000000000$_"));
}

is(logged($reports), 1, 'once');
is(scalar(grep { $_->{key} eq $ttl } @{ $nginx->status->{events} }), $events,
   'and is one event');
like($upstream{tidb}->invalid->{$ttl}, qr/00020/,
     'the status has the last reason');

# Numbers and names are right, and the log does not repeat itself, when another
# worker is the agent, and after a reload.

sub counts {
    my ($name) = @_;

    return { map { $_->{kind} => $_->{keys} }
             @{ $upstream{$name}->status->{unused} // [] } };
}

my %now = map { $_ => counts($_) } keys %upstream;
my $line = qr/etcd: upstream "(?!(?:no)?sets)\w+": (?:key|no key|prefix) /;
my $lines = logged($line);

sub same {
    my ($when) = @_;

    # a change shows that the agent works

    for my $name (sort keys %now) {
        becomes { counts($name) } $now{$name}, "$when: unused keys of $name";
    }

    $upstream{tidb}->sees($etcd->put($ttl, "170000000000000001$when"));
    is(logged($line), $lines,
       "$when: nothing is logged again");
}

my $agent = $nginx->status->{agent}{pid};

$nginx->kill_worker($agent);
wait_for {
    my $status = $nginx->status;
    $status && $status->{agent}{pid} != $agent
} 10, 'another agent';
same('takeover');

$nginx->reload;
same('reload');

$etcd->del('/tag/3');
becomes { metric('tag', 'tag') } 1, 'an old key goes after that';
$etcd->put('/tag/6', json(6, ',"tags":{"zone":"asia"}'));
becomes { metric('tag', 'tag') } 2, 'a new one comes';

finish();
