#!/usr/bin/perl

# An upstream of "server" lines and one of the same servers in etcd, side by
# side in one nginx: nginx's documentation of servers holds for members, and
# both do the same in each step.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Backend;
use Etcd;
use Finish;
use Native;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d));
my %backend = map { $_->name => $_ } @backends;
my $native = Native->new($etcd, @backends);

my $LONG = 'fail_timeout=3600';
my $fails = 'proxy_next_upstream error timeout http_500;';

$native->add('plain', servers => [qw(a b c)]);
$native->add('weights', servers => ['a weight=5', 'b', 'c weight=2']);
$native->add('down', servers => ['a down', 'b', 'c']);
$native->add('alldown', servers => ['a down', 'b down']);
$native->add('lone', servers => ["a max_fails=1 $LONG"], location => $fails);
$native->add('lonedown', servers => ['a down']);
$native->add('nearly', servers => ['a down', "b max_fails=2 $LONG"],
             location => $fails);
$native->add('fails', servers => ["a max_fails=2 $LONG",
                                  "b max_fails=2 $LONG"], location => $fails);
$native->add('none', servers => ["a max_fails=1 $LONG", "b max_fails=1 $LONG"],
             location => $fails);
$native->add('never', servers => ['a max_fails=0', 'b max_fails=0'],
             location => $fails);
$native->add('again', servers => ['a fail_timeout=1', 'b fail_timeout=1'],
             location => $fails);
$native->add('heavy', servers => ["a weight=6 max_fails=3 $LONG",
                                  "b weight=6 max_fails=3 $LONG"],
             location => $fails);
$native->add('backup', servers => ["a $LONG", "b $LONG", "c backup $LONG",
                                   "d backup $LONG"], location => $fails);
$native->add('spare', servers => ["a max_fails=0", "b backup max_fails=0"],
             location => $fails);
$native->add('full', servers => ['a max_conns=1', 'b max_conns=1',
                                 'c max_conns=1 backup']);
$native->add('least', servers => ['a weight=2', 'b', 'c'],
             native => 'least_conn;', etcd => 'etcd_balance least_conn;');

my @four = map { "$_ max_fails=0" } qw(a b c d);

$native->add('next', servers => \@four, location => $fails);
$native->add('tries', servers => \@four,
             location => "$fails proxy_next_upstream_tries 2;");
$native->add('off', servers => \@four, location => 'proxy_next_upstream off;');
$native->add('missing', servers => [map { "$_ max_fails=1 $LONG" } qw(a b c)],
             location => 'proxy_next_upstream error http_404;');
$native->add('refused', servers => [map { "$_ max_fails=2 $LONG" } qw(a b c)],
             location => 'proxy_next_upstream error;');

# Failures by status: each is tried elsewhere, and two of them are none for the
# member.

my @statuses = qw(502 503 504 403 429);

for my $status (@statuses) {
    $native->add("status$status",
                 location => "proxy_next_upstream http_$status;",
                 servers => ["a max_fails=1 $LONG", "b max_fails=1 $LONG"]);
}

my @pair = ("a max_fails=1 $LONG", "b max_fails=1 $LONG");

$native->add('invalid', servers => \@pair,
             location => 'proxy_next_upstream invalid_header;');
$native->add('timeout', servers => \@pair,
             location => 'proxy_next_upstream timeout; proxy_read_timeout 1s;');
$native->add('late', servers => ['a max_fails=0', 'b max_fails=0'],
             location => "$fails proxy_next_upstream_timeout 1s;");
$native->add('posted', servers => \@pair,
             location => 'proxy_next_upstream http_500 non_idempotent;');

my $kept = 'proxy_http_version 1.1; proxy_set_header Connection "";';

$native->add('kept', servers => [qw(a b)], upstream => 'keepalive 4;',
             location => $kept);
$native->add('few', servers => [qw(a b c)], upstream => 'keepalive 1;',
             location => $kept);
