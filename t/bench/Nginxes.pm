package Nginxes;

# Real nginxes beside a fleet (Fleet.pm), on the same etcds: two workers, the
# members of the fleet, locks, and a key of each that is registered.
#
# One member gets all requests, since the others are backups, and is moved from
# one backend to another: requests show who has followed.
#
#     my $nginxes = Nginxes->start($fleet, 10);
#     my ($watch, $request) = $nginxes->follow(5);     # us, lists
#     my %seen = $nginxes->outage(3, 60);
#     $nginxes->end();

use strict;
use warnings;

use JSON::PP;
use List::Util qw(max sum);
use MIME::Base64 qw(encode_base64);
use Time::HiRes qw(sleep time);

use Bench;
use Load;
use Nginx;
use Propagation;
use Wait;

use constant {
    MEMBER => '/fleet/members/moved',
    LOCKS  => 20,            # requests, of both workers
    PAUSE  => 0.005,
    ASK    => 0.05,          # between two requests of a client
    APART  => 100,           # ms between two changes, and
    JITTER => 50,            # more at random
};

my $config = <<'END';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    register /fleet/nginx/%%NUMBER%% value=127.0.0.1:%%PORT%%;
}

http {
    upstream api {
        etcd_members /fleet/members/;
        keepalive 16;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location / {
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }

        location /lock/ {
            etcd_lock /fleet/locks $uri wait=10s;
            proxy_pass http://api;
        }
    }
}

END


sub start {
    my ($class, $fleet, $n) = @_;

    my $self = bless { fleet => $fleet }, $class;

    $self->{backend} = Nginx->new(modules => [])
        ->start(backend_config(PORT_A => 'a', PORT_B => 'b'));
    $self->move('a');

    local $ENV{TEST_LOG} = 'error';

    $self->{all} = [map {
        Nginx->new()->set(ETCD => $fleet->cluster->endpoints, NUMBER => $_)
            ->start($config)
    } 1 .. $n];

    for my $nginx ($self->all) {
        wait_for { $nginx->says eq 'a' } 20, 'members' or die "no member\n";

        for my $i (1 .. LOCKS) {
            $nginx->get("/lock/$i")->{status} == 200 or die "no lock\n";
        }
    }

    return $self;
}


sub all { @{ $_[0]{all} } }


sub value {
    my ($self, $name) = @_;

    return '127.0.0.1:' . $self->{backend}->port('PORT_' . uc($name));
}


sub move { $_[0]{fleet}->cluster->ask(put => MEMBER, $_[0]->value($_[1])) }


# A change as Propagation.pm has them.

sub change {
    my ($self, $name) = @_;

    my $put = encode_json({ key => encode_base64(MEMBER, ''),
                            value => encode_base64($self->value($name), '') });

    return [$name, 'PUT', $name, 'put', $put, APART, JITTER];
}


# Each nginx in turn: from before a put until etcdctl watch has it, and until
# new connections are served by the new member alone; in us.

sub follow {
    my ($self, $cycles) = @_;

    my @changes = map { $self->change($_) } qw(b a);
    my @etcds = $self->{fleet}->etcds;
    my (@watch, @requests);

    for my $nginx ($self->all) {
        my (undef, @done) = Propagation::measure($etcds[0], $nginx->port, -2,
            $cycles, MEMBER, \@changes);

        push @etcds, shift @etcds;

        push @watch, map { $_->{watch} } @done;
        push @requests, map { max(@{ $_->{answered} }) } @done;
    }

    return (\@watch, \@requests);
}


# All etcds are killed under requests, and start again after some seconds: the
# requests, those that failed, and when etcd took a put, and the slowest nginx
# followed it, in seconds after that start.

sub outage {
    my ($self, $away, $patience) = @_;

    my @loads = map { Load->start($_->port, clients => 1, pause => ASK) }
                    $self->all;

    sleep(1);
    $_->kill() for $self->{fleet}->etcds;
    sleep($away);

    my $begun = time();

    $_->launch() for $self->{fleet}->etcds;
    $self->move('b');

    my %seen = (put => time() - $begun);
    my @late = $self->all;

    while (@late && time() - $begun < $patience) {
        @late = grep { $_->says ne 'b' } @late;
        sleep(PAUSE);
    }

    $seen{followed} = @late ? undef : time() - $begun;

    for my $seen (map { $_->results } @loads) {
        $seen{requests} += $seen->{requests};
        $seen{failed} += @{ $seen->{failed} };
    }

    return %seen;
}


# The cost of one nginx, all workers together: percent of one CPU, and MB of its
# own and of shared memory.

sub cost {
    my ($self, $seconds) = @_;

    my @workers = map { [$_->workers] } $self->all;
    my $before = cpu_time(map { @$_ } @workers);

    sleep($seconds);

    my $used = cpu_time(map { @$_ } @workers) - $before;
    my @memory = map { [map { memory($_) } @$_] } @workers;
    my $n = @workers;

    return ($used / $seconds * 100 / $n,
            sum(map { $_->{own} } map { @$_ } @memory) / 1024 / $n,
            sum(map { max(map { $_->{shared} } @$_) } @memory) / 1024 / $n);
}


sub end {
    my ($self) = @_;

    $_->crash() for $self->all, $self->{backend};
}


1;
