#!/usr/bin/perl

# Sessions (nginx's "sticky", 1.29.6 and later) of an upstream of "server" lines
# and of one of the same servers in etcd, side by side in one nginx.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Native;
use Nginx;
use Wait;

Nginx::has_sticky() or plan(skip_all => 'this nginx has no sticky');

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c));
my %backend = map { $_->name => $_ } @backends;
my $native = Native->new($etcd, @backends);

my $LONG = 'fail_timeout=3600';
my $fails = 'proxy_next_upstream error timeout http_500;';
my @three = map { "$_ max_fails=1 $LONG" } qw(a b c);
my $cookie = 'sticky cookie sid;';
my $number = 0;

# Each test has its own upstreams, since a server that has failed does not come
# back.

sub add {
    my ($name, %options) = @_;

    $native->add($name, location => $fails, upstream => $cookie, %options);
}


my %methods = (
    round_robin => '',
    least_conn  => 'least_conn;',
    random      => 'random;',
    hash        => 'hash $arg_key;',
    consistent  => 'hash $arg_key consistent;',
);

for my $method (sort keys %methods) {
    my $line = $methods{$method};

    for my $test (qw(bound failing)) {
        add("${method}_$test", servers => \@three, native => $line,
            etcd => $line && "etcd_balance $line");
    }

    add("${method}_drain", servers => ['a', 'b drain', 'c'], native => $line,
        etcd => $line && "etcd_balance $line");
}

add('turns', servers => ['a weight=2', 'b', 'c weight=2']);
add('down', servers => ['a', 'b down', 'c']);
add('drained', servers => ['a drain', 'b drain']);
add('backup', servers => ["a max_fails=1 $LONG", 'b backup']);
add('full', servers => ['a max_conns=1', 'b max_conns=1', 'c']);
add('routes', servers => ['a route=one', 'b route=two', 'c']);
add('twice', servers => ["a route=one max_fails=1 $LONG", 'b route=one', 'c']);
add('lone', servers => ['a']);

my $route = 'sticky route $arg_route $cookie_r;';
my @routes = ('a route=one', "b route=two max_fails=1 $LONG", 'c');

add('route', servers => \@routes, upstream => $route);
add('route_failing', servers => \@routes, upstream => $route);
add('route_drain', servers => [$routes[0], 'b route=two drain', 'c'],
    upstream => $route);

my $learn = 'sticky learn create=$upstream_http_x_session'
    . ' lookup=$arg_session zone=%s:1m';

$native->add('learn', servers => [qw(a b c)],
             native => sprintf($learn, 'n') . ';',
             etcd => sprintf($learn, 'e') . ';');
$native->add('header', servers => [qw(a b c)],
             native => sprintf($learn, 'nh') . ' header;',
             etcd => sprintf($learn, 'eh') . ' header;');

my $nginx = $native->start();


sub same { return $native->same($nginx, @_) }


# a session of a browser: the tries, and the server that its cookie names then

my %ids;


