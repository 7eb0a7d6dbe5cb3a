#!/usr/bin/perl

# "etcd_eject": a member that fails more than the others is left out for a
# time that doubles; counted over all workers, and never more of them than
# "max=" allows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Upstream;
use Wait;

use constant TIME => 2;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d));
my ($bad, $second) = @backends;

for my $prefix (qw(s alike few tenants/t)) {
    $etcd->put("/$prefix/$_->{name}", $_->address) for @backends;
}

my $configuration = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream s {
        etcd_members /s/;
        %%EJECT%%
    }

    upstream alike {
        etcd_members /alike/;
        etcd_eject errors=50% window=2s min=5 time=1m max=100%;
    }

    upstream few {
        etcd_members /few/;
        etcd_eject errors=50% window=2s min=5 time=1m max=20%;
    }

    upstream tenants {
        etcd_members /tenants/$arg_tenant/;
        etcd_eject errors=50% status=500,503 window=2s min=5 time=1m max=50%;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /s       { proxy_pass http://s; }
        location /alike   { proxy_pass http://alike; }
        location /few     { proxy_pass http://few; }
        location /tenants { proxy_pass http://tenants; }

        location /metrics { etcd_status prometheus; }

        location /status {
            etcd_status;
        }
    }
}

stream {
    upstream tcp {
        etcd_members /tcp/ max_fails=0;
        etcd_eject errors=50% window=2s min=5 time=1m max=50%;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%% reuseport;
        proxy_pass tcp;
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)
    ->set(EJECT => 'etcd_eject errors=50% window=2s min=5 time=' . TIME
                   . 's max=50%;')
    ->start($configuration);


# Sends requests until the condition is true, with a connection for each.

sub ask_until(&$$) {
    my ($done, $path, $what) = @_;

    wait_for {
        $nginx->get($path) for 1 .. 8;
        $done->();
    } 20, $what;
}

sub ejected {
    my ($backend) = @_;

    return $nginx->count_log(qr/member \Q@{[$backend->address]}\E is ejected/);
}

# the backends that answer requests

sub asked {
    my ($path) = @_;

    $_->reset for @backends;
    $nginx->get($path) for 1 .. 24;

    return join(' ', map { $_->{name} } grep { $_->requests } @backends);
}


wait_for { keys %{ Upstream->new($nginx, 's')->members } == 4 } 10, 'members';
wait_for { asked('/s') eq 'a b c d' } 10, 'all are asked';

# Some errors are no reason to eject a member.

$bad->set(status => 404);
asked('/s');
is(asked('/s'), 'a b c d', 'a status that is no error');

$bad->set(status => 500);

ask_until { ejected($bad) } '/s', 'the ejection';

is(asked('/s'), 'b c d', 'the member that fails is left out');

my $shown = Upstream->new($nginx, 's')->member($bad->address);

is($shown->{state}, 'ejected', 'the status says so');
cmp_ok($shown->{ejected_for}, '<=', TIME, 'and for how long');
is(Upstream->new($nginx, 's')->status->{ejections}, 1, 'ejections');

like($nginx->get('/metrics')->{body},
     qr/^nginx_etcd_upstream_members\{[^}]*upstream="s",state="ejected"\}\ 1$
        .*
        ^nginx_etcd_upstream_ejections_total\{[^}]*upstream="s"\}\ 1$/mxs,
     'the metrics, too');

like($nginx->error_log,
     qr/"s":\ member\ \S+\ is\ ejected\ for\ @{[TIME]}\ s:\ \d+\ of\ its
        \ last\ \d+\ answers\ were\ errors,\ 0\ of\ \d+\ of\ the\ others'/x,
     'reported with the figures');

wait_for { $nginx->count_log(qr/is used again after its ejection/) } 10,
    'the end of the ejection';

ask_until { ejected($bad) == 2 } '/s', 'it fails again';

$nginx->logs(qr/is ejected for @{[2 * TIME]} s/, 1, 'the time doubles');

# A reload keeps the ejection, a reload without the directive ends it.

$nginx->reload();
is(asked('/s'), 'b c d', 'after a reload');

$nginx->set(EJECT => '')->reload($configuration);
wait_for { asked('/s') eq 'a b c d' } 10, 'ejections without the directive';
pass('a reload without the directive ends the ejection');

# All members fail alike.

$_->set(status => 503) for @backends;
asked('/alike') for 1 .. 5;

is(asked('/alike'), 'a b c d', 'no member is ejected if all fail');

# No more members are ejected than "max=" allows.

$_->set(status => 200) for @backends;
$bad->set(status => 500);

ask_until {
    $nginx->count_log(qr/upstream "few": member .* fails but is not ejected/)
} '/few', 'the report of max=';

is(asked('/few'), 'a b c d', 'max= of 4 members is less than one');

# a session that cannot be opened

$etcd->put("/tcp/$_->{name}", $_->address) for @backends;
$bad->down;

wait_for {
    Http->new($nginx->port('PORT_TCP'))->get('/') for 1 .. 8;
    $nginx->count_log(qr/upstream "tcp": .* is ejected/);
} 20, 'an ejection in stream';

is(Upstream->new($nginx, 'tcp', 'stream')->member($bad->address)->{state},
   'ejected', 'a member that refuses connections, in stream');

$bad->up;

# keys with variables, and the statuses

ask_until { $nginx->count_log(qr/upstream "tenants": .* is ejected/) }
    '/tenants?tenant=t', 'an ejection in a set';

is(asked('/tenants?tenant=t'), 'b c d', 'a prefix with variables');

$second->set(status => 502);
asked('/tenants?tenant=t') for 1 .. 5;
is(asked('/tenants?tenant=t'), 'b c d', 'a status that is not in status=');

finish();
