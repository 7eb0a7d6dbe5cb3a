#!/usr/bin/perl

# Instructions of the worker per proxied request, by method and number of
# members: etcd_balance beside nginx's own methods.  They are the same on a
# busy machine and on another one; the kernel's are not among them, nor what is
# done by the clock: valgrind makes a request take fifty times as long.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Finish;
use Methods;
use Process;
use Wait;

use constant {
    SIZES    => [split(/,/, $ENV{BENCH_SIZES} || '10,10000')],
    REQUESTS => $ENV{BENCH_REQUESTS} || 1000,
    CLOCK    => qr/^(?:ngx_event_expire_timers|ngx_time_update)\b/,
};


# one process, in valgrind

package Counted;

use parent -norequire, 'Methods';

use Process;
use Wait;

sub launch {
    my ($self) = @_;

    my $nginx = $self->{nginx};
    my $out = $nginx->dir . '/callgrind';
    my @command = $nginx->command('error.log');

    # valgrind does not look into PATH

    my ($path) = grep { -x } map { "$_/$command[0]" } '',
        split(/:/, $ENV{PATH});

    $command[0] = $path // $command[0];
    Finish::later($nginx);

    $self->{out} = $out;
    $self->{pid} = spawn($nginx->dir . '/valgrind.log', 'valgrind',
                         '--tool=callgrind', "--callgrind-out-file=$out",
                         '--instr-atstart=no', @command);

    wait_for { $nginx->{pid} = $nginx->read_pid() } 60, 'nginx.pid'
        or die "nginx did not start in valgrind\n";
}


sub pids { $_[0]{pid} }


sub instructions {
    my ($self, $name, $whose, $requests) = @_;

    # the first ones fill what is kept; starting is not looked at, for it
    # takes long enough

    run('callgrind_control', '-i', 'on', $self->{pid});
    $self->ask($name, $whose, 100);
    unlink(glob("$self->{out}.*"));

    run('callgrind_control', '-z', $self->{pid});
    $self->ask($name, $whose, $requests);
    run('callgrind_control', '-d', $self->{pid});
    run('callgrind_control', '-i', 'off', $self->{pid});

    my ($dump) = glob("$self->{out}.*") or die "callgrind has no figures\n";

    return counted(main::slurp($dump)) / $requests;
}


# Of a dump: all instructions without those of calls to CLOCK.  A function is
# "fn=(5) NAME" when it is met first and "fn=(5)" later; what a call costs with
# all that it calls is on the line after "calls=".

sub counted {
    my ($dump) = @_;

    my ($sum) = $dump =~ /^totals: (\d+)/m;
    my %names = $dump =~ /^c?fn=(\(\d+\)) (.+)$/mg;

    while ($dump =~ /^cfn=(\(\d+\)).*\ncalls=.*\n\S+ (\d+)$/mg) {
        my ($name, $cost) = ($names{$1}, $2);

        $sum -= $cost if $name =~ main::CLOCK;
    }

    return $sum;
}


package main;

my %got;

for my $size (@{ SIZES() }) {
    my $side = Counted->new(
        members => $size,
        clients => 1,
        lazy    => 1,
        globals => 'daemon off; master_process off;',
    )->start();

    for my $method (Methods::names()) {
        $got{$size}{$method}{$_} =
            $side->instructions($method, $_, REQUESTS) for qw(native ours);
    }

    $side->stop();
}


sub cells {
    my ($size, $method) = @_;

    my $got = $got{$size}{$method};

    return (map { sprintf('%.0f', $_) } $got->{native}, $got->{ours},
        $got->{ours} - $got->{native}),
        sprintf('%.3f', $got->{ours} / $got->{native});
}


publish('Instructions', <<"END",
What a worker executes for one proxied request, in nginx, its modules and
libraries, without the kernel's part and without what timers do, which goes by
the clock: counted by `valgrind --tool=callgrind`
over @{[ REQUESTS ]} requests one after another, each with a connection of its
own on both sides, which nginx is the one to close: when it notices that the
other side has done so is chance. Beside `ewma`, which nginx has not, stands
`random two`.
END
    table(['method', map { my $n = $_; map { "$_, $n members" }
                           qw(nginx ours difference ratio) } @{ SIZES() }],
          map { my $method = $_;
                ["`$method`", map { cells($_, $method) } @{ SIZES() }] }
          Methods::names()));
