package PgClient;

# A client of PostgreSQL that writes a row every 20 ms and takes down how each
# write went: with a connection of its own for every write, or with one that is
# kept until it breaks.
#
# What was acknowledged can be compared with what is in the table afterwards.

use strict;
use warnings;

use List::Util qw(max);
use POSIX ();
use Time::HiRes qw(sleep time);

use Finish;
use Patroni;
use Process;

use constant {
    INTERVAL => 0.02,
    PATIENCE => 30,
};

my $count = 0;


# Makes the table, on the primary.

sub create_table {
    my ($port) = @_;

    my $db = Patroni::connect($port) or die "PostgreSQL refuses: $DBI::errstr";

    $db->do('CREATE TABLE IF NOT EXISTS writes (id text PRIMARY KEY)')
        or die $db->errstr;
}


# all rows of the table

sub written {
    my ($port) = @_;

    my $db = Patroni::connect($port) or die "PostgreSQL refuses: $DBI::errstr";

    return map { $_->[0] }
           @{ $db->selectall_arrayref('SELECT id FROM writes') };
}


# keep => 1: one connection for as long as it writes, stay => 1: for as long as
# it is there; every => seconds

sub start {
    my ($class, $port, %options) = @_;

    my $name = 'writer' . ++$count;
    my $file = test_dir() . "/$name";
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        eval { write_rows($port, $name, $file, %options) };
        print STDERR $@ if $@;
        POSIX::_exit(1);
    }

    my $self = bless { pid => $pid, file => $file }, $class;

    Finish::later($self);

    return $self;
}


sub write_rows {
    my ($port, $name, $file, %options) = @_;

    open(my $log, '>', $file) or die "$file: $!\n";
    $log->autoflush(1);

    my $interval = $options{every} // INTERVAL;
    my $db;

    for (my $n = 1; ; $n++) {
        my $id = "$name-$n";
        my $begun = time();

        $db //= Patroni::connect($port, PATIENCE);

        my $done = $db && $db->do('INSERT INTO writes VALUES (?)', undef, $id);

        print $log join("\t", $begun, time(), $done ? 1 : 0, $id,
                        $done ? '' : ($DBI::errstr // '') =~ tr/\n\t/  /r),
                   "\n";

        undef $db unless ($done && $options{keep})
                         || ($options{stay} && $db && $db->ping);

        my $pause = $begun + $interval - time();

        sleep($pause) if $pause > 0;
    }
}


sub stop {
    my ($self) = @_;

    if ($self->{pid}) {
        stop_child($self->{pid}, 'KILL');
        $self->{pid} = undef;
    }
}


# { begun, ended, ok, id, error }, in order, of writes that ended since a time

sub writes {
    my ($self, $since) = @_;

    open(my $log, '<', $self->{file}) or return;

    my @writes;

    while (my $line = <$log>) {
        $line =~ /\n$/ or last;
        chomp($line);

        my %write;

        @write{qw(begun ended ok id error)} = split(/\t/, $line, 5);
        push @writes, \%write if $write{ended} >= ($since // 0);
    }

    return @writes;
}


sub acknowledged { map { $_->{id} } grep { $_->{ok} } $_[0]->writes }
sub failed { grep { !$_->{ok} } $_[0]->writes($_[1]) }


# true if the client has written since a time

sub writes_since {
    my ($self, $since) = @_;

    return scalar(grep { $_->{ok} && $_->{begun} > $since }
                  $self->writes($since));
}


# the time at which the first write after a time was acknowledged

sub first_after {
    my ($self, $time) = @_;

    my ($first) = grep { $_->{ok} } $self->writes($time);

    return $first ? $first->{ended} : undef;
}


# the longest time without an acknowledged write, in seconds

sub outage {
    my ($self, $since) = @_;

    my @ends = map { $_->{ended} } grep { $_->{ok} } $self->writes($since);

    unshift @ends, $since if defined $since;

    return max(0, map { $ends[$_] - $ends[$_ - 1] } 1 .. $#ends);
}


# the longest time of one write, acknowledged or failed

sub stuck {
    my ($self, $since) = @_;

    return max(0, map { $_->{ended} - $_->{begun} } $self->writes($since));
}


1;
