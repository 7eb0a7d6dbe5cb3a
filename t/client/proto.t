#!/usr/bin/perl

# proto/etcd.proto against etcd's own files: each of its messages, fields and
# values is there, with the same number and type.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;

my $sources = '/usr/share/gocode/src/go.etcd.io/etcd';
my @files = map { "$sources/$_.proto" }
    'etcdserver/etcdserverpb/rpc', 'mvcc/mvccpb/kv';

# The project's types differ on purpose: bytes that are no UTF-8 must not make
# an answer fail.

my %ours_is = map { $_ => ['bytes', 'string'] } qw(
    WatchResponse.cancel_reason
    AuthenticateRequest.name
    AuthenticateRequest.password
    AuthenticateResponse.token
    Member.name
    StatusResponse.version
);
$ours_is{$_} = ['repeated bytes', 'repeated string']
    for qw(Member.peerURLs Member.clientURLs StatusResponse.errors);

# Events, and keys of lists, are unpacked one by one.

$ours_is{'WatchResponse.events'} = ['repeated bytes', 'repeated Event'];
$ours_is{'NestedRangeResponse.kvs'} = ['repeated bytes', 'repeated KeyValue'];
$ours_is{'RangeStreamResponse.range_response'} = ['repeated bytes',
                                                  'RangeResponse'];

# messages of later versions than the installed files

my %newer = map { $_ => 1 } qw(MemberListRequest.linearizable
                               RangeStreamResponse.range_response
                               StatusResponse.dbSizeQuota);

# messages of another service

$newer{$_} = 1 for qw(HealthCheckRequest.service HealthCheckResponse.status);


sub text_of {
    my ($path) = @_;

    open(my $file, '<', $path) or die "open $path: $!\n";
    local $/;

    my $text = <$file>;

    $text =~ s{/\*.*?\*/}{}gs;
    $text =~ s{//[^\n]*}{}g;

    return $text;
}


# { 'Message.field' => [label and type, number], 'Message.Enum.NAME' => ... }

sub parse {
    my ($text) = @_;

    my (%found, @where);

    while ($text =~ m{\G(.*?)([;\{\}])}gs) {
        my ($before, $mark) = ($1, $2);

        $before =~ s/\[.*?\]//gs;
        $before =~ s/^\s+|\s+$//g;

        if ($mark eq '{') {
            push @where, [$before =~ /^(\w+)\s+(\w+)$/ ? ($1, $2)
                                                       : ('other', '')];

        } elsif ($mark eq '}') {
            pop @where;

        } elsif (@where && $before =~ /^(.*?)\s*=\s*(\d+)$/s) {
            my ($left, $number) = ($1, $2);

            # A oneof is no level of names.

            my @names = map { $_->[1] } grep { $_->[0] =~ /^(?:message|enum)$/ }
                @where;
            my ($type, $name) = $left =~ /^(.*?)\s*(\w+)$/s;

            # packages differ

            $type =~ s/\b\w+\.//g;
            $found{join('.', @names, $name)} = [$type, $number];
        }
    }

    return \%found;
}


my $ours = parse(text_of("$FindBin::Bin/../../proto/etcd.proto"));

cmp_ok(scalar(keys %$ours), '>', 50, 'etcd.proto is understood');
is_deeply($ours->{'RangeResponse.kvs'}, ['repeated KeyValue', 2],
          'a repeated field');
is_deeply($ours->{'WatchRequest.create_request'}, ['WatchCreateRequest', 1],
          'one of a oneof');
is_deeply($ours->{'Event.EventType.DELETE'}, ['', 1], 'a value of an enum');

# protobuf-c unpacks by recursion: no answer can hold another one of its kind.

{
    my %holds;

    for my $name (keys %$ours) {
        my ($message) = $name =~ /^(\w+)\./ or next;
        my ($type) = $ours->{$name}[0] =~ /(\w+)$/ or next;

        push @{ $holds{$message} }, $type;
    }

    my @answers = grep { /Response$/ } keys %holds;

    cmp_ok(scalar(@answers), '>', 10, 'answers are found');
    is_deeply([grep { depth($_, \%holds) > 8 } @answers], [],
              'no answer nests without end');

    # Each message is fuzzed.

    my $fuzzed = text_of("$FindBin::Bin/../fuzz/fuzz_grpc.c");
    my %nested = map { $_ => 1 } map { @$_ } @holds{@answers};

    for my $name (sort grep { !$nested{$_} && !/^Nested/ } @answers) {
        my $descriptor = lc($name =~ s/(?<!^)([A-Z])/_$1/gr);

        like($fuzzed, qr/&etcd__${descriptor}__descriptor\b/,
             "$name is a target of the fuzzer");
    }

    is(depth('TxnRequest', \%holds), 9, 'as requests of ours do');
}


sub depth {
    my ($type, $holds, $depth) = @_;

    $depth //= 1;
    return $depth if $depth > 8;

    my $most = $depth;

    for my $below (@{ $holds->{$type} // [] }) {
        my $n = depth($below, $holds, $depth + 1);
        $most = $n if $n > $most;
    }

    return $most;
}


SKIP: {
    skip "golang-etcd-server-dev is not installed: $_ is missing", 1
        for grep { !-r } @files;

    my $theirs = parse(join('', map { text_of($_) } @files));

    # The answers to a nested Txn: etcd's messages nest without end.

    my %theirs_is = (NestedTxnResponse   => 'TxnResponse',
                     NestedResponseOp    => 'ResponseOp',
                     NestedRangeResponse => 'RangeResponse');

    for my $name (sort keys %$ours) {
        next if $newer{$name} && !$theirs->{$name};

        my ($type, $number) = @{ $ours->{$name} };

        s/\b(Nested\w+)\b/$theirs_is{$1}/ for $type, my $their_name = $name;

        if (my $differs = $ours_is{$name}) {
            is($type, $differs->[0], "$name: our type is as wanted");
            $type = $differs->[1];
        }

        is_deeply([$type, $number], $theirs->{$their_name}, $name);
    }
}

finish();
