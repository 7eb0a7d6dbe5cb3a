#!/usr/bin/perl

# TLS towards etcd: configurations that work, and others whose failure is logged
# once, with the reason.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Chaos;
use Etcd;
use Finish;
use Nginx;
use Port;
use Process;
use Tls;
use Upstream;
use Wait;


my $ca = Tls->new('ca');
my $other_ca = Tls->new('other ca');
my $intermediate = $ca->issue_ca('intermediate');

my $here = 'IP:127.0.0.1,DNS:etcd.test';
my $server = $ca->issue('server', san => $here);
my $client = $ca->issue('client');
my $stranger = $other_ca->issue('stranger');
my $chained = $intermediate->issue('chained', san => $here);
my $chain = Tls::join_files(test_dir() . '/chain.crt', $chained->cert,
                            $intermediate->cert);

# an etcd for each kind of certificate

my %etcd = (
    plain   => start($server),
    mutual  => start($server, ca => $ca->cert),
    expired => start($ca->issue('expired', san => $here,
                                start => '20200101000000Z',
                                end => '20210101000000Z')),
    future  => start($ca->issue('future', san => $here,
                                start => '20960101000000Z',
                                end => '20970101000000Z')),
    named   => start($ca->issue('named', san => 'DNS:etcd.test')),
    chained => start($chained, cert => $chain),
);

my $revoked = $ca->crl;

$ca->revoke($server);

my $revoking = $ca->crl;

# peers that an etcd cannot be made to be

my $no_alpn = serve_tls();
my $wrong_alpn = serve_tls('-alpn', 'http/1.1');
my $demanding = serve_tls('-Verify', 1, '-alpn', 'h2');
my $old = serve_tls('-tls1_2', '-alpn', 'h2');

# A certificate is trusted only with, and only without, a name sent; for the
# former name s_server knows no ALPN, but nginx looks at that afterwards.

my $named = serve_tls('-alpn', 'h2', '-servername', 'etcd.test',
                      '-cert', $stranger->cert, '-key', $stranger->key,
                      '-cert2', $server->cert, '-key2', $server->key);
my $addressed = serve_tls('-alpn', 'h2', '-servername', '127.0.0.1',
                          '-cert2', $stranger->cert, '-key2', $stranger->key);
my $silent = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 9);
my $closing = Chaos->start($etcd{plain}->port);
my $talking = Chaos->start($etcd{plain}->port);
my $proxy = Chaos->start($etcd{plain}->tls_port);
my $split = Chaos->start($etcd{plain}->tls_port);

$closing->set(cut_after => 1);
$talking->set(greeting => "HTTP/1.1 400 Bad Request\r\n\r\n");
$split->set(split => 1);

my $password = Tls::write_file(test_dir() . '/passwords',
                               "wrong\r\n\nsecret\nlater\n");
my $trust = 'ssl_trusted_certificate ' . $ca->cert . ';';
my $identity = identity($client->cert, $client->key);

# name => [etcd or URL, further directives]

my %right = (
    tls       => ['plain', $trust],
    mtls      => ['mutual', $trust, $identity],
    encrypted => ['mutual', $trust,
                  identity($client->cert, $client->encrypted_key('secret')),
                  "ssl_password_file $password;"],
    name      => ['named', $trust, 'ssl_name etcd.test;'],
    unchecked => ['expired', 'ssl_verify off;'],
    crl       => ['plain', $trust, "ssl_crl $revoked;"],
    chain     => ['chained', $trust],
    tls12     => ['plain', $trust, 'ssl_protocols TLSv1.2;',
                  'ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;'],
    command   => ['plain', $trust,
                  'ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;'
                  ],
    mixed     => [$etcd{plain}->url . ' ' . $etcd{plain}->tls_url, $trust],
    proxied   => [url($proxy->port), $trust],
    pieces    => [url($split->port), $trust, 'connect_timeout 20s;',
                  'request_timeout 60s;'],
);

