#!/usr/bin/perl

# conf-examples/acme.conf and acme.sh with two nginxes, a real ACME server
# (Pebble), and certbot or lego: the nginx that leads asks, the other one
# answers the challenge, both serve the certificate without a failed handshake;
# when the one that leads is killed, the other one renews.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use POSIX ();
use JSON::PP;
use Test::More;

use Becomes;
use Dns;
use Etcd;
use Example;
use Finish;
use Nginx;
use Port;
use Process;
use Slurp;
use Tls;
use Upstream;
use Wait;

use constant {
    NAME => 'www.acme.test',
    CERT => '/certs/www.acme.test/crt',

    ENOUGH => 20,                   # handshakes
};

plan(skip_all => 'this nginx has no TLS')
    if Nginx::built_with() !~ /--with-http_ssl_module/;

for my $program (qw(pebble certbot lego)) {
    plan(skip_all => "there is no $program")
        if !grep { -x "$_/$program" } split(/:/, $ENV{PATH});
}

my $script = "$FindBin::Bin/../../conf-examples/acme.sh";
my $dir = test_dir();
my $etcd = Etcd->new()->start();
my $dns = Dns->start();
my $ca = Tls->new('acme_ca');
my $own = $ca->issue('pebble', san => 'IP:127.0.0.1');
my $default = $ca->issue('default', san => 'DNS:default.test');

$dns->set(NAME() => ['127.0.0.1']);

my %lego = map { $_ => '127.0.0.1:' . free_port() } qw(a b);
my %nginx;

sub start_nginx {
    my ($name) = @_;

    my $nginx = Nginx->new(etcd => $etcd);

    $nginx->set(DIR => $nginx->dir);
    $default->install($nginx->dir, 'default');

    my $text = Example::adapt(Example::text('acme'))
        =~ s{endpoints [^;]*}{endpoints %%ETCD%%}r
        =~ s{value=[^;]*}{value=$lego{$name} ttl=2s}r
        =~ s{(?=location \@lego)}{location /status { etcd_status; }\n}r;

    $nginx{$name} = $nginx->start($text);
}


sub leads {
    my ($nginx) = @_;

    my $answer = $nginx->http('PORT_8081')->get('/leads');

    return ($answer->{status} // 0) == 200;
}


# The name of the nginx that leads; none while nobody does.

sub leader { (grep { $nginx{$_} && leads($nginx{$_}) } sort keys %nginx)[0] }


# The authority asks at the HTTP port of that nginx.

sub authority {
    my ($nginx) = @_;

    my $port = free_port();
    my $config = "$dir/pebble.json";

    open(my $file, '>', $config) or die "open: $!\n";
    print $file encode_json({ pebble => {
        listenAddress           => "127.0.0.1:$port",
        managementListenAddress => '127.0.0.1:' . free_port(),
        certificate             => $own->cert,
        privateKey              => $own->key,
        httpPort                => $nginx->port('PORT') + 0,
        tlsPort                 => 1,
        ocspResponderURL        => '',
        externalAccountBindingRequired => JSON::PP::false,
    } });
    close($file);

    local $ENV{PEBBLE_VA_NOSLEEP} = 1;
    local $ENV{PEBBLE_WFE_NONCEREJECT} = 0;

    my $pid = spawn("$dir/pebble.log", 'pebble', '-config', $config,
                    '-dnsserver', $dns->address);

    Finish::later(bless { pid => $pid }, 'Authority');

    wait_for {
        IO::Socket::INET->new("127.0.0.1:$port")
    } 30, 'pebble';

    return "https://127.0.0.1:$port/dir";
}


sub Authority::stop {
    my $pid = delete $_[0]{pid} or return;

    stop_child($pid);
}


# Runs the script on the machine of one nginx: its status and what it says.

my %client = (
    certbot => {
        ACME_CERTBOT       => '--register-unsafely-without-email',
        REQUESTS_CA_BUNDLE => $ca->cert,
    },
    lego => {
        ACME_LEGO            => '-m admin@acme.test',
        LEGO_CA_CERTIFICATES => $ca->cert,
    },
);

sub renew {
    my ($client, $who, $server, %env) = @_;

    my $nginx = $nginx{$who};
    my %own = %{ $client{$client} };

    $own{ 'ACME_' . uc($client) } .= " --server $server";

    %env = (
        ACME_LEADS        => 'http://127.0.0.1:' . $nginx->port('PORT_8081')
                             . '/leads',
        ACME_HTTP         => 'http://127.0.0.1:' . $nginx->port('PORT'),
        ACME_DIR          => $nginx->dir . "/$client",
        ACME_LISTEN       => $lego{$who},
        ETCDCTL_ENDPOINTS => $etcd->endpoints,
        %own,
        %env,
    );

    local @ENV{keys %env} = values %env;

    return run('sh', $script, NAME);
}


# the serial number that a handshake gets; none: it has failed

sub serial {
    my ($nginx) = @_;

    my $to = '127.0.0.1:' . $nginx->port('PORT_8443');
    my $pem = join(' ', 'openssl s_client -connect', $to, '-servername', NAME,
                   '</dev/null 2>/dev/null');

    return scalar(qx{$pem | openssl x509 -noout -serial 2>/dev/null}) // '';
}


# Handshakes until END is closed: a line for each in the file, "failed" or not.

sub handshakes {
    my ($file, @of) = @_;

    pipe(my $end, my $stop) or die "pipe: $!\n";
    open(my $log, '>', $file) or die "open $file: $!\n";
    $log->autoflush(1);

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        my $n = 0;

        close($stop);
        $end->blocking(0);

        until (defined sysread($end, my $byte, 1)) {
            print $log serial($of[$n++ % @of]) eq '' ? "failed\n" : "\n";
        }

        POSIX::_exit(0);
    }

    return sub {
        close($stop);
        waitpid($pid, 0);
    };
}


