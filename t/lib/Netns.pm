package Netns;

# Network namespaces: one for the test and its clients, one for each member of
# an etcd cluster, and one for each nginx that can be cut off from it; other
# nginxes are where the test is.
#
#     Netns::enter();                   # before anything else
#     my $net = Netns->new(3, nginxes => 1);
#     my $cluster = Cluster->new(3, places => [$net->places]);
#     my $nginx = Nginx->new(place => ($net->nginxes)[0]);
#
#     $net->isolate($etcd->place);      # from its peers, not from nginx
#     $net->rejoin($etcd->place);
#     $etcd->place->hide();             # from nginx, not from its peers
#     $etcd->place->show();
#     $net->isolate($nginx->place);     # from etcd: it hears nothing
#     $nginx->place->hide();            # from etcd: its links are down
#
# With ways => 3 there are that many ways from where the test is to each member,
# for as many nginxes: $cluster->endpoints(2) and hide(2) are those of the
# second.
#
# Each link is a veth pair of its own.  It is cut by taking the far end down:
# the near one loses its carrier and keeps its routes, so that what is sent
# vanishes, and nobody gets an RST.
#
#     member N     10.0.0.N  to its peers, a link to each
#                  10.0.1.N  to nginx, wherever it is, a link to each
#                  10.0.W+1.N  by the way W, from the second one on
#                  10.0.2.N  to the test, never cut
#     nginx N      10.0.3.N  to etcd, a link to each member
#                  10.0.4.N  to the test, never cut
#
# Nothing of it has a name outside, so that tests do not meet, and it ends with
# the processes that are in it.

use strict;
use warnings;

use Test::More ();

use Finish;
use Process;

use constant TEST_END => 254;


# The test goes on in a namespace of its own: it is run once more there, as the
# same process.  Without root it is skipped, as root it has to work.

