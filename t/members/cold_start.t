#!/usr/bin/perl

# While nginx has not read all keys of a prefix with variables, a service that
# it does not know yet is not one that does not exist: 503, or a wait, and never
# 404.  A proxy before etcd holds what the list would say.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Becomes;
use Chaos;
use Etcd;
use Finish;
use Line;
use Nginx;
use State;
use Wait;

use constant {
    # Two pages, of 8192 keys and of the rest; each service has a value of 100
    # bytes.
    SERVICES => 12000,
    LENGTH   => 100,
    HELD     => 1300000,     # bytes: with the first page, without the second
};

my $etcd = Etcd->new()->start();
my $chaos = Chaos->start($etcd->port);
my ($one) = Backend->start('one');
my ($line) = Line->start('line');

my $conf = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ENDPOINT%%;
    zone 512m;
    %%STATE%%
}

http {
    etcd_set $version /versions/$arg_s default=none;
    etcd_set $color /color default=none;

    upstream services {
        etcd_members /services/$arg_s/ limit=20000;
    }

    upstream leaders {
        etcd_leader /elections/$arg_s;
    }

    upstream versions {
        etcd_members /releases/$version/;
    }

    upstream colors {
        etcd_members /releases/$color/;
    }

    %%ADDED%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(\w+)$ {
            proxy_pass http://$1;
        }

        location ~ ^/held/services$ {
            etcd_wait services 600s;
            proxy_pass http://services;
        }

        location ~ ^/held/leaders$ {
            etcd_wait leaders 600s;
            proxy_pass http://leaders;
        }

        location ~ ^/held/versions$ {
            etcd_wait versions 600s;
            proxy_pass http://versions;
        }

        location ~ ^/short/services$ {
            etcd_wait services 300ms;
            proxy_pass http://services;
        }
    }
}

EOC

my $stream = <<'EOC';

stream {
    map $server_port $numbered {
        default  zz;
    }

    upstream lines {
        etcd_members /services/$numbered/ limit=20000;
    }

    server {
        listen 127.0.0.1:%%PORT_line%%;
        etcd_wait lines 600s;
        proxy_pass lines;
    }

    server {
        listen 127.0.0.1:%%PORT_now%%;
        proxy_pass lines;
    }
}

EOC

my $has_stream = Nginx::has('stream');
my $both = $has_stream ? $conf . $stream : $conf;

my @kinds = qw(services leaders versions colors);
my @waits = qw(services leaders versions);

my $value = sprintf('%-*s', LENGTH, $one->address);

for my $n (1 .. SERVICES / 100) {
    $etcd->txn(map { [put => "/services/s$n-$_/1", $value] } 1 .. 100);
}

$etcd->put('/services/z/1', $one->address);
$etcd->put('/services/zz/1', $line->address);
$etcd->put('/elections/z/1', $one->address);
$etcd->put('/versions/z', 'v1');
$etcd->put('/color', 'v1');
$etcd->put('/releases/v1/1', $one->address);

my $nginx = Nginx->new(etcd => $etcd)->set(
    ENDPOINT => $chaos->url, STATE => '', ADDED => '',
);


sub status_of { $nginx->get($_[0])->{status} }

# Tests that nothing answers 404, and that all services are found in the end;
# these upstreams were not read yet.

sub cold {
    my ($name, $end, @cold) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    for my $kind (@cold) {
        my %seen = map { status_of("/to/$kind?s=z") => 1 } 1 .. 6;

        is_deeply([keys %seen], [503], "$name: $kind: 503 in all workers");
    }

    is(status_of('/to/services?s=none'), 503, "$name: an unknown one: 503");
    is(status_of('/to/services'), 503, "$name: no name");
    is(status_of('/short/services?s=z'), 503, "$name: a short wait");

    my %held = map { $_ => $nginx->begin($_) }
        map({ "/held/$_?s=z" } @waits), '/held/services?s=none';

    my @lines = $has_stream ? map({ $nginx->line('line') } 1 .. 2) : ();

    $_->tell('hello') for @lines;

    if ($has_stream) {
        is($nginx->line('now')->ask('hello'), undef,
           "$name: stream: a session without a wait ends");
    }

    $end->();

    for my $path (sort keys %held) {
        my $answer = $held{$path}->receive;
        my $wanted = $path =~ /none/ ? 404 : 200;

        is($answer->{status}, $wanted, "$name: $path waits: $wanted");
    }

    is($_->hear, 'line: hello', "$name: stream: a session waits") for @lines;

    for my $kind (@kinds) {
        becomes { status_of("/to/$kind?s=z") } 200, "$name: $kind is known";
    }

    for my $kind (@waits) {
        becomes { status_of("/to/$kind?s=none") } 404,
                "$name: $kind: what etcd does not have";
    }

    return;
}


