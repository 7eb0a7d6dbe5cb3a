#!/usr/bin/perl

# An endpoint that belongs to another cluster of etcd is a failed endpoint: it
# is named once, with both ids, and no call but the one for its id reaches it.
# If no cluster is known, that of most endpoints is used.  The cluster in use is
# left only when none of its endpoints answers for request_timeout, and not at
# all if "cluster_id" names it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Line;
use Nginx;
use Wait;

my $backend = Backend->start('one');
my $line = Line->start('one');

my $has_stream = Nginx::has('stream');

# Three members would be one cluster: here are a cluster of one and another one,
# and two addresses of the first.

my $ours = Etcd->new();

$ours->{args} = ['--initial-cluster-token', 'ours', '--listen-client-urls',
                 $ours->url . ',' . alias($ours)];
$ours->start();

my $other = Etcd->new(args => ['--initial-cluster-token', 'other'])->start();

sub id { $_[0]->call('maintenance/status', {})->{header}{cluster_id} }
sub hex_id { sprintf('%x', id($_[0])) }


# another URL of the same etcd

sub alias { $_[0]->url =~ s/127\.0\.0\.1/127.0.0.2/r }

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ENDPOINTS%%;
    %%PIN%%
    state_path %%DIR%%/state;
    connect_timeout %%CONNECT%%;
    request_timeout %%TIMEOUT%%;
    rebalance 1s;
    lock_ttl 5s;
    election ingress /elections/ingress value=here ttl=5s;
    register /registered/here value=127.0.0.1:1 ttl=5s;
}

http {
    upstream s {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location = /leads {
            return 200 "$etcd_is_leader_ingress";
        }

        location = /to/s {
            proxy_pass http://s;
        }

        location = /lock {
            etcd_lock /locks/http $arg_name wait=10s;
            proxy_pass http://%%ONE%%;
        }
    }
}

EOC

my $stream = <<'EOC';
stream {
    server {
        listen 127.0.0.1:%%PORT_line%%;
        etcd_lock /locks/stream wait=10s;
        proxy_pass %%LINE%%;
    }
}
EOC

$config .= $stream if $has_stream;


sub nginx {
    my ($endpoints, $pin) = @_;

    return Nginx->new()->set(ENDPOINTS => $endpoints, PIN => $pin // '',
                             ONE => $backend->address, TIMEOUT => '2s',
                             CONNECT => '1s',
                             LINE => $line->address);
}


sub foreign {
    my ($nginx, $etcd) = @_;

    return $nginx->count_log(qr/\[error\].*another cluster \(cluster id ${\
        hex_id($etcd)}, not /);
}


# calls that an etcd has answered, but for those that ask for its cluster

sub calls {
    my ($etcd) = @_;

    my $n = 0;

    for (split(/\n/, $etcd->{http}->get('/metrics')->{body})) {
        $n += $1
            if /^grpc_server_started_total\{.*etcdserverpb.*\} (\S+)/
               && !/"(?:Watch|Status)"/ && /\} (\S+)/;
    }

    return $n;
}


# connections to an etcd: each of them asks for the cluster, by a watch

sub connections {
    my ($etcd) = @_;

    my $n = 0;

    for (split(/\n/, $etcd->{http}->get('/metrics')->{body})) {
        $n += $1 if /^grpc_server_started_total\{.*"Watch".*\} (\S+)/;
    }

    return $n;
}


# lets it work for a while: so many locks of requests and of sessions, one after
# another; returns how many were not granted

