#!/usr/bin/perl

# Several keys of one address are one member: the status shows the others, too,
# as "shadowed", with the key that hides them, and counts them; when that key
# goes, the next one is up at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Metrics;
use Nginx;
use Upstream;
use Wait;

use constant {
    SHOWN => 7,            # of one address
    MANY  => 40,           # keys of one address
};

my $etcd = Etcd->new()->start();
my ($at, $other) = ('127.0.0.1:1001', '127.0.0.1:1002');
my @modules = (['api', 'http'], ['db', 'stream']);

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api { etcd_members /api/; }
    upstream sets { etcd_members /sets/$host/; }
    upstream fixed { server 127.0.0.1:1003 weight=5; etcd_members /fixed/; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status { etcd_status; }
        location = /metrics { etcd_status prometheus members=on; }
        location / { proxy_pass http://sets; }
    }
}

stream {
    upstream db { etcd_members /db/; }

    server { listen 127.0.0.1:%%PORT_DB%%; proxy_pass db; }
}

EOC

# { KEY => "STATE hidden_by" } of what the status shows

sub seen {
    my ($upstream) = @_;

    return { map { $_->{key} => join(' ', grep { defined }
                                     @$_{qw(state hidden_by)}) }
             @{ $upstream->status->{members} } };
}


sub count {
    my ($name, $module, $state) = @_;

    return Metrics->of($nginx, '/metrics')
        ->value('nginx_etcd_upstream_members', upstream => $name,
                module => $module, state => $state);
}


for (@modules) {
    my ($name, $module) = @$_;
    my $upstream = Upstream->new($nginx, $name,
                                 $module eq 'stream' ? 'stream' : ());

    $etcd->put("/$name/other", $other);
    becomes { seen($upstream) } { "/$name/other" => 'up' },
        "$module: no other key, nothing is shadowed";
    is(count($name, $module, 'shadowed'), 0, "$module: nor counted");

    $etcd->put("/$name/1", qq({"address":"$at","weight":3}));
    $etcd->put("/$name/2", $at);

    becomes { seen($upstream) }
        { "/$name/other" => 'up', "/$name/2" => 'up',
          "/$name/1" => "shadowed /$name/2" },
        "$module: the older key is shadowed";

    my ($one) = grep { $_->{key} eq "/$name/1" }
                @{ $upstream->status->{members} };

    is("$one->{address} $one->{weight}", "$at 3",
       "$module: with what it would be");
    is(join(' ', @$one{qw(conns fails requests)}), '0 0 0',
       "$module: no request goes to it");
    is(count($name, $module, 'shadowed'), 1, "$module: it is counted");
    is(count($name, $module, 'up'), 2, "$module: but not as up");
    is($upstream->status->{state}, 'ok', "$module: the upstream is ok");

    # the hiding key goes: in the same change the other one is up

    my $revision = $etcd->del("/$name/2");

    wait_for { $upstream->status->{revision} >= $revision } 10, 'the change';

    is_deeply(seen($upstream), { "/$name/other" => 'up', "/$name/1" => 'up' },
              "$module: without the newer key it is up at once");
    is(count($name, $module, 'shadowed'), 0, "$module: none is shadowed");

    # the older key is put again, and is the newest

    $etcd->put("/$name/2", $at);
    $etcd->put("/$name/1", $at);

    becomes { seen($upstream) }
        { "/$name/other" => 'up', "/$name/1" => 'up',
          "/$name/2" => "shadowed /$name/1" }, "$module: the newest key wins";

    # a key that is gone does not shadow, nor is it shadowed

    $etcd->del("/$name/2");
    becomes { seen($upstream) } { "/$name/other" => 'up', "/$name/1" => 'up' },
        "$module: a shadowed key goes";
}

# many keys: some are shown, all are counted; members around them are all there

my $api = Upstream->new($nginx, 'api');

$etcd->put(sprintf('/api/m%03d', $_), $at) for 1 .. MANY;
$etcd->put("/api/n$_", "127.0.0.2:$_") for 1 .. 20;

my $newest = sprintf('/api/m%03d', MANY);
my $shown;

wait_for {
    $shown = seen($api);
    ($shown->{$newest} // '') eq 'up' && ($shown->{'/api/n20'} // '') eq 'up'
} 10, 'all keys';

is(scalar(grep { /^shadowed/ } values %$shown), SHOWN, 'some are shown');
is_deeply([grep { !/^(?:up|shadowed \Q$newest\E)$/ } values %$shown], [],
          'by the newest key');
is(scalar(grep { $_ eq 'up' } values %$shown), 22, 'all others are there');
is(count('api', 'http', 'shadowed'), MANY, 'all are counted');

my ($row) = grep { $_->{kind} eq 'hidden' } @{ $api->status->{unused} };

is($row->{keys}, MANY, 'as the status says');

# samples of members have an address each

my $samples = grep { /^nginx_etcd_member_weight\{.*upstream="api"/ }
              split(/\n/, $nginx->get('/metrics')->{body});

is($samples, 22, 'a member has its metrics once');

# a server of the configuration is shadowed by a key

my $fixed = Upstream->new($nginx, 'fixed');

becomes { seen($fixed) } { '' => 'up' }, 'a server without a key';
$etcd->put('/fixed/1', '127.0.0.1:1003');
becomes { seen($fixed) } { '/fixed/1' => 'up', '' => 'shadowed /fixed/1' },
    'a key hides it';

# a set of a prefix with variables

$etcd->put("/sets/a/$_", $at) for 1, 2;
$etcd->put('/sets/b/1', $at);

becomes {
    my $sets = $nginx->status('/status?upstream=sets&set=a');

    seen(bless { of => $sets->{upstreams}{sets}{set} }, 'Told')
} { '/sets/a/2' => 'up', '/sets/a/1' => 'shadowed /sets/a/2' }, 'in a set';

becomes { count('sets', 'http', 'shadowed') } 1, 'and counted over all sets';
is(count('sets', 'http', 'up'), 2, 'beside those that are up');

finish();


sub Told::status { $_[0]{of} // {} }
