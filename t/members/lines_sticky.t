#!/usr/bin/perl

# Sessions (nginx's "sticky", 1.29.6 and later) over members of two clusters in
# one upstream: in each mode, in two workers, and over a reload.  One address is
# in both clusters.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(min sum);
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    EACH     => 3,           # requests of a session by each worker
    SESSIONS => 24,
    WORKERS  => 2,
};

Nginx::has_sticky() or plan(skip_all => 'this nginx has no sticky');

my ($east, $west) = (Etcd->new()->start(), Etcd->new()->start());
my %backend = map { $_->name => $_ } Backend->start(qw(a b c x y));
my %at = map { $_ => $backend{$_}->address } keys %backend;
my %who = reverse %at;

# the members of each line, by key

my %line = (
    1 => { etcd => $east, is => { 1 => 'a', 2 => 'b', 3 => 'c' } },
    2 => { etcd => $west, is => { 1 => 'x', 2 => 'y', 3 => 'c' } },
);

my $learn = 'sticky learn create=$arg_id lookup=$arg_id zone=%s:1m';

my %modes = (
    cookie  => 'sticky cookie id path=/;',
    hashed  => 'etcd_balance hash $arg_key consistent; sticky cookie id;',
    waiting => 'sticky cookie id;',
    learned => sprintf($learn, 'learned') . ';',
    header  => sprintf($learn, 'header') . ' header;',
    routed  => 'sticky route $arg_id;',
);

my @modes = sort keys %modes;


sub prefix { $_[0] eq 'routed' ? '/routed/' : '/api/' }


my $upstreams = join("\n", map { <<"END" } @modes);
    upstream $_ {
        etcd_members ${\ prefix($_)} max_fails=1 fail_timeout=1s;
        etcd_members ${\ prefix($_)} cluster=west backup;
        $modes{$_}
    }
END

put($_) for 1, 2;

my $nginx = Nginx->new(etcd => $east)->set(WEST => $west->endpoints)
    ->start(<<"END");

worker_processes @{[WORKERS]};

etcd {
    endpoints %%ETCD%%;
}

etcd west {
    endpoints %%WEST%%;
}

http {
    add_header X-Worker \$pid always;

$upstreams
    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location = /to/waiting {
            etcd_wait waiting 20s;
            proxy_pass http://waiting;
        }

        location ~ ^/to/(.*)\$ {
            proxy_pass http://\$1;
        }

        location /status {
            etcd_status;
        }
    }
}

END


# Registers the members of a line anew.

