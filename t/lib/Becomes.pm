package Becomes;

# Tests of what is asked again and again.
#
#     becomes { $nginx->says } 'wanted', 'NAME', SECONDS;   # 10; as of Wait
#     stays { $nginx->says } 'wanted', 'NAME', SECONDS;     # all the time

use strict;
use warnings;

use Exporter 'import';
use Test::More ();
use Time::HiRes qw(sleep time);

use Wait;

our @EXPORT = qw(becomes stays);

use constant PAUSE => 0.01;


sub becomes(&$$;$) {
    my ($ask, $wanted, $name, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $seen;

    my $is = wait_for { ($seen = $ask->() // '') eq $wanted } $seconds // 10,
        $name;

    return Test::More::ok($is, $name)
           || Test::More::diag("seen: $seen\nwanted: $wanted") && 0;
}


sub stays(&$$$) {
    my ($ask, $wanted, $name, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $end = time() + $seconds;
    my %seen;

    while (time() < $end) {
        $seen{$ask->() // ''}++;
        sleep(PAUSE);
    }

    return Test::More::is_deeply([keys %seen], [$wanted], $name);
}


1;