$native->add('times', servers => [qw(a b)],
             upstream => 'keepalive 4; keepalive_requests 3;',
             location => $kept);
$native->add('default', servers => [qw(a b)], location => $kept);
$native->add('asis', servers => [qw(a b)]);
$native->add('closed', servers => [qw(a b)], upstream => 'keepalive 4;',
             location => $kept);

$native->add('idle', servers => ['a'], location => $kept,
             upstream => 'keepalive 4; keepalive_timeout 1s;');
$native->add('old', servers => ['a'], location => $kept,
             upstream => 'keepalive 4; keepalive_time 1s;');

my $nginx = $native->start();


sub same { return $native->same($nginx, @_) }


# A test that both upstreams did this, and nothing else.

sub seen {
    my ($seen, @wanted) = @_;

    is_deeply($seen, \@wanted, 'they did what nginx documents');
}


# the number of tries of each

sub tally {
    my %tally;

    $tally{$_}++ for map { /(\w+)=/g } @_;

    return map { "$_: $tally{$_}" } sort keys %tally;
}


sub connections { map { $backend{$_}->counts->{connections} } @_ }
sub breaks { $backend{$_}->set(status => 500) for @_ }
sub works { $backend{$_}->set(status => 200) for @_ }


# choices

seen(same('plain', sub { map { $_[0]->() } 1 .. 6 }, 'in turn'),
     map { "$_=200" } qw(a b c a b c));

seen(same('weights', sub { my ($ask) = @_; tally(map { $ask->() } 1 .. 80) },
          'shares'),
     'a: 50', 'b: 10', 'c: 20');

seen(same('down', sub { map { $_[0]->() } 1 .. 4 }, 'one is down'),
     map { "$_=200" } qw(b c b c));

seen(same('alldown', sub { $_[0]->() }, 'all are down'), 'none=502');
seen(same('lonedown', sub { $_[0]->() }, 'the only one is down'), 'none=502');

# max_fails and fail_timeout

seen(same('lone', sub { breaks('a'); map { $_[0]->() } 1 .. 3 },
          'the only one is never unavailable'),
     ('a=500') x 3);

# The last try is no failure: its answer is passed on; to Angie and freenginx it
# is a failure.

my $is_nginx = Nginx::is_nginx();

seen(same('nearly', sub { breaks('b'); map { $_[0]->() } 1 .. 4 },
          'nor is one beside a down one'),
     $is_nginx ? ('b=500') x 4 : ('b=500', 'b=500', 'none=502', 'none=502'));

$backend{b}->down;

seen(same('nearly', sub { $backend{b}->down; map { $_[0]->() } 1 .. 4 },
          'but it is if it refuses connections'),
     $is_nginx ? ('b=502', 'b=502', 'none=502', 'none=502')
               : ('none=502') x 4);

same('fails', sub {
    my ($ask) = @_;

    breaks('a');
    my @first = map { $ask->() } 1 .. 8;
    works('a');

    return @first, map { $ask->() } 1 .. 4;
}, 'two failures, and not asked again in fail_timeout');

is($backend{a}->requests, 2, 'which is two requests');

seen(same('none', sub { breaks('a', 'b'); map { $_[0]->() } 1 .. 3 },
          'all have failed'),
     'a=500 b=500', $is_nginx ? 'b=500 none=502' : 'none=502', 'none=502');

seen(same('never', sub { breaks('a'); map { $_[0]->() } 1 .. 4 },
          'max_fails=0: never unavailable'),
     'a=500 b=200', 'b=200', 'a=500 b=200', 'b=200');

same('heavy', sub {
    my ($ask) = @_;

    # A failure costs a third of the weight, which comes back.

    breaks('a');
    my @failed = grep { /a=500/ } map { $ask->() } 1 .. 2;
    works('a');

    return tally(@failed), tally(map { $ask->() } 1 .. 120);
}, 'a weight that is lost and regained');


# After fail_timeout one request tries the member; if that fails, no more do.
# All has to happen in one fail_timeout: on a machine that stood still the test
# tries again.

