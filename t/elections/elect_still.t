#!/usr/bin/perl

# The member of etcd that nginx is connected to does not lead, and cannot apply,
# since its disk stands still.  It does not notice that keys are deleted:
# the leader stops leading, the request with the lock is cut, and nobody takes
# the former leader for the leader, all within the TTL.  All nginxes go to
# another member.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Cluster;
use Control;
use Disk;
use Finish;
use Nginx;
use Register;
use Wait;

Disk::need();

use constant {
    TTL  => 6,
    SOON => 2,      # seconds for effects that come when the TTL is over
};

my $slower = $ENV{TEST_SLOWER} || 1;

my $control = Control->start();
my $cluster = Cluster->new(3)->start();
my $register = Register->start(one => 0);
my $leader = $cluster->leader;
my ($still) = grep { $_ != $leader } $cluster->members;

# All connections begin at that member.

my %ways = map { ($_ => Chaos->start($_->port)) } $cluster->members;
my @closed = map { $ways{$_} } grep { $_ != $still } $cluster->members;

$_->set(refuse => 1) for @closed;

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    rebalance 0;
    lock_ttl %%TTL%%s;
    election ingress /elections/ingress value=%%NAME%% ttl=%%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /leads {
            return 200 "$etcd_is_leader_ingress";
        }

        location = /leader {
            return 200 "$etcd_leader_ingress";
        }

        location = /lock {
            etcd_lock /locks/one wait=600s;
            proxy_method POST;
            proxy_set_header X-Request $arg_id;
            proxy_set_header X-Stay $arg_stay;
            proxy_pass http://%%REGISTER%%/one?;
        }

        location /status {
            etcd_status;
        }
    }
}
END


sub start {
    my ($name) = @_;

    my @urls = map { $ways{$_}->url } $cluster->members;

    return Nginx->new()->set(ETCD => "@urls", NAME => $name, TTL => TTL,
                             REGISTER => $register->address)->start($config);
}


sub endpoint { $_[0]->status->{clusters}{default}{endpoint} // '' }
sub known { $_[0]->get('/leader')->{body} }


# Candidates in the order of their keys: one, another client, two.

my $one = start('one');

ok(wait_for(sub { $one->leads }, 20), 'the first nginx leads');

my $lease = $cluster->ask('grant', 600);

$cluster->ask('put', sprintf('/elections/ingress/%x', $lease), 'between',
              lease => $lease);

my $two = start('two');

ok(wait_for(sub { known($two) eq 'one' }, 20), 'the second one knows it');
ok(wait_for(sub { $cluster->ask('count', '/elections/ingress/') == 3 }, 20),
   'all are candidates');

my $holder = $one->begin('/lock?id=first&stay=600');

ok(wait_for(sub { $register->count('enter', 'first') }, 20),
   'a request has the lock');

my $url = $ways{$still}->url;

is(endpoint($_), $url, 'connected to that member') for $one, $two;

my ($term) = sort { $a->{create_revision} <=> $b->{create_revision} }
             $cluster->ask('list', '/elections/ingress/');
my ($held) = $cluster->ask('list', '/locks/one/');

is($term->{value}, 'one', 'the key of the leader');


# The disk of that member stands still; a write makes the member wait for it.

my $disk = Disk->still($still);

$_->set(refuse => 0) for @closed;

ok(wait_for(sub { $leader->put('/more', '1'); $disk->waits }, 20),
   'a disk stands still');
ok($cluster->leads_without($still), 'another member leads');

$leader->txn([del => $term->{key}], [del => $held->{key}]);

my $deleted = time();
my ($leads, $knows, $moved, $cut) = ($deleted) x 2;

ok(wait_for(sub {
    my $asked = time();

    $leads = $asked if $one->leads;
    $knows = $asked if known($two) eq 'one';
    $cut //= $asked if $register->count('gone', 'first');
    $moved //= $asked
        if !grep { endpoint($_) eq $url } $one, $two;

    $cut && $moved && $leads < $asked && known($two) eq 'between';
}, 60), 'nginx finds out');

my $stood = $control->since($deleted);

note(sprintf("seconds: leads %.3f, known %.3f, moved %.3f, cut %.3f",
             map { $_ - $deleted } $leads, $knows, $moved, $cut));


sub within {
    my ($time, $limit, $name) = @_;

    cmp_ok($time - $deleted - $stood, '<', $limit, $name);
}

within($leads, TTL, 'the former leader stops leading within the TTL');
within($knows, TTL, 'and is not taken for the leader any longer');
within($cut, TTL, 'the request with the lock is cut');
within($moved, TTL + SOON * $slower, 'another member is used');

is($holder->receive->{status}, 503, 'the client is told');
is($two->patient->get('/lock?id=second&stay=0')->{status}, 200,
   'the next one has the lock');

$disk->moves();
$control->finished();

finish();
