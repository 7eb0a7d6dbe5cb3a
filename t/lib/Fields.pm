package Fields;

# The fields and metrics in the tables of src/status/ngx_etcd_status_field.c.
#
#     Fields::json();       # 'clusters.NAME.endpoints[].url', ...
#     Fields::metrics();    # { NAME => TYPE }, as in the text format

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

use Slurp;

my $file = abs_path(dirname(__FILE__))
           . '/../../src/status/ngx_etcd_status_field.c';

# objects whose fields are below a name

my %named = map { $_ => 1 } qw(clusters upstreams elections locks variables);

my $string = qr/"([^"]*)"/;
my $text = slurp($file) =~ s/^#define (?:.*\\\n)*.*$//mgr;


sub json {

    # a kind: { NAME, FIELDS, ...

    my @kinds = $text =~ /^const\ ngx_etcd_status_kind_t\s+\w+\ =\ \{\s*
                          (NULL|"\w+"),\s*(\w+)/mgx;
    my @fields;

    while (my ($name, $table) = splice(@kinds, 0, 2)) {
        $name =~ s/"//g;

        # members are below upstreams, and so are those of stream; endpoints
        # are below clusters

        next if $table =~ /^ngx_etcd_status_(?:member|endpoint)_fields$/
                || $name eq 'stream_upstreams';

        push @fields, fields($table, $name eq 'NULL' ? ''
                                   : $named{$name} ? "$name.NAME."
                                   : $name eq 'events' ? 'events[].'
                                   : "$name.");
    }

    return @fields;
}


sub fields {
    my ($table, $path) = @_;

    my ($rows) = $text =~ /\b\Q$table\E\[\] = \{\n(.*?)^\};/ms
        or die "there is no table $table in $file\n";

    my @fields;

    for my $row (split(/^(?= {4}ngx_etcd_status_)/m, $rows)) {
        my ($macro, $name) = $row =~ /^ *ngx_etcd_status_(\w+)\($string/
            or next;
        my ($nested) = $row =~ /\b(ngx_etcd_status_\w+_fields)\)/;

        # objects without a table of their own

        if ($macro eq 'both' && $row =~ /^ *\w+\($string, HISTOGRAM/) {
            push @fields, map { "$path$name.$_" }
                qw(buckets[].le_ms buckets[].count count sum_ms);
            next;
        }

        if ($macro eq 'both' && $row =~ /^ *\w+\($string, COUNTS/) {
            push @fields, map { "$path$name.${_}xx" } 1 .. 5;
            next;
        }

        if ($macro eq 'both' && $row =~ /^ *\w+\($string, REASONS/) {
            push @fields, "$path$name.REASON";
            next;
        }

        push @fields, !$nested ? "$path$name"
            : fields($nested, $path . $name
                              . ($row =~ /OBJECT/ ? '.' : '[].'));
    }

    return @fields;
}


sub metrics {
    my %types = (
        info    => ['_info', 'gauge'],
        counter => ['_total', 'counter'],
        bytes   => ['_total', 'counter'],
        counts  => ['_total', 'counter'],
        gauge   => ['', 'gauge'],
        states  => ['', 'gauge'],
        unit    => ['', 'gauge'],
        times   => ['', 'histogram'],
    );

    my %metrics;

    while ($text =~ /\bngx_etcd_metric_(\w+)\($string/g) {
        my $type = $types{$1} or die "what is ngx_etcd_metric_$1?\n";

        $metrics{$2 . $type->[0]} = $type->[1];
    }

    return \%metrics;
}


1;
