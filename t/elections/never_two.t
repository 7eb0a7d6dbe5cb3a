#!/usr/bin/perl

# Never two leaders: three nginxes campaign while storms of faults (see Storm)
# meet them, and the members of an etcd cluster.
#
# TEST_SOAK=SECONDS: for so long; TEST_SEED: repeats the storms of another run;
# TEST_FAULTS='NAME,...': these faults only.
#
# Each nginx is asked all the time whether it leads, and by which token (the
# revision of its key).  An answer was given some time between its begin (it was
# asked for, and nginx has read the clock after that, $msec) and its arrival.
# Where one has arrived before another one was begun, the order of the two is
# certain: tokens must not go back then.  A former leader that says yes after
# the next one did so is found by that, however short it is.
#
# Requests with a token, of those that "etcd_require_leader" lets in, and of
# those that go to the leader by "etcd_leader", reach the token's nginx alone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Cluster;
use Election;
use Finish;
use Http;
use Linearizability;
use Netns;
use Nginx;
use Process;
use Storm;
use Wait;

Netns::enter();

use constant {
    NGINXES => 3,
    TTL     => 2,
    PAUSE   => 0.01,
    LEADING => 0.7,     # the share of faults that meet a leader
    LATE    => 1.5,     # TTLs after which an nginx that is cut off is out
    CALM    => 25,      # seconds until an nginx leads again
};

my $soak = $ENV{TEST_SOAK} || 60;
my $seed = $ENV{TEST_SEED} || ($ENV{TEST_SOAK} ? int(rand(2 ** 31)) : 7);

srand($seed);
diag("TEST_SEED=$seed") if $ENV{TEST_SOAK};

my $net = Netns->new(3, nginxes => NGINXES);
my $cluster = Cluster->new(3, places => [$net->places])->start();

my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    election ingress /elections/ingress value=%%HOST%%:%%PORT%% ttl=%%TTL%%s;
    connect_timeout 500ms;
}