sub enter {
    return if $^C;

    if (($ENV{TEST_NETNS} // 0) == $$) {
        ip('link', 'set', 'lo', 'up');
        return;
    }

    if ($> != 0) {
        Test::More::plan(skip_all => 'only root can make network namespaces');
    }

    # before the test has a directory, which this process would not remove

    my $output = qx(unshare --net ip link 2>&1);

    $? == 0 or die "network namespaces cannot be made here (unshare, ip): "
                   . "$output\n";

    $ENV{TEST_NETNS} = $$;

    exec('unshare', '--net', $^X, $0, @ARGV) or die "unshare: $!\n";
}


sub new {
    my ($class, $n, %options) = @_;

    my $self = bless {
        places  => [map { Netns::Place->new($_, $options{ways}) } 1 .. $n],
        nginxes => [map { Netns::Place::Nginx->new($_) }
                        1 .. $options{nginxes} // 0],
    }, $class;

    for my $place ($self->places) {
        $place->connect_way($_) for $place->ways;
        $place->connect('test', '10.0.2', undef, "test$place->{number}");
        $place->connect_peer($_)
            for grep { $_->{number} < $place->{number} } $self->places;
    }

    for my $nginx ($self->nginxes) {
        $nginx->connect('test', '10.0.4', undef, "guest$nginx->{number}");
        $nginx->connect_member($_) for $self->places;
    }

    return $self;
}


sub places { @{ $_[0]{places} } }
sub nginxes { @{ $_[0]{nginxes} } }


# a member loses both ends of each link: neither side of a partition is told

sub isolate { $_[0]->cut($_[1], 'down') }
sub rejoin  { $_[0]->cut($_[1], 'up') }


sub cut {
    my ($self, $place, $state) = @_;

    for my $other (grep { $_ != $place } $self->places) {
        $other->ip('link', 'set', $place->far_name, $state);
        $place->ip('link', 'set', $other->far_name, $state)
            if $place->is_told;
    }
}


sub ip {
    my @command = ('ip', @_);
    my ($status, $output) = run(@command);

    $status == 0 or die "@command: $output\n";
}


# A namespace lives as long as a process in it: one that does nothing, and ends
# with the test, whose end of its input it waits for.

package Netns::Place;

use POSIX ();

use Process;
use Wait;


sub new {
    my ($class, $number, $ways) = @_;

    pipe(my $input, my $hold) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        open(STDIN, '<&', $input);
        open(STDOUT, '>', '/dev/null');
        exec('unshare', '--net', 'cat') or POSIX::_exit(127);
    }

    my $self = bless {
        number      => $number,
        ways        => $ways // 1,
        pid         => $pid,
        hold        => $hold,
        nginx_links => [],
    }, $class;

    Finish::later($self);

    my $ours = readlink('/proc/self/ns/net');

    wait_for { (readlink("/proc/$pid/ns/net") // $ours) ne $ours } 10,
        'a network namespace' or die "unshare makes no network namespace\n";

    $self->ip('link', 'set', 'lo', 'up');

    return $self;
}


sub net { '10.0.' . ($_[0] == 1 ? 1 : $_[0] + 1) }

sub ways { 1 .. $_[0]{ways} }
sub address { net($_[1] // 1) . ".$_[0]{number}" }
sub peer_address { "10.0.0.$_[0]{number}" }
sub test_address { "10.0.2.$_[0]{number}" }

# the name of a link at its other end
sub far_name { "peer$_[0]{number}" }

# The place loses its own ends, too, when it is cut off.
sub is_told { 1 }

# the beginning of a command that runs in the namespace
sub within { ('nsenter', "--net=/proc/$_[0]{pid}/ns/net", @_[1 .. $#_]) }

# all links of nginx to etcd that end here, or those of one way

sub hide { $_[0]->hidden('down', $_[1]) }
sub show { $_[0]->hidden('up', $_[1]) }


sub hidden {
    my ($self, $state, $way) = @_;

    $self->ip('link', 'set', $_, $state)
        for $way ? "way$way" : @{ $self->{nginx_links} };
}


sub ip {
    my ($self, @command) = @_;

    my ($status, $output) = run($self->within('ip', @command));

    $status == 0 or die "ip @command: $output\n";
}


# a link to another place, or to where the test is

sub connect {
    my ($self, $name, $net, $far, $far_name, $far_address) = @_;

    my $address = "$net.$self->{number}";
    my $far_ip = $far ? sub { $far->ip(@_) } : \&Netns::ip;

    $far_address //= "$net." . Netns::TEST_END;

    $self->ip('link', 'add', $name, 'type', 'veth', 'peer', 'name', $far_name,
              'netns', $far ? $far->{pid} : $$);

    $self->ip('addr', 'add', $address, 'peer', $far_address, 'dev', $name);
    $far_ip->('addr', 'add', $far_address, 'peer', $address, 'dev', $far_name);

    $self->ip('link', 'set', $name, 'up');
    $far_ip->('link', 'set', $far_name, 'up');
}


sub connect_way {
    my ($self, $way) = @_;

    $self->connect("way$way", net($way), undef, "way$way-$self->{number}");

    push @{ $self->{nginx_links} }, "way$way";
}


sub connect_peer {
    my ($self, $peer) = @_;

    $self->connect($peer->far_name, '10.0.0', $peer, $self->far_name,
                   $peer->peer_address);
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# An nginx of which only the members' ends go down when it is cut off.

package Netns::Place::Nginx;

our @ISA = ('Netns::Place');


sub address { "10.0.3.$_[0]{number}" }
sub test_address { "10.0.4.$_[0]{number}" }
sub far_name { "guest$_[0]{number}" }
sub is_told { 0 }


sub connect_member {
    my ($self, $member) = @_;

    $self->connect($member->far_name, '10.0.3', $member, $self->far_name,
                   $member->address);

    push @{ $self->{nginx_links} }, $member->far_name;
    push @{ $member->{nginx_links} }, $self->far_name;
}


1;