sub work {
    my ($nginx, $n) = @_;

    my $failed = 0;

    for (1 .. $n) {
        $failed++ if $nginx->get("/lock?name=$_")->{status} != 200;

        next if !$has_stream;

        my $client = $nginx->line('line');

        $failed++ if ($client->ask('a') // '') ne 'one: a';
        $client->close;
    }

    return $failed;
}

$_->put('/s/1', $backend->address) for $ours, $other;


# The first start: the majority decides, wherever the foreign one stands.  All
# are heard, also on a busy machine.

my @patient = (CONNECT => '20s', TIMEOUT => '20s');

for my $order (0, 1) {
    my @urls = ($ours->url, alias($ours));

    splice(@urls, $order, 0, $other->url);

    my ($before, $connected, $start) = (calls($other), connections($other),
                                        time);
    my $nginx = nginx(join(' ', @urls))->set(@patient)->start($config);

    wait_for { $nginx->leads } 20, 'the leadership';
    is(work($nginx, 40), 0, "place $order: all locks are granted");
    is(hex_id($ours), $nginx->cluster->{cluster_id}, 'in our cluster');
    wait_for { foreign($nginx, $other) } 20, 'the error';
    is(foreign($nginx, $other), 1, 'one error names the other one');
    $nginx->logs(qr/cluster id ${\ hex_id($ours)} is used: 2 of 3/, 1,
                 'the majority is named');

    # another agent, a reload, a restart: nothing more is said

    $nginx->kill_worker($nginx->status->{agent}{pid});
    wait_for { ($nginx->status // {})->{agent} } 20, 'the next agent';
    is(work($nginx, 20), 0, 'locks with another agent');
    $nginx->reload(undef, gone => 1);
    is(work($nginx, 20), 0, 'locks after a reload');
    is(foreign($nginx, $other), 1, 'still one error');

    is(calls($other), $before, 'the other one had no call');

    # "rebalance" lets each client of three look for its home once a second,
    # and a client that starts may try each endpoint

    my $n = connections($other) - $connected;

    cmp_ok($n, '>', 0, 'it was asked for its cluster');
    cmp_ok($n, '<', 50 + 10 * (time - $start), 'but not all the time');
    is($other->count('/locks/'), 0, 'and has no locks');
    is($other->count('/elections/'), 0, 'no candidates');
    is($other->count('/registered/'), 0, 'no registrations');
    is($nginx->count_log(qr/another history/), 0, 'nothing was taken over');

    $nginx->quit();
}


# If two have as many endpoints, the first one decides.

my $nginx = nginx($other->url . ' ' . $ours->url)->set(@patient)
            ->start($config);

wait_for { $nginx->leads } 20, 'the leadership';
is($nginx->cluster->{cluster_id}, hex_id($other), 'the first one decides');
$nginx->quit();


# "cluster_id" decides, as every tool prints it

for my $id (id($ours), hex_id($ours), '0x' . uc(hex_id($ours))) {
    $nginx = nginx($other->url . ' ' . $ours->url, "cluster_id $id;")
             ->start($config);
    wait_for { $nginx->leads } 20, 'the leadership';
    is($nginx->cluster->{cluster_id}, hex_id($ours), "cluster_id $id");
    $nginx->quit();
}

$nginx = nginx($other->url . ' ' . $ours->url, 'cluster_id ' . id($ours) . ';')
         ->start($config);
wait_for { $nginx->leads } 20, 'the leadership';
$ours->freeze();
wait_for { !$nginx->leads } 20, 'the end of the lease';
is($nginx->get('/lock?name=x')->{status}, 503, 'no lock is granted');
is($other->count('/locks/'), 0, 'not in the other cluster');
is($nginx->count_log(qr/another history/), 0, 'it is not left');
$ours->thaw();
wait_for { $nginx->leads } 20, 'it answers again';
is(work($nginx, 4), 0, 'and grants locks');
$nginx->quit();


# While the known one restarts, nothing goes on in the other one.

$nginx = nginx($ours->url . ' ' . alias($ours) . ' ' . $other->url)
         ->set(TIMEOUT => '60s')->start($config);
wait_for { $nginx->leads } 20, 'the leadership';
is(work($nginx, 4), 0, 'locks');
$ours->stop();
wait_for { !$nginx->leads } 30, 'the end of the lease';
$ours->start();
wait_for { $nginx->leads } 60, 'it answers again';
is($nginx->cluster->{cluster_id}, hex_id($ours), 'it leads in our cluster');
is(work($nginx, 4), 0, 'locks again');
is($other->count('/locks/') + $other->count('/elections/')
   + $other->count('/registered/'), 0, 'nothing in the other one');
is($nginx->count_log(qr/another history/), 0, 'it was not left');
$nginx->quit();


# Without "cluster_id", a restart with the state file keeps the cluster though
# another endpoint is the first, and the others answer.

$nginx = nginx($ours->url)->start($config);
wait_for { $nginx->leads } 20, 'the leadership';
wait_for { -s $nginx->dir . '/state/default.state' } 20, 'the state file';
$nginx->quit();
$nginx->set(ENDPOINTS => $other->url . ' ' . $ours->url)->start($config);
wait_for { $nginx->leads } 20, 'the leadership';
is($nginx->cluster->{cluster_id}, hex_id($ours), 'the state file decides');


# None of the endpoints answers any more: the other cluster is taken over, once,
# by all workers.

$ours->freeze();
wait_for { $nginx->count_log(qr/another history: another cluster/) } 60,
    'the takeover';
is(work($nginx, 20), 0, 'locks in the other cluster');
wait_for { $nginx->leads } 20, 'the leadership there';
is($nginx->cluster->{cluster_id}, hex_id($other), 'its id');
$nginx->logs(qr/\[warn\].*another history: another cluster/, 1,
             'it is said once');
$ours->thaw();

# A worker asks it if it is its home; each draws its own.

for (1 .. 50) {
    last if wait_for { foreign($nginx, $ours) } 2;
    $nginx->reload;
}

is(work($nginx, 20), 0, 'locks are still granted');
is($nginx->cluster->{cluster_id}, hex_id($other), 'no way back');
is(foreign($nginx, $ours), 1, 'one error');


# a configuration with other endpoints

$nginx->set(ENDPOINTS => $ours->url)->reload($config);
wait_for { $nginx->cluster->{cluster_id} eq hex_id($ours) } 60,
    'the endpoints of a reload';
wait_for { $nginx->leads } 20, 'the leadership there';
is(work($nginx, 4), 0, 'locks there');

finish();
