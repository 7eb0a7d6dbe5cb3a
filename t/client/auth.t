#!/usr/bin/perl

# Authentication towards etcd: one token for all requests, another one when etcd
# does not accept it any more, and nothing that works is stopped meanwhile.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Chaos;
use Cluster;
use Etcd;
use Example;
use Finish;
use Nginx;
use Process;
use Tls;
use Upstream;
use Wait;

use constant {
    TTL      => 5,
    PREFIXES => 12,
    REFUSALS => 5,
};

my $password = 'pass "word" #1';
my $root = 'root-secret';

# every authentication and every token is in the log at this level

my @args = ('--log-level=debug', '--bcrypt-cost=4');

my $authenticated = qr/authenticated a user.*"user-name":"nginx"/;
my $wrong = qr/invalid authentication was requested.*"user":"nginx"/;


# A configuration, without a user if $user is undef; each prefix is an upstream
# of its own name.

sub config {
    my ($user, @names) = @_;

    my $upstreams = join('', map { "upstream $_ { etcd_members /$_/; }\n" }
                             @names);
    my $credentials = defined $user
        ? "user $user; password_file password;" : '';

    return <<"EOF";
etcd {
    endpoints %%ETCD%%;
    connect_timeout 20s;
    zone 1m;
    $credentials
}
http {
    $upstreams
    server {
        listen 127.0.0.1:%%PORT%%;
        location /status {
            etcd_status;
        }
    }
}
EOF
}


sub nginx {
    my ($etcd, $secret, %options) = @_;

    my $nginx = Nginx->new(etcd => $etcd, %options);

    $nginx->write_secret('password', "$secret\n");

    return $nginx;
}


