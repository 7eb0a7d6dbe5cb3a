#!/usr/bin/perl

# conf-examples/certificates.conf: certificates and private keys in etcd, by the
# name that the client asks for, and nowhere else.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use MIME::Base64;
use Test::More;

use Becomes;
use Etcd;
use Example;
use Finish;
use Nginx;
use Process;
use Tls;
use Wait;

use constant NAMES => $ENV{TEST_NAMES} || 1000;

my $nginx = Nginx->new();

plan(skip_all => 'this nginx has no TLS')
    if Nginx::built_with() !~ /--with-http_ssl_module/;

my $etcd = Etcd->new()->start();
my $dir = test_dir();
my (%pem, $model);

$nginx->set(ETCD => $etcd->endpoints, DIR => $nginx->dir);


# makes a certificate and its key: [CRT, KEY]

sub make {
    my ($name) = @_;

    my ($status, $output) = run('openssl', 'req', '-x509', '-nodes', '-days', 9,
                                '-newkey', 'ec', '-pkeyopt',
                                'ec_paramgen_curve:prime256v1',
                                '-subj', "/CN=$name", '-addext',
                                "subjectAltName=DNS:$name",
                                '-keyout', "$dir/key", '-out', "$dir/crt");

    $status == 0 or die $output;

    return [map { Tls::read_file("$dir/$_") } qw(crt key)];
}


# The model's certificate for another name of this length.  Nobody has signed
# it, which the server does not mind.

sub alike {
    my ($name) = @_;

    my ($base64) = $model->[0] =~ /CERTIFICATE-----\n(.*?)-----END/s;
    my $der = decode_base64($base64) =~ s/n0000\.test/$name/gr;

    return [join('', "-----BEGIN CERTIFICATE-----\n", encode_base64($der),
                 "-----END CERTIFICATE-----\n"), $model->[1]];
}


sub key_of_another_kind {
    my ($status, $output) = run('openssl', 'genrsa', '-out', "$dir/rsa", 2048);

    $status == 0 or die $output;

    return Tls::read_file("$dir/rsa");
}


# Runs the commands in the example's comment.

