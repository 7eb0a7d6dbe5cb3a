package Propagation;

# Runs propagation.c: the delay of nginx behind changes in etcd.

use strict;
use warnings;

use FindBin;
use List::Util qw(max);

use Bench;
use Etcd;
use Finish;

my $binary;


sub compile {
    $binary //= test_dir() . '/propagation';

    system('cc', '-O2', '-o', $binary, "$FindBin::Bin/propagation.c") == 0
        or die "propagation.c does not compile\n";

    return $binary;
}


# The changes are arrays of: kind, event, what nginx answers, path and body of
# the request, ms to the next one and how many more at random; then, where there
# is one, path and body of a request after it.  The watch is of a prefix.
#
# Returns how closely was looked, and a list of
# { kind, late, watch, sent => [], answered => [] }, times in us.

sub measure {
    my ($etcd, $port, $workers, $cycles, $prefix, $changes) = @_;

    my $file = test_dir() . '/changes';

    open(my $list, '>', $file) or die "$file: $!\n";

    for (@$changes) {
        my ($kind, $event, $answer, $path, $body, $gap, $jitter, @after) = @$_;

        print $list join("\t", $kind, $event, $answer, $gap, $jitter, $path,
                         $body, @after), "\n";
    }

    close($list);

    local $ENV{ETCDCTL_API} = 3;

    open(my $output, '-|', compile(), $etcd->port, $port, $workers, $cycles,
         $file, 'etcdctl', '--endpoints', $etcd->url, 'watch', '--prefix',
         '--rev', $etcd->revision() + 1, $prefix)
        or die "propagation: $!\n";

    my (@done, %closeness);

    while (<$output>) {
        my ($what, @values) = split;

        if ($what eq 'begin') {
            @done = ();

        } elsif ($what eq 'took' || $what eq 'apart') {
            $closeness{$what} = \@values;

        } else {
            push @done, change($what, @values);
        }
    }

    close($output) or die "propagation failed\n";

    return (\%closeness, @done);
}


sub change {
    my ($kind, $late, $watch, @workers) = @_;

    return {
        kind     => $kind,
        late     => $late,
        watch    => $watch,
        sent     => [map { m{^(.*)/} } @workers],
        answered => [map { m{/(.*)$} } @workers],
    };
}


# the heads of a table: ms, p50 / p99

sub head {
    my ($change, $last) = @_;

    return ['change', 'n', "$change to `etcdctl watch`",
            'to a request on a worker', "to a request on $last",
            "$last after `etcdctl watch`",
            'the same, by when that request was sent'];
}


sub row {
    my ($name, @changes) = @_;

    return [
        $name,
        scalar(@changes),
        ms(map { $_->{watch} } @changes),
        ms(map { @{ $_->{answered} } } @changes),
        ms(map { max(@{ $_->{answered} }) } @changes),
        ms(map { max(@{ $_->{answered} }) - $_->{watch} } @changes),
        ms(map { max(@{ $_->{sent} }) - $_->{watch} } @changes),
    ];
}


sub ms {
    my (@us) = @_;

    return sprintf('%.2f / %.2f', percentile(50, @us) / 1000,
                   percentile(99, @us) / 1000);
}


1;
