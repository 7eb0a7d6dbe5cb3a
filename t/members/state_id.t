#!/usr/bin/perl

# The state file names the cluster of its members, even if only the list has
# told its id: no watch has been answered yet.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Fake;
use Finish;
use Nginx;
use State;

use constant NEVER => 600_000;          # ms

# Watches are answered when no other one was asked for during that time.

my $fake = Fake->new()->start('lazy:' . NEVER, '--cluster-id', 0x77,
                              '--kv', '/m/1=127.0.0.1:80',
                              '--kv', '/v=here');
my $nginx = Nginx->new(etcd => $fake);

$nginx->start(<<'EOC');

worker_processes 1;

etcd members {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

etcd values {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

http {
    etcd_set $value /v cluster=values;

    upstream api {
        etcd_members /m/ cluster=members;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "$value";
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

$nginx->upstream('api')->shows({ '/m/1' => '127.0.0.1:80 1 up' },
                               'a member is listed');
$nginx->comes_to_say('here', 'and a value');

ok($nginx->quit(), 'nginx quits before a watch is answered');

for my $name (qw(members values)) {
    my $saved = saved_state($nginx->dir . "/state/$name.state");

    is($saved->{cluster_id}, '77', "$name: whose they are");
}

finish();
