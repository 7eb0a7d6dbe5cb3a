#!/usr/bin/perl

# An agent that takes over reads all members from the zone, and an audit looks
# at all of them: the event loop is not kept from its other work for long,
# however many there are.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Fake;
use Finish;
use Nginx;
use Protobuf;
use Turn;
use Upstream;
use Wait;

use constant {
    KEYS  => 70_000,
    FROM  => 100,
    LIMIT => 0.15,      # of the CPU time of the worker, which did little else
    TRIES => 3,         # a busy machine has slower caches: the best run counts
};

plan(skip_all => 'a sanitizer takes time of its own')
    if Nginx::built_with() =~ /-fsanitize/;

my $members = range(KEYS);


# a list of so many keys, each with an address of its own

sub range {
    my ($keys) = @_;

    return answer_header(FROM) . join('', map {
        field(2, BYTES, field(1, BYTES, "/s/a/$_") . field(2, VARINT, 5)
                        . field(3, VARINT, 5) . field(4, VARINT, 1)
                        . field(5, BYTES, address($_)))
    } 0 .. $keys - 1);
}


sub address { sprintf('127.%d.%d.%d:80', 1 + ($_[0] >> 16), $_[0] >> 8 & 255,
                  $_[0] & 255) }


# Starts nginx with the members of that prefix, and returns nginx, the etcd and
# the measurement when all members are in the zone, or nothing.

sub start {
    my ($prefix, $audit) = @_;

    my $nginx = Nginx->new();
    my $fake = Fake->new()->start('ok', '--answer', 'Range='
                                  . $nginx->write_file('range', $members));

    $nginx->set(ETCD => $fake->endpoints, PREFIX => $prefix, AUDIT => $audit);

    my $turns = Turn->measure(sub { $nginx->start(<<'EOC') });

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    zone 128m;
    audit_interval %%AUDIT%%;
}

http {
    map $host $service {
        default a;
    }

    upstream s {
        etcd_members %%PREFIX%%;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC

    my $came = wait_for { ($nginx->upstream('s')->status->{revision} // 0)
                          == FROM } 60, "$prefix: all members";

    return $came ? ($nginx, $fake, $turns) : ();
}


sub agent { $_[0]->status->{agent}{pid} }

sub watches { scalar @{ $_[0]->lines(qr{ call .*/Watch$}) } }


# An agent stands still, so that another worker, which has been there, takes
# over.

sub take_over {
    my ($prefix) = @_;

    my ($nginx, $fake, $turns) = start($prefix, 0) or return;
    my $former = agent($nginx);
    my ($next) = grep { $_ != $former } $nginx->workers;

    $nginx->freeze($former);

    my $came = wait_for { $nginx->count_log(qr/ $next#.* is the agent/)
                          && watches($fake) > 1 } 60,
                        "$prefix: the next agent";
    my $longest = $turns->longest($next);

    $nginx->thaw($former);
    $nginx->quit;
    $fake->stop;

    return ($came, $longest);
}


# An audit finds that etcd has no key of all members.

sub audit {
    my ($prefix) = @_;

    my ($nginx, $fake, $turns) = start($prefix, '1s') or return;
    my $agent = agent($nginx);

    rename($nginx->write_file('later', answer_header(FROM)),
           $nginx->dir . '/range') or die "rename: $!\n";

    my $came = wait_for { $nginx->count_log(qr/differs from etcd/) } 60,
                        "$prefix: an audit";
    my $longest = $turns->longest($agent);

    $nginx->quit;
    $fake->stop;

    return ($came, $longest);
}


for (
    ['a takeover', '/s/', \&take_over],
    ['a takeover of a service', '/s/$service/', \&take_over],
    ['an audit', '/s/', \&audit],
    ['an audit of services', '/s/$service/', \&audit],
)
{
    my ($name, $prefix, $code) = @$_;
    my ($came, $longest);

    for my $try (1 .. TRIES) {
        ($came, $longest) = $code->($prefix);

        last if !$came || $longest < LIMIT;
    }

    ok($came, "$name: it is there");
    cmp_ok($longest, '<', LIMIT, "$name: the longest turn");
}

finish();
