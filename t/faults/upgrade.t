#!/usr/bin/perl

# Rolling upgrades of an etcd cluster, from 3.5 to 3.6 to 3.7, and a downgrade
# back to 3.6: nobody enters beside a holder of a lock, a leader goes on, and no
# request goes to another one, members are followed, and never gone.
#
# "make test-upgrade" builds these etcds.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Becomes;
use Cluster;
use Contenders;
use Door;
use Etcd;
use Finish;
use Load;
use LockHistory;
use Nginx;
use Register;
use Upstream;
use Wait;

use constant {
    SNAPSHOT => 100,                    # changes
    CLIENTS  => 6,
    SOME     => 20,                     # writes after each restart
    CALM     => 60,
    CHANCE   => 0.2,                    # seconds to enter beside a holder
};

my %bin = map { $_ => Nginx::modules_dir() . "/etcd-$_" } qw(3.5 3.6 3.7);

plan(skip_all => 'no etcd 3.5, 3.6 and 3.7: "make test-upgrade" builds them')
    if grep { !-x "$_/etcd" || !-x "$_/etcdctl" } values %bin;

my %locks = (bare => 0, passed => 0, fenced => 1);

# etcd 3.7 panics over the requests by which 3.5 has written the names of its
# members: 3.6 has to have left them behind, in a snapshot.

my $cluster = Cluster->new(3, bin => $bin{'3.5'},
                           args => ['--snapshot-count', SNAPSHOT])->start();
my @members = $cluster->members;
my @backends = Backend->start(2);
my $registers = Register->start(%locks);
my $door = Door->new();

$cluster->ask('put', "/api/$_", $backends[$_]->address) for 0 .. 1;

# Leases that outlive a machine that stands still: nothing else ends a hold.

my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
    ping_interval 5s;
    audit_interval 1s;
    election ingress /elections/ingress value=%%HOST%%:%%PORT%% ttl=60s;
}

