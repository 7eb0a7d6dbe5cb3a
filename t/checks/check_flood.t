#!/usr/bin/perl

# Members that answer a check without end, as fast as they can: headers, bodies,
# chunks, 1xx answers, bytes before any request, frames of HTTP/2.  The agent
# reads as much of each as an answer may have, and goes on with its work.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use POSIX ();
use Test::More;

use Backend;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Port;
use Process;
use Turn;
use Upstream;
use Wait;

use constant {
    CHECKS => 4,            # of each member, at least
    LIMIT  => 0.2,          # of the CPU time of the worker
    TAKEN  => 32 << 20,     # bytes of an answer: most stay in buffers of Linux
    GROWTH => 8 << 10,      # KB of the agent's memory
};

my $sanitized = Nginx::built_with() =~ /-fsanitize/;

my $ok = "HTTP/1.1 200 OK\r\n";
my $chunked = "${ok}Transfer-Encoding: chunked\r\n\r\n";

# [the beginning, the endless rest, the result of a check by HTTP]

my %floods = (
    body      => ["$ok\r\n", 'x', 'ok'],
    longer    => ["${ok}Content-Length: 2\r\n\r\nok", 'x', 'ok'],
    header    => [$ok, "X-Y: z\r\n", 'ok'],
    name      => [$ok, 'x', 'ok'],
    early     => ['', "HTTP/1.1 103 Early Hints\r\n\r\n", 'invalid'],
    status    => ['HTTP/1.1 ', '9', 'invalid'],
    garbage   => ['', "\0", 'invalid'],
    chunks    => [$chunked, "1\r\nx\r\n", 'ok'],
    size      => [$chunked, '0', 'ok'],
    extension => ["${chunked}1;", 'x', 'ok'],
    trailer   => ["${chunked}0\r\n", "X-Y: z\r\n", 'ok'],
);

# Each is one frame, as in t/client/flood.t, or the begin of a message of 1 GB.

my %frames = (
    window_update => '000004080000000000' . '00000001',
    ping          => '000008060100000000' . '0000000000000000',
    settings      => '000000040000000000',
    early         => '000005010400000001' . '0803313033',
    message       => '000005000000000001' . '0040000000',
);

my $etcd = Etcd->new()->start();
my ($backend) = Backend->start('one');
my %peer = map { $_ => Fake->new()->start("flood:$frames{$_}") } keys %frames;
my %port = map { $_ => free_port() } keys %floods;
my %seen = map { $_ => test_dir() . "/$_" } keys %floods;
my @floods = map { Flood->new($_) } sort keys %floods;


# A server that sends without end to each connection, and notes how many bytes
# went out.

package Flood;

sub new {
    my ($class, $name) = @_;

    my $listening = Backend::listen_on($port{$name});
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        $SIG{PIPE} = 'IGNORE';
        eval { serve($listening, $name) } or warn $@;
        POSIX::_exit(1);
    }

    my $self = bless { pid => $pid }, $class;

    Finish::later($self);

    return $self;
}


sub serve {
    my ($listening, $name) = @_;

    my ($begin, $more) = @{ $floods{$name} };

    open(my $seen, '>>', $seen{$name}) or die "open $seen{$name}: $!\n";
    $seen->autoflush(1);

    $more x= 65536 / length($more);

    while (my $socket = $listening->accept()) {
        my $sent = syswrite($socket, $begin . $more);

        while (my $n = syswrite($socket, $more)) {
            $sent += $n;
        }

        print $seen "$sent\n";
    }

    return 1;
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        Process::stop_child($pid);
    }
}


package main;

my $nginx = Nginx->new(etcd => $etcd);
my $turns;
my $config = <<'EOC';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream http {
        etcd_members /http/;
        etcd_check http interval=2s timeout=2s panic=0;
    }

    upstream tcp {
        etcd_members /http/;
        etcd_check tcp interval=2s timeout=2s panic=0;
    }

    upstream grpc {
        etcd_members /grpc/;
        etcd_check grpc interval=2s timeout=2s panic=0;
    }

    upstream good {
        etcd_members /good/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://good;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

if ($sanitized) {
    $nginx->start($config);

} else {
    $turns = Turn->measure(sub { $nginx->start($config) });
}

my ($worker) = $nginx->workers;

$etcd->put('/good/1', $backend->address);
$etcd->put("/http/$_", "127.0.0.1:$port{$_}") for keys %floods;
$etcd->put("/grpc/$_", '127.0.0.1:' . $peer{$_}->port) for keys %frames;


# { KEY => result }

sub results {
    my ($upstream) = @_;

    return { map { $_->{key} =~ s{.*/}{}r => $_->{check} // '' }
             @{ Upstream->new($nginx, $upstream)->status->{members} // [] } };
}


sub memory {
    open(my $file, '<', "/proc/$worker/status") or die "status: $!\n";

    return map { /^VmRSS:\s+(\d+)/ ? $1 : () } <$file>;
}


# bytes that each connection of a server took

sub taken {
    my ($name) = @_;

    open(my $file, '<', $seen{$name}) or return;

    return map { /^(\d+)\n/ ? $1 : () } <$file>;
}


# true if each server was checked so many times

sub checked {
    my ($times) = @_;

    return !grep({ taken($_) < 2 * $times } keys %floods)
           && !grep({ $peer{$_}->count(qr/ open /) < $times } keys %frames);
}


wait_for { checked(1) } 30, 'all were checked';

my ($before) = memory();

ok(wait_for(sub { checked(CHECKS) }, 60, 'checks'), 'all are checked again');

is_deeply(results('http'), { map { $_ => $floods{$_}[2] } keys %floods },
          'results by HTTP');
is_deeply(results('tcp'), { map { $_ => 'ok' } keys %floods },
          'results by TCP');
is((grep { $_ ne '' && $_ ne 'ok' } values %{ results('grpc') }),
   keys %frames, 'all fail by gRPC');

for my $name (sort keys %floods) {
    cmp_ok(max(taken($name)), '<', TAKEN, "$name: not all is taken");
}

SKIP: {
    skip('a sanitizer takes time and memory of its own', 2) if $sanitized;

    cmp_ok($turns->longest($worker), '<', LIMIT, 'the longest turn');
    cmp_ok((memory())[0] - $before, '<', GROWTH, 'memory does not grow');
}

is_deeply([$nginx->workers], [$worker], 'the worker is the same');
is($nginx->get('/')->{body}, 'one', 'members are served');

finish();
