#!/usr/bin/perl

# In stream the time of an answer is the time of its first byte, if nginx tells
# of it (1.31.0 and later): a member that accepts at once and answers late is
# slow.  A session without an answer is not measured.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep);

use Datagram;
use Etcd;
use Finish;
use Line;
use Nginx;
use Stall;
use Upstream;
use Wait;

use constant {
    LATE    => 0.15,                    # seconds until the late member answers
    SILENT  => 0.5,                     # how long a client says nothing
    STALLED => 0.03,
    ASKED   => 20,
};

Nginx::has('stream') && Nginx::is_nginx() && Nginx::version() >= 1031000
    or plan(skip_all => 'this nginx does not tell of first bytes');

my $stall = Stall->watch();
my $etcd = Etcd->new()->start();
my ($late, $quick) = Line->start('late', 'quick');
my @pair = Line->start('a', 'b');
my @datagrams = Datagram->start('late', 'quick');

$late->set(delay => LATE);

my $nginx = Nginx->new(etcd => $etcd)->start(<<'END');

worker_processes 1;

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
    upstream lines {
        etcd_members /lines/;
        etcd_balance ewma;
    }

    upstream silent {
        etcd_members /silent/;
        etcd_balance ewma;
    }

    upstream pair {
        etcd_members /pair/;
        etcd_balance ewma;
    }

    upstream datagrams {
        etcd_members /datagrams/;
        etcd_balance ewma;
    }

    server {
        listen 127.0.0.1:%%PORT_LINES%%;
        proxy_pass lines;
    }

    server {
        listen 127.0.0.1:%%PORT_SILENT%%;
        proxy_pass silent;
    }

    server {
        listen 127.0.0.1:%%PORT_PAIR%%;
        proxy_pass pair;
    }

    server {
        listen 127.0.0.1:%%PORT_DATAGRAMS%% udp;
        proxy_pass datagrams;
    }
}

END

my %members = (
    lines     => [$late, $quick],
    silent    => [$late, $quick],
    pair      => \@pair,
    datagrams => \@datagrams,
);

for my $name (sort keys %members) {
    $etcd->put("/$name/" . $_->name, $_->address) for @{ $members{$name} };
}



sub members { @{ $nginx->stream($_[0])->status->{members} } }


ok(wait_for(sub { 4 == grep { members($_) == 2 } keys %members }, 20),
   'two members each');


# Opens a session, and returns the member that answers a client that was silent
# for a time.

sub who {
    my ($name, $silent) = @_;

    my $client = Line::Client->new($nginx->port("PORT_$name"));

    sleep($silent) if $silent;

    return ($client->ask('who') // 'none') =~ s/:.*//r;
}


sub who_sends {
    my $client = Datagram::Client->new($nginx->port('PORT_DATAGRAMS'));

    return ($client->ask('late, wait ' . LATE) // 'none') =~ s/ .*//r;
}


sub prefers_quick {
    my ($who) = @_;

    my %seen;

    for (1 .. ASKED) {
        $seen{$who->()} = 1;
        last if keys %seen == 2;
    }

    return !grep { $who->() ne 'quick' } 1 .. 6;
}


ok($stall->again(STALLED, sub { prefers_quick(sub { who('LINES') }) }),
   'the one whose first byte comes first is preferred');

ok($stall->again(STALLED, sub { prefers_quick(\&who_sends) }),
   'over UDP, too');

ok($stall->again(STALLED, sub {
    prefers_quick(sub { who('SILENT', SILENT) });
}), 'a client that is silent at first makes nobody slow');


# A session ends without an answer: is its member picked as often as before?

sub picked_after {
    my ($end) = @_;

    who('PAIR') for 1 .. ASKED;
    wait_for { !grep { $_->counts->{open} } @pair } 10, 'all ends' or return;

    my $client = Line::Client->new($nginx->port('PORT_PAIR'));
    my $member;

    wait_for { ($member) = grep { $_->counts->{open} } @pair } 10, 'a member'
        or return;

    sleep(SILENT);
    $end->($client, $member);
    wait_for { !grep { $_->{conns} } members('pair') } 10, 'its end' or return;

    return scalar(grep { who('PAIR') eq $member->name } 1 .. ASKED);
}


ok($stall->again(STALLED, sub {
    picked_after(sub { $_[0]->close });
}), 'the end of a session by its client is no answer');

ok($stall->again(STALLED, sub {
    picked_after(sub { $_[1]->down; $_[1]->up });
}), 'the end of a session by the member is no answer');

finish();
