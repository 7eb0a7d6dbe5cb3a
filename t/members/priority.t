#!/usr/bin/perl

# Members with priorities: the members of the lowest one serve, whatever number
# it is, the others when none of these can; in every worker, as members come and
# go.  And registries that write all the time without a meaning.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Upstream;

my $etcd = Etcd->new()->start();
my ($a, $b, $c, $s) = Backend->start('a', 'b', 'c', 's');

my $nginx = Nginx->new(etcd => $etcd);

$nginx->start(<<'EOT' =~ s/STATIC/$s->address/er);

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream dns {
        etcd_members /skydns/local/ format=skydns max_fails=0;
    }

    upstream static {
        etcd_members /skydns/local/ format=skydns;
        server STATIC backup;
    }

    upstream apisix {
        etcd_members /apisix/upstreams/ format=apisix;
    }

    upstream rpcx {
        etcd_members rpcx/Arith format=rpcx;
    }

    upstream heartbeat {
        etcd_members nodes/worker/ format=dolphinscheduler;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }
}

EOT

my $dns = Upstream->new($nginx, 'dns');


sub skydns {
    my ($name, $backend, $priority) = @_;

    my ($host, $port) = split(/:/, $backend->address);

    return [put => "/skydns/local/$name",
            "{\"host\":\"$host\",\"port\":$port,\"priority\":$priority}"];
}


sub shows {
    my ($name, %states) = @_;

    my %at = (a => $a, b => $b, c => $c);

    $dns->shows({ map { ("/skydns/local/$_" => $at{$_}->address
                         . " 100 $states{$_}") } keys %states }, $name);
}


# the backends that answer, over both workers

sub answers {
    my ($name) = @_;

    return join(' ', sort keys %{ $nginx->tally("/to/$name", 40, 8) });
}


$etcd->txn(skydns('a', $a, 10), skydns('b', $b, 20), skydns('c', $c, 30));
shows('the lowest is up', a => 'up', b => 'backup', c => 'backup');
is(answers('dns'), 'a', 'and serves alone');

$etcd->txn(skydns('c', $c, 10));
shows('another of the same', a => 'up', b => 'backup', c => 'up');
is(answers('dns'), 'a c', 'both serve');

$a->down;
is(answers('dns'), 'c', 'one of them is down');
$c->down;
is(answers('dns'), 'b', 'both are: the next one serves');
$_->up for $a, $c;

$etcd->txn([del => '/skydns/local/a'], [del => '/skydns/local/c']);
shows('with the others gone the next one is up', b => 'up');
is(answers('dns'), 'b', 'and serves');

$etcd->txn(skydns('a', $a, 40));
shows('a higher one changes nothing', a => 'backup', b => 'up');
is(answers('dns'), 'b', 'it waits');

$etcd->txn(skydns('c', $c, 1));
shows('a lower one', a => 'backup', b => 'backup', c => 'up');
is(answers('dns'), 'c', 'takes over');

$etcd->txn(map { skydns($_->[0], $_->[1], 65535) } ['a', $a], ['b', $b],
           ['c', $c]);
shows('the last priority there is', a => 'up', b => 'up', c => 'up');
is(answers('dns'), 'a b c', 'all serve');

# a static backup beside the members, which is one at any priority

my $static = Upstream->new($nginx, 'static');

$static->sees($etcd->revision);
is(answers('static'), 'a b c', 'a static backup waits');
$static->sees($etcd->del_prefix('/skydns/'));
$dns->shows({}, 'no member is left');
is(answers('static'), 's', 'then it serves');

# The highest priority goes first, and nobody waits for a member that drains.

my $apisix = Upstream->new($nginx, 'apisix');
my @nodes = map { my ($host, $port) = split(/:/, $_->address);
                  "{\"host\":\"$host\",\"port\":$port," } $a, $b;

$etcd->put('/apisix/upstreams/1',
           "{\"nodes\":[$nodes[0]\"weight\":1,\"priority\":7},"
           . "$nodes[1]\"weight\":1}]}");
$apisix->shows_by_address({ $a->address => '/apisix/upstreams/1 1 up',
                 $b->address => '/apisix/upstreams/1 1 backup' },
               'APISIX: the highest is up');
is(answers('apisix'), 'a', 'APISIX: and serves');

$etcd->put('/apisix/upstreams/1',
           "{\"nodes\":[$nodes[0]\"weight\":0,\"priority\":7},"
           . "$nodes[1]\"weight\":1}]}");
$apisix->shows_by_address({ $a->address => '/apisix/upstreams/1 1 drained',
                 $b->address => '/apisix/upstreams/1 1 up' },
               'APISIX: with that drained the next one is');
is(answers('apisix'), 'b', 'APISIX: and serves');

# Registries write all the time: only changes of used fields count.

my $rpcx = Upstream->new($nginx, 'rpcx');
my $heartbeat = Upstream->new($nginx, 'heartbeat');

my $beat = sub {
    my ($n, $weight, $state) = @_;

    return $etcd->txn(
        [put => 'rpcx/Arith/tcp@10.0.0.1:1',
         "calls=$n.00&weight=$weight&connections=$n.50"],
        [put => 'nodes/worker/10.0.0.1:1234',
         "{\"cpuUsage\":0.$n,\"reportTime\":$n,\"serverStatus\":\"$state\","
         . '"host":"10.0.0.1","port":1234}']);
};

$beat->(1, 2, 'NORMAL');
$rpcx->shows({ 'rpcx/Arith/tcp@10.0.0.1:1' => '10.0.0.1:1 2 up' }, 'rpcx');
$heartbeat->shows({ 'nodes/worker/10.0.0.1:1234' => '10.0.0.1:1234 100 up' },
                  'a heartbeat');

my @before = map { $_->generation } $rpcx, $heartbeat;
my $revision;

$revision = $beat->($_, 2, 'NORMAL') for 2 .. 50;
$_->sees($revision) for $rpcx, $heartbeat;
is_deeply([map { $_->generation } $rpcx, $heartbeat], \@before,
          'fifty heartbeats change nothing');

$beat->(51, 3, 'BUSY');
$rpcx->shows({ 'rpcx/Arith/tcp@10.0.0.1:1' => '10.0.0.1:1 3 up' },
             'another weight does');
$heartbeat->shows({
    'nodes/worker/10.0.0.1:1234' => '10.0.0.1:1234 100 drained'
}, 'so does another state');

finish();
