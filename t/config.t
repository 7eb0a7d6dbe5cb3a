#!/usr/bin/perl

# What nginx -t refuses, with which words and where, and what passes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Finish;
use Nginx;

my $http = <<'EOF';
http {
    upstream api {
        etcd_members /services/api/;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            proxy_pass http://api;
        }
    }
}
EOF


# an etcd block, its lines given, with a http block that uses it

sub etcd {
    my (@lines) = @_;

    return join("\n", 'etcd {', (map { "    $_" } @lines), '}', $http);
}


# an upstream block, its lines given: the first one is line 6

sub upstream {
    my (@lines) = @_;

    return join("\n", 'etcd {', '    endpoints http://127.0.0.1:2379;', '}',
                'http {', '    upstream api {',
                (map { "        $_" } @lines), '    }', '}');
}


# a location, its lines given: the first one is line 7

sub location {
    my (@lines) = @_;

    return join("\n", 'etcd {', '    endpoints 127.0.0.1:2379;', '}',
                'http {', '    server {', '        location /etcd {',
                (map { "            $_" } @lines),
                '        }', '    }', '}');
}


sub passes {
    my ($name, $text) = @_;

    my $nginx = Nginx->new();

    write_passwords($nginx);

    my ($ok, $output) = $nginx->configtest($text);

    ok($ok, $name) or diag($output);
    unlike($output, qr/\[(?:warn|emerg|alert)\]/, "$name: without a word");
}


# what "password_file" may find

sub write_passwords {
    my ($nginx) = @_;

    my %text = (
        good   => "secret\n",
        bare   => 'secret',
        crlf   => "secret\r\n",
        lines  => "secret\nsecond\n",
        most   => 'x' x 1024 . "\n",
        none   => '',
        empty  => "\nsecret\n",
        long   => 'x' x 1025 . "\n",
        longer => 'x' x 5000,
        zero   => "sec\0ret\n",
    );

    $nginx->write_secret("$_.password", $text{$_}) for keys %text;

    for my $mode (qw(0604 0640 0644)) {
        my $path = $nginx->write_secret("$mode.password", "secret\n");

        chmod(oct($mode), $path) or die "chmod $path: $!\n";
    }
}


# exactly one message, with these words, that ends with file and line

sub refused {
    my ($name, $text, $message, $line) = @_;

    my $nginx = Nginx->new();

    write_passwords($nginx);

    my ($ok, $output) = $nginx->configtest($text);
    my $dir = $nginx->dir;
    my @messages = grep { /\[emerg\]/ } split(/\n/, $output);

    ok(!$ok, "$name: refused");
    is(join("\n", map { s/.*\[emerg\] (?:\d+#\d+: )?//r =~ s{\Q$dir/}{}gr }
                  @messages),
       $message =~ s/AT/nginx.conf:$line/r, "$name: says why and where");
}


# endpoints

my $endpoint = 'endpoints http://127.0.0.1:2379;';

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
    ['unix:/run/etcd.sock', 'it is not "http://ADDRESS:PORT"'],
    ['etcd.example.com:2379', 'a host name is not supported by this version, '
                              . 'only IP addresses'],
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
    ['user a;', 'user b;'],
    ['connect_timeout 1s;', 'connect_timeout 1s;'],
    ['request_timeout 1s;', 'request_timeout 1s;'],
    ['ping_interval 10s;', 'ping_interval 10s;'],
    ['ping_timeout 1s;', 'ping_timeout 1s;'],
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
                 max_message_size zone))
{
    refused("$name soon", etcd($endpoint, "$name soon;"),
            "\"$name\" directive invalid value in AT", 3);
}

for my $name (qw(connect_timeout request_timeout ping_timeout
                 max_message_size))
{
    refused("$name 0", etcd($endpoint, "$name 0;"),
            "\"$name\" directive must not be 0 in AT", 3);
}

refused('ping_interval 4s', etcd($endpoint, 'ping_interval 4s;'),
        '"ping_interval" directive must be at least 5s: etcd closes the '
        . 'connections of clients that ping more often in AT', 3);