sub tries_again {
    my ($ask) = @_;

    for (1 .. 20) {
        breaks('a');
        $ask->() for 1 .. 4;

        my $start;

        wait_for {
            $start = time();
            $ask->() =~ /a=500/;
        } 10, 'another try' or return 'never tried again';

        my @next = map { $ask->() } 1 .. 6;

        return "next @next" if time() - $start < 0.9;
    }

    return 'no luck';
}


seen(same('again', \&tries_again, 'one request tries a failed one'),
     'next ' . join(' ', ('b=200') x 6));

same('again', sub {
    my ($ask) = @_;

    breaks('a');
    $ask->() for 1 .. 2;
    works('a');

    return (wait_for { $ask->() =~ /a=200/ } 10, 'a') ? 'it is back' : 'never';
}, 'it comes back');

# backup

same('backup', sub {
    my ($ask) = @_;

    my @all = map { $ask->() } 1 .. 4;

    breaks('a');
    push @all, map { $ask->() } 1 .. 4;
    breaks('b');
    push @all, map { $ask->() } 1 .. 6;
    breaks('c');
    push @all, map { $ask->() } 1 .. 4;
    breaks('d');
    push @all, map { $ask->() } 1 .. 3;

    return @all;
}, 'backups serve when the others have failed');

seen(same('spare', sub { my ($ask) = @_;
                         breaks('a');
                         my @all = map { $ask->() } 1 .. 2;
                         works('a');
                         return @all, $ask->() }, 'a backup for a try'),
     'a=500 b=200', 'a=500 b=200', 'a=200');

# max_conns

same('full', sub {
    my ($ask, $path) = @_;

    $backend{$_}->set(hang => 1) for qw(a b);

    my @clients = map { $nginx->begin($path) } 1 .. 2;

    wait_for { $backend{a}->requests + $backend{b}->requests == 2 } 10, 'two';

    my @while = map { $ask->() } 1 .. 2;

    $backend{c}->set(hang => 1);
    push @clients, $nginx->begin($path);
    wait_for { $backend{c}->requests == 3 } 10, 'a third one';
    push @while, $ask->();

    $backend{$_}->set(hang => 0) for qw(a b c);

    my @ends = sort map { $native->tried($_->receive) } @clients;

    return @while, @ends, sort map { $ask->() } 1 .. 2;
}, 'max_conns');

# least_conn

same('least', sub {
    my ($ask, $path) = @_;

    $backend{$_}->set(hang => 1) for qw(a b c);

    my @clients;

    # Requests come one after the other: the next one sees the connection.

    for my $n (1 .. 8) {
        push @clients, $nginx->begin($path);
        wait_for { $n == eval { my $sum = 0;
                                $sum += $backend{$_}->requests for qw(a b c);
                                $sum } } 10, "request $n";
    }

    my @requests = map { "$_: " . $backend{$_}->requests } qw(a b c);

    $backend{$_}->set(hang => 0) for qw(a b c);
    $_->receive for @clients;

    return @requests;
}, 'least_conn by weight');

# the next upstream

# The order after a request that was passed on is not the same, which is
# exception 1 of docs/upstream.md: tries are compared in any order then.

for my $name (qw(next tries off)) {
    same($name, sub {
        my ($ask, $path) = @_;

        breaks('a', 'b');
        my @all = $ask->();

        breaks(qw(a b c d));
        push @all, map { scalar(() = $ask->() =~ /=500/g) } 1 .. 5;

        # A request that is not idempotent is sent once, and then Angie answers
        # nothing.

        return @all if Nginx::is_angie();

        my $posted = $native->tried($nginx->http->post($path, 'body'));

        return @all, $posted =~ s/\w+=//gr;
    }, 'tries');
}

seen(same('missing', sub {
    my ($ask) = @_;

    $backend{$_}->set(status => 404) for qw(a b c);

    return map { join(' ', sort split(/ /, $ask->())) } 1 .. 3;
}, 'a 404 is tried elsewhere and is no failure'),
     ('a=404 b=404 c=404') x 3);