sub put_by_hand {
    my ($pair) = @_;

    my ($text) = Example::text('certificates')
        =~ /^# Write a certificate.*?\n#\n(.*?)\n#\n# nginx must reach/ms;
    my %file = (crt => $pair->[0], key => $pair->[1]);

    while (my ($what, $pem) = each %file) {
        $nginx->write_secret("www.$what", $pem);
    }

    local $ENV{ETCDCTL_API} = 3;
    local $ENV{ETCDCTL_ENDPOINTS} = $etcd->endpoints;

    my ($status, $output) = run('sh', '-ec', 'cd ' . $nginx->dir . "\n"
                                . $text =~ s/^#(     )?//gmr);

    return $output;
}


sub put {
    my ($name, $pair) = @_;

    return $etcd->txn([put => "/certs/$name/crt", $pair->[0]],
                      [put => "/certs/$name/key", $pair->[1]]);
}


# the subject and the certificate of a handshake's answer

sub handshake {
    my ($name) = @_;

    my (undef, $output) = run('openssl', 's_client', '-connect',
                              '127.0.0.1:' . $nginx->port('PORT_8443'),
                              defined $name ? ('-servername', $name)
                                            : '-noservername');

    my ($subject) = $output =~ /^subject=.*CN\s*=\s*(\S+)/m;
    my ($pem) = $output =~
        /(-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n)/s;

    return ($subject // 'none', $pem // 'none');
}


sub subject { (handshake(@_))[0] }


sub serves {
    my ($name, $pair, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { (handshake($name))[1] eq $pair->[0] ? 'it' : 'another' }
        'it', $what;
}


# reports of a key that does not fit its certificate

sub misfits {
    return scalar(grep { /the key for "n0001\.test" do not fit/ }
                  $nginx->lines_of('debug.log'));
}


sub variable { ($nginx->status // return {})->{variables}{"\$$_[0]"} // {} }


# 1000 names

my @names = map { sprintf('n%04d.test', $_) } 1 .. NAMES;
$model = make('n0000.test');

for my $name (@names) {
    $pem{$name} = alike($name);
    put($name, $pem{$name});
}

for my $name (@names[0 .. 2, -1]) {
    $pem{$name} = make($name);
    put($name, $pem{$name});
}

my $default = make('default.test');

$nginx->write_file('default.crt', $default->[0]);
$nginx->write_secret('default.key', $default->[1]);

my $config = Example::text('certificates', 'etcd');

# outputs that must not show a key, though the configuration asks for it

$config =~ s/^http \{/http {
    log_format keys '\$key \$cert';
    error_log %%DIR%%\/debug.log debug;/m;
$config =~ s/(?=location \/ \{)/access_log %%DIR%%\/keys.log keys;
        add_header X-Key "\$key|\$cert";
        /;
$config =~ s/^events/worker_processes 2;\nworker_rlimit_core 1g;
working_directory %%DIR%%\/cores;\nevents/m;
$config =~ s/zone /state_path %%DIR%%\/state;\n    zone /;
$config =~ s/(?=location \/status)/etcd_set \$plain \/certs\/\$host\/plain;

        location \/page {
            etcd_status;
        }\n
        /;

$etcd->put('/certs/n0001.test/plain', 'no secret');

mkdir($nginx->dir . '/cores') or die "mkdir: $!\n";
chmod(0777, $nginx->dir . '/cores') or die "chmod: $!\n";

$nginx->start($config);

becomes { variable('key')->{values} } 2 * NAMES, 'all of them were read';

my @others = grep { subject($_) ne $_ } @names;

is("@others", '', NAMES . ' names have a certificate each');
is(subject('none.test'), 'default.test', 'an unknown name gets the default');
is(subject(), 'default.test', 'so does a client without a name');
is(subject('../n0001.test'), 'default.test', 'and one with a strange name');

for my $name (@names[0, -1]) {
    $nginx->write_file('ca.crt', $pem{$name}[0]);

    my $port = $nginx->port('PORT_8443');
    my ($status, $output) = run('curl', '-sS', '--noproxy', '*', '--cacert',
                                $nginx->dir . '/ca.crt', '--resolve',
                                "$name:$port:127.0.0.1", "https://$name:$port/",
                                '-D', $nginx->dir . '/head');

    is("$status $output", "0 hello $name\n", "curl trusts $name");
    unlike(Tls::read_file($nginx->dir . '/head'), qr/BEGIN/,
           'a header does not show it');
}

# new, renewed, deleted

my $renewed = make('n0001.test');

put('n0001.test', $renewed);
serves('n0001.test', $renewed, 'a renewed certificate is served');
serves('n0001.test', $renewed, "handshake $_, by any worker") for 1 .. 4;
$pem{'new.test'} = make('new.test');
put('new.test', $pem{'new.test'});
serves('new.test', $pem{'new.test'}, 'a new one');
$etcd->txn([del => '/certs/new.test/crt'], [del => '/certs/new.test/key']);
serves('new.test', $default, 'a deleted one');

# by the commands that the example gives

my $www = make('www.example.com');

like(put_by_hand($www), qr/SUCCESS/, "the example's commands are etcdctl's");
serves('www.example.com', $www, 'and write a certificate');

# broken certificates and keys

my %name = (crt => 'cert', key => 'key');

my $encrypted = do {
    my ($status, $output) = run('openssl', 'ec', '-aes128', '-passout',
                                'pass:secret', '-in', "$dir/key", '-out',
                                "$dir/encrypted");
    $status == 0 or die $output;
    Tls::read_file("$dir/encrypted");
};

for my $case (['crt', 'no PEM', qr/neither a certificate nor a private key/],
              ['crt', '', qr/neither a certificate nor a private key/],
              ['crt', substr($renewed->[0], 0, 300), qr/certificate .* broken/],
              ['crt', $renewed->[0] =~ s/^(.{200})./$1!/sr,
               qr/certificate .* broken/],
              ['key', substr($renewed->[1], 0, 100), qr/broken or encrypted/],
              ['key', $encrypted, qr/broken or encrypted/],
              ['key', $renewed->[1] . ' ' x 20_000, qr/16384 are allowed/])
{
    my ($what, $value, $reason) = @$case;
    my $at = $etcd->put("/certs/n0001.test/$what", $value);

    ok(wait_for(sub { $nginx->count_log(qr/revision $at is invalid/) }, 10),
       "invalid $what: $reason");
    $nginx->logs(qr/"\$$name{$what}": .*$at is invalid: .*$reason/, 1,
                 'is reported');
    serves('n0001.test', $renewed, 'the last good one is served');
}

becomes { variable('key')->{invalid} } 2, 'the status counts them';
put('n0001.test', $renewed);
becomes { variable('key')->{invalid} } 0, 'until they are good';

# a certificate and its key change together

my @pairs = ($renewed, make('n0001.test'));

for my $round (1 .. 100) {
    put('n0001.test', $pairs[$round % 2]);
    subject('n0001.test') eq 'n0001.test' or push @others, $round;
}

is("@others", '', 'each handshake had a certificate and its key');
is(misfits(), 0, 'and the log says so');

# a key of another certificate, and one of another kind

my $another = make('n0001.test');

for my $key ($another->[1], key_of_another_kind()) {
    my $said = misfits();

    put('n0001.test', [$renewed->[0], $key]);
    becomes { subject('n0001.test') } 'none', 'a key that does not fit';
    cmp_ok(misfits(), '>', $said, 'is reported with the name');
}

put('n0001.test', $renewed);
serves('n0001.test', $renewed, 'until it does');

# without an agent, after a reload, without etcd

$nginx->kill_worker($nginx->status->{agent}{pid});
is(subject('n0002.test'), 'n0002.test', 'without an agent');
ok($nginx->reload(), 'reload');
is(subject('n0002.test'), 'n0002.test', 'after a reload');
ok($nginx->reload($config =~ s/zone 64m/zone 63m/r),
   'reload with another zone');
is(subject('n0002.test'), 'n0002.test', 'its certificates are there');
$etcd->stop();
is(subject('n0002.test'), 'n0002.test', 'without etcd');
$etcd->start();
put('n0002.test', $renewed);
serves('n0002.test', $renewed, 'etcd is back');


# lines of private keys: of the default one, of one that is in use, of former
# ones

my @secrets = map { (split(/\n/, $_->[1]))[1] }
    $default, $renewed, $pairs[1], @pem{qw(n0001.test n0002.test n0003.test)};


sub shown { my ($text) = @_; return grep { index($text, $_) >= 0 } @secrets }


is(scalar(shown($renewed->[1])), 1, 'a key is found where it is');

my $answers = join('', map { $nginx->get(@$_)->{body} }
                   ['/status'], ['/page', Accept => 'text/html'],
                   ['/status', Accept => 'text/plain']);

like($answers, qr/nginx_etcd_variable_values\{.*\} \d+/, 'metrics');
is(scalar(shown($answers)), 0, 'the status shows no key');

ok(wait_for(sub { glob($nginx->dir . '/state/*.state') }, 10), 'a state file');

for my $file (qw(error.log debug.log keys.log state/default.state)) {
    my $path = $nginx->dir . "/$file";

    next if !-e $path;
    is(scalar(shown(Tls::read_file($path))), 0, "$file shows no key");
}

like(Tls::read_file($nginx->dir . '/keys.log'), qr/^- -\n/m,
     'a request has no value');
cmp_ok($nginx->count_log(qr/"\$key" of "etcd_set" in .* has no value: with/),
       '>=', 1, 'which is reported');

# a core dump of the agent

my $pattern = -r '/proc/sys/kernel/core_pattern'
    ? Tls::read_file('/proc/sys/kernel/core_pattern') : '|';

if ($pattern =~ /^[\w.%-]+$/) {
    my $cores = $nginx->dir . '/cores';
    my $agent = $nginx->status->{agent}{pid};

    subject($_) for ('n0001.test', 'n0003.test', 'none.test') x 4;
    $nginx->kill_worker($agent, 'ABRT');

    my ($core) = wait_for(sub { glob("$cores/*") }, 10, 'a core')
        ? glob("$cores/*") : ();

    if (defined $core) {
        my $memory = Tls::read_file($core);

        cmp_ok(index($memory, 'certs/n0001'), '>=', 0, 'a core has names');
        is(join(' ', shown($memory)), '', 'a core dump has no key');
        unlink($core);
    }
}

finish();
