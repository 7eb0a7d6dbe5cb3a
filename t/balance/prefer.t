#!/usr/bin/perl

# "etcd_prefer": the members of the same zone get the requests while enough of
# them can be used, in http and stream, in each set of a prefix with variables,
# and from the state file.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Line;
use Nginx;
use Upstream;
use Wait;

# in turns: a multiple of the denominators of all shares below

use constant REQUESTS => 40;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d));
my @lines = Line->start(qw(a b c d));
my %zones = (a => 'near', b => 'near', c => 'far', d => 'far');

# Writes all members; some of them, by name, have parameters.

sub register {
    my ($prefix, $all, %more) = @_;

    $etcd->put("/$prefix/" . $_->{name},
               sprintf('{"address":"%s","tags":{"zone":"%s"}%s}', $_->address,
                       $zones{ $_->{name} }, $more{ $_->{name} } // ''))
        for @$all;
}

register($_, \@backends) for qw(s key tenants/t);
register('tcp', \@lines);

$ENV{PREFER_ZONE} = 'near';

my $stream = Nginx::has('stream') ? <<'EOC' : '';
stream {
    upstream tcp {
        etcd_members /tcp/ format=json;
        etcd_prefer zone:near spill=100%;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%%;
        proxy_pass tcp;
    }
}
EOC

my $configuration = <<"EOC";

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

http {
    upstream s {
        etcd_members /s/ max_fails=1 fail_timeout=1h;
        etcd_prefer %%ZONE%% spill=100%;
    }

    upstream key {
        etcd_members /key/;
        etcd_balance hash \$arg_key consistent;
        etcd_prefer zone:env:PREFER_ZONE spill=100%;
    }

    upstream tenants {
        etcd_members /tenants/\$arg_tenant/;
        etcd_prefer zone:near spill=100%;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /s       { proxy_pass http://s; }
        location /key     { proxy_pass http://key; }
        location /tenants { proxy_pass http://tenants; }

        location /status {
            etcd_status;
        }
    }
}

$stream

EOC

my $nginx = Nginx->new(etcd => $etcd)->set(ZONE => 'zone:near')
    ->start($configuration);


# { ZONE => the number of its requests }

sub zones {
    my ($path) = @_;

    my $tally = $nginx->tally($path, REQUESTS);
    my %count;

    $count{ $zones{$_} // $_ } += $tally->{$_} for keys %$tally;

    return \%count;
}

sub becomes {
    my ($path, $expected, $what) = @_;

    my $count;

    wait_for {
        $count = zones($path);
        is_same($count, $expected);
    } 20, $what;

    is_deeply($count, $expected, $what);
}

sub is_same {
    my ($one, $two) = @_;

    return join(' ', map { "$_ $one->{$_}" } sort keys %$one)
           eq join(' ', map { "$_ $two->{$_}" } sort keys %$two);
}


becomes('/s', { near => REQUESTS }, 'all to the same zone');

register('s', \@backends, a => ',"drain":true');
becomes('/s', { near => REQUESTS / 2, far => REQUESTS / 2 },
        'one of two is drained: half of the requests leave the zone');

register('s', \@backends, a => ',"drain":true', b => ',"down":true');
becomes('/s', { far => REQUESTS }, 'none is left in the zone');

register('s', \@backends, c => ',"down":true', d => ',"drain":true');
becomes('/s', { near => REQUESTS }, 'the others have none');

register('s', \@backends, map { $_ => ',"backup":true' } qw(c d));
becomes('/s', { near => REQUESTS }, 'others that are backups');

register('s', \@backends);
becomes('/s', { near => REQUESTS }, 'as before');


# a prefix with variables

becomes('/tenants?tenant=t', { near => REQUESTS }, 'a set');

register('tenants/t', \@backends, b => ',"weight":3,"drain":true');
becomes('/tenants?tenant=t',
        { near => REQUESTS / 4, far => REQUESTS * 3 / 4 },
        'a set: weights count');


# Keys stay at their members, and half of them go to another zone.

becomes('/key?key=1', { near => REQUESTS }, 'by hash');
register('key', \@backends, a => ',"drain":true');

sub owners {
    return { map { $_ => $nginx->get("/key?key=$_")->{body} } 1 .. REQUESTS };
}

# The change may come while keys are asked for: they are asked for once more.

wait_for { grep { $zones{$_} eq 'far' } values %{ owners() } } 20,
    'keys that leave the zone';

my $owners = owners();

is_deeply(owners(), $owners, 'by hash: the same members again');
cmp_ok(scalar(grep { $zones{$_} eq 'near' } values %$owners), '>', 0,
       'by hash: other keys stay in the zone');


# A member fails.

my ($bad) = grep { $_->name eq 'a' } @backends;

$bad->down;
zones('/s');
is_deeply(zones('/s'), { near => REQUESTS / 2, far => REQUESTS / 2 },
          'one of two fails: half of the requests leave the zone');


SKIP: {
    skip('this nginx has no stream', 2) if !$stream;

    my $tcp = sub {
        my %count;

        my $tally = Line::Client::tally($nginx->port('PORT_TCP'), 8);

        $count{ $zones{$_} } += $tally->{$_} for keys %$tally;

        return \%count;
    };

    wait_for { ($tcp->()->{near} // 0) == 8 } 20, 'stream: the same zone';
    is_deeply($tcp->(), { near => 8 }, 'stream: all to the same zone');

    register('tcp', \@lines, b => ',"drain":true');
    wait_for { ($tcp->()->{far} // 0) == 4 } 20, 'stream: half of them';
    is_deeply($tcp->(), { near => 4, far => 4 }, 'stream: half of them');
}


# Another tag: values are read again.

$nginx->set(ZONE => 'zone:far');
$nginx->reload($configuration);
becomes('/s', { far => REQUESTS }, 'another zone after a reload');


# The state file has the tags.

$nginx->quit;
$etcd->stop;
$nginx->start;
becomes('/s', { far => REQUESTS }, 'from the state file');

finish();