http {
    upstream leader {
        etcd_leader /elections/ingress;
    }

    proxy_connect_timeout 500ms;
    proxy_read_timeout 2s;

    server {
        listen %%HOST%%:%%PORT%%;

        location / {
            set $token $etcd_election_revision_ingress;
            return 200 "$msec $token $etcd_is_leader_ingress";
        }

        location = /required {
            etcd_require_leader ingress;
            proxy_set_header X-Token $etcd_election_revision_ingress;
            proxy_pass http://%%HOST%%:%%PORT%%/reached;
        }

        location = /leader {
            proxy_set_header X-Token $etcd_member_revision;
            proxy_pass http://leader/reached;
        }

        location = /reached {
            return 200 "%%NAME%% $http_x_token";
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


# a process that calls ask() all the time, and writes down the results

sub observe {
    my ($file, $ask) = @_;

    my $parent = $$;
    my $pid = fork() // die "fork: $!\n";

    return $pid if $pid;

    @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;

    open(my $out, '>', $file) or POSIX::_exit(1);
    $out->autoflush(1);

    while (getppid() == $parent) {
        print {$out} $ask->();
        sleep(PAUSE);
    }

    POSIX::_exit(0);
}


# "BEGUN ARRIVED TOKEN"; on a kept connection: requests that are in it when a
# stopped worker goes on are read before any timer of that worker.

sub observe_leader {
    my ($nginx, $file) = @_;

    my $http = $nginx->http;

    return observe($file, sub {
        my $sent = time();
        my $answer = $http->get('/');
        my $arrived = time();

        return ($answer->{body} // '') =~ /^([\d.]+) (\d+) 1$/
            ? (max($sent, $1), " $arrived $2\n") : ();
    });
}


# "PATH WHO TOKEN": the server that got a request with that token

sub observe_requests {
    my ($nginx, $file) = @_;

    my @paths = qw(required leader);

    return observe($file, sub {
        my $path = shift @paths;

        push @paths, $path;

        my $answer = $nginx->get("/$path");

        return ($answer->{body} // '') =~ /^(nginx\d+) (\d+)$/
            ? "$path $1 $2\n" : ();
    });
}


# whole lines

sub observed {
    my ($file) = @_;

    open(my $in, '<', $file) or die "open $file: $!\n";

    return map { [split] } grep { /\n\z/ } <$in>;
}


sub answers {
    my ($file, $who) = @_;

    return map { { who => $who, begun => $_->[0], arrived => $_->[1],
                   token => $_->[2] } } observed($file);
}


# Calls the code with an etcd and the leader's key.  Without a majority, or with
# a leader whose lease has ended meanwhile, nothing can be done.

sub of_leader {
    my ($change) = @_;

    my $etcd = $cluster->any // return;

    eval {
        my $leader = Election->new($etcd, '/elections/ingress')->leader;

        $change->($etcd, $leader) if $leader;
        1;
    } or note("etcd: $@");
}


# A key that somebody else takes from a leader makes the next one lead, whenever
# the former leader hears of it: no lease protects from that.  Its answers from
# then on prove nothing.

my %taken;

sub take { $taken{ $_[0]{create_revision} } //= time() }

sub is_proof {
    my ($answer) = @_;

    my $taken = $taken{ $answer->{token} };

    return !defined $taken || $answer->{begun} < $taken;
}


# An nginx that is cut off does not hear that it has lost its key: its packets
# vanish, or it is told at once that there is no way, and its connections end.
# It can be asked all the time.

my (@unheard, @leading, %cut, %stopped);

sub cut_off {
    my ($nginx, $cut, $rejoin) = @_;

    my $number = $nginx->place->{number};

    return if $cut{$number};

    $cut{$number} = 1;
    $cut->();

    my $from = time();

    return sub {
        my $asked = time();
        my $answer = $stopped{$number} ? undef : $nginx->get('/');

        push @unheard, $answer->{error} if $answer && !$answer->{status};
        push @leading, $number
            if $answer && $asked - $from > LATE * TTL
               && $answer->{body} =~ / 1$/;

        $rejoin->();
        delete $cut{$number};
    };
}


# a leader, or the nginx that the seed draws

sub target {
    my ($n, $draw) = @_;

    my ($leader) = $draw < LEADING ? leaders() : ();

    return $leader // $nginxes[$n];
}


sub stop_workers {
    my ($nginx, @workers) = @_;

    my $number = $nginx->place->{number};

    $nginx->freeze($_) for @workers;
    $stopped{$number}++;

    return sub {
        $stopped{$number}--;

        for my $worker (@workers) {
            $nginx->thaw($worker);
            sleep(0.05);
        }
    };
}


my %faults = (
    'all workers stopped' => [TTL * 4, sub {
        my $nginx = target(@_[1, 2]);

        return stop_workers($nginx, $nginx->workers);
    }],
    'one worker stopped' => [TTL * 3, sub {
        my $nginx = target(@_[1, 2]);
        my ($worker) = $nginx->workers or return;

        return stop_workers($nginx, $worker);
    }],
    'a worker killed' => [0, sub {
        my $nginx = target(@_[1, 2]);
        my ($worker) = $nginx->workers or return;

        $nginx->kill_worker($worker);
        return;
    }],
    'nginx cut off' => [TTL * 4, sub {
        my $nginx = target(@_[1, 2]);

        return cut_off($nginx, sub { $net->isolate($nginx->place) },
                       sub { $net->rejoin($nginx->place) });
    }],
    'nginx without a link' => [TTL * 4, sub {
        my $nginx = target(@_[1, 2]);

        return cut_off($nginx, sub { $nginx->place->hide },
                       sub { $nginx->place->show });
    }],
    'reload' => [0, sub { kill('HUP', target(@_[1, 2])->pid); return }],
    'restart' => [0, sub {
        my $nginx = target(@_[1, 2]);

        # In the middle of a reload nginx itself complains of connections that
        # it leaves.

        $nginx->children == $nginx->workers or return;
        $nginx->quit;
        $nginx->start;
        return;
    }],
    'fast restart' => [0, sub {
        my $nginx = target(@_[1, 2]);

        $nginx->children == $nginx->workers or return;
        $nginx->stop;
        $nginx->start;
        return;
    }],
    'crash' => [0, sub {
        my $nginx = target(@_[1, 2]);

        $nginx->crash;
        $nginx->start;
        return;
    }],
    'lease revoked' => [0, sub {
        of_leader(sub { take($_[1]); $_[0]->revoke($_[1]{lease}) });
        return;
    }],
    'key deleted' => [0, sub {
        of_leader(sub { take($_[1]); $_[0]->del($_[1]{key}) });
        return;
    }],
    'all of etcd hidden' => [TTL * 3, sub {
        $_->place->hide for $cluster->members;
        return sub { $_->place->show for $cluster->members };
    }],
);


sub says_yes {
    my ($nginx) = @_;

    return ($nginx->get('/')->{body} // '') =~ / 1$/;
}

sub leaders { grep { says_yes($_) } @nginxes }


ok(wait_for(sub { leaders() == 1 }, 20), 'one of them leads');

my @files = map { test_dir() . "/answers$_" } 1 .. NGINXES;
my @observers = map { observe_leader($nginxes[$_], $files[$_]),
                      observe_requests($nginxes[$_], "$files[$_].requests") }
                0 .. NGINXES - 1;

my (@slow, @leaderless);

my $storm = Storm->new(
    seed    => $seed,
    cluster => $cluster,
    net     => $net,
    nginxes => NGINXES,
    faults  => \%faults,
    calm    => sub {
        my ($from) = @_;

        push @leaderless, sprintf('%.3f', $from)
            if !wait_for { leaders() == 1 } CALM, 'somebody to lead';
        push @slow, time() - $from;
    },
);

$storm->rage($soak, $ENV{TEST_FAULTS} ? () :
             (['all workers stopped', 'a worker killed'],
              ["the leader's disk stands still", 'reload'],
              ['nginx cut off', 'all workers stopped'],
              ['all of etcd hidden'],
              ['nginx without a link', 'etcd leader moved']));

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

# servers that requests with a token have reached

my (%reached, @astray);

for (map { observed("$_.requests") } @files) {
    my ($path, $who, $token) = @$_;
    my $holder = $holder{$token} //= $who;

    $reached{$path}++;
    push @astray, "$path: $token of $holder reached $who" if $holder ne $who;
}

is("@astray[0 .. ($#astray < 9 ? $#astray : 9)]", '',
   'requests with a token reach its nginx alone') or diag("TEST_SEED=$seed");
cmp_ok($reached{$_} // 0, '>', $soak, "/$_: there were requests")
    for qw(required leader);

@answers = grep { is_proof($_) } @answers;

# In the order in which requests were begun: the highest token that had arrived
# by then.

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

my $late = @late;

is(join("\n", @unheard), '', 'who was cut off could be asked');
is("@leading", '', 'and did not lead');
is(join("\n", splice(@late, 0, 10)), '', 'tokens only grow')
    or diag("TEST_SEED=$seed");
is("@leaderless", '', 'somebody leads after each storm')
    or diag("TEST_SEED=$seed");


# The first answer of each term that has arrived, and the last one that was
# begun: if these are in order, so are all between them.

sub operations {
    my %terms;

    push @{ $terms{"$_->{who} $_->{token}"} }, $_ for @_;

    return map { { %$_, what => 'lead', call => $_->{begun},
                   return => $_->{arrived} } } map {
        my @term = @$_;
        my ($first) = sort { $a->{arrived} <=> $b->{arrived} } @term;
        my ($last) = sort { $b->{begun} <=> $a->{begun} } @term;

        ($first, $last);
    } values %terms;
}


is(Linearizability::check(Linearizability::election(), operations(@answers)),
   undef, 'the history is linearizable') or diag("TEST_SEED=$seed");

cmp_ok(scalar(@answers), '>', $soak * 10, 'there were answers');
cmp_ok(scalar(keys %holder), '>=', 3, 'and changes of leaders');

my $summary = join("\n", $storm->summary, "TEST_SEED=$seed",
                   map { sprintf('%-66s %s', @$_) }
                   ['answers of former leaders', $late],
                   ['tokens of two leaders', scalar(@shared)],
                   ['requests that reached another one than the token\'s',
                    scalar(@astray)],
                   ['requests with a token', $reached{required}
                                             + $reached{leader}],
                   ['answers', scalar(@answers)],
                   ['leaders', scalar(keys %holder)],
                   ['seconds until somebody led after the last fault',
                    sprintf('%.3f', max(@slow))]);

$ENV{TEST_SOAK} ? diag($summary) : note($summary);

finish();
