#!/usr/bin/perl

# conf-examples/lock-serve.conf, and with_lock.sh: a command runs while its
# lock is held, and no longer.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Example;
use Finish;
use Lock;
use Nginx;
use Process;
use Slurp;
use Wait;

use constant {
    NOT_GOT => 75,
    LOST    => 76,
};

my $etcd = Etcd->new()->start();
my $text = Example::text('lock-serve', 'etcd');

# A lease that ends in no test but the last ones, and pings that come often.

my $short = $text =~ s/lock_ttl 20s/lock_ttl 8s/r;

ok($text =~ s/lock_ttl 20s/lock_ttl 600s/, 'the example has a TTL');
s/(?=        location)/        location = \/status { etcd_status; }\n/,
    s/etcd_lock_serve_ping \S+;/etcd_lock_serve_ping 100ms;/g
    for $text, $short;
like($text, qr/etcd_lock_serve_ping 100ms/, 'and pings');

my $nginx = Nginx->new(etcd => $etcd)->start("worker_processes 1;\n$text");
my $lock = Lock->new($nginx, $etcd);
my $dir = test_dir();
my $with_lock = "$FindBin::Bin/../../conf-examples/with_lock.sh";
my $started = 0;


# A command that says its process, and waits until it is told to end: it ends
# with 0 by TERM, or goes on, and has a child in any case.

sub write_script {
    my ($name, $script) = @_;

    open(my $file, '>', "$dir/$name") or die "$name: $!\n";
    print $file $script;
    close($file) or die "$name: $!\n";
}

write_script('gentle', <<'END');
trap 'echo stopped >"$1.stopped"; exit 0' TERM
sleep 600 &
echo $! >"$1.child"
echo "$ETCD_LOCK_TOKEN" >"$1.new"
mv "$1.new" "$1.runs"
wait
END

write_script('stubborn', <<'END');
trap 'echo stopped >"$1.stopped"' TERM
echo $$ >"$1.child"
echo "$ETCD_LOCK_TOKEN" >"$1.new"
mv "$1.new" "$1.runs"
while [ ! -e "$1.end" ]; do sleep 0.1; done
END

write_script('script', <<'END');
. "$1"
shift
trap : HUP INT QUIT TERM
set -eu
(set -o pipefail) 2>/dev/null && set -o pipefail
with_lock "$@" || { echo "status $?"; exit 0; }
echo 'status 0'
END


# Starts a script that runs a command under the lock.

sub with_lock {
    my ($shell, $command, %environment) = @_;

    my $name = "$dir/run" . ++$started;
    my $uri = delete($environment{URI}) // '/run/nightly';

    local @ENV{keys %environment} = values %environment;

    # a process group of its own

    my $pid = spawn("$name.log", 'setsid', $shell, "$dir/script", $with_lock,
                    'http://127.0.0.1:' . $nginx->port . $uri,
                    ref($command) ? @$command
                                  : ('sh', "$dir/$command", $name));

    return { name => $name, pid => $pid };
}


# a signal for all processes of the script, as of timeout or a terminal

sub signals { kill($_[1], -$_[0]{pid}) or die "kill: $!\n" }


# Nothing of the script is left.

