#!/usr/bin/perl

# Never two leaders: three nginxes campaign while they, and the members of an
# etcd cluster, are stopped, killed, reloaded, restarted, and cut off at random.
# TEST_SOAK=SECONDS: for so long; TEST_FAULTS='NAME,...': these faults only.
#
# Each nginx is asked all the time whether it leads, and by which token (the
# revision of its key).  An answer was given some time between its begin (it was
# asked for, and nginx has read the clock after that, $msec) and its arrival.
# Where one has arrived before another one was begun, the order of the two is
# certain: tokens must not go back then.  A former leader that says yes after
# the next one did so is found by that, however short it is.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use List::Util qw(max shuffle);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Cluster;
use Election;
use Finish;
use Http;
use Netns;
use Nginx;
use Process;
use Wait;

Netns::enter();

use constant {
    NGINXES => 3,
    TTL     => 2,
    PAUSE   => 0.01,
};

my $soak = $ENV{TEST_SOAK} || 60;
my $seed = $ENV{TEST_SEED} || int(rand(2 ** 31));

srand($seed);
diag("TEST_SEED=$seed") if $ENV{TEST_SOAK};

my $net = Netns->new(3, nginxes => NGINXES);
my $cluster = Cluster->new(3, places => [$net->places])->start();

my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    election ingress /elections/ingress value=%%NAME%% ttl=%%TTL%%s;
    connect_timeout 500ms;
}

http {
    server {
        listen %%HOST%%:%%PORT%%;

        location / {
            set $token $etcd_election_revision_ingress;
            return 200 "$msec $token $etcd_is_leader_ingress";
        }
    }
}

EOF_CONFIG

my @nginxes = map {
    my $nginx = Nginx->new(place => $_);

    $nginx->set(ETCD => $cluster->endpoints, NAME => "nginx$_->{number}",
                TTL => TTL);
    $nginx->start($config);
} $net->nginxes;


# who asks an nginx, and writes down "BEGUN ARRIVED TOKEN"

