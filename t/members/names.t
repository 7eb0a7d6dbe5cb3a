#!/usr/bin/perl

# Members whose addresses are host names.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Dns;
use Etcd;
use Example;
use Finish;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my $backend = Backend->start('one');
my $port = $backend->port;
my $dns = Dns->start();

my $nginx = Nginx->new(etcd => $etcd)->set(DNS => $dns->address);

my $config = <<'EOC';

thread_pool default threads=1;

etcd {
    endpoints %%ETCD%%;
    resolver %%DNS%%;
    resolver_timeout 2s;
    state_path %%DIR%%/state;
}

etcd plain {
    endpoints %%ETCD%%;
}

http {
    proxy_next_upstream off;

    upstream api {
        etcd_members /api/;
        etcd_allow 127.0.0.0/8 ::1;
    }

    upstream web {
        etcd_members /api/web;
    }

    upstream bad {
        etcd_members /bad/;
        etcd_allow 127.0.0.0/8;
    }

    upstream leader {
        etcd_leader /leader format=key;
    }

    upstream plain {
        etcd_members /api/ cluster=plain;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }
}

EOC


# Waits until a name was asked for again and answered, so many times: other
# names that are asked for meanwhile were asked for, too.

sub rounds {
    my ($n, $name) = @_;

    $name //= 'web.test';

    my $wanted = $dns->queries($name) + 2 * $n;

    return wait_for { $dns->queries($name) >= $wanted } 20, "rounds of $name";
}


