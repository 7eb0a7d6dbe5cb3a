#!/usr/bin/perl

# UDP through stream: sessions of one datagram and of many, members that do
# not answer, datagrams that are held, and leaders.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Datagram;
use Etcd;
use Finish;
use Nginx;
use Port;
use Wait;

# seconds: questions and answers in between take far less

use constant LONG => 5;

plan(skip_all => 'this nginx has no stream')
    if !Nginx::has('stream');

my $etcd = Etcd->new()->start();
my ($at_a, $at_b) = map { $_->address } Datagram->start('a', 'b');

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF' =~ s/LONG/LONG/ger);

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
    log_format udp "$status $etcd_member_key $protocol";
    proxy_timeout 60s;

    upstream dns {
        etcd_members /dns/;
    }

    upstream fails {
        etcd_members /fails/ fail_timeout=60s;
    }

    upstream refuses {
        etcd_members /refuses/ fail_timeout=60s;
    }

    upstream held {
        etcd_members /held/;
    }

    upstream leader {
        etcd_leader /leader on_change=close max_fails=1 fail_timeout=60s;
    }

    upstream kept {
        etcd_leader /leader on_change=keep;
    }

    server {
        listen 127.0.0.1:%%PORT_leader%% udp reuseport;
        proxy_pass leader;
        access_log %%DIR%%/leader.log udp;
    }

    server {
        listen 127.0.0.1:%%PORT_wanting%% udp reuseport;
        proxy_responses 9;
        proxy_pass leader;
        access_log %%DIR%%/wanting.log udp;
    }

    server {
        listen 127.0.0.1:%%PORT_kept%% udp reuseport;
        proxy_requests 2;
        proxy_responses 1;
        proxy_pass kept;
    }

    server {
        listen 127.0.0.1:%%PORT_short%% udp reuseport;
        proxy_responses 1;
        proxy_pass dns;
    }

    server {
        listen 127.0.0.1:%%PORT_long%% udp reuseport;
        proxy_timeout LONGs;
        proxy_pass dns;
    }

    server {
        listen 127.0.0.1:%%PORT_two%% udp reuseport;
        proxy_requests 2;
        proxy_responses 1;
        proxy_pass dns;
        access_log %%DIR%%/two.log udp;
    }

    server {
        listen 127.0.0.1:%%PORT_fails%% udp reuseport;
        proxy_responses 1;
        proxy_timeout LONGs;
        proxy_pass fails;
        access_log %%DIR%%/fails.log udp;
    }

    server {
        listen 127.0.0.1:%%PORT_refuses%% udp reuseport;
        proxy_responses 1;
        proxy_pass refuses;
        access_log %%DIR%%/refuses.log udp;
    }

    server {
        listen 127.0.0.1:%%PORT_held%% udp reuseport;
        proxy_responses 1;
        etcd_wait held 600s;
        proxy_pass held;
    }

    server {
        listen 127.0.0.1:%%PORT_vain%% udp reuseport;
        etcd_wait held 200ms;
        proxy_pass held;
        access_log %%DIR%%/vain.log udp;
    }
}

EOF

sub client { return Datagram::Client->new($nginx->port("PORT_$_[0]")) }


sub log_of {
    my @lines = $nginx->lines_of("$_[0].log");

    return @lines;
}


sub conns {
    my ($name) = @_;

    return join(' ', map { $_->{conns} }
                     sort { $a->{key} cmp $b->{key} }
                     @{ $nginx->stream($name)->status->{members} });
}


