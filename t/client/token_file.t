#!/usr/bin/perl

# token_file: a JWT that is signed elsewhere, here with the key that etcd knows.
# The file is read again when it has changed and when etcd refuses the token; a
# token that stays refused is one error and one state.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use MIME::Base64 qw(decode_base64url encode_base64url);
use Test::More;

use Becomes;
use Conf;
use Etcd;
use Finish;
use Nginx;
use Process;
use Slurp;
use Wait;

my $dir = test_dir();

# nginx -t refuses what is no token, and other credentials beside one.

sub secret {
    my ($name, $text) = @_;

    open(my $file, '>', "$dir/$name") or die "open: $!\n";
    chmod(0600, $file);
    print $file $text;
    close($file);

    return "token_file $dir/$name;";
}

my $endpoint = 'endpoints 127.0.0.1:1;';
my $good = secret('good', 'a.b-c_d');

refused("a token_file that $_->[1]",
        etcd($endpoint, secret('bad', $_->[0])),
        "\"token_file\" \"$dir/bad\" $_->[1] in AT", 3)
    for ['', 'has an empty first line'],
        ['x' x 8193, 'has a first line of more than 8192 bytes'],
        ['a b', 'has a byte in its first line that no token has'];
refused('token_file and a user', etcd($endpoint, 'user a;', $good),
        'etcd cluster "default" has "user" and "token_file", whose token names '
        . 'the user in AT', 5);
refused('token_file twice', etcd($endpoint, $good, $good),
        '"token_file" directive is duplicate in AT', 4);
refused('token_file and password_file',
        etcd($endpoint, $good, $good =~ s/token/password/r),
        '"password_file" directive cannot be used together with "token_file" '
        . 'in AT', 4);
refused('password_file and token_file',
        etcd($endpoint, $good =~ s/token/password/r, $good),
        '"token_file" directive cannot be used together with "password_file" '
        . 'in AT', 4);
passes('the longest token', etcd($endpoint, secret('long', 'x' x 8192)));

sub openssl { (run('openssl', @_))[0] == 0 or die "openssl @_ failed\n" }

openssl('genrsa', '-out', "$dir/$_.key", '2048') for qw(jwt other);
openssl('rsa', '-in', "$dir/jwt.key", '-pubout', '-out', "$dir/jwt.pub");

# etcd's own tokens, with which the test works as root, are signed by the same
# key

my $etcd = Etcd->new(args => [
    "--auth-token=jwt,pub-key=$dir/jwt.pub,priv-key=$dir/jwt.key,"
    . 'sign-method=RS256,ttl=10m', '--bcrypt-cost=4',
])->start();


# The revision of etcd's users and roles, as etcd's own token has it: etcd wants
# a token to have that one.

my $revision;

sub current {
    my (undef, $claims) = split(/\./, $etcd->as_root('root-secret'));

    return decode_json(decode_base64url($claims))->{revision};
}


# a token of so many seconds

sub token {
    my ($ttl, %options) = @_;

    my $text = join('.', map { encode_base64url(encode_json($_)) }
        { alg => 'RS256', typ => 'JWT' },
        { username => 'nginx', exp => time() + $ttl,
          revision => $options{revision} // $revision });

    open(my $file, '>', "$dir/text") or die "open: $!\n";
    print $file $text;
    close($file);

    openssl('dgst', '-sha256', '-sign',
            "$dir/" . ($options{key} // 'jwt') . '.key',
            '-out', "$dir/signature", "$dir/text");

    return "$text." . encode_base64url(slurp("$dir/signature"));
}

$etcd->user_add('nginx', 'unused', '/api/');
$etcd->auth_enable('root-secret');
$revision = current();

my $nginx = Nginx->new(etcd => $etcd);

# A signer renames a file: at no time there is half a token.

sub gives {
    my ($token) = @_;

    $nginx->write_secret('token.new', "$token\n");
    rename($nginx->dir . '/token.new', $nginx->dir . '/token')
        or die "rename: $!\n";
}

sub follows {
    my ($n, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $etcd->put('/api/1', "127.0.0.1:$n");
    becomes { join(' ', keys %{ $nginx->upstream('api')->by_address }) }
            "127.0.0.1:$n", $name, 30;
}

sub logged { $nginx->count_log(qr/token of "token_file" ".*" is refused/) }

gives(token(3600));

my $config = <<'EOC';

etcd {
    endpoints %%ETCD%%;
    token_file token;
}

http {
    upstream api {
        etcd_members /api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        location /status { etcd_status; }
    }
}

EOC

$nginx->start($config);
follows(1, 'a signed token');

# another one, before the first one has expired

gives(token(7200));
follows(2, 'another token');
is(logged(), 0, 'no token was refused');

# A token that is refused: with a bad signature.  A new agent has to list.

gives(token(3600, key => 'other'));
ok($nginx->reload(undef, gone => 1), 'a reload');
becomes { $nginx->cluster->{state} } 'unauthorized', 'a bad token', 30;
$nginx->logs(qr/\[error\].*token of "token_file" ".*" is refused/, 1,
             'is one error');
like($nginx->cluster->{reason}, qr/invalid auth token/, 'with its reason');

my $tries = $nginx->count_log(qr/is refused/);

gives('');
$nginx->logs(qr/"token_file" ".*" has an empty first line, what was read/, 1,
             'an empty file is an error');
gives(token(3600));
becomes { $nginx->cluster->{state} } 'synced', 'a good one is used at once',
        30;
follows(3, 'and what has changed comes');
is($nginx->count_log(qr/\[error\].*is refused/), $tries,
   'there was no other error');

# A token whose user or role has changed is one of an old revision.

$etcd->grant_read('nginx', '/other/');
ok($nginx->reload(undef, gone => 1), 'a reload');
becomes { $nginx->cluster->{state} } 'unauthorized', 'an old revision', 30;
$revision = current();
gives(token(3600));
follows(4, 'a newer one');

# A token that has expired is refused.

gives(token(-1));
ok($nginx->reload(undef, gone => 1), 'a reload');
becomes { $nginx->cluster->{state} } 'unauthorized', 'an expired token',
        30;
gives(token(3600));
follows(5, 'the next one is read');

# Calls of a client that goes on have the token that the file has by then: etcd
# forgets the first one when the rights change.

$etcd->grant_read('nginx', '/more/');
$revision = current();
gives(token(3600));
$etcd->restart;
follows(6, 'after a restart of etcd');
is($nginx->count_log(qr/\[error\].*is refused/), 3,
   'the new token was known by then');

$nginx->stop;

finish();
