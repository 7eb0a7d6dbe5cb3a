#!/usr/bin/perl

# A leader whose host name has several addresses: sessions stay at their address
# for as long as the name has it, in whatever order a name server returns
# addresses.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Dns;
use Etcd;
use Finish;
use Line;
use Nginx;
use Port;
use Upstream;
use Wait;

# Every second rotation puts another of two addresses first.

use constant {
    ROTATIONS => 8,
    ROUNDS    => 2,
};

Nginx::has('stream') or plan(skip_all => 'this nginx has no stream');

my $etcd = Etcd->new()->start();
my $dns = Dns->start(rotate => 1);
my ($line) = Line->start('pg');

# PostgreSQL listens at each address of the loopback interface.

my $nginx = Nginx->new(etcd => $etcd)->set(
    DNS  => $dns->address,
    LINE => $line->address,
)->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
    resolver %%DNS%% ipv6=off;
    resolver_timeout 1s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

stream {
    upstream patroni {
        etcd_leader /service/batman format=patroni on_change=close;
    }

    upstream key {
        etcd_leader /leader format=key on_change=close;
    }

    server {
        listen %%PORT_PG%%;
        proxy_pass %%LINE%%;
    }

    server {
        listen 127.0.0.1:%%PORT_PATRONI%%;
        proxy_pass patroni;
    }

    server {
        listen 127.0.0.1:%%PORT_KEY%%;
        proxy_pass key;
    }
}

EOC

my $pg = $nginx->port('PORT_PG');
my $location = 0;
my %client;
my %host = (patroni => 'pg.test', key => 'key.test');
my @names = sort keys %host;
my %upstream = map { $_ => Upstream->new($nginx, $_, 'stream') } @names;


# Patroni puts a member again and again, with another location.

sub put_member {
    return $etcd->put('/service/batman/members/pg1', encode_json({
        conn_url      => "postgres://pg.test:$pg/postgres",
        state         => 'running',
        role          => 'primary',
        xlog_location => ++$location,
    }));
}


# the addresses that are used

sub addresses {
    my ($name) = @_;

    return join(' ', map { $_->{address} }
                         @{ $upstream{$name}->status->{members} // [] });
}


# Waits until each name was asked for so many times again.

sub rounds {
    my ($n) = @_;

    my %wanted = map { $_ => $dns->queries($_) + $n } values %host;

    return wait_for {
        put_member();
        !grep { $dns->queries($_) < $wanted{$_} } keys %wanted;
    } 60, "$n rounds";
}


# a session with the leader

sub session {
    my ($name) = @_;

    my $client;

    wait_for {
        $client = Line::Client->new($nginx->port('PORT_' . uc($name)));
        ($client->ask('hello') // '') eq 'pg: hello';
    } 20, "a session of $name";

    return $client;
}


sub stays {
    my ($name, $address, $text) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is(addresses($name), $address, "$name: the address, $text");
    is($client{$name}->ask('still'), 'pg: still',
       "$name: and the session stay");
}


sub resolves { $dns->set(map { $_ => $_[0] } values %host) }


resolves(['127.0.0.2', '127.0.0.3']);
$etcd->put('/service/batman/leader', 'pg1');
$etcd->put('/leader', "key.test:$pg");
put_member();

%client = map { $_ => session($_) } @names;

is(addresses($_), "127.0.0.2:$pg", "$_: the lowest address") for @names;

rounds(ROTATIONS);
stays($_, "127.0.0.2:$pg", 'as answers rotate,') for @names;

resolves(['127.0.0.1', '127.0.0.2']);
rounds(ROUNDS);
stays($_, "127.0.0.2:$pg", 'with a lower one beside it,') for @names;

# The agent of a new configuration has chosen no address yet.

ok($nginx->reload(), 'reload');
rounds(ROUNDS);
stays($_, "127.0.0.2:$pg", 'with another agent,') for @names;

resolves('silence');
ok($nginx->reload(), 'reload');
rounds(ROUNDS);
stays($_, "127.0.0.2:$pg", 'with one that gets no answer,') for @names;

resolves(['127.0.0.3', '127.0.0.4']);

for my $name (@names) {
    ok($client{$name}->is_closed(20), "$name: the session ends with it");
    $client{$name} = session($name);
    is(addresses($name), "127.0.0.3:$pg", "$name: of others the lowest one");
}

resolves('failure');
rounds(ROUNDS);
stays($_, "127.0.0.3:$pg", 'while there is no answer,') for @names;

finish();
