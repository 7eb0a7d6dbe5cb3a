#!/usr/bin/perl

# The time from SIGKILL of the member in use to the first event from another
# one, for nginx and for etcd's own client, which watch the same key through the
# same member.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep time);

use Bench;
use Cluster;
use Etcd;
use Finish;
use Go;
use Nginx;
use Process;
use Wait;

use constant {
    KILLS    => $ENV{BENCH_KILLS} || 50,
    PUTS     => 0.01,           # seconds between two puts
    ATTEMPT  => 0.2,            # seconds for one put
    SETTLED  => 4,              # seconds: a connection is stable then
    PATIENCE => 20,
    POLL     => 0.001,
    KEY      => '/services/api/1',
};

my $config = <<'EOF';

etcd {
    endpoints %%ENDPOINTS%%;
}

http {
    upstream api {
        etcd_members /services/api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        keepalive_requests 1000000000;

        location /status {
            etcd_status;
        }
    }
}

EOF


# The events of a client go into a file: "connected NANOSECONDS" and "event
# NANOSECONDS REVISION" lines.  For nginx a process asks for its status.

sub watch_nginx {
    my ($nginx) = @_;

    my $file = test_dir() . '/nginx.seen';
    my $test = $$;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        eval { poll($nginx, $file, $test); 1 } or warn $@;
        POSIX::_exit(0);
    }

    return watcher($pid, $file);
}


