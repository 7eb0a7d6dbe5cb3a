package Holder;

# Another program that wants a lock: etcdctl, or one that is named, which
# prints the key when it has it, and gives it back on SIGINT.
#
#     my $other = Holder->want($etcd, '/locks/jobs');
#     $other->wins;         # waits until it has the lock
#     $other->has_won;      # has it now
#     $other->resign;       # unlocks; or $other->crash

use strict;
use warnings;

use parent 'Election';


sub want {
    my ($class, $etcd, $name, @program) = @_;

    if (!@program) {
        @program = ('etcdctl', '--endpoints', $etcd->url, 'lock');
    }

    my $self = $class->campaign($etcd, $name, undef, @program);

    $self->{name} = $name;

    return $self;
}


sub has_won { $_[0]->output =~ m{^\Q$_[0]{name}\E/[0-9a-f]+$}m }


1;
