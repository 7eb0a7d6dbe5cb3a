#!/usr/bin/perl

# auto_sync: a member that is cut off from the others is not asked for members,
# if etcd can tell that it is (3.5 and later).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Cluster;
use Fake;
use Finish;
use Nginx;
use Wait;

my $fake = Fake->new()->start('ok', '--kv', '/s/1=127.0.0.1:80');
my $cluster = Cluster->new(3)->start();
my ($first, @others) = $cluster->members;
my $nginx = Nginx->new()->set(FAKE => $fake->url, FIRST => $first->url);

$first->put('/s/1', '127.0.0.1:80');

$nginx->start(<<'EOC');

worker_processes 1;

etcd fake {
    endpoints %%FAKE%%;
    auto_sync 100ms;
}

etcd real {
    endpoints %%FIRST%%;
    request_timeout 1s;
    auto_sync 100ms;
}

http {
    upstream fake {
        etcd_members /s/ cluster=fake;
    }

    upstream real {
        etcd_members /s/ cluster=real;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

ok(wait_for(sub { $fake->count(qr/ members /) }, 10), 'members are asked for');
is($fake->count(qr/ members .*linearizable=0/), 0, 'linearizably');

sub endpoints { @{ $nginx->status->{clusters}{real}{endpoints} } }

ok(wait_for(sub { endpoints() == 3 }, 10), 'a real one tells them');

# Only the first member is left to ask, and it does not know the members.

sub told {
    return $first->metric('grpc_server_handled_total{grpc_code="OK",'
                          . 'grpc_method="MemberList",'
                          . 'grpc_service="etcdserverpb.Cluster",'
                          . 'grpc_type="unary"}') // 0;
}

sub refused { return $nginx->count_log(qr/"real": no member list/) }

$_->freeze() for @others;

SKIP: {
    skip 'etcd 3.4 tells what it believes', 2
        if $first->version =~ /^3\.4\./;

    my $refused = refused();

    ok(wait_for(sub { refused() > $refused }, 20), 'one that is cut off');

    my $told = told();

    $refused = refused();
    wait_for { refused() > $refused } 20, 'another answer';
    is(told(), $told, 'does not tell, however often it is asked');
}

$_->thaw() for @others;
ok(wait_for(sub { $nginx->status->{clusters}{real}{state} eq 'synced' }, 20),
   'all is well again');

finish();
