#!/usr/bin/perl

# "etcd_balance hash" chooses the same member as nginx's own "hash" does, with
# and without "consistent", for the same addresses and weights.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use IO::Socket::INET;
use POSIX ();

use Etcd;
use Finish;
use Nginx;
use Port;
use Process;
use Upstream;
use Wait;

use constant KEYS => 10_000;

my $etcd = Etcd->new()->start();

# All members refuse connections: the log tells which were asked.

my $port = free_port();

# NAME => [members, weight of a member, members that are down, parameter]

my %sets = (
    plain      => [40, sub { 1 }, {}, ''],
    weighted   => [30, sub { 1 + $_[0] % 7 }, {}, ''],
    partly     => [20, sub { 1 + $_[0] % 3 }, { 3 => 1, 11 => 1 }, ''],
    consistent => [200, sub { 1 }, {}, 'consistent'],
    ring       => [30, sub { 1 + $_[0] % 5 }, {}, 'consistent'],
    broken     => [20, sub { 1 + $_[0] % 3 }, { 3 => 1, 11 => 1 },
                   'consistent'],
);


sub address {
    my ($i) = @_;

    return sprintf('127.0.%d.%d:%d', 1 + $i / 250, 1 + $i % 250, $port);
}


sub upstreams {
    my ($name) = @_;

    my ($n, $weight, $down, $parameter) = @{ $sets{$name} };

    # nginx's servers are in the order of their addresses as text.

    my %servers = map {
        my $state = $down->{$_} ? ' down' : '';
        (address($_) => 'server ' . address($_) . ' weight=' . $weight->($_)
                        . " max_fails=0$state;")
    } 0 .. $n - 1;
    my $servers = join("\n        ", map { $servers{$_} } sort keys %servers);

    return <<"END";
    upstream native_$name {
        hash \$arg_key $parameter;
        $servers
    }

    upstream $name {
        etcd_members /$name/ max_fails=0;
        etcd_balance hash \$arg_key $parameter;
    }
END
}


my $locations = '';

for my $name (sort keys %sets) {
    my ($n, $weight, $down) = @{ $sets{$name} };
    my @puts;

    for my $i (0 .. $n - 1) {
        my $state = $down->{$i} ? ',"down":true' : '';

        push @puts, [put => sprintf('/%s/%d', $name, $n - $i),
                     '{"address":"' . address($i) . '","weight":'
                     . $weight->($i) . "$state}"];
    }

    while (my @some = splice(@puts, 0, 100)) {
        $etcd->txn(@some);
    }

    $locations .= <<"END";
        location /$name {
            proxy_pass http://native_$name;
            error_page 502 = \@$name;
            access_log off;
        }

        location \@$name {
            proxy_pass http://$name;
            access_log %%DIR%%/$name.log peers;
        }
END
}

my $config = <<'EOF';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    UPSTREAMS

    log_format peers '$upstream_addr';

    proxy_next_upstream off;
    keepalive_requests 1000000;
    keepalive_timeout 60s;

    server {
        listen 127.0.0.1:%%PORT%%;
        error_log /dev/null crit;

        LOCATIONS

        location /status {
            etcd_status;
        }
    }
}

EOF

$config =~ s/UPSTREAMS/join('', map { upstreams($_) } sort keys %sets)/e;
$config =~ s/LOCATIONS/$locations/;

my $nginx = Nginx->new(etcd => $etcd)->start($config);

for my $name (sort keys %sets) {
    wait_for {
        @{ Upstream->new($nginx, $name)->status->{members} // [] }
        == $sets{$name}[0]
    } 10, "members of $name";
}


# [native, ours] for each key, by requests one after the other

sub choices {
    my ($name) = @_;

    my $path = $nginx->dir . "/$name.log";
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        ask($name);
        POSIX::_exit(0);
    }

    wait_for { lines($path) == KEYS } 30, "all requests of $name";
    waitpid($pid, 0);

    return logged($path);
}


sub logged {
    my ($path) = @_;

    open(my $file, '<', $path) or die "open $path: $!\n";
    chomp(my @lines = <$file>);

    return map { [split(/ : /)] } @lines;
}


sub ask {
    my ($name) = @_;

    my $socket = IO::Socket::INET->new('127.0.0.1:' . $nginx->port)
        or die "connect: $!\n";

    my $reader = fork() // die "fork: $!\n";

    if ($reader == 0) {
        1 while sysread($socket, my $bytes, 65536);
        POSIX::_exit(0);
    }

    for my $i (1 .. KEYS) {
        my $close = $i == KEYS ? "Connection: close\r\n" : '';

        print $socket "GET /$name?key=key$i HTTP/1.1\r\nHost: a\r\n$close\r\n";
    }

    $socket->flush();
    waitpid($reader, 0);
}


sub lines {
    my ($path) = @_;

    open(my $file, '<', $path) or return 0;
    my $n = 0;
    $n++ while <$file>;

    return $n;
}


for my $name (sort keys %sets) {
    my @choices = choices($name);
    my %different = map { ($_->[1] // '') => 1 } @choices;

    is(scalar(grep { @$_ != 2 || $_->[0] ne $_->[1] } @choices), 0,
       "$name: " . KEYS . " keys go where they go with nginx's own");
    cmp_ok(keys %different, '>', $sets{$name}[0] / 2,
           "$name: to many members");
}

# An empty key: round robin.

for (['plain', 17], ['broken', 10]) {
    my ($name, $more) = @$_;
    my $path = $nginx->dir . "/$name.log";

    $nginx->get("/$name?key=") for 1 .. 18;
    wait_for { lines($path) == KEYS + 18 } 10, 'the log';

    my %empty = map { ($_->[1] => 1) } (logged($path))[-18 .. -1];

    cmp_ok(keys %empty, '>', $more,
           "$name: an empty key: one after the other");
}

finish();
