#!/usr/bin/perl

# "etcd_prefer" with each method: preferred members that are drained, full, in
# slow start, backups, or back after failures, and beside static servers;
# changes by a reload; requests that wait for full members.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Http;
use Nginx;
use Wait;

# a multiple of the denominators of all shares below

use constant REQUESTS => 40;

my %methods = (
    round_robin => 'round_robin',
    least_conn  => 'least_conn',
    random      => 'random',
    ewma        => 'ewma',
    hash        => 'hash $arg_key',
    consistent  => 'hash $arg_key consistent',
);
my @methods = sort keys %methods;

my $etcd = Etcd->new()->start();
my %backends = map { $_->name => $_ } Backend->start(qw(a b c d e f));
my %zones = (a => 'near', b => 'near', e => 'near',
             c => 'far', d => 'far', f => 'far');
my %revisions;

# Writes members of a prefix, each with its own part of the JSON.

sub register {
    my ($prefix, %members) = @_;

    $revisions{$prefix} = $etcd->put("/$prefix/$_", sprintf(
        '{"address":"%s","tags":{"zone":"%s"}%s}', $backends{$_}->address,
        $zones{$_}, $members{$_} && ",$members{$_}")) for sort keys %members;
}

register($_, map { $_ => '' } qw(a b c d))
    for @methods, qw(fails static reload);
register('wait', a => '"max_conns":1', b => '"max_conns":1');

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    UPSTREAMS

    upstream fails {
        etcd_members /fails/ max_fails=1 fail_timeout=1s;
        etcd_prefer zone:near spill=100%;
    }

    upstream static {
        server %%STATIC%%;
        etcd_members /static/;
        etcd_prefer zone:near spill=100%;
    }

    upstream reload {
        etcd_members /reload/;
        %%RELOAD%%
    }

    upstream wait {
        etcd_members /wait/;
        etcd_prefer zone:near;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_next_upstream_tries 10;

        location = /status {
            etcd_status;
        }

        location ^~ /wait {
            etcd_wait wait 600s full;
            proxy_pass http://wait;
        }

        location ~ ^/(?<name>\w+) {
            proxy_pass http://$name;
        }
    }
}
END

my $upstreams = join('', map { <<"END" } @methods);
    upstream $_ {
        etcd_members /$_/;
        etcd_balance $methods{$_};
        etcd_prefer zone:near spill=100%;
    }

END

$config =~ s/ *UPSTREAMS\n/$upstreams/;

my $nginx = Nginx->new(etcd => $etcd)
    ->set(STATIC => $backends{f}->address,
          RELOAD => 'etcd_prefer zone:near spill=100%;')
    ->start($config);


# { ZONE => the number of its requests, with different keys }

sub zones {
    my ($name) = @_;

    my %count;

    for my $key (1 .. REQUESTS) {
        my $answer = $nginx->get("/$name?key=$key");

        $count{ $zones{ $answer->{body} } // $answer->{status} }++;
    }

    return \%count;
}


# Once nginx knows the last change, the share is exact except by a hash of keys,
# and except among members of a group that a method does not ask in turn.

sub goes {
    my ($name, $near, $what) = @_;

    $nginx->upstream($name)->sees($revisions{$name});

    my $count = zones($name);
    my $got = $count->{near} // 0;

    is($got + ($count->{far} // 0), REQUESTS, "$name: all are answered");

    if ($near eq 'some' || ($near % REQUESTS && $name =~ /hash|consistent/)) {
        ok($got > 0 && $got < REQUESTS, "$name: $what");

    } else {
        cmp_ok(abs($got - $near), '<=', $near % REQUESTS ? 1 : 0,
               "$name: $what");
    }
}


# a request that stays at its member

sub hold {
    my ($name, $key) = @_;

    my $client = $nginx->http;

    $client->{timeout} = 60;
    $client->send('GET', "/$name?key=$key");

    return $client;
}


sub asked {
    my $n = 0;

    $n += $_->requests for values %backends;

    return $n;
}


for my $name (@methods) {
    goes($name, REQUESTS, 'all to the same zone');

    register($name, a => '"drain":true');
    goes($name, REQUESTS / 2, 'one of two is drained');

    # In slow start, a day long, a member counts for nearly nothing.

    $revisions{$name} = $etcd->del("/$name/a");
    goes($name, REQUESTS, 'one of two is removed');

    register($name, a => '"slow_start":"1d"');
    goes($name, REQUESTS / 2, 'one of two starts slowly');

    # All members of the zone are full, or half of them.

    register($name, a => '"max_conns":1', b => '"down":true');

    $nginx->upstream($name)->sees($revisions{$name});
    $_->reset for values %backends;
    $backends{a}->set(hang => 1);

    my @held;

    while ($backends{a}->requests == 0 && @held < REQUESTS) {
        push @held, hold($name, scalar @held);
        wait_for { asked() == @held } 10, "$name: a request";
    }

    goes($name, 0, 'no room in the zone');
    $backends{a}->set(hang => 0);
    is(Http::statuses(@held), join(' ', (200) x @held),
       "$name: who was held is answered");
    goes($name, REQUESTS / 2, 'room in half of the zone');

    # Backups, near or not, come after all others.

    register($name, (map { $_ => '"down":true' } qw(a b c d)),
             map { $_ => '"backup":true' } qw(e f));
    goes($name, 'some', 'backups of both zones');
    register($name, c => '');
    goes($name, 0, 'others come before backups of the zone');
    register($name, b => '"weight":3');
    goes($name, REQUESTS * 3 / 4, 'and the zone before others');
}


# The whole zone fails, and comes back.

goes('fails', REQUESTS, 'all to the same zone');
$_->down for @backends{qw(a b)};
zones('fails');
is_deeply(zones('fails'), { far => REQUESTS }, 'the zone fails');
$_->up for @backends{qw(a b)};
becomes { zones('fails') } { near => REQUESTS }, 'the zone is back', 30;


# Static servers belong to no zone.

goes('static', REQUESTS, 'static servers are not preferred');
register('static', map { $_ => '"down":true' } qw(a b c d));
goes('static', 0, 'a static server is left');


# A reload with another share, without the directive, and with it again.

register('reload', a => '"drain":true');
goes('reload', REQUESTS / 2, 'one of two is drained');

$nginx->set(RELOAD => 'etcd_prefer zone:near spill=50%;');
$nginx->reload($config);
goes('reload', REQUESTS, 'half of the zone is enough after a reload');

register('reload', a => '');
$nginx->set(RELOAD => '');
$nginx->reload($config);
goes('reload', REQUESTS / 2, 'without the directive');

$nginx->set(RELOAD => 'etcd_prefer zone:far;');
$nginx->reload($config);
becomes { zones('reload') } { far => REQUESTS }, 'with it again';


# Requests wait for full members that are all preferred.

$_->set(hang => 1) for @backends{qw(a b)};

my $count = asked();
my @clients = map { hold('wait', $_) } 1 .. 2;

wait_for { asked() == $count + 2 } 10, 'both are full';
push @clients, hold('wait', 3);
$nginx->upstream('wait')->holds(1, 'a request waits for a full zone');
$_->set(hang => 0) for @backends{qw(a b)};
is(Http::statuses(@clients), '200 200 200', 'and is answered');


# Without etcd, members keep their tags.

$etcd->stop;
$nginx->set(RELOAD => 'etcd_prefer zone:near;');
$nginx->reload($config);
is_deeply(zones('reload'), { far => REQUESTS },
          'another zone after a reload without etcd: the former one counts');
$etcd->start;
becomes { zones('reload') } { near => REQUESTS }, 'with etcd: the other one';

finish();
