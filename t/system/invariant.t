#!/usr/bin/perl

# The invariant that other tests rely on finds what it is meant to find.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Chaos;
use Etcd;
use Fault;
use Finish;
use Invariant;
use Nginx;
use Wait;

use constant {
    SECONDS   => 4,
    DELETIONS => 12,
    STOPPED   => 3,
    TRIES     => 5,
};

my $slower = $ENV{TEST_SLOWER} || 1;

# Invented requests: a member is deleted at 100, revision 7, and put again at
# 200.

my $late = 0.1 * $slower;
my $judge = bless { late => $late }, 'Invariant';
my $deleted = Invariant::deletions(
    { '/s/1' => 'A', '/s/2' => 'B', '/s/3' => 'C' },
    { key => '/s/1', op => 'put', sent => 98, done => 99, revision => 6 },
    { key => '/s/1', op => 'del', sent => 99.9, done => 100, revision => 7 },
    { key => '/s/2', op => 'del', sent => 100, done => 101, revision => 8 },
    { key => '/s/1', op => 'put', sent => 200, done => 201, revision => 9 },
    { key => '/s/2', op => 'put', sent => 299, done => 300, revision => 10 },
    { key => '/s/2', op => 'del', sent => 299, done => 300.5, revision => 11 },
    { key => '/s/2', op => 'put', sent => 310, done => 311, revision => 12 },
    { key => '/s/3', op => 'del', sent => 312, done => 313, revision => 13 },
    { op => 'lost', done => 314 },
    { key => '/s/3', op => 'put', sent => 315.5, done => 316, revision => 8 },
    { key => '/s/3', op => 'del', sent => 319, done => 320, revision => 9 },
);

# name, begin, staleness, revision, addresses, fault

for (['before', 99.95, 0.01, 6, 'A', ''],
     ['soon after', 100 + $late / 2, 0.01, 6, 'A', ''],
     ['late', 100 + 3 * $late, 0.01, 6, 'A', 'before'],
     ['late, as the second one', 100 + 3 * $late, 0.01, 6, 'D, A', 'before'],
     ['late, and stale', 100 + 3 * $late, 3 * $late, 6, 'A', ''],
     ['much later, and stale', 120, 19, 6, 'A', 'before'],
     ['just after, but known', 100.01, 0.01, 7, 'A', 'which nginx knew'],
     ['stale, but known', 150, 50, 8, 'A', 'which nginx knew'],
     ['another member', 150, 0.01, 7, 'D', ''],
     ['for ever', 250, 0.01, 6, 'B', 'before'],
     ['put again', 200, 0.01, 8, 'A', ''],
     ['put again, later', 210, 0.01, 9, 'A', ''],
     ['deleted anew', 300.6 + 2 * $late, 0.01, 10, 'B', 'before'],
     ['lost', 315, 0.01, 12, 'C', ''],
     ['lost, and deleted anew', 320.01, 0.02, 9, 'C', 'which nginx knew'],
     ['of before the loss', 320.01, 6.02, 13, 'C', ''],
     ['nobody', 150, 0.01, 6, '-', ''])
{
    my ($name, $begin, $staleness, $revision, $addresses, $wrong) = @$_;

    my $line = $begin + 0.001 . " 0.001 200 $revision $staleness $addresses\n";
    my ($request) = Invariant::parse($line);

    like($judge->judge($request, $deleted) // '', $wrong ? qr/$wrong/ : qr/^$/,
         "a request $name: " . ($wrong ? 'found' : 'fine'));
}

like($judge->judge(Invariant::parse("150 0.001 502 7 0.010 A\n"), $deleted),
     qr/^failed/, 'a request that fails: found');

# writes lines of a log

sub logged {
    my ($n, $apart, $level, $text) = @_;

    return map { my $s = $_ * $apart;
                 sprintf('2026/01/01 10:%02d:%02d [%s] %s', $s / 60, $s % 60,
                         $level, $text =~ s/N/$_/gr) } 1 .. $n;
}

my @flood = Fault::floods(logged(11, 5, 'error', 'N#1: one'),
                          logged(10, 1, 'warn', 'N#1: ten'),
                          logged(20, 7, 'error', 'N#1: rare'),
                          logged(50, 1, 'info', 'N#1: info'));

is_deeply(\@flood, ['11 times: N#N: one'], 'more than ten lines in a minute');

# Three nginxes: one follows etcd, one follows too late, one does not.

my $etcd = Etcd->new()->start();
my @backends = Backend->start(5);
my %members = map { ("/s/$_" => $backends[$_]->address) } 1 .. 4;
my $chaos = Chaos->start($etcd->port);
my $static = join(' ', map { 'server ' . $_->address . ';' } @backends);

$etcd->put('/s/0', $backends[0]->address);


