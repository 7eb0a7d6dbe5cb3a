#!/usr/bin/perl

# An election with etcd's own client in Go.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Go;
use Nginx;
use Turns;


SKIP: {
    my $go = Go::build("$FindBin::Bin/../go/hold.go") // skip(Go::MISSING, 1);

    my $etcd = Etcd->new()->start();
    my $nginx = Nginx->new(etcd => $etcd)->start(Turns::CONFIG);

    Turns::take($etcd, $nginx, '/elections/ingress', 'go', $go, 'elect',
                $etcd->url);
}

finish();
