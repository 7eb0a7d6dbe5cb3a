#!/usr/bin/perl

# nginx starts while etcd's database is full, and gets no lease: nginx says why,
# asks again every few seconds, and lets no request wait for a lock.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    QUOTA => 3_000_000,
    VALUE => 'x' x 200_000,
};

my $etcd = Etcd->new(args => ['--quota-backend-bytes=' . QUOTA])->start();
my ($backend) = Backend->start('one');

my $n = 0;

1 while $n < 40 && eval { $etcd->put('/fill/' . $n++, VALUE) };
cmp_ok($n, '<', 40, 'the database is full');

my $nginx = Nginx->new(etcd => $etcd)->set(BACKEND => $backend->address);

$nginx->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election main /e/main value=m ttl=10s;
    register /nginx/1 value=n ttl=10s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /leads {
            return 200 "$etcd_is_leader_main";
        }

        location /lock {
            etcd_lock /locks/one wait=300s;
            proxy_pass http://%%BACKEND%%;
        }
    }
}

EOF

my @names = ('election "main"', 'registration "/nginx/1"', 'locks');
my $full = 'no lease: .*database space exceeded';


# the number of leases that were requested, as etcd counts them

sub requested {
    my ($count) = $etcd->http->get('/metrics')->{body}
                  =~ /^grpc_server_started_total\{[^}]*
                      grpc_method="LeaseGrant"[^}]*\}\s(\S+)$/mx;

    return $count // 0;
}


sub logged { return $nginx->count_log(qr/\[$_[0]\].*: \Q$_[1]\E: $_[2]/) }


# No request waits, neither one that asks for a lease nor one after it.

is($nginx->get('/lock')->{status}, 503, 'a request gets no lock') for 1 .. 3;

for my $name (@names) {
    ok(wait_for(sub { logged('error', $name, $full) }, 20, 'an error'),
       "$name: nginx says why it has no lease");
}

# Three sessions ask every four seconds, at intervals of two seconds or more.

my $begun = time();
my $before = requested();

ok(wait_for(sub { $nginx->get('/lock'); requested() >= $before + 9 }, 90,
            'requests'), 'nginx asks again');
cmp_ok(time() - $begun, '>', 3, 'but only every few seconds');

for my $name (@names) {
    is(logged('error', $name, $full), 1, "$name: this was said once");
    cmp_ok(logged('info', $name, $full), '>', 0, 'and noted again');
}

# There is room.

$etcd->del_prefix('/fill/');
$etcd->compact;
$etcd->manage('defrag');
$etcd->manage('alarm', 'disarm');

ok(wait_for(sub { $nginx->leads }, 30, 'the election'), 'nginx leads');
ok(wait_for(sub { defined $etcd->get('/nginx/1') }, 30, 'the registration'),
   'it is registered');
ok(wait_for(sub { $nginx->get('/lock')->{status} == 200 }, 30, 'a lock'),
   'locks are taken');
is(logged('notice', $_, 'lease \S+ is granted'), 1,
   "$_: nginx says that it has a lease") for @names;

finish();
