#!/usr/bin/perl

# etcd refuses the login, since the password was changed there and not in the
# file: leases end, but watches and their connection stay, and changes of
# members are followed.  With the new password in the file everything is as
# before.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    ROOT => 'root-secret',
    TTL  => 3,
    LONG => 4,           # TTLs without the right password
};

my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();

$etcd->user_add('nginx', 'former', '/s/');
$etcd->grant_right('nginx', 'readwrite', $_) for qw(/e/ /nginx/);
$etcd->auth_enable(ROOT);

my $nginx = Nginx->new(etcd => $etcd)->set(TTL => TTL);

$nginx->write_secret('password', "former\n");
$nginx->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    user nginx;
    password_file password;
    election main /e/main value=m ttl=%%TTL%%s;
    register /nginx/1 value=n ttl=%%TTL%%s;
}

http {
    upstream api {
        etcd_members /s/;
    }

    upstream leader {
        etcd_leader /e/other;
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

my $api = Upstream->new($nginx, 'api');


sub cluster { $nginx->status->{clusters}{default} }

sub state { cluster()->{state} }

sub works { $nginx->leads && defined $etcd->get('/nginx/1') }


# puts a member, and waits until nginx has it

sub follows {
    my ($n) = @_;

    $etcd->put("/s/$n", "127.0.0.1:$n");

    return wait_for { $api->member("127.0.0.1:$n") } 10, "member $n";
}


ok(wait_for(sub { works() }, 30), 'nginx leads, and is registered');
ok(follows(1), 'and follows members');

$etcd->user_passwd('nginx', 'latter');

ok(wait_for(sub { !$nginx->leads }, 30), 'the leadership ends');
is(state(), 'unauthorized', 'since etcd refuses the user');

my $until = time() + LONG * TTL;
my ($n, $missed) = (1, 0);

while (time() < $until && !$missed) {
    $missed++ if !follows(++$n);
    select(undef, undef, undef, 0.5);
}

is($missed, 0, 'members are followed all the time');
is(cluster()->{reconnects}, 0, 'the connection stays');
is(join("\n", grep { /endpoint .* failed/ } split(/\n/, $nginx->error_log)),
   '', 'the endpoint has no fault');
ok(!defined $etcd->get('/nginx/1'), 'the registration has ended');

$nginx->write_secret('password', "latter\n");

ok(wait_for(sub { works() }, 60), 'with the new password all is as before');
ok(wait_for(sub { state() eq 'synced' }, 30), 'and the user is accepted');
ok(follows(++$n), 'and members are followed');

finish();
