#!/usr/bin/perl

# A prefix with variables: thousands of services of ten members in one upstream,
# beside a static upstream, an upstream of ten, and etcdctl.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    SERVICES    => $ENV{BENCH_SERVICES} || 10000,
    MEMBERS     => 10,
    ROUNDS      => $ENV{BENCH_ROUNDS} || 15,
    SECONDS     => $ENV{BENCH_SECONDS} || 1,
    CONNECTIONS => 32,
    CHANGES     => 1000,
    NAMES       => 20000,
};

my $config = <<'EOF';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 512m;
}

http {
    upstream sets {
        etcd_members /services/$service/ limit=100000 idle=1h;
        keepalive 512;
        keepalive_requests 1000000000;
    }

    upstream ten {
        etcd_members /ten/;
    }

    upstream static {
        %%SERVERS%%
        zone static 256k;
        keepalive 512;
        keepalive_requests 1000000000;
    }

    upstream control {
        %%SERVERS%%
        zone control 256k;
        keepalive 512;
        keepalive_requests 1000000000;
    }

    map $uri $service {
        ~^/s/(?<name>[^/]+) $name;
        default             real;
    }

    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_next_upstream off;
    keepalive_requests 1000000000;

    server {
        listen 127.0.0.1:%%PORT%% reuseport backlog=4096;

        location /sets    { proxy_pass http://sets; }
        location /s/      { proxy_pass http://sets; }
        location /static  { proxy_pass http://static; }
        location /control { proxy_pass http://control; }
        location /none/   { return 404; }

        location /status {
            etcd_status;
        }
    }
}

EOF

my @orders = ([qw(static sets control)], [qw(control sets static)],
              [qw(sets control static)]);

my $backend = Nginx->new(modules => [])
    ->start(backend_config(map { ("PORT_$_" => $_) } 1 .. MEMBERS));
my $etcd = Etcd->new()->start();
my @addresses = map { '127.0.0.1:' . $backend->port("PORT_$_") } 1 .. MEMBERS;
my @names = ('real', map { sprintf('s%05d', $_) } 1 .. SERVICES - 1);


sub put_all {
    my @puts = map {
        my $prefix = $_;
        map { [put => "$prefix/$_", $addresses[$_ - 1]] } 1 .. MEMBERS;
    } '/ten', map { "/services/$_" } @names;

    while (my @some = splice(@puts, 0, 100)) {
        $etcd->txn(@some);
    }
}


sub nginx {
    my $servers = join(' ', map { "server $_;" } @addresses);

    return Nginx->new(etcd => $etcd)->set(SERVERS => $servers);
}


sub served {
    my ($nginx) = @_;

    wait_for { $nginx->get("/s/$names[-1]")->{status} == 200 } 60, 'all of them'
        or die "the services are not served\n";
}


sub load {
    my $nginx = nginx();

    $nginx->write_config($config);

    my $time = stopwatch {
        start_now($nginx);
        served($nginx);
    };

    $nginx->stop();

    return $time;
}


sub fetch {
    local $ENV{ETCDCTL_API} = 3;

    return stopwatch {
        system("etcdctl --endpoints @{[$etcd->url]} get --prefix /services/"
               . ' > ' . test_dir() . '/fetched') == 0
            or die "etcdctl failed\n";
    };
}


# microseconds of the worker for a change of a member

my $weight = 1;

sub change_cost {
    my ($nginx, @prefixes) = @_;

    my ($worker) = $nginx->workers();
    my $before = cpu_time($worker);

    for my $i (0 .. CHANGES - 1) {
        $weight = $weight % 100 + 1;
        $etcd->put("$prefixes[$i % @prefixes]/1",
                   "{\"address\":\"$addresses[0]\",\"weight\":$weight}");
    }

    return (cpu_time($worker) - $before) * 1e6 / CHANGES;
}


# milliseconds of a service's first request, and of its second

sub first_requests {
    my ($nginx, @services) = @_;

    my (@first, @second);
    my $http = $nginx->http;

    $http->get('/sets');

    for my $service (@services) {
        push @first, 1000 * stopwatch { $http->get("/s/$service") };
        push @second, 1000 * stopwatch { $http->get("/s/$service") };
    }

    return (median(@first), median(@second));
}


sub names_cost {
    my ($nginx, $path) = @_;

    my ($worker) = $nginx->workers();
    my $before = cpu_time($worker);
    my $http = $nginx->http;

    $http->get("/$path/" . int(rand(1e9))) for 1 .. NAMES;

    return (cpu_time($worker) - $before) * 1e6 / NAMES;
}


# MB of the worker, without the zone

sub own { return sprintf('%.1f', memory(($_[0]->workers())[0])->{own} / 1024) }


put_all();

my @loads = map { +{ load => load(), fetch => fetch() } } 0 .. 5;

shift @loads;

my $nginx = nginx()->start($config);

served($nginx);

my ($used) = $nginx->get('/status')->{body} =~ /"used":\s*(\d+)/;
my %own = (one => own($nginx));
my ($first, $second) = first_requests($nginx, @names[1 .. 99]);

$own{100} = own($nginx);
$nginx->get("/s/$_") for @names[100 .. 999];
$own{1000} = own($nginx);
$nginx->get("/s/$_") for @names[1000 .. $#names];
$own{all} = own($nginx);

my @rounds = map {
    my $order = $orders[$_ % @orders];
    +{ map { $_ => request_cost($nginx, $_, SECONDS, CONNECTIONS) } @$order }
} 0 .. ROUNDS;

shift @rounds;

my @changes = map {
    +{ ten  => change_cost($nginx, '/ten'),
       sets => change_cost($nginx, map { "/services/$_" } @names[1 .. 999]) }
} 0 .. 5;

shift @changes;

my $before = own($nginx);
my @asked = map { +{ none => names_cost($nginx, 'none'),
                     set  => names_cost($nginx, 's') } } 1 .. 5;
my $after = own($nginx);

$nginx->stop();

my $services = SERVICES;
my $members = MEMBERS;
my $keys = SERVICES * MEMBERS;
my $random = NAMES * 5;
my $zone = sprintf('%.0f', $used / $keys);

publish('Prefix with variables', <<"END", <<"END", <<"END",
$services services of $members members ($keys keys) in one upstream by
`etcd_members /services/\$service/`, one worker. A request: CPU time of one to
a service, over one through a static `upstream` of $members servers; the control
is a second static one. Load: from the start of nginx until the last service is
served, over the run time of `etcdctl get --prefix`. A change: CPU time of the
worker, which is the agent, for a change of a member in one of 999 services,
over one in an upstream of $members members. No such service: CPU time of a
request with a random name, over one to a location with `return 404`.
END
The first request of a service takes @{[sprintf('%.2f', $first)]} ms, the second
@{[sprintf('%.2f', $second)]} ms (medians of 99).
END
Memory: $zone bytes of the zone for a member. Beside the zone the worker has
$own{one} MB when one service was used, $own{100} MB when 100, $own{1000} MB
when 1000, and $own{all} MB when all were. $random random names changed $before
MB into $after MB.
END
    table(['', 'peer', 'service', 'ratio', 'control'],
          ['a request, us',
           spread_of('%.1f', sub { $_[0]{static} }, @rounds),
           spread_of('%.1f', sub { $_[0]{sets} }, @rounds),
           spread_of('%.3f', sub { $_[0]{sets} / $_[0]{static} }, @rounds),
           spread_of('%.3f', sub { $_[0]{control} / $_[0]{static} },
                     @rounds)],
          ['load, ms',
           spread_of('%.0f', sub { $_[0]{fetch} * 1000 }, @loads),
           spread_of('%.0f', sub { $_[0]{load} * 1000 }, @loads),
           spread_of('%.2f', sub { $_[0]{load} / $_[0]{fetch} }, @loads), ''],
          ['a change, us',
           spread_of('%.1f', sub { $_[0]{ten} }, @changes),
           spread_of('%.1f', sub { $_[0]{sets} }, @changes),
           spread_of('%.2f', sub { $_[0]{sets} / $_[0]{ten} }, @changes), ''],
          ['no such service, us',
           spread_of('%.1f', sub { $_[0]{none} }, @asked),
           spread_of('%.1f', sub { $_[0]{set} }, @asked),
           spread_of('%.2f', sub { $_[0]{set} / $_[0]{none} }, @asked), '']));
