#!/usr/bin/perl

# A lease that may not be renewed, since the user may no longer put its key,
# ends alone: other leases, the watches and the connection stay.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Cluster;
use Election;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    TTL   => 20,         # seconds, of the lease that is refused
    OTHER => 10,         # of the others
    ROOT  => 'root-secret',
};

my $cluster = Cluster->new(3, args => ['--bcrypt-cost=4'])->start();
my $etcd = $cluster->leader;

$etcd->put('/s/1', '127.0.0.1:1');
$etcd->user_add('nginx', 'secret', '/s/');
$etcd->grant_right('nginx', 'readwrite', $_) for qw(/e/ /nginx/ /extra/);


# Older releases of etcd renew a lease whatever its keys are.

sub checks_renewals {
    my ($member) = @_;

    my $lease = $member->grant(TTL);

    $member->put('/other', 'x', lease => $lease);

    my $root = $member->{token};
    my $user = $member->call('auth/authenticate',
                             { name => 'nginx', password => 'secret' });

    $member->{token} = $user->{token};

    my $answer = $member->post('lease/keepalive', { ID => $lease });

    $member->{token} = $root;

    return $answer->{body} =~ /permission denied/;
}


$etcd->auth_enable(ROOT);
$_->as_root(ROOT) for $cluster->members;

my $checks = checks_renewals($etcd);

diag('etcd ' . $etcd->version . ($checks ? ' checks' : ' does not check')
     . ' the rights on the keys of a renewed lease');

my $nginx = Nginx->new()->set(ETCD => $cluster->endpoints, TTL => TTL,
                              OTHER => OTHER);

$nginx->write_secret('password', "secret\n");
$nginx->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    user nginx;
    password_file password;
    election main /e/main value=m ttl=%%OTHER%%s;
    register /nginx/1 value=n ttl=%%OTHER%%s;
    register /extra/1 value=x ttl=%%TTL%%s;
}

http {
    upstream api {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /leads {
            return 200 "$etcd_is_leader_main";
        }

        location /status {
            etcd_status;
        }
    }
}

EOF


sub logged { return $nginx->count_log(qr/\[$_[0]\].*$_[1]/) }


# the lease of a key; undef without the key

sub lease {
    my ($key) = @_;

    my ($kv) = grep { $_->{key} eq $key } $etcd->list($key);

    return $kv && $kv->{lease};
}


sub refused { return logged('info', 'keepalive stream ended: permission') }

my $extra = 'registration "/extra/1": lease \S+';
my $denied = "$extra was not renewed: permission denied";
my $lost = "$extra is lost";

ok(wait_for(sub { $nginx->leads && defined lease('/nginx/1')
                  && defined lease('/extra/1') }, 30, 'all leases'),
   'nginx has three leases');
ok(wait_for(sub { Upstream->new($nginx, 'api')->member('127.0.0.1:1') }, 20),
   'and follows a prefix');

my $key = Election->new($etcd, '/e/main')->leader->{key};
my %first = map { $_ => lease($_) } '/nginx/1', '/extra/1';
my $reconnects = $nginx->cluster->{reconnects};
my $ended = logged('info', 'watch stream ended');

# Nothing of this may change, whatever happens to /extra/.

sub others_stay {
    my ($when) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok($nginx->leads, "$when: nginx leads");
    is(Election->new($etcd, '/e/main')->leader->{key}, $key,
       "$when: with the same key");
    is(lease('/nginx/1'), $first{'/nginx/1'},
       "$when: the other registration has its lease");
    is($nginx->cluster->{reconnects}, $reconnects,
       "$when: the connection stays");
    is(logged('info', 'watch stream ended'), $ended,
       "$when: the watches stay");
    is($nginx->count_log(qr/failed for streams/), 0,
       "$when: no endpoint is blamed");
}


# The right is taken away and given back, while the lease lasts.

$etcd->revoke_read('nginx', '/extra/');

if (!$checks) {
    my $renewals = sub {
        my $sum = 0;

        $sum += $_->metric('etcd_debugging_lease_renewed_total') // 0
            for $cluster->members;

        return $sum;
    };
    my $before = $renewals->();

    ok(wait_for(sub { $renewals->() > $before + 4 }, 60, 'renewals'),
       'the leases are renewed');
    is(refused(), 0, 'none is refused');
    others_stay('renewed');
    finish();
    exit;
}

ok(wait_for(sub { logged('error', $denied) }, TTL, 'a refusal'),
   'a refused renewal is reported');
others_stay('refused');

$etcd->grant_right('nginx', 'readwrite', '/extra/');
ok(wait_for(sub { logged('notice', "$extra is renewed again") }, TTL,
            'a renewal'), 'the lease is renewed with the right');
is(lease('/extra/1'), $first{'/extra/1'}, 'it is the same lease');
is(logged('error', $denied), 1, 'the refusal is reported once');
is(logged('warn', $lost), 0, 'the lease was not lost');
others_stay('renewed again');

# The right is taken away until the lease ends, and then given back.

my $refused = refused();

$etcd->revoke_read('nginx', '/extra/');
ok(wait_for(sub { logged('warn', $lost) }, 2 * TTL, 'the end of the lease'),
   'the lease ends');
cmp_ok(refused() - $refused, '>', 1, 'its renewal was tried again');
cmp_ok(refused() - $refused, '<', 13, 'but not much more often than others');
is(logged('error', $denied), 2, 'this was reported once');
others_stay('ended');

$etcd->grant_right('nginx', 'readwrite', '/extra/');
ok(wait_for(sub { (lease('/extra/1') // 0) ne $first{'/extra/1'}
                  && defined lease('/extra/1') }, 30, 'a registration'),
   'nginx registers again, with another lease');
others_stay('registered again');

finish();
