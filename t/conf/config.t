#!/usr/bin/perl

# Configurations that nginx -t refuses, with message and line, and others that
# pass.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Conf;
use Finish;
use Nginx;


# a server of stream, or a location, that may wait for the upstreams api and
# static, its lines given: the first one is line 9

sub stream_server {
    my (@lines) = @_;

    return waiting_server('stream', 'listen 127.0.0.1:%%PORT%%;', @lines);
}


sub waiting_location {
    my (@lines) = @_;

    return waiting_server('http', 'location / {', @lines, '}');
}


sub waiting_server {
    my ($module, @lines) = @_;

    return join("\n", 'etcd {', '    endpoints 127.0.0.1:2379;', '}',
                "$module {", "    upstream api { $members }",
                '    upstream static { server 127.0.0.1:1; }', '    server {',
                (map { "        $_" } @lines),
                ($module eq 'stream' ? '        proxy_pass api;' : ()),
                '    }', '}');
}


# endpoints

for (
    ['ftp://127.0.0.1:2379', 'it is not "http://ADDRESS:PORT"'],
    ['https://', 'no host'],
    ['https://127.0.0.1:0', 'invalid port'],
    ['http://', 'no host'],
    ['http:///', 'no host'],
    ['http://:2379', 'no host'],
    ['http://127.0.0.1:0', 'invalid port'],
    ['http://127.0.0.1:65536', 'invalid port'],
    ['http://127.0.0.1:x', 'invalid port'],
    ['http://127.0.0.1:2379/v3', 'it is not "http://ADDRESS:PORT"'],
    ['http://user@127.0.0.1:2379', 'it is not "http://ADDRESS:PORT"'],
    ['127.0.0.1:2379?x', 'it is not "http://ADDRESS:PORT"'],
    ['"http://127.0.0.1 :2379"', 'it is not "http://ADDRESS:PORT"'],
    ['http://[::1:2379', 'invalid host'],
    ['unix:etcd.sock', 'the path of a UNIX socket must begin with "/"'],
    ['http://etcd_1,etcd_2:2379', 'invalid host'],
    ['http://' . 'a' x 250, 'it is too long'],
    ['""', 'no host'],
)
{
    my ($url, $reason) = @$_;
    my $shown = $url =~ s/"//gr;

    refused("endpoint $url", etcd("endpoints $url;"),
            "invalid endpoint \"$shown\": $reason in AT", 2);
}

refused('a second endpoint', etcd('endpoints 127.0.0.1:1 127.0.0.1:x;'),
        'invalid endpoint "127.0.0.1:x": invalid port in AT', 2);
refused('a host name without resolver', etcd('endpoints etcd.invalid;'),
        'host not found: etcd cluster "default" has the host name '
        . '"etcd.invalid" among its "endpoints" and no "resolver" in AT', 3);
refused('no endpoint', etcd('endpoints;'),
        'invalid number of arguments in "endpoints" directive in AT', 2);
refused('a block without endpoints', etcd('namespace /x;'),
        'etcd cluster "default" has no "endpoints" in AT', 3);
refused('17 endpoints', etcd('endpoints ' . join(' ', map { "127.0.0.1:$_" }
                                                  1 .. 17) . ';'),
        '"endpoints" directive has more than 16 URLs in AT', 2);

# the rest of the block

for (
    [$endpoint, 'endpoints 127.0.0.1:1;'],
    ['namespace /a;', 'namespace /b;'],
    ['resolver 127.0.0.1;', 'resolver 127.0.0.2;'],
    ['resolver_timeout 1s;', 'resolver_timeout 1s;'],
    ['rebalance 1m;', 'rebalance 1m;'],
    ['auto_sync 1m;', 'auto_sync 0;'],
    ['user a;', 'user b;'],
    ['connect_timeout 1s;', 'connect_timeout 1s;'],
    ['request_timeout 1s;', 'request_timeout 1s;'],
    ['ping_interval 10s;', 'ping_interval 10s;'],
    ['ping_timeout 1s;', 'ping_timeout 1s;'],
    ['audit_interval 1m;', 'audit_interval 1m;'],
    ['max_message_size 1m;', 'max_message_size 1m;'],
    ['state_path %%DIR%%/a;', 'state_path %%DIR%%/b;'],
    ['zone 1m;', 'zone 1m;'],
)
{
    my ($name) = $_->[1] =~ /^(\w+)/;

    refused("$name twice", etcd($name eq 'endpoints' ? () : $endpoint, @$_),
            "\"$name\" directive is duplicate in AT",
            $name eq 'endpoints' ? 3 : 4);
}

for my $name (qw(connect_timeout request_timeout ping_interval ping_timeout
                 audit_interval max_message_size zone resolver_timeout
                 rebalance auto_sync))
{
    refused("$name soon", etcd($endpoint, "$name soon;"),
            "\"$name\" directive invalid value in AT", 3);
}

