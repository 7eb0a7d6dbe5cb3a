#!/usr/bin/perl

# The files of TLS: messages of nginx -t for bad ones, and changes of files
# while nginx runs.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Tls;
use Upstream;
use Wait;


my $dir = test_dir();
my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'IP:127.0.0.1');
my $client = $ca->issue('client');
my $other = $ca->issue('other');
my $encrypted = $client->encrypted_key('secret');
my $none = "$dir/none.pem";
my $text = Tls::write_file("$dir/text.pem", "no certificate\n");
my $cut = Tls::write_file("$dir/cut.pem",
                          substr(Tls::read_file($client->cert), 0, 200));
my $wrong = Tls::write_file("$dir/wrong", "one\ntwo\n");
my $missing = 'No such file or directory';
my $endpoint = 'endpoints https://127.0.0.1:2379;';
my $trust = 'ssl_trusted_certificate ' . $ca->cert . ';';
my $cert = 'ssl_certificate ' . $client->cert . ';';
my $key = 'ssl_certificate_key ' . $client->key . ';';


# Refuses lines of an etcd block, from line 2 on; with a message, for a line.

sub refused {
    my ($name, $lines, $message, $line) = @_;

    my $nginx = Nginx->new();
    my ($ok, $output) = $nginx->configtest(
        join("\n", 'etcd {', (map { "    $_" } @$lines), '}', 'http {', '}'));
    my $conf = $nginx->dir . '/nginx.conf';
    my @messages = map { s/.*\[emerg\] (?:\d+#\d+: )?//r }
        grep { /\[emerg\]/ } split(/\n/, $output);

    ok(!$ok, "$name: refused");
    is(join("\n", @messages), "$message in $conf:$line",
       "$name: says why and where");
}


# Accepts such lines with one warning.

sub warned {
    my ($name, $lines, $message, $line) = @_;

    my $nginx = Nginx->new();
    my ($ok, $output) = $nginx->configtest(
        join("\n", 'etcd {', (map { "    $_" } @$lines), '}', 'http {', '}'));
    my $conf = $nginx->dir . '/nginx.conf';
    my @messages = map { s/.*\[warn\] (?:\d+#\d+: )?//r }
        grep { /\[\w+\]/ } split(/\n/, $output);

    ok($ok, "$name: accepted") or diag($output);
    is(join("\n", @messages), "$message in $conf:$line", "$name: a warning");
}


sub passes {
    my ($name, @lines) = @_;

    my ($ok, $output) = Nginx->new()->configtest(
        join("\n", 'etcd {', @lines, '}', 'http {', '}'));

    ok($ok, $name) or diag($output);
    unlike($output, qr/\[(?:warn|emerg|alert)\]/, "$name: without a word");
}


refused('no CA', [$endpoint],
        'etcd cluster "default" has https endpoints and no '
        . '"ssl_trusted_certificate" to verify them by', 3);
refused('no key', [$endpoint, $trust, $cert],
        'etcd cluster "default" has no "ssl_certificate_key" for its '
        . '"ssl_certificate"', 5);
refused('no certificate', [$endpoint, $trust, $key],
        'etcd cluster "default" has no "ssl_certificate" for its '
        . '"ssl_certificate_key"', 5);

for ([$none, $missing], [$text, 'no certificate or crl found']) {
    my ($file, $reason) = @$_;

    refused("CA $file", [$endpoint, "ssl_trusted_certificate $file;"],
            '"ssl_trusted_certificate" directive: cannot load trusted '
            . "certificates \"$file\": $reason", 3);
}

for ([$none, $missing], [$text, 'no start line'], [$cut, 'bad end line']) {
    my ($file, $reason) = @$_;

    refused("certificate $file",
            [$endpoint, $trust, "ssl_certificate $file;", $key],
            '"ssl_certificate" directive: cannot load certificate '
            . "\"$file\": $reason", 4);
}

for (
    [$none, $missing],
    [$other->key, 'key values mismatch'],
    [$encrypted, 'it is encrypted and there is no "ssl_password_file"'],
)
{
    my ($file, $reason) = @$_;

    refused("key $file",
            [$endpoint, $trust, $cert, "ssl_certificate_key $file;"],
            '"ssl_certificate_key" directive: cannot load certificate key '
            . "\"$file\": $reason", 5);
}

refused('no right password',
        [$endpoint, $trust, $cert, "ssl_certificate_key $encrypted;",
         "ssl_password_file $wrong;"],
        '"ssl_certificate_key" directive: cannot load certificate key '
        . "\"$encrypted\": no password in \"$wrong\" decrypts it", 5);
refused('no password file',
        [$endpoint, $trust, $cert, "ssl_certificate_key $encrypted;",
         "ssl_password_file $none;"],
        "\"ssl_password_file\" directive: cannot load passwords \"$none\": "
        . $missing, 6);
refused('no CRL', [$endpoint, $trust, "ssl_crl $none;"],
        "\"ssl_crl\" directive: cannot load revocation list \"$none\": "
        . $missing, 4);
refused('a bad file without https',
        ['endpoints 127.0.0.1:1;', "ssl_trusted_certificate $none;"],
        '"ssl_trusted_certificate" directive: cannot load trusted '
        . "certificates \"$none\": $missing", 3);
# directives without https

for my $line ($trust, "$cert $key", 'ssl_verify off;', 'ssl_verify_depth 2;',
              'ssl_name etcd.test;', 'ssl_protocols TLSv1.3;',
              'ssl_ciphers HIGH;',
              'ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;')
{
    my ($name) = $line =~ /^(\w+)/;

    for my $http ('127.0.0.1:1', 'http://127.0.0.1:1 127.0.0.2:1') {
        warned("$name with $http", ["endpoints $http;", $line],
               "\"$name\" in \"etcd\" has no effect: no endpoint is "
               . '"https://"', 3);
    }
}

warned('several directives',
       ['ssl_name etcd.test;', $cert, $key, $trust, 'ssl_verify on;',
        'endpoints 127.0.0.1:1;'],
       '"ssl_name" in "etcd" has no effect: no endpoint is "https://"', 2);
passes('one https endpoint', 'endpoints 127.0.0.1:1 https://127.0.0.2:1;',
       $trust);
passes('auto_sync, which may add https endpoints', 'endpoints 127.0.0.1:1;',
       $trust, 'auto_sync 5m;');

refused('ciphers', [$endpoint, $trust, 'ssl_ciphers none-such;'],
        '"ssl_ciphers" directive: invalid ciphers "none-such"', 4);
refused('a command', [$endpoint, $trust, 'ssl_conf_command Speed high;'],
        '"ssl_conf_command" directive: invalid command "Speed high"', 4);
refused('a command\'s value',
        [$endpoint, $trust, 'ssl_conf_command MinProtocol TLSv9;'],
        '"ssl_conf_command" directive: invalid command "MinProtocol TLSv9"',
        4);
refused('a protocol', [$endpoint, $trust, 'ssl_protocols SSLv9;'],
        'invalid value "SSLv9"', 4);
refused('ssl_verify', [$endpoint, $trust, 'ssl_verify maybe;'],
        'invalid value "maybe" in "ssl_verify" directive, it must be "on" or '
        . '"off"', 4);
refused('ssl_verify_depth', [$endpoint, $trust, 'ssl_verify_depth deep;'],
        '"ssl_verify_depth" directive invalid number', 4);
refused('an empty file name', [$endpoint, 'ssl_trusted_certificate "";'],
        '"ssl_trusted_certificate" directive is empty', 3);

for my $twice ($trust, $cert, $key, "ssl_password_file $wrong;",
               "ssl_crl $none;", 'ssl_ciphers HIGH;', 'ssl_name a;',
               'ssl_verify on;', 'ssl_verify_depth 1;')
{
    my ($name) = $twice =~ /^(\w+)/;

    refused("$name twice", [$twice, $twice],
            "\"$name\" directive is duplicate", 3);
}

my $crl = $ca->crl;
my $right = Tls::write_file("$dir/right", "one\nsecret\n");

passes('no verification', $endpoint, 'ssl_verify off;');
passes('all of it', $endpoint, $trust, $cert,
       "ssl_certificate_key $encrypted;", "ssl_password_file $right;",
       "ssl_crl $crl;", 'ssl_verify on;', 'ssl_verify_depth 2;',
       'ssl_name etcd.test;', 'ssl_protocols TLSv1.2 TLSv1.3;',
       'ssl_ciphers HIGH:!aNULL;', 'ssl_conf_command Options -Compression;',
       'ssl_conf_command MinProtocol TLSv1.2;');
passes('IPv6, upper case', 'endpoints HTTPS://[::1]:2379/;', $trust);

# files change

my $keys = "$dir/keys";

mkdir($keys) or die "mkdir $keys: $!\n";

Tls::join_files("$keys/ca.crt", $ca->cert);
$server->install($keys, 'server');
$client->install($keys, 'client');

my $etcd = Etcd->new(tls => {
    cert => "$keys/server.crt",
    key  => "$keys/server.key",
    ca   => "$keys/ca.crt",
})->start();

my $nginx = Nginx->new(etcd => $etcd)->set(KEYS => $keys);

$etcd->put('/s/1', '127.0.0.1:1001');

$nginx->start(<<'EOF');

etcd {
    endpoints %%ETCD%%;
    ssl_certificate %%KEYS%%/client.crt;
    ssl_certificate_key %%KEYS%%/client.key;
    ssl_trusted_certificate %%KEYS%%/ca.crt;
}

http {
    upstream api {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOF

my $api = Upstream->new($nginx, 'api');
my $n = 1;

follows('the first certificates');

my $workers = join(' ', sort $nginx->workers);
my $again = qr/\[notice\].*files changed and were read again/;
my $kept = qr/going on with the files as they were/;
my $failed = qr/endpoint \S+ failed for \w+: .*certificate verify error/;

# etcd gets certificates of another authority before nginx does.

my $new_ca = Tls->new('new ca');

$etcd->stop();
Tls::join_files("$dir/new.crt", $new_ca->cert);
$new_ca->issue('server', san => 'IP:127.0.0.1')->install($keys, 'server');
$etcd->{tls}{ca} = "$dir/new.crt";
$etcd->start();

ok(wait_for(sub { $nginx->count_log($failed) }, 10, 'the new authority'),
   'a new authority is not trusted');
is($api->member('127.0.0.1:1001')->{state}, 'up', 'members stay');
is($nginx->count_log($again), 0, 'files were read once');

# The files change one after the other, so that for a moment they do not belong
# together.

my $new_client = $new_ca->issue('client');

Tls::join_files("$keys/ca.crt", $new_ca->cert);
Tls::join_files("$keys/client.crt", $new_client->cert);

my $mismatch = qr/client\.key": key values mismatch, $kept/;

ok(wait_for(sub { $nginx->count_log($mismatch) }, 10, 'the mismatch'),
   'half of a change is not used');

Tls::join_files("$keys/client.key", $new_client->key);

follows('new files, without a reload');
cmp_ok($nginx->count_log($again), '>=', 1, 'the log says that they were read');
$nginx->logs(qr/\[error\].*$kept/, 1, 'and of the mismatch, once');

# A broken file changes nothing.

Tls::write_file("$keys/ca.crt", "broken\n");

for (1 .. 3) {
    $etcd->restart();
    follows("a broken file, connection $_");
}

$nginx->logs(qr/\[error\].*ca\.crt": no certificate .*$kept/, 1,
             'the log says so once');

unlink("$keys/ca.crt");
$etcd->restart();
follows('a file that is gone');

$nginx->logs(qr/\[error\].*$kept/, 3, 'which is another cause');

my $before = $nginx->count_log($again);

Tls::join_files("$keys/ca.crt", $new_ca->cert);
$etcd->restart();
follows('a file that is back');

is($nginx->count_log($again), $before + 1, 'and it is read');
is(join(' ', sort $nginx->workers), $workers, 'there was no reload');

finish();


sub follows {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $address = '127.0.0.1:' . (1000 + $n++);

    $etcd->put('/s/1', $address);
    $api->shows({ '/s/1' => "$address 1 up" }, "$name: changes are followed");
}
