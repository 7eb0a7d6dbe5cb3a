package Metrics;

# Metrics as etcd_status writes them, in either text format.
#
#     my $metrics = Metrics->of($nginx, '/metrics');
#     $metrics->value('nginx_etcd_upstream_members', upstream => 'api',
#                     state => 'up');
#
# A line that is in no such format is an error, and so are a sample without
# its type before it, and one that was there already.

use strict;
use warnings;

use Exporter 'import';
use Test::More ();

use Process;

our @EXPORT = qw(judges);

# the samples of a type, beside its name itself

my %suffixes = (
    counter   => ['_total'],
    gauge     => [''],
    histogram => ['_bucket', '_sum', '_count'],
    info      => ['_info'],
);

my $string = qr/"(?:[^"\\\n]|\\[\\"n])*"/;
my $label = qr/[a-z_]+=$string/;


sub of {
    my ($class, $nginx, $path, @headers) = @_;

    my $answer = $nginx->get($path, @headers);

    $answer->{status} == 200 or die "$path: status $answer->{status}\n";

    return $class->new($answer->{body});
}


sub new {
    my ($class, $text) = @_;

    my $self = bless { types => {}, help => {}, samples => {} }, $class;
    my $family = '';

    $text =~ /\n\z/ or die "metrics do not end with a line\n";

    for my $line (split(/\n/, $text)) {

        if ($line =~ /^# TYPE (\w+) (\w+)$/) {
            $self->{types}{$1} and die "twice: $line\n";
            $self->{types}{$family = $1} = $2;

        } elsif ($line =~ /^# HELP (\w+) (\S.*)$/ && $1 eq $family) {
            $self->{help}{$1} = $2;

        } elsif ($line =~ /^# UNIT (\w+) (\w+)$/ && $1 eq $family) {
            $family =~ /_$2$/ or die "no unit of it: $line\n";

        } elsif ($line eq '# EOF') {
            $self->{eof} = 1;

        } else {
            $self->sample($family, $line);
        }
    }

    return $self;
}


sub sample {
    my ($self, $family, $line) = @_;

    my ($name, $labels, $value) =
        $line =~ /^(\w+)(?:\{($label(?:,$label)*)\})? (\+Inf|[\d.]+)$/
        or die "no sample: $line\n";
    my $type = $self->{types}{$family} // '';

    # the older format has the suffix in the name of the type

    if (!grep { $name eq "$family$_" } '', @{ $suffixes{$type} // [] }) {
        die "not of $family: $line\n";
    }

    my %labels = ($labels // '') =~ /([a-z_]+)=($string)/g;
    my $key = key($name, map { $_ => unquote($labels{$_}) } keys %labels);

    exists $self->{samples}{$key} and die "twice: $line\n";
    $self->{samples}{$key} = $value eq '+Inf' ? 9**9**9 : $value;
}


sub unquote {
    my ($text) = @_;

    my %escapes = (n => "\n", '"' => '"', '\\' => '\\');

    return $text =~ s/^"(.*)"$/$1/sr =~ s/\\(.)/$escapes{$1}/gr;
}


sub key {
    my ($name, %labels) = @_;

    return join("\0", $name, map { "$_=$labels{$_}" } sort keys %labels);
}


# the names of metrics, without the suffixes of counters and infos

sub families {
    my ($self) = @_;

    return sort map {
        $self->{types}{$_} eq 'counter' ? s/_total$//r : s/_info$//r
    } keys %{ $self->{types} };
}


# { name as it is queried => type }: of the older format

sub types { $_[0]{types} }


# the value of the only sample that has these labels, and maybe others; undef
# without such a sample

sub value {
    my ($self, $name, %labels) = @_;

    my @values = $self->values($name, %labels);

    @values < 2 or die @values . " samples of $name\n";

    return $values[0];
}


sub values {
    my ($self, $name, %labels) = @_;

    return map { $_->[2] } grep {
        my ($first, $has) = @$_;

        $first eq $name
            && !grep { ($has->{$_} // '') ne $labels{$_} } keys %labels
    } $self->samples;
}


# [name, { label => value of it }, value] of each

sub samples {
    my ($self) = @_;

    return map {
        my ($name, @labels) = split(/\0/, $_, -1);

        [$name, { map { /^(\w+)=(.*)$/s } @labels }, $self->{samples}{$_}]
    } keys %{ $self->{samples} };
}


# Tests that a command accepts a file; returns the command's output.

sub judges {
    my ($name, @command) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my ($status, $output) = run(@command);

    Test::More::ok($status == 0, $name) or Test::More::diag($output);

    return $output;
}


1;
