#!/usr/bin/perl

# TLS sessions of certificates in etcd: a session resumes with its own name, and
# only while the certificate and the key are those of the handshake.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;
use Process;
use Tls;
use Wait;

plan(skip_all => 'this nginx has no TLS')
    if Nginx::built_with() !~ /--with-http_ssl_module/;

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);
my $dir = test_dir();

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    etcd_set $cert /certs/$ssl_server_name/crt type=pem
             default_file=%%DIR%%/default.crt;
    etcd_set $key /certs/$ssl_server_name/key type=pem
             default_file=%%DIR%%/default.key;

    ssl_certificate data:$cert;
    ssl_certificate_key data:$key;
    ssl_protocols TLSv1.2 TLSv1.3;

    server {
        listen 127.0.0.1:%%PORT_TICKETS%% ssl;
        return 200 "$ssl_session_reused";
    }

    server {
        listen 127.0.0.1:%%PORT_CACHE%% ssl;
        ssl_session_cache shared:sessions:1m;
        ssl_session_tickets off;
        return 200 "$ssl_session_reused";
    }

    server {
        listen 127.0.0.1:%%PORT_BUILTIN%% ssl;
        ssl_session_cache builtin;
        ssl_session_tickets off;
        return 200 "$ssl_session_reused";
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC


sub make {
    my ($name) = @_;

    my ($status, $output) = run('openssl', 'req', '-x509', '-nodes', '-newkey',
                                'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
                                '-subj', "/CN=$name", '-keyout', "$dir/key",
                                '-out', "$dir/crt");

    $status == 0 or die $output;

    return [map { Tls::read_file("$dir/$_") } qw(crt key)];
}


sub put {
    my ($name, $pair) = @_;

    return $etcd->txn([put => "/certs/$name/crt", $pair->[0]],
                      [put => "/certs/$name/key", $pair->[1]]);
}


# The subject of a handshake and what it was: "New" or "Reused".  It begins with
# the session of the file, if that is given, and leaves its own there.

sub handshake {
    my ($where, $version, $name, $in, $out) = @_;

    my $port = $nginx->port("PORT_$where");
    my @name = defined $name ? ('-servername', $name) : '-noservername';
    my @session = ((defined $in ? ('-sess_in', "$dir/$in") : ()),
                   (defined $out ? ('-sess_out', "$dir/$out") : ()));

    my ($status, $output) = run('sh', '-c',
        "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 30 openssl s_client"
        . " -ign_eof -connect 127.0.0.1:$port -$version @name @session");

    my ($subject) = $output =~ /^subject=.*CN\s*=\s*(\S+)/m;
    my ($what) = $output =~ /^(New|Reused), /m;

    return join(' ', $subject // 'none', $what // 'none');
}


my %pair = map { $_ => make($_) } qw(a.test b.test);

put($_, $pair{$_}) for keys %pair;

my $default = make('default.test');

$nginx->write_file('default.crt', $default->[0]);
$nginx->write_secret('default.key', $default->[1]);
$nginx->start($config);

becomes { $nginx->status->{variables}{'$key'}{values} } 4, 'values were read';

# names in capitals

is(handshake('TICKETS', 'tls1_3', 'A.Test'), 'a.test New',
   'a name in capitals has its certificate');

for my $where (qw(TICKETS CACHE)) {
    for my $version (qw(tls1_2 tls1_3)) {
        my $what = lc($where) . ", $version";
        my $shake = sub { handshake($where, $version, @_) };

        put($_, $pair{$_}) for keys %pair;
        becomes { $shake->('a.test') } 'a.test New', "$what: a certificate";

        is($shake->('a.test', undef, 's1'), 'a.test New', "$what: a session");
        is($shake->('a.test', 's1'), 'a.test Reused', "$what: it resumes");
        is($shake->('A.TEST', 's1'), 'a.test Reused', "$what: in capitals");
        is($shake->('b.test', 's1'), 'b.test New', "$what: with no other name");
        is($shake->('none.test', 's1'), 'default.test New',
           "$what: nor one without a certificate");
        is($shake->(undef, 's1'), 'default.test New', "$what: nor without one");

        is($shake->('none.test', undef, 's2'), 'default.test New',
           "$what: a session of the default");
        is($shake->('none.test', 's2'), 'default.test Reused',
           "$what: it resumes");
        is($shake->('a.test', 's2'), 'a.test New', "$what: with no other name");

        put('b.test', make('b.test'));
        becomes { $shake->('b.test') } 'b.test New', "$what: another changes";
        is($shake->('a.test', 's1'), 'a.test Reused', "$what: it resumes yet");

        put('a.test', make('a.test'));
        becomes { $shake->('a.test', 's1') } 'a.test New',
            "$what: not with a renewed certificate";

        is($shake->('a.test', undef, 's1'), 'a.test New', "$what: a new one");
        $etcd->txn([del => '/certs/a.test/crt'], [del => '/certs/a.test/key']);
        becomes { $shake->('a.test', 's1') } 'default.test New',
            "$what: not after its certificate was deleted";

        put('none.test', make('none.test'));
        becomes { $shake->('none.test', 's2') } 'none.test New',
            "$what: nor of the default, after one was added";
        $etcd->txn([del => '/certs/none.test/crt'],
                   [del => '/certs/none.test/key']);
        becomes { $shake->('none.test') } 'default.test New', "$what: again";
    }
}

# after a reload

is(handshake('CACHE', 'tls1_2', 'b.test', undef, 's3'), 'b.test New',
   'a session');
ok($nginx->reload(), 'reload');
is(handshake('CACHE', 'tls1_2', 'b.test', 's3'), 'b.test Reused',
   'resumes after a reload');
is(handshake('CACHE', 'tls1_2', 'none.test', 's3'), 'default.test New',
   'with its own name');

# a cache that cannot be asked

for (1 .. 8) {
    handshake('BUILTIN', 'tls1_2', 'b.test', undef, 's4');
    is(handshake('BUILTIN', 'tls1_2', 'b.test', 's4'), 'b.test New',
       'a builtin cache is not used');
}

finish();
