package Go;

# Programs with etcd's own client, in Go: what Debian's packages have.

use strict;
use warnings;

use File::Basename qw(basename);

use Finish;

use constant {
    GOPATH  => '/usr/share/gocode',
    ETCD    => 'go.etcd.io/etcd/',
    MISSING => 'golang-go and golang-etcd-server-dev are not installed',
};


# Go is in a directory of its release.

sub go { (grep { -x } glob('/usr/lib/go/bin/go /usr/lib/go-*/bin/go'))[0] }


# etcd's client has one import path in 3.4, and another one since 3.5

sub client {
    my @paths = ('clientv3', 'client/v3');

    return (grep { -d GOPATH . '/src/' . ETCD . $_ } @paths)[0];
}


# Builds a program; returns its path, or undef without Go or etcd's client.

sub build {
    my ($source) = @_;

    my $name = basename($source, '.go');
    my $binary = test_dir() . "/$name";
    my $go = go() // return;
    my $client = client() // return;

    open(my $in, '<', $source) or die "open $source: $!\n";

    my $text = do { local $/; <$in> };

    $text =~ s{"\Q${\ ETCD}\Eclientv3}{"${\ ETCD}$client}g;

    open(my $out, '>', "$binary.go") or die "open $binary.go: $!\n";
    print $out $text;
    close($out) or die "write $binary.go: $!\n";

    local @ENV{qw(GOPATH GO111MODULE GOCACHE)} =
        (GOPATH, 'off', test_dir() . '/go');

    system($go, 'build', '-o', $binary, "$binary.go") == 0
        or die "$source does not compile\n";

    return $binary;
}


1;