sub states {
    return { map { $_->{host} => "$_->{address} $_->{state}" }
             @{ $nginx->upstream('bad')->status->{members} // [] } };
}


sub reason {
    my ($host) = @_;

    my ($member) = grep { ($_->{host} // '') eq $host }
        @{ $nginx->upstream('bad')->status->{members} // [] };

    return $member->{reason};
}


# Waits until a member that has addresses has that reason, or there is none.

sub unused {
    my ($wanted, $name, $host) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $shown;

    $wanted = "not all addresses of its host are used: $wanted" if $wanted;

    wait_for { ($shown = reason($host) // '') eq $wanted } 20, $name;

    return is($shown, $wanted, $name);
}


my @many = map { '127.1.' . int($_ / 250) . '.' . ($_ % 250 + 1) } 1 .. 1000;

$dns->set('web.test'     => ['127.0.0.1']);
$dns->set('two.test'     => ['127.0.0.3', '127.0.0.2']);
$dns->set('six.test'     => ['::1', '127.0.0.6']);
$dns->set('failure.test' => 'failure');
$dns->set('silent.test'  => 'silence');
$dns->set('foreign.test' => ['10.9.9.9', '0.0.0.0']);
$dns->set('many.test'    => ['127.1.0.1']);

$etcd->put('/api/web', "Web.TEST.:$port");
$etcd->put('/api/two', '{"host":"two.test","port":8080,"weight":5}');
$etcd->put('/api/six', 'six.test:80');
$etcd->put('/api/ip', '127.0.0.9:80');
$etcd->put('/bad/none', 'none.test:80');
$etcd->put('/bad/failure', 'failure.test:80');
$etcd->put('/bad/silent', 'silent.test:80');
$etcd->put('/bad/foreign', 'foreign.test:80');
$etcd->put('/leader', 'two.test:80');

$nginx->start($config);

my $api = $nginx->upstream('api');

my %api = ("127.0.0.1:$port" => '/api/web 1 up',
           '127.0.0.2:8080' => '/api/two 3 up',
           '127.0.0.3:8080' => '/api/two 2 up',
           '127.0.0.6:80' => '/api/six 1 up',
           '[::1]:80' => '/api/six 1 up',
           '127.0.0.9:80' => '/api/ip 1 up');

$api->shows_by_address({ %api }, 'names, with the weight shared');
is($api->member("127.0.0.1:$port")->{host}, "web.test:$port",
   'the status shows the name');
ok(!exists $api->member('127.0.0.9:80')->{host}, 'where there is one');
is(scalar(keys %{ $api->invalid }), 0, 'nothing is invalid');
$nginx->upstream('leader')->shows_by_address(
    { '127.0.0.2:80' => '/leader 1 up' }, 'there is one leader');

is($nginx->get('/to/web')->{body}, 'one', 'requests go there');

# without a resolver

my $reason = 'is a host name, and there is no "resolver" in the "etcd" block';

$nginx->upstream('plain')->reports({
    '/api/web' => "address \"Web.TEST.:$port\" $reason",
    '/api/two' => "host \"two.test\" $reason",
    '/api/six' => "address \"six.test:80\" $reason",
}, 'without a resolver they are invalid');

# names that cannot be resolved

my %unresolved = map { ("$_.test:80" => "$_.test:80 unresolved") }
    qw(none failure silent foreign);

for (['none', '"none.test" could not be resolved: Host not found'],
     ['failure', '"failure.test" could not be resolved: Server failure'],
     ['silent', '"silent.test" could not be resolved: Operation timed out'],
     ['foreign', 'there is no address that may be used'])
{
    my ($name, $wanted) = @$_;

    my $reason;

    wait_for { ($reason = reason("$name.test:80") // '') eq $wanted } 20, $name;
    is($reason, $wanted, "the reason of $name");
}

is_deeply(states(), \%unresolved, 'unresolved');
$nginx->logs(qr/"foreign.test" is not used: it is not allowed by/, 1,
             'which the log says once');
is($nginx->get('/to/bad')->{status}, 502, 'nobody is sent there');

$dns->set('none.test' => ['127.0.0.1']);
$dns->set('failure.test' => ['127.0.0.2']);
$dns->set('silent.test' => ['127.0.0.3']);
$dns->set('foreign.test' => ['127.0.0.4', '10.9.9.9']);

my %bad = ('127.0.0.1:80' => '/bad/none 1 up',
           '127.0.0.2:80' => '/bad/failure 1 up',
           '127.0.0.3:80' => '/bad/silent 1 up',
           '127.0.0.4:80' => '/bad/foreign 1 up');

$nginx->upstream('bad')->shows_by_address({ %bad }, 'resolved at last');
is(reason('none.test:80'), undef, 'there is no reason any more');
unused('1 may not be, 0 are too many', 'but where one is refused',
       'foreign.test:80');
$dns->set('foreign.test' => ['127.0.0.4', '10.9.9.9', '10.9.9.8']);
unused('2 may not be, 0 are too many', 'or one more', 'foreign.test:80');

# other addresses

$dns->set('web.test' => ['127.0.0.7', '127.0.0.1']);
$api->shows_by_address({ %api, "127.0.0.7:$port" => '/api/web 1 up' },
                       'one more address');

$dns->set('web.test' => ['127.0.0.1']);
$api->shows_by_address({ %api }, 'one less');

my $generation = $api->generation;

$dns->set('two.test' => ['127.0.0.2', '127.0.0.3', '127.0.0.2']);
rounds(2, 'two.test');
is($api->generation, $generation, 'another order is no change');

# Failures keep the former addresses.

$dns->set('web.test' => 'failure');
$dns->set('two.test' => undef);
$dns->set('six.test' => ['10.0.0.1']);
$dns->set('foreign.test' => 'silence');

for (['api', 'web'], ['api', 'two'], ['api', 'six'], ['bad', 'foreign']) {
    my ($upstream, $name) = @$_;

    ok(wait_for(sub {
        $nginx->count_log(qr/"$upstream": host "$name.test".* addresses stay/)
    }, 20), "$name fails");
}

$api->shows_by_address({ %api }, 'the last addresses stay');
is($nginx->get('/to/web')->{body}, 'one', 'requests still go there');
$nginx->upstream('bad')->shows_by_address({ %bad }, 'here as well');
unused('2 may not be, 0 are too many', 'with what was refused',
       'foreign.test:80');
is($api->generation, $generation, 'nothing has changed');

# An agent does not know the names.

my $agent = $nginx->status->{agent}{pid};

$nginx->kill_worker($agent);
wait_for { ($nginx->status // return)->{agent}{pid} != $agent } 10, 'another';
rounds(2);
$api->shows_by_address({ %api }, 'another agent keeps them, too');
$etcd->put('/api/two', '{"host":"two.test","port":8080,"weight":8}');
@api{'127.0.0.2:8080', '127.0.0.3:8080'} = ('/api/two 4 up') x 2;
$api->shows_by_address({ %api }, 'also where the member changes');
unused('2 may not be, 0 are too many', 'or was refused', 'foreign.test:80');

$dns->set('web.test' => ['127.0.0.1']);
$dns->set('two.test' => ['127.0.0.2']);
$dns->set('six.test' => ['::1', '127.0.0.6']);
$dns->set('foreign.test' => ['127.0.0.4']);
delete $api{'127.0.0.3:8080'};
$api{'127.0.0.2:8080'} = '/api/two 8 up';
$api->shows_by_address({ %api }, 'and asks for them');
unused('', 'none is refused', 'foreign.test:80');

# too many addresses

$etcd->put('/api/many', '{"host":"many.test","port":80,"weight":65535}');
$api->shows_by_address({ %api, '127.1.0.1:80' => '/api/many 65535 up' },
                       'one address');
$dns->set('many.test' => \@many);
wait_for { keys %{ $api->by_address } == keys(%api) + 64 } 20, 'many';

my @used = grep { /^127\.1\./ } keys %{ $api->by_address };

is(scalar(@used), 64, '64 of 1000 are used');
$nginx->logs(qr/"many.test" has 1000 addresses, 64 of them are used/, 1,
             'which the log says once');
is(scalar(grep { ($_->{reason} // '') =~ / 0 may not be, 936 are too many$/ }
          @{ $api->status->{members} }), 64, 'and the status of each');
$generation = $api->generation;
$dns->set('many.test' => [reverse @many]);
rounds(2, 'many.test');
is($api->generation, $generation, 'always the same');
$etcd->del('/api/many');
$api->shows_by_address({ %api }, 'it goes');

# (Questions from before the deletion are over after a round.)

rounds(1);

my $asked = $dns->queries('many.test');

rounds(3);
is($dns->queries('many.test'), $asked,
   'what nobody uses is not asked for any more');

# a name in several members, and two names with one address

$etcd->txn([put => '/api/web2', "web.test:1"],
           [put => '/api/web3', "{\"address\":\"web.test:1\",\"weight\":3}"]);
$api->shows_by_address({ %api, '127.0.0.1:1' => '/api/web3 3 up' },
                       'one address is one member');
$etcd->del('/api/web3');
$api->shows_by_address({ %api, '127.0.0.1:1' => '/api/web2 1 up' },
                       'which the other key has, too');
$etcd->put('/api/web2', 'two.test:8080');
$api{'127.0.0.2:8080'} = '/api/web2 1 up';
$api->shows_by_address({ %api }, 'another name with the address of one');
$etcd->del('/api/web2');
$api{'127.0.0.2:8080'} = '/api/two 8 up';
$api->shows_by_address({ %api }, 'it is as it was');

# a reload, without the resolver, too

ok($nginx->reload(), 'reload');
$api->shows_by_address({ %api }, 'as before');

ok($nginx->reload($config =~ s/resolver .*?;//r =~ s/resolver_timeout .*?;//r),
   'reload without a resolver');
wait_for { keys %{ $api->invalid } == 3 } 10, 'invalid';
is_deeply([sort keys %{ $api->invalid }], ['/api/six', '/api/two', '/api/web'],
          'names are invalid');
$api->shows_by_address({ %api }, 'their last addresses stay');
ok($nginx->reload($config), 'reload with it');
$api->reports({}, 'they are valid');
$dns->set('web.test' => ['127.0.0.8']);
delete $api{"127.0.0.1:$port"};
$api{"127.0.0.8:$port"} = '/api/web 1 up';
$api->shows_by_address({ %api }, 'and resolved');

# a start without etcd

$etcd->put('/bad/never', 'never.test:80');
wait_for { (reason('never.test:80') // '') ne '' } 10, 'never';

$nginx->quit();
$etcd->stop();

$dns->set('two.test' => 'silence');
$nginx->start($config);
$api->shows_by_address({ %api }, 'addresses of the state file');
is($nginx->upstream('bad')->member('never.test:80')->{state}, 'unresolved',
   'and what never was one');
$dns->set('web.test' => ['127.0.0.1']);
delete $api{"127.0.0.8:$port"};
$api{"127.0.0.1:$port"} = '/api/web 1 up';
$api->shows_by_address({ %api }, 'names are asked for without etcd');
is($api->member('127.0.0.2:8080')->{weight}, 8, 'the rest stays');

$etcd->start();
$etcd->put('/api/web', '127.0.0.9:80');
delete $api{"127.0.0.1:$port"};
$etcd->del('/api/ip');
$api{'127.0.0.9:80'} = '/api/web 1 up';
$api->shows_by_address({ %api }, 'an address in place of a name');

# the example

my $text = Example::text('names', 'etcd');
my $example = Nginx->new(etcd => $etcd);

$etcd->put('/services/api/blue', "blue.test:$port");
$dns->set('blue.test' => ['127.0.0.1', '192.0.2.1']);
$example->start($text =~ s/127\.0\.0\.1:53/$dns->address/er);
Upstream->new($example, 'api')->shows_by_address(
    { "127.0.0.1:$port" => '/services/api/blue 1 up' }, 'the example');
is($example->get('/')->{body}, 'one', 'example: a request');

# many members of few names, each of which is valid for an hour

my $long = Dns->start(ttl => 3600);
my $big = Nginx->new(etcd => $etcd)->set(LONG => $long->address);

$long->set(map { ("n$_.test" => ["127.2.0.$_"]) } 1 .. 100);

for my $n (0 .. 99) {
    $etcd->txn(map { [put => "/big/$n/$_", "n$_.test:" . (1000 + $n)] }
               1 .. 100);
}

$big->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
    resolver %%LONG%% ipv6=off;
    zone 32m;
}

http {
    upstream big {
        etcd_members /big/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

# To decode the status takes seconds: its text is searched.

my $up = 0;

wait_for {
    $up = () = $big->get('/status')->{body} =~ /"state":"up"/g;
    $up == 10000
} 60, 'all of them';
is($up, 10000, '10000 members');

my $queries = 0;

$queries += $long->queries("n$_.test") for 1 .. 100;
is($queries, 100, 'of 100 names that were asked for once');

finish();
