#!/usr/bin/perl

# Under load nothing fails while members come, go, drain and change weight,
# and while etcd itself is gone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(min);
use Test::More;
use Time::HiRes qw(time);

use Backend;
use Control;
use Etcd;
use Finish;
use Http;
use Load;
use Nginx;
use Wait;

use constant {
    CHANGES  => 500,
    REQUESTS => 250,            # of each load
    LAST     => 0.1,            # seconds after the removal of a member
};


my $slower = $ENV{TEST_SLOWER} || 1;
my $control = Control->start();

# The random choices are those of TEST_SEED.

my $seed = $ENV{TEST_SEED} // time() % 100000;
srand($seed);
diag("TEST_SEED=$seed") if $ENV{TEST_SEED};

my $etcd = Etcd->new()->start();
my @backends = Backend->start(8);

# The first two members are always there.

my %value = map { $_ => $backends[$_]->address } 0 .. 1;

$etcd->put("/services/api/$_", $value{$_}) for 0 .. 1;

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

worker_processes 4;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /services/api/;
        keepalive 16;
    }

    upstream least {
        etcd_members /services/api/;
        etcd_balance least_conn;
    }

    upstream any {
        etcd_members /services/api/;
        etcd_balance random;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_next_upstream off;
        add_header X-Worker $pid always;

        location / {
            proxy_pass http://api;
        }

        location /least {
            proxy_pass http://least;
        }

        location /any {
            proxy_pass http://any;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF


sub members {
    my ($name) = @_;

    my $status = $nginx->status // return '';

    return join(' ', sort map { "$_->{address}*$_->{weight}:$_->{state}" }
                     @{ $status->{upstreams}{$name}{members} });
}


sub expected {
    return join(' ', sort map { $value{$_} =~ /^\{/
            ? do {
                my ($weight) = $value{$_} =~ /"weight":(\d+)/;
                my $state = $value{$_} =~ /"drain":true/ ? 'drained' : 'up';
                $backends[$_]->address . "*$weight:$state";
            }
            : $backends[$_]->address . '*1:up' } keys %value);
}


sub converged {
    my ($name, $what) = @_;

    my $ok = wait_for { members($name) eq expected() } 10, $what;

    ok($ok, $what)
        or diag("got:      " . members($name) . "\nexpected: " . expected());
}


sub change {
    my $n = int(rand(8));
    my $kind = int(rand(4));

    if ($n > 1 && $kind == 0) {
        delete $value{$n};
        $etcd->del("/services/api/$n");
        return;
    }

    my $weight = 1 + int(rand(9));
    my $drain = $n > 1 && $kind == 1 ? ',"drain":true' : '';

    $value{$n} = '{"address":"' . $backends[$n]->address
                 . qq(","weight":$weight$drain});
    $etcd->put("/services/api/$n", $value{$n});
}


# All workers have the revision of the status: later requests come after the
# event that has woken them.

sub followed {
    my %seen;

    return wait_for {
        $seen{ $_->{headers}{'x-worker'} // 0 } = 1
            for Http::burst($nginx->port, '/', 16, 16);

        !grep { !$seen{$_} } $nginx->workers
    } 20, 'all workers';
}


# requests to the backend, when all requests under way have arrived

sub settled {
    my ($backend) = @_;

    my $count = -1;

    wait_for {
        my $before = $count;

        select(undef, undef, undef, 0.1);
        ($count = $backend->requests) == $before
    } 10, 'requests under way';

    return $count;
}


converged($_, "members of $_ are there") for qw(api least any);

my @loads = map { Load->start($nginx->port, clients => 2, %$_) }
    { path => '/' }, { path => '/', keepalive => 1 },
    { path => '/least', keepalive => 1 }, { path => '/any' };

# The loop goes on until there were enough changes and requests of each load,
# also on a busy machine.

my $changes = 0;

while ($changes < CHANGES || min(map { $_->asked() } @loads) < REQUESTS) {
    change();
    $changes++;

    last if $changes == 100 * CHANGES;
}

cmp_ok(min(map { $_->asked() } @loads), '>=', REQUESTS,
       "requests of each load during $changes changes");

converged($_, "members of $_ after the changes") for qw(api least any);

my @seen = map { $_->results() } @loads;

for my $n (0 .. $#seen) {
    my $path = $loads[$n]{path};
    my $how = $loads[$n]{keepalive} ? 'kept-alive' : 'new';

    is(scalar(@{ $seen[$n]{failed} }), 0, "$path, $how connections: no failure")
        or diag("seed $seed\n" . Load::describe($seen[$n]));
}

# A removed member gets nothing any more, within a moment.  Another change just
# before must not delay the removal.

for my $lone (0, 1) {
    my $last;

    $control->again(sub {
        $last = removal($lone);
        return $last < LAST * $slower;
    });

    cmp_ok($last, '<', LAST * $slower, 'and had its last within 100 ms');
}


# A member comes and goes.  Returns the seconds from the end of its deletion to
# the last answer that it gave.

sub removal {
    my ($lone) = @_;

    my $load = Load->start($nginx->port, clients => 4);

    $backends[7]->reset();
    $value{7} = $backends[7]->address;
    $etcd->put('/services/api/7', $value{7});
    converged('api', 'one more');
    wait_for { $backends[7]->requests > 0 } 10, 'requests to it';

    if (!$lone) {
        $etcd->put('/services/api/0', qq({"address":"@{[ $backends[0]->address
            ]}","weight":2}));
        $value{0} = '{"weight":2}';
        select(undef, undef, undef, 0.05);
    }

    delete $value{7};
    $etcd->del('/services/api/7');

    my $deleted = time();

    converged('api', 'it is removed');

    ok(followed(), 'in all workers');

    my $count = settled($backends[7]);

    wait_for { $nginx->tally('/', 50, 4); 1 } 10;

    is($backends[7]->requests, $count, 'it gets no request after that');

    my $seen = $load->results();

    is(scalar(@{ $seen->{failed} }), 0, 'nothing failed')
        or diag(Load::describe($seen));

    return $control->lasted($deleted, $seen->{last}{ $backends[7]->name });
}


# Without etcd the last known members serve on.

my $load = Load->start($nginx->port, clients => 4);

$etcd->kill();

ok(wait_for(sub { $nginx->status->{clusters}{default}{state} ne 'synced' }, 10),
   'etcd is missed');
is(members('api'), expected(), 'members stay without etcd');

$etcd->start();

ok(wait_for(sub { $nginx->status->{clusters}{default}{state} eq 'synced' }, 10),
   'etcd is found again');

$value{6} = $backends[6]->address;
$etcd->put('/services/api/6', $value{6});
converged('api', 'changes arrive again');

my $seen = $load->results();

is(scalar(@{ $seen->{failed} }), 0, 'nothing failed meanwhile')
    or diag(Load::describe($seen));

$control->finished();

finish();
