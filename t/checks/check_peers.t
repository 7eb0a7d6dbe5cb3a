#!/usr/bin/perl

# "etcd_check" and what members answer, or do not: half of them behind a link
# that swallows everything, broken and endless answers, TLS, gRPC, sockets, and
# members that have to prove that they work first.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Netns;

BEGIN { Netns::enter() }

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Scripted;
use Tls;
use Told;
use Upstream;
use Wait;

use constant HOLES => 8;

plan(skip_all => 'this nginx has no HTTP/2') if !Nginx::has('http_v2_module');

# Packets to addresses behind this link get no answer.

Netns::ip('link', 'add', 'hole', 'type', 'veth', 'peer', 'name', 'nowhere');
Netns::ip('addr', 'add', '10.9.0.1/24', 'dev', 'hole');
Netns::ip('link', 'set', 'hole', 'up');

my $etcd = Etcd->new()->start();
my @backends = Backend->start(map { "b$_" } 1 .. HOLES);
my ($told) = Told->start('told');
my ($first, $second, $late) = Backend->start(qw(first second late));

# a message of gRPC: NOT_SERVING

my $sick = Backend->start('sick');

$sick->set(body => "\0\0\0\0\2\x08\2",
           headers => { 'Content-Type' => 'application/grpc' });

my $ok = "HTTP/1.1 200 OK\r\n";

