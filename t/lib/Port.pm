package Port;

# free_port(): a TCP port of 127.0.0.1 that nobody uses, and that no other
# test gets as long as this process runs.
#
# Ports come from below the kernel's own range, or an outgoing connection could
# take one before it is listened on.  A name in the abstract unix namespace
# reserves each; the kernel drops it with the process, however that ends.

use strict;
use warnings;

use Exporter 'import';
use IO::Socket::INET;
use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM);

our @EXPORT = qw(free_port);

use constant {
    FIRST    => 10000,
    LAST     => 30000,
    ATTEMPTS => 1000,
};

my %reserved;


sub free_port {
    for (1 .. ATTEMPTS) {
        my $port = FIRST + int(rand(LAST - FIRST));

        if (reserve($port)) {
            return $port;
        }
    }

    die "there is no free port\n";
}


sub reserve {
    my ($port) = @_;

    if ($reserved{$port}) {
        return;
    }

    my $name = IO::Socket::UNIX->new(
        Type   => SOCK_STREAM,
        Local  => "\0nginx-etcd-test-$port",
        Listen => 1,
    ) or return;

    IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $port,
        Listen    => 1,
        ReuseAddr => 1,
    ) or return;

    return $reserved{$port} = $name;
}


1;
