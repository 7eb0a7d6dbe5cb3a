#!/usr/bin/perl

# auto_sync: endpoints that members advertise are added to those of the
# configuration, and go when no member advertises them any more.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Cluster;
use Etcd;
use Finish;
use Load;
use Nginx;
use Port;
use Upstream;
use Wait;

# The leader of the cluster is not to change by itself.

my @calm = ('--heartbeat-interval=100', '--election-timeout=1000');

my $cluster = Cluster->new(3, args => [@calm])->start();
my ($first, @others) = $cluster->members;
my ($backend) = Backend->start('one');
my $address = $backend->address;
my $nobody = 'http://127.0.0.1:' . free_port();

$first->put('/s/1', $address);

my $nginx = Nginx->new()->set(FIRST => $first->url, NOBODY => $nobody);

$nginx->start(<<'EOF');

etcd {
    endpoints %%NOBODY%% %%FIRST%%;
    auto_sync 200ms;
    rebalance 1s;
}

etcd off {
    endpoints %%FIRST%%;
}

http {
    upstream api {
        etcd_members /s/;
    }

    upstream off {
        etcd_members /s/ cluster=off;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

sub endpoints { @{ $nginx->status->{clusters}{$_[0] // 'default'}{endpoints} } }
sub configured { map { $_->{url} } grep { !$_->{learned} } endpoints() }
sub learned { sort map { $_->{url} } grep { $_->{learned} } endpoints() }


sub learns {
    my ($wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @wanted = sort map { $_->url } @$wanted;

    wait_for { "@{[learned()]}" eq "@wanted" } 10, $name;

    is_deeply([learned()], \@wanted, $name);
    is_deeply([configured()], [$nobody, $first->url],
              "$name: beside those of the configuration");
}


# members that the test adds, by name

my %added;


# the number of member lists that etcd has sent

sub lists {
    my $sum = 0;

    for my $member ($cluster->members, grep { $_->pid } values %added) {
        my $metrics = Http->new($member->port)->get('/metrics')->{body};

        $metrics =~ /^grpc_server_handled_total\{grpc_code="OK",
                     grpc_method="MemberList".*\}\s(\d+)$/mx
            and $sum += $1;
    }

    return $sum;
}


# Waits until the endpoints known now are in use: two more lists.

sub synced_again {
    my $lists = lists();

    wait_for { lists() > $lists + 1 } 10, 'member lists';
}


my $api = Upstream->new($nginx, 'api');

$api->shows({ '/s/1' => "$address 1 up" }, 'members');

learns(\@others, 'the other members are learned');

my $load = Load->start($nginx->port, clients => 2);

# etcd takes another member only after it has seen the last one run.

sub add {
    my ($name, $learner, @args) = @_;

    my $member = Etcd->new(
        name => $name,
        args => ['--initial-cluster-state=existing', @calm, @args],
    );

    my $cluster_now = join(',', map { "$_->{name}=" . $_->peer_url }
                           $cluster->members, values %added, $member);

    $added{$name} = $member;

    ok(wait_for(sub {
        ($first->etcdctl('member', 'add', $name, @$learner,
                         '--peer-urls', $member->peer_url))[0] == 0
    }, 20, 'member add'), "$name is added");

    # A learner is never healthy.

    return sub {
        $member->launch($cluster_now);
        wait_for { member($name)->{state} eq 'started' } 20, $name
            or die "$name did not start\n";
        $member->wait_healthy() or die if !@$learner;
    };
}


sub member {
    my ($name) = @_;

    my (undef, $list) = $first->etcdctl('member', 'list');
    my ($id) = $list =~ /^(\w+), .*\Q$added{$name}{peer}\E/m;
    my ($state) = $list =~ /^$id, (\w+)/m;

    return { id => $id, state => $state };
}


my $start = add('fourth', []);

synced_again();
learns(\@others, 'a member that has not started is left out');

$start->();
learns([@others, $added{fourth}], 'a member that was added');

add('fifth', [], '--advertise-client-urls', 'http://etcd.example.com:2379,'
    . 'http://127.0.0.1:1,https://127.0.0.1:2')->();

ok(wait_for(sub { grep { $_ eq 'http://127.0.0.1:1' } learned() }, 10,
            'the fifth'), 'an address where nobody is');

synced_again();

my %ignored = (
    'http://etcd.example.com:2379' => 'it has a host name',
    'https://127.0.0.1:2'          => 'it is https',
);

$nginx->logs(qr/\[warn\].*URL "\Q$_\E" is ignored: $ignored{$_}/, 1,
             "$_ is reported once") for sort keys %ignored;

is(scalar(endpoints('off')), 1, 'without auto_sync nothing is learned');

# etcd does not remove a member as long as others may be away.

sub remove {
    my ($name) = @_;

    my $id = member($name)->{id};
    my $output;

    ok(wait_for(sub {
        (my $failed, $output) = $first->etcdctl('member', 'remove', $id);
        !$failed || $output =~ /member not found/i
    }, 20, 'member remove'), "$name is removed") or diag($output);

    delete $added{$name};
}

remove('fifth');
remove('fourth');
learns(\@others, 'members that were removed are forgotten');

# A learner copies the data of the others, and may not be asked before it is
# promoted.

add('sixth', ['--learner'])->();
synced_again();
learns(\@others, 'a learner is left out');

ok(wait_for(sub {
    ($first->etcdctl('member', 'promote', member('sixth')->{id}))[0] == 0
}, 20), 'it is promoted');

learns([@others, $added{sixth}], 'and is an endpoint like others then');
remove('sixth');
learns(\@others, 'until it is removed');


# All configured endpoints are gone: learned endpoints take over.

$first->kill();

ok(wait_for(sub {
    my $default = $nginx->status->{clusters}{default};

    $default->{state} eq 'synced'
        && grep { $default->{endpoint} eq $_->url } @others
}, 20, 'a learned endpoint'), 'a learned endpoint takes over');

$cluster->leader->put('/s/2', '127.0.0.1:1');
$api->shows({ '/s/1' => "$address 1 up", '/s/2' => '127.0.0.1:1 1 failing' },
            'changes arrive through it, where nobody listens');

is_deeply([configured()], [$nobody, $first->url],
          'those of the configuration are never given up');

$cluster->leader->del('/s/2');
$first->launch($first->{cluster});
$_->kill() for @others;
$_->launch($_->{cluster}) for @others;

ok(wait_for(sub { $nginx->status->{clusters}{default}{state} eq 'synced' }, 20,
            'the cluster'), 'after all of them were away');
$api->shows({ '/s/1' => "$address 1 up" }, 'it goes on');

my $seen = $load->results();

cmp_ok($seen->{requests}, '>', 100, 'there was load all the time');
is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
    or diag(Load::describe($seen));

finish();