for my $name (qw(connect_timeout request_timeout ping_timeout
                 resolver_timeout))
{
    refused("$name 0", etcd($endpoint, "$name 0;"),
            "\"$name\" directive must not be 0 in AT", 3);
}

for my $size (qw(0 16 65535 63k)) {
    refused("max_message_size $size",
            etcd($endpoint, "max_message_size $size;"),
            '"max_message_size" directive must be at least 64k: a key and its '
            . 'value are in one message in AT', 3);
}

passes('max_message_size 64k', etcd($endpoint, 'max_message_size 64k;'));

refused('ping_interval 4s', etcd($endpoint, 'ping_interval 4s;'),
        '"ping_interval" directive must be at least 5s: etcd closes the '
        . 'connections of clients that ping more often in AT', 3);
refused('zone 4k', etcd($endpoint, 'zone 4k;'),
        'etcd zone "4k" is too small, at least 256k are needed in AT', 3);
refused('zone 40000m', etcd($endpoint, 'zone 40000m;'),
        'etcd zone "40000m" is too large, at most 32g are possible in AT', 3);
refused('state_path ""', etcd($endpoint, 'state_path "";'),
        '"state_path" directive is empty in AT', 3);
refused('state_path that is a file',
        etcd($endpoint, 'state_path %%DIR%%/nginx.conf;'),
        '"state_path" "nginx.conf" is not a directory in AT', 4);
refused('state_path with a name that no file has',
        "etcd a/b {\n$endpoint\nstate_path %%DIR%%;\n}\n",
        'etcd cluster name "a/b" is not a valid file name, which "state_path" '
        . 'requires in AT', 4);
refused('state_path whose parent does not exist',
        etcd($endpoint, 'state_path %%DIR%%/none/state;'),
        '"state_path" in AT: mkdir() "none/state" failed '
        . '(2: No such file or directory)', 3);
passes('state_path', etcd($endpoint, 'state_path %%DIR%%/state/;'));
passes('state_path below another path of nginx',
       "${http}etcd {\n$endpoint\nstate_path %%DIR%%/uwsgi/state;\n}\n");
passes('state_path below the prefix', etcd($endpoint, 'state_path state;'));
refused('an unknown directive', etcd($endpoint, 'speed 9;'),
        'unknown directive "speed" in AT', 3);
refused('a directive of nginx', etcd($endpoint, 'worker_processes 1;'),
        '"worker_processes" directive is not allowed here in AT', 3);
refused('an empty name', "etcd \"\" {\n    $endpoint\n}\n",
        '"etcd" directive has an empty name in AT', 1);
refused('a second block', "etcd {\n$endpoint\n}\netcd {\n$endpoint\n}\n",
        'duplicate etcd cluster "default" in AT', 4);
refused('a second block of a name',
        "etcd a {\n$endpoint\n}\netcd a {\n$endpoint\n}\n",
        'duplicate etcd cluster "a" in AT', 4);
refused('endpoints outside', "$endpoint\n",
        '"endpoints" directive is not allowed here in AT', 1);

# user, password_file

my $file = 'password_file good.password;';
my $others = 'is readable by group or others, only its owner may read it';

for (
    ['missing', 'cannot be opened (2: No such file or directory)'],
    ['.', 'is not a regular file'],
    ['0604.password', $others],
    ['0640.password', $others],
    ['0644.password', $others],
    ['none.password', 'has an empty first line'],
    ['empty.password', 'has an empty first line'],
    ['long.password', 'has a first line of more than 1024 bytes'],
    ['longer.password', 'has a first line of more than 1024 bytes'],
    ['zero.password', 'has a zero byte in its first line'],
)
{
    my ($name, $fault) = @$_;

    refused("password_file $name",
            etcd($endpoint, 'user a;', "password_file $name;"),
            "\"password_file\" \"$name\" $fault in AT", 4);
}

passes('a password_file of root, for a group',
       etcd($endpoint, 'user a;', 'password_file root.password;')) if $> == 0;

refused('password_file twice',
        etcd($endpoint, 'user a;', $file, $file),
        '"password_file" directive is duplicate in AT', 5);
refused('an empty password_file', etcd($endpoint, 'password_file "";'),
        '"password_file" directive is empty in AT', 3);
refused("an empty $_", etcd($endpoint, "$_ \"\";"),
        "\"$_\" directive is empty in AT", 3) for qw(user write_check);
refused('a user without password_file', etcd($endpoint, 'user a;'),
        'etcd cluster "default" has "user" and no "password_file" in AT', 4);
refused('password_file without a user', etcd($endpoint, $file),
        'etcd cluster "default" has "password_file" and no "user" in AT', 4);

# etcd_members

