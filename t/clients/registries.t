#!/usr/bin/perl

# Instances that the libraries of their systems register, and what the clients
# of these systems make of them: nginx sends requests to the same addresses with
# the same weights, whatever the instances do.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(sum0);
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Nginx;
use Registrant;
use Upstream;
use Wait;

use constant {
    SPREAD  => 2,           # requests that a backend may get more or less
    RENEWAL => 60,          # s, until a library finds that its lease is lost
};

my $etcd = Etcd->new()->start();

# A word in capitals is the address of the backend with that name.

my %at = map { $_->name => $_->address } Backend->start('A' .. 'D');
my %who = reverse %at;

# The steps of a system: a command, what its clients use then, and what nginx
# uses, where that differs for a reason.

my %systems = (
    gozero => {
        service => 'greet.rpc',
        members => 'greet.rpc/ format=plain lease=required',
        steps   => [
            ['register A' => { A => 1 }],
            ['register B' => { A => 1, B => 1 }],

            # again, as an instance that starts anew
            ['register A' => { A => 1, B => 1 }],
            ['register C' => { A => 1, B => 1, C => 1 }],
            ['deregister C' => { A => 1, B => 1 }],
        ],
    },

    grpc => {
        service => 'my-svc',
        members => 'my-svc/ format=grpc tag=zone:a',
        steps   => [
            ['register A zone=a' => { A => 1 }],
            ['register B zone=a' => { A => 1, B => 1 }],
            ['register C zone=b' => { A => 1, B => 1, C => 1 },
             { A => 1, B => 1 }],       # tag=
            ['deregister C' => { A => 1, B => 1 }],
        ],
    },

    kitex => {
        service => 'echo',
        members => 'kitex/registry-etcd/echo/ format=kitex',
        steps   => [
            ['register A weight=10' => { A => 10 }],
            ['register B weight=30 env=prod' => { A => 10, B => 30 }],
            ['register C' => { A => 10, B => 30, C => 10 }],
            ['register C weight=-5' => { A => 10, B => 30, C => 10 }],
            ['register C weight=20' => { A => 10, B => 30, C => 20 }],
            ['deregister C' => { A => 10, B => 30 }],
        ],
    },

    kratos => {
        service => 'helloworld',
        members => '/microservices/helloworld/ format=kratos scheme=grpc',
        steps   => [
            ['register A' => { A => 100 }],
            ['register B weight=50' => { A => 100, B => 50 }],
            ['register C weight=0' => { A => 100, B => 50 }],
            ['register C weight=much' => { A => 100, B => 50, C => 100 }],
            ['deregister C' => { A => 100, B => 50 }],

            # a second server of the instance, such as one for administrators
            ['register C also=grpc://D' => { A => 100, B => 50, C => 100 }],
            ['deregister C' => { A => 100, B => 50 }],
            ['register C also=grpcs://D' => { A => 100, B => 50, C => 100 }],
            ['deregister C' => { A => 100, B => 50 }],

            # an instance that starts anew by another key, before its lease ends
            ['register A id=again' => { A => 100, B => 50 }],
            ['deregister A' => { A => 100, B => 50 }],
        ],

        # Kratos' clients go on with their last instances then.
        without => undef,
    },

    gomicro => {
        service => 'greeter',
        members => '/micro/registry/greeter/ format=go-micro',
        steps   => [
            ['register A' => { A => 1 }],
            ['register B' => { A => 1, B => 1 }],
            ['register C also=D' => { A => 1, B => 1, C => 1, D => 1 }],
            ['deregister C' => { A => 1, B => 1 }],
        ],
    },

    rpcx => {
        service => 'Arith',
        members => 'rpcx/Arith/ format=rpcx scheme=tcp',
        steps   => [
            ['register A weight=3' => { A => 3 }],
            ['register B group=test' => { A => 3, B => 1 }],
            ['register C weight=2 state=active'
             => { A => 3, B => 1, C => 2 }],
            ['register C weight=2 state=inactive' => { A => 3, B => 1 }],
            ['register C weight=2' => { A => 3, B => 1, C => 2 }],
            ['register C weight=0' => { A => 3, B => 1 }],
            ['deregister C' => { A => 3, B => 1 }],
        ],
    },

    dubbo => {
        service => 'com.x.Greet',
        members => '/dubbo/com.x.Greet/providers/ format=dubbo scheme=tri',
        steps   => [
            ['register A' => { A => 100 }],
            ['register B weight=200 note=a+b' => { A => 100, B => 200 }],
            ['register C weight=-1' => { A => 100, B => 200 }],
            ['register D protocol=dubbo'
             => { A => 100, B => 200, D => 100 },
             { A => 100, B => 200 }],   # scheme=
        ],

        # dubbo-go does not register again.
        forgets => 1,
    },

    # of several keys, some of them without a weight; the numbers have gaps
    traefik => {
        service => 'web',
        members => 'traefik/http/services/web/ format=traefik lease=required',
        steps   => [
            ['register A' => { A => 1 }],
            ['register B weight=3' => { A => 1, B => 3 }],
            ['register C weight=0' => { A => 1, B => 3 }],
            ['register C weight=2 preservePath=true'
             => { A => 1, B => 3, C => 2 }],
            ['register B' => { A => 1, B => 1, C => 2 }],
            ['deregister B' => { A => 1, C => 2 }],
            ['register D' => { A => 1, C => 2, D => 1 }],
            ['deregister D' => { A => 1, C => 2 }],
        ],

        # The library does not write again.
        forgets => 1,
    },

    coredns => {
        service => 'web.example.com.',
        members => '/skydns/com/example/web/ format=skydns',
        steps   => [
            ['register A' => { A => 100 }],
            ['register B weight=50' => { A => 100, B => 50 }],
            ['register C priority=20' => { A => 100, B => 50 }],
            ['register C priority=5 weight=10' => { C => 10 }],
            ['register C priority=10 group=g1'
             => { A => 100, B => 50, C => 100 }],
            ['deregister C' => { A => 100, B => 50 }],
        ],
    },

    # a leader; others wait until those before them have left
    vitess => {
        service => 'main',
        leader  => '/vitess/global/elections/main format=vitess',
        steps   => [
            ['register A' => { A => 1 }],
            ['register B' => { A => 1 }],
            ['deregister A' => { B => 1 }],
            ['register A' => { B => 1 }],
            ['deregister B' => { A => 1 }],
        ],

        # The library does not take part again.
        forgets => 1,
    },

    dubboapp => {
        service => 'app',
        members => '/services/app/ format=dubbo-app scheme=tri',
        steps   => [
            ['register A' => { A => 100 }],
            ['register B zone=a' => { A => 100, B => 100 }],
            ['register C enable=false' => { A => 100, B => 100 }],
            ['register C' => { A => 100, B => 100, C => 100 }],
            ['register C healthy=false' => { A => 100, B => 100 }],

            # another protocol has the port of the instance
            ['register D port=1' => { A => 100, B => 100, D => 100 }],
            ['deregister D' => { A => 100, B => 100 }],
            ['register C revision=0' => { A => 100, B => 100 }],
            ['deregister C' => { A => 100, B => 100 }],
        ],
    },

    node => {
        service => 'web',
        members => 'web/',
        steps   => [
            ['register A' => { A => 1 }],
            ['register B' => { A => 1, B => 1 }],
            ['register C' => { A => 1, B => 1, C => 1 }],
            ['deregister C' => { A => 1, B => 1 }],
        ],
    },

    python => {
        service => 'jobs',
        members => 'jobs/',
        steps   => [
            ['register A weight=3' => { A => 3 }],
            ['register B' => { A => 3, B => 1 }],
            ['register C weight=2' => { A => 3, B => 1, C => 2 }],
            ['register C weight=2 drain=true' => { A => 3, B => 1 }],
            ['deregister C' => { A => 3, B => 1 }],
        ],
    },

    goframe => {
        service => 'user',
        members => '/service/default/default/user/latest/ format=key',
        steps   => [
            ['register A' => { A => 1 }],
            ['register B protocol=http' => { A => 1, B => 1 }],
            ['register C' => { A => 1, B => 1, C => 1 }],
            ['deregister C' => { A => 1, B => 1 }],
        ],
    },
);

