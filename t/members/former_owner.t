#!/usr/bin/perl

# An agent that stops in the middle of its work, and goes on when another worker
# is the agent and has removed what it was working on: it neither reads nor
# writes memory that is not its own any more.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use POSIX qw(uname);
use Test::More;

use Backend;
use Dns;
use Etcd;
use Finish;
use Nginx;
use Process;
use Unit;
use Wait;

use constant {
    MEMBERS => 70,              # more than a page of slots has
    RELOADS => 8,
    RTMIN   => POSIX::SIGRTMIN(),
};

my $machine = (uname())[4];

plan(skip_all => "breakpoints are made for x86_64, not for $machine")
    if $machine ne 'x86_64';

my $etcd = Etcd->new()->start();
my $dns = Dns->start();
my ($backend) = Backend->start('backend');
my $stop = build_unit('ngx_etcd_unit_stop_module');

my $nginx = Nginx->new(etcd => $etcd, first => $stop)->set(
    DNS => $dns->address,
);

my $function = $nginx->write_file('function', '');

my $config = <<'CONF';

worker_processes 2;
etcd_stop %%DIR%%/function;

etcd {
    endpoints %%ETCD%%;
    zone 4m;
    resolver %%DNS%% valid=1s ipv6=off;
}

http {
    upstream api {
        etcd_members /s/$arg_s/;
        etcd_check tcp interval=500ms timeout=200ms;
        etcd_eject errors=50% window=1s;
        etcd_guard keep=50% hold=1s;
    }

    etcd_set $value /values/$arg_k default=none;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location /value {
            return 200 $value;
        }

        location /status {
            etcd_status;
        }
    }
}

CONF

my $n = 0;


# A set with many members, one of which works, and one by its name.

sub register {
    my ($set, $name) = @_;

    $n++;

    for my $i (1 .. MEMBERS) {
        my $address = '127.0.0.1:' . (20000 + $i);

        $etcd->put("/s/$set/$i",
                   qq({"address": "$address", "name": "$name$n"}));
    }

    $etcd->put("/s/$set/host", '{"address": "members.test:80"}');
}


sub is_agent { $nginx->count_log(qr/ $_[0]#\d+: .*this worker is the agent/) }
sub has_left { $nginx->count_log(qr/ $_[0]#\d+: .*is not the agent any more/) }


# The worker that is the agent, and another one.

sub workers {
    my $agent = wait_for { ($nginx->status // {})->{agent}{pid} } 20, 'agent';

    return ($agent, grep { $_ != $agent } $nginx->workers);
}


# A set answers, and has no members of another one.

sub answers {
    my ($set) = @_;

    return wait_for {
        ($nginx->get("/?s=$set")->{body} // '') eq 'backend';
    } 20, "$set to answer";
}


sub use_again {
    register('new', 'z' x 90);
    $etcd->put("/s/$_/1", $backend->address) for qw(new stays);
    $etcd->put("/values/$_", 'new' x 30) for 1 .. 20;

    ok(answers('new'), 'the memory is used again');
}


# Stops the agent where it calls the function.  Meanwhile its successor removes
# the set that it was working on, and uses the memory again, unless the set is
# to be empty.

sub stop_in {
    my ($name, $cause, $empty) = @_;

    $etcd->put('/s/stays/1', $backend->address);
    register('goes', 'x');
    ok(answers('stays'), "$name: the sets are there") or return;

    my ($agent, $other) = workers();
    my ($is, $left) = (is_agent($other), has_left($agent));

    $nginx->write_file('function', $name);
    kill(RTMIN, $agent);

    my $stopped = wait_for {
        $cause->() if $cause;
        stands_still($agent);
    } 30, "$agent to stop";

    ok($stopped, "$name: the agent stops there") or return;
    ok(wait_for(sub { is_agent($other) > $is }, 20, 'another agent'),
       "$name: another worker is the agent");

    $etcd->del_prefix('/s/');
    $etcd->del_prefix('/values/');

    wait_for { $nginx->get('/?s=goes')->{status} == 404 } 30, 'the set to go';

    use_again() if !$empty;

    $nginx->thaw($agent);

    ok(wait_for(sub { has_left($agent) > $left || !is_running($agent) }, 20,
                "$agent to leave"), "$name: the former agent goes on");
    is($nginx->count_log(qr/ $agent exited on signal/), 0, "$name: and lives");

    use_again() if $empty;
    $etcd->put('/values/1', $name);
    ok(answers('new') && answers('stays'), "$name: the sets are right");

    my $right = wait_for {
        ($nginx->get('/value?k=1')->{body} // '') eq $name;
    } 20, 'the value';

    ok($right, "$name: the values are right");

    $etcd->del_prefix('/s/');
}


$dns->set('members.test' => ['127.0.0.2']);
$nginx->start($config);

my $calls = 0;
my $change = sub { $etcd->put('/s/goes/' . $calls++ % MEMBERS,
                              '{"address": "127.0.0.1:1", "name": "'
                              . 'y' x ($calls % 90) . '"}') };

# None of these is called under the mutex: that would stop the other worker.

stop_in('ngx_etcd_check_slots_update', undef, 1);
stop_in('ngx_etcd_check_slots_update');
stop_in('ngx_etcd_eject_step');
stop_in('ngx_etcd_member_diff_members', $change);
stop_in('ngx_etcd_entry_create', $change);
stop_in('ngx_etcd_commit', $change);
stop_in('ngx_etcd_guard_holds', sub { $etcd->del('/s/goes/' . $calls++) });
stop_in('ngx_etcd_value_change_copy',
        sub { $etcd->put('/values/1', $calls++) });
stop_in('ngx_etcd_set_map_count', sub { $etcd->put('/s/' . ++$calls . '/1',
                                                   $backend->address) });
stop_in('ngx_etcd_member_diff_member', sub {
    $dns->set('members.test' => ['127.0.0.' . (2 + $calls++ % 200)]);
});


# Each reload has another agent at once, while the former one looks names up and
# registers what they say.

$etcd->put('/s/stays/1', $backend->address);
register('goes', 'z');
ok(answers('stays'), 'reload: the sets are there');

for my $i (1 .. RELOADS) {
    $etcd->put("/s/goes/host$_", qq({"address": "members.test:$_"}))
        for 1 .. 10;

    $dns->set('members.test' => ["127.0.0.$i"]);
    $nginx->reload;
    $etcd->del_prefix('/s/goes/');
    register('goes', 'z' x $i);
}

ok(answers('stays'), 'reload: the set is right');

$nginx->check;
finish();
