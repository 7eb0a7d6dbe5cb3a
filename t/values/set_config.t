#!/usr/bin/perl

# Parameters of etcd_set that nginx -t refuses, with message and line.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Nginx;


# a server, its lines given: the first one is line 6

sub server {
    my (@lines) = @_;

    return join("\n", 'etcd {', '    endpoints 127.0.0.1:2379;', '}', 'http {',
                '    server {', (map { "        $_" } @lines), '    }', '}',
                '');
}


sub refused {
    my ($what, $message, $text, $line) = @_;

    my ($ok, $output) = Nginx->new()->configtest($text);

    ok(!$ok, "$what: refused");
    like($output, qr/\[emerg\] .*\Q$message\E.*nginx\.conf:$line\b/,
         "$what: says why and where");
}


for (['', 'invalid number of arguments in "etcd_set" directive'],
     ['$v', 'invalid number of arguments in "etcd_set" directive'],
     ['$v /k default=1 cluster=default more', 'invalid parameter "more"'],
     ['v /k', 'invalid variable name "v"'],
     ['$ /k', 'invalid variable name "$"'],
     ['$a-b /k', 'invalid variable name "$a-b"'],
     ['$v ""', '"etcd_set" has an empty key'],
     ['$v /k speed=1', 'invalid parameter "speed=1"'],
     ['$v /k default=a default=b',
      'invalid parameter "default=b": it is duplicate'],
     ["\$v /k 'default=a\tb'",
      '"default=" of "$v" has a control byte'],
     ["\$v /k 'default=a\\rb'",
      '"default=" of "$v" has a control byte'],
     ['$v /k cluster=a cluster=b',
      'invalid parameter "cluster=b": it is duplicate'],
     ['$v /k cluster=', 'invalid parameter "cluster=": invalid value'],
     ['$v /k cluster=none', 'unknown etcd cluster "none"'],
     (map { ["\$v /k $_",
             "invalid parameter \"$_\": it needs a key with variables"] }
          qw(limit=5 max_size=5 type=pem)),
     ['$v /k split=', 'invalid parameter "split=": it is empty'],
     ['$v /$host', 'invalid key "/$host" of "etcd_set" in '],
     ['$v $host', 'invalid key "$host" of "etcd_set" in '],
     ['$v /k/$host/', 'invalid key "/k/$host/": it ends with a slash'],
     ['$v /k$host', '"/k$host": a segment mixes text and a variable'],
     ['$v /k/$host.b', 'a segment mixes text and a variable'],
     ['$v /k/$host//b', 'it has "//" after a variable'],
     ['$v /k/$', 'a variable has no name'],
     ['$v "/k/${host"', 'a variable has no closing bracket'],
     ['$v ' . '/k' x 1 . '/$host' x 9, 'it has more than 8 variables'],
     ['$v /k/$nosuch',
      'unknown "nosuch" variable in the key of "etcd_set" in '],
     (map { ["\$v /k/\$host limit=$_",
             "invalid parameter \"limit=$_\": it must be a number from 1 to "
             . '1000000'] } qw(0 x 1000001)),
     (map { ["\$v /k/\$host max_size=$_",
             "invalid parameter \"max_size=$_\": it must be a size from 1 to "
             . '64k'] } qw(0 65k)),
     ['$v /k/$host type=text',
      'invalid parameter "type=text": it must be "int", "size", "flag", '
      . 'or "pem"'],
     ['$v /k type=', 'invalid parameter "type=": it must be "int", "size", '],
     ['$v /k type=int type=int',
      'invalid parameter "type=int": it is duplicate'],
     (map { ["\$v /k $_",
             '"default=" of "$v" is not of "type=int": value is no integer'] }
          'type=int default=x', 'default=1k type=int', 'type=int default='),
     ['$v /k/$host type=size default=1g',
      '"default=" of "$v" is not of "type=size": value is no size'],
     ['$v /k type=flag default=no',
      '"default=" of "$v" is not of "type=flag": value is none of 0, 1, '],
     ["\$v /k type=int 'default=1\t'",
      '"default=" of "$v" has a control byte'],
     ['$v /k/$host type=flag split=$uri',
      '"split=" and "type=flag" of "$v" exclude each other'],
     ['$v /k/$host type=int max_key_bits=2048',
      'invalid parameter "max_key_bits=2048": it needs "type=pem" before it'],
     (map { ["\$v /k/\$host $_",
             '"default=" and "type=pem" of "$v" exclude each other'] }
          'type=pem default=a', 'default=a type=pem'),
     ['$v /k/$host type=pem split=$uri',
      '"split=" and "type=pem" of "$v" exclude each other'],
     ['$v /k/$host default_file=a',
      'invalid parameter "default_file=a": it needs "type=pem" before it'],
     ['$v /k/$host type=pem default_file=/nonexistent',
      'parameter "default_file=/nonexistent" cannot be opened'],
     ['$v /k/$host type=pem default_file=nginx.conf',
      'parameter "default_file=nginx.conf" is invalid'],
     ['$v /k/$host max_key_bits=2048',
      'invalid parameter "max_key_bits=2048": it needs "type=pem" before it'],
     (map { ["\$v /k/\$host type=pem max_key_bits=$_",
             "invalid parameter \"max_key_bits=$_\": it must be a number from "
             . '1024 to 16384'] } qw(1023 16385 x)),
     ['$args /k', 'variable "$args" is already defined'],
     ['$uri /k', 'the duplicate "uri" variable'])
{
    my ($arguments, $message) = @$_;

    refused("etcd_set $arguments", $message, server("etcd_set $arguments;"),
            6);
}

refused('stream', 'invalid parameter "type=pem": it is for http only',
        server('etcd_set $v /k/$server_port type=pem;') =~ s/http/stream/r, 6);

refused('twice', 'duplicate variable "$v"',
        server('etcd_set $v /k;', 'etcd_set $v /l;'), 7);

my $map = 'map $uri $v { default 1; }';

refused('after a map', 'variable "$v" is already defined',
        server('etcd_set $v /k;') =~ s/server \{/$map server {/r, 6);
refused('before a map', 'variable "$v" of "etcd_set" in ',
        server('etcd_set $v /k;') =~ s/\}\n$/$map\n}\n/r, 6);

my ($ok, $output) = Nginx->new()->configtest(
    server('etcd_set $v /k;', 'set $v 1;', 'etcd_set $w /k default=;'));

ok($ok, 'set may change it') or diag($output);

($ok, $output) = Nginx->new()->configtest(
    server('etcd_set $v /$host/${uri}/$arg_a;', 'etcd_set $w $HOST;')
    =~ s/endpoints/namespace \/n\/; endpoints/r);

ok($ok, 'a namespace: the literal part may be empty') or diag($output);

finish();
