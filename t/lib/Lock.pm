package Lock;

# Locks as etcd has them, and as etcd_status counts them.
#
#     my $lock = Lock->new($nginx, $etcd);          # or with a namespace
#     $lock->keys('/locks/one');                    # in order of creation
#     $lock->list('/locks/one', 'holders');
#     $lock->holds('/locks/one', 1, 'NAME');        # tests that wait
#     $lock->gone('/locks/one', 'NAME');
#     my $socket = $lock->connection('/serve');     # of etcd_lock_serve
#     $lock->held('/locks/one', 2000, SECONDS);     # false: not so many

use strict;
use warnings;

use IO::Socket::INET;
use Test::More ();

use Becomes ();
use Metrics;
use Wait;


sub new {
    my ($class, $nginx, $etcd, $namespace) = @_;

    return bless {
        nginx     => $nginx,
        etcd      => $etcd,
        namespace => $namespace // '',
    }, $class;
}


sub keys {
    my ($self, $name) = @_;

    return map { $_->{key} }
           sort { $a->{create_revision} <=> $b->{create_revision} }
           $self->{etcd}->list("$self->{namespace}$name/");
}


sub shown {
    my ($self, $name) = @_;

    my $status = $self->{nginx}->status() or return {};

    return $status->{locks}{$name} // {};
}


sub list { $_[0]->shown($_[1])->{$_[2]} }


sub all_counts {
    my ($self, $name) = @_;

    my %shown = %{ $self->shown($name) };

    delete @shown{qw(holders waiters refused)};

    return \%shown;
}


sub count { $_[0]->all_counts($_[1])->{$_[2]} // -1 }


sub counts {
    my ($self, $name, $wanted, $test) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    Test::More::is_deeply($self->metrics($name), $wanted, "$test: metrics");

    return Test::More::is_deeply($self->all_counts($name), $wanted, $test);
}


sub metrics {
    my ($self, $name) = @_;

    my $metrics = Metrics->of($self->{nginx}, '/status?format=prometheus');

    return { map { /^nginx_etcd_lock_(?!refused)(\w+?)(?:_total)?$/
                   ? ($1 => $metrics->value($_, lock => $name)) : ()
             } CORE::keys %{ $metrics->types } };
}


sub connection {
    my ($self, $path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $self->{nginx}->port)
        or die "connect: $!\n";

    $socket->syswrite("GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n");

    return $socket;
}


sub held {
    my ($self, $name, $n, $seconds) = @_;

    return wait_for { $self->count($name, 'held') == $n } $seconds, "$n locks";
}


sub holds { $_[0]->counted($_[1], 'held', @_[2, 3]) }
sub waits { $_[0]->counted($_[1], 'waiting', @_[2, 3]) }


sub counted {
    my ($self, $name, $what, $n, $test) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 2;

    return Becomes::becomes { $self->count($name, $what) } $n, $test;
}


# Waits until no key is below the prefix any more.

sub gone {
    my ($self, $name, $test) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { !$self->keys($name) } 10, "$name: $test";

    return Test::More::is_deeply([$self->keys($name)], [], $test);
}


1;
