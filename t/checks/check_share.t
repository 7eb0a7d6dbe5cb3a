#!/usr/bin/perl

# "share=" of "etcd_check": one nginx of a zone checks the members, the others
# follow its verdict, and none of them is worse off than one that checks alone:
# the observer is killed, stopped, cut off from the members or from etcd, or
# lies.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use SharedChecks;
use Wait;

use constant { INTERVAL => 2, NGINXES => 3, MEMBERS => 6 };

my $etcd = Etcd->new()->start();
my @backends = Backend->start(map { "b$_" } 1 .. MEMBERS);

my $config = SharedChecks::config('rises=2 jitter=0% panic=%%PANIC%%'
    . ' share=/observer/api zone=%%ZONE%%', workers => 2);

sub nginx {
    my (%set) = @_;

    return Nginx->new(etcd => $etcd)
        ->set(INTERVAL => INTERVAL, ZONE => 'one', PANIC => '0%', %set)
        ->start($config);
}

# requests that the backends have had since they were asked last, which are
# checks only

sub checks {
    my $sum = 0;

    for my $backend (@backends) {
        $sum += $backend->requests;
        $backend->reset;
    }

    return $sum;
}

sub halt { my ($nginx) = @_; $nginx->freeze($_) for $nginx->workers }
sub go_on { my ($nginx) = @_; $nginx->thaw($_) for $nginx->workers }


$etcd->put("/api/$_->{name}", $_->address) for @backends;

my @nginxes;

for my $n (1 .. NGINXES) {
    push @nginxes, nginx();
    wait_for { role($nginxes[-1]) eq ($n == 1 ? 'observes' : 'follows') } 20,
        "nginx $n";
}

my ($observer, @others) = @nginxes;

is(roles(@nginxes), 'observes follows follows', 'one observes, two follow it');
is(upstream($others[0])->status->{check_zone}, 'one',
   'the status has the zone');

# Checks are as many as one nginx alone makes, in some rounds.

checks();

my $before = time();

wait_for { time() - $before > 3 * INTERVAL } 10 * INTERVAL, 'rounds';

my $rounds = (time() - $before) / INTERVAL;
my $checks = checks();

cmp_ok($checks, '<=', ($rounds + 2) * MEMBERS, 'checks of one nginx only')
    or diag("$checks checks of " . MEMBERS . " members in $rounds intervals");
cmp_ok($checks, '>=', MEMBERS, 'which are made');
is(roles(@nginxes), 'observes follows follows', 'the roles have not changed');

# A member fails: the others know from the observer.

my ($sick, $well) = @backends;

$sick->set(status => 500);
ok(become($sick, 'unhealthy', $observer), 'the observer finds a failed member');
ok(become($sick, 'unhealthy', @others), 'the others leave it out');
like($others[0]->error_log,
     qr/check of member \Q${\ $sick->address}\E has failed, says the observer/,
     'and say who says so');

$sick->set(status => 200);
ok(become($sick, 'up', @nginxes), 'it is back in all of them');

# The observer stands still, and with it a member's only checks.

halt($observer);
wait_for { roles(@others) !~ /follows/ } 20, 'no observer is heard';
$well->set(status => 500);
ok(become($well, 'unhealthy', @others), 'the observer stands still: the others '
                                        . 'check by themselves');
go_on($observer);
$well->set(status => 200);
ok(become($well, 'up', @nginxes), 'it is back');
wait_for { roles(@nginxes) eq 'observes follows follows'
           || roles(@nginxes) =~ /^follows/ } 40, 'an observer';

# The observer is killed: another one takes over, and marks nobody down.

$sick->set(status => 500);
become($sick, 'unhealthy', @others);

my @killed = grep { role($_) eq 'observes' } @nginxes;
my @left = grep { $_ != $killed[0] } @nginxes;
my $known = verdicts(@left);

$killed[0]->crash;
ok(wait_for(sub { grep { role($_) eq 'observes' } @left }, 60, 'an observer'),
   'the observer is killed: another one');
ok(wait_for(sub { roles(@left) =~ /follows/ }, 60, 'it is heard'),
   'which is followed');
is(verdicts(@left), $known, 'no other member was taken for failed by that');
ok(become($sick, 'unhealthy', @left), 'and the failed one is still left out');

# A lie: somebody says that all members have failed, then that one has.

$sick->set(status => 200);
become($sick, 'up', @left);

my ($candidate) = sort { $a->{create_revision} <=> $b->{create_revision} }
                       $etcd->list('/observer/api/one/');

my ($leads) = grep { role($_) eq 'observes' } @left;
my ($follows) = grep { role($_) eq 'follows' } @left;

halt($leads);

my $lies = 0;

sub lie {
    $etcd->put($candidate->{key},
               join(' ', 'liar', ++$lies, map { $_->address } @_),
               lease => $candidate->{lease});
}

lie(@backends);
wait_for { role($follows) eq 'alone' } 20, 'not believed';
is(scalar(grep { state_of($follows, $_) eq 'up' } @backends), MEMBERS,
   'more than half have failed: it is not believed');

lie($well);

my $said = qr/\Q${\ $well->address}\E has failed, says the observer on liar/;

ok(wait_for(sub { $follows->error_log =~ $said }, 20, 'lie'),
   'one has failed: it is left out');
ok(become($well, 'up', $follows), 'an own check contradicts, and it is back');

# The liar goes on: none has failed.  Requests find out that one has.

$well->set(abort => 1);
ok(wait_for(sub {
    lie();
    $follows->get('/') for 1 .. MEMBERS;
    role($follows) eq 'follows' && state_of($follows, $well) eq 'unhealthy';
}, 20, 'own checks'), 'a request fails: an own check contradicts');
$well->set(abort => 0);
ok(wait_for(sub { lie(); state_of($follows, $well) eq 'up' }, 20, 'up'),
   'and finds that it is back');
go_on($leads);

# etcd is away: each checks by itself.

wait_for { roles(@left) =~ /observes/ && roles(@left) =~ /follows/ } 60,
    'roles';
$etcd->stop;
ok(wait_for(sub { roles($follows) eq 'alone' }, 20, 'alone'),
   'etcd is away: nobody is followed');
$well->set(status => 500);
ok(become($well, 'unhealthy', @left), 'each nginx finds a failed member');
$etcd->start;
$well->set(status => 200);
ok(wait_for(sub { roles(@left) =~ /observes/ && roles(@left) =~ /follows/ },
            60, 'roles'), 'etcd is back: one observes');
ok(become($well, 'up', @left), 'the member, too');

# Another zone has another observer.

my $elsewhere = nginx(ZONE => 'two');

ok(wait_for(sub { role($elsewhere) eq 'observes' }, 20, 'another zone'),
   'another zone has its own');

$_->stop for @left, $elsewhere;

finish();