http {
    upstream api {
        etcd_members /api/;
    }

    upstream churn {
        etcd_members /churn/;
    }

    upstream leader {
        etcd_leader /elections/ingress;
    }

    proxy_read_timeout 10m;
    proxy_set_header X-Token $etcd_lock_token;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location = /leads {
            return 200 "$etcd_is_leader_ingress";
        }

        location = /leader {
            proxy_pass http://leader/reached;
        }

        location = /reached {
            return 200 "%%NAME%%";
        }

        location = /held {
            etcd_lock /locks/held wait=10m;
            proxy_pass http://%%DOOR%%;
        }

        location = /now {
            etcd_lock /locks/held;
            proxy_pass http://%%DOOR%%;
        }

        location /bare {
            etcd_lock /locks/bare wait=30s;
            proxy_pass http://%%REGISTER%%;
        }

        location /passed {
            etcd_lock /locks/passed wait=30s handoff=8;
            proxy_pass http://%%REGISTER%%;
        }

        location /fenced {
            etcd_lock /locks/fenced wait=30s;
            proxy_pass http://%%REGISTER%%;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF_CONFIG


sub nginx {
    my ($name) = @_;

    return Nginx->new()->set(
        ETCD     => $cluster->endpoints,
        NAME     => $name,
        DOOR     => $door->address,
        REGISTER => $registers->address,
    )->start($config);
}


sub ask {
    my ($nginx) = @_;

    my $http = $nginx->http;

    $http->{timeout} = 600;
    $http->send('GET', '/held', undef, Connection => 'close');

    return $http;
}


# The first nginx leads, and has the lock, from here to the end.

my $first = nginx('first');

ok(wait_for(sub { $first->leads }, 20), 'an nginx leads');

my $second = nginx('second');
my @nginxes = ($first, $second);

for my $nginx (@nginxes) {
    Upstream->new($nginx, 'api')
        ->shows({ map { ("/api/$_" => $backends[$_]->address . ' 1 up') }
                      0 .. 1 }, 'members');
    becomes { $nginx->get('/leader')->{body} } 'first', 'a leader', 20;
}

my $holds = ask($first);
my $visit = $door->enters(20) or die "nobody has the lock\n";
my $token = $visit->header('x-token');
my $waits = ask($second);

my $contenders = Contenders->start(\@nginxes, [keys %locks], long => 1,
                                   clients => CLIENTS);
my %load = map {
    my $nginx = $_;
    map { ("$_ $nginx->{values}{NAME}" =>
               Load->start($nginx->port, path => $_, clients => 1,
                           pause => 0.02)) } qw(/ /leads /leader);
} @nginxes;


# Shows that nginx follows etcd after a restart, and that locks are held.

my $n = 0;

sub goes_on {
    my ($what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $before = $registers->mark;
    my $revision = $cluster->ask('put', '/churn/' . $n % 5,
                                 "10.9.0.$n:80");
    $n++;

    for my $nginx (@nginxes) {
        Upstream->new($nginx, 'churn')->sees($revision, CALM);
    }

    ok(wait_for(sub { $registers->count('write', undef, $before) >= SOME },
                CALM), "$what: members are followed, and locks are taken");
    ok(!$visit->is_gone && !$door->enters(CHANCE), 'the holder is alone');
    is($_->get('/now')->{status}, 423, 'and will be') for @nginxes;
}


sub restart_as {
    my ($member, $release) = @_;

    $member->stop();
    $member->runs($bin{$release});
    $member->launch();

    wait_for { $member->is_healthy } CALM, "$member->{name} $release"
        or die "etcd $release did not start, see $member->{log}\n";

    like($member->version, qr/^\Q$release\E\./,
         "$member->{name} is etcd " . $member->version);
    goes_on($release);
}


# All members know which release the cluster has, and keep their data as that.

sub cluster_is {
    my ($release) = @_;

    return wait_for {
        !grep {
            my $seen = eval { decode_json($_->http->get('/version')->{body}) };
            my $status = eval { $_->call('maintenance/status', {}) };

            ($seen->{etcdcluster} // '') ne "$release.0"
                || ($status->{storageVersion} // "$release.0") ne "$release.0";
        } @members;
    } CALM, "the cluster to be $release";
}


sub cluster_saves {
    my %before = map { $_ => $_->count_log(qr/saved snapshot/) } @members;

    return wait_for {
        !grep { $_->count_log(qr/saved snapshot/) <= $before{$_} } @members;
    } CALM, 'snapshots';
}


goes_on('3.5');

for my $release ('3.6', '3.7') {
    restart_as($_, $release) for @members;
    ok(cluster_is($release), "the cluster is $release");
    ok(cluster_saves(), 'and its log begins there');
}

# etcdctl asks one of them, which asks its leader.

for my $action ('validate', 'enable') {
    my ($status, $output) = $members[0]->etcdctl('downgrade', $action, '3.6');

    is($status, 0, "downgrade $action") or diag($output);
}

ok(cluster_is('3.6'), 'the cluster is 3.6');
restart_as($_, '3.6') for reverse @members;
ok(cluster_is('3.6'), 'and stays so');

# the lock is passed on in the end

$visit->leave();
is($holds->receive->{status}, 200, 'the holder was not disturbed');

my $next = $door->enters(CALM);

ok($next, 'and then the one that waited is let in');
cmp_ok($next->header('x-token'), '>', $token, 'with a greater token');
$next->leave();
is($waits->receive->{status}, 200, 'and is not disturbed either');

ok($contenders->end(), 'clients end');

my $history = LockHistory->new(events   => [$registers->history],
                               requests => [$contenders->history]);

for my $lock (sort keys %locks) {
    is_deeply([$history->$_($lock)], [], "$lock: no $_")
        for qw(overlaps lost_updates tokens stale unexplained);
    cmp_ok($history->statuses($lock)->{200} // 0, '>', SOME, 'many got in');
}

is_deeply([$history->unanswered], [], 'nobody is left without an answer');

for my $what (sort keys %load) {
    my $seen = $load{$what}->results();
    my ($path, $who) = split(/ /, $what);
    my @wanted = $path eq '/leader' ? 'first'
               : $path eq '/leads' ? ($who eq 'first' ? '1' : '') : ();

    is(scalar(@{ $seen->{failed} }), 0, "$what: no request fails")
        or diag(Load::describe($seen));
    is_deeply([keys %{ $seen->{last} }], \@wanted, 'by one leader all the time')
        if @wanted;
    cmp_ok($seen->{requests}, '>', 100, 'there was load');
}

for my $nginx (@nginxes) {
    my $now = $nginx->cluster();

    cmp_ok($now->{reconnects}, '>=', 1, 'watches went from member to member');
    is($now->{resyncs}, 0, 'and on where they were');
    is($now->{repairs}, 0, 'without losing anything');
}

finish();
