#!/usr/bin/perl

# An nginx campaigns: gates and variables, and the leadership when processes
# end, leases and keys are lost, and etcd is away.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Election;
use Etcd;
use Finish;
use Nginx;
use Stall;
use Wait;

# The TTL of a lease that tests wait for, and of a lease that no test waits for:
# if that one is gone, it was given up.

use constant {
    TTL     => 6,
    LONG    => 600,
    STALLED => 1,               # a stall of so many seconds may lose a lease
};

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my $election = Election->new($etcd, '/elections/ingress');

my $config = <<'EOF_CONFIG';

worker_processes 3;

etcd {
    endpoints %%ETCD%%;
    election ingress /elections/ingress value=%%VALUE%% ttl=%%TTL%%s;
    zone %%ZONE%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            add_header X-Pid $pid;
            return 200 "$etcd_leader_ingress:$etcd_is_leader_ingress";
        }

        location /status {
            etcd_status;
        }

        location /only/ {
            etcd_require_leader ingress;
            alias %%DIR%%/;
        }

        location /slow/ {
            alias %%DIR%%/;
            limit_rate 1k;
        }
    }
}

EOF_CONFIG

my $nginx = Nginx->new(etcd => $etcd);
my $leader;

$nginx->set(VALUE => 'one', TTL => TTL, ZONE => '1m');
$nginx->write_file('file', "gated\n");
$nginx->write_file('large', 'x' x 655360);
$nginx->start($config);


