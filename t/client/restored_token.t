#!/usr/bin/perl

# Tokens after a restore of etcd, by the steps of docs/operating.md: a restore
# takes revisions back, and a storage that has seen greater tokens refuses all
# requests; with --bump-revision they grow.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Cluster;
use Docs;
use Finish;
use Nginx;
use Process;
use Register;
use Upstream;
use Wait;

my ($status, $help) = run('etcdutl', 'snapshot', 'restore', '--help');

plan(skip_all => 'no etcdutl with --bump-revision')
    if $status != 0 || $help !~ /--bump-revision/;

my $page = Docs::page('docs/operating.md');
my ($options) = map { $_->{text} =~ /etcdutl snapshot .*\n +(--bump.*)/ }
                $page->fences;

my $etcd = Cluster->new(3)->start();
my $register = Register->start(orders => 1);
my @backends = Backend->start('one', 'two');

$etcd->ask('put', '/services/one', $backends[0]->address);

my $nginx = Nginx->new()->set(
    ETCD     => $etcd->endpoints,
    REGISTER => $register->address,
)->start(<<'END');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 2s;
}

http {
    upstream services {
        etcd_members /services/;
        etcd_guard off;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /orders {
            etcd_lock /locks/orders wait=60s;
            proxy_method POST;
            proxy_set_header X-Request $arg_id;
            proxy_set_header X-Token $etcd_lock_token;
            proxy_pass http://%%REGISTER%%/orders?;
        }

        location = /status {
            etcd_status;
        }
    }
}
END


# the answer to a request that gets the lock, and its token

sub order {
    my ($id) = @_;

    my $status;

    wait_for {
        $status = $nginx->get("/orders?id=$id")->{status};
        $status =~ /^(?:200|409)$/;
    } 60, 'an order';

    my ($event) = grep { ($_->{request} // '') eq $id } $register->history;

    return ($status, $event->{token});
}


my $upstream = Upstream->new($nginx, 'services');
my $one = { '/services/one' => $backends[0]->address . ' 1 up' };

$upstream->shows($one, 'a member');

my $snapshot = $etcd->leader->save;

$etcd->ask('put', "/more/$_", $_) for 1 .. 50;
$etcd->ask('put', '/services/two', $backends[1]->address);

my ($answer, $token) = order('before');

is($answer, 200, 'an order before the restore');

$etcd->restore($snapshot);
is((order('back'))[0], 409, 'a restore takes tokens back: it is refused');

$etcd->restore($snapshot, split(/ /, $options));

($answer, my $next) = order('bumped');

is($answer, 200, "$options: an order is not refused");
cmp_ok($next, '>', $token, 'its token is greater');
cmp_ok((order('after'))[1], '>', $next, 'and so is the next one');

$upstream->shows($one, 'members are those of the snapshot');
$etcd->ask('put', '/services/two', $backends[1]->address);
$upstream->shows({ %$one, '/services/two' => $backends[1]->address . ' 1 up' },
                 'changes are followed');

finish();
