#!/usr/bin/perl

# Many clients of one cluster: they spread over its endpoints, leave an endpoint
# that fails, and come back to it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use Test::More;

use Backend;
use Becomes ();
use Chaos;
use Cluster;
use Etcd;
use Finish;
use Load;
use Nginx;
use Port;
use Upstream;
use Wait;

use constant {
    CLIENTS => 45,
    LONERS  => 20,
    SEEKERS => 60,
};


# The leader of the cluster is not to change by itself.

my $cluster = Cluster->new(3, args => ['--heartbeat-interval=100',
                                       '--election-timeout=2000'])->start();
my $etcd = Etcd->new()->start();
my @backends = Backend->start(3);
my @good = map { Chaos->start($etcd->port) } 1 .. 2;
my $bad = Chaos->start($etcd->port);
my @nobody = map { 'http://127.0.0.1:' . free_port() } 1 .. 2;

sub address { $backends[$_[0]]->address }

$_->put('/s/1', address(0)) for $cluster->any, $etcd;

# The bad endpoint is there, but no connection to it lasts.

$bad->set(cut_after => 1);

# Endpoints fail at once, and by what they do: nobody leaves an endpoint only
# because it is slow.

my $patient = 'connect_timeout 60s; ping_timeout 60s; rebalance';

my %clusters = (
    (map { ("c$_" => $cluster->endpoints . "; $patient 2s") } 1 .. CLIENTS),
    (map { ("b$_" => join(' ', map { $_->url } $bad, @good) . "; $patient 0") }
     1 .. LONERS),
    (map { ("d$_" => "@nobody " . $etcd->url . "; $patient 0") } 1 .. SEEKERS),
);

my @clients = grep { /^c/ } sort keys %clusters;
my @loners = grep { /^b/ } sort keys %clusters;
my @seekers = grep { /^d/ } sort keys %clusters;

my $nginx = Nginx->new()->set(
    CLUSTERS  => join('', map {
        "etcd $_ { endpoints $clusters{$_}; zone 256k; }\n"
    } sort keys %clusters),
    UPSTREAMS => join('', map {
        "upstream $_ { etcd_members /s/ cluster=$_; }\n"
    } sort keys %clusters),
);

$nginx->start(<<'EOF');

worker_rlimit_nofile 4096;

%%CLUSTERS%%

