#!/usr/bin/perl

# The decoder of keys and values alone: attributes that no other test sees,
# limits, and random input; the word that owners of an election slot write; and
# seqlocks.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Corpus;
use Finish;
use Nginx;
use Unit;

use constant {
    SEED   => 20260214,
    RANDOM => 6000,
};

my $module = build_unit('ngx_etcd_unit_module');
my $words = 0;


# the decoder's results for [FORMAT, KEY, VALUE, PARAMETERS]

sub decode {
    my (@cases) = @_;

    my $nginx = Nginx->new(modules => ['etcd']);
    my $text = "load_module $module;\n";

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


# an object with an address, and the rest of its result

my $at = '10.0.0.7:8080';

sub json { return "{\"address\":\"$at\"" . (@_ ? ",$_[0]" : '') . '}' }

my $rest = 'w1 f1 c0 t10 s0';
my $r100 = 'w100 f1 c0 t10 s0';
my $count = 'is not an integer from 0 on; its default is used';
my $time = 'is not a time like "10s" or a number of seconds; its default is '
           . 'used';

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
    ['"max_fails":-1', "$rest (max_fails -1 $count)"],
    ['"max_fails":2147483648', 'w1 f2147483647 c0 t10 s0'],
    ['"max_conns":4294967297', 'w1 f1 c2147483647 t10 s0'],
    ['"max_conns":"1"', 'w1 f1 c1 t10 s0'],
    ['"max_conns":9223372036854775807', 'w1 f1 c2147483647 t10 s0'],
    ['"fail_timeout":-1', "$rest (fail_timeout -1 $time)"],
    ['"fail_timeout":2147484', 'w1 f1 c0 t2147483 s0'],
    ['"fail_timeout":"500ms"', "$rest (fail_timeout \"500ms\" $time)"],
    ['"fail_timeout":""', $rest],
    ['"fail_timeout":1.5', "$rest (fail_timeout 1.5 $time)"],
    ['"slow_start":1.5', 'w1 f1 c0 t10 s1500'],
    ['"slow_start":"2147484s"', 'w1 f1 c0 t10 s2147483000'],
    ['"slow_start":"99999999999999999999y"',
     "$rest (slow_start \"99999999999999999999y\" $time)"],
);

my @shown = decode(
    (map { ['json', '/k', json($_->[0] || ()), $_->[2]] } @attributes),
    (map { ['json', '/k', json($_->[0])] } @wrong),
);

is(shift @shown, "$at $_->[1]", 'json: ' . ($_->[0] || 'nothing'))
    for @attributes;
is(shift @shown, "$at $_->[1]", "json: $_->[0]") for @wrong;

# limits: [NAME, FORMAT, KEY, VALUE, RESULT, PARAMETERS]

my $path = '/' . 'x' x 106;
my $x64 = 'x' x 64;