sub observe {
    my ($nginx, $file) = @_;

    my $parent = $$;
    my $pid = fork() // die "fork: $!\n";

    return $pid if $pid;

    @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;

    # on a kept connection: what is in it when a stopped worker goes on is read
    # before any timer of that worker is looked at

    my $http = $nginx->http;

    open(my $out, '>', $file) or POSIX::_exit(1);
    $out->autoflush(1);

    while (getppid() == $parent) {
        my $sent = time();
        my $answer = $http->get('/');
        my $arrived = time();

        print {$out} max($sent, $1), " $arrived $2\n"
            if ($answer->{body} // '') =~ /^([\d.]+) (\d+) 1$/;

        sleep(PAUSE);
    }

    POSIX::_exit(0);
}


sub answers {
    my ($file, $who) = @_;

    open(my $in, '<', $file) or die "open $file: $!\n";

    return map {
        my ($begun, $arrived, $token) = split;

        defined $token
            ? { who => $who, begun => $begun, arrived => $arrived,
                token => $token } : ();
    } <$in>;
}


# Does that with an etcd and the leader's key.  Without a majority, or with a
# leader whose lease has ended meanwhile, nothing can be done.

sub of_leader {
    my ($change) = @_;

    my $etcd = $cluster->any // return;

    eval {
        my $leader = Election->new($etcd, '/elections/ingress')->leader;

        $change->($etcd, $leader) if $leader;
        1;
    } or note("etcd: $@");
}


# What can be done; each gives back how it is undone, and when.
#
# An nginx that is cut off hears no more that it has lost: whether what it sends
# vanishes, or it is told at once that there is no way, and its connections with
# it.  It can be asked all the time.

my %faults = (
    'all workers stopped' => sub {
        my ($nginx) = @_;
        my @workers = $nginx->workers;

        $nginx->freeze($_) for @workers;
        return [TTL * 2.5, sub {
            for my $worker (shuffle(@workers)) {
                $nginx->thaw($worker);
                sleep(0.05);
            }
        }];
    },
    'one worker stopped' => sub {
        my ($nginx) = @_;
        my ($worker) = shuffle($nginx->workers);

        $nginx->freeze($worker);
        return [TTL + 1, sub { $nginx->thaw($worker) }];
    },
    'a worker killed' => sub {
        my ($nginx) = @_;
        my ($worker) = shuffle($nginx->workers);

        $nginx->kill_worker($worker) if $worker;
        return;
    },
    'nginx cut off' => sub {
        my ($nginx) = @_;

        $net->isolate($nginx->place);
        return [TTL * 2.5, sub { $net->rejoin($nginx->place) }];
    },
    'nginx without a link' => sub {
        my ($nginx) = @_;

        $nginx->place->hide;
        return [TTL * 2.5, sub { $nginx->place->show }];
    },
    'reload' => sub { kill('HUP', $_[0]->pid); return },
    'restart' => sub { $_[0]->quit; $_[0]->start; return },
    'fast restart' => sub { $_[0]->stop; $_[0]->start; return },
    'crash' => sub { $_[0]->crash; $_[0]->start; return },
    'lease revoked' => sub {
        of_leader(sub { $_[0]->revoke($_[1]{lease}) });
        return;
    },
    'key deleted' => sub {
        of_leader(sub { $_[0]->del($_[1]{key}) });
        return;
    },
    'etcd killed' => sub {
        my ($etcd) = shuffle(grep { $_->pid } $cluster->members);

        $etcd->kill;
        return [1, sub { $cluster->revive }];
    },
    'etcd stopped' => sub {
        my ($etcd) = shuffle(grep { $_->pid } $cluster->members);

        $etcd->freeze;
        return [TTL + 1, sub { $etcd->thaw }];
    },
    'etcd cut off' => sub {
        my ($etcd) = shuffle($cluster->members);

        $net->isolate($etcd->place);
        return [TTL + 2, sub { $net->rejoin($etcd->place) }];
    },
    'all of etcd hidden' => sub {
        $_->place->hide for $cluster->members;
        return [TTL + 1, sub { $_->place->show for $cluster->members }];
    },
);


sub says_yes {
    my ($nginx) = @_;

    return ($nginx->get('/')->{body} // '') =~ / 1$/;
}

sub leaders { grep { says_yes($_) } @nginxes }


ok(wait_for(sub { leaders() == 1 }, 20), 'one of them leads');

my @files = map { test_dir() . "/answers$_" } 1 .. NGINXES;
my @observers = map { observe($nginxes[$_], $files[$_]) } 0 .. NGINXES - 1;

my $end = time() + $soak;
my @names = $ENV{TEST_FAULTS} ? split(/, */, $ENV{TEST_FAULTS}) : keys %faults;
my @first = $ENV{TEST_FAULTS} ? @names
    : ('all workers stopped', 'nginx cut off', 'all of etcd hidden',
       'nginx without a link', 'all workers stopped');
my @deck = @first;
my (%done, @unheard, @leading);

# one fault at a time in etcd, which has to have a majority now and then; the
# first ones meet who leads

while (time() < $end) {
    @deck = shuffle(@names) if !@deck;

    my $name = shift(@deck);
    my ($nginx) = (@first || rand() < 0.7 ? leaders() : (),
                   shuffle(@nginxes));

    shift(@first);

    my $undo = $faults{$name}->($nginx);

    $done{$name}++;
    sleep(rand(0.7));

    if ($undo) {

        # and something else meanwhile

        sleep($undo->[0] / 2);

        my ($other) = shuffle(grep { $_ != $nginx || $name =~ /^nginx/ }
                              @nginxes);
        my ($second) = shuffle('reload', 'a worker killed');

        $faults{$second}->($other);
        $done{$second}++;

        sleep($undo->[0] / 2);

        if ($name =~ /^nginx/) {
            my $answer = $nginx->get('/');

            push @unheard, "$name: $answer->{error}" if !$answer->{status};
            push @leading, $name if $answer->{body} =~ / 1$/;
        }

        $undo->[1]->();
    }
}

ok(wait_for(sub { leaders() == 1 }, 30), 'one of them leads in the end');

kill('TERM', @observers);
waitpid($_, 0) for @observers;

my @answers = map { answers($files[$_], "nginx" . ($_ + 1)) } 0 .. NGINXES - 1;
my (%holder, @shared);

for (@answers) {
    my $holder = $holder{$_->{token}} //= $_->{who};

    push @shared, "$_->{token}: $holder, $_->{who}" if $holder ne $_->{who};
}

is("@shared", '', 'every token is of one nginx');

# in the order in which they were begun: the highest that had arrived by then

my @arrived = sort { $a->{arrived} <=> $b->{arrived} } @answers;
my ($highest, @late) = ({ token => 0 });

for my $answer (sort { $a->{begun} <=> $b->{begun} } @answers) {

    while (@arrived && $arrived[0]{arrived} < $answer->{begun}) {
        my $before = shift(@arrived);

        $highest = $before if $before->{token} > $highest->{token};
    }

    push @late, sprintf('%s said yes with %d in %.3f..%.3f, after %s with %d '
                        . 'in %.3f..%.3f', (map { @$_{qw(who token begun
                                                         arrived)} }
                                            $answer, $highest))
        if $answer->{token} < $highest->{token};
}

is("@unheard", '', 'who was cut off could be asked');
is("@leading", '', 'and did not lead');
is(join("\n", splice(@late, 0, 10)), '', 'tokens only grow')
    or diag("TEST_SEED=$seed");

cmp_ok(scalar(@answers), '>', $soak * 10, 'there were answers');
cmp_ok(scalar(keys %holder), '>=', 3, 'and changes of leaders');

diag(join(', ', map { "$_: $done{$_}" } sort keys %done), '; ',
     scalar(@answers), ' answers, ', scalar(keys %holder), ' leaders')
    if $ENV{TEST_SOAK};

finish();
