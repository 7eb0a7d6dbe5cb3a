#!/usr/bin/perl

# Any service by one stream server: a prefix with variables, chosen by the name
# that the client sends, or by the port.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Datagram;
use Etcd;
use Finish;
use Line;
use Nginx;
use Sni;
use Wait;

plan(skip_all => 'this nginx has no stream, or not all of it')
    if !Nginx::has(qw(stream stream_ssl_preread_module));

my $etcd = Etcd->new()->start();
my ($one, $two, $three) = map { $_->address } Line->start(qw(one two three));
my ($udp1, $udp2) = map { $_->address } Datagram->start(qw(u1 u2));

my $conf = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
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
    log_format set "$server_port [$etcd_set] $etcd_member_key $status";
    access_log %%DIR%%/stream.log set;

    upstream named {
        etcd_members /services/$ssl_preread_server_name/ limit=%%LIMIT%%;
    }

    map $server_port $service {
        %%PORT_x%%    x;
        %%PORT_y%%    y;
        %%PORT_dns%%  dns;
    }

    upstream numbered {
        etcd_members /ports/$service/ idle=1s;
    }

    server {
        listen 127.0.0.1:%%PORT_named%%;
        ssl_preread on;
        proxy_pass named;
    }

    server {
        listen 127.0.0.1:%%PORT_held%%;
        ssl_preread on;
        etcd_wait named 60s;
        proxy_pass named;
    }

    server {
        listen 127.0.0.1:%%PORT_x%%;
        listen 127.0.0.1:%%PORT_y%%;
        proxy_pass numbered;
    }

    server {
        listen 127.0.0.1:%%PORT_dns%% udp;
        proxy_responses 1;
        proxy_pass numbered;
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)->set(LIMIT => 100)->start($conf);


# the backend of a service by its name; '' without one

sub named { Sni::who($nginx->port('PORT_named'), $_[0]) // '' }

# the backend of a service by its port

sub numbered {
    my $answer = Line::Client->new($nginx->port("PORT_$_[0]"))->ask('hello');

    return ($answer // '') =~ s/:.*//sr;
}


sub goes {
    my ($by, $service, $to, $name) = @_;

    ok((wait_for { $by->($service) eq $to } 20, "$service goes to '$to'"),
       $name);
}


# by name

is(named('a.test'), '', 'a service that does not exist: closed');

# Until all keys are known, it may be one that is not known yet.

ok((wait_for { named('a.test');
               $nginx->error_log
               =~ /\[info\].* no such set in upstream "named"/ } 20, 'a line'),
   'which is logged at info');

my $first = $etcd->put('/services/a.test/1', $one);
$etcd->put('/services/b.test/1', $two);
goes(\&named, 'a.test', 'one', 'a service');
goes(\&named, 'b.test', 'two', 'another one');
is(named($_), '', "no service: '$_'") for '..', 'c.test', '';

my $session = Sni->new($nginx->port('PORT_named'), 'a.test');
is($session->who, 'one', 'a session');
$etcd->put('/services/a.test/2', $three);
$etcd->del('/services/a.test/1');
goes(\&named, 'a.test', 'three', 'a member goes, another one comes');
$etcd->del('/services/a.test/2');
goes(\&named, 'a.test', '', 'the service goes');
is($session->ask('still'), 'one: still', 'its sessions stay');
$session->close;


# by port

$etcd->put('/ports/x/1', $one);
$etcd->put('/ports/y/1', $two);
goes(\&numbered, 'x', 'one', 'by port');
goes(\&numbered, 'y', 'two', 'by another port');

$etcd->put('/ports/dns/1', $udp1);
my $dns = $nginx->port('PORT_dns');
ok((wait_for { (Datagram::Client->new($dns)->ask('who') // '') =~ /^u1 / } 60,
    'an answer'), 'UDP');
$etcd->put('/ports/dns/1', $udp2);
ok((wait_for { (Datagram::Client->new($dns)->ask('who') // '') =~ /^u2 / } 60,
    'an answer'), 'and to another member');


# sessions that wait

$etcd->put('/services/w.test/1', $one);
goes(\&named, 'w.test', 'one', 'a service that sessions wait for');
$etcd->del('/services/w.test/1');
goes(\&named, 'w.test', '', 'it has no member');

my $held = Sni->new($nginx->port('PORT_held'), 'w.test');
ok((wait_for { $nginx->error_log =~ /waiting for a member of upstream "named"/ }
    20, 'a session that waits'), 'a session waits');
$etcd->put('/services/w.test/2', $two);
is($held->who, 'two', 'for the next member');

$held = Sni->new($nginx->port('PORT_held'), 'never.test');
ok($held->is_closed(20), 'nobody waits for a service that was never there');


# a reload, a killed agent

$session = Sni->new($nginx->port('PORT_named'), 'b.test');
is($session->who, 'two', 'a session before the reload');
$nginx->set(LIMIT => 4)->reload($conf);
is(named('b.test'), 'two', 'a reload keeps the services');
is($session->ask('still'), 'two: still', 'and sessions');
$session->close;

$nginx->kill_worker($nginx->status->{agent}{pid});
$etcd->put('/services/after.test/1', $three);
goes(\&named, 'after.test', 'three', 'the agent is killed: the next one');
is(named('b.test'), 'two', 'has all services');

$etcd->put("/services/l$_.test/1", $one) for 1 .. 4;
ok((wait_for { $nginx->error_log =~ /is not used, since there are 4 sets/ } 20,
    'the report'), 'limit=');

ok((wait_for { grep { /\d \[b\.test\] \/services\/b\.test\/1 200$/ }
               $nginx->lines_of('stream.log') } 20, 'a line'),
   '$etcd_set in the log');


finish();
