package Corpus;

# Keys and values as systems write them, and what we make of them: a file of
# t/formats/ is one upstream.
#
#     for my $set (Corpus::all()) {
#         $set->{name};           # the file's, without ".txt"
#         $set->{prefix};
#         $set->{parameters};     # of etcd_members: 'format=kratos scheme=grpc'
#         $set->{entries};        # [{ key, value, members, invalid }, ...]
#     }
#
# A file has a head of "format:" and "prefix:", then entries, each of "key:",
# "value:", any number of "member: ADDRESS WEIGHT STATE" (up, down, backup or
# drained), and maybe "invalid: REASON", which is what the status says of the
# value, whether it has members or not.  Where it is not its key that is shown,
# that stands behind the state, or in "of:" below the reason.

use strict;
use warnings;

use File::Basename qw(dirname);


sub all {
    my ($dir) = @_;

    $dir //= dirname(__FILE__) . '/../formats';

    return map { read_set($_) } sort glob("$dir/*.txt");
}


sub read_set {
    my ($path) = @_;

    my ($name) = $path =~ m{([^/]+)\.txt$};
    my $set = { name => $name, entries => [] };

    open(my $file, '<', $path) or die "open $path: $!\n";

    while (<$file>) {
        chomp;

        if (/^$|^#/) {
            next;

        } elsif (/^format: (\S.*)$/) {
            $set->{parameters} = "format=$1";

        } elsif (/^prefix: (\S+)$/) {
            $set->{prefix} = $1;

        } elsif (/^key: (.*)$/) {
            push @{ $set->{entries} }, { key => $1, members => [] };

        } elsif (/^value:(?: (.*))?$/) {
            $set->{entries}[-1]{value} = $1 // '';

        } elsif (/^member: (\S+ \d+ \w+(?: \S+)?)$/) {
            push @{ $set->{entries}[-1]{members} }, $1;

        } elsif (/^invalid: (.+)$/) {
            $set->{entries}[-1]{invalid} = $1;

        } elsif (/^of: (\S+)$/) {
            $set->{entries}[-1]{of} = $1;

        } else {
            die "$path:$.: not understood\n";
        }
    }

    return $set;
}


# the name of the format, and the other parameters as nginx.conf takes them

sub words {
    my ($set) = @_;

    return quoted($set) =~ /^"format=(\S+)" ?(.*)/;
}


# all parameters as nginx.conf takes them

sub quoted {
    my ($set) = @_;

    return join(' ', map { "\"$_\"" } split(/ /, $set->{parameters}));
}


1;
