#!/usr/bin/perl

# "etcd_check": the agent checks members, and every worker keeps requests off
# those that fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d));
my ($one, $two, $three, $four) = @backends;

# the port of another process, for "port="

my $health = Backend->start('health');

for my $prefix (qw(tcp http kept other tcps sets/x sets/y)) {
    $etcd->put("/$prefix/$_->{name}", $_->address) for @backends;
}

my $configuration = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    zone %%ZONE%%;
}

http {
    upstream tcp {
        etcd_members /tcp/ max_fails=0;
        etcd_check tcp interval=300ms timeout=300ms %%CHECK%%;
    }

    upstream http {
        etcd_members /http/ max_fails=0;
        etcd_check http uri=/health?a=b match=~^[a-d]$ "header=X-Check: a b"
                        host=api.test interval=300ms timeout=300ms rises=1
                        panic=0;
        server 127.0.0.1:%%PORT_STATIC%%;
    }

    upstream kept {
        etcd_members /kept/ max_fails=0;
        %%KEPT%%
    }

    upstream other {
        etcd_members /other/ max_fails=0;
        etcd_check http port=%%HEALTH%% interval=300ms timeout=300ms panic=0;
    }

    upstream sets {
        etcd_members /sets/$arg_set/ max_fails=0 idle=1s;
        etcd_check http interval=300ms timeout=300ms;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /tcp   { proxy_pass http://tcp; }
        location /http  { proxy_pass http://http; }
        location /kept  { proxy_pass http://kept; }
        location /other { proxy_pass http://other; }
        location /sets  { proxy_pass http://sets; }

        location /metrics { etcd_status prometheus members=on; }
        location /status { etcd_status; }
    }

    server {
        listen 127.0.0.1:%%PORT_STATIC%%;
        return 200 a;
    }
}

stream {
    upstream tcps {
        etcd_members /tcps/ max_fails=0;
        etcd_check http interval=300ms timeout=300ms;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%% reuseport;
        proxy_pass tcps;
    }
}

EOC

my $kept = 'etcd_check http interval=300ms timeout=300ms fails=2 rises=2;';
my $nginx = Nginx->new(etcd => $etcd)
    ->set(CHECK => '', KEPT => $kept, ZONE => '4m', HEALTH => $health->port)
    ->start($configuration);


sub member {
    my ($upstream, $backend, $module) = @_;

    return Upstream->new($nginx, $upstream, $module)
        ->member($backend->address) // {};
}
sub shown { Upstream->new($nginx, @_)->status }

sub becomes {
    my ($upstream, $backend, $state, $module) = @_;

    return wait_for {
        (member($upstream, $backend, $module)->{state} // '') eq $state
    } 20, "$upstream: $backend->{name} is $state";
}

# the names of backends that answer, over all workers

sub answering {
    my ($path) = @_;

    return join(' ', sort keys %{ $nginx->tally($path, 48) });
}

sub metric {
    my ($name) = @_;

    return $nginx->get('/metrics')->{body} =~ /^\Q$name\E (\S+)$/m ? $1 : '';
}


for my $upstream (qw(tcp http kept other)) {
    wait_for { (member($upstream, $_)->{check} // '') eq 'ok' } 20,
        "$upstream: a check of $_->{name}" for @backends;
    is(answering("/$upstream"), 'a b c d', "$upstream: all are asked");
}

# by TCP

$one->down;
becomes('tcp', $one, 'unhealthy');

is(answering('/tcp'), 'b c d', 'a member that refuses connections');

my $shown = member('tcp', $one);

is($shown->{check}, 'connect', 'the result');
cmp_ok($shown->{check_row}, '>=', 3, 'how often');
cmp_ok($shown->{check_for}, '<', 20, 'for how long');
ok(exists($shown->{check_us}), 'how long it took');

like($nginx->error_log,
     qr/has failed, 3 in a row: connect, connect\(\) failed \(111/,
     'reported with the reason');

my $address = $one->address;
my $labels = qq({cluster="default",module="http",upstream="tcp");

is(metric("nginx_etcd_member_check_up$labels,address=\"$address\","
          . 'key="/tcp/a"}'), 0, 'a metric');
cmp_ok(metric("nginx_etcd_upstream_checks_total$labels}"), '>', 4, 'checks');
cmp_ok(metric("nginx_etcd_upstream_check_failures_total$labels}"), '>', 2,
       'failures');
is(metric("nginx_etcd_upstream_panic$labels}"), 0, 'no panic');

$one->up;
becomes('tcp', $one, 'up');

is(answering('/tcp'), 'a b c d', 'the member is back');
$nginx->logs(qr/"tcp": the check of member \Q$address\E has failed/, 1,
             'its failure is reported once');
$nginx->logs(qr/"tcp": the check of member \Q$address\E succeeds/, 1,
             'its success, too');

# by HTTP: what it asks, a status, a body, an answer that comes too late

becomes('http', $one, 'up');
$one->set(status => 404);
becomes('http', $one, 'unhealthy');

is(member('http', $one)->{check}, 'status 404', 'a status');

$two->set(body => 'bb');
becomes('http', $two, 'unhealthy');
is(member('http', $two)->{check}, 'body', 'a body');

$three->set(delay => 10);
becomes('http', $three, 'unhealthy');
is(member('http', $three)->{check}, 'timeout', 'an answer of 10 s');

my %asked = %{ $nginx->tally('/http', 24) };

is_deeply([sort grep { $_ ne '' } keys %asked], ['a', 'd'],
          'two are left, of which one is a static server');

$four->set(body => 'no');
becomes('http', $four, 'unhealthy');
is(answering('/http'), 'a', 'the static server is checked and used');

$_->set(status => 200, delay => 0) for @backends;
$_->set(body => $_->{name}) for @backends;
becomes('http', $_, 'up') for @backends;

# another port

$health->set(status => 503);
becomes('other', $one, 'unhealthy');
is(member('other', $one)->{check}, 'status 503', 'port=');
$health->set(status => 200);
becomes('other', $one, 'up');

# panic: three of four fail

$_->set(status => 500) for $one, $two, $three;
becomes('kept', $_, 'unhealthy') for $one, $two, $three;

wait_for { shown('kept')->{panic} } 10, 'the panic';

cmp_ok($nginx->tally('/kept', 48)->{500} // 0, '>=', 34,
       'panic: all are asked, of which three of four fail');
$nginx->logs(qr/"kept": panic, since checks of [23] of 4 members/, 1,
             'it is reported once');

# a member that is down gets nothing, one that drains no new request

$etcd->put('/kept/c', sprintf('{"address":"%s","down":true}', $three->address));
becomes('kept', $three, 'down');
cmp_ok($nginx->tally('/kept', 48)->{500} // 0, '<', 34,
       'panic: not who is down');
$etcd->put('/kept/c', $three->address);

# with half of them the panic ends

$three->set(status => 200);
becomes('kept', $three, 'up');
wait_for { !shown('kept')->{panic} } 10, 'the end of the panic';

is(answering('/kept'), 'c d', 'no panic');
$nginx->logs(qr/"kept": no panic any more/, 1, 'its end is reported once');

# A reload, another zone, and the death of the agent keep the results: only $one
# fails the first check then.

my $failures = sub {
    $nginx->count_log(qr/"kept": the check of member \S+ has failed/)
};
my $before = $failures->();

$nginx->reload(undef, gone => 1);
is(answering('/kept'), 'c d', 'after a reload');

$nginx->set(ZONE => '5m')->reload($configuration, gone => 1);
is(answering('/kept'), 'c d', 'after a reload with another zone');

for (1 .. 3) {
    my $agent = $nginx->status->{agent}{pid};

    $nginx->kill_worker($agent);
    wait_for { $nginx->status->{agent}{pid} != $agent } 20, 'another agent';
    is(answering('/kept'), 'c d', 'an agent is killed');
}

is($failures->(), $before, 'nobody has failed anew');

my $row = member('kept', $two)->{check_row};
wait_for { member('kept', $two)->{check_row} > $row } 20, 'further checks';

$_->set(status => 200) for @backends;
becomes('kept', $_, 'up') for @backends;
is(answering('/kept'), 'a b c d', 'the agent that took over checks');

# Without the directive all members are used.

$one->set(status => 500);
becomes('kept', $one, 'unhealthy');
$nginx->set(KEPT => '')->reload($configuration, gone => 1);
wait_for { answering('/kept') =~ /500/ } 10, 'a';
is(member('kept', $one)->{state}, 'up', 'a reload without the directive');

# a stream

becomes('tcps', $one, 'unhealthy', 'stream');

my %sessions;

$sessions{Http->new($nginx->port('PORT_TCP'))->get('/')->{body}}++ for 1 .. 24;
is(join(' ', sort keys %sessions), 'b c d', 'stream');

# sets are checked while they are used

ok(!member_of_set('x'), 'a set that nobody uses is not checked');
is(keys %{ $nginx->tally('/sets?set=x', 8) } > 0, 1, 'a set is used');
ok(wait_for(sub { $nginx->get('/sets?set=x');
                  member_of_set('x') eq 'status 500' }, 20),
   'then it is checked');
ok(!member_of_set('y'), 'another one is not');
wait_for {
    !grep { $_ eq 'a' } keys %{ $nginx->tally('/sets?set=x', 24) }
} 20, 'a failure in a set';
pass('a member of a set that fails is left out');

# a member that comes again, at the same address

becomes('tcp', $one, 'up');
$one->down;
becomes('tcp', $one, 'unhealthy');
$etcd->del('/tcp/a');
wait_for { !%{ member('tcp', $one) } } 10, 'the member is gone';
$one->up;
$one->set(status => 200);
$etcd->put('/tcp/again', $one->address);
wait_for { (member('tcp', $one)->{check} // '') eq 'ok' } 10, 'the first check';
is(member('tcp', $one)->{check_row} < 5, 1, 'its results begin anew');

finish();


sub member_of_set {
    my ($set) = @_;

    my $status = $nginx->status("/status?upstream=sets&set=$set");
    my ($member) = grep { $_->{key} eq "/sets/$set/a" }
        @{ $status->{upstreams}{sets}{set}{members} // [] };

    return $member->{check} // '';
}
