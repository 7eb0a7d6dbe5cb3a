#!/usr/bin/perl

# etcd_status with ten thousand members: it is complete and valid however it is
# read, and one worker that answers it answers others meanwhile.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

use Etcd;
use Finish;
use Http;
use Metrics;
use Nginx;
use Process;
use Wait;

use constant {
    MEMBERS => 10_000,
    BATCH   => 100,              # members in a transaction
    BUFFER  => 4096,             # bytes, of a client that reads nothing
};

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);
my $v2 = Nginx::has('http_v2_module') && Nginx::version() < 1025001
         ? 'http2' : '';

$nginx->set(V2 => $v2)->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 32m;
}

http {
    upstream api {
        etcd_members /api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_1%% sndbuf=32k;
        send_timeout 600s;

        location /status {
            etcd_status;
        }

        location /slow {
            etcd_status;
            limit_rate 4m;
        }

        location /gone {
            etcd_status;
            send_timeout 1s;
        }

        location /gzip {
            etcd_status;
            gzip on;
            gzip_types application/json;
        }

        location /metrics {
            etcd_status prometheus members=on;
        }

        location /twice {
            default_type text/plain;
            ssi on;
            ssi_types text/plain;
            alias %%DIR%%/twice;
        }

        location /here {
            return 200 here;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_2%% %%V2%%;

        location /status {
            etcd_status;
        }
    }
}

EOF

$nginx->write_file('twice', '[<!--#include virtual="/status" -->,'
                            . '<!--#include virtual="/status" -->]');


sub key { sprintf('/api/%05d', $_[0]) }
sub address { sprintf('10.0.%d.%d:80', $_[0] / 250, $_[0] % 250 + 1) }


sub put_members {
    my ($from, $to) = @_;

    my $revision;

    while ($from < $to) {
        $revision = $etcd->txn(map { [put => key($_), address($_)] }
                               $from .. $from + BATCH - 1);
        $from += BATCH;
    }

    return $revision;
}


sub wait_seen {
    my ($revision) = @_;

    wait_for {
        $nginx->get('/status')->{body}
            =~ /"generation":\d+,"revision":$revision,/
    } 60, "revision $revision";
}


# JSON::PP takes seconds for such a text.

sub keys_of {
    my ($body) = @_;

    return $body =~ m{"key":"(/api/[^"]*)","address"}g;
}


