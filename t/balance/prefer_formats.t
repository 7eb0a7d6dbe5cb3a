#!/usr/bin/perl

# The tag of "etcd_prefer" in each format that has tags, with text, numbers and
# booleans as values; several members in a key, and several keys of a member.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;

my $etcd = Etcd->new()->start();

# [name, parameters, the preference, [key, value] ..., and for each member 1 if
# it is preferred]

my @cases = (
    ['json', '', 'zone:a',
     [1, '{"address":"10.0.0.1:1","tags":{"zone":"a"}}'],
     [2, '{"address":"10.0.0.2:1","tags":{"zone":"A"}}'],
     [3, '{"address":"10.0.0.3:1","tags":{"zone":"ab"}}'],
     [4, '{"address":"10.0.0.4:1","tags":{"zone":""}}'],
     [5, '{"address":"10.0.0.5:1","tags":{"zone":null}}'],
     [6, '{"address":"10.0.0.6:1","tags":{"zone":["a"]}}'],
     [7, '{"address":"10.0.0.7:1","tags":null}'],
     [8, '{"address":"10.0.0.8:1","zone":"a"}'],
     [9, '10.0.0.9:1'],
     [10, '{"address":"10.0.0.10:1","tags":["zone:a"]}'],
     [11, '{"address":"10.0.0.11:1","tags":{"zone":["b","c"]}}'],
     { '10.0.0.1:1' => 1, '10.0.0.6:1' => 1, '10.0.0.10:1' => 1,
       map { ("10.0.0.$_:1" => 0) } 2 .. 5, 7 .. 9, 11 }],

    ['number', '', 'rack:7',
     [1, '{"address":"10.0.0.1:1","tags":{"rack":7}}'],
     [2, '{"address":"10.0.0.2:1","tags":{"rack":"7"}}'],
     [3, '{"address":"10.0.0.3:1","tags":{"rack":"07"}}'],
     [4, '{"address":"10.0.0.4:1","tags":{"rack":77}}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 1,
       '10.0.0.3:1' => 0, '10.0.0.4:1' => 0 }],

    ['boolean', '', 'local:true',
     [1, '{"address":"10.0.0.1:1","tags":{"local":true}}'],
     [2, '{"address":"10.0.0.2:1","tags":{"local":false}}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['colons', '', 'zone:a:b',
     [1, '{"address":"10.0.0.1:1","tags":{"zone":"a:b"}}'],
     [2, '{"address":"10.0.0.2:1","tags":{"zone:a":"b"}}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['long', '', 'zone:' . 'x' x 300,
     [1, '{"address":"10.0.0.1:1","tags":{"zone":"' . 'x' x 300 . '"}}'],
     [2, '{"address":"10.0.0.2:1","tags":{"zone":"' . 'x' x 299 . '"}}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['selected', 'tag=track:1', 'zone:a',
     [1, '{"address":"10.0.0.1:1","tags":{"zone":"a","track":1}}'],
     [2, '{"address":"10.0.0.2:1","tags":{"zone":"b","track":1}}'],
     [3, '{"address":"10.0.0.3:1","tags":{"zone":"a","track":2}}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['pointers', 'format=json host=/ip port=/port tags=/labels', 'x/y:a',
     [1, '{"ip":"10.0.0.1","port":1,"labels":{"x/y":"a"}}'],
     [2, '{"ip":"10.0.0.2","port":1,"labels":{"x":{"y":"a"}}}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['nodes', 'format=json nodes=/set url=/at tags=/labels', 'zone:a',
     [1, '{"labels":{"zone":"a"},"set":[{"at":"http://10.0.0.1:1"},'
         . '{"at":"http://10.0.0.2:1","labels":{"zone":"b"}},'
         . '{"at":"http://10.0.0.3:1","labels":{"rack":7}}]}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0, '10.0.0.3:1' => 1 }],

    ['kitex', 'format=kitex', 'zone:a',
     [1, '{"network":"tcp","address":"10.0.0.1:1","tags":{"zone":"a"}}'],
     [2, '{"network":"tcp","address":"10.0.0.2:1","tags":null}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['grpc', 'format=grpc', 'zone:a',
     [1, '{"Op":0,"Addr":"10.0.0.1:1","Metadata":{"zone":"a"}}'],
     [2, '{"Op":0,"Addr":"10.0.0.2:1","Metadata":"zone:a"}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['kratos', 'format=kratos', 'zone:a',
     [1, '{"name":"kratos","metadata":{"zone":"a"},"endpoints":'
         . '["grpc://10.0.0.1:1"]}'],
     [2, '{"name":"kratos","metadata":{"zone":"b"},"endpoints":'
         . '["grpc://10.0.0.3:1"]}'],
     [3, '{"name":"kratos","metadata":null,"endpoints":["grpc://10.0.0.4:1"]}'],
     { '10.0.0.1:1' => 1, '10.0.0.3:1' => 0, '10.0.0.4:1' => 0 }],

    ['go-micro', 'format=go-micro', 'zone:a',
     [1, '{"name":"go-micro","metadata":{"zone":"a"},"nodes":['
         . '{"address":"10.0.0.1:1"},'
         . '{"address":"10.0.0.2:1","metadata":{"zone":"b"}}]}'],
     [2, '{"name":"go-micro","nodes":['
         . '{"address":"10.0.0.3:1","metadata":{"zone":"a"}}]}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0, '10.0.0.3:1' => 1 }],

    ['dubbo', 'format=dubbo', 'zone:a b',
     ['providers/tri%3A%2F%2F10.0.0.1%3A1%2FX%3Fzone%3Da%2520b', ''],
     ['providers/tri%3A%2F%2F10.0.0.2%3A1%2FX%3Fzone%3Db%26azone%3Da%2520b',
      ''],
     ['providers/tri%3A%2F%2F10.0.0.3%3A1%2FX', ''],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0, '10.0.0.3:1' => 0 }],

    ['dubbo-app', 'format=dubbo-app', 'zone:a',
     [1, '{"Host":"10.0.0.1","Port":1,"Enable":true,"Healthy":true,'
         . '"Metadata":{"zone":"a"}}'],
     [2, '{"Host":"10.0.0.2","Port":1,"Enable":true,"Healthy":true,'
         . '"zone":"a"}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['rpcx', 'format=rpcx', 'zone:a',
     ['tcp@10.0.0.1:1', 'weight=3&zone=a'],
     ['tcp@10.0.0.2:1', 'zone=ab&state=active'],
     ['tcp@10.0.0.3:1', ''],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0, '10.0.0.3:1' => 0 }],

    ['skydns', 'format=skydns', 'group:g1',
     [1, '{"host":"10.0.0.1","port":1,"group":"g1"}'],
     [2, '{"host":"10.0.0.2","port":1,"group":"g2"}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['milvus', 'format=milvus', 'HostName:h1',
     [1, '{"ServerName":"proxy","Address":"10.0.0.1:1","HostName":"h1"}'],
     [2, '{"ServerName":"proxy","Address":"10.0.0.2:1","HostName":"h2"}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],

    ['apisix', 'format=apisix', 'zone:a',
     [1, '{"nodes":[{"host":"10.0.0.1","port":1,"weight":1,'
         . '"metadata":{"zone":"a"}},{"host":"10.0.0.2","port":1,"weight":1,'
         . '"metadata":{"zone":"b"}},{"host":"10.0.0.3","port":1,"weight":1}'
         . ']}'],
     [2, '{"nodes":{"10.0.0.4:1":1}}'],
     { '10.0.0.1:1' => 1, map { ("10.0.0.$_:1" => 0) } 2 .. 4 }],

    ['keys', '', 'zone:a',
     [1, '{"address":"10.0.0.1:1","tags":{"zone":"b"}}'],
     [2, '{"address":"10.0.0.1:1","tags":{"zone":"a"}}'],
     [3, '{"address":"10.0.0.2:1","tags":{"zone":"a"}}'],
     [4, '{"address":"10.0.0.2:1","tags":{"zone":"b"}}'],
     { '10.0.0.1:1' => 1, '10.0.0.2:1' => 0 }],
);

my $config = <<'EOC';

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /status { etcd_status; }
    }
EOC

for my $case (@cases) {
    my ($name, $parameters, $preference, @keys) = @$case;

    pop @keys;
    $etcd->put("/$name/$_->[0]", $_->[1]) for @keys;
    $config .= <<"EOC";

    upstream $name {
        etcd_members /$name/ $parameters;
        etcd_prefer "$preference";
    }
EOC
}

my $nginx = Nginx->new(etcd => $etcd)->start("$config}\n");


sub near {
    my ($name) = @_;

    return { map { $_->{address} => $_->{near} ? 1 : 0 }
             grep { $_->{state} ne 'shadowed' }
                  @{ $nginx->upstream($name)->status->{members} } };
}


for my $case (@cases) {
    my ($name, undef, $preference) = @$case;

    becomes { near($name) } $case->[-1], $name;
    is($nginx->upstream($name)->status->{prefer}, $preference,
       "$name: the preference");
}


# A member's tag changes, and the newest key of a member goes away: the older
# one counts.

$etcd->put('/json/1', '{"address":"10.0.0.1:1","tags":{"zone":"b"}}');
becomes { near('json')->{'10.0.0.1:1'} } 0, 'a tag changes';
$etcd->put('/json/1', '{"address":"10.0.0.1:1","tags":{"zone":"a"}}');
becomes { near('json')->{'10.0.0.1:1'} } 1, 'and changes back';
$etcd->del('/keys/2');
becomes { near('keys')->{'10.0.0.1:1'} } 0, 'the older key counts';
$etcd->del('/keys/4');
becomes { near('keys')->{'10.0.0.2:1'} } 1, 'the other older key, too';

finish();