sub watching {
    my ($upstream) = @_;

    my $nginx = Nginx->new()->set(
        ETCD => $chaos->endpoints, API => $upstream,
        FORMAT => Invariant::FORMAT, STALE => Invariant::STALE,
    )->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;

    # what is delayed is not to be given up

    connect_timeout 20s;
    request_timeout 60s;
    ping_timeout 20s;
}

http {
    %%FORMAT%%

    upstream watched {
        etcd_members /s/;
    }

    upstream static {
        %%API%%
    }

    upstream api {
        %%API%%
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/requests.log invariant;

        location / {
            %%STALE%%
            proxy_pass http://api;
        }

        location /status {
            etcd_status;
            access_log off;
        }
    }
}

EOC

    ok(wait_for(sub {
        (($nginx->status // {})->{clusters}{default}{state} // '') eq 'synced'
    }, 20), 'an nginx that has its members');

    return $nginx;
}


sub found {
    my ($upstream) = @_;

    my $nginx = watching($upstream);
    my $invariant = Invariant->start($nginx, [$etcd], \%members);
    my $end = time() + SECONDS * $slower;

    # the measured time, which goes on until enough was found

    sleep(0.1) while time() < $end;

    my @deleted;

    wait_for {
        @deleted = grep { $_->{op} eq 'del' } $invariant->writer->history;
        @deleted >= DELETIONS
    } 60, 'deletions';

    my $seen = $invariant->look();

    $_->stop() for @{ $invariant->{loads} }, $invariant->writer, $nginx;

    cmp_ok($seen->{requests}, '>', 50, 'there were requests');
    cmp_ok(scalar(@deleted), '>', 3, 'and deletions');

    return @{ $seen->{found} };
}


is(join("\n", found('etcd_members /s/;')), '', 'nothing is found in order');

cmp_ok(scalar(grep { /which nginx knew/ } found($static)), '>', 10,
       'members that are not removed are found');

$chaos->set(delay => 0.3 * $slower);
cmp_ok(scalar(grep { / s before: / } found('etcd_members /s/;')), '>', 3,
       'so are those that are removed too late');

# An nginx that stops serving is found; if a control is not served either, it is
# not nginx's fault.

{
    my $nginx = watching('etcd_members /s/;');
    my $invariant = Invariant->start($nginx, [], {},
                                     servers => [$backends[0]->address]);
    my $control = $invariant->control;

    # the longest gap in which these workers do not answer, and the control does

    my $gap = sub {
        my (@stopped) = @_;

        wait_for { $invariant->look()->{requests} } 20, 'requests';

        Nginx->freeze($_) for @stopped;
        sleep(STOPPED);
        Nginx->thaw($_) for @stopped;

        my $answered = $control->answers();
        my $seen = $invariant->look();

        wait_for {
            my $more = $invariant->look();
            $seen->{gap} = $more->{gap} if $more->{gap} > $seen->{gap};
            $control->answers() > $answered + 5 && $more->{requests} > 5;
        } 20, 'requests';

        return $seen->{gap};
    };

    my $alone = 0;

    # The control is not served for a time either, if the machine stands still.

    for (1 .. TRIES) {
        last if ($alone = $gap->($nginx->workers)) > STOPPED / 2;
    }

    cmp_ok($alone, '>', STOPPED / 2, 'an nginx that stops');
    cmp_ok($gap->($nginx->workers, $control->nginx->workers), '<', STOPPED / 2,
           'a machine that stops');

    $control->finished();
    $nginx->stop();
}

# etcd loses changes, and the writer notices, also when it has nothing to
# change.

for my $idle (0, 1) {
    my $writer = Writer->start([$etcd], \%members);
    my $changes = sub { my @all = $writer->history; scalar(@all) };

    wait_for { $changes->() > 5 } 10, 'changes';
    $writer->pause();
    is($writer->revision, $etcd->revision, 'the last change is known');

    my $snapshot = $etcd->save();
    my $before = $changes->();

    $writer->resume();
    wait_for { $changes->() > $before + 5 } 10, 'changes to be lost';
    $writer->pause() if $idle;
    $etcd->restore($snapshot);
    $writer->pause() if $idle;

    my $lost = sub { scalar(grep { $_->{op} eq 'lost' } $writer->history) };

    ok($idle ? $lost->() == 1 : wait_for(sub { $lost->() }, 20),
       $idle ? 'also by a writer that pauses, at once'
             : 'a cluster that lost changes is noticed');
    is($writer->revision, 0, 'nothing is known of it then') if $idle;

    $writer->resume();
    $before = $changes->();
    ok(wait_for(sub { $changes->() > $before + 5 }, 10),
       'and changed again');
    $writer->stop();
}

finish();
