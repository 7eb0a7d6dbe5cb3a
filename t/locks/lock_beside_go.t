#!/usr/bin/perl

# One lock that clients of two nginxes and programs with the Mutex of etcd's own
# client in Go take all the time, while some of these programs are killed, and
# others end their sessions: never two are inside, no update is lost, and the
# history is linearizable, for porcupine, too.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Contenders;
use Etcd;
use Finish;
use Go;
use Holder;
use LockHistory;
use Nginx;
use Porcupine;
use Register;
use Wait;

use constant {
    PROGRAMS => 3,
    KILLS    => 4,
    SOME     => 15,                     # visits of each kind between two kills
    CALM     => 60,
    LATE     => 0.5,
};

my $go = Go::build("$FindBin::Bin/../go/contend.go")
    // plan(skip_all => Go::MISSING);

my $slower = $ENV{TEST_SLOWER} || 1;
my $etcd = Etcd->new()->start();
my $registers = Register->start(shared => 0);

my @nginxes = map {
    Nginx->new(etcd => $etcd)->set(REGISTER => $registers->address)
        ->start(<<'EOF_CONFIG') } 1 .. 2;

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location /shared {
            etcd_lock /locks/shared wait=60s;
            proxy_pass http://%%REGISTER%%;
            proxy_set_header X-Token $etcd_lock_token;
        }
    }
}

EOF_CONFIG

my (%running, @all);

sub run_program {
    my $who = 'go' . @all;
    my $program = Holder->want($etcd, '/locks/shared', $go, $etcd->url,
                               'http://' . $registers->address . '/shared',
                               $who);

    push @all, $program;
    $running{$who} = $program;
}


run_program() for 1 .. PROGRAMS;

my $contenders = Contenders->start(\@nginxes, ['shared'], clients => 4,
                                   long => 0.3);

sub all_are_inside {
    my $mark = $registers->mark;

    return wait_for {
        !grep { $registers->count('write', $_, $mark) < SOME } qw(c go);
    } CALM, 'both kinds to be inside';
}

ok(all_are_inside(), 'nginx and Go take the lock by turns');

for my $n (1 .. KILLS) {
    my ($who) = sort keys %running;

    delete($running{$who})->crash();
    run_program();
    ok(all_are_inside(), "and after $n programs were killed");
}

ok($contenders->end(), 'clients end');
$_->resign() for values %running;

# The line of one that was killed may be cut.

my @lines = map { $_->output =~ /^(.*)\n/mg } @all;

is_deeply([grep { !/^\{/ } @lines], [], 'no program complains');

my @visits = map { decode_json($_) } grep { /^\{/ } @lines;
my $history = LockHistory->new(
    events   => [$registers->history],
    requests => [$contenders->history, @visits],
    late     => LATE * $slower,
);

is_deeply([$history->$_('shared')], [], "no $_")
    for qw(overlaps lost_updates tokens stale unexplained);

# Porcupine would find a program that keeps the lock, tokens that go back, and
# an update that is lost, in this very history.

SKIP: {
    Porcupine::is_built() or skip('porcupine is built by make test-clients', 5);

    my @operations = $history->operations('shared');
    my @additions = $history->additions('shared');
    my %release = map { $_->{what} eq 'release' ? ($_->{who} => $_) : () }
                  @operations;

    # of two that were not cut

    my ($one, $next) = grep { $_->{what} eq 'acquire' && $_->{return}
                              <= $release{ $_->{who} }{call} } @operations;

    ok(Porcupine::accepts('mutex', @operations), 'porcupine: the lock');
    ok(Porcupine::accepts('counter', @additions), 'porcupine: the register');

    ok(!Porcupine::accepts('mutex',
                           grep { $_ != $release{ $one->{who} } } @operations),
       'porcupine: not two inside');

    ($one->{token}, $next->{token}) = ($next->{token}, $one->{token});
    ok(!Porcupine::accepts('mutex', @operations),
       'porcupine: not tokens that go back');

    $additions[1]{wrote} = $additions[0]{wrote};
    ok(!Porcupine::accepts('counter', @additions),
       'porcupine: not a lost update');
}

is_deeply([grep { $_->{status} != 200 } @visits], [], 'all visits succeed');
cmp_ok(scalar(@visits), '>=', SOME * KILLS, 'there were many');
ok(wait_for(sub { !$etcd->list('/locks/') }, CALM), 'no key is left');

finish();
