#!/usr/bin/perl

# The reader of JSON for itself: what RFC 8259 allows and what it does not,
# where something is wrong, and jansson's opinion of all of it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Corpus;
use Finish;
use Nginx;
use Unit;

use constant {
    SEED   => 20261122,
    RANDOM => 10_000,
};

my $module = build_unit('ngx_etcd_unit_module');
my $words = 0;


# what the reader says of each text

sub read_json {
    my (@texts) = @_;

    my $nginx = Nginx->new(modules => ['etcd']);
    my ($ok, $output) = $nginx->configtest("load_module $module;\n" . join('',
        map { 'etcd_json "' . word($nginx, $_) . "\";\n" } @texts));

    ok($ok, @texts . ' texts') or diag($output);

    return map { /^json: (.*)$/ ? $1 : () } split(/\n/, $output);
}


# bytes as the directive takes them

sub word {
    my ($nginx, $bytes) = @_;

    length($bytes) < 1000 and return unpack('H*', $bytes);

    return '@' . $nginx->write_file('json' . ++$words, $bytes);
}


sub object { return '{' . join(',', map { "\"$_\":[]" } @_) . '}' }

my $deep = sub { '[' x $_[0] . ']' x $_[0] };

my @valid = (
    '{}', '[]', " \t\r\n{ \t\r\n} \t\r\n", '[null,true,false]', '[[],{}]',
    '[0,-0,1,-1,10,123456789012345678,9223372036854775807]',
    '[-9223372036854775808]', '[0.0,-0.0,1.5,1e5,1E+5,1e-5,-1.25e10,0e0]',
    '[1e308,1e-400,0.' . '1' x 400 . ',1' . '0' x 300 . '.0]',
    '["","a","\"\\\\\/\b\f\n\r\t","\u0041\u00e9\u20AC\uD83D\uDE00"]',
    "[\"\x7f\",\"\xc2\x80\",\"\xdf\xbf\",\"\xe0\xa0\x80\",\"\xed\x9f\xbf\"]",
    "[\"\xee\x80\x80\",\"\xef\xbf\xbf\",\"\xf0\x90\x80\x80\"]",
    "[\"\xf4\x8f\xbf\xbf\"]", '["a\u0062c\nd","\u00e9x"]',
    '{"":1,"a":{"a":{"a":1}},"\u0061b":2}', '{"a":1,"A":2,"aa":3}',
    object(1 .. 24), object(1 .. 25), object(1 .. 3000),
    $deep->(64), $deep->(65), $deep->(2048),
    '[' . join(',', (1) x 30000) . ']', '["' . 'x' x 65000 . '"]',
);

# [TEXT, LINE:COLUMN and what is wrong]; an error cites what is there