my @limits = (
    ['longest path', 'plain', '/k', "unix:$path", "unix:$path $rest"],
    ['a longer one', 'plain', '/k', "unix:${path}x",
     'invalid: address "unix:/' . 'x' x 58 . '..." has a path that is too long '
     . 'for a socket'],
    ['longest key', 'plain', 'k' x 32768, $at, "$at $rest"],
    ['a longer key', 'plain', 'k' x 32769, $at,
     'invalid: key "' . 'k' x 64 . '..." is longer than 32768 bytes'],
    ['longest value', 'json', '/k',
     json('"x":"' . 'x' x (524288 - length(json('"x":""'))) . '"'),
     "$at $rest"],
    ['a longer value', 'plain', '/k', 'x' x 524289,
     "invalid: value \"$x64...\" is longer than 524288 bytes"],
    ['any value', 'key', "/$at", 'x' x 700000, "$at $rest"],
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

# input that no system writes: [NAME, FORMAT, KEY, VALUE, RESULT, PARAMETERS]

my $node = '{"address":"10.0.0.7:1"}';
my $nodes = sub {
    '{"nodes":[' . join(',', map { "{\"address\":\"10.0.$_[1].1:$_\"}" }
                        1 .. $_[0]) . ']}';
};
my $deep = sub { json('"x":' . '[' x $_[0] . ']' x $_[0]) };

my @bad = (
    ['nested deep', 'json', '/k', $deep->(2000), "$at $rest"],
    ['nested deeper', 'json', '/k', $deep->(2100),
     qr/^invalid: value is broken JSON .* "maximum parsing depth reached/],
    ['nested without end', 'json', '/k', '{"a":' x 12000,
     qr/^invalid: value is broken JSON .* "maximum parsing depth reached/],
    ['the most nodes', 'go-micro', '/k', $nodes->(1024, 0), '1024 members'],
    ['one more', 'go-micro', '/k', $nodes->(1025, 0),
     qr/^1024 members \(value "\{.*\.\.\." has more than 1024 members\)$/],
    ['a million nodes', 'go-micro', '/k',
     '{"nodes":[' . join(',', ($node) x 1_000_000) . ']}',
     qr/^invalid: value ".*" is longer than 524288 bytes$/],
    ['one node many times', 'go-micro', '/k',
     '{"nodes":[' . join(',', ($node) x 1000) . ']}', "10.0.0.7:1 $rest"],
    ['the first holds', 'apisix', '/k',
     '{"nodes":[{"host":"10.0.0.7","port":1,"weight":5},'
     . '{"host":"10.0.0.7","port":"1","weight":6}]}',
     '10.0.0.7:1 w5 f1 c0 t10 s0 p32768'],
    ['duplicate name', 'json', '/k', json("\"address\":\"$at\""),
     qr/^invalid: value is broken JSON .* "duplicate object key/],
    ['huge integer', 'json', '/k', json('"weight":' . '9' x 30),
     "$at w65535 f1 c0 t10 s0 (weight 2147483647 is greater than 65535, which "
     . 'is used)'],
    ['huge exponent', 'json', '/k', json('"weight":1e999'),
     "$at w65535 f1 c0 t10 s0 (weight 2147483647 is greater than 65535, which "
     . 'is used)'],
    ['large real', 'json', '/k', json('"weight":1e15'),
     "$at w65535 f1 c0 t10 s0 (weight 2147483647 is greater than 65535, which "
     . 'is used)'],
    ['no UTF-8', 'json', '/k', "{\"address\":\"\xff\"}",
     qr/^invalid: value is broken JSON .* "unable to decode byte 0xff/],
    ['no UTF-8 in a key', 'dubbo', "/providers/\xc0\xaf", '',
     qr/^invalid: key ".*" is not valid UTF-8$/],
    ['zero in a key', 'dubbo', '/providers/tri%3A%2F%2F10.0.0.7%3A1%00', '',
     qr/^invalid: last segment .* has a byte not allowed in an address$/],
    ['percent at the end', 'dubbo', '/providers/tri%', '',
     qr/^invalid: last segment .* has an invalid percent-encoding$/],
    ['long argument', 'rpcx', "/b/a/tcp\@$at", 'weight=' . '1' x 300,
     "$at $rest (weight \"" . '1' x 64 . '..." is too long or has an invalid '
     . 'percent-encoding)'],
    ['long argument that is none of ours', 'rpcx', "/b/a/tcp\@$at",
     'x=' . '1' x 300 . '&weight=2', "$at w2 f1 c0 t10 s0"],
    ['no value but a tag', 'rpcx', "/b/a/tcp\@$at", 'group', 'nothing',
     'tag=group:x'],
    ['an empty tag', 'rpcx', "/b/a/tcp\@$at", 'group', "$at $rest",
     'tag=group:'],
    ['a scheme and no host', 'kratos', '/k',
     '{"endpoints":["grpc://","grpc:///x"]}',
     'invalid: endpoints "grpc:///x" has no host'],
    ['a URL with everything', 'kratos', '/k',
     '{"endpoints":["GRPC://a@b:c@10.0.0.7:8080/p?q=/#f?"]}', "$at $r100",
     'scheme=grpc'],
    ['an open bracket', 'kratos', '/k', '{"endpoints":["http://[::1"]}',
     'invalid: endpoints "[::1" has no closing bracket'],
    ['name of the service', 'kratos', '/k',
     "{\"name\":\"a\",\"endpoints\":[\"grpc://$at\"]}", "$at $r100",
     'prefix=/services/a'],
    ['another name', 'kratos', '/k',
     "{\"name\":\"ab\",\"endpoints\":[\"grpc://$at\"]}", 'nothing',
     'prefix=/services/a'],
    ['an address has no scheme', 'traefik', '/k', json(), 'nothing',
     'scheme=http'],
    ['nothing has no scheme', 'kratos', '/k', '{}',
     'invalid: endpoints is missing', 'scheme=http'],
    ['auto and tags', 'auto', '/k', json('"tags":{"a":"b"}'), "$at $rest",
     'tag=a:b'],
    ['auto, no object and tags', 'auto', '/k', $at, 'nothing', 'tag=a:b'],
    ['auto, only a key and tags', 'auto', "/$at", '', 'nothing', 'tag=a:b'],
    ['a tag with a colon', 'json', '/k', json('"tags":{"a":"b:c"}'),
     "$at $rest", 'tag=a:b:c'],
    ['a tag that is a real', 'json', '/k', json('"tags":{"a":1.5}'),
     "$at $rest", 'tag=a:1.5'],
    ['a tag that is an object', 'json', '/k', json('"tags":{"a":{}}'),
     'nothing', 'tag=a:'],
    ['no tags', 'json', '/k', json('"tags":[1]'), 'nothing', 'tag=a:b'],
    ['tags of kratos', 'kratos', '/k',
     "{\"metadata\":{\"a\":\"b\"},\"endpoints\":[\"grpc://$at\"]}",
     "$at $r100", 'tag=a:b'],
    ['other tags of kratos', 'kratos', '/k',
     "{\"metadata\":{\"a\":\"c\"},\"endpoints\":[\"grpc://$at\"]}", 'nothing',
     'tag=a:b'],
    ['tags of dubbo-app', 'dubbo-app', '/k', '{"Host":"10.0.0.7","Port":8080,'
     . '"Metadata":{"a":"b"}}', "$at $r100", 'tag=a:b'],
    ['other tags of dubbo-app', 'dubbo-app', '/k',
     '{"Host":"10.0.0.7","Port":8080,"Metadata":{"a":"c"}}', 'nothing',
     'tag=a:b'],
    ['tags of nodes of apisix', 'apisix', '/k',
     '{"nodes":[{"host":"10.0.0.6","port":8080,"weight":1},'
     . '{"host":"10.0.0.7","port":8080,"weight":1,"metadata":{"a":"b"}},'
     . '{"host":"10.0.0.8","port":8080,"weight":1,"metadata":{"a":"c"}}]}',
     "$at $rest p32768", 'tag=a:b'],
    ['a pointer into an array', 'json', '/k', "{\"a\":[0,\"$at\"]}",
     "$at $rest", 'address=/a/1'],
    ['no number of an element', 'json', '/k', "{\"a\":[\"$at\"]}",
     'invalid: /a/00 is missing', 'address=/a/00'],
    ['a pointer to a name that is empty', 'json', '/k', "{\"\":\"$at\"}",
     "$at $rest", 'address=/'],
    ['escapes in a pointer', 'json', '/k',
     "{\"a\":\"$at\",\"~1\":{\"/\":3},\"/\":{\"~1\":4}}",
     "$at w3 f1 c0 t10 s0", 'address=/a weight=/~01/~1'],
    ['a name that begins like a pointer', 'json', '/k',
     "{\"a\":\"$at\",\"w\":{\"x\":3},\"wx\":4,\"w/x\":5}",
     "$at w3 f1 c0 t10 s0", 'address=/a weight=/w/x'],
    ['a time at a pointer', 'json', '/k', "{\"a\":\"$at\",\"s\":\"5s\"}",
     "$at w1 f1 c0 t10 s5000", 'address=/a slow_start=/s'],
    ['a route', 'json', '/k', "{\"address\":\"$at\",\"route\":\"a-1\"}",
     "$at $rest ra-1"],
    ['a long route', 'json', '/k', "{\"address\":\"$at\",\"route\":\""
     . 'r' x 32 . '"}', "$at $rest r" . 'r' x 32],
    (map { ["no route: $_->[0]", 'json', '/k',
            "{\"address\":\"$at\",\"route\":$_->[0]}",
            "$at $rest (route $_->[1] is not a route of up to 32 characters; "
            . 'its default is used)'] }
         (map { [$_, $_] } '"' . 'r' x 33 . '"', '7', '"a b"', '"a;b"', '"a,b"',
                           '"a\\"b"', '"a\\\\b"'),
         ['{"a":"b"}', '{...}'], ['"a\\nb"', '"a\\x0ab"'],
         ['"\\u00e4"', '"\\xc3\\xa4"']),
    ['an empty route', 'json', '/k', "{\"address\":\"$at\",\"route\":\"\"}",
     "$at $rest"],
    ['a route at a pointer', 'json', '/k',
     "{\"a\":\"$at\",\"b\":{\"c\":\"one\"},\"route\":\"two\"}",
     "$at $rest rone", 'address=/a route=/b/c'],
    ['no pointer to a route', 'json', '/k',
     "{\"a\":\"$at\",\"route\":\"two\"}", "$at $rest", 'address=/a'],
    ['precedence', 'json', '/k', "{\"a\":\"$at\",\"p\":-7}",
     "$at w1 f1 c0 t10 s0 p32775", 'address=/a precedence=/p'],
);

@shown = decode(map { [@$_[1 .. 3], $_->[5]] } @bad);

for my $case (@bad) {
    my ($name, $wanted) = @$case[0, 4];

    if (ref($wanted)) {
        like(shift @shown, $wanted, "bad input: $name");

    } else {
        is(shift @shown, $wanted, "bad input: $name");
    }
}

# No memory of a value stays allocated: malloc() gives at least 24 bytes each
# time, and the memory that its own lists take once is a part of that.

my $nginx = Nginx->new(modules => ['etcd']);
my @all = map { my $set = $_; map { [$set, $_] } @{ $set->{entries} } }
          Corpus::all();
my $text = 'load_module ' . test_dir() . "/ngx_etcd_unit_module.so;\n"
           . join('', map {
                 my ($set, $entry) = @$_;
                 my ($format, $parameters) = Corpus::words($set);

                 sprintf("etcd_decode_bench %s \"%s\" \"%s\" 100 %s;\n",
                         $format, word($nginx, $entry->{key}),
                         word($nginx, $entry->{value}), $parameters)
             } @all);

my (undef, $benched) = $nginx->configtest($text);
my @kept = $benched =~ /^bench: \d+ \d+ (-?\d+)$/mg;

is(@kept, @all, 'all of the corpus is decoded a hundred times');
is_deeply([grep { $_ >= 24 } @kept], [], 'and keeps nothing');

# Every value of the corpus that is an object, changed in each of its places:
# broken values, and values whose result has to stay.

my @broken = ("\"\xff\"", "\"\xc0\xaf\"",
              "\"\xed\xa0\x80\"", '"\\u0000"', '"\\ud800"', '"%', '{"a":1',
              '[1,]', '01', 'nul');
my @wrong_types = ('9' x 30, 'null', 'true', '-1', '1.5', '1e15', '1e999',
                   '2147483648', '""', '"x"', '"%zz"', '"unix:"', '[]', '{}',
                   '[[]]', '{"a":{}}', '[null]');
my %wide = (same => '[' . '0,' x 30_000 . '0]', deep => '[' x 2000 . ']' x 2000,
            over => '[' . '0,' x 1_000_000 . '0]',
            deeper => '[' x 2100 . ']' x 2100);


# the bytes with another text in a place: before a token, instead of it, or as
# one more field

sub places {
    my ($value) = @_;

    my (@names, @values);

    while ($value =~ /("(?:[^"\\]|\\.)*"|[\w.+-]+)(\s*:)?/g) {
        push @{ defined $2 ? \@names : \@values }, [$-[1], $+[1] - $-[1]];
    }

    return (\@names, \@values);
}


sub with {
    my ($text, $place, $other) = @_;

    substr($text, $place->[0], $place->[1], $other);

    return $text;
}


# the kind of a result; all results can be printed

sub kind {
    local ($_) = @_;

    return !/^[\x20-\x7e]{1,1023}$/ ? 'other'
           : /^nothing$/ ? 'nothing'
           : /^invalid: / ? 'invalid'
           : /^(?:[0-9.]+|\[[0-9a-f:.]+\]|unix:\S+):?\d* w\d+ f\d+ c\d+ /
             ? 'member' : 'other';
}


my (@as_before, @all_broken, @any, %seen);

for (@all) {
    my ($set, $entry) = @$_;
    my ($format, $parameters) = Corpus::words($set);
    my $value = $entry->{value};

    my $case = sub { [$format, $entry->{key}, $_[0], $parameters] };

    push @any, map { [$format, $entry->{key} . $_, $value, $parameters] }
               '%', '%3', '%zz', '%00', "\xff", "\0", '/', '%25', '/%2F';
    push @any, map { $case->($value . $_) } '%', '%zz', "\xff", "\0", '{', '&',
                                            '=', '&weight=%', "&group=\xff";

    $value =~ /^\{"/ && @{ $entry->{members} } or next;

    my ($names, $values) = places($value);

    push @as_before, map { [$case->($value),
                            $case->(with($value, [1, 0], "\"zz\":$_,"))] }
                     @wide{qw(same deep)};
    push @all_broken, map { $case->(with($value, [1, 0], "\"zz\":$_,")) }
                      $wide{deeper}, $seen{$set->{name}}++ ? () : $wide{over};
    push @all_broken, map { my $at = $_; my $name = substr($value, @$at);
                            $case->(with($value, $at, "$name:1,$name")) }
                      @$names;

    for my $at (@$values) {
        push @all_broken, map { $case->(with($value, $at, $_)) } @broken;
        push @any, map { $case->(with($value, $at, $_)) } @wrong_types;
    }
}

cmp_ok(scalar(@as_before), '>=', 2 * 20, 'values that are objects');

my @pairs = decode(map { @$_ } @as_before);

is_deeply([grep { $pairs[2 * $_] ne $pairs[2 * $_ + 1] } 0 .. $#as_before], [],
          'a wide and a deep field that nobody reads change nothing');
is_deeply([grep { /^invalid: / } @pairs], [], 'of members');

my @refusals = decode(@all_broken);

my $refusal = qr/^invalid: value (?:is broken JSON|".*" is )/;

is_deeply([map { [@{ $all_broken[$_] }[0, 1], $refusals[$_]] }
           grep { $refusals[$_] !~ $refusal } 0 .. $#refusals], [],
          'broken in any place: refused');

my @made = decode(@any);

is(scalar(grep { kind($_) ne 'other' } @made), @any,
   'wrong in any place: one of the kinds of results');

# Random changes to valid input give a member, nothing, or a printable reason.

my @own = ('auto', 'plain', 'key', 'json', 'grpc', 'kitex', 'upsync');
my @keys = ('/s/1', "/u/$at", '/u/%5B%3A%3A1%5D%3A80', '/u/', "/\xc3\xa9");
my @values = ($at, '[::1]:80', 'unix:/run/a.sock', json('"weight":2'), '',
              '{"host":"::1","port":"80","slow_start":"5s","max_conns":3}',
              '{"Op":0,"Addr":"10.0.0.7:1","Metadata":{"a":[1,2,{}]}}',
              '{"network":"unix","address":"/x.sock","tags":{}}',
              '{"weight":10,"max_fails":3,"fail_timeout":10,"down":0}');
my @corpus = Corpus::all();
my @tokens = ('"', '{', '}', '[', ']', ':', ',', '\\u0000', '\\ud800', '1e9',
              '-1', 'null', 'true', '9' x 20, '%', '%3A', '/', 'unix:', "\xff",
              "\xc0\x80", '::', '65536', '"weight":', '"port":', "\n", "\0");

srand(SEED);


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


sub random_case {
    if (rand() < 0.3) {
        return [one_of(@own), changed(one_of(@keys)),
                changed(one_of(@values))];
    }

    my $set = one_of(@corpus);
    my $entry = one_of(@{ $set->{entries} });
    my ($format, $parameters) = Corpus::words($set);

    return [$format, changed($entry->{key}), changed($entry->{value}),
            $parameters];
}


my @random = map { random_case() } 1 .. RANDOM;

my %kinds;

$kinds{kind($_)}++ for decode(@random);

is($kinds{other}, undef, 'random input: all results are of three kinds')
    or diag(explain(\%kinds));
cmp_ok($kinds{$_} // 0, '>', 0, "some are: $_") for qw(member invalid nothing);


# The time up to which the instance leads, written by one owner after another:
# an owner that has read it before the other wrote writes it all the same.

for my $case (['1 5', 5], ['1 5 5 7', 7], ['1 5 1 7', 7], ['1 5 1 0', 0],
              ['1 5 1 7 5 9', 9])
{
    my ($owners, $wanted) = @$case;
    my ($ok, $output) = Nginx->new(modules => ['etcd'])->configtest(
        "load_module $module;\netcd_election_slot $owners;\n");
    my ($until) = $output =~ /^election slot: (\d+)$/m;

    is($until, $wanted, "owners of an election slot write $owners")
        or diag($output);
}


# The hash of a key cannot be known beforehand: each process has its own.

my @hashes = map {
    my ($ok, $output) = Nginx->new(modules => ['etcd'])->configtest(
        "load_module $module;\n" . "etcd_siphash key;\n" x 2);

    [$output =~ /^siphash: ([0-9a-f]{8})$/mg];
} 1 .. 2;

is(@{ $hashes[$_] }, 2, 'a process hashes') for 0, 1;
is($hashes[$_][0], $hashes[$_][1], 'always alike') for 0, 1;
isnt($hashes[0][0], $hashes[1][0], 'another process has other hashes');


# data that a process writes while others read

{
    my ($ok, $output) = Nginx->new(modules => ['etcd'])->configtest(
        "load_module $module;\netcd_seqlock;\n");

    like($output, qr/^seqlock: ok$/m, 'a seqlock');
}

finish();
