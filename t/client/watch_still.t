#!/usr/bin/perl

# The member of etcd that nginx watches cannot apply, since its disk stands
# still: it answers PINGs, and sends no event.  It does not answer a
# linearizable read, so nginx goes to another one, and sees what has changed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Chaos;
use Cluster;
use Control;
use Disk;
use Finish;
use Nginx;
use Upstream;
use Wait;

Disk::need();

my $control = Control->start();
my $cluster = Cluster->new(3)->start();
my $leader = $cluster->leader;
my ($still) = grep { $_ != $leader } $cluster->members;

my %ways = map { ($_ => Chaos->start($_->port)) } $cluster->members;
my @closed = map { $ways{$_} } grep { $_ != $still } $cluster->members;

$leader->put('/s/1', '127.0.0.1:1');

# nginx has no other way at first

$_->set(refuse => 1) for @closed;

my $nginx = Nginx->new()->set(
    ETCD => join(' ', map { $ways{$_}->url } $cluster->members),
)->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    audit_interval 0;
    ping_interval 5s;
    rebalance 0;
    request_timeout 1s;
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
END

my $api = $nginx->upstream('api');

$api->shows({ '/s/1' => '127.0.0.1:1 1 up' }, 'a member');

sub endpoint { $nginx->status->{clusters}{default}{endpoint} // '' }

becomes { endpoint() } $ways{$still}->url, 'as that member of etcd says';

$_->set(refuse => 0) for @closed;

my $disk = Disk->still($still);

ok(wait_for(sub { $leader->put('/more', '1'); $disk->waits }, 20),
   'its disk stands still');
ok($cluster->leads_without($still), 'another member leads');

$leader->put('/s/2', '127.0.0.1:2');
$leader->del('/s/1');

# a read every 15 s, and 1 s for its answer

ok(wait_for(sub { $api->members->{'/s/2'} }, 60), 'nginx sees what is new');
$api->shows({ '/s/2' => '127.0.0.1:2 1 up' }, 'and what is gone');

isnt(endpoint(), $ways{$still}->url, 'at another member');
$nginx->logs(qr/failed for streams: no answer to a linearizable read/, 1,
             'and says why, once');

$disk->moves();
$control->finished();

finish();
