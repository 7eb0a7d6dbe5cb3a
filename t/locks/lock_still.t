#!/usr/bin/perl

# The only member of etcd that nginx reaches cannot apply, since its disk stands
# still: it takes connections and calls, and answers PINGs, but no call.  When
# nginx can reach other members, it goes there, and a request that has waited
# for its lock has it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Chaos;
use Cluster;
use Disk;
use Finish;
use Nginx;
use Wait;

Disk::need();

my $cluster = Cluster->new(3)->start();
my $leader = $cluster->leader;
my ($still) = grep { $_ != $leader } $cluster->members;

my %ways = map { ($_ => Chaos->start($_->port)) } $cluster->members;
my @closed = map { $ways{$_} } grep { $_ != $still } $cluster->members;

$_->set(refuse => 1) for @closed;

my $disk = Disk->still($still);

ok(wait_for(sub { $leader->put('/more', '1'); $disk->waits }, 20),
   'a disk stands still');
ok($cluster->leads_without($still), 'another member leads');

my $nginx = Nginx->new()->set(
    ETCD => join(' ', map { $ways{$_}->url } $cluster->members),
)->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /lock {
            etcd_lock /locks/one wait=600s;
            root %%DIR%%;
        }
    }
}
END

$nginx->write_file('lock', 'has it');

my $waiting = $nginx->patient;

$waiting->send('GET', '/lock');

ok(wait_for(sub { $nginx->count_log(qr/locks: no lease: /) }, 20),
   'that member gives nginx no lease');

$_->set(refuse => 0) for @closed;

is($waiting->receive->{status}, 200, 'another one does');

$disk->moves();

finish();
