#!/usr/bin/perl

# A machine that stands still for longer than an agent may be silent: the agent
# is none that hangs, also where another worker goes on first.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep);

use Etcd;
use Finish;
use Nginx;
use Stall;
use Upstream;

use constant {
    STOPS => 3,
    LONG  => 2,                 # NGX_ETCD_AGENT_STALE is 1.5 s
    FIRST => 0.1,               # less than one NGX_ETCD_AGENT_TICK
};

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOF

my $api = Upstream->new($nginx, 'api');


sub changes {
    my ($port) = @_;

    $etcd->put('/s/1', "127.0.0.1:$port");
    $api->shows({ '/s/1' => "127.0.0.1:$port 1 up" }, 'a change arrives');
}


# true if the agent is the same worker as before; if the machine really stands
# still meanwhile, another worker may be the agent

sub stand_still {
    my $agent = $nginx->status->{agent}{pid};
    my ($other) = grep { $_ != $agent } $nginx->workers;

    $nginx->freeze($_) for $agent, $other;
    sleep(LONG);
    $nginx->thaw($other);
    sleep(FIRST);
    $nginx->thaw($agent);
    sleep(2 * FIRST);

    return $nginx->status->{agent}{pid} == $agent;
}


changes(1000);

for my $n (1 .. STOPS) {
    ok($stall->again(0.5, \&stand_still), 'the agent stays');
    changes(1000 + $n);
}

finish();
