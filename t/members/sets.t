#!/usr/bin/perl

# A prefix with variables: each service below its literal part is a set of
# members, which comes with its first key and goes with its last.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my ($one, $two, $three) = Backend->start('one', 'two', 'three');
my ($at1, $at2, $at3) = map { $_->address } $one, $two, $three;

$etcd->put('/services/early/1', $at1);

my $nginx = Nginx->new(etcd => $etcd);

my $conf = <<'EOC';

worker_processes %%WORKERS%%;

etcd {
    endpoints %%ETCD%%;
}

etcd spaced {
    endpoints %%ETCD%%;
    namespace zero/;
}

http {
    upstream services {
        etcd_members /services/$service/ limit=%%LIMIT%% idle=2s;
        keepalive 4;
    }

    upstream canary {
        etcd_members /versions/$service/v/$version/;
    }

    upstream keys {
        etcd_members /keys/$service format=apisix;
    }

    upstream zero {
        etcd_members $service/ cluster=spaced;
    }

    upstream held {
        etcd_members /held/$service/;
    }

    upstream kept {
        etcd_members /kept/$service/ on_empty=keep;
    }

    map $arg_service $service {
        default $arg_service;
        ""      $segment;
    }

    map $arg_version $version {
        default $arg_version;
    }

    log_format set '$request_uri $status [$etcd_set]';

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log access.log set;

        set $segment '';

        location /status {
            etcd_status;
        }

        location ~ ^/s/(.*)$ {
            set $segment $1;
            proxy_pass http://services;
            add_header X-Set $etcd_set always;
        }

        location /canary { proxy_pass http://canary; }
        location /keys { proxy_pass http://keys; }
        location /zero { proxy_pass http://zero; }
        location /kept { proxy_pass http://kept; }

        location /held {
            etcd_wait held 20s;
            proxy_pass http://held;
        }

        location /empty { proxy_pass http://held; }

        location /refused {
            etcd_unknown_status 421;
            proxy_pass http://services;
        }

        location /page {
            error_page 404 = /own?$args;
            proxy_pass http://services;
        }

        location /cached {
            proxy_cache kept;
            proxy_cache_lock on;
            proxy_pass http://services;
        }

        location = /own { return 200 "own $args"; }
    }

    proxy_cache_path cache keys_zone=kept:1m;
}

EOC

$nginx->set(LIMIT => 8, WORKERS => 2)->start($conf);


sub service { return $nginx->get("/s/$_[0]") }

sub goes {
    my ($path, $body, $name) = @_;

    ok((wait_for { $nginx->get($path)->{body} eq $body } 10,
        "$path goes to $body"), $name);
}

sub changes { $nginx->status->{upstreams}{services}{generation} }

sub unknown {
    my ($path, $name) = @_;

    ok((wait_for { $nginx->get($path)->{status} == 404 } 10,
        "$path is unknown"), $name);
}


# sets come and go

goes('/s/early', 'one', 'a service that was there before');

is(service('api')->{status}, 404, 'a service that does not exist: 404');

$etcd->put('/services/api/1', $at1);
goes('/s/api', 'one', 'a new service is served without a reload');

$etcd->put('/services/web/1', $at2);
goes('/s/web', 'two', 'and another one');
is(service('api')->{body}, 'one', 'the first one stays what it is');

is(service('api')->{headers}{'x-set'}, 'api', '$etcd_set names the set');

$etcd->put('/services/api/2', $at3);
ok((wait_for { my $seen = $nginx->tally('/s/api', 4);
               $seen->{one} && $seen->{three} } 10, 'both members'),
   'a member is added to a set');

$etcd->del('/services/api/1');
ok((wait_for { !$nginx->tally('/s/api', 4)->{one} } 10, 'one member'),
   'and removed');

$etcd->del('/services/api/2');
unknown('/s/api', 'a set goes with its last member');

$etcd->put('/services/api/1', $at2);
goes('/s/api', 'two', 'and comes again');


# segments that a request can ask for

for my $case (['', 'empty'], ['.', 'a dot'], ['..', 'two dots'],
              ['a%2fb', 'a slash'], ['api%00', 'NUL'], ['api%00x', 'NUL'],
              ['x' x 255, '255 bytes'], ['x' x 256, '256 bytes'],
              ['%ff%fe', 'no UTF-8'], ['api%0a', 'LF'])
{
    my ($segment, $name) = @$case;
    my $answer = $nginx->get("/refused?service=$segment");

    is($answer->{status}, 421, "$name: etcd_unknown_status");
}

is(service('x' x 4000)->{status}, 404, '4000 bytes: 404');
is($nginx->get('/page?service=none')->{body}, 'own service=none', 'error_page');
is($nginx->get('/cached?service=none')->{status}, 404, 'with a cache');
is($nginx->get('/cached?service=web')->{body}, 'two',
   'which serves what exists');

is(service("none$_")->{status}, 404, "a random name, $_") for 1 .. 20;


# other shapes of keys

$etcd->put('/versions/api/v/1/a', $at1);
$etcd->put('/versions/api/v/2/a', $at2);
$etcd->put('/versions/api/w/2/a', $at3);
$etcd->put('/versions/api/v', $at3);

goes('/canary?service=api&version=1', 'one', 'two variables, one');
goes('/canary?service=api&version=2', 'two', 'two variables, another one');
is($nginx->get('/canary?service=api')->{status}, 404, 'one without a value');
ok((wait_for {
        $nginx->error_log =~ m{key "/versions/api/[vw]\S*" does not match};
    } 10, 'the report'), 'keys that match nothing are reported');

$etcd->put('/keys/7', "{\"type\":\"roundrobin\",\"nodes\":{\"$at3\":1}}");
goes('/keys?service=7', 'three', 'a set that is one key');

$etcd->put('zero/greet.rpc/7587870460981677828', $at1);
goes('/zero?service=greet.rpc', 'one', 'no literal part but the namespace');


# requests that wait

is($nginx->get('/held?service=w')->{status}, 404,
   'nobody waits for a set that was never there');

$etcd->put('/held/w/1', $at1);
goes('/held?service=w', 'one', 'the set comes');

$etcd->del('/held/w/1');

my $http = $nginx->http;

ok((wait_for { $nginx->get('/empty?service=w')->{status} == 502 } 10,
    'the set to be empty'), 'the last member of a set that is waited for');

$http->send('GET', '/held?service=w');
ok((wait_for { $nginx->error_log =~ /waiting for a member of upstream "held"/ }
    10, 'a request that waits'), 'a request waits');
$etcd->put('/held/w/2', $at2);
is($http->receive->{body}, 'two', 'a request waits for the next member');

$etcd->put('/kept/k/1', $at3);
goes('/kept?service=k', 'three', 'on_empty=keep');
$etcd->del('/kept/k/1');
ok((wait_for { $nginx->error_log =~ m{"kept": prefix "/kept/k/" is empty} } 10,
    'the report'), 'the last member is kept');
is($nginx->get('/kept?service=k')->{body}, 'three', 'keeps the last member');


# the limit

$etcd->put("/services/l$_/1", $at1) for 1 .. 8;
goes('/s/l5', 'one', 'as many sets as the limit allows');

ok((wait_for {
        $nginx->error_log =~ m{"/services/l6/" is not used, since there are 8};
    } 10, 'the report'), 'the limit is reported');
is(service('l6')->{status}, 503, 'a set beyond it is not known');
is(service('none')->{status}, 503, 'and neither is what there is not');
is(service('web')->{body}, 'two', 'and those present stay');

$etcd->del('/services/web/1');
goes('/s/l6', 'one', 'a set that goes makes room');


# reload, a killed agent, etcd away

$nginx->set(LIMIT => 20)->reload($conf);
goes('/s/l8', 'one', 'a reload raises the limit');
is(service('api')->{body}, 'two', 'and keeps the sets');

my $changes = changes();

$nginx->kill_worker($nginx->status->{agent}{pid});
is(service('api')->{body}, 'two', 'the agent is killed: sets stay');
$etcd->put('/services/after/1', $at3);
goes('/s/after', 'three', 'and the next agent finds new ones');
is(changes(), $changes + 1, 'which is one change');
$etcd->del('/services/l1/1');
unknown('/s/l1', 'and those that go');

$etcd->stop;
is(service('api')->{body}, 'two', 'etcd is away: sets stay');
is(service('l1')->{status}, 404, 'and unknown ones are unknown');
$etcd->start;
$etcd->put('/services/back/1', $at1);
goes('/s/back', 'one', 'it is back');

like(join('', $nginx->lines_of('access.log')), qr{^/s/api 200 \[api\]$}m,
     'the access log has $etcd_set');


finish();