my @names = grep { Registrant::is_built($_) } sort keys %systems;
my @missing = grep { !Registrant::is_built($_) } sort keys %systems;


sub follows {
    my ($system) = @_;

    return $system->{leader} ? "etcd_leader $system->{leader}"
                             : "etcd_members $system->{members}";
}


my $upstreams = join('', map { <<"EOC" } @names);
    upstream $_ {
        @{[follows($systems{$_})]};
    }

EOC

# One worker: its rotation is exact.

my $nginx = Nginx->new(etcd => $etcd)->start(<<"EOC");

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
$upstreams
    server {
        listen 127.0.0.1:%%PORT%%;

        location ~ ^/to/(?<name>\\w+)\$ {
            proxy_pass http://\$name;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

for my $name (@names) {
    my $system = $systems{$name};

    $system->{name} = $name;
    $system->{upstream} = Upstream->new($nginx, $name);
    $system->{$_} = Registrant->start($etcd, $name, $system->{service})
        for qw(provider consumer);
}


sub by_name { return { map { ($who{$_} // $_) => $_[0]{$_} } keys %{ $_[0] } } }

sub used {
    my ($system) = @_;

    return by_name({ map { $_->{state} eq 'up' ? ($_->{address} => $_->{weight})
                                               : () }
                     $system->{upstream}->used });
}


# How many requests of so many each backend gets, beside its weights: the
# rotation may have begun somewhere.

sub spreads {
    my ($system, $weights, $name) = @_;

    my $all = sum0(values %$weights);
    my $n = $all ? 40 * keys %$weights : 1;
    my $tally = $nginx->tally("/to/$system->{name}", $n);

    my @wrong = grep {
        abs(($tally->{$_} // 0) - $n * ($weights->{$_} // 0) / ($all || 1))
            > SPREAD
    } keys %$tally, keys %$weights;

    ok($all ? !@wrong : ($tally->{502} // 0) == 1, "$name: so are requests")
        or diag(explain($tally));
}


sub agree {
    my ($system, $clients, $routed, $name) = @_;

    becomes { by_name($system->{consumer}->resolve) } $clients,
        "$name: its clients" if $clients;
    becomes { used($system) } $routed, "$name: nginx";
    spreads($system, $routed, $name);
}


# Does all steps of a system.

sub walk {
    my ($system) = @_;

    for my $step (@{ $system->{steps} }) {
        my ($command, $clients, $routed) = @$step;

        $system->{provider}->tell($command =~ s/\b([A-D])\b/$at{$1}/gr);
        $system->{last} = [$clients, $routed // $clients];
        agree($system, @{ $system->{last} }, "$system->{name}, $command");
    }

    is_deeply($system->{upstream}->invalid, {},
              "$system->{name}: nothing is invalid");
}


# Ends the leases of a system, as time does; returns those as nginx shows them.

sub expire {
    my ($system) = @_;

    my ($prefix) = split(/ /, $system->{leader} // $system->{members});
    my %lease = map { $_->{lease} ? ($_->{lease} => 1) : () }
        $etcd->list($prefix);

    $etcd->revoke($_) for keys %lease;

    return { map { sprintf('%x', $_) => 1 } keys %lease };
}


# The instances of a system that are registered by other leases than these

sub renewed {
    my ($system, $lost) = @_;

    return by_name({ map { $_->{state} eq 'up' && !$lost->{$_->{lease}}
                           ? ($_->{address} => $_->{weight}) : () }
                     $system->{upstream}->used });
}


my @systems = @systems{@names};

walk($_) for @systems;

$etcd->restart();
agree($_, @{ $_->{last} }, "$_->{name}, etcd has started anew") for @systems;

# Leases end while the instances live: most register again by themselves.

$_->{lost} = expire($_) for @systems;

for my $system ((grep { !$_->{forgets} } @systems),
                (grep { $_->{forgets} } @systems))
{
    my $name = "$system->{name}, leases have ended";
    my ($clients, $routed) = @{ $system->{last} };

    if ($system->{forgets}) {
        agree($system, {}, {}, $name);
        $system->{provider}->kill();
        $system->{provider} = Registrant->start($etcd, $system->{name},
                                                $system->{service});
        walk($system);
        next;
    }

    becomes { renewed($system, $system->{lost}) } $routed, $name, RENEWAL;
    agree($system, $clients, $routed, $name);
}

# The processes are killed: they leave when their leases end, not before.

for my $system (@systems) {
    $system->{provider}->kill();
    agree($system, @{ $system->{last} }, "$system->{name}, killed");
}

expire($_) for @systems;

for my $system (@systems) {
    agree($system, exists $system->{without} ? $system->{without} : {}, {},
          "$system->{name}, killed, leases have ended");
}

# A system whose program was not built was not tested.

is("@missing", '', 'no program is missing');

finish();