sub lines { scalar(my @lines = slurp($_[0]) =~ /^.*\n/mg) }


# A certificate, its renewal under load, and the death of the nginx that leads

sub walk {
    my ($client) = @_;

    start_nginx($_) for sort keys %lego;
    wait_for { leader() } 30, 'a leader' or BAIL_OUT('nobody leads');

    my $first = leader();
    my ($other) = grep { $_ ne $first } sort keys %nginx;
    my $server = authority($nginx{$other});
    my $renew = sub { renew($client, shift, $server, @_) };

    my $upstream = Upstream->new($nginx{$other}, 'lego');

    becomes { join(' ', map { $_->{address} } $upstream->used) } $lego{$first},
        "$client: the other nginx knows who leads";

    my $before = serial($nginx{$first});

    isnt($before, '', 'a name without a certificate has the default');

    # The nginx that does not lead asks for nothing.

    is_deeply([$renew->($other)], [0, ''], 'the other nginx asks for nothing');
    is($etcd->get(CERT), undef, 'there is no certificate');

    # The first certificate: the authority asks the nginx that has not asked.

    my ($status, $output) = $renew->($first);

    is($status, 0, 'the nginx that leads asks for a certificate')
        or diag($output);
    like($etcd->get(CERT) // '', qr/BEGIN CERTIFICATE/, 'which is in etcd');
    ok(wait_for(sub { serial($nginx{$first}) ne $before }, 10),
       'it serves it');

    my $serial = serial($nginx{$first});

    becomes { serial($nginx{$other}) } $serial, 'and so does the other one';

    is_deeply([$renew->($first)], [0, ''], 'asked again it does nothing');
    is(serial($nginx{$first}), $serial, 'the certificate is young');

    # Renewals under load: no handshake fails.

    my $log = "$dir/handshakes";
    my $end = handshakes($log, @nginx{$first, $other});

    do {
        $serial = serial($nginx{$first});
        ($status, $output) = $renew->($first, ACME_DAYS => 36500);
        is($status, 0, 'a renewal') or diag($output);
        ok(wait_for(sub { !grep { serial($_) eq $serial } values %nginx }, 10),
           'both have the new certificate');
    } until ($status || lines($log) >= ENOUGH);

    $end->();
    unlike(slurp($log), qr/failed/, 'no handshake has failed');

    # the one that leads is killed

    $serial = serial($nginx{$other});
    (delete $nginx{$first})->crash;
    becomes { leader() // '' } $other, 'another nginx leads', 30;

    ($status, $output) = $renew->($other, ACME_DAYS => 36500);
    is($status, 0, 'and renews') or diag($output);
    ok(wait_for(sub { serial($nginx{$other}) !~ /^(?:\Q$serial\E)?$/ }, 10),
       'its certificate is served');

    (delete $nginx{$other})->stop;
    $etcd->del_prefix('/certs/');
}


walk($_) for sort keys %client;

finish();