my $impatient = 'connect_timeout 500ms;';
my $is_it = 'is this an http endpoint?';
my $is_required = qr/, is an "ssl_certificate" required\?(?! before)/;

# name => [etcd or URL, further directives, the reason]

my %wrong = (
    wrong_ca    => ['plain', ca($other_ca), qr/unable to get local issuer/],
    expired     => ['expired', $trust, qr/certificate has expired/],
    future      => ['future', $trust, qr/certificate is not yet valid/],
    wrong_host  => ['named', $trust, qr/is not for "127\.0\.0\.1"/],
    wrong_name  => ['plain', "$trust ssl_name other.test;",
                    qr/is not for "other\.test"/],
    revoked     => ['plain', "$trust ssl_crl $revoking;",
                    qr/certificate revoked/],
    depth       => ['chained', "$trust ssl_verify_depth 0;",
                    qr/certificate chain too long/],
    no_alpn     => [url($no_alpn), $trust,
                    qr/did not agree to ALPN protocol "h2"/],
    wrong_alpn  => [url($wrong_alpn), $trust,
                    qr/did not agree to ALPN protocol "h2"/],
    required    => [url($demanding), $trust,
                    qr/TLS alert "certificate required"$is_required/],
    no_version  => [url($old), "$trust ssl_protocols TLSv1.3;",
                    qr/TLS alert "protocol version"/],
    no_client   => ['mutual', $trust,
                    qr/TLS\ alert\ "(?:bad\ certificate|certificate\ required)"
                       $is_required/x],
    no_client12 => ['mutual', "$trust ssl_protocols TLSv1.2;",
                    qr/TLS\ alert\ "(?:bad\ certificate|handshake\ failure)"
                       $is_required/x],
    no_cipher   => ['plain', "$trust ssl_protocols TLSv1.2;"
                             . ' ssl_ciphers DHE-RSA-AES256-GCM-SHA384;',
                    qr/TLS alert "handshake failure"(?!, is)/],
    stranger    => ['mutual', $trust
                    . identity($stranger->cert, $stranger->key),
                    qr/TLS alert "(?:bad certificate|unknown CA)"(?!, is)/],
    plaintext   => [url($etcd{plain}->port), $trust, qr/\Q$is_it/],
    talking     => [url($talking->port), $trust,
                    qr/wrong version number, \Q$is_it/],
    closing     => [url($closing->port), $trust, qr/\Q$is_it/],
    silent      => [url($silent->sockport), "$trust $impatient",
                    qr/TLS handshake timed out/],
    sni_name    => [url($named), "$trust ssl_name etcd.test;",
                    qr/did not agree to ALPN/],
    sni_address => [url($addressed), "$trust $impatient",
                    qr/timed out waiting for HTTP\/2 SETTINGS/],
    no_tls      => ['http://127.0.0.1:' . $etcd{plain}->tls_port, '',
                    qr/is this an https endpoint\?/],
);

my %clusters = map {
    my ($where, @lines) = $wrong{$_} ? @{ $wrong{$_} }[0, 1] : @{ $right{$_} };
    $where = $etcd{$where}->endpoints if $etcd{$where};
    ($_ => join("\n", "etcd $_ {", "endpoints $where;", 'zone 256k;', @lines,
                '}'))
} keys %right, keys %wrong;

$_->put('/s/1', '127.0.0.1:1001') for values %etcd;

my $nginx = Nginx->new()->set(
    CLUSTERS  => join("\n", map { $clusters{$_} } sort keys %clusters),
    UPSTREAMS => join("\n", map {
        "upstream $_ { etcd_members /s/ cluster=$_; }" } keys %clusters),
);

$nginx->start(<<'EOF');

%%CLUSTERS%%

