#!/usr/bin/perl

# CPU time of the workers per TLS handshake: certificate and key from etcd over
# static ones, and beside files that nginx's variables name; in the same nginx.
# With nginx 1.27.4 and later, both also with its cache of certificates.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Etcd;
use Finish;
use Nginx;
use Process;
use Tls;
use Wait;

use constant {
    NAMES   => 1000,
    ROUNDS  => $ENV{BENCH_ROUNDS} || 15,
    SECONDS => $ENV{BENCH_SECONDS} || 1,
};

my $caches = Nginx::version() >= 1027004;

# Each kind of certificate is in each place of the order equally often.

my @kinds = (qw(STATIC ETCD FILE CONTROL), $caches ? qw(ETCD_KEPT FILE_KEPT)
                                                    : ());
my @orders = map {
    my @order = (@kinds[$_ .. $#kinds], @kinds[0 .. $_ - 1]);

    (\@order, [reverse @order]);
} 0 .. $#kinds;

my $config = <<'EOF_CONFIG';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 32m;
}

http {
    etcd_set $cert /certs/$server_port/crt type=pem;
    etcd_set $key /certs/$server_port/key type=pem;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_STATIC%% ssl;
        listen 127.0.0.1:%%PORT_CONTROL%% ssl;
        ssl_certificate %%CRT%%;
        ssl_certificate_key %%KEY%%;
    }

    server {
        listen 127.0.0.1:%%PORT_ETCD%% ssl;
        ssl_certificate data:$cert;
        ssl_certificate_key data:$key;
    }

    server {
        listen 127.0.0.1:%%PORT_FILE%% ssl;
        ssl_certificate %%DIR%%/$server_addr.crt;
        ssl_certificate_key %%DIR%%/$server_addr.key;
    }

    %%KEPT%%
}

EOF_CONFIG

my $kept = join('', map { <<"EOF_SERVER" }
    server {
        listen 127.0.0.1:%%PORT_$_->[0]%% ssl;
        ssl_certificate $_->[1];
        ssl_certificate_key $_->[2];
        ssl_certificate_cache max=2000;
    }

EOF_SERVER
    ['ETCD_KEPT', 'data:$cert', 'data:$key'],
    ['FILE_KEPT', map { "%%DIR%%/\$server_addr.$_" } qw(crt key)]);

$config =~ s/%%KEPT%%/$caches ? $kept : ''/e;

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

my $pair = make();
my ($crt, $key) = map { Tls::read_file($_) } @$pair;

$nginx->write_file('127.0.0.1.crt', $crt);
$nginx->write_file('127.0.0.1.key', $key);

my @names = map { $nginx->port("PORT_$_") } grep { /^ETCD/ } @kinds;

for my $name (1 .. NAMES - @names, @names) {
    $etcd->txn([put => "/certs/$name/crt", $crt],
               [put => "/certs/$name/key", $key]);
}

$nginx->set(CRT => $pair->[0], KEY => $pair->[1], DIR => $nginx->dir)
      ->start($config);

wait_for {
    ($nginx->status->{variables}{'$key'}{values} // 0) == 2 * NAMES
} 30, 'the certificates' or die "there are no certificates\n";

# The first round only warms up.

my @rounds = map { {
    map { $_ => handshake_cost($_) } @{ $orders[$_ % @orders] }
} } 0 .. ROUNDS;

shift @rounds;


sub make {
    my @files = map { test_dir() . "/bench.$_" } qw(crt key);

    my ($status, $output) = run('openssl', 'req', '-x509', '-nodes',
                                '-newkey', 'ec',
                                '-pkeyopt', 'ec_paramgen_curve:prime256v1',
                                '-subj', '/CN=bench', '-days', 9,
                                '-out', $files[0], '-keyout', $files[1]);

    $status == 0 or die $output;

    return \@files;
}


# microseconds of a handshake

sub handshake_cost {
    my ($server) = @_;

    my @workers = $nginx->workers();
    my $before = cpu_time(@workers);

    my ($status, $output) = run('openssl', 's_time', '-new', '-time', SECONDS,
                                '-connect', '127.0.0.1:'
                                . $nginx->port("PORT_$server"));

    my $used = cpu_time(@workers) - $before;
    my ($handshakes) = $output =~ /^(\d+) connections in \d+ real seconds/m;

    $handshakes or die "s_time: $output\n";

    return $used / $handshakes * 1e6;
}


sub column {
    my ($server) = @_;

    return (spread_of('%.0f', sub { $_[0]{$server} }, @rounds),
            spread_of('%.3f', sub { $_[0]{$server} / $_[0]{STATIC} }, @rounds));
}


my ($names, $number, $seconds) = (NAMES, ROUNDS, SECONDS);

publish('Certificates in etcd', <<"END",
CPU time of a worker per full TLS 1.3 handshake, in microseconds, with an ECDSA
key (P-256): with `type=pem`, of $names names in etcd; with files that a
variable names; over a static certificate. $number rounds, $seconds s of
`openssl s_time -new` for each, in several orders. The control is the static
certificate once more.@{[$caches ? " The cache is `ssl_certificate_cache`."
                                 : '']}
END
    table(['certificate', 'us', 'over static'],
          ['static', (column('STATIC'))[0], '1'],
          ['in etcd, `type=pem`', column('ETCD')],
          ['in files, named by a variable', column('FILE')],
          ($caches ? (['in etcd, with the cache', column('ETCD_KEPT')],
                      ['in files, with the cache', column('FILE_KEPT')])
                   : ()),
          ['control', column('CONTROL')]));

finish();
