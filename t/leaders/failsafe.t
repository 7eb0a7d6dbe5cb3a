#!/usr/bin/perl

# Patroni's failsafe mode: without etcd the primary is used on while its own
# API says that it is the primary and no other member of /failsafe does; and
# APIs over TLS.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Etcd;
use Finish;
use Line;
use Nginx;
use Tls;
use Upstream;
use Wait;

use constant {
    MAX_STALE => 3,
    ENDS      => 3,
};

my $slower = $ENV{TEST_SLOWER} || 1;
my $has_stream = Nginx::has('stream');

my $etcd = Etcd->new()->start();

my %pg = map { $_->name => $_ } Line->start(qw(pg1 pg2 pg3));
my %web = map { $_->name => $_ } Backend->start(qw(pg1 pg2 pg3));
my %api = map { $_->name => $_ } Backend->start(qw(pg1 pg2 pg3));

# another nginx speaks TLS for the API of pg1; it wants a certificate

my $ca = Tls->new('ca');
my $foreign = Tls->new('foreign');
my $server = $ca->issue('api', san => 'DNS:api.test,IP:127.0.0.1');
my $client = $ca->issue('client');

my $front = Nginx->new()->set(
    CERT => $server->cert,
    KEY  => $server->key,
    CA   => $ca->cert,
    API  => $api{pg1}->address,
);

$front->start(<<'END');

http {
    server {
        listen 127.0.0.1:%%PORT%% ssl;
        ssl_certificate %%CERT%%;
        ssl_certificate_key %%KEY%%;
        ssl_client_certificate %%CA%%;
        ssl_verify_client on;

        location / {
            proxy_pass http://%%API%%;
        }
    }
}

END

my $nginx = Nginx->new(etcd => $etcd)->set(
    STALE   => MAX_STALE,
    CA      => $ca->cert,
    FOREIGN => $foreign->cert,
    CERT    => $client->cert,
    KEY     => $client->key,
);

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream writer {
        etcd_leader /service/http format=patroni max_stale=%%STALE%%s
                                  failsafe=on;
    }

    upstream off {
        etcd_leader /service/http format=patroni max_stale=%%STALE%%s;
    }

    upstream none {
        etcd_leader /service/none format=patroni max_stale=%%STALE%%s
                                  failsafe=on;
    }

    upstream secure {
        etcd_leader /service/secure format=patroni max_stale=%%STALE%%s
                                    failsafe=on confirm=api
                                    api_trusted_certificate=%%CA%%
                                    api_certificate=%%CERT%%
                                    api_certificate_key=%%KEY%%;
    }

    upstream anonymous {
        etcd_leader /service/secure format=patroni confirm=api
                                    api_trusted_certificate=%%CA%%;
    }

    upstream foreign {
        etcd_leader /service/secure format=patroni confirm=api
                                    api_trusted_certificate=%%FOREIGN%%
                                    api_certificate=%%CERT%%
                                    api_certificate_key=%%KEY%%;
    }

    upstream unverified {
        etcd_leader /service/secure format=patroni confirm=api
                                    api_verify=off
                                    api_certificate=%%CERT%%
                                    api_certificate_key=%%KEY%%;
    }

    upstream plain {
        etcd_leader /service/secure format=patroni confirm=api;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /metrics {
            etcd_status prometheus;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            add_header X-Staleness $etcd_staleness always;
        }
    }
}

END

$config .= <<'END' if $has_stream;

stream {
    upstream writer {
        etcd_leader /service/stream format=patroni max_stale=%%STALE%%s
                                    failsafe=on on_change=close;
    }

    server {
        listen 127.0.0.1:%%PORT_5432%%;
        proxy_pass writer;
    }
}

END

$nginx->start($config);

my $writer = Upstream->new($nginx, 'writer');
my $secure = Upstream->new($nginx, 'secure');


sub says {
    my ($name, $status, $role) = @_;

    $api{$name}->set(status => $status,
                     body => encode_json({ state => 'running',
                                           role => $role }));
}


# a cluster whose leader is pg1, with the key "failsafe" or without

sub cluster {
    my ($scope, $backends, $url, $failsafe) = @_;

    for my $name (sort keys %$backends) {
        $etcd->put("/service/$scope/members/$name", encode_json({
            conn_url => 'postgres://' . $backends->{$name}->address . '/db',
            api_url  => $url->($name),
            state    => 'running',
            role     => $name eq 'pg1' ? 'primary' : 'replica',
        }));
    }

    if ($failsafe) {
        $etcd->put("/service/$scope/failsafe", encode_json({
            map { $_ => $url->($_) } keys %$backends
        }));
    }

    $etcd->put("/service/$scope/leader", 'pg1');
}


