#!/usr/bin/perl

# What nginx -t refuses of etcd_set, with which words and where.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

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
     ['$v /k default=1 cluster=default more',
      'invalid number of arguments in "etcd_set" directive'],
     ['v /k', 'invalid variable name "v"'],
     ['$ /k', 'invalid variable name "$"'],
     ['$a-b /k', 'invalid variable name "$a-b"'],
     ['$v ""', '"etcd_set" has an empty key'],
     ['$v /k speed=1', 'invalid parameter "speed=1"'],
     ['$v /k default=a default=b', 'duplicate parameter "default=b"'],
     ["\$v /k 'default=a\tb'",
      '"default=" of "$v" has a control byte'],
     ["\$v /k 'default=a\\rb'",
      '"default=" of "$v" has a control byte'],
     ['$v /k cluster=a cluster=b', 'duplicate parameter "cluster=b"'],
     ['$v /k cluster=', 'invalid parameter "cluster="'],
     ['$v /k cluster=none', 'unknown etcd cluster "none"'],
     ['$args /k', 'variable "$args" is already defined'],
     ['$uri /k', 'the duplicate "uri" variable'])
{
    my ($arguments, $message) = @$_;

    refused("etcd_set $arguments", $message, server("etcd_set $arguments;"),
            6);
}

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

finish();
