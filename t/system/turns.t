#!/usr/bin/perl

# Messages of etcd of the greatest allowed length: the event loop is not kept
# from its other work for long, whatever they contain.

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
    FROM  => 100,
    LIMIT => 0.05,      # of the CPU time of the worker
    ONE   => 0.75,      # for a key of 15 MB, which is copied at once
    TRIES => 3,         # a busy machine has slower caches: the best run counts
};

plan(skip_all => 'a sanitizer takes time of its own')
    if Nginx::built_with() =~ /-fsanitize/;

# JSON of so many bytes, with many elements

sub value {
    my ($n, $bytes) = @_;

    my $begin = sprintf('{"address":"127.1.%d.%d:80","x":[0', $n / 256,
                        $n % 256);

    return $begin . ',0' x (($bytes - length($begin)) / 2) . ']}';
}


sub kv {
    my ($n, $revision, $bytes) = @_;

    return field(1, BYTES, "/s/$n") . field(2, VARINT, $revision)
           . field(3, VARINT, $revision) . field(4, VARINT, 1)
           . field(5, BYTES, value($n, $bytes));
}


sub kvs {
    my ($keys, $bytes) = @_;

    return join('', map { field(2, BYTES, kv($_, 5, $bytes)) } 0 .. $keys - 1);
}


sub range { answer_header(FROM) . kvs(@_) }


# keys of a format in which several keys make a member

sub urls {
    my ($keys) = @_;

    return answer_header(FROM) . join('', map {
        field(2, BYTES, field(1, BYTES, "/s/$_/url") . field(2, VARINT, 5)
                        . field(3, VARINT, 5) . field(4, VARINT, 1)
                        . field(5, BYTES, sprintf('http://127.1.%d.%d:80',
                                                  $_ / 256, $_ % 256)))
    } 0 .. $keys - 1);
}


# The revisions of the events are the following ones, or all the next one.

sub watch {
    my ($keys, $bytes, $one) = @_;

    return answer_header(FROM) . field(3, VARINT, 1)
           . join('', map { field(11, BYTES,
                                  field(2, BYTES, kv($_, FROM + 1
                                                         + ($one ? 0 : $_),
                                                     $bytes))) }
                      0 .. $keys - 1);
}


# a key with as many fields as memory for one key allows, and 15 MB

sub one_key {
    return answer_header(FROM)
           . field(2, BYTES, kv(0, 5, 100) . field(15, VARINT, 1) x 40_000
                             . field(14, BYTES, 'x' x 15_000_000));
}


# a page, and the rest of the list in one message

sub stream {
    my ($keys, $bytes) = @_;

    my $page = answer_header(FROM) . kvs(1, 100) . field(3, VARINT, 1);
    my $rest = field(1, BYTES, range($keys, $bytes));

    return (Range => $page, RangeStream => $rest);
}


# A watch that always begins with the news that its revision is compacted: the
# prefix is listed again.

sub compacted {
    return answer_header(FROM) . field(3, VARINT, 1) . field(4, VARINT, 1)
           . field(5, VARINT, FROM + 1);
}


# Returns whether all keys came, and the share of the longest turn.

sub measure {
    my ($name, $last, %answers) = @_;

    my $later = delete $answers{later};
    my $format = delete $answers{format} // 'auto';
    my $check = delete $answers{check};
    my $nginx = Nginx->new();
    my %files = map { $_ => $nginx->write_file($_, $answers{$_}) }
                keys %answers;
    my $fake = Fake->new()->start('ok', map { ('--answer', "$_=$files{$_}") }
                                        sort keys %files);
    my $turns = Turn->measure(sub {
        $nginx->set(ETCD => $fake->endpoints, FORMAT => $format,
                    CHECK => $check ? 'etcd_check tcp;' : '')
            ->start(<<'EOC');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 64m;
}

http {
    upstream s {
        etcd_members /s/ format=%%FORMAT%%;
        %%CHECK%%
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

EOC
    });

    my ($pid) = $nginx->workers;
    my $s = Upstream->new($nginx, 's');
    my $came = wait_for(sub { ($s->status->{revision} // 0) == $last }, 60,
                        $name);

    if ($check) {
        $came &&= wait_for { grep { $_->{check} }
                             @{ $s->status->{members} } } 60, "$name: checks";
    }

    if ($later) {
        rename($nginx->write_file('later', $later), $files{Range})
            or die "rename: $!\n";

        $came = wait_for(sub { $s->status->{revision} == $last + 1 }, 60,
                         "$name, later");
    }

    my $longest = $turns->longest($pid);

    $nginx->quit;
    $fake->stop;

    return ($came, $longest);
}


# [NAME, REVISION, METHOD => ANSWER, ...]; "later": another answer to Range;
# "format": not the default; "check": members are checked

for (
    ['many events', FROM + 40_000, Watch => watch(40_000, 300)],
    ['large events', FROM + 256, Watch => watch(256, 60_000)],
    ['large ones of one revision', FROM + 1, Watch => watch(256, 60_000, 1)],
    ['many keys', FROM, Range => range(8000, 1900)],
    ['small keys', FROM, Range => range(99_000, 140)],
    ['large keys', FROM, Range => range(256, 60_000)],
    ['one key', FROM, Range => one_key()],
    ['vanished keys', FROM, Range => range(40_000, 50), Watch => compacted(),
     later => answer_header(FROM + 1)],
    ['members of keys', FROM, Range => urls(40_000), format => 'traefik'],
    ['vanished members of keys', FROM, Range => urls(40_000),
     Watch => compacted(), later => answer_header(FROM + 1),
     format => 'traefik'],
    ['many checked members', FROM, Range => range(40_000, 50), check => 1],
    ['many keys in a stream', FROM, stream(8000, 1900)],
    ['large keys in a stream', FROM, stream(256, 60_000)],
)
{
    my ($came, $longest);
    my $limit = $_->[0] eq 'one key' ? ONE : LIMIT;

    for my $try (1 .. TRIES) {
        ($came, $longest) = measure(@$_);

        last if !$came || $longest < $limit;
    }

    ok($came, "$_->[0]: all of them come");
    cmp_ok($longest, '<', $limit, "$_->[0]: the longest turn");
}

finish();
