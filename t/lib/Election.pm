package Election;

# An election as etcd, and as nginx, tell of it.
#
#     my $election = Election->new($etcd, '/elections/ingress');
#     $election->leader;          # the first candidate: { key, value,
#                                 # create_revision, lease }, or undef
#     my $view = Election->view($nginx, 'ingress');     # of etcd_status
#
# and etcdctl and programs that campaign:
#
#     my $other = Election->campaign($etcd, 'NAME', 'VALUE');
#     $other->wins;  $other->resign;  $other->crash;
#
# See Holder for programs that want a lock.

use strict;
use warnings;

use Finish;
use Process;
use Wait;

my $count = 0;


sub new {
    my ($class, $etcd, $prefix) = @_;

    return bless { etcd => $etcd, prefix => $prefix }, $class;
}


# all candidates, the first one first

sub candidates {
    my ($self) = @_;

    my @all = sort { $a->{create_revision} <=> $b->{create_revision} }
        $self->{etcd}->list("$self->{prefix}/");

    return @all;
}


sub leader { ($_[0]->candidates)[0] }


# Waits until the candidate with that value leads; returns the candidate.

sub led_by {
    my ($self, $value, $seconds) = @_;

    return wait_for {
        my $leader = $self->leader;
        $leader && $leader->{value} eq $value && $leader;
    } $seconds // 10, "$value to lead $self->{prefix}";
}


sub view {
    my ($class, $nginx, $name) = @_;

    my $status = $nginx->status or return {};

    return $status->{elections}{$name} // {};
}


# "etcdctl elect", or any program that prints when it has won

sub campaign {
    my ($class, $etcd, $name, $value, @program) = @_;

    my $log = test_dir() . '/campaign' . ++$count;

    local $ENV{ETCDCTL_API} = 3;

    if (!@program) {
        @program = ('etcdctl', '--endpoints', $etcd->url, 'elect');
    }

    my $self = bless {
        log   => $log,
        value => $value,
        pid   => spawn($log, @program, $name, $value // ()),
    }, $class;

    Finish::later($self);

    return $self;
}


sub output {
    my ($self) = @_;

    open(my $file, '<', $self->{log}) or return '';
    local $/;

    return <$file> // '';
}


sub has_won { $_[0]->output =~ /^\Q$_[0]{value}\E$/m }


sub wins {
    my ($self, $seconds) = @_;

    return wait_for { $self->has_won } $seconds // 10, 'a program to win';
}


sub resign { $_[0]->end('INT') }
sub crash  { $_[0]->end('KILL') }
sub stop   { $_[0]->end('KILL') }


sub end {
    my ($self, $signal) = @_;

    my $pid = delete $self->{pid} // return 1;

    return stop_child($pid, $signal);
}


1;
