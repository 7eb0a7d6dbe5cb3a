#!/usr/bin/perl

# "srv:NAME" in endpoints: SRV records name the etcd servers, and may change at
# any time.  What a name server does not know leaves the endpoints as they are.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Cluster;
use Conf;
use Dns;
use Etcd;
use Finish;
use Nginx;
use Tls;
use Wait;


# nginx -t refuses these.

refused('without resolver', etcd('endpoints srv:etcd.test;'),
        'etcd cluster "default" has "srv:etcd.test" among its "endpoints" and '
        . 'no "resolver" in AT', 3);

my $resolver = 'resolver 127.0.0.1;';
my $long = 'srv:' . 'a' x 232;

for (['srv:', 'srv:', 'no host'],
     ['srv:a/b', 'srv:a/b', 'invalid host'],
     [$long, $long, 'it is too long'],
     ['srv:a srv:b', 'srv:b', 'there is another "srv:"'])
{
    my ($value, $part, $reason) = @$_;

    refused("endpoints $value", etcd("endpoints $value;", $resolver),
            "invalid endpoint \"$part\": $reason in AT", 2);
}

passes('SRV records', etcd('endpoints srv:etcd.test;', $resolver));
passes('the longest name', etcd('endpoints ' . substr($long, 0, -1) . ';',
                                $resolver));
passes('beside a URL', etcd('endpoints srv:etcd.test http://127.0.0.1:1;',
                            $resolver));
passes('a host of the name "srv"', etcd('endpoints srv:2379;', $resolver));

my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'DNS:one.test,DNS:secure.test');

my $etcd = Etcd->new(tls => {
    cert => $server->cert,
    key  => $server->key,
})->start();

my ($backend) = Backend->start('one');
my $address = $backend->address;
my $dns = Dns->start();
my $cluster = Cluster->new(3)->start();
my @members = $cluster->members;

$etcd->put('/s/1', $address);
$members[0]->put('/s/1', $address);

my @here = ('127.0.0.1');

$dns->set("$_.test" => \@here) for qw(one two three wrong);


# Sets the records of a name, of https and of http: PORT HOST.

sub records {
    my ($name, $secure, $plain) = @_;

    my $priority = 0;

    my %answers = (
        "_etcd-client-ssl._tcp.$name.test" => $secure,
        "_etcd-client._tcp.$name.test"     => $plain,
    );

    ref and $_ = [map { 'srv ' . ++$priority . " 5 $_" } @$_]
        for values %answers;

    $dns->set(%answers);
}


my ($plain, $secure) = ($etcd->port, $etcd->tls_port);
my @ports = map { $_->port } @members;
my @servers = map { "$ports[$_] " . (qw(one two three))[$_] . '.test' } 0 .. 2;

records('plain',  undef, [$servers[0]]);
records('secure', ["$secure one.test"], ["$plain one.test"]);
records('wrong',  ["$secure wrong.test"], undef);
records('nossl',  ["$secure one.test"], ["$plain one.test"]);
records('silent', 'failure', undef);
records('many',   undef, [map { "$_ one.test" } $plain, 1 .. 20]);
records('none',   undef, ['0 .']);

my $tls = 'ssl_trusted_certificate %%CA%%;';

my %clusters = (
    plain  => '',
    secure => $tls,
    wrong  => $tls,
    nossl  => '',
    silent => '',
    many   => 'connect_timeout 1s;',
    none   => '',
    absent => '',
);

my $nginx = Nginx->new(etcd => $etcd)->set(DNS => $dns->address,
                                           CA => $ca->cert);

my $blocks = join('', map { <<"END" } sort keys %clusters);
etcd $_ {
    endpoints srv:$_.test;
    resolver %%DNS%% ipv6=off;
    rebalance 1s;
    zone 256k;
    $clusters{$_}
}
END

my $upstreams = join('', map {
    "    upstream $_ { etcd_members /s/ cluster=$_; }\n"
} sort keys %clusters);

$nginx->start(<<"EOF");

$blocks

