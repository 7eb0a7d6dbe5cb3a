#!/usr/bin/perl

# The leases of members: the status names them, and with "lease=required" a key
# without a lease is no member, in each source of members.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

http {
    upstream any { etcd_members /members/; }
    upstream required { etcd_members /members/ %%LEASE%%; }
    upstream several { etcd_members /web/services/a/ format=traefik
                                    lease=required; }
    upstream leader { etcd_leader /election lease=required; }
    upstream named { etcd_leader /named/leader format=key
                                 members=/named/members/ lease=required; }
    upstream sets { etcd_members /sets/$arg_s/ lease=required; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

sub with { return $config =~ s/%%LEASE%%/$_[0]/r }

my $lease = $etcd->grant(3600);
my $other = $etcd->grant(3600);
my $web = 'traefik/http/services/a/loadBalancer/servers/0/url';

$etcd->put('/members/1', '10.1.0.1:80', lease => $lease);
$etcd->put('/members/2', '10.1.0.2:80');
$etcd->put('/members/3', 'not an address');
$etcd->put('/election/1', '10.1.0.1:80');
$etcd->put('/named/leader', 'a', lease => $lease);
$etcd->put('/named/members/a', '10.1.0.1:80');
$etcd->put('/sets/a/1', '10.1.0.1:80', lease => $lease);
$etcd->put('/sets/a/2', '10.1.0.2:80');

$nginx->start(with('lease=required'));

my %upstream = map { $_ => Upstream->new($nginx, $_) }
    qw(any required several leader named sets);

sub unused {
    my ($name) = @_;

    return join ' ', map { "$_->{kind} $_->{keys} $_->{key}" }
        @{ $upstream{$name}->status->{unused} // [] };
}

sub leases {
    my ($name) = @_;

    return { map { $_->{address} => $_->{lease} }
             @{ $upstream{$name}->status->{members} // [] } };
}

sub hex_of { return sprintf '%x', $_[0] }


# keys one by one

$upstream{required}->shows({ '/members/1' => '10.1.0.1:80 1 up' },
                           'a key without a lease is no member');
is(unused('required'), 'lease 2 /members/2', 'which is counted, and named');
$nginx->logs(qr/upstream "required": key "\S+" .*: has no lease, /, 1,
             'the log names one');
$upstream{required}->reports({}, 'no value of such a key is read');
$upstream{any}->shows({ '/members/1' => '10.1.0.1:80 1 up',
                        '/members/2' => '10.1.0.2:80 1 up' },
                      'other upstreams use it');
is_deeply(leases('any'), { '10.1.0.1:80' => hex_of($lease),
                           '10.1.0.2:80' => undef }, 'the status has leases');

# The lease changes, and the value does not: the member stays.

my $requests = $upstream{required}->generation;

$upstream{required}->sees(
    $etcd->put('/members/1', '10.1.0.1:80', lease => $other));
becomes { leases('required') } { '10.1.0.1:80' => hex_of($other) },
    'another lease';
is($upstream{required}->generation, $requests, 'no worker has to read it');

$etcd->put('/members/2', '10.1.0.2:80', lease => $lease);
$upstream{required}->shows({ '/members/1' => '10.1.0.1:80 1 up',
                             '/members/2' => '10.1.0.2:80 1 up' },
                           'a key that gets a lease is a member');
$etcd->put('/members/1', '10.1.0.1:80');
$upstream{required}->shows({ '/members/2' => '10.1.0.2:80 1 up' },
                           'one that loses its lease is none');
$etcd->revoke($other);

# leaders

is(unused('leader'), 'lease 1 /election/1', 'a candidate without a lease');
$upstream{leader}->shows({}, 'does not lead');
$etcd->put('/election/1', '10.1.0.1:80', lease => $lease);
$upstream{leader}->shows({ '/election/1' => '10.1.0.1:80 1 up' },
                         'with a lease it does');

$upstream{named}->shows({}, 'a member without a lease does not lead');
is(unused('named'), 'lease 1 /named/members/a', 'and is counted');
$etcd->put('/named/members/a', '10.1.0.1:80', lease => $lease);
$upstream{named}->shows({ '/named/members/a' => '10.1.0.1:80 1 up' },
                        'with a lease it does');
$etcd->put('/named/leader', 'a');
$upstream{named}->shows({}, 'the key that names it needs a lease as well');

# sets

my $of_set = sub {
    my $status = $nginx->status('/status?upstream=sets&set=a') // {};

    return join ' ', map { "$_->{address} " . ($_->{lease} // '-') }
        @{ $status->{upstreams}{sets}{set}{members} // [] };
};

becomes { $of_set->() } '10.1.0.1:80 ' . hex_of($lease), 'a set';

# Leases are right after a takeover, a reload, and a start from the state file.

my $agent = $nginx->status->{agent}{pid};

$nginx->kill_worker($agent);
wait_for {
    my $status = $nginx->status;
    $status && $status->{agent}{pid} != $agent
} 10, 'another agent';

my $now = { '10.1.0.2:80' => hex_of($lease) };

becomes { leases('required') } $now, 'takeover: the lease';
becomes { unused('required') } 'lease 2 /members/1', 'takeover: who has none';

$nginx->reload(with(''));
$upstream{required}->shows({ '/members/1' => '10.1.0.1:80 1 up',
                             '/members/2' => '10.1.0.2:80 1 up' },
                           'without the parameter all keys are members');
$nginx->reload(with('lease=required'));
$upstream{required}->shows({ '/members/2' => '10.1.0.2:80 1 up' },
                           'with it they are not');

$nginx->stop;
$etcd->stop;
$nginx->start(with('lease=required'));
becomes { leases('required') } $now, 'the state file has the lease';

$etcd->start;
finish();
