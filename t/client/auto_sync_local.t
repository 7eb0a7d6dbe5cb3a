#!/usr/bin/perl

# auto_sync: endpoints that members advertise must not lead to the own machine,
# in whatever way they are written, if no endpoint of the configuration does.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Dns;
use Etcd;
use Finish;
use Nginx;
use Port;
use Wait;

# The configuration has a name that does not show where it leads.

my $dns = Dns->start();

$dns->set('etcd.test' => ['127.0.0.1']);
$dns->set('inside.test' => ['127.0.0.1']);

my $port = free_port();

# A foreign service on this machine would listen at these addresses, too.

my @local = map { "http://$_:$port" } '127.0.0.1', '127.1.2.3', '0.0.0.0',
            '[::1]', '[::]', '[::ffff:127.0.0.1]', '[::ffff:7f01:203]',
            'localhost', 'LOCALHOST.', 'etcd.localhost';
my @other = map { "http://$_:$port" } 'inside.test', 'localhost.test';

my $etcd = Etcd->new(args => ['--advertise-client-urls',
                              join(',', @local, @other)]);

$etcd->{port} = $port;
$etcd->{http} = $etcd->http();
$etcd->start();
$etcd->put('/s/1', '127.0.0.1:1');

my $nginx = Nginx->new()->set(PLACE => "etcd.test:$port",
                              DNS => $dns->address);

$nginx->start(<<'EOC');

etcd {
    endpoints http://%%PLACE%%;
    resolver %%DNS%% ipv6=off;
    connect_timeout 300ms;
    auto_sync 100ms;
}

etcd here {
    endpoints http://%%PLACE%% http://127.0.0.1:1;
    resolver %%DNS%% ipv6=off;
    connect_timeout 300ms;
    auto_sync 100ms;
    zone 256k;
}

http {
    upstream api {
        etcd_members /s/;
    }

    upstream local {
        etcd_members /s/ cluster=here;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

my $reason = 'it is an address of the local machine';


sub learned {
    my @urls = map { $_->{url} } grep { $_->{learned} }
               @{ $nginx->cluster(@_)->{endpoints} };

    return join(' ', sort @urls);
}


ok(wait_for(sub { learned() eq join(' ', sort @other) }, 10, 'URLs'),
   'URLs that lead elsewhere are learned') or diag(learned());

for my $url (@local) {
    my $ignored = qr/"default": .* URL "\Q$url\E" is ignored: $reason/;

    $nginx->logs($ignored, 1, "$url is not");
}

ok(wait_for(sub { learned('here') =~ /127\.1\.2\.3/ }, 10, 'all'),
   'where the configuration has one, others are learned, too');

# Only learned endpoints are left: one of them leads to this machine, which its
# name does not show.

my $gone = qr{"default": endpoint http://etcd\.test:.* could not be resolved};
my $inside = qr{"default": endpoint http://inside\.test:.* $reason};

# nginx keeps an answer to the end of the second, whatever the TTL is.

$dns->set('etcd.test' => undef);
$etcd->kill();
ok(wait_for(sub { $nginx->count_log($gone) }, 20, 'the name to go'),
   'the name of the configuration is not known any more');

my $before = $nginx->count_log($inside);

$etcd->launch($etcd->{cluster});

ok(wait_for(sub { $nginx->count_log($inside) > $before }, 20, 'the name'),
   'a name that leads to the own machine is not used');

ok(wait_for(sub { $nginx->cluster('here')->{state} eq 'synced' }, 20,
            'the other'),
   'but where the configuration has one that does');

ok(wait_for(sub { $nginx->cluster()->{state} ne 'synced' }, 20,
            'the end of it'),
   'not even as the last one');

$dns->set('etcd.test' => ['127.0.0.1']);
ok(wait_for(sub { $nginx->cluster()->{state} eq 'synced' }, 20, 'etcd'),
   'the configured one is');
is($nginx->count_log(qr{"default": endpoint http://inside\.test:\d+ answers}),
   0, 'the name never was');

finish();
