package Source;

# The contents of the tables in src/.
#
#     Source::directives();       # { NAME => { contexts, field } }
#     Source::defaults();         # { FIELD => VALUE }, as expressions in C
#     Source::strings('TABLE');   # of each row of a table the first string
#     Source::options('TABLE');   # { NAME => { value, type, names } }
#
# Contexts are 'main', 'etcd', 'http location', 'stream upstream' and so on.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

my $src = abs_path(dirname(__FILE__) . '/../../src');

my %context = (
    NGX_MAIN_CONF       => 'main',
    NGX_ETCD_CONF       => 'etcd',
    NGX_HTTP_MAIN_CONF  => 'http http',
    NGX_HTTP_SRV_CONF   => 'http server',
    NGX_HTTP_LOC_CONF   => 'http location',
    NGX_HTTP_SIF_CONF   => 'http if in server',
    NGX_HTTP_LIF_CONF   => 'http if in location',
    NGX_HTTP_LMT_CONF   => 'http limit_except',
    NGX_HTTP_UPS_CONF   => 'http upstream',
    NGX_STREAM_MAIN_CONF => 'stream stream',
    NGX_STREAM_SRV_CONF => 'stream server',
    NGX_STREAM_UPS_CONF => 'stream upstream',
);

my %no_context = map { $_ => 1 } qw(NGX_DIRECT_CONF);

my @texts = map { read_file($_) } glob("$src/*/*.c");
my @headers = map { read_file($_) } glob("$src/*/*.h");


sub read_file {
    my ($path) = @_;

    open(my $file, '<', $path) or die "open $path: $!\n";
    local $/;

    return <$file>;
}


# a directive of http and one of stream may have one name

sub directives {
    my %directives;

    for my $text (@texts) {
        for my $table ($text =~ /^static ngx_command_t .*?\{\n(.*?)^\};/msg) {
            while ($table =~ /\{\s*ngx_string\("(\w+)"\),(.*?)\}/sg) {
                my ($name, $row) = ($1, $2);
                my $directive = $directives{$name} //= {};

                add_contexts($name, $directive, $row);

                if ($row =~ /offsetof\(\w+,\s*[\w.]*?(\w+)\)/) {
                    $directive->{field} = $1;
                }
            }
        }
    }

    return \%directives;
}


sub add_contexts {
    my ($name, $directive, $row) = @_;

    for my $flag ($row =~ /\b(NGX_\w+_CONF)\b/g) {
        next if $no_context{$flag};

        my $context = $context{$flag} // die "$name: what is $flag?\n";

        $directive->{contexts}{$context} = 1;
    }
}


# values of directives that were neither given nor inherited

sub defaults {
    my %defaults;
    my $names = constants();

    for my $text (@texts) {
        while ($text =~ /\bngx_conf_(?:init_(?:\w+_)?value\(
                                     |merge_(?:uint|msec)_value\([^,]*,\s*)
                         [\w>-]*?(\w+),\s*([^;]+)\);/xg)
        {
            my ($field, $value) = ($1, $2);

            $defaults{$field} = $names->{$value} // $value
                if $value !~ /^NGX_CONF_UNSET/;
        }
    }

    return \%defaults;
}


# NAME => its number, or the word that a configuration has for it

sub constants {
    my %constants;

    for my $text (@headers) {
        while ($text =~ /^#define\s+(NGX_ETCD_\w+)\s+(\d+)\b/mg) {
            $constants{$1} = $2;
        }
    }

    for my $text (@texts) {
        while ($text =~ /\{ ngx_string\("(\w+)"\), (NGX_ETCD_\w+) \}/g) {
            $constants{$2} = $1;
        }
    }

    return \%constants;
}


sub strings {
    my ($table) = @_;

    for my $text (@texts) {
        if ($text =~ /\b\Q$table\E\[\] = \{\n(.*?)^\};/ms) {
            return $1 =~ /^ {4}(?:\{ )?(?:\.name = )?ngx_string\("([^"]+)"\)/mg;
        }
    }

    die "there is no table $table in src/\n";
}


# parameters of a directive: whether they have a value, its type, and the words
# of an enum

sub options {
    my ($table) = @_;

    my ($rows) = map { /\b\Q$table\E\[\] = \{\n(.*?)^\};/ms } @texts
        or die "there is no table $table in src/\n";

    my %macros = map {
        /^#define (NGX_ETCD_\w+_OPTIONS)\s*\\\n((?:.*\\\n)*.*)/mg
    } @headers;

    $rows =~ s/^ +(NGX_ETCD_\w+_OPTIONS),/$macros{$1}/mg;

    my %options;

    while ($rows =~ /\{ \.name = ngx_string\("(\w+)(=?)"\),(.*?) \}/sg) {
        my ($name, $equals, $row) = ($1, $2, $3);

        next if $row =~ /\.former = 1/;

        my ($type) = $row =~ /NGX_ETCD_OPTION_(\w+)/;
        my ($names) = $row =~ /\.names = (\w+)/;

        $options{$name} = {
            value => $equals,
            type  => $type // 'SET',
            names => [$names ? strings($names) : ()],
        };
    }

    return \%options;
}


1;
