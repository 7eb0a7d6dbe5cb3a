package Go;

# Programs with etcd's own client, in Go: that of the etcd which tools/etcd has
# built, if the test runs with such a one, or else what Debian's packages have,
# or "make test-clients".

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(basename dirname);

use Finish;

use constant {
    GOPATH  => '/usr/share/gocode',
    ETCD    => 'go.etcd.io/etcd/',
    MISSING => 'no client of etcd in Go: ETCD=3.7, or golang-etcd-server-dev',
};


my $top = abs_path(dirname(__FILE__) . '/../..');


# Go is in a directory of its release.

sub go { (grep { -x } glob('/usr/lib/go/bin/go /usr/lib/go-*/bin/go'))[0] }


# the Go module of the etcd in PATH, or that of t/clients/ if it was built, and
# Debian has no client

sub module {
    my ($etcd) = grep { -x } map { "$_/etcd" } split(/:/, $ENV{PATH});

    return ($etcd // '') =~ m{/etcd-([\d.]+)/etcd$} && -d "$top/t/etcd/$1"
           ? "$top/t/etcd/$1"
           : !(go() && client()) && -x "$top/build/clients/grpc"
           ? "$top/t/clients" : undef;
}


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
    my $module = module();
    my $client = $module ? 'client/v3' : client() // return;

    open(my $in, '<', $source) or die "open $source: $!\n";

    my $text = do { local $/; <$in> };

    $text =~ s{"\Q${\ ETCD}\Eclientv3}{"${\ ETCD}$client}g;

    open(my $out, '>', "$binary.go") or die "open $binary.go: $!\n";
    print $out $text;
    close($out) or die "write $binary.go: $!\n";

    my @go = $module ? ("$top/tools/etcd", '--go', '-C', $module)
                     : go() // return;
    my %env = $module ? () : (GOPATH => GOPATH, GO111MODULE => 'off',
                              GOCACHE => test_dir() . '/go');

    local @ENV{keys %env} = values %env;

    system(@go, 'build', '-o', $binary, "$binary.go") == 0
        or die "$source does not compile\n";

    return $binary;
}


1;
