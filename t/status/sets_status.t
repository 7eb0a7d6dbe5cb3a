#!/usr/bin/perl

# The status of a prefix with variables: sums, its sets in pages, and one set.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start('one', 'two');
my $nginx = Nginx->new(etcd => $etcd);

$etcd->put(sprintf('/services/s%03d/1', $_), $one->address) for 1 .. 150;
$etcd->put('/services/web/1', $one->address);
$etcd->put('/services/web/2', '{"address":"' . $two->address
           . '","backup":true}');
$etcd->put('/services/web/bad', 'no address');
$etcd->put('/fixed/1', $one->address);
$etcd->put('/services/short', $one->address);

$nginx->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream services {
        etcd_members /services/$service/ limit=151;
        keepalive 4;
    }

    upstream fixed {
        etcd_members /fixed/;
    }

    upstream other {
        etcd_members /other/$service/;
    }

    map $uri $service {
        "~^/[os]/(?<name>.*)$" $name;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status { etcd_status; }
        location = /metrics { etcd_status prometheus; }
        location = /members { etcd_status prometheus members=on; }
        location /s/ { proxy_pass http://services; }
        location /o/ { etcd_wait other 30s; proxy_pass http://other; }
    }
}

EOC


sub status {
    return decode_json($nginx->get("/status?$_[0]")->{body})->{upstreams};
}

sub sums { return status('')->{services} }
sub names { return map { $_->{name} } @{ $_[0]{list} } }

sub metric {
    my ($name) = @_;

    my $text = $nginx->get('/metrics')->{body};

    return $text =~ /^\Q$name\E\{[^}]*upstream="services"[^}]*\} (\S+)$/m
           ? $1 : undef;
}


# the last set may be there before its member, and before later keys

ok((wait_for {
    sums()->{sets} == 151 && sums()->{unmatched}
    && $nginx->cluster->{state} eq 'synced'
} 20, 'all sets'), 'the number of sets');

my $sums = sums();

is($sums->{prefix}, '/services/$service/', 'the prefix with its variables');
is($sums->{kind}, 'members', 'the kind');
is($sums->{limit}, 151, 'the limit');
is($sums->{over_limit}, 0, 'nothing is beyond it');
is($sums->{unmatched}, 1, 'a key that matches nothing');
is($sums->{tables}, 0, 'no service was used');
ok(!exists($sums->{list}), 'sets are not listed unless asked for');
ok(!exists(status('')->{fixed}{sets}), 'a fixed prefix has none');

# A connection has one worker, whose tables are shown.

my $http = $nginx->http;

is($http->get('/s/web')->{status}, 200, 'a request');
is($http->get('/s/s007')->{status}, 200, 'and another one');
is(decode_json($http->get('/status')->{body})->{upstreams}{services}{tables},
   2, 'two services are used');

# pages

my $page = status('upstream=services');

is_deeply([keys %$page], ['services'], 'only the upstream that was asked for');
is(scalar(names($page->{services})), 100, 'a page');

my $next = status("upstream=services&from=$page->{services}{next}")->{services};

is(scalar(names($next)), 51, 'the rest');
is($next->{next}, undef, 'and no more');

my %seen = map { $_ => 1 } names($page->{services}), names($next);

is(keys %seen, 151, 'each set once');

# a search, and one set

my $found = status('upstream=services&set=s00')->{services};

is_deeply([sort(names($found))], [map { "s00$_" } 1 .. 9], 'a part of names');
ok(!exists($found->{set}), 'no set has that name');

$found = status('upstream=services&set=%77eb')->{services};

is_deeply($found->{list}, [{ name => 'web', state => 'ok', members => 2,
                             up => 1, requests => 1, conns => 0, fails => 0 }],
          'the sums of a set');
is($found->{set}{prefix}, '/services/web/', 'the set itself');
is_deeply({ map { $_->{key} => $_->{state} } @{ $found->{set}{members} } },
          { '/services/web/1' => 'up', '/services/web/2' => 'backup' },
          'its members');
is($found->{set}{invalid}[0]{key}, '/services/web/bad', 'its invalid values');
is_deeply(status('upstream=services&set=nothing')->{services}{list}, [],
          'nothing is found');
is_deeply(status('upstream=none'), {}, 'no such upstream');

for my $odd ('set=%00', 'set=' . 'x' x 5000, 'set=%ff', 'set=a/../b', 'set=',
             'from=', 'from=0', 'from=4294967295')
{
    is($nginx->get("/status?upstream=services&$odd")->{status}, 200,
       substr($odd, 0, 30));
}

# arguments that cannot be used

for my $bad ('/status?set=web', '/status?from=1', '/status?upstream=&set=web',
             (map { "/status?upstream=services&from=$_" }
                  'x', '-1', '1x', '%00', '4294967296', '99999999999999999999'),
             '/metrics?from=1', '/metrics?set=web&from=1')
{
    is($nginx->get($bad)->{status}, 400, "$bad: 400");
}