sub poll {
    my ($nginx, $file, $test) = @_;

    my $http = $nginx->http;
    my ($connections, $revision) = (0, 0);

    open(my $log, '>>', $file) or die "open $file: $!\n";
    $log->autoflush(1);

    while (getppid() == $test) {
        my $body = $http->get('/status')->{body};
        my $now = time() * 1e9;
        my ($made) = $body =~ /"reconnects":\s*(\d+)/;
        my ($seen) = $body =~ /"upstreams":.*?"revision":\s*(\d+)/s;

        if (($made // 0) > $connections) {
            $connections = $made;
            printf $log "connected %d\n", $now;
        }

        if (($seen // 0) > $revision) {
            $revision = $seen;
            printf $log "event %d %d\n", $now, $seen;
        }

        sleep(POLL);
    }
}


sub watch_go {
    my ($binary, $cluster) = @_;

    my $file = test_dir() . '/go.seen';
    my @urls = map { $_->url } $cluster->members;

    return watcher(spawn($file, $binary, KEY, @urls), $file);
}


sub watcher {
    my ($pid, $file) = @_;

    my $self = bless { pid => $pid, file => $file }, 'Watcher';

    Finish::later($self);

    return $self;
}


sub Watcher::stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# The time of the first such line after a time, of events the first one above a
# revision.

sub Watcher::first {
    my ($self, $kind, $after, $revision) = @_;

    open(my $file, '<', $self->{file}) or return;

    while (my $line = <$file>) {
        my ($what, $time, $number) = split(' ', $line);

        if ($what eq $kind && $time / 1e9 >= $after
            && ($kind ne 'event' || $number > $revision))
        {
            return $time / 1e9;
        }
    }

    return;
}


# Puts by one of the members after another, until one has answered.

sub put {
    my ($links) = @_;

    my $body = encode_json({ Etcd::put_op(KEY, '127.0.0.1:1') });
    my $end = time() + PATIENCE;

    while (time() < $end) {
        my $answer = $links->[0]->post('/v3/kv/put', $body);

        if ($answer->{status} == 200) {
            return decode_json($answer->{body})->{header}{revision};
        }

        $links->[0]->close();
        push @$links, shift @$links;
        sleep(PUTS);
    }

    die "nobody takes a put\n";
}


# Waits until both have watched through the same member, the leader or another
# one, for a while; returns that member.

sub align {
    my ($cluster, $nginx, $go, $leads) = @_;

    for (1 .. 100) {
        my $before = $nginx->status->{clusters}{default};
        my $used = $cluster->member_at($before->{endpoint} // '') or next;

        lead($cluster, $used, $leads);

        if (streams($used) < 2) {
            kill('USR1', $go->{pid});
            wait_for { streams($used) >= 2 } 0.3, 'the other client';
            next;
        }

        # Both have to watch for so long.

        sleep(SETTLED);

        my $now = $nginx->status->{clusters}{default};

        if ($now->{endpoint} eq $used->url
            && $now->{reconnects} == $before->{reconnects}
            && ($cluster->leader == $used) == $leads
            && streams($used) >= 2)
        {
            return $used;
        }
    }

    die "nginx and the other client do not meet\n";
}


sub streams { $_[0]->metric('etcd_debugging_mvcc_watch_stream_total') // 0 }


sub lead {
    my ($cluster, $used, $leads) = @_;

    my $leader = $cluster->leader;

    if (($leader == $used) == $leads) {
        return;
    }

    my ($to) = $leads ? $used : grep { $_ != $used } $cluster->members;
    my $members = $leader->call('cluster/member/list', {})->{members};
    my ($member) = grep { $_->{name} eq $to->{name} } @$members;

    $leader->manage('move-leader', sprintf('%x', $member->{ID}));
}


# Makes a kill; returns ms until the first put was answered, and for each
# watcher until it was connected and had an event.

sub measure {
    my ($cluster, $used, %watchers) = @_;

    my @links = map { $_->http(timeout => ATTEMPT) }
        grep { $_ != $used } $cluster->members;

    my $revision = put(\@links);

    wait_for { !grep { !$_->first('event', 0, $revision - 1) }
               values %watchers } PATIENCE, 'the last event before'
        or die "an event is missing\n";

    # Nothing is under way: newer events are put after this.

    my $killed = time();

    kill('KILL', $used->pid);

    my $took = { put => wait_put($killed, $revision, \@links, %watchers) };

    $used->kill();

    for my $name (keys %watchers) {
        my $event = $watchers{$name}->first('event', $killed, $revision)
            // die "$name did not come back\n";
        my $connected = $watchers{$name}->first('connected', $killed);

        # The connection may be noticed after the event that follows it.

        $took->{$name} = {
            event     => ($event - $killed) * 1000,
            connected => (($connected // $event) - $killed) * 1000,
        };
    }

    $cluster->revive();

    return $took;
}


# Goes on with puts until all have one; returns ms until the first answer.

sub wait_put {
    my ($killed, $revision, $links, %watchers) = @_;

    my $took;

    while (time() < $killed + PATIENCE) {
        put($links);
        $took //= (time() - $killed) * 1000;

        last if !grep { !$_->first('event', $killed, $revision) }
                values %watchers;

        sleep(PUTS);
    }

    return $took;
}


sub ms {
    my (@ms) = @_;

    return sprintf('%.0f / %.0f / %.0f', map { percentile($_, @ms) }
                                             50, 99, 100);
}


sub row {
    my ($name, @kills) = @_;

    my @figures = map {
        my $client = $_;
        map { my $what = $_; ms(map { $_->{$client}{$what} } @kills) }
            'connected', 'event';
    } 'nginx', 'go';

    return [$name, scalar(@kills), ms(map { $_->{put} } @kills), @figures,
            spread_of('%.2f', sub { $_[0]{nginx}{event} / $_[0]{go}{event} },
                      @kills)];
}


my $binary = Go::build("$FindBin::Bin/failover.go");

if (!defined $binary) {
    print 'skipped: ', Go::MISSING, "\n";
    exit(0);
}

# Timeouts are etcd's defaults.

my $cluster = Cluster->new(3, args => ['--heartbeat-interval', 100,
                                       '--election-timeout', 1000])->start();
my $nginx = Nginx->new()->set(ENDPOINTS => $cluster->endpoints)
    ->start($config);

my %watchers = (nginx => watch_nginx($nginx),
                go    => watch_go($binary, $cluster));
my %kills;

for my $leads (0, 1) {
    for (1 .. KILLS) {
        my $used = align($cluster, $nginx, $watchers{go}, $leads);

        push @{ $kills{$leads} }, measure($cluster, $used, %watchers);
    }
}

my @head = ('the member is', 'kills', 'first put answered',
            'nginx: connected', 'nginx: first event',
            'clientv3: connected', 'clientv3: first event',
            'nginx : clientv3');

publish('Failover', <<'END',
From SIGKILL of the member of a 3-member cluster (with etcd's default timeouts)
that both watch through, nginx and a program with etcd's own client (clientv3,
in Go), until another member has accepted them and until the first event of a
put that was sent after the kill is there. A third client puts every 10 ms
through the members that are left, with 200 ms for each attempt: without a
leader there is nothing to receive, and the first answer to a put is the least
that is possible. nginx is seen through its status, which is asked for every
millisecond; that is part of its figures. Milliseconds, p50 / p99 / longest; the
ratio is of the first events.
END
    table(\@head,
          row('a follower', @{ $kills{0} }),
          row('the leader', @{ $kills{1} })));

finish();