seen(same('refused', sub {
    my ($ask, $path) = @_;

    $backend{a}->down;
    my @all = map { s/ [bc]=/ another=/r } grep { /a=/ }
        map { $ask->() } 1 .. 9;

    push @all, $native->tried($nginx->http->post($path, 'body')) =~ s/.*=//r;
    $backend{$_}->down for qw(b c);
    push @all, tally(map { $ask->() } 1 .. 9);
    $backend{$_}->up for qw(a b c);

    return @all, $ask->();
}, 'refused connections'),
     'a=502 another=200', 'a=502 another=200', 200, 'b: 2', 'c: 2', 'none: 9',
     'none=502');

for my $status (@statuses) {
    my $fails = $status != 403;

    seen(same("status$status", sub {
        my ($ask) = @_;

        $backend{a}->set(status => $status);

        return $ask->(), (grep { /a=/ } map { $ask->() } 1 .. 4) ? 'again'
                                                                 : 'no more';
    }, 'a status'), "a=$status b=200", $fails ? 'no more' : 'again');
}

seen(same('invalid', sub {
    my ($ask) = @_;

    $backend{a}->set(headers => { "X\0" => 'invalid' });

    return map { $ask->() } 1 .. 3;
}, 'an invalid header'), 'a=502 b=200', 'b=200', 'b=200');

seen(same('timeout', sub {
    my ($ask) = @_;

    $backend{a}->set(hang => 1);

    return map { $ask->() } 1 .. 3;
}, 'no answer in time'), 'a=504 b=200', 'b=200', 'b=200');

seen(same('late', sub {
    my ($ask) = @_;

    $backend{$_}->set(status => 500, delay => 1.2) for qw(a b);
    my $late = $ask->() =~ s/\w+=/any=/r;
    $backend{$_}->set(delay => 0) for qw(a b);

    return $late, scalar(() = $ask->() =~ /=500/g);
}, 'proxy_next_upstream_timeout'), 'any=500', 2);

seen(same('posted', sub {
    my ($ask, $path) = @_;

    breaks('a');

    return map { $native->tried($nginx->http->post($path, 'body')) } 1 .. 2;
}, 'non_idempotent'), 'a=500 b=200', 'b=200');

# kept connections

my $keeps = Nginx::keeps_by_default();

seen(same('kept', sub { my ($ask) = @_;
                        $ask->() for 1 .. 20;
                        return connections(qw(a b)) }, 'connections'),
     1, 1);

same('few', sub { my ($ask) = @_;
                  $ask->() for 1 .. 9;
                  return connections(qw(a b c)) },
     'fewer kept connections than servers');

seen(same('times', sub { my ($ask) = @_;
                         $ask->() for 1 .. 12;
                         return connections(qw(a b)) }, 'keepalive_requests'),
     2, 2);

for my $name (qw(default asis)) {
    seen(same($name, sub { my ($ask) = @_;
                           $ask->() for 1 .. 10;
                           return connections(qw(a b)) },
              'without "keepalive"'),
         $keeps ? (1, 1) : (5, 5));
}

seen(same('idle', sub {
    my ($ask) = @_;

    $ask->() for 1 .. 2;
    my $closed = wait_for { !$backend{a}->counts->{open} } 20, 'the end';
    $ask->();

    return $closed ? 'closed' : 'open', connections('a');
}, 'keepalive_timeout'), 'closed', 2);

seen(same('old', sub {
    my ($ask) = @_;

    return (wait_for { $ask->(); $backend{a}->counts->{connections} == 2 } 20,
            'another connection') ? 'another one' : 'the same';
}, 'keepalive_time'), 'another one');

same('closed', sub {
    my ($ask) = @_;

    # Idle connections of a are gone.

    $ask->() for 1 .. 2;
    $backend{a}->down;
    $backend{a}->up;

    return map { $ask->() } 1 .. 6;
}, 'a kept connection that was closed');

finish();
