#!/usr/bin/perl

# The binary of nginx is replaced: two of them run for a while, with a zone
# each, and either may stay.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Load;
use Lock;
use Nginx;
use State;
use Wait;

my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start('one', 'two');

$etcd->put('/services/api/1', $one->address);

my $nginx = Nginx->new(etcd => $etcd)->set(TWO => $two->address);

# The lease is longer than the test: registration and leadership are handed
# over, and not lost.

$nginx->start(<<'EOC');

worker_processes 2;

# nginx clears the environment: the other one has sanitizers, too
env ASAN_OPTIONS;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
    register /nginx/1 value=here ttl=300s;
    election jobs /elections/jobs ttl=300s;
    lock_ttl 300s;
}

http {
    upstream api {
        etcd_members /services/api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location /locked {
            etcd_lock /locks/one wait=20s;
            proxy_pass http://%%TWO%%;
        }

        location /leads {
            return 200 "$etcd_is_leader_jobs";
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

my $lock = Lock->new($nginx, $etcd);

sub registration { return ($etcd->list('/nginx/1'))[0] // {} }

sub leader {
    my ($first) = sort { $a->{create_revision} <=> $b->{create_revision} }
                  $etcd->list('/elections/jobs/');

    return $first->{lease} // 0;
}

$nginx->comes_to_say('one');
ok(wait_for(sub { $nginx->leads && registration()->{lease} }, 10),
   'this nginx leads and is registered');

# The other nginx has members from this file before it has asked etcd.

ok(wait_for(sub {
    grep { $_->{address} eq $one->address }
         state_members($nginx->dir . '/state/default.state')
}, 10), 'its state is saved');

my ($registered, $leader) = (registration(), leader());
my $new = Load->start($nginx->port, clients => 2, pause => 0.01);
my $kept = Load->start($nginx->port, clients => 2, keepalive => 1,
                       pause => 0.01);


# Forward: the other nginx has the members at once, and takes over the
# registration and the leadership.

$two->set(hang => 1);

my $held = $nginx->begin('/locked');

ok(wait_for(sub { $lock->keys('/locks/one') == 1 }, 10), 'a lock is held');
ok($nginx->replace(), 'another nginx runs beside the former one');
ok(wait_for(sub { registration()->{lease} != $registered->{lease} }, 10),
   'it takes the registration over');
is(registration()->{create_revision}, $registered->{create_revision},
   'which was there all the time');
is(leader(), $leader, 'the former one still leads');

my $second = $nginx->begin('/locked');

# at the other nginx, or in the queue of the same worker

ok(wait_for(sub {
    $lock->keys('/locks/one') == 2
    || ($lock->list('/locks/one', 'waiters') // 0)
}, 10), 'another request waits for the lock');

$two->set(hang => 0);
is($held->receive->{body}, 'two', 'the first one is answered');
is($second->receive->{body}, 'two', 'and then the other one');
is($two->counts->{most}, 1, 'one at a time');

ok($nginx->keep('new'), 'the former one ends');
ok(wait_for(sub { $nginx->leads && leader() != $leader }, 10),
   'the other one leads');
isnt(registration()->{lease} // 0, 0, 'and is still registered');


# Back: the former nginx takes everything again.

($registered, $leader) = (registration(), leader());

ok($nginx->replace(), 'once more');
ok(wait_for(sub { registration()->{lease} != $registered->{lease} }, 10),
   'the registration is taken over');
ok($nginx->keep('former'), 'but the former one stays');
ok(wait_for(sub { (registration()->{lease} // 0) == $registered->{lease} }, 10),
   'it registers again');
is(leader(), $leader, 'and has led all the time');
ok($nginx->leads, 'as it knows');


# Without etcd there are members, and nobody leads.

$etcd->freeze;
ok($nginx->replace(), 'replaced while etcd stands still');
ok($nginx->keep('new'), 'the former one ends');
is($nginx->says, 'one', 'there are members');
ok(!$nginx->leads, 'nobody leads');
$etcd->thaw;

$etcd->put('/services/api/1', $two->address);
$nginx->comes_to_say('two');

for ($new, $kept) {
    my $seen = $_->results;

    cmp_ok($seen->{requests}, '>', 100, 'there were requests');
    is_deeply($seen->{failed}, [], 'and none failed')
        or diag(Load::describe($seen));
}

finish();
