#!/usr/bin/perl

# A stream upstream of "server" lines and one of the same servers in etcd, side
# by side in one nginx.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(time);

use Datagram;
use Etcd;
use Finish;
use Line;
use Native;
use Nginx;
use Wait;

Nginx::has('stream') or plan(skip_all => 'this nginx has no stream');

my $etcd = Etcd->new()->start();
my @backends = Line->start(qw(a b c d));
my %backend = map { $_->name => $_ } @backends;
my $silent = Silent->new('s');
my $native = Native->new($etcd, @backends, $silent, Datagram->start(qw(u v)));

my $LONG = 'fail_timeout=3600';

sub add { $native->add_stream(@_) }

add('plain', servers => [qw(a b c)]);
add('weights', servers => ['a weight=5', 'b', 'c weight=2']);
add('down', servers => ['a down', 'b', 'c']);
add('alldown', servers => ['a down', 'b down']);
add('lone', servers => ["a max_fails=1 $LONG"]);
add('fails', servers => ["a max_fails=2 $LONG", "b max_fails=2 $LONG"]);
add('none', servers => ["a max_fails=1 $LONG", "b max_fails=1 $LONG"]);
add('never', servers => ['a max_fails=0', 'b max_fails=0']);
add('backup', servers => ["a $LONG", "b $LONG", "c backup $LONG",
                          "d backup $LONG"]);
add('full', servers => ['a max_conns=1', 'b max_conns=1', 'c backup']);

my @four = map { "$_ max_fails=0" } qw(a b c d);

add('next', servers => \@four);
add('tries', servers => \@four, location => 'proxy_next_upstream_tries 2;');
add('off', servers => \@four, location => 'proxy_next_upstream off;');
add('least', servers => ['a weight=2', 'b', 'c'],
    native => 'least_conn;', etcd => 'etcd_balance least_conn;');

add('again', servers => ['a fail_timeout=1', 'b fail_timeout=1']);
add('heavy', servers => ["a weight=6 max_fails=3 $LONG",
                         "b weight=6 max_fails=3 $LONG"]);
add('late', servers => ["s max_fails=0", "a backup"],
    location => 'proxy_connect_timeout 1200ms;'
                . ' proxy_next_upstream_timeout 1s;');
add('intime', servers => ["s max_fails=0", "a backup"],
    location => 'proxy_connect_timeout 200ms;'
                . ' proxy_next_upstream_timeout 1h;');
add('datagrams', udp => 1, servers => ["u max_fails=1 $LONG",
                                       "v max_fails=1 $LONG"],
    location => 'proxy_responses 1; proxy_timeout 1s;');

my $nginx = $native->start_stream();


sub same { return $native->same_stream($nginx, @_) }


sub seen {
    my ($seen, @wanted) = @_;

    is_deeply($seen, \@wanted, 'they did what nginx documents');
}


seen(same('plain', sub { map { $_[0]->() } 1 .. 6 }, 'in turn'),
     map { "$_=200" } qw(a b c a b c));

seen(same('weights', sub {
    my ($ask) = @_;
    my %tally;

    $tally{$_}++ for map { $ask->() } 1 .. 40;

    return map { "$_: $tally{$_}" } sort keys %tally;
}, 'shares'), 'a=200: 25', 'b=200: 5', 'c=200: 10');

seen(same('down', sub { map { $_[0]->() } 1 .. 4 }, 'one is down'),
     map { "$_=200" } qw(b c b c));
seen(same('alldown', sub { $_[0]->() }, 'all are down'), 'none=502');

seen(same('lone', sub {
    my ($ask) = @_;

    $backend{a}->down;
    my @all = map { $ask->() } 1 .. 3;
    $backend{a}->up;

    return @all, $ask->();
}, 'the only one is never unavailable'), ('a=502') x 3, 'a=200');

same('fails', sub {
    my ($ask) = @_;

    $backend{a}->down;
    my @all = map { $ask->() } 1 .. 8;
    $backend{a}->up;

    return scalar(grep { /a/ } @all), map { $ask->() } 1 .. 4;
}, 'two failures, and not asked again in fail_timeout');

seen(same('none', sub {
    my ($ask) = @_;

    $backend{$_}->down for qw(a b);
    my @all = map { $ask->() } 1 .. 2;
    $backend{$_}->up for qw(a b);

    return @all, $ask->();
}, 'all have failed'), 'a b=502', 'none=502', 'none=502');

