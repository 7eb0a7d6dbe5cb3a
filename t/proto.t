#!/usr/bin/perl

# proto/etcd.proto against etcd's own files: each message, field and value that
# we have is there, with the same number and type.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Finish;

my $sources = '/usr/share/gocode/src/go.etcd.io/etcd';
my @files = map { "$sources/$_.proto" }
    'etcdserver/etcdserverpb/rpc', 'mvcc/mvccpb/kv';

# ours differ on purpose: no peer can fail us with bytes that are no UTF-8

my %ours_is = map { $_ => ['bytes', 'string'] } qw(
    WatchResponse.cancel_reason
    AuthenticateRequest.name
    AuthenticateRequest.password
    AuthenticateResponse.token
    Member.name
);
$ours_is{"Member.$_"} = ['repeated bytes', 'repeated string']
    for qw(peerURLs clientURLs);


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

            # a oneof is no level of names

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


my $ours = parse(text_of("$FindBin::Bin/../proto/etcd.proto"));

cmp_ok(scalar(keys %$ours), '>', 50, 'etcd.proto is understood');
is_deeply($ours->{'WatchResponse.events'}, ['repeated Event', 11],
          'a repeated field');
is_deeply($ours->{'WatchRequest.create_request'}, ['WatchCreateRequest', 1],
          'one of a oneof');
is_deeply($ours->{'Event.EventType.DELETE'}, ['', 1], 'a value of an enum');

SKIP: {
    skip "golang-etcd-server-dev is not installed: $_ is missing", 1
        for grep { !-r } @files;

    my $theirs = parse(join('', map { text_of($_) } @files));

    for my $name (sort keys %$ours) {
        my ($type, $number) = @{ $ours->{$name} };

        if (my $differs = $ours_is{$name}) {
            is($type, $differs->[0], "$name: our type is as wanted");
            $type = $differs->[1];
        }

        is_deeply([$type, $number], $theirs->{$name}, $name);
    }
}

finish();