refused('zone 4k', etcd($endpoint, 'zone 4k;'),
        'etcd zone "4k" is too small, at least 256k are needed in AT', 3);
refused('state_path ""', etcd($endpoint, 'state_path "";'),
        '"state_path" directive is empty in AT', 3);
refused('state_path that is a file',
        etcd($endpoint, 'state_path %%DIR%%/nginx.conf;'),
        '"state_path" "nginx.conf" is no directory in AT', 4);
refused('state_path with a name that no file has',
        "etcd a/b {\n$endpoint\nstate_path %%DIR%%;\n}\n",
        'etcd cluster "a/b" has "state_path", so its name must be one of a '
        . 'file in AT', 4);
passes('state_path', etcd($endpoint, 'state_path %%DIR%%/state/;'));
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

for (
    ['missing', 'cannot be opened (2: No such file or directory)'],
    ['.', 'is not a regular file'],
    ['0604.password', 'is readable by group or others, only its owner may '
                      . 'read it'],
    ['0640.password', 'is readable by group or others, only its owner may '
                      . 'read it'],
    ['0644.password', 'is readable by group or others, only its owner may '
                      . 'read it'],
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

refused('password_file twice',
        etcd($endpoint, 'user a;', $file, $file),
        '"password_file" directive is duplicate in AT', 5);
refused('an empty password_file', etcd($endpoint, 'password_file "";'),
        '"password_file" directive is empty in AT', 3);
refused('an empty user', etcd($endpoint, 'user "";'),
        '"user" directive is empty in AT', 3);
refused('a user without password_file', etcd($endpoint, 'user a;'),
        'etcd cluster "default" has "user" and no "password_file" in AT', 4);
refused('password_file without a user', etcd($endpoint, $file),
        'etcd cluster "default" has "password_file" and no "user" in AT', 4);

# etcd_members

my $members = 'etcd_members /services/api/;';
my $formats = 'auto, plain, key, json, grpc, kitex, upsync';

for (
    ['', 'invalid number of arguments in "etcd_members" directive'],
    ['""', '"etcd_members" directive has an empty prefix'],
    ['/a/ speed=1', 'invalid parameter "speed=1"'],
    ['/a/ down', 'invalid parameter "down"'],
    ['/a/ cluster=', 'invalid parameter "cluster="'],
    ['/a/ cluster=default cluster=default',
     'duplicate parameter "cluster=default"'],
    ['/a/ on_empty=maybe', 'invalid parameter "on_empty=maybe"'],
    ['/a/ weight=0', 'invalid parameter "weight=0": invalid value'],
    ['/a/ weight=-1', 'invalid parameter "weight=-1": invalid value'],
    ['/a/ weight=65536', 'invalid parameter "weight=65536": invalid value'],
    ['/a/ max_fails=x', 'invalid parameter "max_fails=x": invalid value'],
    ['/a/ max_conns=', 'invalid parameter "max_conns=": invalid value'],
    ['/a/ fail_timeout=soon',
     'invalid parameter "fail_timeout=soon": invalid value'],
    ['/a/ slow_start=1s', 'invalid parameter "slow_start=1s"'],
    ['/a/ format=xml', "unknown format \"xml\", there are: $formats"],
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

for my $method ('least_conn', 'ip_hash', 'random', 'random two least_conn',
                'hash $uri', 'hash $uri consistent')
{
    my ($name) = $method =~ /^(\w+)/;

    refused("$method after", upstream($members, "$method;"),
            '"etcd_members" in AT is replaced by another balancing method in '
            . 'upstream "api": use "etcd_balance"', 6);
    refused("$method before", upstream("$method;", $members),
            '"etcd_members" directive must be before "keepalive", and cannot '
            . 'be used with another balancing method: use "etcd_balance" '
            . 'in AT', 7);
}

# since 1.29.7 the order does not matter, and nobody can see it

if (Nginx::version() < 1029007) {
    refused('keepalive before', upstream('keepalive 4;', $members),
            '"etcd_members" directive must be before "keepalive", and cannot '
            . 'be used with another balancing method: use "etcd_balance" '
            . 'in AT', 7);

} else {
    passes('keepalive before', upstream('keepalive 4;', $members));
}

# etcd_balance, etcd_allow, etcd_status

refused('etcd_balance of no method', upstream($members, 'etcd_balance magic;'),
        'unknown balancing method "magic", there are: round_robin, '
        . 'least_conn, random in AT', 7);
refused('etcd_balance twice', upstream($members, 'etcd_balance random;',
                                       'etcd_balance random;'),
        '"etcd_balance" directive is duplicate in AT', 8);
refused('etcd_balance alone',
        upstream('server 127.0.0.1:1;', 'etcd_balance random;'),
        'upstream "api" in AT has "etcd_balance" without "etcd_members"', 5);
refused('etcd_allow alone',
        upstream('server 127.0.0.1:1;', 'etcd_allow 10.0.0.0/8;'),
        'upstream "api" in AT has "etcd_allow" without "etcd_members"', 5);
refused('etcd_balance outside', location('etcd_balance random;'),
        '"etcd_balance" directive is not allowed here in AT', 7);
refused('etcd_allow of no network', upstream($members, 'etcd_allow home;'),
        'invalid network "home" in AT', 7);
refused('etcd_allow twice', upstream($members, 'etcd_allow 10.0.0.0/8;',
                                     'etcd_allow ::/0;'),
        '"etcd_allow" directive is duplicate in AT', 8);
refused('etcd_status xml', location('etcd_status xml;'),
        'invalid status format "xml", there is: json in AT', 7);
refused('etcd_status twice', location('etcd_status;', 'etcd_status;'),
        '"etcd_status" directive is duplicate in AT', 8);
refused('etcd_status in server', "http {\nserver {\netcd_status;\n}\n}\n",
        '"etcd_status" directive is not allowed here in AT', 3);

# that is seen when the static servers do not fit into the zone

my @upstreams = map {
    "    upstream u$_ {\n        etcd_members /$_/;\n"
    . join('', map { "        server 127.1.0.$_:80;\n" } 1 .. 100) . "    }\n"
} 1 .. 40;

refused('a zone too small for its upstreams',
        "etcd {\n    $endpoint\n    zone 256k;\n}\nhttp {\n@upstreams}\n",
        'etcd cluster "default" in AT: its "zone" of 262144 bytes is too '
        . 'small for 40 upstreams', 1);

# what passes

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
    . 'HTTP://127.0.0.3;',
    'namespace /team;', 'user nginx;', $file, 'connect_timeout 500ms;',
    'request_timeout 1m;',
    'ping_interval 5s;', 'ping_timeout 1s;', 'max_message_size 4m;',
    'zone 256k;',
));
passes('all of etcd_members', upstream(
    'etcd_members services cluster=default format=json on_empty=keep weight=2 '
    . 'max_fails=0 fail_timeout=1m max_conns=9;',
));
passes("format=$_", upstream("etcd_members /a/ format=$_;"))
    for split(/, /, $formats);
passes("etcd_balance $_", upstream("etcd_balance $_;", $members))
    for qw(round_robin least_conn random);
passes('all of an upstream', upstream(
    'zone api 64k;', 'server 127.0.0.1:1 weight=2;', $members,
    'server 127.0.0.1:2 backup max_conns=1;', 'etcd_balance least_conn;',
    'etcd_allow 10.0.0.0/8 fd00::/8 127.0.0.1 unix:;', 'keepalive 8;',
    'keepalive_timeout 10s;',
));
passes('etcd_status', location('etcd_status;'));
passes('etcd_status json', location('etcd_status json;'));
passes('two clusters', "etcd a {\n$endpoint\n}\netcd b {\n$endpoint\n}\n"
       . "http {\nupstream a {\netcd_members /x/ cluster=a;\n}\n"
       . "upstream b {\netcd_members /x/ cluster=b;\n}\n}\n");

finish();
