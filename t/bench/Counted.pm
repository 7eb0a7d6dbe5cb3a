package Counted;

# An nginx of one process in valgrind, whose instructions are counted: they are
# the same on a busy machine and on another one.

use strict;
use warnings;

use Bench;
use Finish;
use Process;
use Wait;

use constant CLOCK => qr/^(?:ngx_event_expire_timers|ngx_time_update)\b/;


# The configuration is written, with "daemon off" and "master_process off".

sub start {
    my ($class, $nginx) = @_;

    my $self = bless { out => $nginx->dir . '/callgrind' }, $class;
    my @command = $nginx->command('error.log');

    # valgrind does not look into PATH.

    my ($path) = grep { -x } map { "$_/$command[0]" } '',
        split(/:/, $ENV{PATH});

    $command[0] = $path // $command[0];
    Finish::later($nginx);

    $self->{pid} = spawn($nginx->dir . '/valgrind.log', 'valgrind',
                         '--tool=callgrind',
                         "--callgrind-out-file=$self->{out}",
                         '--instr-atstart=no', @command);

    wait_for { $nginx->{pid} = $nginx->read_pid() } 60, 'nginx.pid'
        or die "nginx did not start in valgrind\n";

    return $self;
}


sub pid { $_[0]{pid} }


# Instructions per request: the function makes so many requests.

sub instructions {
    my ($self, $requests, $make) = @_;

    # The first requests fill caches; the start is not counted, for it takes
    # long enough.

    run('callgrind_control', '-i', 'on', $self->{pid});
    $make->(100);
    unlink(glob("$self->{out}.*"));

    run('callgrind_control', '-z', $self->{pid});
    $make->($requests);
    run('callgrind_control', '-d', $self->{pid});
    run('callgrind_control', '-i', 'off', $self->{pid});

    my ($dump) = glob("$self->{out}.*") or die "callgrind has no figures\n";

    return counted(slurp($dump)) / $requests;
}


# All instructions of a dump, without those of calls to CLOCK.  A function is
# "fn=(5) NAME" when it is met first and "fn=(5)" later; the cost of a call with
# all that it calls is on the line after "calls=".

sub counted {
    my ($dump) = @_;

    my ($sum) = $dump =~ /^totals: (\d+)/m;
    my %names = $dump =~ /^c?fn=(\(\d+\)) (.+)$/mg;

    while ($dump =~ /^cfn=(\(\d+\)).*\ncalls=.*\n\S+ (\d+)$/mg) {
        my ($name, $cost) = ($names{$1}, $2);

        $sum -= $cost if $name =~ CLOCK;
    }

    return $sum;
}


1;