same('never', sub {
    my ($ask) = @_;

    $backend{a}->down;
    my @all = map { $ask->() } 1 .. 4;
    $backend{a}->up;

    return @all, map { $ask->() } 1 .. 2;
}, 'max_fails=0: never unavailable');

same('backup', sub {
    my ($ask) = @_;

    my @all = map { $ask->() } 1 .. 4;

    for my $name (qw(a b c d)) {
        $backend{$name}->down;
        push @all, map { $ask->() } 1 .. 4;
    }

    $backend{$_}->up for qw(a b c d);

    return @all, $ask->();
}, 'backups serve when the others have failed');

# After fail_timeout one session tries the member; if that fails, no more do.
# All has to happen in one fail_timeout: on a machine that stood still the test
# tries again.

seen(same('again', sub {
    my ($ask) = @_;

    for (1 .. 20) {
        $backend{a}->down;
        $ask->() for 1 .. 4;

        my $start;

        wait_for {
            $start = time();
            $ask->() =~ /a/;
        } 10, 'another try' or return 'never tried again';

        my @next = map { $ask->() } 1 .. 6;

        return "next @next" if time() - $start < 0.9;
    }

    return 'no luck';
}, 'one session tries a failed one'), 'next ' . join(' ', ('b=200') x 6));

seen(same('again', sub {
    my ($ask) = @_;

    $backend{a}->down;
    $ask->() for 1 .. 2;
    $backend{a}->up;

    return (wait_for { $ask->() =~ /^a=200/ } 10, 'a') ? 'it is back' : 'never';
}, 'it comes back'), 'it is back');

same('heavy', sub {
    my ($ask) = @_;

    # A failure costs a third of the weight, which comes back.

    $backend{a}->down;
    my @failed = grep { /a/ } map { $ask->() } 1 .. 2;
    $backend{a}->up;

    my %tally;

    $tally{$_}++ for map { $ask->() } 1 .. 60;

    return @failed, map { "$_: $tally{$_}" } sort keys %tally;
}, 'a weight that is lost and regained');

seen(same('late', sub { $_[0]->() }, 'proxy_next_upstream_timeout'), 's=502');
seen(same('intime', sub { $_[0]->() }, 'and in time'), 's a=200');

seen(same('datagrams', sub {
    my ($ask) = @_;

    my @all = map { $ask->() } 1 .. 4;

    # One of these two datagrams goes to the failing server.

    push @all, sort map { $ask->('u, be silent') } 1 .. 2;

    return @all, map { $ask->() } 1 .. 4;
}, 'UDP'), map({ "$_=200" } qw(u v u v)), 'u=502', ('v=200') x 5);

for my $name (qw(next tries off)) {
    same($name, sub {
        my ($ask) = @_;

        $backend{$_}->down for qw(a b);
        my @all = $ask->();

        $backend{$_}->down for qw(c d);
        push @all, map { scalar(() = $ask->() =~ /\w+/g) } 1 .. 5;

        return @all;
    }, 'tries');
}

same('full', sub {
    my ($ask, $port) = @_;

    my @clients;

    for (1 .. 3) {
        push @clients, Line::Client->new($port);
        push @clients, $clients[-1]->ask('who') =~ s/:.*//r;
    }

    my @names = grep { !ref } @clients;

    push @names, $ask->();

    $_->close for grep { ref } @clients;

    my $free = wait_for { $ask->() =~ /[ab]/ } 10, 'a free one';

    return @names, $free ? 'free' : 'full';
}, 'max_conns');

same('least', sub {
    my ($ask, $port) = @_;

    my %tally;
    my @clients = map { Line::Client->new($port) } 1 .. 8;

    $tally{$_->ask('who') =~ s/:.*//r}++ for @clients;
    $_->close for @clients;

    return map { "$_: $tally{$_}" } sort keys %tally;
}, 'least_conn by weight');

finish();


# A server listens, and its queue is full: a connect takes for ever.

package Silent;


sub new {
    my ($class, $name) = @_;

    my $socket = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        Listen    => 1,
    ) or die "listen: $!\n";

    my @clients = map {
        IO::Socket::INET->new(
            PeerAddr => '127.0.0.1',
            PeerPort => $socket->sockport,
            Blocking => 0,
        )
    } 1 .. 4;

    return bless { name => $name, socket => $socket, clients => \@clients },
                 $class;
}


sub name { $_[0]{name} }
sub address { '127.0.0.1:' . $_[0]{socket}->sockport }
