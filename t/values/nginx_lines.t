#!/usr/bin/perl

# Lines of nginx itself, whose cause is in etcd: docs/troubleshooting.md has
# each of them, and nginx writes them for the causes that the page names.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Docs;
use Etcd;
use Finish;
use Nginx;
use Slurp;
use Tls;
use Wait;

plan(skip_all => 'needs TLS in http') unless Nginx::has('http_ssl_module');

my $page = slurp(Docs::top() . '/docs/troubleshooting.md');
my ($table) = $page =~ /^## Lines of nginx itself\n(.*?)(?=^## |\z)/ms
    or die "no table\n";

my $etcd = Etcd->new()->start();
my $ca = Tls->new('ca');

$etcd->put('/rate', 'fast');
$etcd->put('/name', 'nosuch');
$etcd->put('/url', 'ftp://x');
$etcd->put('/address', '300.1.1.1');
$etcd->put('/zone', 'z9');

# the path of a request, or a port of stream; the text in the page, where NAME
# and so on stand for what nginx writes in their place; the configuration

my @rows = (
    ['/none', 'no live upstreams while connecting to upstream',
     'proxy_pass http://none;'],
    ['/name', 'no resolver defined to resolve nosuch',
     'proxy_pass http://$name;'],
    ['/missing', 'invalid URL prefix in "http://"',
     'proxy_pass http://$missing;'],
    ['/uri', 'no host in upstream "/x"', 'proxy_pass http://$missing/x;'],
    ['/grpc', 'invalid host in upstream "grpc://"',
     'grpc_pass grpc://$missing;'],
    ['/uwsgi', 'no host in upstream ""', 'uwsgi_pass $missing;'],
    ['/url', 'invalid URL prefix in "ftp://x"', 'proxy_pass $url;'],
    ['/port', 'no port in upstream "nosuch"', 'fastcgi_pass $name;'],
    ['/rate', 'invalid size "fast"', 'limit_rate $rate; return 200;'],
    ['/norate', 'invalid size ""', 'limit_rate $missing; return 200;'],
    ['/bind', 'invalid local address "300.1.1.1"',
     'proxy_bind $address; proxy_pass http://none;'],
    ['/cache', 'cache "z9" not found',
     'proxy_cache $zone; proxy_pass http://none;'],
    ['/pem', 'cannot load certificate "data:"',
     'proxy_ssl_certificate data:$missing; proxy_ssl_certificate_key '
     . 'data:$missing; proxy_pass https://tls;'],
    ['/tls', 'upstream SSL certificate does not match "tls"',
     'proxy_ssl_verify on; proxy_ssl_trusted_certificate %%CA%%; '
     . 'proxy_pass https://tls;'],
    ['stream_name', 'no port in upstream "nosuch"', 'proxy_pass $name;'],
    ['stream_missing', 'no host in upstream ""', 'proxy_pass $missing;'],
    ['stream_rate', 'invalid size "fast"',
     'proxy_upload_rate $rate; proxy_pass 127.0.0.1:%%PORT%%;'],
    ['stream_none', 'no live upstreams while connecting to upstream',
     'proxy_pass none;'],
);

my $nginx = Nginx->new(etcd => $etcd);

$ca->issue('server', san => 'DNS:other.test')->install($nginx->dir, 'server');
$nginx->set(CA => $ca->cert);

my ($http, $stream) = ('', '');

for my $row (@rows) {
    my ($where, undef, $lines) = @$row;

    if ($where =~ m{^/}) {
        $http .= "location = $where { $lines }\n";

    } else {
        $stream .= "server { listen 127.0.0.1:%%PORT_$where%%; $lines }\n";
    }
}

$nginx->start(<<"EOC");
etcd {
    endpoints %%ETCD%%;
}

http {
    upstream none { etcd_members /none/; }
    upstream tls { etcd_members /tls/; }
    proxy_cache_path %%DIR%%/cache keys_zone=one:1m;

    etcd_set \$rate /rate;
    etcd_set \$name /name;
    etcd_set \$missing /missing;
    etcd_set \$url /url;
    etcd_set \$address /address;
    etcd_set \$zone /zone;
    etcd_set \$routed /routes/\$arg_to/x;

    server {
        listen 127.0.0.1:%%PORT%%;
        location = /status { etcd_status; }
        location = /routed { proxy_pass http://\$routed; }
        $http
    }

    server {
        listen 127.0.0.1:%%PORT_tls%% ssl;
        ssl_certificate server.crt;
        ssl_certificate_key server.key;
    }
}

stream {
    upstream none { etcd_members /none/; }

    etcd_set \$rate /rate;
    etcd_set \$name /name;
    etcd_set \$missing /missing;

    $stream
}
EOC

$etcd->put('/tls/1', '127.0.0.1:' . $nginx->port('PORT_tls'));

wait_for {
    my $status = $nginx->status;

    @{ $status->{upstreams}{tls}{members} } == 1
        && !grep { !defined $status->{variables}{"\$$_"}{value} }
                 qw(rate name url address zone);
} 20, 'the keys to be read';


sub ask {
    my ($where) = @_;

    return $nginx->get($where)->{status} if $where =~ m{^/};

    my $line = $nginx->line($where);

    $line->tell('x');

    return $line;
}


for my $row (@rows) {
    my ($where, $text) = @$row;
    my $before = $nginx->count_log(qr/\Q$text\E/);
    my $answer = ask($where);

    $nginx->logs(qr/\Q$text\E/, $before + 1, "$where: $text");
    $answer->close if ref($answer);
    like($table, qr/`\Q$text\E`/, 'the page has it');
}

like($nginx->error_log, qr/no usable member of "none": there is none below/,
     'a line of these modules comes before "no live upstreams"');

# A line of these modules has the key, if a variable without a value is the
# cause.  It comes once a second.

my $empty = qr{variable "\$missing" is empty: key "/missing" has no value};

for my $where ('/missing', '/uri', '/grpc', '/uwsgi', '/pem',
               'stream_missing')
{
    my $before = $nginx->count_log($empty);

    ok((wait_for {
        my $answer = ask($where);

        $answer->is_closed(20) if ref($answer);
        $nginx->count_log($empty) > $before;
    } 20), "$where: the key of the variable");
}

my $routed = qr{"\$routed" is empty: key "/routes/shop/x" has no value};

ok((wait_for { ask('/routed?to=shop'); $nginx->count_log($routed) } 20),
   'a key with a variable');
is($nginx->count_log(qr/variable "\$(?!missing|routed)\w+" is empty/), 0,
   'no line names another variable');

# a name that no upstream has

my ($ok, $output) = Nginx->new()->configtest(
    'http { server { location / { proxy_pass http://nosuch; } } }');

ok(!$ok, 'an upstream that is not there');
like($output, qr/host not found in upstream "nosuch"/, 'is taken for a host');
like($table, qr/`host not found in upstream "nosuch"`/, 'the page has it');

finish();