sub is_whole {
    my ($body, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my %keys = map { $_ => 1 } keys_of($body);

    is(scalar(keys %keys), MEMBERS, "$name: all members");
    is(scalar(my @all = keys_of($body)), MEMBERS, 'each of them once');
    ok($body =~ /\A\{"version":.*"events":\[.*\]\}\n\z/s, 'to the end');
}


# Neither side's system takes more than a little of the answer.

sub ask {
    my ($path) = @_;

    my $socket = IO::Socket::INET->new(Proto => 'tcp') // die "socket: $!\n";

    $socket->setsockopt(SOL_SOCKET, SO_RCVBUF, BUFFER);
    $socket->connect($nginx->port('PORT_1'), Socket::inet_aton('127.0.0.1'))
        or die "connect: $!\n";

    print $socket "GET $path HTTP/1.0\r\nHost: x\r\n\r\n";

    return $socket;
}


# The worker has begun to answer.

sub wait_held {
    my ($socket) = @_;

    IO::Select->new($socket)->can_read(20) or die "no answer\n";
}


sub read_all {
    my ($socket) = @_;

    local $/;
    local $SIG{ALRM} = sub { die "the answer does not end\n" };

    $socket->setsockopt(SOL_SOCKET, SO_RCVBUF, 1024 * 1024);
    alarm(60 * ($ENV{TEST_SLOWER} || 1));
    my $answer = <$socket> // '';
    alarm(0);

    return $answer =~ s/\A.*?\r\n\r\n//sr;
}


# a process that sends other requests all the time, while the status is sent

sub start_asking {
    my $pid = fork() // die "fork: $!\n";

    $pid == 0 or return $pid;

    my $http = Http->new($nginx->port);

    while ($http->get('/here')->{status} == 200) {
        next;
    }

    POSIX::_exit(0);
}


sub descriptors {
    my ($pid) = $nginx->workers;

    return scalar(my @fds = glob("/proc/$pid/fd/*"));
}


wait_for { ($nginx->status // {})->{clusters}{default}{state} eq 'synced' }
    10, 'nginx';

my $before = descriptors();
my $small = $nginx->get('/status');

is($small->{headers}{'content-length'}, length($small->{body}),
   'a small status has a length');

my $revision = put_members(0, MEMBERS);

wait_seen($revision);

# the status in its original form

my $answer = $nginx->get('/status');

is($answer->{headers}{'transfer-encoding'}, 'chunked', 'a large one has none');
is($answer->{headers}{'cache-control'}, 'no-store', 'and is not kept');
is_whole($answer->{body}, 'all at once');

my $status = decode_json($answer->{body});

is(scalar(@{ $status->{upstreams}{api}{members} }), MEMBERS, 'it is JSON');
is_deeply([sort { $a cmp $b } map { "$_->{key} $_->{address}" }
           @{ $status->{upstreams}{api}{members} }],
          [map { key($_) . ' ' . address($_) } 0 .. MEMBERS - 1],
          'with the right members');

my $client = $nginx->http;

is_whole($client->get('/status')->{body}, 'a connection that is kept');
is($client->get('/here')->{body}, 'here', 'and used again');
is_whole($nginx->get('/slow')->{body}, 'limit_rate');

my ($failed, $text) = run('curl', '-s', '--compressed', '-D', '/dev/stderr',
                          'http://127.0.0.1:' . $nginx->port . '/gzip');

ok($text =~ /Content-Encoding: gzip/i, 'gzip');
is_whole($text =~ s/\A.*?\r\n\r\n//sr, 'gzip');

my $twice = $nginx->get('/twice')->{body};

is(scalar(my @both = keys_of($twice)), 2 * MEMBERS, 'two subrequests');
is(scalar(my @ends = $twice =~ /"events":\[[^\]]*\]\}\n/g), 2, 'both whole');
ok($twice =~ /\A\[\{"version".*\}\n,\{"version".*\}\n\]\z/s, 'in order');

# HTTP/2, if curl and nginx agree on its begin

my @command = ('curl', '-s', $v2 ? '--http2-prior-knowledge' : '--http1.1',
               'http://127.0.0.1:' . $nginx->port('PORT_2') . '/status');

($failed, $text) = run(@command);
is_whole($text, $v2 || 'another server');

# metrics of each member

my $metrics = Metrics->of($nginx, '/metrics');

is(scalar(my @weights = $metrics->values('nginx_etcd_member_weight')), MEMBERS,
   'as many metrics as members');
is($metrics->value('nginx_etcd_upstream_members', state => 'up'), MEMBERS,
   'which are counted');

# a worker that has other work, and several clients to answer

my @asking = map { start_asking() } 1 .. 2;
my @readers = map { ask('/status') } 1 .. 4;

is_whole(read_all($readers[$_ - 1]), "reader $_ beside others")
    for 1 .. @readers;

is(scalar(grep { waitpid($_, POSIX::WNOHANG()) == 0 } @asking), 2,
   'who were answered all the time');
kill('KILL', @asking);
waitpid($_, 0) for @asking;
@readers = ();

# clients that read nothing, while others ask and members come and go

my @slow = map { ask('/status') } 1 .. 3;

wait_held($_) for @slow;

is($nginx->get('/here')->{body}, 'here', 'slow readers: others are answered');
is_whole($nginx->get('/status')->{body}, 'the status of another');

# Some members go and come back, behind all others, since their places are
# taken.

$etcd->txn(map { [del => key($_)] } 0 .. BATCH - 1);
put_members(MEMBERS, MEMBERS + BATCH);
$revision = put_members(0, BATCH);
wait_seen($revision);

for my $n (1 .. @slow) {
    my $body = read_all($slow[$n - 1]);
    my %times;

    $times{$_}++ for keys_of($body);

    is(scalar(grep { $_ > 1 } values %times), 0, "slow $n: nobody twice");
    is(scalar(grep { !$times{key($_)} } BATCH .. MEMBERS - 1), 0,
       'who stayed is there');
    is(scalar(grep { $_ ge key(MEMBERS) } keys %times), 0,
       'who came meanwhile is not');
    ok($body =~ /"revision":$revision\}.*\]\}\n\z/s,
       'to the end, which was written after that');

    $n == 1 and ok(eval { decode_json($body) }, 'and it is JSON');
}

@slow = ();
wait_seen($etcd->txn(map { [del => key($_)] } MEMBERS .. MEMBERS + BATCH - 1));
is_whole($nginx->get('/status')->{body}, 'once nothing changes');

# Clients that go away, or are given up, leave nothing behind.

my @gone = map { ask('/status') } 1 .. 20;

wait_held($_) for @gone;
cmp_ok(descriptors(), '>=', $before + 20, 'clients under way');
@gone = ();
ok(wait_for(sub { descriptors() <= $before + 1 }, 20, 'descriptors'),
   'clients that went away');

my $stuck = ask('/gone');

wait_held($stuck);
ok(wait_for(sub { $nginx->count_log(qr/client timed out/) }, 20, 'a timeout'),
   'a client that takes nothing is given up');
ok(read_all($stuck) !~ /\]\}\n\z/, 'and has not all of it');
close($stuck);

# The worker ends while a client reads.

my $last = ask('/status');

wait_held($last);
ok($nginx->reload(), 'a reload');
is_whole(read_all($last), 'an answer of the worker that ends');

finish();
