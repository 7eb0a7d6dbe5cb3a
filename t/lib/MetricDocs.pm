package MetricDocs;

# The metrics of docs/status.md.
#
#     MetricDocs::metrics();      # { NAME => { type, labels } }, as families
#     MetricDocs::samples();      # { NAME => [LABELS] }, as they are queried
#     MetricDocs::names($text);   # the metrics that a text names, each once

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

use Slurp;

my $file = abs_path(dirname(__FILE__)) . '/../../docs/status.md';


# the names between backticks, but for the values in parentheses

sub quoted { $_[0] =~ s/\([^()]*\)//gr =~ /`(\w+)`/g }


sub metrics {
    my ($section) = slurp($file) =~ /^## Metrics$(.*?)(?:^## |\z)/ms;

    my %metrics;
    my @upstream;

    for my $part (split(/^### /m, $section)) {
        my ($common) = $part =~ /All\s+have\s+the\s+labels?\s+([^.]+)\./;
        my @common = quoted($common // '');

        @upstream = @common if $part =~ /^Of upstreams$/m;
        unshift @common, @upstream if ($common // '') =~ /^of upstreams/;

        while ($part =~ /^\| `(\w+)` \| (\w+) \| ([^|]*) \|/mg) {
            $metrics{$1} = { type => $2, labels => [@common, quoted($3)] };
        }
    }

    return \%metrics;
}


sub samples {
    my %metrics = %{ metrics() };
    my %samples;

    for my $name (keys %metrics) {
        my ($type, $labels) = @{ $metrics{$name} }{qw(type labels)};

        if ($type eq 'histogram') {
            $samples{"${name}_$_"} = $labels for qw(sum count);
            $samples{"${name}_bucket"} = [@$labels, 'le'];

        } else {
            $samples{$name} = $labels;
        }
    }

    return \%samples;
}


sub names {
    my ($text) = @_;

    my %names = map { $_ => 1 } $text =~ /\bnginx_etcd_\w+/g;

    return sort keys %names;
}


1;
