#!/usr/bin/perl

# Requests to an etcd that answers late, or whose answer ends in an unusual way.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Cluster;
use Fake;
use Finish;
use Nginx;
use Upstream;
use Wait;

my $config = <<'EOF';

etcd {
    endpoints %%ETCD%%;
    request_timeout 60s;
    %%MORE%%
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


# The raft leader of a cluster has died, and the others take their time to elect
# another one.  Proposals are lost meanwhile, and etcd says so only after its
# own time, 9 s here: a client that tries again soon has an answer as soon as
# there is a leader.  One of the two stands still until a client has asked: a
# leader needs both.

{
    my $cluster = Cluster->new(3, args => ['--heartbeat-interval=200',
                                           '--election-timeout=2000']);
    my $leader = $cluster->start()->leader;
    my ($one, $other) = grep { $_ != $leader } $cluster->members;

    $other->freeze;
    $leader->kill;

    my $nginx = Nginx->new();

    $nginx->set(ETCD => $one->url,
                MORE => 'register /nginx/1 value=here;');
    $nginx->start($config);

    # The attempt's own time is over, or the time of another call, which leaves.

    my $given_up = qr/lease grant failed: (?x:
        deadline[ ]exceeded:[ ]no[ ] | unavailable:[ ]connection[ ]was[ ]closed
    )/;

    ok(wait_for(sub { $nginx->count_log($given_up) }, 20),
       'an attempt is given up before etcd does so');
    $other->thaw;

    my $new = $cluster->leader;

    ok($new, 'another one leads');
    ok(wait_for(sub { ($new->get('/nginx/1') // '') eq 'here' }, 30),
       'what was asked for meanwhile is done');

    is($nginx->count_log(qr/\[(?:error|warn)\].*(?:lease|registration)/), 0,
       'none of that is an error');
}

# Trailers of a stream that nginx has not ended are followed by RST_STREAM: what
# the trailers say counts.

my %says = (14 => 'unavailable', 8 => 'resource exhausted');

for my $code (sort keys %says) {
    my $fake = Fake->new()->start("watch-end-rst:$code",
                                  '--kv', '/s/1=127.0.0.1:1');
    my $nginx = Nginx->new(etcd => $fake)->set(MORE => '')->start($config);

    Upstream->new($nginx, 'api')->shows({ '/s/1' => '127.0.0.1:1 1 up' },
                                        "status $code, and RST: a member");
    ok(wait_for(sub {
        $nginx->count_log(qr/watch stream ended: $says{$code}: /) > 1
    }, 20), 'watches end as the trailers say, and are made again');
    is($nginx->count_log(qr/watch stream ended: (?!$says{$code}: )/), 0,
       'never otherwise');
}

finish();