my %answers = (
    plain    => [[0, "${ok}Content-Length: 2\r\n\r\nok"]],
    chunked  => [[0, "${ok}Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n"],
                 [0.02, "1\r\nk\r\n0\r\n\r\n"]],
    open     => [[0, "$ok\r\nok"], [0.02, undef]],
    endless  => [[0, "$ok\r\nok" . 'x' x 20_000]],
    wrong    => [[0, "${ok}Content-Length: 2\r\n\r\nno"]],
    header   => [[0, $ok . join('', map { "X-$_: y\r\n" } 1 .. 2000)]],
    stranger => [[0, "SSH-2.0-OpenSSH_9.2\r\n"]],
    number   => [[0, "HTTP/1.1 20x OK\r\n\r\n"]],
    length   => [[0, "${ok}Content-Length: -1\r\n\r\nok"]],
    half     => [[0, "${ok}Content-Length: 9\r\n\r\nok"], [0.02, undef]],
    nothing  => [[0, undef]],
    moved    => [[0, "HTTP/1.1 301 Moved\r\nContent-Length: 2\r\n\r\nok"]],
    dripping => [map { [0.3, $_] } split(//, $ok)],
    silent   => [[1000, 'x']],
    settings => [[0, "\0\0\0\4" . "\0" x 5], [0.02, undef]],
);

my %results = (
    plain => 'ok', chunked => 'ok', open => 'ok', endless => 'ok',
    wrong => 'body', header => 'body', stranger => 'invalid',
    number => 'invalid', length => 'invalid', half => 'closed',
    nothing => 'closed', moved => 'status 301', dripping => 'timeout',
    silent => 'timeout', settings => 'closed',
);

my $scripted = Scripted->start(%answers);
my $ca = Tls->new('ca');
my $server = $ca->issue('api.test', san => 'DNS:api.test');

my $configuration = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream holes {
        etcd_members /holes/ max_fails=0;
        etcd_check tcp interval=1s timeout=500ms fails=1;
    }

    upstream answers {
        etcd_members /answers/;
        etcd_check http match=ok status=200 interval=1s timeout=1s panic=0;
    }

    upstream told {
        etcd_members /told/;
        etcd_check http "header=X-Token: se cret" host=api.test uri=/up?a
                        interval=500ms timeout=500ms;
    }

    upstream tls {
        etcd_members /tls/;
        etcd_allow unix: 127.0.0.0/8;
        etcd_check http ssl ssl_name=api.test interval=500ms timeout=500ms
                   ssl_trusted_certificate=%%CA%% panic=0;
    }

    upstream tcp_tls {
        etcd_members /tls/;
        etcd_allow unix: 127.0.0.0/8;
        etcd_check tcp ssl ssl_name=api.test interval=500ms timeout=500ms
                   ssl_trusted_certificate=%%CA%% panic=0;
    }

    upstream stranger {
        etcd_members /tls/;
        etcd_allow unix: 127.0.0.0/8;
        etcd_check http ssl ssl_name=other.test interval=500ms timeout=500ms
                   ssl_trusted_certificate=%%CA%% panic=0;
    }

    upstream trusted {
        etcd_members /tls/;
        etcd_allow unix: 127.0.0.0/8;
        etcd_check http ssl ssl_verify=off interval=500ms timeout=500ms;
    }

    upstream grpc {
        etcd_members /grpc/;
        etcd_check grpc interval=1s timeout=1s panic=0;
    }

    upstream service {
        etcd_members /grpc/;
        etcd_check grpc service=unknown interval=1s timeout=1s panic=0;
    }

    upstream grpc_tls {
        etcd_members /grpc_tls/;
        etcd_check grpc ssl ssl_name=api.test interval=500ms timeout=500ms
                   ssl_trusted_certificate=%%CA%% panic=0;
    }

    upstream grpc_stranger {
        etcd_members /grpc_tls/;
        etcd_check grpc ssl ssl_name=other.test interval=500ms timeout=500ms
                   ssl_trusted_certificate=%%CA%% panic=0;
    }

    upstream must {
        etcd_members /must/ max_fails=0;
        etcd_check http mandatory interval=200ms timeout=200ms panic=100%;
    }

    upstream waits {
        etcd_members /waits/ max_fails=0;
        etcd_check http mandatory interval=200ms timeout=200ms;
    }

    upstream tenants {
        etcd_members /tenants/$arg_tenant/ max_fails=0;
        etcd_check http mandatory interval=200ms timeout=200ms;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /holes { proxy_pass http://holes; }
        location /must  { proxy_pass http://must; }
        location /waits { etcd_wait waits 30s; proxy_pass http://waits; }
        location /tenants {
            etcd_wait tenants 30s;
            proxy_pass http://tenants;
        }

        location /status { etcd_status; }
    }

    server {
        listen 127.0.0.1:%%PORT_TLS%% ssl;
        listen unix:%%DIR%%/tls.sock ssl;

        ssl_certificate     %%CERT%%;
        ssl_certificate_key %%KEY%%;

        return 200 ok;
    }

    server {
        listen 127.0.0.1:%%PORT_GRPC%% http2;
        listen 127.0.0.1:%%PORT_GRPC_TLS%% ssl http2;

        ssl_certificate     %%CERT%%;
        ssl_certificate_key %%KEY%%;

        location = /grpc.health.v1.Health/Check {
            proxy_pass http://127.0.0.1:%%SICK%%;
            proxy_method GET;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            add_trailer grpc-status 0;
        }
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)
    ->set(SICK => $sick->port, CA => $ca->cert, CERT => $server->cert,
          KEY => $server->key)
    ->start($configuration);


sub members { @{ Upstream->new($nginx, $_[0])->status->{members} // [] } }

# { KEY => result }

sub results {
    my ($upstream) = @_;

    return { map { $_->{key} =~ m{([^/]+)$} ? ($1, $_->{check} // '') : () }
             members($upstream) };
}

sub become {
    my ($upstream, $wanted) = @_;

    wait_for {
        my $is = results($upstream);
        !grep { ($is->{$_} // '') ne $wanted->{$_} } keys %$wanted;
    } 20, "results of $upstream";

    is_deeply(results($upstream), $wanted, $upstream);
}


# Every second member is not there: requests go to the others, and none fails.

$etcd->put("/holes/a$_", $backends[$_ - 1]->address) for 1 .. HOLES;
$etcd->put("/holes/z$_", "10.9.0.1$_:80") for 1 .. HOLES;

my %holes = map { ("a$_" => 'ok', "z$_" => 'timeout') } 1 .. HOLES;

become('holes', \%holes);

my $begun = time();
my %tally = %{ $nginx->tally('/holes', 4 * HOLES) };

is(keys %tally, HOLES, 'those that are there answer');
cmp_ok(time() - $begun, '<', 10, 'and nobody waits for the others');

Netns::ip('addr', 'add', '10.9.0.11/32', 'dev', 'lo');
$holes{z1} = 'connect';
become('holes', \%holes);

# answers

$etcd->put("/answers/$_", $scripted->address($_)) for keys %answers;
become('answers', \%results);
is((grep { $_->{state} eq 'up' } members('answers')) >= 4, 1,
   'good ones are used');

# the request

$etcd->put('/told/1', $told->address);
wait_for { $told->seen } 10, 'a request';
is(($told->seen)[0], 'se cret', 'a header');

# TLS

my $at = '127.0.0.1:' . $nginx->port('PORT_TLS');

$etcd->put('/tls/1', $at);
$etcd->put('/tls/plain', $first->address);
$etcd->put('/tls/socket', 'unix:' . $nginx->dir . '/tls.sock');

my %good = (1 => 'ok', socket => 'ok', plain => 'timeout');

become($_, \%good) for qw(tls tcp_tls trusted);
become('stranger', { %good, 1 => 'tls', socket => 'tls' });

ok(wait_for(sub {
    $nginx->count_log(qr/"stranger": the check of member \Q$at\E .*: tls, /)
}, 20), 'reported');
$nginx->expect(qr/SSL_do_handshake/);

# gRPC: etcd has the service

my ($address) = $etcd->endpoints =~ m{//([\d.:]+)};

$etcd->put('/grpc/etcd', $address);
$etcd->put('/grpc/sick', '127.0.0.1:' . $nginx->port('PORT_GRPC'));
$etcd->put('/grpc/none', '127.0.0.1:1');
$etcd->put('/grpc/http', $first->address);
$etcd->put('/grpc/hole', '10.9.0.18:80');

# some say nothing, or their SETTINGS only

$etcd->put("/grpc/$_", $scripted->address($_)) for qw(nothing settings silent);

my %bad = (none => 'connect', http => 'closed', sick => 'not serving',
           nothing => 'closed', settings => 'closed', silent => 'timeout',
           hole => 'timeout');

become('grpc', { %bad, etcd => 'ok' });
become('service', { %bad, etcd => 'grpc status 5' });

$etcd->put('/grpc_tls/sick', '127.0.0.1:' . $nginx->port('PORT_GRPC_TLS'));
$etcd->put('/grpc_tls/http', $at);
$etcd->put('/grpc_tls/plain', $first->address);

my %over = (http => 'tls', plain => 'timeout');

become('grpc_tls', { %over, sick => 'not serving' });
become('grpc_stranger', { %over, sick => 'tls' });

# a mandatory member has to work first

$etcd->put('/must/first', $first->address);
wait_for { ($nginx->tally('/must', 1)->{first} // 0) == 1 } 10,
    'the first member';

$late->set(status => 500);
my @answers;

$etcd->put('/must/late', $late->address);
push @answers, keys %{ $nginx->tally('/must', 4) } for 1 .. 100;

is_deeply([grep { $_ ne 'first' } @answers], [],
          'a new member that does not work gets no request');
is((grep { $_->{key} eq '/must/late' && $_->{state} eq 'unproven' }
    members('must')), 1, 'it is unproven');

$late->set(status => 200);
wait_for { $nginx->tally('/must', 8)->{late} } 20, 'late';
pass('then it works, and gets requests');

# requests wait for the first success, in both workers

$_->set(status => 500) for $first, $second;
$etcd->put("/waits/$_->{name}", $_->address) for $first, $second;
wait_for { members('waits') == 2 } 10, 'members';

my @clients = map { Http->new($nginx->port) } 1 .. 8;

$_->send('GET', '/waits') for @clients;
wait_for { (Upstream->new($nginx, 'waits')->status->{waiting} // 0) == 8 } 10,
    'requests that wait';

$_->set(status => 200) for $first, $second;

my @got = map { $_->receive->{status} } @clients;

is("@got", join(' ', (200) x 8), 'requests wait for the first success');

# and so they do for a set

$_->set(status => 500) for $first, $second;
$etcd->put("/tenants/t/$_->{name}", $_->address) for $first, $second;
wait_for { $nginx->get('/tenants?tenant=x')->{status} == 404
           && members_of_tenant() == 2 } 10, 'members of a set';

$_->send('GET', '/tenants?tenant=t') for @clients;
wait_for { (grep { $_->{check} } members_of_tenant()) == 2 } 10,
    'checks of a set';

is((grep { $_->{state} eq 'unproven' } members_of_tenant()), 2,
   'members of a set are unproven');

$_->set(status => 200) for $first, $second;
@got = map { $_->receive->{status} } @clients;

is("@got", join(' ', (200) x 8), 'requests wait in a set');

finish();


sub members_of_tenant {
    my $status = $nginx->status('/status?upstream=tenants&set=t') // {};

    return @{ $status->{upstreams}{tenants}{set}{members} // [] };
}
