#!/usr/bin/perl

# Several nodes in one key: each is valid or invalid by itself.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Upstream;

my $etcd = Etcd->new()->start();

my @formats = (
    ['apisix-map', 'apisix', 'nodes'],
    ['apisix-array', 'apisix', ''],
    ['go-micro', 'go-micro', ''],
    ['pointers', 'json nodes=/n host=/h port=/p', ''],
    ['pointer-map', 'json nodes=/n address=/a', ''],
    ['urls', 'json nodes=/n url=/u scheme=grpc', ''],
);

# a value with these nodes; a reference is a node that is not valid

sub value {
    my ($kind, @nodes) = @_;

    my $list = sub {
        my ($name, $good) = @_;
        my @all = map { ref $_ ? $$_ : $good->($_) } @nodes;

        return '{"name":"' . $kind . "\",\"$name\":[" . join(',', @all) . ']}';
    };

    my %make = (
        'apisix-map' => sub {
            return '{"nodes":{'
                   . join(',', map { ref $_ ? $$_ : "\"$_:80\":1" } @nodes)
                   . '}}';
        },
        'apisix-array' => sub {
            return $list->(nodes => sub {
                return "{\"host\":\"$_[0]\",\"port\":80,\"weight\":1}" });
        },
        'go-micro' => sub {
            return $list->(nodes => sub { "{\"address\":\"$_[0]:80\"}" });
        },
        'pointers' => sub {
            return $list->(n => sub { "{\"h\":\"$_[0]\",\"p\":80}" });
        },
        'pointer-map' => sub {
            my $n = 0;

            return '{"n":{'
                   . join(',', map { '"' . $n++ . '":'
                                     . (ref $_ ? $$_ : "{\"a\":\"$_:80\"}") }
                                   @nodes)
                   . '}}';
        },
        'urls' => sub {
            return $list->(n => sub { "{\"u\":\"grpc://$_[0]\"}" });
        },
    );

    return $make{$kind}->();
}

# nodes that are not valid: what they are, and a part of the reason

my %bad = (
    'apisix-map'   => [['"web.internal:80":1', 'is a host name'],
                       ['"10.9.9.9:99999":1', 'has a port that is not'],
                       ['"10.9.9.9:80":{"host":7,"port":80}',
                        'host 7 is not a string']],
    'apisix-array' => [['{"host":"web.internal","port":80,"weight":1}',
                        'is a host name'],
                       ['{"host":"10.9.9.9","port":-1}', 'port -1 is not'],
                       ['7', 'is not an object'],
                       ['{}', 'is missing']],
    'go-micro'     => [['{"address":"web.internal:80"}', 'is a host name'],
                       ['{"id":"b"}', 'address is missing'],
                       ['null', 'is not an object']],
    'pointers'     => [['{"h":"web.internal","p":80}', 'is a host name'],
                       ['{"h":"10.9.9.9"}', 'is missing']],
    'pointer-map'  => [['{"a":"web.internal:80"}', 'is a host name'],
                       ['{"a":[]}', 'is not a string']],
    'urls'         => [['{"u":"grpc://web.internal:80"}', 'is a host name'],
                       ['{"u":7}', 'is not a string']],
);

my $upstreams = join '', map {
    my ($name, $format) = @$_;
    "    upstream $name { etcd_members /$name/ format=$format; }\n"
} @formats;

my $nginx = Nginx->new(etcd => $etcd)->start(<<"EOC");

etcd {
    endpoints %%ETCD%%;
}

http {
$upstreams
    upstream kratos {
        etcd_members /kratos/ format=kratos scheme=grpc weight=1;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

for (@formats) {
    my ($name, $format) = @$_;

    my $upstream = Upstream->new($nginx, $name);
    my $key = "/$name/set";
    my $shows = sub {
        my ($text, @at) = @_;

        $upstream->shows_by_address({ map { ("$_:80" => "$key 1 up") } @at },
                                    "$name: $text");
    };

    my $put = sub {
        my @nodes = map { ref $_ || $name ne 'urls' ? $_ : "$_:80" } @_;

        return $etcd->put($key, value($name, @nodes));
    };

    for (@{ $bad{$name} }) {
        my ($bad, $reason) = @$_;

        $put->('10.1.0.1', '10.1.0.2');
        $shows->('two nodes', '10.1.0.1', '10.1.0.2');
        $upstream->reports({}, "$name: nothing is invalid");

        # one leaves, one comes, and one is not valid

        $put->('10.1.0.2', \$bad, '10.1.0.3');
        $shows->("beside $bad: one left, one came", '10.1.0.2', '10.1.0.3');

        like($upstream->invalid->{$key}, qr/\Q$reason\E/,
             "$name: the node is reported");

        # no node is valid: nothing changes

        my $revision = $put->(\$bad);

        $upstream->sees($revision);
        $shows->('only such a node: nothing changes', '10.1.0.2', '10.1.0.3');
        like($upstream->invalid->{$key}, qr/\Q$reason\E/,
             "$name: the value is reported");
    }

    # no nodes are no members

    $etcd->put($key, value($name));
    $shows->('no nodes');
    $upstream->reports({}, "$name: that is valid");
}

# A node that is valid but not selected is a node: the members of the key are
# not those that it had.

my $kratos = Upstream->new($nginx, 'kratos');

$etcd->put('/kratos/set', '{"endpoints":["grpc://10.1.0.1:80"]}');
$kratos->shows_by_address({ '10.1.0.1:80' => '/kratos/set 1 up' }, 'a node');
$etcd->put('/kratos/set', '{"endpoints":["http://10.1.0.1:80",7]}');
$kratos->shows_by_address({}, 'has another scheme now, beside an invalid node');

# A value as long as that of go-micro, which describes all methods

my $micro = Upstream->new($nginx, 'go-micro');
my $field = '{"name":"field","type":"string","values":null}';
my $method = '{"name":"Greeter.Method%d","request":{"name":"Request","type":'
             . '"Request","values":[' . join(',', ($field) x 8) . ']}}';
my $methods = join(',', map { sprintf $method, $_ } 1 .. 200);
my $long = "{\"name\":\"greeter\",\"endpoints\":[$methods],\"nodes\":["
           . '{"id":"1","address":"10.1.0.1:80"}]}';

cmp_ok(length($long), '>', 87 * 1024, 'a long value');
$etcd->put('/go-micro/long', $long);
$micro->shows_by_address({ '10.1.0.1:80' => '/go-micro/long 1 up' },
                         'is a member');
$micro->reports({}, 'and valid');

$nginx->logs(qr{key "/apisix-map/set" at revision \d+ is used in part}, 3,
             'the log tells that the rest is used');

finish();
