#!/usr/bin/perl

# Reloads: members stay, nothing fails, old and new workers follow etcd.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Load;
use Nginx;
use Wait;


my $etcd = Etcd->new()->start();
my @backends = Backend->start(4);

$etcd->put("/services/api/$_", $backends[$_]->address) for 0 .. 2;

my $config = <<'EOF';

worker_processes 4;

etcd {
    endpoints %%ETCD%%;
    zone %%ZONE%%;
}

http {
    upstream api {
        etcd_members /services/api/ %%PARAMETERS%%;
        %%SERVER%%
        keepalive 8;
    }

    upstream native {
        zone native 64k;
        server %%NATIVE%%;
        keepalive 8;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }

        location /native {
            proxy_pass http://native;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

my $nginx = Nginx->new(etcd => $etcd)->set(
    NATIVE => $backends[0]->address,
    ZONE => '1m',
    PARAMETERS => '',
    SERVER => '',
)->start($config);


sub upstream { ($nginx->status // return {})->{upstreams}{api} }

sub members {
    return join(' ', sort map { "$_->{address}*$_->{weight}" }
                     @{ upstream()->{members} // [] });
}

sub expected {
    my ($weight, @numbers) = @_;

    return join(' ', sort map { $backends[$_]->address . "*$weight" }
                     @numbers);
}

sub requests {
    my $n = 0;

    $n += $_->{requests} for @{ upstream()->{members} };

    return $n;
}


ok(wait_for(sub { members() eq expected(1, 0 .. 2) }, 10),
   'members are there');

# Counters and the watch position stay.

$nginx->tally('/', 30, 2);

my $before = $nginx->status;
my $ranges = $etcd->metric('etcd_mvcc_range_total');

is(requests(), 30, 'requests are counted');
ok($nginx->reload(undef, gone => 1), 'reloaded');
is(requests(), 30, 'counters survive a reload');

# The other workers may serve before there is another agent.

ok(wait_for(sub { $nginx->status->{agent}{epoch} > $before->{agent}{epoch} },
            10), 'the agent is one of the new configuration');
ok(wait_for(sub { $nginx->status->{clusters}{default}{state} eq 'synced' }, 10),
   'in touch with etcd again');
is(upstream()->{generation}, $before->{upstreams}{api}{generation},
   'nothing is published again');

$etcd->put('/services/api/3', $backends[3]->address);
ok(wait_for(sub { members() eq expected(1, 0 .. 3) }, 10),
   'changes arrive after a reload');
is(upstream()->{generation}, $before->{upstreams}{api}{generation} + 1,
   'as one change');
is($etcd->metric('etcd_mvcc_range_total'), $ranges,
   'nothing was listed again');

$etcd->del('/services/api/3');
ok(wait_for(sub { members() eq expected(1, 0 .. 2) }, 10), 'removed');

# Parameters and static servers change.

$nginx->set(PARAMETERS => 'weight=5');
ok($nginx->reload($config), 'reloaded with another weight');
ok(wait_for(sub { members() eq expected(5, 0 .. 2) }, 10),
   'every value is read anew');

$nginx->set(SERVER => 'server ' . $backends[3]->address . ' weight=5;');
ok($nginx->reload($config), 'reloaded with a static server');
ok(wait_for(sub { members() eq expected(5, 0 .. 3) }, 10), 'it is there');

$nginx->set(SERVER => '', PARAMETERS => '');
ok($nginx->reload($config), 'reloaded without it');
ok(wait_for(sub { members() eq expected(1, 0 .. 2) }, 10), 'it has gone');

# A configuration that is refused changes nothing.

my $broken = $config =~ s/keepalive 8;/keepalive none;/r;

ok(!$nginx->reload($broken), 'a broken configuration is refused');
$nginx->expect(qr/\[emerg\].*keepalive/);

$etcd->put('/services/api/3', $backends[3]->address);
ok(wait_for(sub { members() eq expected(1, 0 .. 3) }, 10),
   'the old one goes on');
$etcd->del('/services/api/3');
ok(wait_for(sub { members() eq expected(1, 0 .. 2) }, 10), 'and on');

# 20 reloads with changes going on, beside native nginx

my $new = Load->start($nginx->port, clients => 3);
my $kept = Load->start($nginx->port, clients => 3, keepalive => 1);
my $native = Load->start($nginx->port, clients => 3, keepalive => 1,
                         path => '/native');

my $reloaded = 0;

for my $n (1 .. 20) {
    my $weight = 1 + $n % 3;

    # On every other reload the zone is another one, of another size.

    $nginx->set(ZONE => $n % 4 < 2 ? '1m' : '2m',
                PARAMETERS => "weight=$weight");

    if ($n % 2) {
        $etcd->put('/services/api/3', $backends[3]->address);
    } else {
        $etcd->del('/services/api/3');
    }

    $reloaded++ if $nginx->reload($config);

    my $want = expected($weight, $n % 2 ? (0 .. 3) : (0 .. 2));

    wait_for { members() eq $want } 10, "members after reload $n"
        or fail("members after reload $n: " . members());
}

is($reloaded, 20, '20 reloads');

my ($seen_new, $seen_kept, $seen_native) =
    map { $_->results() } $new, $kept, $native;

cmp_ok($seen_new->{requests}, '>', 200, 'new connections under load');
cmp_ok($seen_kept->{requests}, '>', 200, 'kept-alive connections under load');

is(scalar(@{ $seen_new->{failed} }), 0, 'no request on a new connection failed')
    or diag(Load::describe($seen_new));

cmp_ok(scalar(@{ $seen_kept->{failed} }), '<=',
       scalar(@{ $seen_native->{failed} }),
       'on kept-alive ones no more than with native nginx')
    or diag(Load::describe($seen_kept));

ok(wait_for(sub { !$nginx->leaving }, 15), 'old workers have gone');

finish();