sub browse {
    my ($path, $session) = @_;

    my $answer = $nginx->get($path . '?key=' . ++$number,
        defined $session->{id} ? (Cookie => "sid=$session->{id}") : ());
    my ($id) = ($answer->{headers}{'set-cookie'} // '') =~ /^sid=(.*)$/;

    $session->{id} = $id if defined $id;

    return $native->tried($answer) . ' ' . ($id // 'no cookie');
}


# the session of a server, which is the same in both upstreams

sub session { return { id => $ids{$_[0]} } }


for (1 .. 100) {
    my $session = {};
    my ($who) = browse('/round_robin_bound_native', $session) =~ /^(\w)=200/;

    $ids{$who} = $session->{id};
    last if keys %ids == 3;
}

for my $method (sort keys %methods) {
    same("${method}_bound", sub {
        my ($ask, $path) = @_;

        return map { my $session = session($_);
                     map { browse($path, $session) } 1 .. 6 } qw(c a b);
    }, 'sessions stay');

    same("${method}_failing", sub {
        my ($ask, $path) = @_;

        my $session = session('b');

        # The server fails, and the next one may be any.

        $backend{b}->set(status => 500);
        my @first = browse($path, $session) =~ s/ [ac]=.*//r;
        $backend{b}->set(status => 200);

        my ($next) = $nginx->get($path, Cookie => "sid=$session->{id}")
                         ->{body};

        return @first, $session->{id} eq ($ids{$next} // ''),
               $next =~ /^[ac]$/ ? 'another' : $next,
               map { browse($path, $session) =~ /^$next=200 \S+$/ ? 1 : 0 }
                   1 .. 6;
    }, 'a session moves when its server fails, and stays there');

    same("${method}_drain", sub {
        my ($ask, $path) = @_;

        my $session = session('b');
        my %new = map { browse($path, {}) => 1 } 1 .. 40;

        return (map { browse($path, $session) } 1 .. 4), sort keys %new;
    }, 'a server that drains');
}

same('turns', sub {
    my ($ask, $path) = @_;

    my %new;

    for (1 .. 100) {
        browse($path, session('b')) for 1 .. 2;
        $new{substr(browse($path, {}), 0, 1)}++;
    }

    # Of five turns, b has one, and more than that for its sessions.

    return map { "$_: " . int((($new{$_} // 0) + 5) / 10) } qw(a b c);
}, 'turns of new sessions');

same('down', sub { my ($ask, $path) = @_;
                   my $session = session('b');
                   my $first = browse($path, $session);
                   my $id = $session->{id};
                   return $first =~ /^[ac]=200/ ? 1 : 0,
                          $id eq $ids{substr($first, 0, 1)} ? 1 : 0 },
     'a session of a server that is down');

same('drained', sub { my ($ask, $path) = @_;
                      return browse($path, {}), browse($path, session('b')),
                             browse($path, session('c')) },
     'all drain');

same('backup', sub {
    my ($ask, $path) = @_;

    my $session = session('b');
    my @all = browse($path, $session);

    $session = session('b');
    $backend{a}->set(status => 500);
    push @all, map { browse($path, $session) } 1 .. 3;
    $backend{a}->set(status => 200);

    return @all, browse($path, $session);
}, 'a session of a backup');

same('full', sub {
    my ($ask, $path) = @_;

    $backend{a}->set(hang => 1);

    my $client = $nginx->http;

    $client->send('GET', $path, undef, Cookie => "sid=$ids{a}");
    wait_for { $backend{a}->requests == 1 } 10, 'a';

    my $while = browse($path, session('a'));

    $backend{a}->set(hang => 0);

    return $native->tried($client->receive), $while =~ /^[bc]=200/ ? 1 : 0,
           browse($path, session('a'));
}, 'a session of a server with max_conns');

same('routes', sub {
    my ($ask, $path) = @_;

    return (map { browse($path, { id => $_ }) } qw(two one two)),
           browse($path, session('c')),
           browse($path, session('b')) =~ /=200 (?:one|two|$ids{c})$/ ? 1 : 0;
}, 'route=');

same('twice', sub {
    my ($ask, $path) = @_;

    return map { browse($path, { id => 'one' }) } 1 .. 3;
}, 'a route of two: the first one');

same('lone', sub { my ($ask, $path) = @_;
                   $backend{a}->set(status => 500);
                   my @all = map { browse($path, session('a')) } 1 .. 2;
                   return @all, browse($path, session('b')) },
     'the only one');

# Requests name their routes: the first variable that is not empty is used.


sub routed {
    my ($path, $route, $cookie) = @_;

    return $native->tried(
        $nginx->get($path . (defined $route ? "?route=$route" : ''),
                    defined $cookie ? (Cookie => "r=$cookie") : ()));
}


# the answers, in any order

sub whoever {
    my %seen = map { $_ => 1 } @_;

    return join(' ', sort keys %seen);
}


sub documented {
    my ($seen, @wanted) = @_;

    is_deeply($seen, \@wanted, 'they did what nginx documents');
}


documented(same('route', sub {
    my ($ask, $path) = @_;

    return (map { routed($path, $_) } qw(two one two), $ids{c}),
           (map { routed($path, undef, $_) } qw(two one)),
           routed($path, 'one', 'two'), routed($path, '', 'two');
}, 'known routes'), map { "$_=200" } qw(b a b c b a a b));

documented(same('route', sub {
    my ($ask, $path) = @_;

    return whoever(map { routed($path, 'none') } 1 .. 20),
           whoever(map { routed($path, 'none', 'two') } 1 .. 20),
           whoever(map { routed($path) } 1 .. 20);
}, 'unknown routes'), ('a=200 b=200 c=200') x 3);

documented(same('route_drain', sub {
    my ($ask, $path) = @_;

    return (map { routed($path, 'two') } 1 .. 4),
           whoever(map { routed($path, 'none') } 1 .. 20);
}, 'the route of a server that drains'), ('b=200') x 4, 'a=200 c=200');

documented(same('route_failing', sub {
    my ($ask, $path) = @_;

    $backend{b}->set(status => 500);
    my $first = routed($path, 'two') =~ s/ [ac]=200/ another/r;
    $backend{b}->set(status => 200);

    return $first, whoever(map { routed($path, 'two') } 1 .. 20),
           routed($path, 'one');
}, 'the route of a server that has failed'),
           'b=500 another', 'a=200 c=200', 'a=200');

for my $name (qw(learn header)) {
    same($name, sub {
        my ($ask, $path) = @_;

        my %who;

        for my $i (1 .. 6) {
            $_->set(headers => { 'X-Session' => "s$i" }) for @backends;
            $who{$i} = $nginx->get($path)->{body};
        }

        $_->set(headers => {}) for @backends;

        return map { my $i = $_;
                     map { $nginx->get("$path?session=s$i")->{body}
                           eq $who{$i} ? 1 : 0 } 1 .. 4 } 1 .. 6;
    }, 'learned sessions');
}

finish();
