#!/usr/bin/perl

# Certificates and keys in etcd that somebody has written to do harm: with
# numbers so large that OpenSSL computes for minutes, with lines between the
# blocks that would be lines of a log, and with too much of everything.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use MIME::Base64;
use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;
use Process;
use Tls;
use Wait;

plan(skip_all => 'this nginx has no TLS')
    if Nginx::built_with() !~ /--with-http_ssl_module/;

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);
my $dir = test_dir();

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    zone 16m;
}

http {
    etcd_set $cert /certs/$ssl_server_name/crt type=pem max_size=64k;
    etcd_set $key /certs/$ssl_server_name/key type=pem max_size=64k;
    etcd_set $small /small/$ssl_server_name type=pem max_key_bits=2048
             max_size=64k;

    server {
        listen 127.0.0.1:%%PORT_TLS%% ssl;
        ssl_certificate data:$cert;
        ssl_certificate_key data:$key;
        return 200 served;
    }

    server {
        listen 127.0.0.1:%%PORT_SMALL%% ssl;
        ssl_certificate data:$small;
        ssl_certificate_key data:$small;
        return 200 served;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


sub openssl {
    my ($status, $output) = run('openssl', @_);

    $status == 0 or die "openssl @_: $output";

    return $output;
}


# a certificate and its key, of that algorithm

sub make {
    my ($name, @algorithm) = @_;

    openssl('genpkey', @algorithm, '-out', "$dir/key");

    return [certificate($name, 'key'), Tls::read_file("$dir/key")];
}


sub certificate {
    my ($name, $key) = @_;

    openssl('req', '-x509', '-nodes', '-key', "$dir/$key", '-subj',
            "/CN=$name", '-out', "$dir/crt");

    return Tls::read_file("$dir/crt");
}


sub ec { ('-algorithm', 'EC', '-pkeyopt', "ec_paramgen_curve:$_[0]") }
sub rsa { ('-algorithm', 'RSA', '-pkeyopt', "rsa_keygen_bits:$_[0]") }


# DER

sub der {
    my ($tag, @content) = @_;

    my $content = join('', @content);
    my $n = length($content);
    my $len = $n < 0x80 ? chr($n) : $n < 0x100 ? pack('CC', 0x81, $n)
        : pack('Cn', 0x82, $n);

    return chr($tag) . $len . $content;
}


sub seq { der(0x30, @_) }
sub octets { der(0x04, @_) }
sub bits { der(0x03, "\0", @_) }
sub oid { der(0x06, pack('H*', $_[0])) }
sub null { "\x05\x00" }


# an odd number of that many bits

sub number {
    my ($n) = @_;

    my $bytes = join('', map { chr(int(rand(256))) } 1 .. $n / 8);

    substr($bytes, 0, 1) |= "\x80";
    substr($bytes, -1) |= "\x01";

    return der(0x02, "\0", $bytes);
}


sub integer { der(0x02, chr($_[0])) }


sub pem {
    my ($label, $der) = @_;

    return "-----BEGIN $label-----\n" . encode_base64($der)
        . "-----END $label-----\n";
}


use constant {
    RSA  => '2a864886f70d010101',
    PSS  => '2a864886f70d01010a',
    SHA  => '2a864886f70d01010b',
    DSA  => '2a8648ce380401',
    DH   => '2a864886f70d010301',
    EC   => '2a8648ce3d0201',
};


# RSAPrivateKey: the bits of n, e, d, p, q, and the version

sub pkcs1 {
    my ($n, $e, $d, $p, $q, $version) = @_;

    return seq(integer($version // 0), number($n),
               $e > 32 ? number($e) : integer($e), number($d), number($p),
               number($q), number($p), number($q), number($p));
}


sub pkcs8 { pem('PRIVATE KEY', seq(integer(0), seq(oid($_[0]), $_[1]),
                                   octets($_[2]))) }


# a certificate that nobody has signed, with that key

sub forged {
    my ($algorithm, $key, $signature) = @_;

    $signature //= seq(oid(SHA), null());

    my $name = seq(der(0x31, seq(oid('550403'), der(0x0c, 'a'))));
    my $time = der(0x17, '260101000000Z');

    return pem('CERTIFICATE',
               seq(seq(der(0xa0, integer(2)), integer(1), $signature, $name,
                       seq($time, $time), $name, seq($algorithm, bits($key))),
                   $signature, bits("\x01" x 256)));
}


sub rsa_certificate {
    my ($bits, $e) = @_;

    return forged(seq(oid(RSA), null()),
                  seq(number($bits), $e ? number($e) : integer(3)));
}


sub put {
    my ($name, $pair) = @_;

    return $etcd->txn([put => "/certs/$name/crt", $pair->[0]],
                      [put => "/certs/$name/key", $pair->[1]]);
}


sub handshake {
    my ($name, $where) = @_;

    my (undef, $output) = run('timeout', 60, 'openssl', 's_client', '-connect',
                              '127.0.0.1:' . $nginx->port($where // 'PORT_TLS'),
                              defined $name ? ('-servername', $name)
                                            : '-noservername');
    my ($pem) = $output =~
        /(-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n)/s;

    return $pem // 'none';
}


sub serves {
    my ($name, $pair, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { handshake($name) eq $pair->[0] ? 'it' : 'another' } 'it',
        $what;
}


# starts to be in use: a value that is refused leaves it there

my $good = make('a.test', ec('P-256'));

put('a.test', $good);
$nginx->start($config);
serves('a.test', $good, 'a good one');

my $agent = $nginx->status->{agent}{pid};

# keys that are used

for my $case (['RSA', rsa(2048)], ['P-384', ec('P-384')],
              ['P-521', ec('P-521')], ['Ed25519', '-algorithm', 'ed25519'],
              ['Ed448', '-algorithm', 'ed448'], ['RSA of 4096', rsa(4096)],
              ['RSASSA-PSS', '-algorithm', 'RSA-PSS', '-pkeyopt',
               'rsa_keygen_bits:2048', map { ('-pkeyopt', "rsa_pss_keygen_$_") }
               qw(md:sha256 mgf1_md:sha256 saltlen:32)])
{
    my ($what, @algorithm) = @$case;
    my $name = lc($what) =~ s/\W+/-/gr . '.test';
    my $pair = make($name, @algorithm);

    put($name, $pair);
    serves($name, $pair, $what);

    # keys as they were written before PKCS #8

    if ($what =~ /^(RSA|P-384)$/) {
        $pair->[1] = openssl($1 eq 'RSA' ? 'rsa' : 'ec',
                             ($1 eq 'RSA' ? '-traditional' : ()), '-in',
                             "$dir/key") =~ s/^(read|writing).*\n//gmr;
        like($pair->[1], qr/BEGIN (RSA|EC) PRIVATE KEY/, "$what: old format");
        put("old-$name", $pair);
        serves("old-$name", $pair, "$what: an old format");
    }
}

# keys that are refused

openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-param_enc',
        'explicit', '-out', "$dir/explicit");
openssl('genpkey', ec('secp256k1'), '-out', "$dir/k1");
openssl('genpkey', '-algorithm', 'x25519', '-out', "$dir/x25519");
openssl('genpkey', ec('P-256'), '-aes128', '-pass', 'pass:a', '-out',
        "$dir/encrypted");

my $kind = qr/none of RSA, P-256/;
my $size = qr/more bits than "max_key_bits="/;
my $numbers = qr/numbers do not fit/;
my $parameters = qr/unusual parameters/;
my $broken = qr/is broken/;

my $dsa = seq(number(3800 * 8), number(256), number(3800 * 8));

for my $case (
    ['key', 'DSA', $kind, pkcs8(DSA, $dsa, number(256))],
    ['key', 'DSA without PKCS #8', qr/format that is not used/,
     pem('DSA PRIVATE KEY', seq(integer(0), $dsa, number(30_000),
                                number(256)))],
    ['key', 'DH', $kind, pkcs8(DH, seq(number(30_000), integer(2)),
                               number(256))],
    ['key', 'X25519', $kind, Tls::read_file("$dir/x25519")],
    ['key', 'an explicit curve', $kind, Tls::read_file("$dir/explicit")],
    ['key', 'secp256k1', $kind, Tls::read_file("$dir/k1")],
    ['key', 'RSA of 16384', $size,
     pkcs8(RSA, null(), pkcs1(16384, 3, 16384, 8192, 8192))],
    ['key', 'RSA of 32768', $size,
     pem('RSA PRIVATE KEY', pkcs1(32768, 3, 32768, 16384, 16384))],
    ['key', 'RSA of 4104', $size,
     pem('RSA PRIVATE KEY', pkcs1(4104, 3, 4104, 2056, 2056))],
    ['key', 'a large prime', $numbers,
     pem('RSA PRIVATE KEY', pkcs1(2048, 3, 2048, 32768, 1024))],
    ['key', 'a large exponent', $numbers,
     pem('RSA PRIVATE KEY', pkcs1(2048, 2048, 2048, 1024, 1024))],
    ['key', 'a large private exponent', $numbers,
     pem('RSA PRIVATE KEY', pkcs1(2048, 3, 65536, 1024, 1024))],
    ['key', 'three primes', $numbers,
     pem('RSA PRIVATE KEY', pkcs1(2048, 3, 2048, 1024, 1024, 1))],
    ['key', 'RSASSA-PSS of 16384', $size,
     pkcs8(PSS, '', pkcs1(16384, 3, 16384, 8192, 8192))],
    ['key', 'a large salt', $parameters,
     pkcs8(PSS, seq(der(0xa2, number(64))), pkcs1(2048, 3, 2048, 1024, 1024))],
    ['key', 'a large number of a curve', $broken,
     pkcs8(EC, oid('2a8648ce3d030107'), seq(integer(1), octets('a' x 20_000)))],
    ['key', 'an encrypted one', qr/broken or encrypted/,
     Tls::read_file("$dir/encrypted")],
    ['key', 'two', qr/several private keys/, $good->[1] x 2],
    ['crt', 'RSA of 16384', $size, rsa_certificate(16384)],
    ['crt', 'a large exponent', $numbers, rsa_certificate(2048, 2048)],
    ['crt', 'DSA', $kind, forged(seq(oid(DSA), $dsa), number(30_000))],
    ['crt', 'an explicit curve', $kind, certificate('a', 'explicit')],
    ['crt', 'secp256k1', $kind, certificate('a', 'k1')],
    ['crt', 'RSA of 16384 in the chain', $size,
     $good->[0] . rsa_certificate(16384)],
    ['crt', 'a large salt of the signature', $parameters,
     forged(seq(oid(RSA), null()), seq(number(2048), integer(3)),
            seq(oid(PSS), seq(der(0xa2, number(64)))))],
    ['crt', '11 certificates', qr/more than 10 certificates/,
     $good->[0] x 11])
{
    my ($what, $name, $reason, $value) = @$case;
    my $at = $etcd->put("/certs/a.test/$what", $value);

    ok(wait_for(sub { $nginx->count_log(qr/revision $at is invalid/) }, 30),
       "$what: $name is refused");
    $nginx->logs(qr/revision $at is invalid: .*$reason/, 1, 'why');
}

serves('a.test', $good, 'the last good one is served');
is($nginx->status->{agent}{pid}, $agent, 'the agent has not changed');
is($nginx->status->{variables}{'$key'}{invalid}, 2, 'the status counts them');

# another agent lists them

my $reports = $nginx->count_log(qr/is invalid/);

$nginx->kill_worker($agent);
put('b.test', $good);
serves('b.test', $good, 'another agent goes on');
is($nginx->count_log(qr/is invalid/), $reports, 'and reports nothing again');

# max_key_bits=

my $pair = make('a.test', rsa(2048));

$etcd->put('/small/a.test', join('', @$pair));
becomes { handshake('a.test', 'PORT_SMALL') eq $pair->[0] ? 'it' : 'none' }
    'it', 'both in one value';

my $at = $etcd->put('/small/a.test', rsa_certificate(2056));

ok(wait_for(sub { $nginx->count_log(qr/revision $at is invalid: .*$size/) },
            10), 'a key of more bits');
ok($nginx->reload($config =~ s/max_key_bits=2048/max_key_bits=2056/r),
   'reload with more');
becomes { $nginx->status->{variables}{'$small'}{invalid} } 0, 'it is used now';

# ten certificates

$etcd->put('/certs/b.test/crt', $good->[0] x 10);
serves('b.test', $good, 'ten certificates');

# lines between the blocks are in no log

my $line = "\n2026/11/27 00:00:00 [emerg] 1#1: forged\e[31m \xff\n";

$pair = make('c.test', rsa(1024));
put('c.test', ["$line$pair->[0]${line}a=b\n", "$line$good->[1]$line"]);
put('d.test', ["\xef\xbb\xbf$good->[0]" =~ s/\n/\r\n/gr,
               "\xef\xbb\xbf$good->[1]" =~ s/\n/\r\n/gr]);
serves('d.test', $good, 'a byte order mark, CR and LF');
is(handshake('c.test'), 'none', 'nginx does not use a key of 1024 bits');
cmp_ok($nginx->count_log(qr/SSL_use_certificate|cannot load/), '>=', 1,
       'and logs the value');
is($nginx->count_log(qr/forged|\e|\xff/), 0, 'of which the blocks are left');

# A name without a certificate, without a key, and no name: nginx's own message
# shows none of them.

$etcd->put('/certs/half.test/crt', $good->[0]);

for my $case (['none.test', '"none.test": key "/certs/none.test/crt"'],
              ['half.test', '"half.test": key "/certs/half.test/key"'],
              [undef, '"", the client has not sent a name: key '
                      . '"/certs/$ssl_server_name/crt"'])
{
    my ($name, $text) = @$case;

    my $line = qr/\[error\] .* etcd: no certificate for \Q$text\E has no value/;

    ok(wait_for(sub { handshake($name); $nginx->count_log($line) }, 20),
       "no certificate: $text");
}

my $before = $nginx->count_log(qr/no certificate for/);
my $begun = time();

handshake('none.test') for 1 .. 40;
cmp_ok($nginx->count_log(qr/no certificate for/) - $before, '<=',
       2 * (time() - $begun + 2), 'once a second in each worker, at most');

# a default

$nginx->write_file('default.crt', rsa_certificate(16384));

my ($status, $output) = $nginx->configtest($config =~
    s/type=pem max_size=64k;/type=pem default_file=%%DIR%%\/default.crt;/r);

like($output, qr/default\.crt": it has an RSA key of more bits/,
     'a default is checked, too');

$nginx->expect(qr/SSL_use_certificate|cannot load certificate|ee key too small/)
    if $nginx->can('expect');

finish();