my $formats = 'auto, plain, key, json, grpc, kitex, kratos, go-micro, dubbo, '
              . 'dubbo-app, rpcx, milvus, skydns, apisix, traefik, upsync, '
              . 'dolphinscheduler';

for (
    ['', 'invalid number of arguments in "etcd_members" directive'],
    ['""', '"etcd_members" directive has an empty prefix'],
    ['/a/ speed=1', 'invalid parameter "speed=1"'],
    ['/a/ down', 'invalid parameter "down"'],
    ['/a/ cluster=', 'invalid parameter "cluster=": invalid value'],
    ['/a/ cluster=default cluster=default',
     'invalid parameter "cluster=default": it is duplicate'],
    ['/a/ on_empty=drop on_empty=drop',
     'invalid parameter "on_empty=drop": it is duplicate'],
    ['/a/ close_after=1m close_after=2m',
     'invalid parameter "close_after=2m": it is duplicate'],
    ['/a/ format=plain format=json',
     'invalid parameter "format=json": it is duplicate'],
    ['/a/ weight=1 weight=2', 'invalid parameter "weight=2": it is duplicate'],
    ['/a/ slow_start=1s slow_start=2s',
     'invalid parameter "slow_start=2s": it is duplicate'],
    ['/a/ max_fails=1 max_fails=2',
     'invalid parameter "max_fails=2": it is duplicate'],
    ['/a/ lease=any lease=required',
     'invalid parameter "lease=required": it is duplicate'],
    ['/a/ on_empty=maybe',
     'invalid parameter "on_empty=maybe": invalid value'],
    ['/a/ weight=0', 'invalid parameter "weight=0": invalid value'],
    ['/a/ weight=-1', 'invalid parameter "weight=-1": invalid value'],
    ['/a/ weight=65536', 'invalid parameter "weight=65536": invalid value'],
    ['/a/ max_fails=x', 'invalid parameter "max_fails=x": invalid value'],
    ['/a/ max_conns=', 'invalid parameter "max_conns=": invalid value'],
    ['/a/ fail_timeout=soon',
     'invalid parameter "fail_timeout=soon": invalid value'],
    ['/a/ slow_start=soon',
     'invalid parameter "slow_start=soon": invalid value'],
    ['/a/ format=xml', "unknown format \"xml\", there are: $formats"],
    ['/a/ format=json weight=/w', '"etcd_members" directive has pointers, but '
     . 'none to an address: "address=", "url=", or "host=" and "port="'],
    ['/a/ format=json host=/h', '"etcd_members" directive has pointers, but '
     . 'none to an address: "address=", "url=", or "host=" and "port="'],
    ['/a/ address=/a', 'invalid parameter "address=/a": only "format=json" '
     . 'takes pointers'],
    ['/a/ format=kratos weight=/w', 'invalid parameter "weight=/w": only '
     . '"format=json" takes pointers'],
    ['/a/ format=json address=/a address=/b',
     'invalid parameter "address=/b": it is duplicate'],
    ['/a/ format=json address=a', 'invalid parameter "address=a"'],
    ['/a/ format=json address=!/a', 'invalid parameter "address=!/a": "!" is '
     . 'for flags'],
    ['/a/ format=json weight=!/a', 'invalid parameter "weight=!/a": "!" is '
     . 'for flags'],
    ['/a/ format=json address=/a~2', 'invalid parameter "address=/a~2": has a '
     . '"~" that is not "~0" or "~1"'],
    ['/a/ format=json address=/a~', 'invalid parameter "address=/a~": has a '
     . '"~" that is not "~0" or "~1"'],
    ['/a/ format=json weigth=/a', 'invalid parameter "weigth=/a"'],
    ['/a/ format=json address=/' . 'a' x 255,
     'invalid parameter "address=/' . 'a' x 255 . '": is longer than 255 '
     . 'bytes'],
    ['/a/ format=json ' . join(' ', map { "drain=/$_" } 1 .. 33),
     'invalid parameter "drain=/33": too many pointers'],
    ['/a/ scheme=http',
     '"etcd_members" directive has "scheme=", but the format has no schemes'],
    ['/a/ format=json address=/a scheme=http',
     '"etcd_members" directive has "scheme=", but the format has no schemes'],
    ['/a/ format=kratos scheme=', 'invalid parameter "scheme=": invalid value'],
    ['/a/ format=kratos scheme=http scheme=grpc',
     'invalid parameter "scheme=grpc": it is duplicate'],
    ['/a/ port=0',
     'invalid parameter "port=0": it is not a port from 1 to 65535'],
    ['/a/ format=skydns port=65536',
     'invalid parameter "port=65536": it is not a port from 1 to 65535'],
    ['/a/ port=1 port=2', 'invalid parameter "port=2": it is duplicate'],
    ['/a/ format=skydns port=/p', 'invalid parameter "port=/p": only '
     . '"format=json" takes pointers'],
    ['/a/ format=plain tag=a:b',
     '"etcd_members" directive has "tag=", but the format has no tags'],
    ['/a/ format=json address=/a tag=a:b',
     '"etcd_members" directive has "tag=", but the format has no tags'],
    (map { ["/a/ tag=$_", "invalid parameter \"tag=$_\": it is not "
                          . '"tag=NAME", "tag=NAME:VALUE" or one with "!"'] }
         '', '!', ':b', '!:b'),
    ['/a/ format=', "unknown format \"\", there are: $formats"],
)
{
    my ($arguments, $message) = @$_;

    refused("etcd_members $arguments", upstream("etcd_members $arguments;"),
            "$message in AT", 6);
}

