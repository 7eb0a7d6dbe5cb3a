#!/usr/bin/perl

# A core dump of a worker has neither the password of etcd's user, nor a token
# that etcd gave for it, nor the password of a private key.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Tls;
use Wait;

my $pattern = do {
    open(my $file, '<', '/proc/sys/kernel/core_pattern')
        or plan(skip_all => "no core_pattern: $!");
    local $/;
    <$file>;
};

chomp($pattern);

plan(skip_all => "core dumps go elsewhere: $pattern")
    if $pattern !~ /^[\w.%-]+$/;

my $user = 'whose-core-it-is';
my $password = 'the-password-of-the-user';
my $secret = 'the-password-of-the-key';

my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'IP:127.0.0.1');
my $client = $ca->issue('client');

# tokens, or their fingerprints, are in the log at this level

my $etcd = Etcd->new(
    args => ['--log-level=debug', '--bcrypt-cost=4'],
    tls  => { cert => $server->cert, key => $server->key },
)->start();

$etcd->user_add($user, $password, '/s/');
$etcd->auth_enable('root');
$etcd->put('/s/1', '127.0.0.1:1');

my $nginx = Nginx->new(etcd => $etcd);
my $dir = test_dir() . '/cores';

mkdir($dir) or die "mkdir $dir: $!\n";
chmod(0777, $dir) or die "chmod $dir: $!\n";

$nginx->write_secret('password', "$password\n");
$nginx->write_secret('secret', "wrong\n$secret\n");

$nginx->set(
    DIR   => $dir,
    PLAIN => 'http://127.0.0.1:' . $etcd->port,
    TLS   => 'https://127.0.0.1:' . $etcd->tls_port,
    CA    => $ca->cert,
    CERT  => $client->cert,
    KEY   => $client->encrypted_key($secret),
    USER  => $user,
)->start(<<'EOC');

worker_processes 1;
worker_rlimit_core 1g;
working_directory %%DIR%%;

etcd {
    endpoints %%PLAIN%%;
    user %%USER%%;
    password_file password;
}

etcd tls {
    endpoints %%TLS%%;
    user %%USER%%;
    password_file password;
    ssl_trusted_certificate %%CA%%;
    ssl_certificate %%CERT%%;
    ssl_certificate_key %%KEY%%;
    ssl_password_file secret;
}

http {
    upstream plain {
        etcd_members /s/;
    }

    upstream tls {
        etcd_members /s/ cluster=tls;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

for my $cluster (qw(default tls)) {
    ok(wait_for(sub {
        ($nginx->status->{clusters}{$cluster}{state} // '') eq 'synced'
    }, 20, $cluster), "$cluster: authenticated");
}

my ($worker) = $nginx->workers;

$nginx->kill_worker($worker, 'ABRT');

my ($core) = wait_for(sub { glob("$dir/*") }, 10, 'a core')
             ? glob("$dir/*") : ();

if (!defined $core) {
    SKIP: {
        skip 'there is no core dump: limits, or the system, forbid it', 6;
    }

    finish();
    exit;
}


open(my $file, '<:raw', $core) or die "open $core: $!\n";
my $memory = do { local $/; <$file> };


sub words { grep { index($memory, $_) >= 0 } @_ }


# A token of the test's own shows that tokens are found.

my $own = $etcd->call('auth/authenticate',
                      { name => $user, password => $password })->{token};
my @tokens = $etcd->tokens($user);

cmp_ok(scalar(@tokens), '>=', 3, 'tokens were given');
is(scalar(Etcd::tokens_in("\0${own}0", @tokens)), 1,
   'a token is found where it is');
is_deeply([words($user)], [$user], 'the core has what is no secret');
is_deeply([words($password)], [], 'but not the password');
is_deeply([Etcd::tokens_in($memory, @tokens)], [], 'nor a token');
is_deeply([words($secret)], [], 'nor the password of the key');

unlink($core);

finish();