# no etcd from the start

$chaos->set(refuse => 1);
$nginx->start($both);
cold('etcd is away', sub { $chaos->set(refuse => 0) }, @kinds);

# The list is held in the middle.  That of stream is one of its own, which might
# come whole.

$has_stream = 0;
$nginx->quit();
$chaos->set(hold_after => HELD);
$nginx->start($conf);
wait_for { status_of('/to/services?s=s1-1') == 200 } 20, 'the first page'
    or fail('the first page');

# a list that is tried again would get as much once more

$chaos->set(hold_down => 1);
cold('the list is held', sub { $chaos->set(hold_after => 0, hold_down => 0) },
     'services');

# the agent is killed meanwhile

$has_stream = Nginx::has('stream');
$nginx->quit();
$chaos->set(hold_down => 1);
$nginx->start($both);

my $pid;

wait_for { $pid = $nginx->status->{agent}{pid} } 20, 'an agent';
$nginx->kill_worker($pid);
wait_for {
    my $next = $nginx->status->{agent}{pid};

    $next && $next != $pid
} 20, 'another agent';
cold('another agent', sub { $chaos->set(hold_down => 0) }, @kinds);

# A reload keeps what is known, and adds an upstream.

$chaos->set(hold_down => 1);
$chaos->cut();
ok($nginx->set(ADDED => 'upstream added { etcd_members /releases/$arg_v/; }')
         ->reload($both), 'a reload');
is(status_of('/to/services?s=z'), 200, 'a known service');
is(status_of('/to/services?s=none'), 404, 'a service that is known not to be');
is(status_of('/to/added?v=v1'), 503, 'the new upstream is not read');
$chaos->set(hold_down => 0);
becomes { status_of('/to/added?v=v1') } 200, 'it is';
becomes { status_of('/to/added?v=none') } 404, 'it has no other';

# A service that comes while nginx is away is not in the state file.

$nginx->quit();
$nginx->set(STATE => 'state_path ' . $nginx->dir . '/state;', ADDED => '')
      ->start($both);
becomes { status_of('/to/services?s=z') } 200, 'with a state file';
becomes { status_of('/to/services?s=none') } 404, 'all is read';

# the first file may have been saved when the smaller prefixes were read

my $file = $nginx->dir . '/state/default.state';

wait_for { grep { $_->{key} eq '/services/z/1' } state_members($file) } 20,
    'the state file';
$nginx->quit();
$etcd->put('/services/later/1', $one->address);
$chaos->set(hold_down => 1);
$nginx->start();
is(status_of('/to/services?s=z'), 200, 'a service of the state file');
is(status_of('/to/services?s=later'), 503, 'one that may have come since');
$chaos->set(hold_down => 0);
becomes { status_of('/to/services?s=later') } 200, 'it has';
becomes { status_of('/to/services?s=none') } 404, 'and no other';

# A prefix that the user may not read says nothing about its services.

$nginx->quit();
$etcd->user_add('nginx', 'secret', qw(/elections/ /versions/ /color
                                       /releases/));
$etcd->auth_enable('root-secret');
$nginx->write_secret('password', 'secret');
$nginx->set(STATE => "user nginx; password_file password;")
      ->start($both);
becomes { status_of('/to/leaders?s=z') } 200, 'a prefix that may be read';
is(status_of('/to/services?s=z'), 503, 'one that may not');
is(status_of('/to/services?s=none'), 503, 'whatever the name');

$nginx->expect(qr/permission denied|PermissionDenied|not allowed/i);

finish();
