#!/usr/bin/perl

# A switchover of PostgreSQL under Patroni as clients see it, through nginx and
# through HAProxy with the checks that are usual and with fast ones: all three
# in front of the same cluster at the same time.  And a primary that is stopped,
# whose connections nobody but nginx can close.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(max sum);
use Time::HiRes qw(time);

use Bench;
use Cut;
use Etcd;
use Finish;
use Nginx;
use Patroni;
use Port;
use Process;
use Wait;
use PgClient;

use constant {
    SWITCHOVERS => $ENV{BENCH_CYCLES} || 10,
    STOPS       => $ENV{BENCH_CYCLES} || 5,
    SETTLE      => 15,
    CHECKS      => {
        usual => 'inter 3s fall 3 rise 2',
        fast  => 'inter 1s fall 2 rise 1',
    },
};

my $etcd = Etcd->new()->start();
my $patroni = Patroni->new(etcd => $etcd)->start();

PgClient::create_table($patroni->primary->port);

my %ways = (
    nginx => nginx(),
    usual => haproxy('usual'),
    fast  => haproxy('fast'),
);

my %clients = map {
    $_ => {
        new  => PgClient->start($ways{$_}),
        kept => PgClient->start($ways{$_}, keep => 1),
    }
} keys %ways;

# Straight to each member: the times at which each takes writes.

my @direct = map {
    PgClient->start($_->port, every => 0.002, keep => 1, stay => 1)
} $patroni->members;

my $cut = Cut->start($ways{nginx}, $etcd, $patroni->prefix . 'leader');

my @rounds = map { switchover() } 1 .. SWITCHOVERS;
my @stops = map { stopped() } 1 .. STOPS;


sub nginx {
    my $port = free_port();

    Nginx->new(etcd => $etcd)->set(
        PREFIX => $patroni->prefix,
        WRITER => $port,
    )->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

stream {
    upstream writer {
        etcd_leader %%PREFIX%% format=patroni confirm=api on_change=close;
    }

    server {
        listen 127.0.0.1:%%WRITER%%;
        etcd_wait writer 30s;
        proxy_pass writer;
        proxy_connect_timeout 2s;
    }
}

EOF

    return $port;
}


sub haproxy {
    my ($kind) = @_;

    my $port = free_port();
    my $file = test_dir() . "/haproxy-$kind.cfg";
    my $servers = join('', map {
        '    server ' . $_->name . ' 127.0.0.1:' . $_->port . ' check port '
            . $_->api_port . "\n"
    } $patroni->members);

    open(my $config, '>', $file) or die "$file: $!\n";
    print $config <<"END";
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    timeout queue 30s

listen writer
    bind 127.0.0.1:$port
    option httpchk GET /primary
    http-check expect status 200
    default-server @{[ CHECKS->{$kind} ]} on-marked-down shutdown-sessions
$servers
END
    close($config);

    my $pid = spawn("$file.log", 'haproxy', '-f', $file, '-db');

    Finish::later(bless { pid => $pid }, 'HAProxy');

    return $port;
}


sub HAProxy::stop {
    my ($self) = @_;

    stop_child($self->{pid}, 'TERM');
}


# All clients write.

sub ready {
    my @all = map { values %$_ } values %clients;

    wait_for { $patroni->healthy } 120, 'a healthy cluster' or die;

    my $now = time();

    wait_for { @all == grep { $_->writes_since($now) } @all } 60, 'writes'
        or die "somebody does not write\n";

    return @all;
}


sub switchover {
    my @all = ready();
    my $since = time();

    $patroni->switchover();

    # The slowest client ends the wait.

    wait_for {
        my $change = writable($since);
        return $change
               && @all == grep { $_->writes_since($change + SETTLE) } @all;
    } 120, 'writes after the switchover'
        or die "somebody does not write any more\n";

    my $writable = writable($since);
    my %round;

    for my $way (keys %clients) {
        my ($new, $kept) = @{ $clients{$way} }{qw(new kept)};

        $round{$way} = {
            outage => $new->outage($since) * 1000,
            after  => ($new->first_after($writable) - $writable) * 1000,
            errors => scalar($new->failed($since)),
            stuck  => $kept->outage($since) * 1000,
        };
    }

    my ($deleted, $closed, $reached) = $cut->times($since);

    return {
        %round,
        cut     => ($closed - $deleted) * 1000,
        reached => ($reached - $writable) * 1000,
    };
}


# PostgreSQL and Patroni do nothing more, and their connections stay open.

sub stopped {
    ready();

    my $primary = $patroni->primary;
    my $since = time();

    $primary->freeze();

    wait_for { 3 == grep { defined } $cut->times($since) } 120,
        'the next primary' or die "nobody takes over\n";

    my ($deleted, $closed) = $cut->times($since);

    $primary->thaw();

    return { cut => ($closed - $deleted) * 1000 };
}


# the time of the first write to a member that did not write before

sub writable {
    my ($since) = @_;

    for my $direct (@direct) {
        my ($first) = grep { $_->{ok} } $direct->writes($since - 1);

        if ($first && $first->{ended} > $since) {
            return $first->{ended};
        }
    }

    return;
}


sub row {
    my ($name, $way) = @_;

    return [
        $name,
        (map { my $what = $_; spread_of('%.0f', sub { $_[0]{$way}{$what} },
                                        @rounds) } qw(outage after)),
        sum(map { $_->{$way}{errors} } @rounds),
        spread_of('%.0f', sub { $_[0]{$way}{stuck} }, @rounds),
    ];
}


my ($switchovers, $stops) = (SWITCHOVERS, STOPS);
my ($cut_switched, $cut_stopped) =
    map { spread_of('%.1f', sub { $_[0]{cut} }, @$_) } \(@rounds, @stops);
my $reached = spread_of('%.1f', sub { $_[0]{reached} }, @rounds);

publish('Switchover of PostgreSQL', <<"END",
$switchovers switchovers of a cluster of three under Patroni, each seen through
all of them at once, by clients that write every 20 ms: with a connection for
every write, and with one that is kept until it breaks. The outage is the
longest time without a write, in ms; the next column is when the first write
succeeded after the new primary took one directly; the errors are those of new
connections, in all.
END
    table(['', 'outage, ms', 'after it is writable, ms', 'errors',
           'outage of a kept connection, ms'],
          row('nginx, `etcd_leader` and `etcd_wait`', 'nginx'),
          row('HAProxy, `' . CHECKS->{usual} . '`', 'usual'),
          row('HAProxy, `' . CHECKS->{fast} . '`', 'fast')), <<"END");
An idle connection through nginx was closed $cut_switched ms after
`etcdctl watch` had the deletion of the leader's key; where the primary was
stopped by SIGSTOP, $stops times, $cut_stopped ms. A negative
figure means that it was closed before, by PostgreSQL itself or by nginx. A new
one, made then, reached the new primary $reached ms after that took the
first write: without the login, and without the 20 ms between two attempts of a
client.
END