refused('etcd_members twice', upstream($members, $members),
        '"etcd_members" directive is duplicate in AT', 7);
refused('etcd_members in main', $members,
        '"etcd_members" directive is not allowed here in AT', 1);
refused('etcd_members in http', "http {\n$members\n}\n",
        '"etcd_members" directive is not allowed here in AT', 2);
refused('etcd_members in server', "http {\nserver {\n$members\n}\n}\n",
        '"etcd_members" directive is not allowed here in AT', 3);
refused('etcd_members in location', location($members),
        '"etcd_members" directive is not allowed here in AT', 7);
refused('an unknown cluster', upstream('etcd_members /a/ cluster=nope;'),
        'unknown etcd cluster "nope" in AT: there is no such "etcd" block', 6);
refused('no cluster at all', $http,
        'unknown etcd cluster "default" in AT: there is no such "etcd" block',
        3);

# other methods

my $has_least_time = Nginx::accepts(
    'http { upstream u { least_time header; server 127.0.0.1; } }'
);

for my $method ('least_conn', 'ip_hash', 'random', 'random two least_conn',
                'hash $uri', 'hash $uri consistent',
                $has_least_time ? 'least_time header' : ())
{
    my ($name) = $method =~ /^(\w+)/;

    refused("$method after", upstream($members, "$method;"),
            '"etcd_members" in AT is replaced by another balancing method in '
            . 'upstream "api": use "etcd_balance"', 6);
    refused("$method before", upstream("$method;", $members),
            '"etcd_members" directive must be before "keepalive" and '
            . '"sticky", and cannot be used with another balancing method: '
            . 'use "etcd_balance" in AT', 7);
}

# "sticky" is allowed after etcd_members, but no method after it.

if (Nginx::has_sticky()) {
    for my $line ($members, 'etcd_leader /db/leader;') {
        passes("sticky after $line", upstream($line, 'sticky cookie s;'));
        refused('sticky before', upstream('sticky cookie s;', $line),
                '"' . $line =~ s/ .*//sr . '" directive must be before '
                . '"keepalive" and "sticky", and cannot be used with another '
                . 'balancing method: use "etcd_balance" in AT', 7);
        refused('least_conn after sticky',
                upstream($line, 'sticky cookie s;', 'least_conn;'),
                '"' . $line =~ s/ .*//sr . '" in AT is replaced by another '
                . 'balancing method in upstream "api": use "etcd_balance"', 6);
    }
}

# Since 1.29.7 the order does not matter, and modules cannot see it.

if (!Nginx::keeps_by_default()) {
    refused('keepalive before', upstream('keepalive 4;', $members),
            '"etcd_members" directive must be before "keepalive" and '
            . '"sticky", and cannot be used with another balancing method: '
            . 'use "etcd_balance" in AT', 7);

} else {
    passes('keepalive before', upstream('keepalive 4;', $members));
}

# etcd_leader

my $leader = 'etcd_leader /db/leader';

for (
    ['/db'],
    ['/db/'],
    ['/db on_change=close max_stale=1s max_conns=10'],
    ['/db max_fails=1 fail_timeout=1s max_stale=off'],
    ['/db format=election value_format=json'],
    ['/db format=key'],
    ['/db/leader format=key members=/db/members/'],
    ['/db/leader members=/db/ format=key'],
    ['/db format=patroni'],
    ['/db role=replica max_lag=1m on_change=keep format=patroni'],
    ['/db role=any replication_state=streaming format=patroni'],
    ['/db/leader members=/db/members/'],
    ['/db/leader members=/db/members/ name=/id'],
    ['/db/leader address=/addr value_format=json'],
    ['/db format=patroni failsafe=on max_stale=2s confirm=api'],
    ['/db format=patroni role=standby_leader tag=a:b tag=c:d url=proxy_url'],
    ['/db format=patroni role=sync api_verify=off'],
    ['/vt/elections/main format=vitess value_format=plain members=/vt/hosts/'],
) {
    passes("etcd_leader $_->[0]", upstream("etcd_leader $_->[0];"));
}

