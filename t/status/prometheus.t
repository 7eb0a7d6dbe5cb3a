#!/usr/bin/perl

# etcd_status as metrics: both formats as Prometheus's own programs read them,
# their contents, and the format for each request.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Becomes;
use Etcd;
use Finish;
use Metrics;
use Nginx;
use Upstream;
use Wait;

# names and values to confuse a format; the upstream's is no UTF-8

my $script = '<script>"\\' . "\n\x01\xc3\xa4";
my $odd = "q\"b\\\xff";

my $started = time();
my $etcd = Etcd->new()->start();
my $one = Backend->start('one');

my $nginx = Nginx->new(etcd => $etcd)->set(ODD => 'q\"b\\\\' . "\xff")
                 ->start(<<'EOF');

etcd {
    endpoints %%ETCD%%;
    ping_interval 5s;
    ping_timeout 20s;
    election jobs /elections/jobs value=me ttl=10s;
}

etcd unused {
    endpoints %%ETCD%%;
    zone 512k;
}

etcd values {
    endpoints %%ETCD%%;
}

http {
    etcd_set $value /values/one cluster=values;

    upstream api {
        etcd_members /api/;
    }

    upstream db {
        etcd_leader /db format=key;
    }

    upstream "%%ODD%%" {
        etcd_members /odd/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /json {
            etcd_status json;
        }

        location /metrics {
            etcd_status prometheus;
        }

        location /members {
            etcd_status prometheus members=on;

            location /members/json {
                etcd_status json;
            }

            if ($arg_if) {
                set $if yes;
            }
        }

        location /waits {
            etcd_wait db 60s;
            proxy_pass http://db;
        }

        location /api {
            proxy_pass http://api;
        }
    }
}

stream {
    upstream api {
        etcd_members /none/;
    }

    server {
        listen 127.0.0.1:%%PORT_1%%;
        proxy_pass api;
    }
}

EOF

my $api = Upstream->new($nginx, 'api');
my $open = 'application/openmetrics-text';


sub metrics { Metrics->of($nginx, '/metrics') }
sub value { metrics()->value(@_) }


# A value becomes as wanted.

sub reaches {
    my ($wanted, $name, %labels) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $labels = join(' ', map { "$_=$labels{$_}" } sort keys %labels);

    return becomes { value($name, %labels) } $wanted, "$name $labels", 20;
}