my @broken = (
    ['', "1:1 '[' or '{' expected at the end"],
    ['  ', "1:3 '[' or '{' expected at the end"],
    ['1', "1:1 '[' or '{' expected near '1'"],
    ['"a"', "1:1 '[' or '{' expected near '\"a\"'"],
    ["\xef\xbb\xbf{}", "1:1 '[' or '{' expected near '\xef\xbb\xbf{}'"],
    ['{} {}', "1:4 end expected near '{}'"],
    ['[]]', "1:3 end expected near ']'"],
    ["[]\0", "1:3 end expected near '\0'"],
    ['[', '1:2 value expected at the end'],
    ['{', "1:2 string or '}' expected at the end"],
    ['[1', "1:3 ',' or ']' expected at the end"],
    ['{"a":1', "1:7 ',' or '}' expected at the end"],
    ['[1}', "1:3 ',' or ']' expected near '}'"],
    ['{"a":1]', "1:7 ',' or '}' expected near ']'"],
    ['[1 2]', "1:4 ',' or ']' expected near '2]'"],
    ['[1,]', "1:4 invalid token near ']'"],
    ['[,1]', "1:2 invalid token near ',1]'"],
    ['{,}', "1:2 string or '}' expected near ',}'"],
    ['{"a":1,}', "1:8 string expected near '}'"],
    ['{"a"}', "1:5 ':' expected near '}'"],
    ['{"a":}', "1:6 invalid token near '}'"],
    ['{"a":', '1:6 value expected at the end'],
    ['{a:1}', "1:2 string or '}' expected near 'a:1}'"],
    ["{'a':1}", "1:2 string or '}' expected near ''a':1}'"],
    ['{1:1}', "1:2 string or '}' expected near '1:1}'"],
    ["[\n1,\n \xc3\xa9]", "3:2 invalid token near '\xc3\xa9]'"],
    ["[\"\xc3\xa9\" x]", "1:6 ',' or ']' expected near 'x]'"],
    ['[tru]', "1:2 invalid token near 'tru]'"],
    ['[truex]', "1:6 ',' or ']' expected near 'x]'"],
    ['[nul', "1:2 invalid token near 'nul'"],
    ['[True]', "1:2 invalid token near 'True]'"],
    ['[NaN]', "1:2 invalid token near 'NaN]'"],
    ['[-Infinity]', "1:2 invalid token near '-Infinity]'"],
    ['[/*a*/1]', "1:2 invalid token near '/*a*/1]'"],
    ['[01]', "1:2 invalid token near '01]'"],
    ['[-01]', "1:2 invalid token near '-01]'"],
    ['[-]', "1:2 invalid token near '-]'"],
    ['[+1]', "1:2 invalid token near '+1]'"],
    ['[.5]', "1:2 invalid token near '.5]'"],
    ['[1.]', "1:2 invalid token near '1.]'"],
    ['[1.e5]', "1:2 invalid token near '1.e5]'"],
    ['[1e]', "1:2 invalid token near '1e]'"],
    ['[1e+]', "1:2 invalid token near '1e+]'"],
    ['[1.5.5]', "1:5 ',' or ']' expected near '.5]'"],
    ['[0x10]', "1:3 ',' or ']' expected near 'x10]'"],
    ['[9223372036854775808]',
     "1:2 too big integer near '9223372036854775808]'"],
    ['[-9223372036854775809]',
     "1:2 too big integer near '-9223372036854775809'"],
    ['[1e309]', "1:2 real number overflow near '1e309]'"],
    ['[-1e309]', "1:2 real number overflow near '-1e309]'"],
    ['[1' . '0' x 309 . '.0]',
     "1:2 real number overflow near '1" . '0' x 19 . "'"],
    ['["a', '1:4 premature end of a string at the end'],
    ['["a\\"', '1:6 premature end of a string at the end'],
    ['["\\', "1:3 invalid escape near '\\'"],
    ['["\\x41"]', "1:3 invalid escape near '\\x41\"]'"],
    ['["\\U0041"]', "1:3 invalid escape near '\\U0041\"]'"],
    ['["\\u00"]', "1:3 invalid Unicode escape near '\\u00\"]'"],
    ['["\\u00g0"]', "1:3 invalid Unicode escape near '\\u00g0\"]'"],
    ['["\\u', "1:3 invalid Unicode escape near '\\u'"],
    ['["\\u0000"]', "1:3 \\u0000 is not allowed near '\\u0000\"]'"],
    ['{"\\u0000":1}', "1:3 \\u0000 is not allowed near '\\u0000\":1}'"],
    ['["\\ud800"]', "1:3 invalid Unicode escape near '\\ud800\"]'"],
    ['["\\udc00"]', "1:3 invalid Unicode escape near '\\udc00\"]'"],
    ['["\\udfff\\ud800"]',
     "1:3 invalid Unicode escape near '\\udfff\\ud800\"]'"],
    ['["\\ud800\\u0041"]',
     "1:3 invalid Unicode escape near '\\ud800\\u0041\"]'"],
    ['["\\ud800\\udc0', "1:3 invalid Unicode escape near '\\ud800\\udc0'"],
    ["[\"a\tb\"]", "1:4 control character 0x09 near '\tb\"]'"],
    ["[\"\0\"]", "1:3 control character 0x00 near '\0\"]'"],
    ["[\"\xff\"]", "1:3 unable to decode byte 0xff near '\xff\"]'"],
    ["[\"\x80\"]", "1:3 unable to decode byte 0x80 near '\x80\"]'"],
    ["[\"\xc0\x80\"]", "1:3 unable to decode byte 0xc0 near '\xc0\x80\"]'"],
    ["[\"\xc3\"]", "1:3 unable to decode byte 0xc3 near '\xc3\"]'"],
    ["[\"\xc3", "1:3 unable to decode byte 0xc3 near '\xc3'"],
    ["[\"\xe0\x9f\x80\"]",
     "1:3 unable to decode byte 0xe0 near '\xe0\x9f\x80\"]'"],
    ["[\"\xe2\x82\"]", "1:3 unable to decode byte 0xe2 near '\xe2\x82\"]'"],
    ["[\"\xed\xa0\x80\"]",
     "1:3 unable to decode byte 0xed near '\xed\xa0\x80\"]'"],
    ["[\"\xf0\x8f\x80\x80\"]",
     "1:3 unable to decode byte 0xf0 near '\xf0\x8f\x80\x80\"]'"],
    ["[\"\xf4\x90\x80\x80\"]",
     "1:3 unable to decode byte 0xf4 near '\xf4\x90\x80\x80\"]'"],
    ['{"a":1,"b":2,"a":3}', "1:14 duplicate object key near '\"a\":3}'"],
    ['{"":1,"":2}', "1:7 duplicate object key near '\"\":2}'"],
    ['{"a":1,"\u0061":2}', "1:18 duplicate object key near '}'"],
    [object(1 .. 24, 3), qr/^1:\d+ duplicate object key near '"3":\[\]\}'$/],
    [object(1 .. 3000, 7), qr/^1:\d+ duplicate object key near '"7":\[\]\}'$/],
    [$deep->(2049),
     "1:2049 maximum parsing depth reached near '[" . ']' x 19 . "'"],
    [$deep->(2047) . '1', "1:4095 end expected near '1'"],
    ['[' x 2048, '1:2049 value expected at the end'],
    ['[' x 65536,
     "1:2049 maximum parsing depth reached near '" . '[' x 20 . "'"],
);

