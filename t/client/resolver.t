#!/usr/bin/perl

# Host names in endpoints: nginx asks a name server when it wants a connection,
# and no request waits for the answer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Dns;
use Etcd;
use Finish;
use Load;
use Nginx;
use Tls;
use Wait;


my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'DNS:right.test');

my $etcd = Etcd->new(tls => {
    cert => $server->cert,
    key  => $server->key,
})->start();

my ($backend) = Backend->start('one');
my $address = $backend->address;
my $dns = Dns->start();

$etcd->put('/s/1', $address);

# Nothing listens at 127.0.0.2 and 127.0.0.3.

my @here = ('127.0.0.1');

$dns->set('here.test'   => \@here);
$dns->set('both.test'   => ['127.0.0.2', '127.0.0.1']);
$dns->set('dead.test'   => ['127.0.0.2', '127.0.0.3']);
$dns->set('silent.test' => 'silence');
$dns->set('failed.test' => 'failure');
$dns->set('right.test'  => \@here);
$dns->set('wrong.test'  => \@here);

my %endpoints = (
    here    => 'http://here.test:%%PLAIN%%',
    both    => 'http://both.test:%%PLAIN%%',
    dead    => 'http://dead.test:%%PLAIN%%',
    nowhere => 'nowhere.test:%%PLAIN%%',
    silent  => 'http://silent.test:%%PLAIN%%',
    failed  => 'http://failed.test:%%PLAIN%%',
    next    => 'http://nowhere2.test:%%PLAIN%% http://here.test:%%PLAIN%%',
    right   => 'https://right.test:%%SECURE%%',
    wrong   => 'https://wrong.test:%%SECURE%%',
);

my $nginx = Nginx->new(etcd => $etcd)->set(
    PLAIN    => $etcd->port,
    SECURE   => $etcd->tls_port,
    DNS      => $dns->address,
    CA       => $ca->cert,
);

my $clusters = join('', map { <<"END" } sort keys %endpoints);
etcd $_ {
    endpoints $endpoints{$_};
    resolver %%DNS%% ipv6=off;
    resolver_timeout 500ms;
    ssl_trusted_certificate %%CA%%;
    zone 256k;
}
END

my $upstreams = join('', map {
    "    upstream $_ { etcd_members /s/ cluster=$_; }\n"
} sort keys %endpoints);

$nginx->start(<<"EOF");

$clusters

http {
$upstreams
    upstream plain {
        server $address;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://plain;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

my $members = { '/s/1' => "$address 1 up" };
my $load = Load->start($nginx->port, clients => 2);


$nginx->upstream($_)->shows($members, "$_: members")
    for qw(here both next right);

is($nginx->cluster('here')->{endpoint}, 'http://here.test:' . $etcd->port,
   'the status shows the name');
$nginx->comes_to_log(
    qr/"dead": endpoint http:\S+ 127\.0\.0\.[23]:\d+ failed: .*next address/,
    'several addresses are tried in turn');
$nginx->comes_to_log(
    qr/"dead": endpoint http:\S+ failed for .*Connection refused/,
    'and the endpoint has failed after the last of them');
$nginx->comes_to_log(
    qr/"nowhere": .* "nowhere\.test" could not be resolved: Host not found,/,
    'a name that does not exist is the failure of its endpoint');
$nginx->comes_to_log(
    qr/"failed".*"failed\.test" could not be resolved: Server failure/,
    'a name server that fails');
$nginx->comes_to_log(
    qr/"silent".*"silent\.test" could not be resolved: Operation timed out/,
    'a name server that says nothing');
$nginx->comes_to_log(
    qr/"wrong": endpoint https:\S+ failed for .*wrong\.test/,
    'a certificate has to be for the name');
is($nginx->cluster($_)->{state}, 'connecting', "$_: state")
    for qw(dead nowhere silent failed wrong);

# Names that did not exist may come.

$dns->set("$_.test" => \@here) for qw(dead nowhere silent failed);

$nginx->upstream($_)->shows($members, "$_: members, once the name is right")
    for qw(dead nowhere silent failed);

# Each connection asks again.

my $queries = $dns->queries('here.test');

$dns->set('here.test' => ['127.0.0.2']);
$etcd->restart();

ok(wait_for(sub { $dns->queries('here.test') > $queries }, 10, 'a query'),
   'a new connection is a new query');
$nginx->comes_to_log(
    qr/"here": endpoint http:\S+ failed for .*refused/,
    'the name leads elsewhere now');

$dns->set('here.test' => \@here);
$etcd->put('/s/2', '127.0.0.1:1');

$nginx->upstream('here')->shows({ %$members, '/s/2' => '127.0.0.1:1 1 up' },
                                'and back');

# Requests never wait for a name server.

my $seen = $load->results();

cmp_ok($seen->{requests}, '>', 100, 'there was load all the time');
is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
    or diag(Load::describe($seen));

finish();