http {
    %%UPSTREAMS%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://c1;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF


sub clusters { $nginx->status->{clusters} }


# { CLIENT => the URL of its endpoint }

sub in_use {
    my $all = clusters();

    return { map { $_ => $all->{$_}{endpoint} } @_ };
}


# { URL => the number of clients there }

sub crowd {
    my ($where) = @_;

    my %crowd;

    $crowd{$_}++ for values %$where;

    return \%crowd;
}


sub all_synced {
    my $all = clusters() or return;

    return !grep { $all->{$_}{state} ne 'synced' } @_;
}


# the state of one endpoint, as each client has it

sub states {
    my ($url, @names) = @_;

    my $all = clusters();

    return map { $_->{state} } grep { $_->{url} eq $url }
        map { @{ $all->{$_}{endpoints} } } @names;
}


# errors in the log about the cluster's clients

sub errors { grep { /\[error\].*"c\d+"/ } split(/\n/, $nginx->error_log) }


ok(wait_for(sub { all_synced(@clients, @loners, @seekers) }, 20, 'all clients'),
   'all clients have members');

my $home = in_use(@clients);
my $spread = crowd($home);

is(scalar(keys %$spread), 3, 'they use all three endpoints')
    or diag(explain($spread));
cmp_ok(max(values %$spread), '<', CLIENTS * 0.75, 'and no one much more');

# Of three endpoints one answers: a client that has failed at both others does
# not go back to the first of them, unless the time for which that endpoint is
# set aside happens to be very short.  (Otherwise one in six would.)

my %tries;

for (split(/\n/, $nginx->error_log)) {
    $tries{$1}++ if /"(d\d+)": connecting to \S+ for streams/;
}

cmp_ok(scalar(grep { $tries{$_} > 3 } @seekers), '<=', SEEKERS / 12,
       'what failed is set aside');
cmp_ok(scalar(grep { $tries{$_} > 1 } @seekers), '>=', SEEKERS / 3,
       'and most had to look for another one');

# An endpoint that was set aside is asked again after a time; while others work,
# nobody asks it.

ok(!grep({ $_ eq $bad->url } values %{ in_use(@loners) }),
   'nobody uses the bad endpoint');
cmp_ok(scalar(grep { $_ eq 'failed' } states($bad->url, @loners)), '>', 0,
       'some have tried');

my $asked = $bad->counts->{accepted};


# A member is killed, but not the leader: the others would feel its end, too.

my $leader = $cluster->leader;
my ($dead) = grep { $_ != $leader } $cluster->members;
my $gone = $dead->url;
my @movers = grep { $home->{$_} eq $gone } @clients;
my @stayers = grep { $home->{$_} ne $gone } @clients;

my $load = Load->start($nginx->port, clients => 2);

my %before = map { $_ => clusters()->{$_}{reconnects} } @stayers;

$dead->kill();

ok(wait_for(sub { my $all = clusters();
                  !grep { $all->{$_}{endpoint} eq $gone
                          || $all->{$_}{state} ne 'synced' } @clients },
            20, 'the others'), 'its clients move to the others');

my $moved = crowd(in_use(@movers));

is(scalar(keys %$moved), 2, 'to both of them') or diag(explain($moved));
is(scalar(grep { $_ ne 'failed' } states($gone, @movers)), 0,
   'the status of each says that it failed');

my %now = %{ in_use(@stayers) };

is(scalar(grep { $now{$_} ne $home->{$_} } @stayers), 0,
   'who was not there stays');
is(clusters()->{$stayers[0]}{reconnects}, $before{$stayers[0]},
   'and has not reconnected');

# Each client looks after its endpoint now and then.

ok(wait_for(sub { $nginx->count_log(qr/is not back: /) >= @movers }, 20,
            'attempts'), 'they look after it');
is_deeply(crowd(in_use(@movers)), $moved, 'and stay where they are meanwhile');

my @errors = errors();
my $reconnects = clusters();

$dead->launch($dead->{cluster});
$dead->wait_healthy();

# Keys change meanwhile, and no change is lost.

my $value = 0;

ok(wait_for(sub {
    ++$value % 2 ? $cluster->leader->put('/s/2', address(1))
                 : $cluster->leader->del('/s/2');

    my $where = in_use(@clients);

    !grep { $where->{$_} ne $home->{$_} } @clients;
}, 30, 'the return'), 'all return to where they were');

# (Two keys with one address would be one member; and where nobody listens, the
# load makes the member "failing".)

$cluster->leader->put('/s/3', address(2));

for my $name (@movers) {
    my $upstream = Upstream->new($nginx, $name);

    my %wanted = map { ("/s/$_->[0]" => "$_->[1] 1 up") }
        [1, address(0)], $value % 2 ? [2, address(1)] : (),
                     [3, address(2)];

    wait_for { Becomes::text($upstream->members) eq Becomes::text(\%wanted) }
        10, "$name: all changes";

    is_deeply($upstream->members, \%wanted, "$name: has seen all changes");
}

my $after = clusters();

is_deeply([errors()], \@errors, 'no error was logged');
is(scalar(grep { $after->{$_}{reconnects} != $reconnects->{$_}{reconnects} }
          @movers), 0, 'nor counted as a reconnect');

my $seen = $load->results();

cmp_ok($seen->{requests}, '>', 100, 'there was load all the time');
is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
    or diag(Load::describe($seen));


# The endpoint is set aside, but never given up.

is($bad->counts->{accepted}, $asked, 'nobody has asked the bad one since');

$bad->set(cut_after => 0);
$_->set(refuse => 1) for @good;
$_->cut() for @good;

ok(wait_for(sub { my $where = in_use(@loners);
                  all_synced(@loners)
                  && !grep { $_ ne $bad->url } values %$where },
            20, 'the bad one'), 'all use it when there is no other');
is(scalar(grep { $_ ne 'connected' } states($bad->url, @loners)), 0,
   'and the status says that it works');

finish();