sub used {
    my ($name, $who, $within, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $nginx->comes_to_use($name, $who, $what, $within);
}


my $plain = sub { 'http://' . $api{$_[0]}->address . '/patroni' };

my $tls = sub {
    my ($name) = @_;

    return $name eq 'pg1' ? 'https://127.0.0.1:' . $front->port('PORT')
                            . '/patroni'
                          : $plain->($name);
};

says('pg1', 200, 'primary');
says($_, 503, 'replica') for qw(pg2 pg3);

cluster('http', \%web, $plain, 1);
cluster('none', \%web, $plain, 0);
cluster('secure', \%web, $tls, 1);
cluster('stream', \%pg, $plain, 1);

used($_ => 'pg1', 10, 'the primary')
    for qw(writer off none secure unverified);

# https

used(anonymous => '502', 10, 'an API that wants a certificate');
used(foreign => '502', 10, 'an API with the certificate of another CA');
used(plain => '502', 10, 'no CA to verify an API by');
is(Upstream->new($nginx, 'plain')->invalid->{'/service/secure/members/pg1'},
   'api_url is https, which requires "api_trusted_certificate"',
   'which is reported');

my $leader = sub { $etcd->put('/service/secure/leader', $_[0]) };

$etcd->put('/service/secure/members/pg1', encode_json({
    conn_url => 'postgres://' . $web{pg1}->address . '/db',
    api_url  => $tls->('pg1') =~ s/127\.0\.0\.1/127.0.0.2/r,
    state    => 'running',
}));
$etcd->txn([del => '/service/secure/leader']);
used(secure => '502', 10, 'there is no leader');
$leader->('pg1');
sleep(0.3);
used(secure => '502', 10, 'an API by another name than its certificate\'s');
$etcd->put('/service/secure/members/pg1', encode_json({
    conn_url => 'postgres://' . $web{pg1}->address . '/db',
    api_url  => $tls->('pg1'),
    state    => 'running',
}));
used(secure => 'pg1', 10, 'the name of the certificate');

# etcd is away

my $session = $has_stream
              ? Line::Client->new($nginx->port('PORT_5432')) : undef;

is($session && $session->ask('before'), $session && 'pg1: before',
   'a session');
is($writer->status->{failsafe}, JSON::PP::false, 'failsafe is not in use');
is(Upstream->new($nginx, 'off')->status->{failsafe}, undef,
   'no field without failsafe=on');

$_->reset for values %api;
$etcd->kill();

used(off => '502', 30 * $slower, 'without failsafe=on there is no leader');
used(none => '502', 10 * $slower, 'nor without a key "failsafe"');

my $answer = $nginx->get('/to/writer');

is($answer->{body}, 'pg1', 'the primary is used on');
cmp_ok($answer->{headers}{'x-staleness'}, '>', MAX_STALE,
       '$etcd_staleness says the truth');

sleep(MAX_STALE);

is_deeply([map { $nginx->get('/to/writer')->{body} } 1 .. 10],
          [('pg1') x 10], 'for longer, too');
is($nginx->get('/to/secure')->{body}, 'pg1', 'by an API of https');
is($session && $session->ask('on'), $session && 'pg1: on',
   'the session goes on');
is($session && Line::Client->new($nginx->port('PORT_5432'))->ask('new'),
   $session && 'pg1: new', 'and there are new ones');
is($writer->status->{failsafe}, JSON::PP::true, 'the status says so');
like($nginx->get('/metrics')->{body},
     qr/^nginx_etcd_upstream_failsafe\{[^}]*upstream="writer"[^}]*\} 1$/m,
     'and the metrics');
is($nginx->count_log(
       qr{"writer".* of "/[^"]+" stays in use: its API confirms it}),
   $has_stream ? 2 : 1, 'and one line of the log');
$nginx->logs(qr/"none".*Patroni has no key "failsafe"/, 1,
             'the log says why another leader is not used');
cmp_ok($api{$_}->requests, '>', 0, "$_ is asked") for qw(pg1 pg2 pg3);

# ends of the failsafe state

says('pg1', 503, 'replica');
used(writer => '502', ENDS * $slower, 'the primary says that it is none');
ok(!$session || $session->is_closed(ENDS), 'the session ends');
is($writer->status->{failsafe}, JSON::PP::false, 'the status says so');
ok(wait_for(sub { $nginx->count_log(qr/"writer".*reports by status 503/) }, 5),
   'so does the log');

for my $case (
    ['another member leads', sub { says('pg2', 200, 'replica') },
                             sub { says('pg2', 503, 'replica') }],
    ['its role is another', sub { says('pg1', 200, 'replica') }, sub { }],
    ['it says no role', sub { $api{pg1}->set(body => '{}') }, sub { }],
    ['it does not answer', sub { $api{pg1}->set(hang => 1) },
                           sub { $api{pg1}->set(hang => 0) }],
    ['it is away', sub { $api{pg1}->down }, sub { $api{pg1}->up }],
) {
    my ($what, $break, $mend) = @$case;

    says('pg1', 200, 'primary');
    used(writer => 'pg1', 10 * $slower, 'it is used again');
    $break->();
    used(writer => '502', ENDS * $slower, "$what: not used");
    $mend->();
}

says('pg1', 200, 'master');
$api{pg3}->down;
used(writer => 'pg1', 10 * $slower, 'a member that is away is no primary');
$api{pg3}->up;

# etcd is back

$etcd->start();

ok(wait_for(sub { $nginx->get('/to/off')->{body} eq 'pg1' }, 30 * $slower),
   'etcd proves who leads');
is($nginx->get('/to/writer')->{body}, 'pg1', 'the same one');
is($writer->status->{failsafe}, JSON::PP::false, 'failsafe is not in use');
ok(wait_for(sub {
    $nginx->count_log(qr{"writer": etcd confirms the leader of "/[^"]+" again})
}, 5), 'the log says so');
wait_for { $nginx->status->{clusters}{default}{staleness_ms}
           < MAX_STALE * 500 } 10, 'fresh';
sleep(0.5);
$_->reset for values %api;
sleep(1.5);
is($api{$_}->requests, 0, "$_ is not asked any more") for qw(pg1 pg2 pg3);

finish();