for (
    ['unknown=1', ''],
    ['on_empty=keep', ''],
    ['weight=2', ''],
    ['slow_start=1s', ''],
    ['on_change=', ': invalid value'],
    ['on_change=drop', ': invalid value'],
    ['max_stale=0', ': invalid value'],
    ['max_stale=999ms', ': invalid value'],
    ['max_stale=long', ': invalid value'],
    ['max_fails=-1', ': invalid value'],
    ['name=id', ': invalid value'],
    ['address=/addr', ': only "format=json" takes pointers'],
    ['value_format=json tag=a:b', ': it is for another format'],
    ['value_format=json scheme=http', ''],
    ['role=leader', ': it is for another format'],
    ['max_lag=1', ': it is for another format'],
    ['format=key role=any', ': it is for another format'],
    ['format=key members=', ': invalid value'],
    ['format=patroni role=primary', ': invalid value'],
    ['failsafe=on', ': it is for another format'],
    ['format=patroni failsafe=yes', ': invalid value'],
    ['format=patroni tag=!',
     ': it is not "tag=NAME", "tag=NAME:VALUE" or one with "!"'],
    ['format=patroni url=api_url', ': invalid value'],
    ['format=patroni api_trusted_certificate=', ': invalid value'],
    ['format=patroni max_lag=much', ': invalid value'],
    ['format=patroni value_format=json', ': it is for another format'],
    ['format=vitess role=leader', ': it is for another format'],
) {
    my ($parameters, $what) = @$_;
    my ($last) = $parameters =~ /(\S+)$/;

    refused("etcd_leader $parameters", upstream("$leader $parameters;"),
            "invalid parameter \"$last\"$what in AT", 6);
}

for (
    ['failsafe=on max_stale=off',
     '"failsafe=on" cannot be used together with "max_stale=off"'],
    ['failsafe=on role=replica', '"failsafe=on" requires "role=leader"'],
    ['api_verify=on', '"etcd_leader" has no "api_trusted_certificate=" to '
                      . 'verify APIs by'],
    ['api_verify=off api_certificate=/dev/null',
     '"api_certificate=" and "api_certificate_key=" must be used together'],
) {
    refused("etcd_leader $_->[0]", upstream("$leader format=patroni $_->[0];"),
            "$_->[1] in AT", 6);
}

refused('etcd_leader of an unknown format', upstream("$leader format=raft;"),
        'unknown format "raft" of a leader, there are: election, key, patroni, '
        . 'vitess in AT', 6);
refused('etcd_leader twice the same',
        upstream("$leader on_change=keep on_change=keep;"),
        'invalid parameter "on_change=keep": it is duplicate in AT', 6);
refused('etcd_leader without a prefix', upstream('etcd_leader "";'),
        '"etcd_leader" directive has an empty prefix in AT', 6);
refused('etcd_leader twice', upstream("$leader;", "$leader;"),
        '"etcd_leader" directive is duplicate: an upstream has one leader '
        . 'in AT', 7);
refused('etcd_leader beside etcd_members', upstream($members, "$leader;"),
        '"etcd_leader" directive cannot be used together with "etcd_members" '
        . 'in AT', 7);
refused('etcd_members beside etcd_leader', upstream("$leader;", $members),
        '"etcd_members" directive cannot be used together with "etcd_leader" '
        . 'in AT', 7);
refused('etcd_leader beside a server',
        upstream("$leader;", 'server 127.0.0.1:1 backup;'),
        '"etcd_leader" in AT cannot be used together with server '
        . '"127.0.0.1:1" in upstream "api"', 6);
refused('etcd_leader replaced', upstream("$leader;", 'ip_hash;'),
        '"etcd_leader" in AT is replaced by another balancing method in '
        . 'upstream "api": use "etcd_balance"', 6);
for (['key', '/db/leader'], ['vitess', '/db/leader/locks/']) {
    refused("members elsewhere: $_->[0]",
            upstream("$leader format=$_->[0] members=/hosts/;"),
            "\"$_->[1]\" and \"members=/hosts/\" must be below a common "
            . 'directory in AT', 6);
}

# prefixes with variables

# close_after

for ('/services/api/ close_after=10m', '/services/$host/ close_after=500ms') {
    passes("etcd_members $_", upstream("etcd_members $_;"));
}

for (qw(close_after=0 close_after=-1s close_after=soon close_after=)) {
    refused("etcd_members $_", upstream("etcd_members /services/api/ $_;"),
            "invalid parameter \"$_\": invalid value in AT", 6);
}

refused('close_after of a leader', upstream('etcd_leader /db close_after=1m;'),
        'invalid parameter "close_after=1m" in AT', 6);

