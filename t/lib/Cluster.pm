package Cluster;

# An etcd cluster of several members; for everything else ask one of them.
#
#     my $cluster = Cluster->new(3)->start();
#     $cluster->leader->kill();
#     $cluster->any->put(...);

use strict;
use warnings;

use Etcd;
use Wait;

my $count = 0;


sub new {
    my ($class, $size, %options) = @_;

    my $name = 'cluster' . ++$count;
    my @members = map { Etcd->new(%options, name => "$name-$_") } 1 .. $size;

    return bless { members => \@members }, $class;
}


sub members { @{ $_[0]{members} } }

# all their URLs, as they go after nginx's "endpoints"
sub endpoints { join(' ', map { $_->url } $_[0]->members) }

sub running { grep { $_->pid && $_->is_healthy } $_[0]->members }
sub any { ($_[0]->running)[0] }


sub start {
    my ($self) = @_;

    my @peers = map { "$_->{name}=" . $_->peer_url } $self->members;
    my $cluster = join(',', @peers);

    $_->launch($cluster) for $self->members;

    wait_for { $self->running == $self->members } 30, 'the etcd cluster'
        or die "the etcd cluster did not start\n";

    return $self;
}


# the member that leads; undef as long as there is none

sub leader {
    my ($self) = @_;

    return wait_for { $self->leader_now() } 10, 'an etcd leader';
}


sub leader_now {
    my ($self) = @_;

    my ($leader) = grep { $_->metric('etcd_server_is_leader') } $self->running;

    return $leader;
}


1;
