#!/usr/bin/perl

# Several keys of one transaction register one address: the last one by name
# shows in each nginx, whether a watch has told of them, a list, another zone or
# the state file.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant KEYS => 120;           # of one transaction

my $etcd = Etcd->new()->start();
my ($backend, $other) = Backend->start(2);
my $address = $backend->address;
my $last = sprintf('/one/%03d', KEYS);

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    zone %%ZONE%%;
    state_path %%DIR%%/state;
}

http {
    upstream one {
        etcd_members /one/ weight=%%WEIGHT%%;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://one;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

sub nginx {
    return Nginx->new(etcd => $etcd)->set(ZONE => '2m', WEIGHT => 1)
        ->start($config);
}

my ($marks, $read) = (0);


# All that nginx knew when it was changed, it has read again: a later key of
# another address shows.

sub reads {
    my ($nginx) = @_;

    my $mark = '/one/-' . ++$marks;

    $etcd->put($mark, $other->address);
    wait_for { Upstream->new($nginx, 'one')->members->{$mark} } 10, $mark;
}


# Tests which key shows, beside the marks.

sub shows {
    my ($nginx, $name) = @_;

    reads($nginx);

    my $shown = Upstream->new($nginx, 'one')->members;

    is(join(' ', grep { !m{^/one/-} } keys %$shown), $last, $name);
}


my $nginx = nginx();

reads($nginx);

# not in the order of their names

$etcd->txn(map { [put => sprintf('/one/%03d', $_), $address] }
               reverse(1 .. KEYS / 2), reverse(KEYS / 2 + 1 .. KEYS));

shows($nginx, 'a watch has told of them');

my $listed = nginx();

shows($listed, 'another nginx lists them');

$nginx->set(ZONE => '3m');
ok($nginx->reload($config), 'reloaded with another zone');
shows($nginx, 'the same one shows');

$nginx->set(WEIGHT => 3);
ok($nginx->reload($config), 'reloaded with another weight');
shows($nginx, 'the same one shows');

$nginx->set(WEIGHT => 2, ZONE => '4m');
ok($nginx->reload($config), 'reloaded with another weight and zone');
shows($nginx, 'the same one shows');

$nginx->set(ZONE => '2m');
ok($nginx->reload($config), 'reloaded with another zone');
shows($nginx, 'the same one shows');

$nginx->kill_worker($nginx->status->{agent}{pid});
shows($nginx, 'after the agent was killed');

$nginx->stop;
$nginx->start($config);
shows($nginx, 'after a start with the state file');

# of two that are left the last one by name, whoever was shown before

$etcd->txn(map { [del => sprintf('/one/%03d', $_)] } 3 .. KEYS);
$last = '/one/002';
shows($nginx, 'the others are deleted');
shows($listed, 'where they were listed, too');

$nginx->stop;
$listed->stop;

finish();
