#!/usr/bin/perl

# docs/tutorial.md works: a shell runs its commands in their order, and answers
# as the page says.
#
# A fence of "sh" has commands; a fence of "text" after it has what they print,
# with ... for any text.  Such commands are repeated until they print this.  A
# fence of "nginx" with file=NAME is written to NAME.  Ports are the test's, and
# so is ~.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IPC::Open2;
use IO::Select;
use Test::More;

use Docs;
use Finish;
use Nginx;
use Port;
use Process;
use Wait;

use constant {
    PATIENCE => 20,
    HANGS    => 120,
};

my $home = test_dir();
my $dir = "$home/etcd-tutorial";


package Reader;

# a shell in a process group of its own, which its background jobs share

use POSIX ();


sub new {
    my ($class) = @_;

    my $self = bless {}, $class;

    $self->{pid} = IPC::Open2::open2($self->{out}, $self->{in}, 'setsid', 'sh');
    Finish::later($self);

    return $self;
}


# Runs commands; returns their output, when all have ended.

sub types {
    my ($self, $commands) = @_;

    my ($end, $printed) = ('end-of-' . ++$self->{count}, '');

    print { $self->{in} } "$commands\necho $end\n";
    $self->{in}->flush();

    my $select = IO::Select->new($self->{out});

    while ($printed !~ s/^$end\n//m) {
        $select->can_read(main::HANGS * ($ENV{TEST_SLOWER} || 1))
            or die "no end of: $commands\n";
        sysread($self->{out}, $printed, 65536, length($printed))
            or die "the shell has ended: $commands\n";
    }

    return $printed;
}


sub stop {
    my ($self) = @_;

    kill('TERM', -$self->{pid});
    main::stop_child($self->{pid});
    main::wait_for { !kill(0, -$self->{pid}) } 10, 'jobs of the shell to end'
        or kill('KILL', -$self->{pid});
}


package main;

sub slurp {
    my ($path) = @_;

    open(my $file, '<', $path) or return '';
    local $/;

    return <$file> // '';
}


# ~/nginx-etcd/build has the modules, and the path an nginx, of this run.

mkdir($_) or die "mkdir $_: $!\n" for "$home/bin", "$home/nginx-etcd";
symlink(Nginx::modules_dir(), "$home/nginx-etcd/build") or die "symlink: $!\n";
symlink(Nginx::binary(), "$home/bin/nginx") or die "symlink: $!\n";

delete @ENV{grep { /^ETCD/ } keys %ENV};
$ENV{HOME} = $home;
$ENV{PATH} = "$home/bin:$ENV{PATH}";

my %port;


# with the ports of the test, and pauses as long as the machine needs

sub adapted {
    my ($text) = @_;

    my $slower = $ENV{TEST_SLOWER} || 1;

    $text =~ s/(?<=127\.0\.0\.1:)(\d+)/$port{$1} \/\/= free_port()/ge;
    $text =~ s/^sleep 1$/'sleep ' . $slower/mge;

    return $text;
}


sub pattern {
    my ($expected) = @_;

    return join('.*', map { quotemeta } split(/\.\.\./, $expected, -1));
}


my @fences = Docs::page('docs/tutorial.md')->fences;
my $reader = Reader->new();
my ($pid, $log, @tokens);

$reader->types("exec 2>$home/errors");

while (my $fence = shift @fences) {
    my $where = "tutorial.md:$fence->{line}";
    my $text = adapted($fence->{text});

    if ($fence->{language} eq 'nginx') {
        my ($name) = $fence->{mark} =~ /^file=(\S+)$/
            or die "$where: which file is this?\n";

        open(my $file, '>', "$dir/$name") or die "$where: $name: $!\n";
        print $file $text;
        close($file);
        next;
    }

    $fence->{language} eq 'sh' or die "$where: which commands print this?\n";

    if (-e "$dir/nginx.pid") {
        $pid = slurp("$dir/nginx.pid") + 0;
        $log = slurp("$dir/error.log");
    }

    if (!@fences || $fences[0]{language} ne 'text') {
        $reader->types($text);
        next;
    }

    my $expected = adapted((shift @fences)->{text});
    my $pattern = pattern($expected);
    my $printed;

    # The next commands need what these have done.

    ok(wait_for(sub {
        $printed = $reader->types($text) =~ s/[ \t\r]+$//mgr;
        $printed =~ /\A$pattern\z/
    }, PATIENCE), "$where: " . ($text =~ /^(.*)/)[0])
        or diag("printed:\n${printed}expected:\n$expected"), last;

    push @tokens, $printed =~ /^X-Fencing-Token: (\d+)$/m;
}

is(scalar(@tokens), 2, 'both leaders have a token');
cmp_ok($tokens[1], '>', $tokens[0], 'which grows');
unlike($log, qr/\[(?:alert|crit|emerg)\]|Sanitizer|runtime error:/,
       'error.log has no alarm');
ok(wait_for(sub { !is_running($pid) }, PATIENCE), 'nginx has ended')
    or kill('KILL', $pid);
ok(!-e $dir, 'nothing is left');

finish();
