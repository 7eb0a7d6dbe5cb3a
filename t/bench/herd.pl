#!/usr/bin/perl

# A herd of nginx on one cluster of three: a member is killed and comes back,
# and then all are away for a while.  When, and to whom, does each nginx turn?
# Proxies before the members see it.
#
# BENCH_HERD: how many; BENCH_REBALANCE: their "rebalance", in seconds.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use List::Util qw(max min sum);
use Time::HiRes qw(sleep time);

use Bench;
use Chaos;
use Cluster;
use Finish;
use Nginx;
use Wait;

use constant {
    HERD      => $ENV{BENCH_HERD} || 64,
    REBALANCE => $ENV{BENCH_REBALANCE} || 10,
    AWAY      => 5,             # seconds, all members
    PATIENCE  => 60,
};

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ENDPOINTS%%;
    rebalance %%REBALANCE%%s;
    zone 256k;
}

http {
    upstream api {
        etcd_members /herd/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

END

my $cluster = Cluster->new(3)->start();
my @members = $cluster->members;
my @proxies = map { Chaos->start($_->port) } @members;
my @herd;

$cluster->any->put('/herd/1', '127.0.0.1:8080');

for (1 .. HERD) {
    my $nginx = Nginx->new()->set(
        ENDPOINTS => join(' ', map { $_->url } @proxies),
        REBALANCE => REBALANCE,
    );

    push @herd, $nginx->start($config);
}


# { URL => the number of nginxes there }, once the condition is true

sub crowd {
    my ($what, $enough) = @_;

    my %crowd;

    wait_for {
        my @clusters = map { $_->status->{clusters}{default} } @herd;

        %crowd = ();
        $crowd{ $_->{endpoint} }++ for @clusters;

        !grep({ $_->{state} ne 'synced' } @clusters) && $enough->(\%crowd)
    } PATIENCE, $what or die "the herd did not come to rest: $what\n";

    return \%crowd;
}


# times of connections to a proxy since a time, in seconds after it

sub arrivals {
    my ($proxy, $since) = @_;

    return sort { $a <=> $b } grep { $_ >= 0 }
        map { $_ - $since } @{ $proxy->counts->{times} };
}


# all attempts of streams so far

sub attempts {
    return sum(map { $_->count_log(qr/connecting to .* for streams/) } @herd);
}


sub seconds { sprintf('%.2f', $_[0] // 0) }


# A member dies: the one with the most nginxes.

my $home = crowd('the start', sub { 1 });
my ($most) = sort { ($home->{$proxies[$b]->url} // 0)
                    <=> ($home->{$proxies[$a]->url} // 0) } 0 .. 2;
my ($lost, $proxy) = ($members[$most], $proxies[$most]);
my @others = grep { $_ != $proxy } @proxies;
my $movers = $home->{$proxy->url};

my $before = attempts();
my $killed = time();

$proxy->set(refuse => 1);
$lost->kill();

my $moved = crowd('after the kill', sub { !$_[0]{$proxy->url} });
my $further = attempts() - $before - $movers;
my @came = map { arrivals($_, $killed) } @others;
my $busiest = max(map { ($moved->{$_->url} // 0) - ($home->{$_->url} // 0) }
                  @others);

# The member comes back.

$lost->launch($lost->{cluster});
$lost->wait_healthy() or die "the member did not come back\n";

my $returned = time();

$proxy->set(refuse => 0);

my $again = crowd('the return', sub {
    ($_[0]{$proxy->url} // 0) == $movers
});
my @back = arrivals($proxy, $returned);

# All are away for a while, and one of them is the first to be there again.

$_->set(refuse => 1) for @proxies;
$_->cut() for @proxies;

sleep(AWAY);

my $there = time();

$proxies[0]->set(refuse => 0);
crowd('one of three', sub { ($_[0]{$proxies[0]->url} // 0) == HERD });

my @rush = arrivals($proxies[0], $there);
my %tenths;

$tenths{ int($_ * 10) }++ for @rush;

my ($herd, $away, $rebalance) = (HERD, AWAY, REBALANCE);
my ($peak, $rush) = (max(values %tenths), scalar(@rush));

publish('Reconnect herd', <<"END",
$herd nginx, of one worker each, on one cluster of three. The member that most
of them use is killed, and comes back (`rebalance ${rebalance}s`); then all
three refuse for $away s, and one of them is back. Times in seconds since then,
of connections as they arrive. The peer is an even share.
END
    table(['', 'nginx', 'first', 'last', 'busiest member', 'even share',
           'ratio'],
          ['one killed', $movers, seconds(min(@came)), seconds(max(@came)),
           $busiest, $movers / 2,
           seconds($busiest / ($movers / 2))],
          ['it is back', $movers, seconds($back[0]), seconds($back[-1]),
           $again->{$proxy->url}, $home->{$proxy->url},
           seconds($again->{$proxy->url} / $home->{$proxy->url})],
          ['one of three is back', HERD, seconds($rush[0]),
           seconds($rush[-1]), '-', '-', '-']),
    <<"END");
After the kill $further attempts were needed beyond the first one of each
nginx. With one of three back, at most $peak of $rush connections arrived within
a tenth of a second.
END
