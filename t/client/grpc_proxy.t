#!/usr/bin/perl

# Many nginxes behind "etcd grpc-proxy": they follow members and leaders, and
# elect a leader, over restarts of the proxy and of etcd, and etcd sees no more
# of them than of one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use GrpcProxy;
use Nginx;
use Upstream;
use Wait;

use constant {
    NGINXES   => 8,
    MAX_STALE => 6,
    PROOFS    => 4,                     # together longer than MAX_STALE
};

my $etcd = Etcd->new()->start();
my $proxy = GrpcProxy->new($etcd)->start();

my $config = <<'EOF';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 1m;
    connect_timeout 1s;
    election jobs /elections/jobs value=%%SELF%% ttl=5s;
    register /nginx/%%SELF%% value=here ttl=5s;
}

http {
    upstream api {
        etcd_members /services/api/;
    }

    upstream db {
        etcd_leader /db max_stale=%%STALE%%s;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOF


sub streams { $etcd->metric('etcd_debugging_mvcc_watch_stream_total') }


sub nginx {
    my ($self) = @_;

    return Nginx->new(etcd => $proxy)->set(
        SELF  => $self,
        STALE => MAX_STALE,
    )->start($config);
}


my @nginxes;
my %members;


sub all_show {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $expected = join(' ', map { "$_=$members{$_}" } sort keys %members);

    my @late = grep {
        my $api = Upstream->new($_, 'api');

        !wait_for(sub {
            my %seen = %{ $api->members };

            join(' ', map { "$_=$seen{$_}" } sort keys %seen) eq $expected;
        }, 30);
    } @nginxes;

    return is(scalar(@late), 0, $name);
}


my $serial = 0;

sub put {
    my $n = ++$serial;

    $etcd->put("/services/api/$n", "127.0.0.1:$n");
    $members{"/services/api/$n"} = "127.0.0.1:$n 1 up";
}


sub leads { $_[0]->status->{elections}{jobs}{is_leader} }


sub one_leads {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok(wait_for(sub { grep({ leads($_) } @nginxes) == 1 }, 30), $name);
}


sub all_registered {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok(wait_for(sub { $etcd->list('/nginx/') == @nginxes }, 30), $name);
}


# the key of the leader in the election /db, which nobody follows if it was not
# proved for too long

my $leading;

sub db { $_[0]->status->{upstreams}{db} }


sub follows {
    my ($db) = @_;

    my ($member) = @{ $db->{members} };

    return $member && $member->{key} eq $leading
           && $db->{staleness_ms} >= 0
           && $db->{staleness_ms} <= MAX_STALE * 1000;
}


sub all_follow {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @late = grep {
        my $nginx = $_;

        !wait_for(sub { follows(db($nginx)) }, 30);
    } @nginxes;

    return is(scalar(@late), 0, $name);
}


sub elect {
    my ($next) = @_;

    $etcd->txn($leading ? [del => $leading] : (),
               [put => "/db/$next", "127.0.0.1:$next"]);
    $leading = "/db/$next";
}


# Proofs come in a quiet time that is longer than MAX_STALE.

sub is_proved {
    my ($nginx) = @_;

    my ($proofs, $before) = (0, 0);

    wait_for {
        my $staleness = db($nginx)->{staleness_ms};

        $proofs++ if $staleness < $before;
        $before = $staleness;

        $proofs >= PROOFS;
    } 2 * PROOFS * MAX_STALE, 'proofs' or return 0;

    return follows(db($nginx));
}


# etcd's view of one nginx that has watches of all kinds

put();
elect(1);
push @nginxes, nginx(1);
one_leads('one nginx: it leads');
all_registered('it is registered');
put();
all_show('and follows members, through the proxy');
all_follow('and a leader');
ok(is_proved($nginxes[0]), 'that it leads is proved while nothing happens');

my $alone = streams();

# more nginxes

push @nginxes, map { nginx($_) } 2 .. NGINXES;
all_registered(NGINXES . ' nginxes: all are registered');
put();
all_show('all follow members');
elect(2);
all_follow('and a leader');
one_leads('one of them leads');

ok(wait_for(sub { streams() == $alone }, 10),
   'etcd has as many watch streams as with one nginx');

sub keepalives {
    return $etcd->metric('grpc_server_started_total{'
                         . 'grpc_method="LeaseKeepAlive",'
                         . 'grpc_service="etcdserverpb.Lease",'
                         . 'grpc_type="bidi_stream"}');
}

wait_for { keepalives() } 20, 'renewals';
is(keepalives(), 1, 'and one stream of leases');

# The proxy goes, and changes meanwhile are not missed.

$proxy->stop();
put();
$etcd->del('/services/api/1');
delete $members{'/services/api/1'};
$proxy->start();

all_show('the proxy was away: nothing is missed');
put();
all_show('and what comes next is seen');
all_follow('the leader is followed after it');
elect(3);
all_follow('so is the next one');
one_leads('one of them leads after it');
all_registered('all are registered after it');

# etcd restarts, too.

$etcd->restart();
put();
all_show('etcd was away: what comes next is seen');
all_follow('etcd was away: the leader is followed');
elect(4);
all_follow('etcd was away: so is the next one');
one_leads('one of them leads after that, too');
all_registered('all are registered after that, too');

# A lease that etcd has let expire cannot be revoked: nginx understands the
# proxy's answer, and another lease is granted.

sub leases { map { $_->{key} => $_->{lease} } $etcd->list('/nginx/') }

sub lost { $_[0]->count_log(qr{registration "/nginx/\d+": lease \w+ is lost}) }

my %former = leases();
my %before = map { $_ => lost($_) } @nginxes;

$etcd->freeze();
ok(wait_for(sub { !grep { lost($_) == $before{$_} } @nginxes }, 30,
            'lost leases'), 'etcd stands still: all leases are lost');
$etcd->thaw();

ok(wait_for(sub {
    my %now = leases();

    keys(%now) == @nginxes
        && !grep { $now{$_} eq $former{$_} } keys %now;
}, 30, 'new leases'), 'then all are registered with others');
one_leads('and one of them leads');

# A leader that ends gives way.

my $leader;

wait_for { ($leader) = grep { leads($_) } @nginxes } 30, 'a leader';
$leader->stop();
@nginxes = grep { $_ != $leader } @nginxes;
one_leads('another one leads in its place');

finish();
