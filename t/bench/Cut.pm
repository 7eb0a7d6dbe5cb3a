package Cut;

# The times at which a kept connection to a leader of PostgreSQL is closed, and
# at which a new one reaches the next leader, beside the time at which "etcdctl
# watch" shows that the leader's key was deleted.
#
#     my $cut = Cut->start($port, $etcd, $key);
#     my ($deleted, $closed, $reached) = $cut->times($since);
#
# One process does all that.  The new connection is made when the key is gone,
# and has reached PostgreSQL when that answers the first bytes of its protocol:
# what it takes to log in is no part of it.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(sleep time);

use Finish;
use Patroni;
use Process;

use constant {
    SSL_REQUEST => pack('NN', 8, 80877103),
    PAUSE       => 0.1,
    CHUNK       => 65536,
};

my $count = 0;


sub start {
    my ($class, $port, $etcd, $key) = @_;

    my $file = test_dir() . '/cut' . ++$count;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        eval { watch($port, $etcd, $key, $file) };
        print STDERR $@ if $@;
        POSIX::_exit(1);
    }

    my $self = bless { pid => $pid, file => $file }, $class;

    Finish::later($self);

    return $self;
}


sub watch {
    my ($port, $etcd, $key, $file) = @_;

    local @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
    local $ENV{ETCDCTL_API} = 3;

    open(my $log, '>', $file) or die "$file: $!\n";
    $log->autoflush(1);

    open(my $events, '-|', 'etcdctl', '--endpoints', $etcd->url, 'watch',
         $key) or die "etcdctl: $!\n";

    my ($db, $kept, $new);
    my %seen;

    while (1) {

        # A connection is kept from the next leader on.

        if (!$kept && (!%seen || keys %seen == 3)) {
            ($db, $kept) = keep_one($port);
            %seen = ();
        }

        my $select = IO::Select->new(grep { $_ } $events, $kept, $new);

        for my $ready ($select->can_read($kept ? undef : PAUSE)) {
            my $n = sysread($ready, my $text, CHUNK);
            my $now = time();

            if ($ready == $events) {
                $n or die "etcdctl has ended\n";
                $text =~ /^DELETE$/m or next;

                $seen{deleted} = print $log "deleted $now\n";
                $new = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                             PeerPort => $port);
                syswrite($new, SSL_REQUEST) if $new;

            } elsif ($kept && $ready == $kept) {

                # The server may send a message before it closes.

                next if $n;

                $seen{closed} = print $log "closed $now\n";
                $kept = undef;
                $db->{InactiveDestroy} = 1;

            } else {
                $seen{reached} = print $log "reached $now\n" if $n;
                $new = undef;
            }
        }
    }
}


# The connection is logged in, and idle from now on.

sub keep_one {
    my ($port) = @_;

    my $db = Patroni::connect($port) or return;

    open(my $socket, '<&', $db->{pg_socket}) or die "dup: $!\n";

    return ($db, $socket);
}


# The first times since a time, undef for events that have not happened.

sub times {
    my ($self, $since) = @_;

    my %first;

    open(my $log, '<', $self->{file}) or return;

    while (<$log>) {
        my ($what, $time) = /^(\w+) (\S+)\n/ or next;

        $first{$what} //= $time if $time >= $since;
    }

    return @first{qw(deleted closed reached)};
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


1;
