package Cluster;

# An etcd cluster of several members; for everything else ask one of them.
#
#     my $cluster = Cluster->new(3)->start();
#     $cluster->leader->kill();
#     $cluster->any->put(...);
#     $cluster->ask('put', ...);        # of whoever leads, again if it failed
#
# places => [$net->places] puts each of them into a namespace, see Netns;
# each => [[...], ...]: the args of each, see Etcd.

use strict;
use warnings;

use Etcd;
use Wait;

my $count = 0;


sub new {
    my ($class, $size, %options) = @_;

    my $name = 'cluster' . ++$count;
    my $places = delete $options{places} // [];
    my $each = delete $options{each} // [];
    my @members = map {
        Etcd->new(args => $each->[$_ - 1], %options, name => "$name-$_",
                  place => $places->[$_ - 1])
    } 1 .. $size;

    return bless { members => \@members }, $class;
}


sub members { @{ $_[0]{members} } }

# the URLs of all members, as the value of nginx's "endpoints"; with places, by
# the way of that number
sub endpoints { join(' ', map { $_->endpoints($_[1]) } $_[0]->members) }

sub running { grep { $_->pid && $_->is_healthy } $_[0]->members }
sub any { ($_[0]->running)[0] }


sub start {
    my ($self) = @_;

    my @peers = map { "$_->{name}=" . $_->peer_url } $self->members;
    my $cluster = join(',', @peers);

    $_->launch($cluster) for $self->members;

    return $self->wait_healthy();
}


# Members that do not run are started again, with their data.

sub revive {
    my ($self) = @_;

    $_->launch() for grep { !$_->pid } $self->members;

    return $self->wait_healthy();
}


# All members lose the changes after the snapshot, see Etcd; options are those
# of the restore.

sub restore {
    my ($self, $file, @options) = @_;

    $_->kill for $self->members;
    $_->restore_data($file, @options) for $self->members;

    return $self->revive();
}


sub wait_healthy {
    my ($self) = @_;

    wait_for { $self->running == $self->members } 30, 'the etcd cluster'
        or die "the etcd cluster did not start\n";

    return $self;
}


# the member that has this URL

sub member_at {
    my ($self, $url) = @_;

    return (grep { $_->endpoints eq $url } $self->members)[0];
}


# the leader; undef as long as there is none

sub leader {
    my ($self) = @_;

    return wait_for { $self->leader_now() } 10, 'an etcd leader';
}


sub leader_now {
    my ($self) = @_;

    my ($leader) = grep { $_->metric('etcd_server_is_leader') } $self->running;

    return $leader;
}


# Waits until a member leads that is not this one, which may not know that it
# was deposed.

sub leads_without {
    my ($self, $member) = @_;

    return wait_for {
        grep { $_ != $member && $_->metric('etcd_server_is_leader') }
             $self->running
    } 20, 'another leader';
}


# Moves the leadership to that member.  A member whose disk stands still takes
# itself for the leader.

sub lead {
    my ($self, $member) = @_;

    return wait_for {
        my $leader = $self->leader_now or return;

        return 1 if $leader == $member;

        eval {
            my $id = $member->call('maintenance/status', {});

            $leader->call('maintenance/transfer-leadership',
                          { targetID => $id->{header}{member_id} });
        };

        return;
    } 20, 'another leader of etcd';
}


# Nothing can be written while a leader is elected.  A call that failed may have
# been done, so that only calls which may be done twice are made by this.

sub ask {
    my ($self, $method, @arguments) = @_;

    my @answer;

    wait_for {
        my $leader = $self->leader_now;
        $leader && eval { @answer = $leader->$method(@arguments); 1 };
    } 60, "the etcd cluster to do $method" or die "etcd: $method: $@\n";

    return wantarray ? @answer : $answer[0];
}


1;
