#!/usr/bin/perl

# Endpoints that need no resolver: a UNIX socket, here that of a proxy in front
# of a real etcd, and names that the system knows, which are resolved when the
# configuration is read.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();
use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;
use Process;
use Wait;


# A proxy from a UNIX socket to a port.

package Way;

use Finish;

sub start {
    my ($class, $path, $port) = @_;

    unlink($path);

    my $listening = IO::Socket::UNIX->new(Local => $path, Listen => 16)
        or die "$path: $!\n";
    my $pid = fork() // die "fork: $!\n";

    chmod(0666, $path);

    if ($pid == 0) {
        @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
        eval { serve($listening, $port); 1 } or warn $@;
        POSIX::_exit(1);
    }

    my $self = bless { pid => $pid, path => $path }, $class;

    Finish::later($self);

    return $self;
}


sub stop {
    my ($self) = @_;

    my $pid = delete $self->{pid} or return;

    Process::stop_child($pid);
    unlink($self->{path});
}


sub serve {
    my ($listening, $port) = @_;

    my $select = IO::Select->new($listening);
    my %other;

    while (1) {
        for my $ready ($select->can_read()) {

            if ($ready == $listening) {
                my $client = $listening->accept() or next;
                my $server = IO::Socket::INET->new("127.0.0.1:$port") or next;

                $other{$client} = $server;
                $other{$server} = $client;
                $select->add($client, $server);
                next;
            }

            my $to = $other{$ready} or next;

            my $bytes;

            next if sysread($ready, $bytes, 65536)
                    && defined syswrite($to, $bytes);

            delete @other{$ready, $to};
            $select->remove($ready, $to);
            close($_) for $ready, $to;
        }
    }
}


package main;

my $etcd = Etcd->new()->start();
my $path = test_dir() . '/etcd.sock';
my $way = Way->start($path, $etcd->port);

chmod(0711, test_dir());

my $config = <<'EOC';

etcd {
    endpoints ENDPOINTS;
    rebalance 0;
}

http {
    upstream api {
        etcd_members /api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        location /status { etcd_status; }
    }
}

EOC

sub config { $config =~ s/ENDPOINTS/$_[0]/r }

sub follows {
    my ($nginx, $n, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $etcd->put('/api/1', "127.0.0.1:$n");
    becomes { join(' ', keys(%{ $nginx->upstream('api')->by_address })) }
            "127.0.0.1:$n", $name;
}

my $port = $etcd->port;
my $nginx = Nginx->new()->start(config("unix:$path http://127.0.0.1:$port"));

follows($nginx, 1, 'a UNIX socket');

# The endpoint that is used is drawn: the other one has to go.

ok($nginx->reload(config("unix:$path"), gone => 1), 'a UNIX socket alone');
follows($nginx, 2, 'is enough');
is($nginx->cluster->{endpoint}, "unix:$path", 'the status names it');

$way->stop;
$nginx->logs(qr/endpoint unix:\S+ failed for streams: .*connect\(\)/, 1,
             'a socket that nobody listens on is a failure');
$way = Way->start($path, $port);
follows($nginx, 3, 'and is used again');

ok($nginx->reload(config("unix:$path.no unix:$path"), gone => 1),
   'two sockets');
follows($nginx, 4, 'are two endpoints');

# a name of /etc/hosts, which may have an address of each family

ok($nginx->reload(config("http://localhost:$port"), gone => 1),
   'a name without a resolver');
follows($nginx, 5, 'as /etc/hosts has it');
is($nginx->cluster->{endpoint}, "http://localhost:$port",
   'the status has the name');

$nginx->stop;

finish();
