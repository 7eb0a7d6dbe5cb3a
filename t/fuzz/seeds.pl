#!/usr/bin/perl

# Inputs for a fuzzer to begin with, a file each:
#
#     t/fuzz/seeds.pl TARGET DIR
#
# Those of "decode" and "json" are the values of t/formats/.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Corpus;

my ($target, $dir) = @ARGV;
my $count = 0;

my %seeds = (decode => \&decode, json => \&json, grpc => \&grpc,
             status => \&status, pattern => \&pattern, http => \&http,
             pem => \&pem);

$seeds{$target // ''} && defined $dir or die "usage: seeds.pl TARGET DIR\n";
write_seed($_) for $seeds{$target}->();


sub write_seed {
    my ($bytes) = @_;

    my $path = sprintf('%s/%03d', $dir, $count++);

    open(my $file, '>:raw', $path) or die "open $path: $!\n";
    print $file $bytes;
    close($file) or die "$path: $!\n";
}


sub decode {
    my @seeds;

    for my $set (Corpus::all("$FindBin::Bin/../formats")) {
        my $words = $set->{parameters} =~ s/^format=//r;

        push @seeds, map { "$set->{prefix} $words\n$_->{key}\n$_->{value}" }
                     @{ $set->{entries} };
    }

    # the formats of this project, and addresses of all kinds

    for my $format (qw(auto plain key json)) {
        push @seeds, map { ("/ $format tag=a:b\n/s/%31%3A2\n$_",
                            "/ $format\n/s/unix%3A%2Fa\n$_") }
            '10.0.0.7:1', '[::1]:80', 'unix:/run/a.sock', '',
            '{"address":"10.0.0.7:1","weight":2,"max_fails":3,"fail_timeout":'
            . '"1m","slow_start":5,"max_conns":4,"tags":{"a":"b"}}',
            '{"host":"::1","port":"80","down":true,"backup":1,"drain":0}';
    }

    return @seeds;
}


sub json {
    return '[{"a":[],"b":[[{}],{"c":1e5,"d":-0,"e":-0.0,"f":1E+2}]},null]',
           '{"true":false,"g":"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"}',
           "{ \"\xc3\xa9\" :\t\"\xf0\x9f\x98\x80\" ,\r\n\"\":[ ] }",
           '[9223372036854775807,-9223372036854775808,1.5,1e-400,1e400]',
           '{' . join(',', map { "\"$_\":[$_]" } 1 .. 100) . '}',
           '[' x 70 . ']' x 70,
           grep { /^\{/ } map { $_->{value} } map { @{ $_->{entries} } }
               Corpus::all("$FindBin::Bin/../formats");
}


sub status {
    my @names = ('', '/services/api/1', "<script>\"\\\n\r\t\0\x7f",
                 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xff\xfe\"\\",
                 "\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80",
                 '\\n\\x41\\"', 'x' x 300, "\xff" x 300);

    return map { my $name = $_; map { "$_$name" } "\0", "\x05", "\xff" }
           @names;
}


sub pattern {
    my @patterns = ('/services/$service/', '/s/${a}/$b/c/$d', '/routes/$host',
                    '/dubbo/$service/providers/', '/a$x/', '/$x', '/a/$/b',
                    '/a/$b//c', '/a/${b', '/a/$b$c/', '/a/' . '$x/' x 9);
    my @keys = ('/services/api/1', '/s/1/2/c/3', '/routes/a.example',
                '/dubbo/x/providers/y', '/s//2/c/3', '/services/../1',
                "/services/\0/1", '/services/' . 'x' x 256 . '/1');

    return map { my $pattern = $_; map { "$pattern\n$_" } @keys } @patterns;
}


sub http {
    my $ok = "HTTP/1.1 200 OK\r\n";
    my $chunked = "Transfer-Encoding: chunked\r\n";
    my @answers = (
        "${ok}Content-Length: 2\r\n\r\nok", "$ok\r\nok",
        "$ok$chunked\r\n1\r\no\r\n2;a=b\r\nka\r\n0\r\nA: b\r\n\r\n",
        "HTTP/1.0 404\nA: b\n c\n\n", "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n${ok}Content-Length: 0\r\n\r\n",
        "$ok$chunked\r\nffffffff\r\nx",
    );

    return map { my $answer = $_; map { chr($_) . $answer } 1, 7 } @answers;
}


# keys of each kind with their certificates

sub pem {
    my @kinds = (['rsa:1024'], ['ed25519'],
                 map { ['ec', '-pkeyopt', "ec_paramgen_curve:$_"] } qw(P-256
                                                                  P-521));

    return map {
        my $pem = `openssl req -x509 -nodes -subj /CN=a -newkey @$_ \\
                       -keyout - 2> /dev/null`;

        ($pem, $pem =~ /(.*END PRIVATE KEY-----\n)/s)
    } @kinds;
}


sub grpc {
    my $headers = "h:status\n200\ncontent-type\napplication/grpc\n\n";
    my $trailers = "tgrpc-status\n0\ngrpc-message\na%20b\n\n";
    my $header = "\x0a\x02\x18\x07";
    my $kv = "\x0a\x01a\x10\x02\x18\x03\x2a\x01b";
    my $event = "\x12" . chr(length($kv)) . $kv;
    my $watch = "$header\x10\x01\x5a" . chr(length($event)) . $event;
    my $range = "$header\x12" . chr(length($kv)) . "$kv\x20\x01";

    my $frame = sub { pack('CN', 0, length($_[0])) . $_[0] };
    my $data = sub { chr(length($_[0])) . $_[0] };
    my $bytes = sub { join('', map { $data->($_) } split(//, $_[0])) };

    return (
        "\x00\x00$headers" . $data->($frame->($watch)) . $trailers,
        "\x01\x00$headers" . $data->($frame->($range)) . $trailers,
        "\x00\x00$headers" . $bytes->($frame->($watch)) . $trailers,
        "\x00\x00$headers" . $data->($frame->($watch) x 2) . 'l',
        "\x00\x02$headers" . $data->($frame->($watch)),
        "\x00\x04$headers" . $data->(substr($frame->($watch), 0, 9)),
        "\x00\x00$headers" . $data->("\x01" . substr($frame->($watch), 1)),
        "\x00\x00$headers" . $data->("\x00\xff\xff\xff\xff"),
        "\x00\x00$headers" . $data->("\x00\x00\x00\x00\x00"),
        "\x00\x00h:status\n103\n\n" . $headers . $trailers,
        "\x00\x00h:status\n503\ncontent-type\ntext/html\n\n",
        "\x00\x00t:status\n200\ncontent-type\napplication/grpc\n"
        . "grpc-status\n16\ngrpc-message\n%e2%82%ac%\n\n",
    );
}
