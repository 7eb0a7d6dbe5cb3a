#!/usr/bin/perl

# How long after a put or a delete requests follow it, on every worker, beside
# the moment at which "etcdctl watch" has printed it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use JSON::PP;
use List::Util qw(max sum);
use MIME::Base64;

use Bench;
use Etcd;
use Finish;
use Nginx;

use constant {
    WORKERS => 4,
    CYCLES  => $ENV{BENCH_CYCLES} || 100,
};

my $key = '/services/api/1';

my $config = <<'EOF';

worker_processes 4;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /services/api/;
        server 127.0.0.1:%%WITHOUT%% backup;
        keepalive 16;
        keepalive_requests 1000000000;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        keepalive_requests 1000000000;

        location / {
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            add_header X-Worker $pid;
        }
    }
}

EOF


sub compile {
    my $binary = test_dir() . '/propagation';

    system('cc', '-O2', '-o', $binary, "$FindBin::Bin/propagation.c") == 0
        or die "propagation.c does not compile\n";

    return $binary;
}


# the lines of the program as { kind, late, watch, sent => [], answered => [] }

sub measure {
    my ($etcd, $nginx, $address) = @_;

    my %key = (key => encode_base64($key, ''));
    my $put = encode_json({ %key, value => encode_base64($address, '') });
    my $del = encode_json({ %key });

    local $ENV{ETCDCTL_API} = 3;

    open(my $output, '-|', compile(), $etcd->port, $nginx->port, WORKERS,
         CYCLES, $put, $del, 'etcdctl', '--endpoints', $etcd->url, 'watch',
         '--rev', $etcd->revision() + 1, $key) or die "propagation: $!\n";

    my (@changes, %closeness);

    while (<$output>) {
        my ($what, @values) = split;

        if ($what eq 'begin') {
            @changes = ();

        } elsif ($what eq 'took' || $what eq 'apart') {
            $closeness{$what} = \@values;

        } else {
            my ($late, $watch, @workers) = @values;

            push @changes, {
                kind     => $what,
                late     => $late,
                watch    => $watch,
                sent     => [map { m{^(.*)/} } @workers],
                answered => [map { m{/(.*)$} } @workers],
            };
        }
    }

    close($output) or die "propagation failed\n";

    return (\%closeness, @changes);
}


sub ms {
    my (@us) = @_;

    return sprintf('%.2f / %.2f', percentile(50, @us) / 1000,
                   percentile(99, @us) / 1000);
}


# one row: all in ms, p50 / p99

sub row {
    my ($name, @changes) = @_;

    return [
        $name,
        scalar(@changes),
        ms(map { $_->{watch} } @changes),
        ms(map { @{ $_->{answered} } } @changes),
        ms(map { max(@{ $_->{answered} }) } @changes),
        ms(map { max(@{ $_->{answered} }) - $_->{watch} } @changes),
        ms(map { max(@{ $_->{sent} }) - $_->{watch} } @changes),
    ];
}


my $backend = Nginx->new(modules => [])
    ->start(backend_config(PORT_WITH => '1', PORT_WITHOUT => '0'));

my $etcd = Etcd->new()->start();

my $nginx = Nginx->new(etcd => $etcd)
    ->set(WITHOUT => $backend->port('PORT_WITHOUT'))->start($config);

my ($closeness, @changes) =
    measure($etcd, $nginx, '127.0.0.1:' . $backend->port('PORT_WITH'));

my %kinds;

push @{ $kinds{$_->{kind}} }, $_ for @changes;

my @head = ('change', 'n', 'put or delete to `etcdctl watch`',
            'to a request on a worker', 'to a request on the last of 4 workers',
            'the last worker after `etcdctl watch`',
            'the same, by when that request was sent');

my $late = sum(map { $_->{late} } @changes);

publish('Propagation', <<"END",
From the moment a put or a delete of a member is sent to etcd (through its JSON
gateway) until the same process has it from `etcdctl watch`, and until it has
the answer to the first request that follows the change, on each of 4 workers.
Milliseconds, p50 / p99; a negative difference means that nginx was first. The
time of a request is part of the figure: asked for all the time, one took
$closeness->{took}[0] us at p50 and $closeness->{took}[1] us at p99, and each
worker was asked every $closeness->{apart}[0] us (p99:
$closeness->{apart}[1] us). The last column counts up to when that request was
sent, which is before nginx had it.
END
    table(\@head,
          row('add', @{ $kinds{add} }),
          row('removal', @{ $kinds{removal} }),
          row('removal 50 ms after an add', @{ $kinds{following} }),
          row('all', @changes)),
    <<"END");
Once a worker had followed a change, $late requests to it were routed by the
state before it, a deleted member included.
END
