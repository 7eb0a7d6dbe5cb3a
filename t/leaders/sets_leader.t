#!/usr/bin/perl

# A leader for each service: etcd_leader with variables in its prefix.  Each
# service has its own election, key or shard; one watch serves all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Http;
use Nginx;
use Told;
use Wait;

my $etcd = Etcd->new()->start();
my ($one, $two, $three) = Told->start(qw(one two three));
my ($at1, $at2, $at3) = map { $_->address } $one, $two, $three;

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOC');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream election {
        etcd_leader /election/$service limit=100 idle=1m;
    }

    upstream held {
        etcd_leader /held/$service/;
    }

    upstream key {
        etcd_leader /leaders/$service format=key;
    }

    upstream named {
        etcd_leader /named/$service/leader format=key
                    members=/named/$service/members/;
    }

    upstream bare {
        etcd_leader /bare/$service/leader format=key members=/bare/$service/;
    }

    upstream vitess {
        etcd_leader /vitess/$service format=vitess;
    }

    map $arg_s $service {
        default $arg_s;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        proxy_set_header X-Token $etcd_member_revision;
        add_header X-Set $etcd_set always;
        add_header X-Stale $etcd_staleness always;

        location /status {
            etcd_status;
        }

        location /held {
            etcd_wait held 60s;
            proxy_pass http://held;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }
}

EOC


# the answer to a request for a service: the body, or the status

sub got {
    my ($name, $service) = @_;

    my $answer = $nginx->get("/to/$name?s=$service");

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}


sub goes {
    my ($name, $service, $what, $test) = @_;

    ok((wait_for { got($name, $service) eq $what } 20,
        "$name $service is $what"), $test) or diag(got($name, $service));
}


# elections

# Before all keys are known, it is 503.

goes('election', 'db', 404, 'a service that has no key: 404');

my $first = $etcd->put('/election/db/1', $at1);
goes('election', 'db', "one $first", 'a leader, and its token at the leader');

my $second = $etcd->put('/election/db/2', $at2);
my $other = $etcd->put('/election/web/1', $at3);
goes('election', 'web', "three $other", 'a leader of another service');
is(got('election', 'db'), "one $first", 'a candidate changes nothing');

my $answer = $nginx->get('/to/election?s=db');
is($answer->{headers}{'x-set'}, 'db', '$etcd_set');
like($answer->{headers}{'x-stale'} // '', qr/^\d\.\d+|^\d+$/,
     '$etcd_staleness');

$etcd->del('/election/db/1');
goes('election', 'db', "two $second", 'the next candidate leads');
is(got('election', 'web'), "three $other", 'in this election alone');

$etcd->del('/election/db/2');
goes('election', 'db', 404, 'a service whose last key is gone');
is(got('election', $_), 404, "a name that is none: $_")
    for '', '..', 'x%2fy', 'x' x 256;


# A request waits for the next leader.

my $held = $etcd->put('/held/a/1', $at1);
ok((wait_for { $nginx->get('/held?s=a')->{body} eq "one $held" } 20, 'one'),
   'a leader that requests wait for');
$etcd->del('/held/a/1');
goes('held', 'a', 502, 'there is none: 502 for the longest etcd_wait time');

my $http = $nginx->http;
$http->send('GET', '/held?s=a');
ok((wait_for { $nginx->error_log =~ /waiting for a member of upstream "held"/ }
    20, 'a request that waits'), 'a request waits');
$held = $etcd->put('/held/a/2', $at2);
is($http->receive->{body}, "two $held", 'for the next leader');


# a key, a key that names a member, shards of Vitess

my $key = $etcd->put('/leaders/db', $at1);
goes('key', 'db', "one $key", 'format=key');
$etcd->put('/leaders/web/more', $at2);
$etcd->put('/leaders/done', $at3);
goes('key', 'done', 'three ' . $etcd->revision, 'another key');
is(got('key', 'web'), 404, 'a key below it makes no leader');

$etcd->put('/named/db/members/m1', $at1);
$etcd->put('/named/db/members/m2', $at2);
goes('named', 'db', 502, 'members without a leader');
my $named = $etcd->put('/named/db/leader', 'm2');
goes('named', 'db', "two $named", 'members=');
$etcd->put('/named/web/history', 'm1');
$etcd->put('/named/web2/leader', 'm1');
goes('named', 'web2', 502, 'the name of no member');
is(got('named', 'web'), 404, 'other keys are no service');

$etcd->put('/bare/db/m1', $at1);
$named = $etcd->put('/bare/db/leader', 'm1');
goes('bare', 'db', "one $named", 'members beside the leader');

my $shard = $etcd->put('/vitess/-80/locks/1', $at3);
goes('vitess', '-80', "three $shard", 'format=vitess');


# many services

$etcd->put("/election/s$_/1", $at1) for 1 .. 50;
goes('election', 's50', 'one ' . $etcd->revision, 'many services');
is(scalar(grep { got('election', "s$_") =~ /^one / } 1 .. 50), 50,
   'each has its leader');


# The agent is killed, nginx is reloaded.

$nginx->kill_worker($nginx->status->{agent}{pid});
my $after = $etcd->put('/election/after/1', $at2);
goes('election', 'after', "two $after", 'the next agent finds leaders');
goes('election', 'web', "three $other", 'and keeps those that were there');
$nginx->reload;
goes('election', 'web', "three $other", 'a reload, too');

unlike($nginx->error_log, qr/does not match|differs/,
       'keys of other purposes are not reported');


finish();
