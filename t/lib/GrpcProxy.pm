package GrpcProxy;

# "etcd grpc-proxy" in front of an etcd.
#
#     my $proxy = GrpcProxy->new($etcd)->start();
#     my $nginx = Nginx->new(etcd => $proxy)->start(...);
#     $proxy->restart();

use strict;
use warnings;

use Finish;
use Http;
use Port;
use Process;
use Wait;

my $count = 0;


sub new {
    my ($class, $etcd) = @_;

    my $name = 'grpc-proxy' . ++$count;

    return bless {
        etcd => $etcd,
        port => free_port(),
        log  => test_dir() . "/$name.log",
        data => test_dir() . "/$name",
    }, $class;
}


sub port { $_[0]{port} }
sub endpoints { "http://127.0.0.1:$_[0]{port}" }


sub start {
    my ($self) = @_;

    # etcd takes options from the environment too, not from ours.  Since 3.5.30
    # a proxy ends that does not reach itself by what it advertises.

    delete local @ENV{grep { /^ETCD_/ } keys %ENV};

    $self->{pid} = spawn($self->{log}, 'etcd', 'grpc-proxy', 'start',
                         '--endpoints', $self->{etcd}->url,
                         '--listen-addr', "127.0.0.1:$self->{port}",
                         '--advertise-client-url', "127.0.0.1:$self->{port}",
                         '--data-dir', $self->{data});

    Finish::later($self);

    wait_for { $self->answers() } 20, 'etcd grpc-proxy'
        or die "etcd grpc-proxy did not start, see $self->{log}\n";

    return $self;
}


sub answers {
    my ($self) = @_;

    my $http = Http->new($self->{port}, timeout => 1);

    return $http->get('/metrics')->{status} == 200;
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid, 'KILL');
    }
}


sub restart {
    my ($self) = @_;

    $self->stop();

    return $self->start();
}


1;
