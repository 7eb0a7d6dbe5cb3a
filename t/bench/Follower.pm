package Follower;

# A follower of etcd without nginx's modules: a process that reads "etcdctl
# watch" and tells a server that knows nothing of etcd.
#
#     my $follower = Follower->start($etcd, '/prefix/', sub {
#         my @changes = @_;         # [KEY, VALUE], all that are there by now
#     });

use strict;
use warnings;

use IO::Select;
use POSIX ();
use Time::HiRes qw(sleep);

use Finish;
use Process;


sub start {
    my ($class, $etcd, $prefix, $changed) = @_;

    my $self = bless {}, $class;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        eval { follow($etcd->url, $prefix, $changed); 1 } or warn $@;
        POSIX::_exit(1);
    }

    $self->{pid} = $pid;
    Finish::later($self);

    return $self;
}


sub follow {
    my ($url, $prefix, $changed) = @_;

    local $ENV{ETCDCTL_API} = 3;

    my $watcher = open(my $events, '-|', 'etcdctl', '--endpoints', $url,
                       'watch', '--prefix', $prefix) or die "etcdctl: $!\n";

    local $SIG{TERM} = sub { kill('TERM', $watcher); POSIX::_exit(0) };

    my $select = IO::Select->new($events);
    my $text = '';

    while (sysread($events, $text, 65536, length $text)) {
        next if $select->can_read(0);

        # An event has a line for its kind, one for the key, one for the value.

        my @changes;

        while ($text =~ s/^PUT\n(.*)\n(.*)\n//) {
            push @changes, [$1, $2];
        }

        $changed->(@changes) if @changes;
    }
}


sub pid { $_[0]{pid} }


sub stop {
    my ($self) = @_;

    my $pid = delete $self->{pid} or return;

    stop_child($pid);
}


1;
