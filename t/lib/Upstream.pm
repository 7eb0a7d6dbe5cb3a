package Upstream;

# An upstream as etcd_status shows it.
#
#     my $api = Upstream->new($nginx, 'api');
#     my $db = Upstream->new($nginx, 'db', 'stream');
#     $api->members;        # { KEY => 'ADDRESS WEIGHT STATE' }
#     $api->shows({ '/services/api/1' => '127.0.0.1:8080 1 up' }, 'NAME');
#
# A static server has no key: its address is in the place of it.  Members that
# another key hides are not among them.

use strict;
use warnings;

use Test::More ();

use Becomes ();
use Wait;


sub new {
    my ($class, $nginx, $name, $module) = @_;

    return bless {
        nginx => $nginx,
        name  => $name,
        list  => ($module // 'http') eq 'stream' ? 'stream_upstreams'
                                                 : 'upstreams',
    }, $class;
}


sub status {
    my ($self) = @_;

    my $status = $self->{nginx}->status() or return {};

    return $status->{$self->{list}}{$self->{name}} // {};
}


sub generation { $_[0]->status->{generation} }


# the members without those that another key of their address hides

sub used {
    my ($self) = @_;

    return grep { $_->{state} ne 'shadowed' }
        @{ $self->status->{members} // [] };
}


sub members {
    my ($self) = @_;

    return {
        map { ($_->{key} || $_->{address})
              => "$_->{address} $_->{weight} $_->{state}" }
            $self->used
    };
}


# { ADDRESS => 'KEY WEIGHT STATE' }: a key may have several members

sub by_address {
    my ($self) = @_;

    return {
        map { $_->{address} => "$_->{key} $_->{weight} $_->{state}" }
            $self->used
    };
}


# the members as "a:up b:held", by the names of addresses, or the addresses

sub states {
    my ($self, %at) = @_;

    my %who = reverse %at;

    return join ' ', sort map { ($who{$_->{address}} // $_->{address})
                                . ":$_->{state}" }
        $self->used;
}


# the status of one member, by its address

sub member {
    my ($self, $address) = @_;

    my ($member) = grep { $_->{address} eq $address }
        $self->used;

    return $member;
}


# { KEY => REASON }

sub invalid {
    my ($self) = @_;

    return { map { $_->{key} => $_->{reason} }
             @{ $self->status->{invalid} // [] } };
}


# the number of requests that etcd_wait holds for the upstream

sub waiting { $_[0]->status->{waiting} // 0 }


# A test: etcd_wait holds so many requests.

sub holds {
    my ($self, $n, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Becomes::becomes { $self->waiting } $n, $name;
}


# Waits until nginx knows the change of a revision.

sub sees {
    my ($self, $revision) = @_;

    return wait_for { ($self->status->{revision} // 0) >= $revision } 10,
        "revision $revision in $self->{name}";
}


# Tests: members, or invalid keys, become as wanted.

sub shows {
    my ($self, $members, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $self->comes_to_be(members => $members, $name);
}


sub shows_by_address {
    my ($self, $members, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $self->comes_to_be(by_address => $members, $name);
}


sub reports {
    my ($self, $invalid, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $self->comes_to_be(invalid => $invalid, $name);
}


sub comes_to_be {
    my ($self, $what, $wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Becomes::becomes { $self->$what } $wanted, $name;
}


1;