for my $directive ('etcd_members', 'etcd_leader') {
    my $namespaced = sub {
        return upstream("$directive $_[0];")
            =~ s/^etcd \{$/etcd {\n    namespace spaced;/mr;
    };

    for (
        ['/services/$host/'],
        ['/services/$host'],
        ['/services/${host}/v/$request_method/ limit=1 idle=1s'],
    ) {
        passes("$directive $_->[0]", upstream("$directive $_->[0];"));
    }

    passes("$directive: a variable in a namespace", $namespaced->('$host/'));

    for ('$host/', '/$host/', '$host') {
        my $shown = ($directive eq 'etcd_leader') ? s/[^\/]\K$/\//r : $_;

        refused("$directive $_", upstream("$directive $_;"),
                "\"$directive\" in AT: prefix \"$shown\" needs a literal part "
                . 'before its first variable, or a "namespace" in "etcd"', 6);
    }

    for (
        ['/services/x$host/', 'a segment mixes text and a variable'],
        ['/services/$host-x/', 'a segment mixes text and a variable'],
        ['/services/${host}x/', 'a segment mixes text and a variable'],
        ['/services/${host/', 'a variable has no closing bracket'],
        ['/services/$/', 'a variable has no name'],
        ['/services/$host//', 'it has "//" after a variable'],
        ['/services' . '/$host' x 9, 'it has more than 8 variables'],
    ) {
        my ($prefix, $what) = @$_;

        refused("$directive $prefix", upstream("$directive \"$prefix\";"),
                "invalid prefix \"$prefix\": $what in AT", 6);
    }

    for (qw(limit=0 limit=-1 limit=many limit=1000001 idle=0 idle=long)) {
        refused("$directive $_", upstream("$directive /services/\$host/ $_;"),
                "invalid parameter \"$_\": invalid value in AT", 6);
    }

    for (qw(limit=1 idle=1s)) {
        refused("$directive $_ with a fixed prefix",
                upstream("$directive /services/api/ $_;"),
                "invalid parameter \"$_\": the prefix has no variable in AT",
                6);
    }

    refused("$directive: an unknown variable",
            upstream("$directive /services/\$nothing/;",
                     'etcd_balance random;'),
            "unknown \"nothing\" variable in the prefix of \"$directive\" in "
            . 'AT', 6);
    refused("stream: $directive: an unknown variable",
            stream("$directive /services/\$remote_addr/\$nothing/;"),
            "unknown \"nothing\" variable in the prefix of \"$directive\" in "
            . 'AT', 6);
}

for (
    ['/db/$host/leader format=key members=/db/$host/members/'],
    ['/db/$host/leader format=key members=/db/$host/'],
    ['/db/$host/owner members=/db/$host/capture/ name=/id'],
    ['/db/$host format=patroni role=replica limit=10'],
    ['/vt/$host format=vitess members=/vt/$host/hosts/'],
) {
    passes("etcd_leader $_->[0]", upstream("etcd_leader $_->[0];"));
}

refused('members= of all services',
        upstream('etcd_leader /db/$host/leader format=key members=/db/hosts/;'),
        '"/db/$host/leader" and "members=/db/hosts/" must be below a common '
        . 'directory that has all variables in AT', 6);

# Names that nginx itself would resolve are refused: they were never resolved.

if (Nginx::has_resolve()) {
    refused('a server with resolve',
            upstream('zone api 64k;', 'resolver 127.0.0.1:1;',
                     'server api.test:1 resolve;', $members),
            '"etcd_members" in AT does not support "resolve" of server '
            . '"api.test:1" in upstream "api"', 9);
}

# stream, which has the same directives

SKIP: {
    skip 'this nginx has no stream', 1 if !Nginx::has('stream');

    my $has_least_time = Nginx::accepts(
        'stream { upstream u { least_time connect; server 127.0.0.1:1; } }'
    );

    for my $method ('least_conn', 'random', 'hash $remote_addr',
                    $has_least_time ? 'least_time connect' : ())
    {
        my ($name) = $method =~ /^(\w+)/;

        refused("stream: $method after", stream($members, "$method;"),
                '"etcd_members" in AT is replaced by another balancing method '
                . 'in upstream "api": use "etcd_balance"', 6);
        refused("stream: $method before", stream("$method;", $members),
                '"etcd_members" directive cannot be used with another '
                . 'balancing method: use "etcd_balance" in AT', 7);
    }

    passes('stream: all of it',
           stream('zone api 64k;', 'server 127.0.0.1:1 backup;', $members,
                  'etcd_balance least_conn;', 'etcd_allow 10.0.0.0/8;'));
    refused('stream: etcd_balance alone',
            stream('server 127.0.0.1:1;', 'etcd_balance random;'),
            '"etcd_balance" in AT is without "etcd_members" or "etcd_leader" '
            . 'in its upstream', 7);
    passes('stream: etcd_leader', stream("$leader on_change=close;"));
    refused('stream: etcd_leader beside a server',
            stream("$leader;", 'server 127.0.0.1:1;'),
            '"etcd_leader" in AT cannot be used together with server '
            . '"127.0.0.1:1" in upstream "api"', 6);
    refused('stream: etcd_members twice', stream($members, $members),
            '"etcd_members" directive is duplicate in AT', 7);
    refused('stream: etcd_eject with a status',
        stream($members, 'etcd_eject errors=50% status=500;'),
        'invalid parameter "status=500": there is no status in stream in AT',
        7);
refused('stream: etcd_allow twice',
            stream($members, 'etcd_allow ::/0;', 'etcd_allow ::/0;'),
            '"etcd_allow" directive is duplicate in AT', 8);
    refused('stream: etcd_status', stream_server('etcd_status;'),
            '"etcd_status" directive is not allowed here in AT', 9);

    waits('stream: ', 'stream', \&stream_server, 9);

    refused('stream: an upstream of http', stream_server('etcd_wait web 1s;')
            . "\nhttp { upstream web { $members } }",
            '"etcd_wait" in AT: there is no stream upstream "web" with '
            . '"etcd_members" or "etcd_leader"', 9);
}

waits('', 'http', \&waiting_location, 9);


# etcd_wait, in a block whose first line is the given one

sub waits {
    my ($name, $module, $block, $line) = @_;

    passes("${name}etcd_wait", $block->('etcd_wait api 1s queue=1;'));
    passes("${name}etcd_wait full", $block->('etcd_wait api 1s full;'));
    passes("${name}etcd_wait with all",
           $block->('etcd_wait api 1s full queue=1 min=2;'));
    passes("${name}etcd_wait off", $block->('etcd_wait off;'));
    passes("${name}etcd_wait in capitals", $block->('etcd_wait API 500ms;'));

    my %wrong = (
        'etcd_wait api;' =>
            '"etcd_wait" directive needs an upstream and a time, or "off"',
        'etcd_wait;' =>
            'invalid number of arguments in "etcd_wait" directive',
        'etcd_wait api 1s queue=1 full min=2 2;' =>
            'invalid number of arguments in "etcd_wait" directive',
        'etcd_wait api 1s queue=1 2;'  => 'invalid parameter "2"',
        'etcd_wait api 1s full=1;'     => 'invalid parameter "full=1"',
        'etcd_wait api soon;'          => 'invalid time "soon"',
        'etcd_wait api 0;'             => 'invalid time "0"',
        'etcd_wait api -1s;'           => 'invalid time "-1s"',
        'etcd_wait api 1s queue=1 queue=2;'
            => 'invalid parameter "queue=2": it is duplicate',
        'etcd_wait api 1s full full;'
            => 'invalid parameter "full": it is duplicate',
        (map { ("etcd_wait api 1s $_;"
                => "invalid parameter \"$_\": invalid value") }
             map({ "queue=$_" } 0, -1, 'many', '', '9223372036854775808'),
             'min=0', 'min=-1', 'min='),
        'etcd_wait api 1s tail=5;'     => 'invalid parameter "tail=5"',
    );

    for my $directive (sort keys %wrong) {
        refused($name . $directive, $block->($directive),
                "$wrong{$directive} in AT", $line);
    }

    refused("${name}etcd_wait twice",
            $block->('etcd_wait api 1s;', 'etcd_wait off;'),
            '"etcd_wait" directive is duplicate in AT', $line + 1);
    refused("${name}etcd_wait for a variable",
            $block->('etcd_wait $picked 1s;'),
            'variables are not supported in "$picked" in AT', $line);

    for my $upstream ('static', 'nowhere', '') {
        refused("${name}etcd_wait for \"$upstream\"",
                $block->("etcd_wait \"$upstream\" 1s;"),
                "\"etcd_wait\" in AT: there is no $module upstream "
                . "\"$upstream\" with \"etcd_members\" or "
                . '"etcd_leader"', $line);
    }
}


# etcd_balance, etcd_allow, etcd_status

refused('etcd_balance of no method', upstream($members, 'etcd_balance magic;'),
        'unknown balancing method "magic", there are: round_robin, '
        . 'least_conn, random, hash, ewma in AT', 7);
refused('etcd_balance hash', upstream($members, 'etcd_balance hash;'),
        'balancing method "hash" needs a key in AT', 7);
refused('etcd_balance hash of nothing',
        upstream($members, 'etcd_balance hash $nothing;'),
        'unknown "nothing" variable', 0);
refused("etcd_balance $_->[0]", upstream($members, "etcd_balance $_->[0];"),
        "invalid parameter \"$_->[1]\" in AT", 7)
    for ['random two', 'two'], ['round_robin consistent', 'consistent'],
        ['hash $uri ketama', 'ketama'], ['ewma 1 2', '1'];
refused('etcd_balance twice', upstream($members, 'etcd_balance random;',
                                       'etcd_balance random;'),
        '"etcd_balance" directive is duplicate in AT', 8);
refused('etcd_balance alone',
        upstream('server 127.0.0.1:1;', 'etcd_balance random;'),
        '"etcd_balance" in AT is without "etcd_members" or "etcd_leader" '
        . 'in its upstream', 7);
refused('etcd_allow alone',
        upstream('server 127.0.0.1:1;', 'etcd_allow 10.0.0.0/8;'),
        '"etcd_allow" in AT is without "etcd_members" or "etcd_leader" '
        . 'in its upstream', 7);
refused('etcd_balance outside', location('etcd_balance random;'),
        '"etcd_balance" directive is not allowed here in AT', 7);
refused('etcd_allow of no network', upstream($members, 'etcd_allow home;'),
        'invalid network "home" in AT', 7);
refused('etcd_allow twice', upstream($members, 'etcd_allow 10.0.0.0/8;',
                                     'etcd_allow ::/0;'),
        '"etcd_allow" directive is duplicate in AT', 8);
refused('etcd_status xml', location('etcd_status xml;'),
        'invalid status format "xml", there are: json, html, prometheus in AT',
        7);
refused('etcd_status twice', location('etcd_status;', 'etcd_status;'),
        '"etcd_status" directive is duplicate in AT', 8);
refused('etcd_status in server', "http {\nserver {\netcd_status;\n}\n}\n",
        '"etcd_status" directive is not allowed here in AT', 3);

# nginx finds out when the static servers do not fit into the zone.

my @upstreams = map {
    "    upstream u$_ {\n        etcd_members /$_/;\n"
    . join('', map { "        server 127.1.0.$_:80;\n" } 1 .. 100) . "    }\n"
} 1 .. 40;

refused('a zone too small for its upstreams',
        "etcd {\n    $endpoint\n    zone 256k;\n}\nhttp {\n@upstreams}\n",
        'etcd cluster "default" in AT: its "zone" of 262144 bytes is too '
        . 'small for 40 upstreams, 0 elections and registrations, 0 locks, '
        . 'and 0 variables', 1);

# configurations that pass

passes('an empty configuration', '');
passes('the modules unused', "http {\n}\n");
passes('the smallest one', etcd('endpoints 127.0.0.1;'));
passes('http after etcd', etcd($endpoint));
passes('etcd after http', "$http\netcd {\n$endpoint\n}\n");
passes('an etcd block that nobody uses', "etcd x {\n$endpoint\n}\n");
passes("password_file $_", etcd($endpoint, 'user nginx;',
                                "password_file $_.password;"))
    for qw(good bare crlf lines most);
passes('all of the block', etcd(
    'endpoints http://127.0.0.1:2379 127.0.0.2:2379 http://[::1]:2379/ '
    . 'HTTP://127.0.0.3 https://etcd-1.example.com;', 'ssl_verify off;',
    'resolver 127.0.0.1:5353 [::1] valid=10s ipv6=off;',
    'resolver_timeout 2s;', 'rebalance 0;', 'auto_sync 1m;',
    'namespace /team;', 'user nginx;', $file, 'connect_timeout 500ms;',
    'request_timeout 1m;',
    'ping_interval 5s;', 'ping_timeout 1s;', 'max_message_size 4m;',
    'audit_interval 0;',
    'zone 256k;', 'write_check /locks/a/x;', 'write_check /locks/b/x;',
));
passes('all of etcd_members', upstream(
    'etcd_members services cluster=default format=json on_empty=keep weight=2 '
    . 'max_fails=0 fail_timeout=1m max_conns=9 slow_start=30s port=8080;',
));
passes("format=$_", upstream("etcd_members /a/ format=$_;"))
    for split(/, /, $formats);
passes("etcd_balance $_", upstream("etcd_balance $_;", $members))
    for qw(round_robin least_conn random ewma), 'hash $uri',
        'hash $uri$is_args$args consistent';
passes('all of an upstream', upstream(
    'zone api 64k;', 'server 127.0.0.1:1 weight=2;', $members,
    'server 127.0.0.1:2 backup max_conns=1;', 'etcd_balance least_conn;',
    'etcd_allow 10.0.0.0/8 fd00::/8 127.0.0.1 unix:;', 'keepalive 8;',
    'keepalive_timeout 10s;',
));
passes("etcd_status $_", location("etcd_status $_;"))
    for '', qw(json prometheus html);
passes('two clusters', "etcd a {\n$endpoint\n}\netcd b {\n$endpoint\n}\n"
       . "http {\nupstream a {\netcd_members /x/ cluster=a;\n}\n"
       . "upstream b {\netcd_members /x/ cluster=b;\n}\n}\n");

finish();
