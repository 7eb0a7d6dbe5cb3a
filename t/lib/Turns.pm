package Turns;

# An nginx and another candidate, which lead by turns.
#
#     my $nginx = Nginx->new(etcd => $etcd)->start(Turns::CONFIG);
#     Turns::take($etcd, $nginx, '/elections/ingress', 'etcdctl');
#
# Another program is named after these, as of Election.  No lease ends by
# itself while it is looked at: what ends is revoked.

use strict;
use warnings;

use Test::More;

use Becomes;
use Election;
use Wait;

use constant CONFIG => <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    election ingress /elections/ingress/ value=nginx ttl=30s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "$etcd_leader_ingress:$etcd_is_leader_ingress";
        }

        location /status {
            etcd_status;
        }
    }
}

EOF_CONFIG


sub take {
    my ($etcd, $nginx, $name, $who, @program) = @_;

    my $election = Election->new($etcd, $name);
    my $candidates = sub { scalar(my @all = $election->candidates) };

    $nginx->comes_to_say('nginx:1', "$who: nginx leads");

    my $other = Election->campaign($etcd, $name, $who, @program);

    ok(wait_for(sub { $candidates->() == 2 }, 20), "$who campaigns");
    stays { $nginx->says } 'nginx:1', 'nginx leads on', 0.5;
    ok(!$other->has_won, "$who waits");

    # A candidate whose lease is revoked goes to the end of the queue.

    $etcd->revoke($election->leader->{lease});

    ok($other->wins, "nginx has lost its lease: $who wins");
    $nginx->comes_to_say("$who:", 'nginx sees it');
    ok(wait_for(sub { $candidates->() == 2 }, 10), 'and campaigns');
    stays { $nginx->says } "$who:", "$who leads on", 0.5;
    is(Election->view($nginx, 'ingress')->{leader_key},
       $election->leader->{key}, 'both see the same leader');

    ok($other->resign, "$who resigns");
    $nginx->comes_to_say('nginx:1', 'nginx leads');

    my $dies = Election->campaign($etcd, $name, "$who-2", @program);

    ok(wait_for(sub { $candidates->() == 2 }, 20), "$who campaigns again");
    $etcd->del($election->leader->{key});
    ok($dies->wins, "the key of nginx is deleted: $who wins");
    $nginx->comes_to_say("$who-2:", 'nginx sees it');

    my $lease = $election->leader->{lease};

    $dies->crash;
    stays { $nginx->says } "$who-2:",
        "$who is dead: its key is waited out", 0.5;
    $etcd->revoke($lease);
    $nginx->comes_to_say('nginx:1', 'to its end');
}


1;