sub conns_ok {
    my ($name, $wanted, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { conns($name) eq $wanted } LONG + 10, $what;
    is(conns($name), $wanted, $what);
}


# Opens sessions, one after the other, until one has failed.

sub until_fails {
    my ($name, $address, $text) = @_;

    my $n = 0;

    wait_for {
        $n++;
        client($name)->tell($text);
        wait_for { log_of($name) == $n } LONG + 10, 'the end of a session';
        $nginx->stream($name)->member($address)->{fails}
    } 3 * LONG, "$address to fail";
}


# a datagram and its answer

$etcd->put('/dns/a', $at_a);
$nginx->stream('dns')->shows({ '/dns/a' => "$at_a 1 up" }, 'a member');
like(client('short')->ask('hello'), qr/^a \d+ hello$/, 'answers');
conns_ok('dns', '0', 'the answer ends the session');

$nginx->stream('dns')->sees($etcd->put('/dns/b', $at_b));

my %asked;

for (1 .. 40) {
    my ($name) = (client('short')->ask('hello') // '') =~ /^(\w)/;

    $asked{$name // ''}++;
}

is(join(' ', sort keys %asked), 'a b', 'both members are asked');
conns_ok('dns', '0 0', 'all sessions have ended');
is($nginx->stream('dns')->member($at_a)->{requests}
   + $nginx->stream('dns')->member($at_b)->{requests}, 41, 'and are counted');

# a session of many datagrams

my $client = client('long');
my $answer = $client->ask('one');
my ($name, $from) = $answer =~ /^(\w) (\d+) one$/;
my $conns = $name eq 'a' ? '1 0' : '0 1';

is(conns('dns'), $conns, 'a session is counted');
is($client->ask('two'), "$name $from two", 'it stays with its member');
$client->tell('more x3');
is(join(',', map { $client->hear() } 1 .. 3),
   join(',', ("$name $from more x3") x 3), 'any number of answers');

$nginx->stream('dns')->sees($etcd->del("/dns/$name"));
is($client->ask('three'), "$name $from three", 'its member goes: it goes on');

my $other = $name eq 'a' ? 'b' : 'a';

like(client('short')->ask('new'), qr/^$other /, 'a new one goes elsewhere');
conns_ok('dns', '0', 'there is one member');
$nginx->stream('dns')->sees(
    $etcd->txn([put => '/dns/a', $at_a], [put => '/dns/b', $at_b]));

$client = client('long');
($name) = $client->ask('again') =~ /^(\w)/;
conns_ok('dns', '0 0', 'a session ends after its time');
is($nginx->stream('dns')->member($name eq 'a' ? $at_a : $at_b)->{fails}, 0,
   'which is no failure');

# The session is over after so many datagrams.

$client = client('two');
($name, $from) = $client->ask('one') =~ /^(\w) (\d+)/;
is($client->ask('two'), "$name $from two", 'the second of two');
conns_ok('dns', '0 0', 'proxy_requests ends the session');
wait_for { log_of('two') } 10, 'the log';
is_deeply([log_of('two')], ["200 /dns/$name UDP\n"], 'variables');

# A member does not answer.

$nginx->stream('fails')->sees(
    $etcd->txn([put => '/fails/a', $at_a], [put => '/fails/b', $at_b]));

until_fails('fails', $at_a, 'a, be silent');
is($nginx->stream('fails')->member($at_a)->{fails}, 1,
   'no answer is a failure');
is($nginx->stream('fails')->member($at_b)->{fails}, 0, 'of that member alone');
is(scalar(grep { (client('fails')->ask('hello') // '') =~ /^b / } 1 .. 6), 6,
   'the other one is asked');

# A member is not there.

my $closed = '127.0.0.1:' . free_port();

$nginx->stream('refuses')->sees(
    $etcd->txn([put => '/refuses/a', $closed], [put => '/refuses/b', $at_b]));

until_fails('refuses', $closed, 'hello');
is($nginx->stream('refuses')->member($closed)->{fails}, 1,
   'a port that is closed is a failure');
like(client('refuses')->ask('hello'), qr/^b /, 'the other one is asked');

# datagrams that are held

my @clients = map { client('held') } 1 .. 20;

$_->tell('first') for @clients;
$nginx->stream('held')->holds(20, 'twenty datagrams are held');
$_->tell('second') for @clients;
client('vain')->tell('hello');
wait_for { log_of('vain') } 10, 'the end of the time';
is_deeply([log_of('vain')], ["502 - UDP\n"], 'no member in time: as without');

$etcd->put('/held/a', $at_a);
is(scalar(grep { ($_->hear() // '') =~ /^a \d+ first$/ } @clients), 20,
   'a member: all are answered');
$nginx->stream('held')->holds(0, 'none waits any more');
is(scalar(grep { defined $_->hear(0.01) } @clients), 0,
   'what came after the first one is lost');
is(scalar(grep { ($_->ask('third') // '') =~ /^a \d+ third$/ } @clients), 20,
   'what comes now is not');

# A leader leads no more: its sessions end, and later datagrams begin another
# one.

$etcd->put('/leader/1', $at_a);
$nginx->stream($_)->shows({ '/leader/1' => "$at_a 1 up" }, "$_: a leader")
    for qw(leader kept);

my ($closed_one, $wanting, $kept) = map { client($_) }
                                        qw(leader wanting kept);

like($_->ask('hello'), qr/^a /, 'is asked') for $closed_one, $wanting, $kept;
is(conns('leader'), '2', 'two sessions');

$etcd->txn([del => '/leader/1'], [put => '/leader/2', $at_b]);
conns_ok('leader', '0', 'they end when it leads no more');
wait_for { log_of('leader') && log_of('wanting') } 10, 'the logs';
is_deeply([map { log_of($_) } qw(leader wanting)],
          [("200 /leader/1 UDP\n") x 2], 'as if by themselves');
$nginx->stream('kept')->sees($etcd->revision);
like($kept->ask('again'), qr/^a /, 'on_change=keep: it goes on');
like($_->ask('again'), qr/^b /, 'the next leader has the next session')
    for $closed_one, $wanting;

# The former leader leads again: its end was no failure.

$etcd->txn([del => '/leader/2'], [put => '/leader/3', $at_a]);
wait_for { log_of('leader') == 2 && log_of('wanting') == 2 } 10, 'their ends';
is_deeply([(log_of('leader'))[1], (log_of('wanting'))[1]],
          [("200 /leader/2 UDP\n") x 2], 'they end');
is($nginx->stream('leader')->member($at_a)->{fails}, 0, 'nobody has failed');
like($_->ask('more'), qr/^a /, 'the first leader, again')
    for $closed_one, $wanting;

# There is no leader.

$etcd->del('/leader/3');
wait_for { log_of('leader') == 3 } 10, 'the end of the session';
$closed_one->tell('is there anybody');
wait_for { log_of('leader') == 4 } 10, 'the end of the next one';
is((log_of('leader'))[3], "502 - UDP\n", 'no leader, no session');

# A reload: a session of UDP ends with its worker.

$client = client('long');
$client->ask('hello');
ok($nginx->reload(), 'a reload');
like($client->ask('hello'), qr/^\w \d+ hello$/, 'a new worker answers');
conns_ok('dns', '0 0', 'all sessions end');

ok($nginx->quit(), 'nginx ends');

finish();
