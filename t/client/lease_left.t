#!/usr/bin/perl

# The time that the lease of another leader has left, in the status: etcd is
# asked for it while somebody looks, and otherwise not at all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Election;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    LONG  => 600,
    OWN   => 60,
    QUIET => 3,                         # seconds; nginx asks etcd once in these
};

my $etcd = Etcd->new()->start();
my $election = Election->new($etcd, '/elections/x');
my $lease = $etcd->grant(LONG);
my $key = sprintf('/elections/x/%x', $lease);

$etcd->put($key, 'other', lease => $lease);

my $nginx = Nginx->new(etcd => $etcd)->set(TTL => OWN)->start(<<'EOF_CONFIG');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    election x /elections/x value=own ttl=%%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "$etcd_leader_x";
        }

        location /status {
            etcd_status;
        }
    }
}

EOF_CONFIG


sub left {
    my ($leader) = @_;

    my $view = Election->view($nginx, 'x');

    return ($view->{leader} // '') eq $leader ? $view->{remaining_ms} : -1;
}

sub asked {
    my $metrics = $etcd->http->get('/metrics')->{body};

    return $metrics =~ /^grpc_server_started_total\{.*
                        grpc_method="LeaseTimeToLive".*\}\s(\d+)$/mx ? $1 : 0;
}


ok(wait_for(sub { $nginx->get('/')->{body} eq 'other' }), 'another one leads');
is(asked(), 0, 'nobody looks: nobody asks');

my $before = left('other');

is($before, -1, 'not known yet');

my $start = time();

ok(wait_for(sub { ($before = left('other')) > 0 }), 'then it is');
cmp_ok($before, '<=', LONG * 1000, 'not more than its TTL');
ok(wait_for(sub { left('other') <= $before - 2000 }), 'it becomes less');
cmp_ok(asked(), '<=', time() - $start + 2, 'asked once a second at most');

# The lease is renewed.

my $less = left('other');

$etcd->call('lease/keepalive', { ID => $lease });
ok(wait_for(sub { left('other') > $less }), 'more when it was renewed');

# Nobody looks any more.

my ($last, $since) = (-1, 0);

ok(wait_for(sub {
       my $now = asked();

       ($last, $since) = ($now, time()) if $now != $last;
       return time() - $since >= QUIET;
   }, 30), 'nobody looks any more: nobody asks');

# This nginx leads.

$etcd->revoke($lease);
ok(wait_for(sub { $nginx->get('/')->{body} eq 'own' }), 'this nginx leads');

# nginx knows the TTL of its own lease: a look at the status asks nobody.

my $told = asked();

ok(wait_for(sub { left('own') > 0 }), 'it knows by itself');
cmp_ok(left('own'), '<=', OWN * 1000, 'not more than its TTL');
is(asked(), $told, 'nobody was asked for that');

finish();