sub put {
    my ($number, $more) = @_;

    my ($etcd, $is) = @{ $line{$number} }{qw(etcd is)};

    for my $key (keys %$is) {
        my $value = '"address":"' . $at{$is->{$key}} . '"' . ($more // '');

        $etcd->put("/api/$key", "{$value}");
        $etcd->put("/routed/$key", qq({$value,"route":"r$key"}));
    }
}


sub del { $line{$_[0]}{etcd}->del_prefix($_) for '/api/', '/routed/' }


# Each upstream has these members in a line, in this state.

sub line_is {
    my ($number, $members, $state) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $wanted = join(' ', map { $_ . '=' . ($state // 'up') }
                               split(' ', $members));

    return becomes {
        my %seen = map { $_ => 1 } map { states($_, $number) } @modes;
        join('; ', keys %seen)
    } $wanted, "line $number: " . ($wanted || 'no member');
}


sub states {
    my ($mode, $number) = @_;

    return join(' ', sort map { "$who{$_->{address}}=$_->{state}" }
                              @{ of($mode, $number)->status->{members} });
}


sub of { $nginx->upstream($_[0] . ($_[1] == 2 ? ' (2)' : '')) }


# how many requests the members of a line got

sub requests {
    my ($mode, $number) = @_;

    return sum(0, map { $_->{requests} }
                      @{ of($mode, $number)->status->{members} });
}


my $number = 0;

sub begin { return { mode => $_[0], id => $_[1], key => ++$number } }


# Sends a request of the session; returns the backend and the worker.

sub visit {
    my ($session) = @_;

    my $mode = $session->{mode};
    my $has_cookie = $modes{$mode} =~ /cookie/;

    $session->{id} //= "s$number" if $mode =~ /learned|header/;

    my $id = $session->{id};
    my $query = "key=$session->{key}";
    my @headers;

    if (!$has_cookie) {
        $query .= '&id=' . ($id // '');

    } elsif (defined $id) {
        @headers = (Cookie => "id=$id");
    }

    my $answer = $nginx->get("/to/$mode?$query", @headers);

    $session->{id} = $1
        if ($answer->{headers}{'set-cookie'} // '') =~ /^id=(\w+)/;

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status},
           $answer->{headers}{'x-worker'};
}


# All backends of a session, when each worker had requests of it.

sub backends {
    my ($session) = @_;

    my (%seen, %by);

    wait_for {
        my ($who, $worker) = visit($session);

        $seen{$who}++;
        $by{$worker}++;
        keys %by == WORKERS && min(values %by) >= EACH
    } 20, 'requests by each worker';

    $session->{asked} = sum(values %seen);

    return join(' ', sort keys %seen);
}


# All backends of new sessions.

sub news { join(' ', sort keys %{ { map { (visit(begin($_[0])))[0] => 1 }
                                    1 .. SESSIONS } }) }


# Returns a session that is at that backend now.

sub session_at {
    my ($mode, $who, $line) = @_;

    my %keys = reverse %{ $line{$line}{is} };
    my $session;

    wait_for {
        $session = begin($mode, $mode eq 'routed' ? "r$keys{$who}" : undef);
        (visit($session))[0] eq $who
    } 20, "a session at $who";

    return $session;
}


# A session has one backend, which is one of these.

sub stays_at {
    my ($session, $wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $seen = backends($session);

    $session->{at} = $seen;

    return like($seen, qr/^[$wanted]\z/, "$session->{mode}: $name");
}


# All requests of the session were counted by the members of one line.

sub counts_in {
    my ($line, $session) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @before = map { requests($session->{mode}, $_) } 1, 2;
    my $seen = backends($session);
    my @got = map { requests($session->{mode}, $_) - $before[$_ - 1] } 1, 2;

    my @wanted = map { $_ == $line ? $session->{asked} : 0 } 1, 2;

    return is("@got", "@wanted", "$session->{mode}: the status counts requests "
                                 . "for $seen in line $line");
}


# Sessions of the first line stay in it while one of its members is left.

line_is(1, 'a b c');
line_is(2, 'c x y');

my %sessions;

for my $mode (@modes) {
    for my $who (qw(a b c)) {
        my $session = $sessions{$mode}{$who} = session_at($mode, $who, 1);

        stays_at($session, $who, "a session stays at $who");
    }

    counts_in(1, $sessions{$mode}{c});
}

$east->del("/$_/1") for qw(api routed);
line_is(1, 'b c');

for my $mode (@modes) {
    my $session = $sessions{$mode}{a};

    if ($mode eq 'routed') {
        is(backends($session), 'b c', 'the route is not in the line');

    } else {
        stays_at($session, 'bc', 'another member of its line');
    }
}

put(1);
line_is(1, 'a b c');

for my $mode (@modes) {
    my $session = $sessions{$mode}{a};

    stays_at($session, $mode eq 'routed' ? 'a' : $session->{at},
             $mode eq 'routed' ? 'the route is there again' : 'it stays there');
    $sessions{$mode}{a} = session_at($mode, 'a', 1);
}

# A reload changes nothing.

ok($nginx->reload(), 'reloaded');

for my $mode (@modes) {
    stays_at($sessions{$mode}{$_}, $_, "$_ keeps it") for qw(a b c);
}

# The first line has no member.  An address of both lines keeps its sessions.

del(1);
line_is(1, '');

for my $mode (@modes) {
    my $session = $sessions{$mode};
    my $routed = $mode eq 'routed';

    stays_at($session->{a}, $routed ? 'x' : 'xyc', 'one of the second line');
    stays_at($session->{b}, $routed ? 'y' : 'xyc', 'another session, too');
    stays_at($session->{c}, 'c', 'an address of both lines');
    counts_in(2, $session->{c});
}

ok($nginx->reload(), 'reloaded');

for my $mode (@modes) {
    stays_at($_, $_->{at}, "$_->{at} of the second line keeps it")
        for @{ $sessions{$mode} }{qw(a b c)};
    is(of($mode, 2)->status->{in_use}, JSON::PP::true, "$mode: it is in use");
}

# The first line is back: none stays with the second one, as with a backup.

put(1);
line_is(1, 'a b c');

for my $mode (@modes) {
    my $session = $sessions{$mode};
    my $routed = $mode eq 'routed';

    is(news($mode), 'a b c', "$mode: new sessions go to the first line");
    stays_at($session->{a}, $routed ? 'a' : 'abc', 'it is in the first line');
    stays_at($session->{b}, $routed ? 'b' : 'abc', 'another session, too');
    stays_at($session->{c}, 'c', 'an address of both lines');
    counts_in(1, $session->{c});
}

# The first line drains: its members keep their sessions, others begin in the
# second line, and are back in the first one after that.

my %later;

$sessions{$_}{a} = session_at($_, 'a', 1) for @modes;
put(1, ',"drain":true');
line_is(1, 'a b c', 'drained');

for my $mode (@modes) {
    my $new = $later{$mode} = $mode eq 'routed' ? begin($mode, 'none')
                                                : session_at($mode, 'x', 2);

    stays_at($sessions{$mode}{a}, 'a', 'a drained member keeps a session');
    counts_in(1, $sessions{$mode}{a});
    like(news($mode), qr/^c x y\z/, "$mode: new sessions go to the second");
    stays_at($new, 'x', 'and stay there') if $mode ne 'routed';
}

put(1);
line_is(1, 'a b c');

for my $mode (grep { $_ ne 'routed' } @modes) {
    stays_at($sessions{$mode}{a}, 'a', 'it was there all the time');
    stays_at($later{$mode}, 'abc', 'one of the second line is in the first');
}

# All members of the first line refuse connections: each request is passed on.

my %failing = map { $_ => session_at($_, 'a', 1) } @modes;

$backend{$_}->down() for qw(a b c);

for my $mode (@modes) {
    my $session = $failing{$mode};

    stays_at($session, $mode eq 'routed' ? 'x' : 'xy', 'no request is lost');
    stays_at($session, $session->{at}, 'the second line keeps it');
}

$backend{$_}->up() for qw(a b c);

for my $mode (@modes) {
    becomes { (visit($failing{$mode}))[0] =~ /^[abc]\z/ ? 1 : 0 } 1,
        "$mode: the first line has it again";
}

is($nginx->count_log(qr/does not support sticky/), 0,
   'nginx found an id for each session');

finish();
