#!/usr/bin/perl

# "share=" of "etcd_check" where the network or the observer is bad: nobody who
# follows is worse off than one that checks alone.  The first nginx, which
# observes, is in a namespace of its own, from which it reaches etcd by one link
# and the members by another one; what is cut off gets no answer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Netns;

BEGIN { Netns::enter() }

use Test::More;

use Backend;
use Cluster;
use Finish;
use Http;
use Nginx;
use SharedChecks;
use Wait;

use constant { INTERVAL => 1, MEMBERS => 6, PATIENCE => 60, STOPS => 4 };

$SharedChecks::patience = PATIENCE;

my $members_host = '10.9.1.1';
my ($members_near, $members_far) = ('10.9.0.1', '10.9.0.254');

my $net = Netns->new(3, nginxes => 1);
my ($place) = $net->nginxes;

# the members' address outlives the link to it

$place->connect('members', '10.9.0', undef, 'members1');
$place->ip('route', 'add', $members_host, 'via', $members_far);
Netns::ip('addr', 'add', "$members_host/32", 'dev', 'lo');

my $cluster = Cluster->new(3, places => [$net->places])->start();
my $etcd = $cluster->any;
my @backends = Far->start(map { "b$_" } 1 .. MEMBERS);

my $config = SharedChecks::config('rises=1 panic=0% share=/observer/api',
    endpoints => '%%ENDPOINTS%%', host => '%%HOST%%');

sub nginx {
    return Nginx->new(@_)
        ->set(ENDPOINTS => $cluster->endpoints, INTERVAL => INTERVAL)
        ->start($config);
}

# Waits until these are the roles of the nginxes.

sub become_roles {
    my ($roles, @nginxes) = @_;

    return wait_for { roles(@nginxes) =~ $roles } PATIENCE, "roles: $roles";
}


$etcd->put("/api/$_->{name}", $_->address) for @backends;

my $observer = nginx(place => $place);

become_roles(qr/^observes$/, $observer);

my @others = (nginx(), nginx());
my ($sick, @well) = @backends;

ok(become_roles(qr/^observes follows follows$/, $observer, @others),
   'one observes, two follow it');
become($_, 'up', $observer, @others) for @backends;

# The observer is cut off from the members: what it says is not believed, or
# contradicted by own checks, and a request always finds a member.

Netns::ip('link', 'set', 'members1', 'down');

my $failed = 0;
my $ask = sub { $failed += grep { $_->get('/')->{status} != 200 } @others };

ok(wait_for(sub { $ask->(); role($observer) eq 'observes'
                            && !grep { state_of($observer, $_) eq 'up' }
                                     @backends }, PATIENCE, 'a cut'),
   'the observer is cut off from the members: it finds none that works');
ok(wait_for(sub { $ask->(); roles(@others) eq 'alone alone' }, PATIENCE,
            'disbelief'), 'nobody follows it any more');
ok(become($_, 'up', @others), "$_->{name} works for those that are not cut off")
    for @backends;

$sick->set(status => 500);
ok(become($sick, 'unhealthy', @others), 'they find a member that fails');
is(scalar(grep { state_of($others[0], $_) eq 'up' } @well), MEMBERS - 1,
   'and no other one');
$ask->() for 1 .. MEMBERS;
is($failed, 0, 'no request has failed');

Netns::ip('link', 'set', 'members1', 'up');
$sick->set(status => 200);
ok(become_roles(qr/^observes follows follows$/, $observer, @others),
   'the observer is back, and followed');
ok(become($_, 'up', $observer, @others), "$_->{name} is up") for @backends;

# The observer is stopped again and again: for each time longer than its word
# counts.

my $known = verdicts(@others);

for my $stop (1 .. STOPS) {
    my ($worker) = $observer->workers;

    $observer->freeze($worker);
    ok(become_roles(qr/^alone alone$/, @others),
       "stop $stop of the observer: the others check by themselves");

    if ($stop == STOPS) {
        $sick->set(status => 500);
        ok(become($sick, 'unhealthy', @others),
           'and find a member that fails');
        $known += @others;
    }

    $observer->thaw($worker);
    ok(become_roles(qr/^(?:observes follows|follows observes|follows follows)$/,
                    @others), 'it goes on: somebody is followed');
}

is(verdicts(@others), $known, 'no other member was taken for failed by that');
$sick->set(status => 200);
ok(become($sick, 'up', $observer, @others), 'the one that had failed is back');

# Without etcd the observer is one no more: another one takes over, and marks
# nobody down.

wait_for { roles($observer, @others) =~ /observes/ } PATIENCE, 'an observer';

if (role($observer) ne 'observes') {

    # the election went to another one while it was stopped

    my ($leads) = grep { role($_) eq 'observes' } @others;

    $leads->stop;
    @others = grep { $_ != $leads } @others;
    become_roles(qr/^observes|follows$/, $observer);
    push @others, nginx();
    become_roles(qr/follows follows/, @others)
        if role($observer) eq 'observes';
}

$known = verdicts(@others);
$place->hide();

ok(become_roles(qr/^alone$/, $observer),
   'an observer that is cut off from etcd checks alone');
ok(become_roles(qr/^(?:observes follows|follows observes)$/, @others),
   'another one takes over');
is(verdicts(@others), $known, 'which took nobody for failed');
is(scalar(grep { state_of($observer, $_) eq 'up' } @backends), MEMBERS,
   'nor has the one that is cut off');

$sick->set(status => 500);
ok(become($sick, 'unhealthy', $observer, @others),
   'all of them find a member that fails');
$sick->set(status => 200);
ok(become($sick, 'up', $observer, @others), 'and when it is back');

$place->show();
ok(become_roles(qr/^follows$/, $observer), 'etcd is back: it follows');

$_->stop for $observer, @others;

finish();


# members that another namespace reaches

package Far;

our @ISA;

BEGIN { @ISA = ('Backend') }


sub host { $members_host }
