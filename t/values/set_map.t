#!/usr/bin/perl

# etcd_set with variables in its key: a live map, in http and stream.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Becomes;
use Etcd;
use Example;
use Finish;
use Http;
use IO::Socket::INET;
use Nginx;
use State;
use Wait;

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    ping_interval 5s;
    state_path %%DIR%%/state;
}

etcd team {
    endpoints %%ETCD%%;
    namespace /team/;
}

http {
    etcd_set $backend /routes/$arg_host default=none;
    etcd_set $version /routes/${arg_host}/$arg_path/version;
    etcd_set $theirs $arg_host cluster=team default=nobody;
    etcd_set $split /canary/$arg_host split=$arg_client default=stable;
    etcd_set $fixed /weights split=$arg_client default=stable;

    map $backend $mapped {
        default other;
        b1      first;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "$backend|$version|$theirs|$mapped";
        }

        location /split {
            return 200 $split;
        }

        location /fixed {
            return 200 $fixed;
        }

        location /status {
            etcd_status;
        }

        location /own {
            etcd_set $backend /other/$arg_host default=own;
            return 200 $backend;
        }
    }
}

stream {
    etcd_set $backend /routes/$server_port default=none;

    server {
        listen 127.0.0.1:%%PORT_S%%;
        return "$backend\n";
    }
}

EOC


