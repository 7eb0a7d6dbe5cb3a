#!/usr/bin/perl

# The decoder of keys and values for itself: attributes that no other test
# sees, limits, and random input.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Finish;
use Nginx;
use Process;

use constant {
    SEED   => 20260214,
    RANDOM => 3000,
};

my $build = Nginx::modules_dir();
my ($failed, $output) = run('make', '-s', '-C', "$FindBin::Bin/unit",
                            "BUILD=$build", 'OUT=' . test_dir());

is($output, '', 'the test module builds without a warning');
BAIL_OUT('no test module') if $failed;

my $words = 0;


# what the decoder makes of each [FORMAT, KEY, VALUE, PARAMETERS]

sub decode {
    my (@cases) = @_;

    my $nginx = Nginx->new(modules => ['etcd']);
    my $text = 'load_module ' . test_dir() . "/ngx_etcd_unit_module.so;\n";

    for (@cases) {
        my ($format, $key, $value, $parameters) = @$_;

        $text .= sprintf("etcd_decode %s \"%s\" \"%s\" %s;\n", $format,
                         word($nginx, $key), word($nginx, $value),
                         $parameters // '');
    }

    my ($ok, $output) = $nginx->configtest($text);

    ok($ok, @cases . ' cases') or diag($output);

    return map { /^decoded: (.*)$/ ? $1 : () } split(/\n/, $output);
}


# bytes as the directive takes them

sub word {
    my ($nginx, $bytes) = @_;

    length($bytes) < 1000 and return unpack('H*', $bytes);

    return '@' . $nginx->write_file('word' . ++$words, $bytes);
}


# an object with an address, and what is shown of it

my $at = '10.0.0.7:8080';

sub json { return "{\"address\":\"$at\"" . (@_ ? ",$_[0]" : '') . '}' }

my $integer = 'is not an integer from 0 to 2147483647';
my $time = 'is not a time like "10s" or an integer of seconds from 0 to '
           . '2147483';

# [VALUE, RESULT, PARAMETERS]: as json, after "10.0.0.7:8080 "

my @attributes = (
    ['', 'w1 f1 c0 t10 s0'],
    ['"weight":2,"max_fails":3,"fail_timeout":4,"max_conns":5,"slow_start":6',
     'w2 f3 c5 t4 s6000'],
    ['"max_fails":0,"fail_timeout":0', 'w1 f0 c0 t0 s0'],
    ['"max_fails":2147483647,"max_conns":2147483647',
     'w1 f2147483647 c2147483647 t10 s0'],
    ['"fail_timeout":"1m 30s","slow_start":"500ms"', 'w1 f1 c0 t90 s500'],
    ['"fail_timeout":2147483,"slow_start":2147483',
     'w1 f1 c0 t2147483 s2147483000'],
    ['"slow_start":"2147483s"', 'w1 f1 c0 t10 s2147483000'],
    ['"down":true,"backup":1', 'w1 f1 c0 t10 s0 down backup'],
    ['"weight":0,"drain":false', 'w1 f1 c0 t10 s0 drain'],
    ['"drain":0,"weight":0', 'w1 f1 c0 t10 s0 drain'],
    ['"down":false', 'w7 f2 c9 t60 s0',
     'weight=7 max_fails=2 fail_timeout=1m max_conns=9'],
    ['"weight":3,"max_fails":4,"fail_timeout":5,"max_conns":0',
     'w3 f4 c0 t5 s0', 'weight=7 max_fails=2 fail_timeout=1m max_conns=9'],
    ['"weight":0', 'w7 f1 c0 t10 s0 drain', 'weight=7'],
);

my @wrong = (
    ['"max_fails":-1', "max_fails -1 $integer"],
    ['"max_fails":2147483648', "max_fails 2147483648 $integer"],
    ['"max_conns":4294967297', "max_conns 4294967297 $integer"],
    ['"max_conns":"1"', "max_conns \"1\" $integer"],
    ['"max_conns":9223372036854775807',
     "max_conns 9223372036854775807 $integer"],
    ['"fail_timeout":-1', "fail_timeout -1 $time"],
    ['"fail_timeout":2147484', "fail_timeout 2147484 $time"],
    ['"fail_timeout":"500ms"', "fail_timeout \"500ms\" $time"],
    ['"fail_timeout":""', "fail_timeout \"\" $time"],
    ['"fail_timeout":1.5', "fail_timeout 1.5 $time"],
    ['"slow_start":"2147484s"', "slow_start \"2147484s\" $time"],
    ['"slow_start":"99999999999999999999y"',
     "slow_start \"99999999999999999999y\" $time"],
);

my @shown = decode(
    (map { ['json', '/k', json($_->[0] || ()), $_->[2]] } @attributes),
    (map { ['json', '/k', json($_->[0])] } @wrong),
);

is(shift @shown, "$at $_->[1]", 'json: ' . ($_->[0] || 'nothing'))
    for @attributes;
is(shift @shown, "invalid: $_->[1]", "json: $_->[0]") for @wrong;

# limits: [NAME, FORMAT, KEY, VALUE, RESULT, PARAMETERS]

my $rest = 'w1 f1 c0 t10 s0';
my $path = '/' . 'x' x 106;
my $x64 = 'x' x 64;

my @limits = (
    ['longest path', 'plain', '/k', "unix:$path", "unix:$path $rest"],
    ['a longer one', 'plain', '/k', "unix:${path}x",
     'invalid: address "unix:/' . 'x' x 58 . '..." has a path that is too long '
     . 'for a socket'],
    ['longest key', 'plain', 'k' x 4096, $at, "$at $rest"],
    ['a longer key', 'plain', 'k' x 4097, $at,
     'invalid: key "' . 'k' x 64 . '..." is longer than 4096 bytes'],
    ['longest value', 'json', '/k',
     json('"x":"' . 'x' x (65536 - length(json('"x":""'))) . '"'),
     "$at $rest"],
    ['a longer value', 'plain', '/k', 'x' x 65537,
     "invalid: value \"$x64...\" is longer than 65536 bytes"],
    ['any value', 'key', "/$at", 'x' x 70000, "$at $rest"],
    ['long segment', 'key', '/' . '%31' x 200, '',
     'invalid: last segment of the key "' . substr('%31' x 200, 0, 64)
     . '..." is too long to be an address'],
    ['escapes at the end', 'key', '/10.0.0.7%3', '',
     'invalid: last segment of the key "10.0.0.7%3" has an invalid '
     . 'percent-encoding'],
    ['empty key', 'plain', '', $at, "$at $rest"],
    ['empty key and value', 'auto', '', '',
     'invalid: last segment of the key "" is empty'],
    ['directory', 'json', '/k/', '', 'nothing'],
    ['allowed', 'plain', '/k', $at, "$at $rest", 'allow=10.0.0.0/8'],
    ['not allowed', 'plain', '/k', $at,
     "invalid: address \"$at\" is not allowed by etcd_allow",
     'allow=11.0.0.0/8'],
    ['mapped', 'plain', '/k', '[::ffff:10.0.0.1]:80',
     "[::ffff:10.0.0.1]:80 $rest", 'allow=10.0.0.0/8'],
);

@shown = decode(map { [@$_[1 .. 3], $_->[5]] } @limits);
is(shift @shown, $_->[4], "limits: $_->[0]") for @limits;

# random changes to valid input: a member, nothing, or a printable reason

my @formats = qw(auto plain key json grpc kitex upsync);
my @keys = ('/s/1', "/u/$at", '/u/%5B%3A%3A1%5D%3A80', '/u/', "/\xc3\xa9");
my @values = ($at, '[::1]:80', 'unix:/run/a.sock', json('"weight":2'), '',
              '{"host":"::1","port":"80","slow_start":"5s","max_conns":3}',
              '{"Op":0,"Addr":"10.0.0.7:1","Metadata":{"a":[1,2,{}]}}',
              '{"network":"unix","address":"/x.sock","tags":{}}',
              '{"weight":10,"max_fails":3,"fail_timeout":10,"down":0}');
my @tokens = ('"', '{', '}', '[', ']', ':', ',', '\\u0000', '\\ud800', '1e9',
              '-1', 'null', 'true', '9' x 20, '%', '%3A', '/', 'unix:', "\xff",
              "\xc0\x80", '::', '65536', '"weight":', '"port":', "\n", "\0");

srand(SEED);

sub one_of { return $_[int(rand(@_))] }


sub changed {
    my ($text) = @_;

    for (1 .. int(rand(4))) {
        my $at = int(rand(length($text) + 1));
        my $length = int(rand(8));

        $length = length($text) - $at if $at + $length > length($text);
        substr($text, $at, $length, one_of(@tokens, '', chr(int(rand(256)))));
    }

    return $text;
}


my @random = map {
    [one_of(@formats), changed(one_of(@keys)), changed(one_of(@values))]
} 1 .. RANDOM;

my %kinds;
my $printable = 0;

for (decode(@random)) {
    my $kind = /^nothing$/ ? 'nothing'
               : /^invalid: / ? 'invalid'
               : /^(?:[0-9.]+|\[[0-9a-f:.]+\]|unix:\S+):?\d* w\d+ f\d+ c\d+ /
                 ? 'member' : 'other';

    $kinds{$kind}++;
    $printable++ if /^[\x20-\x7e]{1,700}$/;
}

is($printable, RANDOM, 'random input: all results are printable');
is($kinds{other}, undef, 'and of one of three kinds')
    or diag(explain(\%kinds));
cmp_ok($kinds{$_} // 0, '>', 0, "some are: $_") for qw(member invalid nothing);

finish();