sub state_of { ($_[0]->status // {})->{clusters}{default}{state} // '' }
sub endpoint_of { ($_[0]->status // {})->{clusters}{default}{endpoint} // '' }


sub turns {
    my ($nginx, $state, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { state_of($nginx) } $state, $name, 20;
}


# Changes of an upstream arrive.

my $serial = 0;

sub follows {
    my ($nginx, $etcd, $upstream, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $address = '127.0.0.1:' . (1000 + ++$serial);

    $etcd->put("/$upstream/1", $address);

    return ok(wait_for(sub {
        Upstream->new($nginx, $upstream)->member($address)
    }, 20), $name);
}


sub logged {
    my ($nginx, $level, $text, $times, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is($nginx->count_log(qr/\[$level\].*$text/), $times, $name);
}


sub with_user {
    my ($etcd, @prefixes) = @_;

    $etcd->user_add('nginx', $password, @prefixes);
    $etcd->auth_enable($root);

    return $etcd;
}


# the newest token of the user

sub token { ($_[0]->tokens('nginx'))[-1] }


sub token_expires {
    my ($etcd, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $token = token($etcd);

    return ok(wait_for(sub {
        $etcd->has_forgotten('nginx', $token)
    }, 6 * TTL), $name);
}


# Authentication is enabled before nginx starts.

my @names = map { "s$_" } 1 .. PREFIXES;
my $etcd = Etcd->new(args => [@args, '--auth-token-ttl=' . TTL])->start();

with_user($etcd, '/s');

$etcd->put("/$_/1", '127.0.0.1:1') for @names, 'closed';

my $proxy = Chaos->start($etcd->port);
my $nginx = nginx($proxy, $password);

{
    local $ENV{TEST_LOG} = 'debug';

    $nginx->start(config('nginx', @names));
}

turns($nginx, 'synced', 'enabled before the start: everything is read');
follows($nginx, $etcd, 's1', 'and followed');
is($etcd->count_log($authenticated), 1,
   'two workers and ' . PREFIXES . ' prefixes authenticate once');
is($etcd->count_log($wrong), 0, 'with the right password');

# The token expires.

token_expires($etcd, 'the token expires');
follows($nginx, $etcd, 's2', 'a watch outlives its token');
is($etcd->count_log($authenticated), 1, 'without another one');

$proxy->cut();
follows($nginx, $etcd, 's3', 'a new connection gets another one');
turns($nginx, 'synced', 'for all prefixes');
is($etcd->count_log($authenticated), 2, 'and asks for it once');

# A connection is lost soon enough for the token, or the next token is used.

my $tokens;

for my $attempt (1 .. 10) {
    $tokens = $etcd->count_log($authenticated);

    my $token = token($etcd);

    $proxy->cut();
    follows($nginx, $etcd, 's4', 'a connection lost soon after');
    turns($nginx, 'synced', 'for all prefixes');

    last if !$etcd->has_forgotten('nginx', $token);

    diag('a token expired too early: again');
}

is($etcd->count_log($authenticated), $tokens,
   'goes on with the token that it has');

token_expires($etcd, 'the second token expires');
$proxy->set(refuse => 1);
$proxy->cut();
$etcd->put('/s5/2', '127.0.0.1:2');
$etcd->compact($etcd->put('/s6/2', '127.0.0.1:2'));
$proxy->set(refuse => 0);
follows($nginx, $etcd, 's5', 'expired and compacted at a time');
turns($nginx, 'synced', 'for all prefixes');
is($etcd->count_log($authenticated), $tokens + 1,
   'one token does for lists too');

# a prefix that may not be read

ok($nginx->reload(config('nginx', @names, 'closed')), 'a prefix more');
turns($nginx, 'denied', 'that the user may not read: it is shown');
follows($nginx, $etcd, 's6', 'the others go on');
logged($nginx, 'error', '"/closed/" cannot be read: permission denied', 1,
       'it is reported');
logged($nginx, 'error', '"/s\d+/" cannot be read', 0, 'alone');

# another password

my $before = $etcd->count_log($authenticated);
my $failed = $etcd->count_log($wrong);

$etcd->user_passwd('nginx', 'changed');
turns($nginx, 'unauthorized', 'the password is changed in etcd');
ok(wait_for(sub { $etcd->count_log($wrong) >= $failed + REFUSALS }, 60),
   'nginx tries the one that it knows again and again');
follows($nginx, $etcd, 's7', 'watches go on meanwhile');
logged($nginx, 'error', 'user "nginx" is refused', 1, 'it says so once');

$nginx->write_file('unsafe', "changed\n");
chmod(0644, $nginx->dir . '/unsafe');
rename($nginx->dir . '/unsafe', $nginx->dir . '/password');
$failed = $etcd->count_log($wrong);
ok(wait_for(sub { $etcd->count_log($wrong) >= $failed + 2 }, 60),
   'a file that all may read is not taken');
logged($nginx, 'error', 'readable by group or others', 1, 'and reported once');

$nginx->write_secret('password', "changed\r\nsecond line\n");
turns($nginx, 'denied', 'a corrected file is enough');
is($etcd->count_log($authenticated), $before + 1, 'one token is asked for');
logged($nginx, 'notice', 'user "nginx" is authenticated', 1, 'it says so');
follows($nginx, $etcd, 's8', 'changes are followed');

# The user gets more rights.

$etcd->grant_read('nginx', '/closed/');
turns($nginx, 'synced', 'a right is granted');
follows($nginx, $etcd, 'closed', 'and used');
logged($nginx, 'notice', '"/closed/" can be read again', 1, 'it says so');
logged($nginx, 'error', '"/closed/" cannot be read', 1,
       'the prefix was reported once');

$etcd->revoke_read('nginx', '/closed/');
follows($nginx, $etcd, 'closed', 'a watch outlives its right');
$proxy->cut();
turns($nginx, 'denied', 'a new connection shows that it is gone');
follows($nginx, $etcd, 's9', 'the others go on with it');
is(scalar(keys %{ Upstream->new($nginx, 'closed')->members }), 1,
   'the last known member stays');
$etcd->grant_read('nginx', '/closed/');
turns($nginx, 'synced', 'the right is given back');
follows($nginx, $etcd, 'closed', 'and used');

# The log has no secrets.

my $log = $nginx->error_log;
my @tokens = $etcd->tokens('nginx');

cmp_ok(scalar(@tokens), '>=', 4, 'tokens are known');
is_deeply([Etcd::tokens_in($log, @tokens, $password)], [],
          'neither tokens nor the password are logged');

# etcd refuses the user from the start.

for (['nginx', 'wrong', 'a wrong password'],
     ['stranger', $password, 'an unknown user'])
{
    my ($user, $secret, $name) = @$_;

    my $tried = qr/invalid authentication was requested.*"user":"$user"/;

    $failed = $etcd->count_log($tried);

    my $refused = nginx($etcd, $secret)->start(config($user, 's1', 's2'));

    turns($refused, 'unauthorized', "$name: is shown");
    ok(wait_for(sub { $etcd->count_log($tried) >= $failed + REFUSALS }, 60),
       "$name: is tried again");
    logged($refused, 'error', '', 1, "$name: one line");
    logged($refused, 'error', "user \"$user\" is refused: invalid argument: "
           . '.*invalid user ID or password', 1, "$name: that says it");

    if ($user eq 'nginx') {
        $refused->write_secret('password', 'changed');
        turns($refused, 'synced', "$name: a corrected file is enough");
        follows($refused, $etcd, 's1', "$name: and changes are followed");
    }

    $refused->stop();
}

# etcd requires a user, and nginx has none.

my $nobody = nginx($etcd, '')->start(config(undef, 's1', 's2'));

turns($nobody, 'unauthorized', 'no user: is shown');
logged($nobody, 'error', 'a user is required, and no "user" is set', 1,
       'no user: is reported');
logged($nobody, 'error', '', 1, 'no user: once');

$etcd->auth_disable();
turns($nobody, 'synced', 'no user: none is needed any more');
follows($nobody, $etcd, 's1', 'no user: changes are followed');
follows($nginx, $etcd, 's1', 'disabled: watches go on');

# Authentication is disabled and enabled again.

$proxy->cut();
follows($nginx, $etcd, 's2', 'disabled: a new connection goes without');
turns($nginx, 'synced', 'disabled: nothing is missing');

# Since 3.5 etcd takes any token while authentication is disabled: a client
# without a token asks for one.

my $not_enabled = 'authentication is not enabled there';

if (!$nginx->count_log(qr/$not_enabled/)) {
    ok($nginx->reload(undef, gone => 1), 'disabled: new workers have no token');
    follows($nginx, $etcd, 's2', 'disabled: they go without');
    turns($nginx, 'synced', 'disabled: and miss nothing');
}

logged($nginx, 'notice', $not_enabled, 1, 'disabled: it is reported');

$before = $etcd->count_log($authenticated);
$etcd->auth_enable($root);
follows($nginx, $etcd, 's3', 'enabled again: watches go on');
follows($nobody, $etcd, 's2', 'enabled again: without a user too');
$proxy->cut();
follows($nginx, $etcd, 's4', 'enabled again: a new connection gets a token');
turns($nginx, 'synced', 'enabled again: nothing is missing');
is($etcd->count_log($authenticated), $before + 1, 'enabled again: one token');

# Authentication is enabled while an nginx runs that has never had a token.

$etcd->auth_disable();

my $link = Chaos->start($etcd->port);
my $early = nginx($link, 'changed')->start(config('nginx', 's1', 's2'));

turns($early, 'synced', 'not enabled: everything is read');
logged($early, 'notice', 'authentication is not enabled there', 1,
       'not enabled: it is reported');

$before = $etcd->count_log($authenticated);
$etcd->auth_enable($root);
$link->set(refuse => 1);
$link->cut();
$etcd->put('/s1/2', '127.0.0.1:2');
$etcd->compact($etcd->put('/s1/3', '127.0.0.1:3'));
$link->set(refuse => 0);
follows($early, $etcd, 's1', 'enabled: lists and watches get a token');
turns($early, 'synced', 'enabled: nothing is missing');
is($etcd->count_log($authenticated), $before + 1, 'enabled: one token');
$early->stop();
$nobody->stop();

# Workers may not read the password file.

SKIP: {
    skip 'only root can start workers of another user', 11 if $> != 0;

    my $cut = Chaos->start($etcd->port);
    my $other = nginx($cut, 'changed', user => 'nobody nogroup')
        ->start(config('nginx', 's1'));

    turns($other, 'synced', 'unreadable file: the password is known');
    token_expires($etcd, 'unreadable file: the token expires');
    $cut->cut();
    follows($other, $etcd, 's1', 'unreadable file: another token');
    logged($other, 'info', 'not readable for workers', 1,
           'unreadable file: it is mentioned');
    logged($other, 'error', '"password_file"', 0,
           'unreadable file: without alarm');
    logged($other, 'warn', 'is not readable for workers, whose user is '
           . '"nobody"', 1, 'unreadable file: the start warns');

    # Workers may read it, and then not any more.

    my $path = $other->dir . '/password';

    chmod(0711, test_dir()) or die "chmod: $!\n";

    for my $owner ((getpwnam('nobody'))[2], 0) {
        chown($owner, -1, $path) or die "chown $path: $!\n";
        token_expires($etcd, "file of $owner: the token expires");
        $cut->cut();
        follows($other, $etcd, 's1', "file of $owner: another token");
    }

    logged($other, 'error', 'not readable for workers \(uid \d+\)', 1,
           'no longer readable file: an error');
    $other->stop();
}

$nginx->stop();

# the example configuration

{
    $etcd->grant_read('nginx', '/services/');
    $etcd->put('/services/api/1', '127.0.0.1:1');

    my $example = Nginx->new(etcd => $etcd);

    $example->write_secret('etcd.password', "changed\n");
    $example->start(Example::text('auth', 'etcd'));

    turns($example, 'synced', 'the example works');
    is_deeply([keys %{ Upstream->new($example, 'api')->members }],
              ['/services/api/1'], 'and has its member');
    $example->stop();
}

# signed tokens hold the revision of users and roles that they were made at

my ($key, $public) = map { test_dir() . "/jwt.$_" } 'key', 'pub';

run('openssl', 'genrsa', '-out', $key, 2048);
run('openssl', 'rsa', '-in', $key, '-pubout', '-out', $public);

my $jwt = Etcd->new(args => [@args,
    "--auth-token=jwt,pub-key=$public,priv-key=$key,sign-method=RS256,ttl=10m",
])->start();

with_user($jwt, '/s');
$jwt->put('/s1/1', '127.0.0.1:1');

my $way = Chaos->start($jwt->port);
my $signed = nginx($way, $password)->start(config('nginx', 's1', 's2'));

turns($signed, 'synced', 'signed: everything is read');

# Grants another right, which makes all tokens old; the test gets new ones.

sub change_roles {
    my ($prefix) = @_;

    $before = $jwt->count_log($authenticated);
    $jwt->grant_read('nginx', $prefix);
    $jwt->as_root($root);
}

for my $n (1 .. 2) {
    change_roles("/more$n/");
    follows($signed, $jwt, 's1', "signed: watches go on, $n");
    $way->cut();
    follows($signed, $jwt, 's2', "signed: a new connection does, $n");
    turns($signed, 'synced', "signed: nothing is missing, $n");
    is($jwt->count_log($authenticated), $before + 1, "signed: a token, $n");
}

ok($signed->reload(config('nginx', 's1', 's2', 'closed'), gone => 1),
   'signed: a prefix more');
turns($signed, 'denied', 'signed: that may not be read');
change_roles('/more3/');
ok(wait_for(sub { $jwt->count_log($authenticated) > $before }, 20),
   'signed: a list gets a token');
change_roles('/closed/');
turns($signed, 'synced', 'signed: and may be read in the end');
follows($signed, $jwt, 'closed', 'signed: and followed');
is($jwt->count_log($authenticated), $before + 1, 'signed: with one token');
$signed->logs(qr/needs a new token: .*auth store is old/, 4,
              'signed: because of what has changed');
$signed->stop();

# A restored etcd has not come to the revision at which the token was made, and
# keeps requests with the token waiting until it has.

my $older = with_user(Etcd->new(args => \@args)->start(), '/s');

$older->put('/s1/1', '127.0.0.1:1');

my $snapshot = $older->save();

$older->put('/other', $_) for 1 .. 300;

my $patient = nginx($older, $password)->start(config('nginx', 's1', 's2'));

turns($patient, 'synced', 'restored: everything is read');
$older->restore($snapshot);
follows($patient, $older, 's1', 'restored: changes are followed');
turns($patient, 'synced', 'restored: all prefixes are read');
$patient->stop();

# With TLS, the only safe way to send a token, etcd has another HTTP/2 server:
# tokens are the same there.

my $ca = Tls->new('ca');
my $identity = $ca->issue('server', san => 'IP:127.0.0.1');
my $secure = with_user(Etcd->new(args => [@args, '--auth-token-ttl=' . TTL],
                                 tls  => { cert => $identity->cert,
                                           key  => $identity->key })->start(),
                       '/s');

$secure->put('/s1/1', '127.0.0.1:1');

my $trusting = config('nginx', 's1', 's2')
               =~ s/zone 1m;/$& ssl_trusted_certificate %%CA%%;/r;
my $tls = nginx($secure, $password)->set(CA => $ca->cert)->start($trusting);

turns($tls, 'synced', 'TLS: everything is read');
follows($tls, $secure, 's1', 'TLS: changes are followed');
token_expires($secure, 'TLS: the token expires');
$tls->reload();
follows($tls, $secure, 's2', 'TLS: a new token is got');
$tls->stop();

# A member does not know the token of another member for as long as that one
# does.

my $cluster = Cluster->new(3, args => [@args, '--auth-token-ttl=' . TTL]);

$cluster->start();
with_user($cluster->any, '/s');
$_->as_root($root) for $cluster->members;
$cluster->any->put('/s1/1', '127.0.0.1:1');

my $three = nginx($cluster, $password)->start(config('nginx', 's1', 's2'));

turns($three, 'synced', 'three members: everything is read');

for my $n (1 .. 2) {
    my $url = endpoint_of($three);
    my ($used) = grep { $_->url eq $url } $cluster->members;
    my ($other, $third) = grep { $_->url ne $url } $cluster->members;

    # Each member counts for itself, and nginx may go to either, or meanwhile
    # get another token for its reads.

    ok(wait_for(sub {
        my $token = token($other);

        return !grep { !$_->has_forgotten('nginx', $token) } $other, $third;
    }, 6 * TTL), "three members: the newest token expires, $n");
    $before = $other->count_log($authenticated);

    my $got = $three->count_log(qr/is authenticated/);
    my $unanswered = $three->count_log(qr/authentication failed/);
    my $began = time();

    $used->kill();
    ok(wait_for(sub { $cluster->running == 2 && $cluster->leader_now() }, 20),
       "three members: one is killed, $n");
    follows($three, $other, 's1', "three members: another goes on, $n");
    turns($three, 'synced', "three members: nothing is missing, $n");

    # On a busy machine a token may expire before all is read.

    my $most = 1 + int((time() - $began) / TTL);
    my $new = $three->count_log(qr/is authenticated/) - $got;

    ok($new >= 1 && $new <= $most, "three members: with one new token, $n")
        or diag("$new, at most $most");

    # While a leader is elected, etcd may do later what it has not answered.

    $unanswered = $three->count_log(qr/authentication failed/) - $unanswered;
    cmp_ok($other->count_log($authenticated), '<=',
           $before + $most + $unanswered,
           "three members: and asked for no other, $n");

    $used->launch();
    ok(wait_for(sub { $cluster->running == 3 }, 30),
       "three members: it is back, $n");
}

finish();