my @shown = read_json(@valid, map { $_->[0] } @broken);

is(shift @shown, 'valid', 'valid: ' . substr($_, 0, 40) =~ s/\s/ /gr)
    for @valid;

for (@broken) {
    my ($text, $wanted) = @$_;
    my $name = 'broken: ' . substr($text, 0, 40) =~ s/[^\x20-\x7e]/?/gr;

    if (ref($wanted)) {
        like(shift @shown, $wanted, $name);

    } else {
        is(shift @shown, $wanted, $name);
    }
}

# jansson reads longer texts than we do, and over a zero behind a number

is((read_json("[1\0]"))[0], "unlike jansson 1:3 ',' or ']' expected near '\0]'",
   'a zero behind a number');

is_deeply([read_json('["' . 'x' x 65532 . '"]', '["' . 'x' x 65533 . '"]')],
          ['valid', "unlike jansson 1:1 text too long near '[\""
                    . 'x' x 18 . "'"], 'the longest text');

# random changes to what systems write

my @values = (@valid[0 .. 15], grep { /^\{/ } map { $_->{value} }
              map { @{ $_->{entries} } } Corpus::all());
my @tokens = ('"', '{', '}', '[', ']', ':', ',', '\\', '\\u0000', '\\ud800',
              '\\ud83d\\ude00', '\\n', '1e9', '1e999', '-', '-0', '01', '1.5',
              'null', 'true', '9' x 19, "\xff", "\xc3\xa9", "\xf0\x9f\x98\x80",
              "\n", "\0", ' ', '"a":1,', '"a"');

srand(SEED);


sub changed {
    my ($text) = @_;

    for (1 .. int(rand(4))) {
        my $at = int(rand(length($text) + 1));
        my $length = int(rand(4));

        $length = length($text) - $at if $at + $length > length($text);
        substr($text, $at, $length, one_of(@tokens, '', chr(int(rand(256)))));
    }

    return $text;
}


my @random = map { changed(one_of(@values)) } 1 .. RANDOM;

@shown = read_json(@random);

is(@shown, RANDOM, 'random texts: all are read');
is_deeply([map { $shown[$_] =~ /^unlike/ && $random[$_] !~ /\0/
                 ? $random[$_] : () } 0 .. $#random], [],
          'jansson finds the same');
is_deeply([map { $shown[$_] eq 'valid' && $random[$_] =~ /\0/
                 ? $random[$_] : () } 0 .. $#random], [],
          'none is valid with a zero in it');
cmp_ok(scalar(grep { $_ eq 'valid' } @shown), '>', RANDOM / 10,
       'some are valid');
cmp_ok(scalar(grep { /^\d+:\d+ / } @shown), '>', RANDOM / 10, 'others are not');

finish();