sub gate { $nginx->get('/only/file')->{status} }
sub agent { ($nginx->status // {})->{agent}{pid} }

# the lease and key of the leader

sub leader_now {
    return join(' ', map { $_ // '' } @{ $election->leader // {} }
                                      {qw(key create_revision lease)});
}

sub same {
    my ($was, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is(leader_now(), join(' ', @$was{qw(key create_revision lease)}),
              $name);
}

# For so long all workers give the same answer, and the key is the same.  The
# lease is lost if the machine stands still when it is to be renewed: the test
# tries again then.

sub leads_on {
    my ($wanted, $seconds, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $again;

    return ok($stall->again(STALLED, sub {
        if ($again++) {
            diag("$name: again, the machine stood still");
            wait_for { $nginx->says eq $wanted } 20, 'it leads' or return;
            $leader = $election->leader;
        }

        my $end = time() + $seconds;
        my %seen;

        while (time() < $end) {
            $seen{$nginx->says . ' ' . leader_now()}++;
            sleep(0.01);
        }

        my ($seen, @others) = keys %seen;

        return !@others && $seen eq join(' ', $wanted,
            @$leader{qw(key create_revision lease)});
    }), "$name, with one key");
}


$nginx->comes_to_say('one:1', 'it leads');
is(gate(), 200, 'its gate is open');

$leader = $election->leader;

like($leader->{key}, qr{^/elections/ingress/[1-9a-f][0-9a-f]*$}, 'its key');
is($leader->{key}, sprintf('/elections/ingress/%x', $leader->{lease}),
   'of its lease');

my $view = Election->view($nginx, 'ingress');
my $remaining = delete $view->{remaining_ms};

is_deeply($view, { prefix => '/elections/ingress', leader => 'one',
                   leader_key => $leader->{key},
                   revision => $leader->{create_revision},
                   is_leader => JSON::PP::true }, 'status');
ok($remaining > 0 && $remaining <= TTL * 1000, 'and what is left of its lease');

$nginx->logs(qr/election "ingress": this nginx leads/, 1, 'and said so once');

leads_on('one:1', TTL + 1, 'longer than the TTL');

# processes

my $killed = agent();

$nginx->kill_worker($killed);
leads_on('one:1', 1.5, 'the agent is killed: it leads on');
ok(wait_for(sub { (agent() // 0) != $killed }, 5), 'another agent');
leads_on('one:1', TTL + 1, 'and renews');

ok($nginx->reload(undef, gone => 1), 'a reload');
leads_on('one:1', TTL + 1, 'it leads on');

$nginx->set(VALUE => 'two');
ok($nginx->reload($config, gone => 1), 'a reload with another value');
$nginx->comes_to_say('two:1', 'is proclaimed');
same($leader, 'under the same key');

$nginx->set(ZONE => '2m');
ok($nginx->reload($config, gone => 1), 'a reload with another zone');
leads_on('two:1', TTL + 1, 'it leads on');

# lease and key

$etcd->revoke($leader->{lease});
ok(wait_for(sub {
       ($election->leader // return)->{lease} != $leader->{lease}
   }, 10), 'the lease is revoked: it campaigns with another one');
$nginx->comes_to_say('two:1', 'and leads again');

$leader = $election->leader;
$etcd->del($leader->{key});
ok(wait_for(sub {
       ($election->leader // return)->{lease} != $leader->{lease}
   }, 10), 'the key is deleted: it campaigns with another lease');
$nginx->comes_to_say('two:1', 'and leads again');
is(scalar(my @all = $election->candidates), 1, 'nothing is left of others');

# all processes stand still for longer than the TTL

$leader = $election->leader;
my @workers = $nginx->workers;
my $agent = agent();

# Kept connections to the workers that are not the agent: these know only the
# agent's last state, and the time.  (The event loop looks at timers first when
# it goes on, so that the lease has been given up by then, most likely.)

my @asked;

while (@asked < 4) {
    my $http = $nginx->http;
    my $answer = $http->get('/');

    push @asked, $http if $answer->{headers}{'x-pid'} != $agent;
}

$nginx->freeze($_) for @workers;
ok(wait_for(sub { !grep { $_->{lease} == $leader->{lease} }
                       $election->candidates }, TTL * 4),
   'stopped: etcd gives up the lease');

$_->send('GET', '/') for @asked;
$nginx->thaw($_) for grep { $_ != $agent } @workers;

my @first = map { ($_->receive // {})->{body} // '' } @asked;

is(scalar(grep { /:1$/ } @first), 0, 'the first answers after that say no')
    or diag("@first");
$nginx->thaw($agent);
$nginx->comes_to_say('two:1', 'and it wins again', 20);

# Without etcd, the last request that was let in had been sent in time.

$leader = $election->leader;
$etcd->kill();

my $stopped = time();
my $let_in = $stopped;

is($nginx->says(), 'two:1', 'etcd is away: the lease holds on');
ok(wait_for(sub {
       my $asked = time();

       gate() == 503 or return !($let_in = $asked);
   }, TTL * 2), 'up to its end');
cmp_ok($let_in - $stopped, '<=', TTL, 'not longer than the TTL');
is($nginx->says() =~ /:1$/, '', 'and so do variables');
$etcd->start();
$nginx->comes_to_say('two:1', 'etcd is back: it leads again', 20);

# The end.  nginx tells etcd, and waits only a moment for the answer: if etcd
# gave none because the machine stood still, the test tries again.

my $slow = $nginx->http;

sub resigns {
    my ($end, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    for my $attempt (1 .. 10) {
        $nginx->start($config);
        $nginx->comes_to_say('two:1', 'started again');
        $leader = $election->leader;

        my $began = time();

        $end->();

        my $resigned = wait_for { !$election->candidates
            && !grep { $_ == $leader->{lease} } $etcd->leases } 10, $name;

        if ($resigned || !$stall->since($began)) {
            return ok($resigned, "$name: resigned at once, and the lease is "
                                 . 'revoked');
        }

        diag("$name: again, the machine stood still");
        $etcd->revoke($leader->{lease});
        $slow->close;
        $nginx->quit();
    }

    return fail("$name: the machine does not stand still all the time");
}

$nginx->stop();
$nginx->set(TTL => LONG);

resigns(sub {
    $slow = $nginx->http;
    $slow->send('GET', '/slow/large');
    ok($slow->take_until("\r\n\r\n"), 'a long request');
    kill('QUIT', $nginx->pid);
}, 'QUIT');
ok($nginx->children, 'while requests are served');
$slow->close;
$nginx->quit();

resigns(sub { $nginx->stop() }, 'TERM');

$nginx->set(TTL => TTL);
$nginx->start($config);
$nginx->comes_to_say('two:1', 'started again');
$nginx->crash();
ok($election->leader, 'all are killed: the key stays');
$nginx->set(TTL => LONG);
$nginx->start($config);
$nginx->comes_to_say('two:1', 'and costs the TTL', TTL * 4);

# without the election

(my $without = $config) =~ s/^.*(?:_ingress|election|require_leader).*\n//mg;

ok($nginx->reload($without, gone => 1), 'a reload without the election');
ok(wait_for(sub { !$election->candidates }, 10), 'resigned');

ok($nginx->reload($config, gone => 1), 'a reload with it');
$nginx->comes_to_say('two:1', 'it leads again');

finish();