http {
    %%UPSTREAMS%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 served;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

my %shows = map { $_ => Upstream->new($nginx, $_) } keys %clusters;
my $one = { '/s/1' => '127.0.0.1:1001 1 up' };
my $two = { %$one, '/s/2' => '127.0.0.1:1002 1 up' };

# configurations that work

$shows{$_}->shows($one, "$_: members are read") for sort keys %right;

$_->put('/s/2', '127.0.0.1:1002') for values %etcd;

$shows{$_}->shows($two, "$_: and followed") for sort keys %right;

my $with = sub { $nginx->count_log(qr/$_[0], etcd endpoint: "\Q$_[1]\E"/) };

cmp_ok($with->(qr/TLSv1\.3 with .*: TLS_AES\S*(?:, session reused)?/,
               $etcd{plain}->tls_url), '>', 0, 'TLS 1.3 is the default');
cmp_ok($with->('TLSv1.2 with .*: ECDHE-ECDSA-AES256-GCM-SHA384',
               $etcd{plain}->tls_url), '>', 0, 'ssl_protocols, ssl_ciphers');
cmp_ok($with->('TLSv1.3 with .*: TLS_CHACHA20_POLY1305_SHA256',
               $etcd{plain}->tls_url), '>', 0, 'ssl_conf_command');

# configurations that fail

for my $name (sort keys %wrong) {
    my $reason = $wrong{$name}[2];
    my $failed = qr/cluster "$name": endpoint \S+ failed for \w+: .*$reason/;

    ok(wait_for(sub { $nginx->count_log($failed) }, 15, "$name fails"),
       "$name: $reason");
    is_deeply($shows{$name}->members, {}, "$name: nothing is read");

    # another worker becomes the agent where this one had no time for long

    my $agents = $nginx->count_log(qr/"$name": this worker is the agent/);

    my %errors;

    $errors{s/\d+//gr}++
        for $nginx->error_log =~ /\[error\].*"$name": .* for \w+: (.*)/g;

    is_deeply([grep { $errors{$_} > $agents } keys %errors], [],
              "$name: one error for each cause");
    is($nginx->status->{clusters}{$name}{endpoints}[0]{state}
       =~ /^(?:failed|connecting)$/ ? 1 : 0, 1, "$name: the status shows it");
}

is($nginx->get('/')->{body}, 'served', 'nginx serves');

# Sessions are resumed.

my $reused = sub {
    $with->('TLSv1.3 with .*, session reused', url($proxy->port))
};

for my $n (1 .. 2) {
    my $before = $reused->();

    $proxy->cut();

    ok(wait_for(sub { $reused->() > $before }, 10, 'a resumed session'),
       "connection $n after a failure resumes the session");

    $etcd{plain}->put('/s/3', "127.0.0.1:200$n");
    $shows{proxied}->shows({ %$two, '/s/3' => "127.0.0.1:200$n 1 up" },
                           "connection $n works");
}

$etcd{plain}->restart();
$etcd{plain}->del('/s/3');

$shows{$_}->shows($two, "$_: a restarted etcd is followed again")
    for qw(tls tls12 proxied mixed);

finish();


sub start {
    my ($certificate, %tls) = @_;

    return Etcd->new(tls => { cert => $certificate->cert,
                              key => $certificate->key, %tls })->start();
}


# a TLS server that is no etcd, by its port; of two options the last one holds

sub serve_tls {
    my (@options) = @_;

    my $port = free_port();
    my $pid = spawn(test_dir() . "/s_server-$port.log", 'openssl', 's_server',
                    '-accept', "127.0.0.1:$port", '-www',
                    '-cert', $server->cert, '-key', $server->key, @options);

    Finish::later(bless { pid => $pid }, 'Server');

    wait_for {
        IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port)
    } 10, 'openssl s_server';

    return $port;
}


sub Server::stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


sub url { "https://127.0.0.1:$_[0]" }
sub ca { 'ssl_trusted_certificate ' . $_[0]->cert . ';' }


sub identity {
    my ($cert, $key) = @_;

    return "ssl_certificate $cert; ssl_certificate_key $key;";
}