sub is_over {
    my ($run, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $left = sub {
        return grep { getpgrp($_) == $run->{pid} && is_running($_) }
               map { m{(\d+)$} } glob('/proc/[1-9]*');
    };

    return ok(wait_for(sub { !$left->() }, 20, 'all to end'), $what)
        || diag(map { "left: $_ " . slurp("/proc/$_/cmdline") =~ tr/\0/ /r
                      . "\n" } $left->());
}


sub runs {
    my ($run) = @_;

    return wait_for { -e "$run->{name}.runs" } 20, 'the command';
}


sub child { slurp("$_[0]{name}.child") =~ s/\n//r }


# the status of with_lock, which the script has said at its end

sub ended {
    my ($run) = @_;

    local $?;

    wait_for { waitpid($run->{pid}, POSIX::WNOHANG) != 0 } 30, 'the script'
        or return 'none';

    return (slurp("$run->{name}.log") =~ /status (\d+)/)[0] // 'no status';
}


sub is_free {
    my ($what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $lock->gone('/locks/nightly', $what);
}


for my $shell ('sh', grep { (run('which', $_))[0] == 0 } 'bash') {

    # The command ends.

    is(ended(with_lock($shell, ['true'])), 0, "$shell: a command that is done");

    my $run = with_lock($shell, ['sh', '-c', 'echo "token $ETCD_LOCK_TOKEN"; '
                                             . 'exit 7']);

    is(ended($run), 7, "$shell: the status of the command");
    like(slurp("$run->{name}.log"), qr/^token \d+$/m, "$shell: and its output");
    is_free("$shell: the lock is free at its end");

    # The lock is held.

    $run = with_lock($shell, 'gentle');
    ok(runs($run), "$shell: a command");
    is(slurp("$run->{name}.runs"),
       ($etcd->list('/locks/nightly/'))[0]{create_revision} . "\n",
       "$shell: which has the token");

    my $other = with_lock($shell, ['touch', "$dir/other"]);

    is(ended($other), NOT_GOT, "$shell: another one does not get the lock");
    ok(!-e "$dir/other", "$shell: and does not run");
    like(slurp("$other->{name}.log"), qr/423/, "$shell: curl says why");

    # The lock is lost.

    $etcd->del(($lock->keys('/locks/nightly'))[0]);
    is(ended($run), LOST, "$shell: the lock is lost");
    ok(-e "$run->{name}.stopped", "$shell: the command was stopped");
    ok(wait_for(sub { !is_running(child($run)) }, 10),
       "$shell: and what it had started");

    $run = with_lock($shell, 'stubborn', WITH_LOCK_GRACE => 1);
    runs($run);
    $etcd->del(($lock->keys('/locks/nightly'))[0]);
    is(ended($run), LOST, "$shell: a command that ignores TERM");
    ok(!is_running(child($run)), "$shell: is killed");
    is_free("$shell: the lock is free again");

    # A worker of nginx is killed.

    $run = with_lock($shell, 'gentle');
    runs($run);
    $nginx->kill_worker(($nginx->workers)[0]);
    is(ended($run), LOST, "$shell: nginx is killed: the lock is lost");
    $etcd->revoke($_) for $etcd->leases;

    # The script ends before its command: the lock does not.

    $run = with_lock($shell, 'stubborn');
    runs($run);
    stop_child($run->{pid}, 'KILL');
    is(scalar($lock->keys('/locks/nightly')), 1,
       "$shell: the script is killed, the lock stays");
    write_script("run$started.end", '');
    is_free("$shell: until the command ends");
    is_over($run, "$shell: and nothing is left");

    # All processes of the script get a signal, and the command takes its time.

    for my $signal (qw(HUP INT QUIT TERM)) {
        $run = with_lock($shell, 'stubborn', WITH_LOCK_GRACE => 1);
        runs($run);
        signals($run, $signal);
        ok(wait_for(sub { -e "$run->{name}.stopped" }, 10, 'TERM'),
           "$shell, $signal: the command is told by TERM");
        is(ended(with_lock($shell, ['touch', "$dir/other"])), NOT_GOT,
           "$shell, $signal: it has the lock until it ends");
        ok(!-e "$dir/other", "$shell, $signal: alone");
        write_script("run" . ($started - 1) . '.end', '');
        is(ended($run), $signal eq 'INT' ? 130 : 0,
           "$shell, $signal: the status of the command");
        is_over($run, "$shell, $signal: nothing is left");
        is_free("$shell, $signal: the lock is free");

        # The script still waits for the lock.

        my $key = '/locks/indexer/0';

        $etcd->put($key, '');
        $run = with_lock($shell, ['touch', "$dir/other"],
                         URI => '/lead/indexer');
        $lock->waits('/locks/indexer', 1, "$shell, $signal: a script waits");
        signals($run, $signal);
        is(ended($run), $signal eq 'INT' ? 130 : NOT_GOT,
           "$shell, $signal: it waits no more");
        is_over($run, "$shell, $signal: nothing is left");
        $etcd->del($key);
        $lock->gone('/locks/indexer', "$shell, $signal: the lock is free");
        ok(!-e "$dir/other", "$shell, $signal: the command did not run");
    }

    # The lock is lost while the command takes its time.

    for my $signal (qw(HUP TERM)) {
        $run = with_lock($shell, 'stubborn', WITH_LOCK_GRACE => 1);
        runs($run);
        signals($run, $signal);
        wait_for { -e "$run->{name}.stopped" } 10, 'TERM';
        $etcd->del(($lock->keys('/locks/nightly'))[0]);
        is(ended($run), LOST, "$shell, $signal: then the lock is lost");
        ok(!is_running(child($run)), "$shell, $signal: it is killed");
        is_over($run, "$shell, $signal: nothing is left");
    }
}


# nginx stands still: the command has stopped before etcd gives the lock to
# others, which is some seconds later.

$nginx->reload("worker_processes 1;\n$short", gone => 1);

my $run = with_lock('sh', 'gentle', WITH_LOCK_MARGIN => 4);

runs($run);

my ($worker) = $nginx->workers;

$nginx->freeze($worker);
ok(wait_for(sub { -e "$run->{name}.stopped" }, 30, 'the command stops'),
   'nginx stands still: the command is stopped');
is(scalar(() = $lock->keys('/locks/nightly')), 1, 'while its key is there');
is(ended($run), LOST, 'the lock is lost');
$nginx->thaw($worker);
is_free('nginx goes on, the lock is free');

# etcd is cut off.

$run = with_lock('sh', 'gentle');
runs($run);
$etcd->freeze;
is(ended($run), LOST, 'etcd is cut off: the lock is lost');
$etcd->thaw;

# nginx is not there.

$nginx->quit;
is(ended(with_lock('sh', ['true'])), NOT_GOT, 'no nginx, no lock');

finish();
