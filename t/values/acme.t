#!/usr/bin/perl

# conf-examples/acme.conf and acme.sh with two nginxes, a real ACME server
# (Pebble) and certbot: the nginx that leads asks, the other one answers the
# challenge, both serve the certificate without a failed handshake; when the one
# that leads is killed, the other one renews.

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
use Tls;
use Wait;

use constant NAME => 'www.acme.test';

plan(skip_all => 'this nginx has no TLS')
    if Nginx::built_with() !~ /--with-http_ssl_module/;

for my $program (qw(pebble certbot)) {
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

my %nginx = map {
    my $nginx = Nginx->new(etcd => $etcd);

    $nginx->set(DIR => $nginx->dir);
    $default->install($nginx->dir, 'default');

    my $text = Example::adapt(Example::text('acme'))
        =~ s{endpoints [^;]*}{endpoints %%ETCD%%}r
        =~ s{value=\$hostname}{value=$_ ttl=2s}r;

    ($_ => $nginx->start($text));
} qw(a b);

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

sub renew {
    my ($who, $server, %env) = @_;

    my $nginx = $nginx{$who};

    local @ENV{qw(ACME_LEADS ACME_HTTP ACME_DIR ACME_CERTBOT ETCDCTL_ENDPOINTS
                  REQUESTS_CA_BUNDLE)} = (
        'http://127.0.0.1:' . $nginx->port('PORT_8081') . '/leads',
        'http://127.0.0.1:' . $nginx->port('PORT'),
        $nginx->dir . '/acme',
        "--server $server --register-unsafely-without-email",
        $etcd->endpoints,
        $ca->cert,
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


# Handshakes until it is ended: how many, and how many have failed.

sub handshakes {
    my (@of) = @_;

    pipe(my $end, my $stop) or die "pipe: $!\n";
    pipe(my $result, my $tell) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        my ($n, $failed) = (0, 0);

        close($stop);
        $end->blocking(0);

        until (defined sysread($end, my $byte, 1)) {
            $n++;
            $failed++ if serial($of[$n % @of]) eq '';
        }

        syswrite($tell, "$n $failed\n");
        POSIX::_exit(0);
    }

    close($_) for $end, $tell;

    return sub {
        close($stop);
        my $line = <$result> // '';
        waitpid($pid, 0);

        return split(' ', $line);
    };
}


wait_for { leader() } 30, 'a leader' or BAIL_OUT('nobody leads');

my $first = leader();
my ($other) = grep { $_ ne $first } sort keys %nginx;
my $server = authority($nginx{$other});

my $before = serial($nginx{$first});

isnt($before, '', 'a name without a certificate has the default');

# The nginx that does not lead asks for nothing.

is_deeply([renew($other, $server)], [0, ''],
          'the other nginx asks for nothing');
is($etcd->get('/certs/' . NAME . '/crt'), undef, 'there is no certificate');

# The first certificate: the authority asks the nginx that has not asked.

my ($status, $output) = renew($first, $server);

is($status, 0, 'the nginx that leads asks for a certificate') or diag($output);
like($etcd->get('/certs/' . NAME . '/crt') // '', qr/BEGIN CERTIFICATE/,
     'which is in etcd');
ok(wait_for(sub { serial($nginx{$first}) ne $before }, 10), 'it serves it');

my $serial = serial($nginx{$first});

becomes { serial($nginx{$other}) } $serial, 'and so does the other one';

is_deeply([renew($first, $server)], [0, ''], 'asked again it does nothing');
is(serial($nginx{$first}), $serial, 'the certificate is young');

# A renewal under load: no handshake fails.

my $ended = handshakes(@nginx{$first, $other});

($status, $output) = renew($first, $server, ACME_DAYS => 36500);
is($status, 0, 'a renewal') or diag($output);
ok(wait_for(sub { !grep { serial($_) eq $serial } values %nginx }, 10),
   'both have the new certificate');

my ($n, $failed) = $ended->();

cmp_ok($n, '>', 5, 'there were handshakes all the time');
is($failed, 0, 'and none has failed');

# the one that leads is killed

$serial = serial($nginx{$other});
(delete $nginx{$first})->crash;
becomes { leader() // '' } $other, 'another nginx leads', 30;

($status, $output) = renew($other, $server, ACME_DAYS => 36500);
is($status, 0, 'and renews') or diag($output);
ok(wait_for(sub { serial($nginx{$other}) !~ /^(?:\Q$serial\E)?$/ }, 10),
   'its certificate is served');

$nginx{$other}->stop;

finish();