# metrics

is(metric('nginx_etcd_upstream_sets'), 151, 'the metric of sets');
is(metric('nginx_etcd_upstream_sets_over_limit'), 0, 'none beyond the limit');
is(metric('nginx_etcd_upstream_requests_total'), 2, 'requests are summed');
like($nginx->get('/metrics')->{body},
     qr/^nginx_etcd_upstream_members\{[^}]*"services",state="up"\} 151$/m,
     'so are members');

# metrics of one set

sub samples {
    my ($path) = @_;

    return [sort grep { !/^#/ } split(/\n/, $nginx->get($path)->{body})];
}

my $of = '{cluster="default",module="http",upstream="services",set="web"';
my $samples = samples('/metrics?set=web');

is_deeply([grep { !/\Q$of\E/ } @$samples], [], 'only samples of that set');
is_deeply([grep { /_upstream_members\{/ } @$samples],
          [map {
              "nginx_etcd_upstream_members$of,state=\"$_->[0]\"} $_->[1]"
           } [backup => 1], [busy => 0], [down => 0], [drained => 0],
           [ejected => 0], [failing => 0], [held => 0], [shadowed => 0],
           [unhealthy => 0], [unproven => 0], [unresolved => 0], [up => 1]],
          'its members are counted');
ok((grep { $_ eq "nginx_etcd_upstream_requests_total$of} 1" } @$samples),
   'its requests');
ok((grep { $_ eq "nginx_etcd_upstream_invalid_values$of} 1" } @$samples),
   'its invalid values');
ok(!(grep { /_upstream_sets/ } @$samples), 'a set has no sets');
is_deeply([map { /upstream="(\w+)"/ } grep { /_member_weight/ }
           @{ samples('/members') }], ['fixed'],
          'members of sets have no samples');
is_deeply([grep { /_member_weight\{/ } @{ samples('/members?set=web') }],
          [map { "nginx_etcd_member_weight$of,address=\"" . $_->[0]->address
                 . "\",key=\"/services/web/$_->[1]\"} 1" }
           sort { $a->[0]->address cmp $b->[0]->address }
           [$one, 1], [$two, 2]], 'but with the set they have');

for my $none ('set=no', 'set=we', 'set=web&upstream=other',
              'set=web&upstream=fixed', 'set=%00')
{
    is_deeply(samples("/metrics?$none"), [], "$none has no samples");
}

# priorities

$etcd->put('/services/web/3', '{"address":"' . $one->address
           . '","priority":5}');
$etcd->put('/services/web/2', '{"address":"' . $two->address
           . '","priority":3}');
$etcd->put('/services/web/1', '{"address":"' . $one->address
           . '","priority":4}');

sub web { return status('upstream=services&set=web')->{services} }

sub states {
    return { map { $_->{key} => $_->{state} }
             grep { !defined $_->{hidden_by} } @{ web()->{set}{members} } };
}

ok((wait_for { states()->{'/services/web/2'} eq 'up' } 10, 'priorities'),
   'the lowest priority is up');
is_deeply([sort values %{ states() }], [qw(backup up)],
          'the other one is a backup, though the worker has no table of it');
is(web()->{list}[0]{up}, 1, 'as in the sums');
like($nginx->get('/metrics?set=web')->{body}, qr/state="up"\} 1$/m,
     'and in metrics');
$etcd->del('/services/web/3');

# requests that wait

is(status('')->{other}{waiting}, 0, 'nobody waits');
$etcd->put('/other/a/1', '{"address":"' . $one->address . '","down":true}');
$etcd->put('/other/b/1', '{"address":"' . $one->address . '","down":true}');
ok((wait_for { status('')->{other}{sets} == 2 } 10, 'two sets'), 'two sets');

my @waiting = map { $nginx->http } 1 .. 3;

$waiting[$_]->send(GET => '/o/' . (qw(a b b))[$_]) for 0 .. 2;

ok((wait_for { status('')->{other}{waiting} == 3 } 10, 'the sum'),
   'waiting requests are summed');
$etcd->put("/other/$_/1", $one->address) for qw(a b);
ok((wait_for { status('')->{other}{waiting} == 0 } 10, 'none'), 'none waits');

# a set that goes

$etcd->del('/services/s007/1');
ok((wait_for { sums()->{sets} == 150 } 10, 'a set goes'), 'a set goes');
is(metric('nginx_etcd_upstream_requests_total'), 2, 'its requests stay');
$etcd->put('/services/s007/1', $one->address);
ok((wait_for { sums()->{sets} == 151 } 10, 'it comes'), 'it comes again');

# the limit

$etcd->put('/services/toomany/1', $one->address);
ok((wait_for { sums()->{over_limit} } 10, 'beyond the limit'),
   'keys beyond the limit are counted');
ok(metric('nginx_etcd_upstream_sets_over_limit'), 'the metric too');

finish();