sub get { return $nginx->get($_[0])->{body} }
sub variable { ($nginx->status // return {})->{variables}{"\$$_[0]"} // {} }
sub number { variable("backend")->{$_[0]} // "none" }


sub says {
    my ($path, $wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { get($path) } $wanted, $name;
}


# keys that exist, and keys that do not

my $port = $nginx->port('PORT_S');

$etcd->put('/routes/a', 'b1');
$etcd->put('/routes/a/b', 'too many segments');
$etcd->put('/routes/', 'none');
$etcd->put('/routes', 'none');
$etcd->put("/routes/$port", 'stream');
$etcd->put('/team/a', 't1');
$etcd->put('/a', 'not theirs');
$nginx->start($config);

says('/?host=a', 'b1||t1|first', 'a key with the segment of the request');
is(get('/?host=b'), 'none||nobody|other', 'another one is not there');
is(get('/'), 'none||nobody|other', 'no segment');
becomes {
    Http::read_all(IO::Socket::INET->new("127.0.0.1:$port"))
} "stream\n", 'stream';
is(number("values"), 2, 'only keys with as many segments');

my $revision = $etcd->put('/routes/b', 'b2');

says('/?host=b', 'b2||nobody|other', 'a key that is new');
$etcd->put('/routes/b/x/version', '7');
says('/?host=b&path=x', 'b2|7|nobody|other', 'another pattern below the same');
is(get('/?host=b&path=y'), 'b2||nobody|other', 'of another path');
$etcd->put('/routes/b', 'b3');
says('/?host=b', 'b3||nobody|other', 'changed');
$etcd->del('/routes/b');
says('/?host=b&path=x', 'none|7|nobody|other', 'deleted');
$etcd->put('/routes/empty', '');
says('/?host=empty', '||nobody|other', 'an empty value is a value');
is(get('/own?host=a'), 'own', 'a location has a key of its own');

my $status = variable('backend');

is($status->{key}, '/routes/$arg_host', 'the status: the key');
is($status->{limit}, 20480, 'the status: the limit of both patterns');
is($status->{state}, 'set', 'the status: the state');
cmp_ok($status->{revision}, '>=', $revision, 'the status: the revision');
is_deeply([@$status{qw(unused invalid value)}], [0, 0, undef],
          'the status: all keys are used');
is_deeply([map { "$_->{change} $_->{key}" }
           grep { $_->{upstream} eq '$backend' && $_->{key} eq '/routes/b' }
           @{ $nginx->status->{events} }],
          ['remove /routes/b', 'update /routes/b', 'add /routes/b'],
          'the time line');

# segments from clients

$etcd->put('/routes/..', 'up');
$etcd->put('/routes/.', 'here');
$etcd->put('/routes/%2f', 'percent');
$etcd->put("/routes/\xff\xfe", 'bytes');
$etcd->put('/routes/' . 'x' x 255, 'long');
$etcd->put('/routes/' . 'x' x 256, 'too long');
$etcd->put("/routes/a\0", 'zero');
$etcd->put('/routes/last', 'last');
says('/?host=last', 'last||nobody|other', 'all of them were read');

for my $case (['', 'none'], ['..', 'none'], ['.', 'none'], ['%2f', 'percent'],
              ["\xff\xfe", 'bytes'], ['x' x 255, 'long'], ['x' x 256, 'none'],
              ['a/b', 'none'], ['/', 'none'], ['a/b/version', 'none'],
              ['a%00', 'none'], ['x' x 7000, 'none'], ['a%2f..%2fb', 'none'])
{
    my ($segment, $wanted) = @$case;
    my $shown = substr($segment, 0, 20) =~ s/[^ -~]/?/gr;

    is((split(/\|/, get("/?host=$segment")))[0], $wanted, "segment: $shown");
}

# bytes that are no part of a value

for my $value ("\xef\xbb\xbfb2", "b2\n", "b2\r\n", "\xef\xbb\xbfb2\r\n") {
    $etcd->put('/routes/a', 'b1');
    says('/?host=a', 'b1||t1|first', 'another value');
    $etcd->put('/routes/a', $value);
    says('/?host=a', 'b2||t1|other', 'a byte order mark, a last line feed');
}

$etcd->put("/routes/$port", "\xef\xbb\xbfb3\n");
becomes {
    Http::read_all(IO::Socket::INET->new("127.0.0.1:$port"))
} "b3\n", 'in stream, too';

$etcd->put('/routes/a', 'b1');
says('/?host=a', 'b1||t1|first', 'the first value');

# values that are refused

for my $case (["one\ntwo", 'LF at byte 4'], ["a\0b", 'NUL at byte 2'],
              ['x' x 4097, '4097 bytes'])
{
    my ($value, $reason) = @$case;
    my $at = $etcd->put('/routes/a', $value);

    becomes { number("invalid") } 1, "invalid: $reason";
    wait_for { $nginx->count_log(qr/revision $at is invalid/) } 10, $reason;
    is(get('/?host=a'), 'b1||t1|first', 'the last good one stays');
    $nginx->logs(qr/revision $at is invalid: .*\Q$reason\E.* stays/, 1,
                 'it is reported once');
}

my $at = $etcd->put('/routes/new', "a\nb");

becomes { number("invalid") } 2, 'one without a good one before';
is(get('/?host=new'), 'none||nobody|other', 'has no value');
$etcd->put('/routes/new', 'good');
says('/?host=new', 'good||nobody|other', 'until it is good');
becomes { number("invalid") } 1, 'one less is invalid';
$etcd->del('/routes/new');

# reload, another agent, another zone, no etcd

my $before = $nginx->count_log(qr/invalid:/);

ok($nginx->reload(), 'reload');
is(get('/?host=a'), 'b1||t1|first', 'values are there at once');
$etcd->put('/routes/c', 'c1');
says('/?host=c', 'c1||nobody|other', 'and go on');

$nginx->kill_worker($nginx->status->{agent}{pid});
$etcd->put('/routes/c', 'c2');
like(get('/?host=a'), qr/^b1\|/, 'without an agent they are there');
says('/?host=c', 'c2||nobody|other', 'another agent goes on');

ok($nginx->reload($config =~ s/state_path.*;/$& zone 4m;/r),
   'reload with a zone of another size');
is(get('/?host=c'), 'c2||nobody|other', 'values are there at once');

$etcd->stop();
is(get('/?host=c'), 'c2||nobody|other', 'values stay without etcd');
$etcd->start();
$etcd->del('/routes/c');
says('/?host=c', 'none||nobody|other', 'a change afterwards');

ok($nginx->reload($config =~ s{(etcd_set \$version) .*?;}
                              {$1 /versions/\$arg_host;}r),
   'reload without a pattern');
becomes { number("values") } 7, 'its keys are gone';
is($nginx->count_log(qr/invalid:/), $before, 'nothing is reported again');

# Agents are killed while values change.

$etcd->put("/routes/k$_", 0) for 1 .. 20;

for my $round (1 .. 5) {
    my $agent = $nginx->status->{agent}{pid};

    $etcd->txn(map { [put => "/routes/k$_", $round] } 1 .. 20);
    $nginx->kill_worker($agent);
    says("/?host=k$_", "$round||nobody|other", "round $round: k$_")
        for 1, 20;
}

$etcd->del_prefix('/routes/k');
becomes { number("values") } 7, 'all are gone';

# the state file, and a start without etcd

sub state_has {
    my ($pattern) = @_;

    my $state = saved_state($nginx->dir . '/state/default.state');

    return grep { "$_->{key} $_->{value}" =~ $pattern } @{ $state->{values} };
}

$etcd->put('/routes/kept', 'k1');
ok(wait_for(sub { state_has(qr{^/routes/kept k1$}) }, 10),
   'the state file has a value');

$nginx->stop();
$etcd->stop();
$nginx->start($config);

says('/?host=kept', 'k1||nobody|other', 'a start without etcd has it');
is(get('/?host=a'), 'b1||nobody|first', 'and what was valid at last');
is(variable('backend')->{state}, 'unknown', 'the status says so');

$etcd->start();
$etcd->put('/routes/kept', 'k2');
says('/?host=kept', 'k2||nobody|other', 'etcd is back');
becomes { number("state") } 'set', 'and the map was read';

# a split

sub shares {
    my ($path) = @_;

    my $tally = { map { $_ => 0 } qw(stable canary) };

    for my $client (1 .. 400) {
        $tally->{ get("$path&client=$client") }++;
    }

    return $tally;
}

$etcd->put('/canary/a', '{"stable":75,"canary":25}');
becomes { get('/status') =~ m{"/canary/\$arg_host".*?"values":(\d+)} && $1 }
    1, 'weights are read';

my $shares = shares('/split?host=a');

cmp_ok($shares->{canary}, '>', 60, 'the share of a name');
cmp_ok($shares->{canary}, '<', 140, 'is about its weight');
is($shares->{stable} + $shares->{canary}, 400, 'there are no other names');
is(get('/split?host=b&client=1'), 'stable', 'the default without a key');

$etcd->put('/canary/a', '{"stable":0,"canary":1}');
says('/split?host=a&client=1', 'canary', 'a weight of 0');
is(shares('/split?host=a')->{canary}, 400, 'is no share at all');

for my $bad ('{"stable":', '[1]', '{"stable":-1}', '{"stable":1.5}', '{}',
             '{"stable":0}', '{"a\u0001":1}', '{"stable":1000001}')
{
    $etcd->put('/canary/a', $bad);
    says('/split?host=a&client=1', 'stable', "the default: $bad");
    $etcd->put('/canary/a', '{"canary":1}');
    says('/split?host=a&client=1', 'canary', 'good again');
}

my $wrong = $etcd->put('/canary/a', '{"stable":"1"}');

wait_for { $nginx->count_log(qr/revision $wrong is no list/) } 10, 'a report';
$nginx->logs(qr/"\$split": key .* at revision $wrong is no list .*: /
             . 'a weight is not a number', 1, 'the agent reports it once');

# Many names: shares are read when the value changes, and not by each request.
# The last name has its share, though the sum of the weights is large.

my $many = '{' . join(',', map { sprintf('"n%04d":1000000', $_) } 1 .. 200)
    . ",\"last\":1000000}\r\n";

for (['/canary/many', '/split?host=many'], ['/weights', '/fixed?host=many']) {
    my ($key, $path) = @$_;

    $etcd->put($key, $many);
    becomes { get("$path&client=1") =~ /^(n\d{4}|last)$/ ? 'a name' : 'none' }
        'a name', "$key has many names";

    my %seen = map { $_ => 1 } map { get("$path&client=$_") } 1 .. 3000;

    ok($seen{last}, "$key: the last name has its share");
    cmp_ok(scalar(keys %seen), '>', 190, "$key: and so have the others");
}

ok($nginx->reload($config =~ s/state_path.*;/$& zone 5m;/r),
   'reload with another zone');
like(get('/split?host=many&client=1'), qr/^(n\d{4}|last)$/,
     'shares are there at once');

ok($nginx->reload($config =~ s/(\$split .*) split=\$arg_client/$1/r),
   'reload without split=');
says('/split?host=many&client=1', $many =~ s/\r\n//r, 'the value is a text');
ok($nginx->reload($config), 'reload with split=');
becomes { get('/split?host=many&client=1') =~ /^(n\d{4}|last)$/ ? 1 : 0 } 1,
    'it has shares again';

$etcd->put('/weights', '{"canary":1}');
says('/fixed?client=1', 'canary', 'a key without variables');

for my $bad ('{"a":1', '{"a":1.5}') {
    $wrong = $etcd->put('/weights', $bad);
    says('/fixed?client=1', 'stable', "the default: $bad");
    $etcd->put('/weights', '{"canary":1}');
    says('/fixed?client=1', 'canary', 'good again');
}

$nginx->logs(qr/"\$fixed": key "\/weights" at revision $wrong is no list /, 1,
             'the agent reports it once');

# the example

my ($website, $shop, $canary) = Backend->start('website', 'shop', 'canary');
my $example = Nginx->new(etcd => $etcd)->start(Example::text('routes', 'etcd'));

$etcd->put('/services/website/stable/1', $website->address);
$etcd->put('/services/shop/stable/1', $shop->address);
$etcd->put('/services/shop/canary/1', $canary->address);
$etcd->put('/routes/www.example.com', 'website');
$etcd->put('/routes/shop.example.com', 'shop');


# Only the header Host is used.

sub answer {
    my ($host) = @_;

    my $http = $example->http;

    $http->connect() or return {};
    $http->{left} = $http->{timeout};
    $http->write_all("GET / HTTP/1.1\r\nHost: $host\r\n"
                     . "Connection: close\r\n\r\n");

    return $http->receive_once;
}


sub ask { return answer(@_)->{body} // '' }


becomes { ask('www.example.com') } 'website', 'a host that has a route';
becomes { ask('shop.example.com') } 'shop', 'another one';
is(answer('x.example.com')->{status}, 404,
   'a host without a route');
$etcd->put('/weights/shop', '{"canary":1}');
becomes { ask('shop.example.com') } 'canary', 'all requests to a new version';

finish();
