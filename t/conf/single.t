#!/usr/bin/perl

# One process for all: "master_process off".

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Process;
use State;
use Wait;


my $etcd = Etcd->new()->start();
my @backends = Backend->start(2);

$etcd->put('/services/api/0', $backends[0]->address);

my $nginx = Nginx->new(etcd => $etcd);

# nginx has no workers then: start() would wait for them.

$nginx->write_config(<<'EOF');

master_process off;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

http {
    upstream api {
        etcd_members /services/api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

Finish::later($nginx);

my ($status, $output) = $nginx->run_nginx($nginx->command('error.log'));

is($status, 0, 'nginx starts') or diag($output);

ok(wait_for(sub { $nginx->{pid} = $nginx->read_pid() }, 10), 'it has a pid');
ok(wait_for(sub { $nginx->get('/')->{status} == 200 }, 10), 'it serves');

is($nginx->status->{agent}{pid}, $nginx->pid, 'it is the agent itself');

$etcd->put('/services/api/1', $backends[1]->address);
ok(wait_for(sub { $nginx->get('/')->{body} eq $backends[1]->name }, 10),
   'it follows etcd');

$etcd->del('/services/api/0');
ok(wait_for(sub { @{ $nginx->status->{upstreams}{api}{members} } == 1 }, 10),
   'a removal too');

my $file = $nginx->dir . '/state/default.state';

sub keys_of_state { return join(' ', map { $_->{key} } state_members($file)) }

ok(wait_for(sub { keys_of_state() eq '/services/api/1' }, 10),
   'it keeps its state');

# After a reload such an nginx accepts no connection (any nginx, also without
# the modules): it must live, and end as it is told.

kill('HUP', $nginx->pid);
ok(wait_for(sub { $nginx->count_log(qr/reconfiguring/) == 2 }, 10), 'reloaded');

$etcd->put('/services/api/0', $backends[0]->address);
ok(wait_for(sub { keys_of_state() =~ m{/services/api/0} }, 10),
   'it still keeps its state');
ok($nginx->quit(), 'it quits when told to');

is($nginx->count_log(qr/exited on signal|open socket/), 0, 'in good order');

finish();
