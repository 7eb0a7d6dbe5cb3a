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
use Time::HiRes qw(sleep time);

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
    my $says = sub { $nginx->get('/')->{body} };

    my $becomes = sub {
        my ($wanted, $name) = @_;

        local $Test::Builder::Level = $Test::Builder::Level + 1;

        wait_for { $says->() eq $wanted } 10, "\"$wanted\"";
        is($says->(), $wanted, $name);
    };

    my $stays = sub {
        my ($wanted, $name) = @_;

        local $Test::Builder::Level = $Test::Builder::Level + 1;

        my $end = time() + 0.5;
        my %seen;

        while (time() < $end) {
            $seen{$says->()}++;
            sleep(0.01);
        }

        is_deeply([keys %seen], [$wanted], $name);
    };

    $becomes->('nginx:1', "$who: nginx leads");

    my $other = Election->campaign($etcd, $name, $who, @program);

    ok(wait_for(sub { $candidates->() == 2 }, 20), "$who campaigns");
    $stays->('nginx:1', 'nginx leads on');
    ok(!$other->has_won, "$who waits");

    # whose lease is revoked goes to the end of the queue

    $etcd->revoke($election->leader->{lease});

    ok($other->wins, "nginx has lost its lease: $who wins");
    $becomes->("$who:", 'nginx sees it');
    ok(wait_for(sub { $candidates->() == 2 }, 10), 'and campaigns');
    $stays->("$who:", "$who leads on");
    is(Election->view($nginx, 'ingress')->{leader_key},
       $election->leader->{key}, 'both see the same leader');

    ok($other->resign, "$who resigns");
    $becomes->('nginx:1', 'nginx leads');

    my $dies = Election->campaign($etcd, $name, "$who-2", @program);

    ok(wait_for(sub { $candidates->() == 2 }, 20), "$who campaigns again");
    $etcd->del($election->leader->{key});
    ok($dies->wins, "the key of nginx is deleted: $who wins");
    $becomes->("$who-2:", 'nginx sees it');

    my $lease = $election->leader->{lease};

    $dies->crash;
    $stays->("$who-2:", "$who is dead: its key is waited out");
    $etcd->revoke($lease);
    $becomes->('nginx:1', 'to its end');
}


1;
