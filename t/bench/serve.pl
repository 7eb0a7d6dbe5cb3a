#!/usr/bin/perl

# Connections that are locks (etcd_lock_serve): what a worker pays for thousands
# of them that do nothing, and how soon the key of one is gone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Time::HiRes qw(sleep time);

use Bench;
use Etcd;
use Finish;
use Lock;
use Nginx;

use constant {
    CONNECTIONS => $ENV{BENCH_CONNECTIONS} || 2000,
    SECONDS     => $ENV{BENCH_SECONDS} || 60,
    ENDS        => 200,
    FIRST       => 10,             # have what is made once
};

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->set(N => CONNECTIONS)->start(<<'EOF');

worker_processes 1;
worker_rlimit_nofile 16384;

events {
    worker_connections 8192;
}

etcd {
    endpoints %%ETCD%%;
}

http {

    # as in conf-examples/lock-serve.conf

    request_pool_size 7k;

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /permits {
            etcd_lock /locks/permits wait=600s permits=%%N%% queue=%%N%%;
            etcd_lock_serve;
        }

        location ~ ^/keys/(?<key>\d+)$ {
            etcd_lock /locks/keys $key;
            etcd_lock_serve;
        }
    }
}

EOF

my $lock = Lock->new($nginx, $etcd);


sub all_hold {
    my ($name, $n) = @_;

    $lock->held("/locks/$name", $n, 120) or die "not all have their locks\n";
}


sub measure {
    my ($name, $path, $gone) = @_;

    $nginx->reload(undef, gone => 1);

    my ($worker) = $nginx->workers;
    my ($first, @held);

    for my $n (1 .. CONNECTIONS) {
        push @held, $lock->connection($path =~ m{/$} ? "$path$n" : $path);
        all_hold($name, $n) if $n % 100 == 0 || $n == FIRST;
        $first = memory($worker)->{own} if $n == FIRST;
    }

    all_hold($name, CONNECTIONS);

    my $each = (memory($worker)->{own} - $first) / (CONNECTIONS - FIRST);
    my $before = cpu_time($worker);

    sleep(SECONDS);

    my $cpu = 100 * (cpu_time($worker) - $before) / SECONDS;

    return [$name, sprintf('%.1f', $each), sprintf('%.2f', $cpu),
            $gone->(@held)];
}


# ms from the end of a connection until etcd has no key of it

sub keys_gone {
    my @held = @_;
    my @ms;

    for my $n (1 .. ENDS) {
        my $begun = time();

        close(shift @held);
        1 while $etcd->count("/locks/keys/$n/");
        push @ms, 1000 * (time() - $begun);
    }

    return map { sprintf('%.1f', percentile($_, @ms)) } 50, 99;
}


my ($n, $seconds, $ends) = (CONNECTIONS, SECONDS, ENDS);

publish('Connections that are locks', <<"END",
One worker with $n connections of etcd_lock_serve, which get a comment every 15
seconds, and `request_pool_size 7k`: memory for each, in kB, and the CPU time of
the worker in $seconds seconds, in percent of one CPU. They hold the permits of
one lock, or a lock each. Then $ends clients leave one after the other:
milliseconds from the end of the connection until another client of etcd sees
that the key is gone, p50 and p99.
END
    table(['locks', 'kB each', 'CPU, %', 'key gone, p50', 'p99'],
          measure('permits', '/permits', sub { ('', '') }),
          measure('keys', '/keys/', \&keys_gone)));
