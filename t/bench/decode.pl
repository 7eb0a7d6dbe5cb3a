#!/usr/bin/perl

# The cost of decoding a value of each format: the first member of each file of
# t/formats/.  The peer is jansson, which parses the value and does nothing with
# it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Bench;
use Corpus;
use Finish;
use Nginx;
use Process;

use constant {
    ROUNDS => $ENV{BENCH_ROUNDS} || 9,
    VALUES => $ENV{BENCH_CHANGES} || 100_000,
};

my $build = Nginx::modules_dir();
my ($failed, $output) = run('make', '-s', '-C', "$FindBin::Bin/../unit",
                            "BUILD=$build", 'OUT=' . test_dir());

$failed and die "no test module: $output\n";

my @cases = (
    { name => 'json, all fields', format => 'json', parameters => '',
      key  => '/services/api/1',
      value => '{"address":"10.0.0.7:8080","weight":2,"max_fails":3,'
               . '"fail_timeout":10,"max_conns":100,"backup":false,'
               . '"down":false,"drain":false,"tags":{"zone":"a"}}' },
    { name => 'json', format => 'json', parameters => '',
      key  => '/services/api/1', value => '{"address":"10.0.0.7:8080"}' },
    map { corpus_case($_) } grep { $_->{parameters} ne 'format=traefik' }
        Corpus::all("$FindBin::Bin/../formats"),
);


sub corpus_case {
    my ($set) = @_;

    my ($format, $parameters) = Corpus::words($set);
    my ($entry) = grep { @{ $_->{members} } } @{ $set->{entries} };

    return { name => $set->{name}, format => $format, %$entry,
             parameters => $parameters };
}


sub measure {
    my $text = 'load_module ' . test_dir() . "/ngx_etcd_unit_module.so;\n"
        . join('', map {
              sprintf("etcd_decode_bench %s %s \"%s\" %d %s;\n",
                      $_->{format}, unpack('H*', $_->{key}),
                      unpack('H*', $_->{value}), VALUES, $_->{parameters})
          } @cases);

    my (undef, $output) = Nginx->new(modules => ['etcd'])->configtest($text);
    my @figures = $output =~ /^bench: (\d+ \d+) -?\d+$/mg;

    @figures == @cases or die $output;

    for my $case (@cases) {
        my ($all, $json) = split(/ /, shift @figures);

        push @{ $case->{all} }, $all;
        push @{ $case->{json} }, $json;
        push @{ $case->{ratio} }, $all / $json if $json;
    }
}


measure() for 1 .. ROUNDS;

publish('Decoding values',
    'Processor time for one value, from its bytes to a member, on one core: '
    . 'the first member of each file of `t/formats/`. The peer is jansson, '
    . 'parsing the value and freeing it. ' . ROUNDS . ' rounds.',
    table(['format', 'bytes', 'ns', 'jansson, ns', 'ratio', 'values/s'],
          map {
              my $json = $_->{json}[0];

              [$_->{name}, length($_->{value}), spread('%d', @{ $_->{all} }),
               $json ? spread('%d', @{ $_->{json} }) : '-',
               $json ? spread('%.2f', @{ $_->{ratio} }) : '-',
               sprintf('%d 000', 1e6 / median(@{ $_->{all} }))]
          } @cases));

finish();
