#!/usr/bin/perl

# The disk of etcd's raft leader stands still: the others depose it, and expire
# its leases, but it answers renewals all the same (up to 3.4.30 and 3.5.12).
# An nginx that is connected to that member alone must not lead, nor hold a
# lock, when another nginx does.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

use Backend;
use Cluster;
use Disk;
use Etcd;
use Finish;
use Nginx;
use Wait;

Disk::need();

use constant TTL => 4;

my $cluster = Cluster->new(3)->start();
my $deposed = $cluster->leader;
my @others = grep { $_ != $deposed } $cluster->members;
my $backend = Backend->start('one');

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl %%TTL%%s;
    election ingress /elections/ingress value=%%NAME%% ttl=%%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /leads {
            return 200 "$etcd_is_leader_ingress";
        }

        location = /lock {
            etcd_lock /locks/one wait=600s;
            proxy_read_timeout 600s;
            proxy_pass http://%%ONE%%;
        }
    }
}
END


sub start {
    my ($name, @members) = @_;

    return Nginx->new()->set(ETCD => join(' ', map { $_->endpoints } @members),
                             NAME => $name, TTL => TTL,
                             ONE => $backend->address)->start($config);
}


# The second is asked after the first has said yes.

sub both_lead { $_[0]->leads && $_[1]->leads }


my $near = start('near', $deposed);

wait_for { $near->leads } 20, 'the first nginx to lead';
ok($near->leads, 'the nginx that is connected to the leader of raft leads');

my $far = start('far', @others);

$backend->set(hang => 1);

my $holder = $near->begin('/lock');

wait_for { $backend->requests == 1 } 10, 'the first request';

my $waiter = $far->begin('/lock');

wait_for { $others[0]->count('/elections/ingress/') == 2
           && $others[0]->count('/locks/one/') == 2 } 20, 'both wait';
is($deposed, $cluster->leader, 'the leader of raft is still the same');

my $disk = Disk->still($deposed);

# A write makes the leader wait for its disk, and is not answered.

my $writer = $others[0]->http;

$writer->send('POST', '/v3/kv/put', encode_json({ key => Etcd::encode('k'),
                                                  value => '' }));
ok((wait_for { $disk->waits } 10, 'the disk'), 'the disk stands still');

my $both = 0;

wait_for { $both += both_lead($far, $near);
           $far->leads && $backend->requests == 2 } 60, 'the other nginx';

ok($far->leads, 'another nginx leads');
is($backend->requests, 2, 'and has the lock');

# the time for which the former leader could go on

my $end = time() + 2 * TTL;
wait_for { $both += both_lead($far, $near); time() >= $end } 4 * TTL, 'a while';

is($both, 0, 'never did two lead');

$backend->set(hang => 0);
is($waiter->receive->{status}, 200, 'the request with the lock succeeds');
is($holder->receive->{status}, 503, 'that of the former holder was cut');

$disk->moves();

finish();
