package Changes;

# Changes in etcd at a rate, by a process of its own: the weight of one member
# of Methods after another, from 1 to 10.
#
#     my $changes = Changes->start($etcd, 10_000, 100);    # members, a second
#     my $made = $changes->stop();
#
# Above TICKS a second several are in one transaction.

use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(sleep time);

use Finish;
use Methods;
use Process;

use constant TICKS => 100;

my $count = 0;


sub start {
    my ($class, $etcd, $members, $rate) = @_;

    my $self = bless { file => test_dir() . '/changes' . ++$count }, $class;

    return $self if $rate == 0;

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        eval { $self->work($etcd, $members, $rate); 1 } or warn $@;
        POSIX::_exit(0);
    }

    $self->{pid} = $pid;
    Finish::later($self);

    return $self;
}


sub work {
    my ($self, $etcd, $members, $rate) = @_;

    my $tick = $rate > TICKS ? 1 / TICKS : 1 / $rate;
    my $at_once = $rate > TICKS ? int($rate / TICKS) : 1;
    my $next = time();
    my $end = 0;
    my $made = 0;

    local $SIG{TERM} = sub { $end = 1 };

    while (!$end) {
        $etcd->txn(map { change($members, $made + $_) } 1 .. $at_once);
        $made += $at_once;

        $next += $tick;

        # A late tick is not made up for.

        my $left = $next - time();

        if ($left > 0) {
            sleep($left);

        } else {
            $next = time();
        }
    }

    open(my $file, '>', $self->{file}) or die "open $self->{file}: $!\n";
    print $file $made;
    close($file);
}


# No two changes at a time are of one member, and a member never gets the weight
# that it has.

sub change {
    my ($members, $n) = @_;

    my $i = $n % $members;
    my $weight = 1 + int($n / $members + $n) % 10;
    my $address = Methods::address($i);

    return [put => "/$members/$i",
            qq({"address":"$address","weight":$weight})];
}


# Stops; returns the number of changes.

sub stop {
    my ($self) = @_;

    my $pid = delete $self->{pid} or return 0;

    stop_child($pid);

    open(my $file, '<', $self->{file}) or die "no changes were made\n";

    return <$file>;
}


1;
