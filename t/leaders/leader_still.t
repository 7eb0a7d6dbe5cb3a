#!/usr/bin/perl

# The member of etcd that nginx watches cannot apply, since its disk stands
# still: nginx leaves it, follows the leader that the others have elected, and
# sends nothing to the former one for longer than max_stale.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Cluster;
use Control;
use Disk;
use Etcd;
use Finish;
use Nginx;
use Wait;

Disk::need();

use constant {
    MAX_STALE => 6,
    SOON      => 2,
};

my $slower = $ENV{TEST_SLOWER} || 1;

my $control = Control->start();
my $cluster = Cluster->new(3)->start();
my %backend = map { $_ => (Backend->start($_))[0] } qw(one two);

$cluster->ask('put', '/db/one', $backend{one}->address);

my $nginx = Nginx->new()->set(
    ENDPOINTS => $cluster->endpoints,
    STALE     => MAX_STALE . 's',
)->start(<<'EOC');

worker_processes 2;

etcd {
    endpoints %%ENDPOINTS%%;
    rebalance 0;
}

http {
    upstream db {
        etcd_leader /db max_stale=%%STALE%%;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://db;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC


sub who {
    my $answer = $nginx->get('/');

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}


sub watched {
    return $cluster->member_at($nginx->status->{clusters}{default}{endpoint});
}


# A member whose disk stands still takes itself for the leader: it is not asked.

sub elect {
    my ($former, $next, $etcd) = @_;

    return wait_for {
        eval {
            $etcd->txn([del => "/db/$former"],
                       [put => "/db/$next", $backend{$next}->address]);
            1;
        };
    } 20, 'a write';
}


for my $round (['a follower of etcd', 'one', 'two'],
               ['the leader of etcd', 'two', 'one'])
{
    my ($role, $former, $next) = @$round;

    ok(wait_for(sub { who() eq $former }, 20), "$role: $former leads");

    my $watched = watched();
    my @others = grep { $_ != $watched } $cluster->members;

    ok($cluster->lead($role =~ /leader/ ? $watched : $others[0]),
       "$role is watched");
    is(who(), $former, "$role: $former leads on");

    my $disk = Disk->still($watched);
    my $writer = $others[0]->http;

    # The first write makes the member wait.  A follower may apply an entry
    # that the others have committed before it is on its own disk: this one.  A
    # leader does not answer.

    $writer->send('POST', '/v3/kv/put', encode_json({
        key => Etcd::encode('/more'), value => ''
    }));
    ok((wait_for { $disk->waits } 10, 'the disk'),
       "$role: its disk stands still");

    ok(elect($former, $next, $others[0]), "$role: $next is elected");

    my $elected = time();
    my $last = $elected;
    my $now;

    ok(wait_for(sub {
        my $asked = time();

        $now = who();
        $last = $asked if $now eq $former;

        $now eq $next;
    }, 60), "$role: nginx follows the next leader");

    my $stood = $control->since($elected);

    cmp_ok($last - $elected - $stood, '<', MAX_STALE,
           "$role: nothing goes to the former leader after max_stale");
    cmp_ok(time() - $elected - $stood, '<', MAX_STALE + SOON * $slower,
           "$role: and not long after nginx knows the next one");
    isnt(watched(), $watched, "$role: another member is watched");
    ok(wait_for(sub {
        $nginx->status->{clusters}{default}{state} eq 'synced'
    }, 10), "$role: the state is known");

    $disk->moves();
    $cluster->wait_healthy();
}

$control->finished();

finish();
