package Becomes;

# Tests of values that are read again and again.
#
#     becomes { $nginx->says } 'wanted', 'NAME', SECONDS;   # 10; as of Wait
#     becomes { $api->members } { KEY => 'VALUE' }, 'NAME';
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

    my $text = text($wanted);
    my $seen;

    wait_for { text($seen = $ask->() // '') eq $text } $seconds // 10, $name;

    return Test::More::is_deeply($seen, $wanted, $name);
}


# a hash as lines, for a comparison

sub text {
    my ($value) = @_;

    return ref($value) ? join("\n", map { "$_ => $value->{$_}" }
                                    sort keys %$value)
                       : $value;
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