sub promtool_accepts {
    my ($body, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $path = $nginx->write_file('metrics', $body);

    is(judges("$name: promtool reads it", 'sh', '-c',
              "promtool check metrics < $path"), '', 'without a complaint');
}


# the families as the client library of Python reads them in OpenMetrics

sub families_of {
    my ($body) = @_;

    my $path = $nginx->write_file('openmetrics', $body);
    my $program = $nginx->write_file('parse.py', <<'EOF');
import json, sys
from prometheus_client.openmetrics import parser

with open(sys.argv[1], encoding='utf-8', newline='\n') as text:
    families = list(parser.text_fd_to_metric_families(text))

print(json.dumps([[f.name, f.type, f.unit,
                   [[s.name, s.labels, str(s.value)] for s in f.samples]]
                  for f in families]))
EOF

    my $output = judges('OpenMetrics: Python reads it', '/usr/bin/python3',
                        $program, $path);

    return @{ decode_json($output) };
}


wait_for {
    ($nginx->status // {})->{clusters}{default}{state} eq 'synced'
} 10, 'nginx';

# changes that workers see

my $changes = 5;

$api->sees($etcd->put('/api/1', $one->address));
$api->sees($etcd->put('/api/2',
                      '{"address":"127.0.0.1:2","weight":0,"drain":true}'));
$api->sees($etcd->put('/api/3', '{"address":"127.0.0.1:3","backup":true}'));
$api->sees($etcd->put('/api/4', '{"address":"127.0.0.1:4","down":true}'));
$api->sees($etcd->put("/api/$script", '{"address":"127.0.0.1:5",'
                                      . '"down":true}'));
$api->sees(my $last = $etcd->put('/api/bad', 'hello'));

my %in = (cluster => 'default', module => 'http', upstream => 'api');

reaches(1, 'nginx_etcd_upstream_members', %in, state => 'up');
reaches(1, 'nginx_etcd_upstream_members', %in, state => 'backup');
reaches(1, 'nginx_etcd_upstream_members', %in, state => 'drained');
reaches(2, 'nginx_etcd_upstream_members', %in, state => 'down');
reaches(1, 'nginx_etcd_upstream_invalid_values', %in);
reaches($changes, 'nginx_etcd_upstream_changes_total', %in);
reaches($last, 'nginx_etcd_upstream_revision', %in);
is(value('nginx_etcd_upstream_members', module => 'stream', state => 'up'), 0,
   'an upstream of stream with the same name');

# Both workers see each change.

reaches(2 * $changes, 'nginx_etcd_change_visible_seconds_count',
        cluster => 'default');
is(value('nginx_etcd_change_visible_seconds_bucket', cluster => 'default',
         le => '+Inf'), 2 * $changes, 'its last bucket has all');

my $sum = value('nginx_etcd_change_visible_seconds_sum', cluster => 'default');

cmp_ok($sum, '>', 0, 'which took some time');
cmp_ok($sum, '<', (time() - $started) * 2 * $changes, 'and not for ever');

# clusters

reaches(1, 'nginx_etcd_agent_up', cluster => $_) for 'default', 'values';
is(value('nginx_etcd_agent_up', cluster => 'unused'), undef,
   'of a cluster that needs none nothing is said');
reaches(1, 'nginx_etcd_cluster_state', cluster => 'default', state => 'synced');
is(value('nginx_etcd_cluster_state', cluster => 'default', state => 'idle'), 0,
   'and no other state');
is(value('nginx_etcd_cluster_state', cluster => 'unused', state => 'idle'), 1,
   'the other cluster is idle');
reaches(1, 'nginx_etcd_cluster_endpoints', cluster => 'default',
        state => 'connected');
cmp_ok(value('nginx_etcd_cluster_revision', cluster => 'default'), '>=', $last,
       'revision');
is(value('nginx_etcd_cluster_staleness_seconds', cluster => 'unused'),
   9**9**9, 'staleness of what was never proved');
ok(wait_for(sub { value('nginx_etcd_cluster_staleness_seconds',
                        cluster => 'default') < 5 }, 20, 'staleness'),
   'staleness of what is proved');
is(value('nginx_etcd_zone_size_bytes', cluster => 'unused'), 512 * 1024,
   'zone size');
cmp_ok(value('nginx_etcd_zone_used_bytes', cluster => 'unused'), '>', 4096,
       'zone use');
cmp_ok(value('nginx_etcd_longest_stall_seconds', cluster => 'default'), '>', 0,
       'the longest stall');
is(value('nginx_etcd_cluster_repairs_total', cluster => 'default'), 0,
   'repairs');
is(value('nginx_etcd_cluster_resyncs_total', cluster => 'default'), 0,
   'resyncs');

# Requests are never fewer, whichever members come and go.

$nginx->get('/api') for 1 .. 7;
reaches(7, 'nginx_etcd_upstream_requests_total', %in);
$api->sees($etcd->del('/api/1'));
reaches(7, 'nginx_etcd_upstream_requests_total', %in);

# Other members take its place, whichever place that was.

$api->sees($etcd->txn(map { [put => "/api/n$_", "127.0.1.$_:80"] } 1 .. 100));
reaches(7, 'nginx_etcd_upstream_requests_total', %in);
$api->sees($etcd->del_prefix('/api/n'));
reaches(7, 'nginx_etcd_upstream_requests_total', %in);

for my $n (1 .. 3) {
    $api->sees($etcd->put('/api/1', $one->address));
    $nginx->get('/api') for 1 .. 2;
    reaches(7 + 2 * $n, 'nginx_etcd_upstream_requests_total', %in);
    is($api->member($one->address)->{requests}, 2, 'of which it has its own');
    $api->sees($etcd->del('/api/1'));
}

$api->sees($etcd->put('/api/1', $one->address));
$one->set(hang => 1);
$one->reset;

my $client = $nginx->http;

$client->send('GET', '/api');
wait_for { $one->requests == 1 } 10, 'a request';
is(value('nginx_etcd_upstream_connections', %in), 1, 'under way');
$one->set(hang => 0);
$client->receive;
reaches(0, 'nginx_etcd_upstream_connections', %in);

# A member fails.

$etcd->del($_) for '/api/1', '/api/3';
$api->sees($etcd->put('/api/6', '{"address":"127.0.0.1:1","max_fails":9}'));
$nginx->get('/api');
reaches(1, 'nginx_etcd_upstream_failures', %in);
$api->sees($etcd->del('/api/6'));
reaches(0, 'nginx_etcd_upstream_failures', %in);

# leaders

my %db = (module => 'http', upstream => 'db');
my $waits = $nginx->http;

is(value('nginx_etcd_upstream_has_leader', %in), undef,
   'members have no leader');
is(value('nginx_etcd_upstream_leader_changes_total', %in), undef, 'and none '
   . 'that changes');
reaches(0, 'nginx_etcd_upstream_has_leader', %db);
reaches(0, 'nginx_etcd_upstream_leader_changes_total', %db);
$waits->send('GET', '/waits');
reaches(1, 'nginx_etcd_upstream_waiting_requests', %db);
$etcd->put('/db', $one->address);
is($waits->receive->{status}, 200, 'a request that waited');
reaches(0, 'nginx_etcd_upstream_waiting_requests', %db);
reaches(1, 'nginx_etcd_upstream_has_leader', %db);
reaches(1, 'nginx_etcd_upstream_leader_changes_total', %db);
Upstream->new($nginx, 'db')->sees($etcd->put('/db', '127.0.0.1:2'));
reaches(1, 'nginx_etcd_upstream_leader_changes_total', %db);
$etcd->del('/db');
reaches(0, 'nginx_etcd_upstream_has_leader', %db);
$etcd->put('/db', $one->address);
reaches(2, 'nginx_etcd_upstream_leader_changes_total', %db);

reaches(1, 'nginx_etcd_election_is_leader', election => 'jobs');
reaches(1, 'nginx_etcd_election_has_leader', election => 'jobs');
reaches(1, 'nginx_etcd_election_leader_changes_total', election => 'jobs');

# both formats, of all members

my $text = $nginx->get('/members');
my $openmetrics = $nginx->get('/members', Accept => $open);

is($text->{headers}{'content-type'},
   'text/plain; version=0.0.4; charset=utf-8', 'type of the text');
is($openmetrics->{headers}{'content-type'},
   "$open; version=1.0.0; charset=utf-8", 'type of OpenMetrics');
is($text->{headers}{'cache-control'}, 'no-store', 'which is not kept');

promtool_accepts($nginx->get('/metrics')->{body}, 'sums');
promtool_accepts($text->{body}, 'members');
like($nginx->get('/members?if=1')->{body}, qr/^nginx_etcd_member_weight/m,
     'members=on is inherited by "if"');

my $all = Metrics->new($text->{body});
my @families = families_of($openmetrics->{body});
my %types = map { $_->[0] => $_->[1] } @families;

ok($openmetrics->{body} =~ /\n# EOF\n\z/, 'OpenMetrics has an end');
is_deeply([sort keys %types], [$all->families], 'the same in both');
is($types{nginx_etcd_build}, 'info', 'an info');
is($types{nginx_etcd_change_visible_seconds}, 'histogram', 'a histogram');
is_deeply([sort map { $_->[0] } grep { $_->[2] } @families],
          [grep { /_(?:seconds|bytes|ratio)$/ } $all->families], 'units');

# names that have to be escaped

my $shown = $script =~ s/\x01/\\x01/r;

is($all->value('nginx_etcd_member_weight', key => "/api/$shown"), 1,
   'a key in the text');
is($all->value('nginx_etcd_upstream_members', upstream => 'q"b\\\\xff',
               state => 'up'), 0, 'an upstream that is no UTF-8');

my ($weights) = grep { $_->[0] eq 'nginx_etcd_member_weight' } @families;

utf8::decode($shown);
is(scalar(grep { $_->[1]{key} eq "/api/$shown" } @{ $weights->[3] }), 1,
   'a key in OpenMetrics');

my $json = decode_json($nginx->get('/status')->{body});
my $decoded = $script;

utf8::decode($decoded);
ok(exists $json->{upstreams}{'q"b\\\\xff'}, 'an upstream in JSON');
is(scalar(grep { $_->{key} eq "/api/$decoded" }
          @{ $json->{upstreams}{api}{members} }), 1, 'a key in JSON');

$etcd->put("/api/\xff$script", $one->address);

my $bad = '/api/\xff' . $script =~ s/\xc3\xa4/\\xc3\\xa4/r;

ok(wait_for(sub { exists $api->invalid->{$bad} }, 10, 'a key'),
   'a key that is no UTF-8, in JSON');
promtool_accepts($nginx->get('/members')->{body}, 'after it');

# [path, Accept, the type of the answer]

my %formats = (
    json => 'application/json',
    html => 'text/html; charset=utf-8',
    text => 'text/plain; version=0.0.4; charset=utf-8',
    open => "$open; version=1.0.0; charset=utf-8",
);

my $prometheus = "$open;version=1.0.0,$open;version=0.0.1;q=0.75,"
                 . 'text/plain;version=0.0.4;q=0.5,*/*;q=0.1';

for (
    ['/status', undef, 'json'],
    ['/status', '*/*', 'json'],
    ['/status', 'text/html,application/xml;q=0.9,*/*;q=0.8', 'html'],
    ['/status', 'image/png', 'json'],
    ['/status', 'application/json', 'json'],
    ['/status', 'text/plain', 'text'],
    ['/status', 'text/*', 'html'],
    ['/status', 'text/html;q=0, text/*', 'text'],
    ['/status', 'TEXT/PLAIN ; Version=0.0.4', 'text'],
    ['/status', 'text/plain;version=0.0.5', 'json'],
    ['/status', 'text/plain;q=0.5, application/json;q=0.4', 'text'],
    ['/status', 'text/plain;q=0.4, application/json ;q=0.5', 'json'],
    ['/status', 'application/json;q=0, text/plain;q=0.001', 'text'],
    ['/status', 'text/*;q=0.1,text/plain;q=0,application/*;q=0.05', 'html'],
    ['/status', 'text/*;q=0.1,text/html;q=0,text/plain;q=0,*/*;q=0.05', 'json'],
    ['/status', $prometheus, 'open'],
    ['/status', "$open;version=0.0.1", 'json'],
    ['/status', ",;=,;q,text/plain;q=,$open;;q=0.9;,", 'open'],
    ['/status?format=', $prometheus, 'open'],
    ['/status?format=json', $prometheus, 'json'],
    ['/status?format=prometheus', undef, 'text'],
    ['/status?format=prometheus', 'application/json', 'text'],
    ['/status?format=prometheus', $prometheus, 'open'],
    ['/json', $prometheus, 'json'],
    ['/json?format=prometheus', undef, 'json'],
    ['/metrics', undef, 'text'],
    ['/metrics', 'application/json', 'text'],
    ['/metrics', $prometheus, 'open'],
    ['/members?if=1', undef, 'text'],
    ['/members/json', undef, 'json'],
    ['/metrics?format=json', undef, 'text'],
) {
    my ($path, $accept, $what) = @$_;
    my $answer = $nginx->get($path, defined $accept ? (Accept => $accept) : ());

    is($answer->{headers}{'content-type'}, $formats{$what},
       "$path, " . ($accept // 'nothing said'));
}

is($nginx->get('/status?format=xml')->{status}, 400, 'no such format');

my $refused = Nginx->new();

for (['etcd_status xml', 'invalid status format "xml"'],
     ['etcd_status members=on json',
      'status format "json" is not the first parameter'],
     ['etcd_status json html', 'status format "html" is the second one'],
     ['etcd_status json json', 'status format "json" is the second one'],
     ['etcd_status json xml', 'invalid status format "xml"'],
     (map { ["etcd_status $_",
             'invalid parameter "' . s/.* //r . '": invalid value'] }
          'members=yes', 'json members=yes', 'members='),
     ['etcd_status members=on members=off',
      'invalid parameter "members=off": it is duplicate'],
     ['etcd_status json member=on', 'invalid parameter "member=on"'],
     ['etcd_status; etcd_status', '"etcd_status" directive is duplicate'])
{
    my ($ok, $output) = $refused->configtest(
        'http { server { listen 127.0.0.1:%%PORT%%; '
        . "location / { $_->[0]; } } }");

    ok(!$ok && index($output, $_->[1]) >= 0, "$_->[0] is refused")
        or diag($output);
}

# an outage, and a reload

$etcd->stop();
reaches(1, 'nginx_etcd_cluster_state', cluster => 'default',
        state => 'connecting');
reaches(0, 'nginx_etcd_upstream_has_leader', %db);
reaches(0, 'nginx_etcd_election_is_leader', election => 'jobs');
$etcd->start();
reaches(1, 'nginx_etcd_cluster_state', cluster => 'default', state => 'synced');
cmp_ok(value('nginx_etcd_cluster_reconnects_total', cluster => 'default'),
       '>=', 1, 'reconnects');

my $requests = value('nginx_etcd_upstream_requests_total', %in);
my $visible = -1;

# Waits until all workers have the revisions that came with etcd.

wait_for {
    my $before = $visible;

    sleep(0.5);
    $visible = value('nginx_etcd_change_visible_seconds_count',
                     cluster => 'default');
    $visible == $before;
} 20, 'changes';

$nginx->reload(undef, gone => 1);
is(value('nginx_etcd_upstream_requests_total', %in), $requests,
   'counters outlive a reload');
is(value('nginx_etcd_change_visible_seconds_count', cluster => 'default'),
   $visible, 'what new workers begin with is no change');

finish();
