#!/usr/bin/perl

# The outcomes of single members, with outcomes=members: their sum is what the
# upstream has, over all workers, reloads and workers that were killed.  A
# member that leaves and comes back begins anew.  Where the zone has no room the
# log says so, and the upstream goes on.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(sum0);
use JSON::PP;
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Line;
use Metrics;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start('one', 'two');
my ($line) = Line->start('line');

$etcd->put("/$_/1", $one->address) for qw(api plain sets/a leads);
$etcd->put("/$_/2", $two->address) for qw(api plain sets/b);
$etcd->put('/line/1', $line->address);

my $config = <<'EOC';

worker_processes 3;

etcd {
    endpoints %%ETCD%%;
    zone 16m;
}

http {
    upstream api {
        etcd_members /api/ outcomes=members max_fails=0;
    }

    upstream plain {
        etcd_members /plain/ outcomes=upstream;
    }

    upstream sets {
        etcd_members /sets/$set/ outcomes=members;
    }

    upstream leads {
        etcd_leader /leads/1 format=key outcomes=members;
    }

    upstream many {
        etcd_members /many/ outcomes=members;
    }

    map $uri $set {
        "~^/sets/(?<name>\w+)" $name;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status { etcd_status; }
        location = /metrics { etcd_status prometheus members=on; }

        location /api { proxy_pass http://api; proxy_next_upstream off; }
        location /plain { proxy_pass http://plain; }
        location /sets/ { proxy_pass http://sets; }
        location /leads { proxy_pass http://leads; }
        location /many { proxy_pass http://many; proxy_next_upstream off; }
    }
}

stream {
    upstream line {
        etcd_members /line/ outcomes=members;
    }

    server {
        listen 127.0.0.1:%%PORT_LINE%%;
        proxy_pass line;
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)->start($config);
my $api = Upstream->new($nginx, 'api');

my @fields = qw(responses sent received response_time);


# the outcomes of members, added up

sub sums {
    my (@members) = @_;

    my %sum;

    for my $member (@members) {
        $sum{$_} += $member->{$_} for qw(sent received);
        $sum{responses}{$_} += $member->{responses}{$_}
            for keys %{ $member->{responses} };
        $sum{response_time}{$_} += $member->{response_time}{$_}
            for qw(count sum_ms);

        my $buckets = $sum{response_time}{buckets} //= [];
        my $i = 0;

        for my $bucket (@{ $member->{response_time}{buckets} }) {
            $buckets->[$i]{le_ms} = $bucket->{le_ms};
            $buckets->[$i++]{count} += $bucket->{count};
        }
    }

    return \%sum;
}


sub agrees {
    my ($what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $status = $api->status;

    is_deeply(sums(@{ $status->{members} }),
              { map { $_ => $status->{$_} } @fields }, $what);

    return $status;
}


sub classes {
    my ($backend) = @_;

    my $responses = $api->member($backend->address)->{responses};

    return join(' ', map { $responses->{$_ . 'xx'} } 1 .. 5);
}


# each member has its own

becomes { scalar($api->used) } 2, 'two members';

is(classes($one), '0 0 0 0 0', 'a member without an answer has zeroes');

$two->set(status => 503);
$nginx->get('/api') for 1 .. 20;

my $status = agrees('members have what the upstream has');

is(sum0(values %{ $status->{responses} }), 20, 'which is all');
like(classes($one), qr/^0 [1-9]\d* 0 0 0$/, 'one has answered');
like(classes($two), qr/^0 0 0 0 [1-9]\d*$/, 'the other one has not');

my $member = $api->member($one->address);

is($member->{response_time}{count}, $member->{responses}{'2xx'},
   'each answer has a time');
is($member->{requests}, $member->{responses}{'2xx'}, 'and is a request');

# metrics have the same

my $metrics = Metrics->of($nginx, '/metrics');
my @labels = (upstream => 'api', address => $one->address);

is($metrics->value('nginx_etcd_member_responses_total', @labels,
                   class => '2xx'), $member->{responses}{'2xx'},
   'metrics: responses');
is($metrics->value('nginx_etcd_member_sent_bytes_total', @labels),
   $member->{sent}, 'bytes sent');
is($metrics->value('nginx_etcd_member_received_bytes_total', @labels),
   $member->{received}, 'bytes received');
is($metrics->value('nginx_etcd_member_response_seconds_count', @labels),
   $member->{response_time}{count}, 'times');
is(scalar($metrics->values('nginx_etcd_member_responses_total',
                           upstream => 'plain')), 0,
   'not those of an upstream without it');

$nginx->get('/plain') for 1 .. 3;
ok(!exists $nginx->upstream('plain')->member($one->address)->{$_},
   "nor has it $_") for @fields;

# a leader, a session, and a set

my $stream = Upstream->new($nginx, 'line', 'stream');

wait_for { ($nginx->line('LINE')->ask('x') // '') eq 'line: x' } 10,
         'a member of stream';
becomes { $stream->member($line->address)->{responses}{'2xx'} > 0 } 1,
        'a session counts for its member';

wait_for { $nginx->get('/leads')->{status} == 200 } 10, 'a leader';
cmp_ok($nginx->upstream('leads')->member($one->address)->{responses}{'2xx'},
       '>', 0, 'an answer of a leader');

$two->set(status => 200);
wait_for { $nginx->get('/sets/b')->{status} == 200 } 10, 'a set';

my $set = decode_json($nginx->get('/status?upstream=sets&set=b')->{body})
    ->{upstreams}{sets}{set};

cmp_ok($set->{members}[0]{responses}{'2xx'}, '>', 0,
       'of a prefix with variables, members of each set');
ok(!exists $set->{responses}, 'though the set has no sum');

# reloads, dead workers, another value

ok($nginx->reload(undef, gone => 1), 'a reload');
agrees('changes nothing');
$nginx->get('/api') for 1 .. 10;
$nginx->kill_worker($_) for $nginx->workers;
wait_for { $nginx->get('/api')->{status} == 200 } 10, 'another worker';

my $before = agrees('dead workers have counted')->{responses}{'2xx'};

cmp_ok($before, '>', 10, 'which stays');

$etcd->put('/api/1', encode_json({ address => $one->address, weight => 5 }));
becomes { $api->member($one->address)->{weight} } 5, 'another weight';
is(agrees('of the same member')->{responses}{'2xx'}, $before,
   'changes nothing');

# leaves and comes back

$etcd->del('/api/1');
becomes { scalar($api->used) } 1, 'a member leaves';
$etcd->put('/api/1', $one->address);
becomes { scalar($api->used) } 2, 'and comes back';
is(classes($one), '0 0 0 0 0', 'it begins anew');
is($api->status->{responses}{'2xx'}, $before, 'the upstream does not');

$nginx->get('/api') for 1 .. 12;
is(sum0(map { $_->{responses}{'2xx'} } $api->used)
   - $api->member($two->address)->{responses}{'2xx'},
   $api->member($one->address)->{responses}{'2xx'}, 'and counts');
like(classes($one), qr/^0 [1-9]/, 'its answers');

# no room, whichever worker comes first: 1500 members need some 500 KB, what one
# worker counts of them 370 KB, and a part of the zone stays free

ok($nginx->reload($config =~ s/zone 16m/zone 896k/r, gone => 1),
   'a small zone');
$etcd->txn(map { [put => "/many/$_", '127.1.' . int($_ / 250) . '.'
                                     . ($_ % 250 + 1) . ':80'] }
           50 * $_ .. 50 * $_ + 49) for 0 .. 29;
becomes { scalar($nginx->upstream('many')->used) } 1500,
        'members go on to come';
$nginx->logs(qr/"many": the zone is full, "outcomes=members" does not count/, 3,
             'each worker says once that it does not count them');
is($nginx->get('/api')->{status}, 200, 'requests go on');
is($nginx->cluster->{state}, 'synced', 'the zone is not full');

$nginx->stop;

finish();
