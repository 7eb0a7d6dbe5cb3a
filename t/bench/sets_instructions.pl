#!/usr/bin/perl

# Instructions of the worker per request to a prefix with variables, beside a
# static upstream, and per request with a name that does not exist, beside
# nginx's own work for such a name.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Counted;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    SERVICES => 100,
    MEMBERS  => 10,
    REQUESTS => $ENV{BENCH_REQUESTS} || 2000,
};

my $config = <<'EOC';

daemon off;
master_process off;

etcd {
    endpoints %%ETCD%%;
    zone 16m;
}

http {
    upstream sets {
        etcd_members /services/$service/;
    }

    upstream members {
        etcd_members /services/s1/;
    }

    upstream static {
        %%SERVERS%%
        zone static 256k;
    }

    upstream down {
        server 127.0.0.1:1 down;
    }

    map $uri $service {
        ~^/[a-z0-9]+/(?<name>[^/]+) $name;
    }

    # the worker closes both connections: when it notices that another one has
    # done so is chance

    keepalive_timeout 0;
    proxy_next_upstream off;

    server {
        listen 127.0.0.1:%%PORT%%;

        # all of them need the variable

        add_header X-Service $service always;

        location /static/ { proxy_pass http://static; }
        location /members/ { proxy_pass http://members; }
        location /s/ { proxy_pass http://sets; }
        location /down/ { proxy_pass http://down; }
        location /502/ { proxy_pass http://$service; }
        location /404/ { return 404; }
        location = /status { etcd_status; }
    }
}

EOC

my $backend = Nginx->new(modules => [])
    ->start(backend_config(map { ("PORT_$_" => $_) } 1 .. MEMBERS));
my $etcd = Etcd->new()->start();
my @addresses = map { '127.0.0.1:' . $backend->port("PORT_$_") } 1 .. MEMBERS;

for my $service (map { "/services/s$_" } 1 .. SERVICES) {
    $etcd->txn(map { [put => "$service/$_", $addresses[$_ - 1]] } 1 .. MEMBERS);
}

my $nginx = Nginx->new(etcd => $etcd)
    ->set(SERVERS => join(' ', map { "server $_;" } @addresses));

$nginx->write_config($config);

my $counted = Counted->start($nginx);

wait_for { ($nginx->http->get('/s/s100') // {})->{status} == 200 } 120,
    'the services' or die "the services are not served\n";


# instructions of requests one after another, whose names the function makes

sub per_request {
    my ($status, $path) = @_;

    my $http = sub {
        my $answer = $nginx->http->get($path->($_[0]));

        $answer->{status} == $status
            or die $path->($_[0]) . ": $answer->{status}\n";
    };

    return $counted->instructions(REQUESTS, sub { $http->($_) for 1 .. $_[0] });
}


my %got = (
    static  => per_request(200, sub { '/static/s' . ($_[0] % SERVICES + 1) }),
    members => per_request(200, sub { '/members/s' . ($_[0] % SERVICES + 1) }),
    set     => per_request(200, sub { '/s/s' . ($_[0] % SERVICES + 1) }),
    404     => per_request(404, sub { sprintf('/404/x%08d', $_[0]) }),
    502     => per_request(502, sub { sprintf('/502/x%08d', $_[0]) }),
    down    => per_request(502, sub { sprintf('/down/x%08d', $_[0]) }),
    unknown => per_request(404, sub { sprintf('/s/x%08d', $_[0]) }),
);


sub row {
    my ($name, $of, $base) = @_;

    return [$name, sprintf('%.0f', $got{$of}),
            sprintf('%.0f', $got{$of} - $got{$base}),
            sprintf('%.3f', $got{$of} / $got{$base})];
}


publish('Instructions of a prefix with variables', <<"END",
What a worker executes for one request, in nginx, its modules and libraries,
without the kernel's part: counted by `valgrind --tool=callgrind` over
@{[REQUESTS]} requests, each with a connection of its own, and each with the
evaluation of the variable, by a `map` with a regular expression.
@{[SERVICES]} services of @{[MEMBERS]} members. The second table is of names
that do not exist.
END
    table(['a request', 'instructions', 'more', 'ratio'],
          row('to a static `upstream`', 'static', 'static'),
          row('to a fixed prefix', 'members', 'static'),
          row('to a service of a prefix with variables', 'set', 'static')),
    table(['no such name', 'instructions', 'more', 'ratio'],
          row('`return 404`', 404, 404),
          row('a prefix with variables (404)', 'unknown', 404),
          row('`proxy_pass http://$name` without `resolver` (502)', 502, 404),
          row('an `upstream` whose server is `down` (502)', 'down', 404)));
