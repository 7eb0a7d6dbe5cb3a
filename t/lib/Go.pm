package Go;

# Programs with etcd's own client, in Go: what Debian's packages have.

use strict;
use warnings;

use File::Basename qw(basename);

use Finish;

use constant {
    GO      => '/usr/lib/go-1.19/bin/go',
    GOPATH  => '/usr/share/gocode',
    MISSING => 'golang-1.19 and golang-etcd-server-dev are not installed',
};


# the binary of a source file; undef: there is no Go, or not etcd's client

sub build {
    my ($source) = @_;

    my $binary = test_dir() . '/' . basename($source, '.go');

    -x GO && -d GOPATH . '/src/go.etcd.io/etcd/clientv3' or return;

    local @ENV{qw(GOPATH GO111MODULE GOCACHE)} =
        (GOPATH, 'off', test_dir() . '/go');

    system(GO, 'build', '-o', $binary, $source) == 0
        or die "$source does not compile\n";

    return $binary;
}


1;
