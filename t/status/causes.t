#!/usr/bin/perl

# nginx is kept from etcd by one cause after another: each is an error in the
# log once in an outage, in whatever order causes come back, and the status of
# any worker names the endpoint, the prefix or the user with the last error.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Chaos;
use Etcd;
use Finish;
use Nginx;
use Tls;
use Upstream;
use Wait;

my $dir = test_dir();
my $ca = Tls->new('ca');
my $right = $ca->issue('right', san => 'IP:127.0.0.1');
my $wrong = Tls->new('other')->issue('wrong', san => 'IP:127.0.0.1');

$right->install($dir, 'etcd');

my $etcd = Etcd->new(args => ['--bcrypt-cost=4'],
                     tls => { cert => "$dir/etcd.crt",
                              key => "$dir/etcd.key" })->start();

$etcd->put('/s/1', '127.0.0.1:1001');
$etcd->put('/v/name', 'value');
$etcd->user_add('nginx', 'secret', '/s/');
$etcd->auth_enable('root-secret');
$etcd->stop;
$wrong->install($dir, 'etcd');

my $nginx = Nginx->new(etcd => $etcd)->set(CA => $ca->cert);

$nginx->write_secret('password', "secret of another\n");
$nginx->start(<<'EOC');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    ssl_trusted_certificate %%CA%%;
    user nginx;
    password_file password;
}

http {
    upstream api { etcd_members /s/; }
    upstream locked { etcd_members /locked/; }
    upstream sets { etcd_members /none/$host/; }

    etcd_set $name /v/name;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status { etcd_status; }

        location = /api {
            error_page 502 503 = @why;
            proxy_pass http://api;
        }

        location = /locked {
            error_page 502 503 = @why;
            proxy_pass http://locked;
        }

        location @why { return 200 "$etcd_reason"; }
    }
}

stream {
    upstream db { etcd_members /sdb/; }

    server { listen 127.0.0.1:%%PORT_DB%%; proxy_pass db; }
}

EOC

my $endpoint = $etcd->tls_url;


# The cluster as the status has it: state, reason, and the endpoint's error.

sub cluster { $nginx->status->{clusters}{default} }
sub endpoint { cluster()->{endpoints}[0] }
sub state { join(': ', grep { defined } @{ cluster() }{qw(state reason)}) }


# Lines at "error" that match, and those at "info", which tell of the same.

sub errors { $nginx->count_log(qr/\[error\].*$_[0]/) }
sub infos { $nginx->count_log(qr/\[info\].*$_[0]/) }


sub says {
    my ($what, $pattern) = @_;

    my $state = wait_for { state() =~ $pattern ? state() : undef } 30, $what;

    like($state // state(), $pattern, $what);
}


# The endpoint fails at least so many times more by that cause.

sub fails_again {
    my ($cause, $times) = @_;

    my $lines = sub { errors($cause) + infos($cause) };
    my $before = $lines->();

    return wait_for { $lines->() >= $before + $times } 30, "again: $cause";
}


my $refused = qr/failed for \w+: connect\(\) failed/;
my $untrusted = qr/failed for \w+: .*certificate verify/;
my $rejected = qr/user "nginx" is refused/;

# nobody listens

says('nobody listens',
     qr{^connecting: endpoint \Q$endpoint\E: connect\(\) failed .*refused});
ok(fails_again($refused, 3), 'it is tried again');
is(errors($refused), 1, 'that is one error');
is($nginx->get('/api')->{body}, 'unreachable', '$etcd_reason');

my $seen = endpoint();

like($seen->{error}, qr/^connect\(\) failed/, 'the endpoint has an error');
cmp_ok($seen->{failing_for}, '>=', 0, 'and a time');
cmp_ok($seen->{failing_for}, '<', 300, 'of seconds');

# another certificate than that of the CA

$etcd->start;

says('an unknown certificate',
     qr{^connecting: endpoint \Q$endpoint\E: .*certificate verify});
ok(fails_again($untrusted, 3), 'it is tried again');
is(errors($untrusted), 1, 'that is one more error');

# both causes alternate: the log has both already

for my $round (1, 2) {
    $etcd->stop;
    ok(fails_again($refused, 1), "nobody listens, again: $round");
    $etcd->start;
    ok(fails_again($untrusted, 1), "the certificate, again: $round");
}

is(errors($refused), 1, 'no further error, since nobody listens');
is(errors($untrusted), 1, 'nor for the certificate');
cmp_ok(endpoint()->{failing_for}, '>=', $seen->{failing_for},
       'the endpoint fails since the first failure');

# a third cause: etcd refuses the password

$right->install($dir, 'etcd');

says('the user is refused', qr/^unauthorized: etcd refuses the user: \w/);
is(errors($rejected), 1, 'that is an error');
is($nginx->get('/api')->{body}, 'unauthorized', '$etcd_reason');
is(endpoint()->{error}, undef, 'the endpoint has no error any more');
is(endpoint()->{failing_for}, undef, 'nor a time');

# a fourth one: the user may not read all that it wants to

$nginx->write_secret('password', "secret\n");

says('a prefix is denied', qr{^denied: "/locked/" of upstream "locked": etcd});
is($nginx->get('/locked')->{body}, 'denied', '$etcd_reason');

for my $what ('upstream "locked": prefix "/locked/"',
              'upstream "db": prefix "/sdb/"',
              'upstream "sets": prefix "/none/"',
              'variable "$name": key "/v/name"')
{
    my $line = qr/\Q$what\E cannot be read: permission denied/;

    ok(fails_again($line, 2), "$what: it is tried again");
    is(errors($line), 1, "$what: one error");
}

my $locked = Upstream->new($nginx, 'locked')->status;

is("$locked->{state} $locked->{reason}", 'down denied', 'the upstream');

my $db = Upstream->new($nginx, 'db', 'stream')->status;

is("$db->{state} $db->{reason}", 'down denied', 'the upstream of stream');

my $sets = Upstream->new($nginx, 'sets')->status;

is("$sets->{state} $sets->{reason}", 'down denied', 'a prefix with variables');

# members are known, but no change of them: an upstream that serves is degraded

my $api = Upstream->new($nginx, 'api');

$api->shows({ '/s/1' => '127.0.0.1:1001 1 up' }, 'the other prefix is read');
is($api->status->{state}, 'ok', 'it is ok');
is($api->status->{reason}, undef, 'without a reason');

$etcd->revoke_read('nginx', '/s/');
$etcd->restart;

becomes { join(' ', map { $api->status->{$_} // '' } qw(state reason)) }
    'degraded denied', 'a prefix that is denied later', 30;

$etcd->grant_read('nginx', $_) for qw(/s/ /locked/ /sdb/ /none/ /v/);

becomes { state() } 'synced', 'all is allowed: no reason', 30;
is($api->status->{state}, 'ok', 'ok again');

finish();