http {
$upstreams
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

my $there = { '/s/1' => "$address 1 up" };


sub urls {
    return join(' ', sort map { $_->{url} }
                     @{ $nginx->cluster(@_)->{endpoints} });
}


sub has {
    my ($name, $wanted, $text) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok(wait_for(sub { urls($name) eq $wanted }, 20, $text), $text)
        || diag(urls($name));
}


sub all { join(' ', sort map { 'http://' . s/(\S+) (\S+)/$2:$1/r } @_) }

$nginx->upstream($_)->shows($there, "$_: members")
    for qw(plain secure nossl many);

has('plain', all($servers[0]), 'the target of http is an endpoint');
ok($nginx->cluster('plain')->{endpoints}[0]{learned}, 'it is learned');
has('secure', "https://one.test:$secure",
    'with TLS, only the target of https is one');
$nginx->comes_to_log(
    qr{\[warn\].*"secure": SRV target "http:\S+" is ignored: it is not https},
    'the other one is said');
has('nossl', "http://one.test:$plain", 'without, only that of http');
$nginx->comes_to_log(
    qr{\[warn\].*"nossl": SRV target "https:\S+" is ignored: it is https},
    'which is said, too');
$nginx->comes_to_log(
    qr/"wrong": endpoint https:\S+ failed for .*wrong\.test/,
    'a certificate has to be for the target');
is(scalar(@{ $nginx->cluster('many')->{endpoints} }), 16, 'there is a limit');
$nginx->comes_to_log(
    qr/"many": SRV target "\S+" is ignored: there are too many endpoints/,
    'what is beyond it is said');


# No answer yet.

my %reasons = (
    absent => 'there are no SRV records',
    none   => 'there are no SRV records',
    silent => '"_etcd-client-ssl\._tcp\.silent\.test" could not be resolved: '
              . 'Server failure',
);

for my $name (sort keys %reasons) {
    my $error = qr/\[error\].*"$name": no endpoints by "srv:$name\.test": /;
    my $queries = $dns->queries("_etcd-client._tcp.$name.test");

    $nginx->comes_to_log(qr/$error$reasons{$name}/, "$name: an error");
    ok(wait_for(sub {
        $dns->queries("_etcd-client._tcp.$name.test") > $queries + 2
    }, 20), "$name: nginx asks again");
    is($nginx->cluster($name)->{state}, 'connecting', "$name: state");
    is($nginx->count_log($error), 1, "$name: one error");

    records($name, undef, ["$plain one.test"]);
    $nginx->upstream($name)->shows($there, "$name: members, with records");
    $nginx->comes_to_log(
        qr/"$name": endpoints by "srv:$name\.test" are known again/,
        "$name: it is said");
}


# Members come, and go.

records('plain', undef, \@servers);
has('plain', all(@servers), 'records that were added are endpoints');

$members[0]->stop();
ok(wait_for(sub {
    my $now = $nginx->cluster('plain');

    $now->{state} eq 'synced' && $now->{endpoint} !~ /one/
}, 20), 'one of them takes over');

records('plain', undef, [@servers[1, 2]]);
has('plain', all(@servers[1, 2]), 'one that is not named any more goes');


# Answers that name nothing change nothing.

my $stay = qr/\[warn\].*"plain": endpoints by "srv:\S+" stay as they are/;
my $known = qr/"plain": endpoints by "srv:\S+" are known again/;
my $turn = 0;

for my $answer (undef, [], 'failure', 'silence') {
    my $what = !defined $answer ? 'no name' : ref $answer ? 'no record'
             : $answer;

    records('plain', $answer, $answer);
    $turn++;
    ok(wait_for(sub { $nginx->count_log($stay) == $turn }, 20),
       "$what: it is said");

    my $queries = $dns->queries('_etcd-client._tcp.plain.test');

    ok(wait_for(sub {
        $dns->queries('_etcd-client._tcp.plain.test') > $queries + 1
    }, 30), "$what: nginx asks again");
    is($nginx->count_log($stay), $turn, "$what: once");
    is(urls('plain'), all(@servers[1, 2]), "$what: the endpoints stay");
    is($nginx->cluster('plain')->{state}, 'synced', "$what: they are used");

    records('plain', undef, [@servers[1, 2]]);
    ok(wait_for(sub { $nginx->count_log($known) == $turn }, 20),
       "$what: its end is said");
}

$members[1]->put('/s/2', '127.0.0.1:1');
$nginx->upstream('plain')->shows({ %$there, '/s/2' => '127.0.0.1:1 1 up' },
                                 'changes arrive all the time');

finish();
