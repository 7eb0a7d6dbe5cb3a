#!/usr/bin/perl

# The dashboard of conf-examples/grafana-dashboard.json, and the files that let
# Grafana load it: they have the form that Grafana reads, and every query is
# answered by what an nginx with everything exports.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use CPAN::Meta::YAML;
use JSON::PP;
use Test::More;

use Backend;
use Etcd;
use Finish;
use MetricDocs;
use Metrics;
use Nginx;
use Slurp;
use Wait;

my $top = "$FindBin::Bin/../..";
my $dashboard = decode_json(
    slurp("$top/conf-examples/grafana-dashboard.json"));
my @panels = grep { $_->{type} ne 'row' } @{ $dashboard->{panels} };
my @variables = @{ $dashboard->{templating}{list} };
my @annotations = @{ $dashboard->{annotations}{list} };

my $etcd = Etcd->new()->start();
my $one = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOT');

etcd {
    endpoints %%ETCD%%;
    election jobs /elections/jobs value=me;
}

http {
    etcd_set $rate /rates/$arg_name;

    upstream api {
        etcd_members /api/ close_after=1m outcomes=members;
        etcd_guard keep=50% dry_run;
        etcd_prefer zone:a;
        etcd_eject errors=50%;
        etcd_check tcp interval=1s share=/observer
                       zone=here;
    }

    upstream two {
        etcd_members /two/;
        etcd_members /spare/ backup;
    }

    upstream db {
        etcd_leader /service/db format=patroni confirm=api failsafe=on;
    }

    upstream services {
        etcd_members /services/$arg_name/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            etcd_wait api 1s full;
            etcd_lock /locks/api $arg_name;
            proxy_pass http://api;
        }

        location /services {
            proxy_pass http://services;
        }

        location /db {
            proxy_pass http://db;
        }

        location /metrics {
            etcd_status prometheus members=on;
        }

        location /status {
            etcd_status;
        }
    }
}

EOT

$etcd->put('/api/1', encode_json({ address => $one->address,
                                   tags => { zone => 'a' } }));
is($nginx->get('/?name=x')->{status}, 200, 'a request');

# Checks, the database and etcd's version come when they come; etcd before 3.6
# does not tell its quota.

my $labels = MetricDocs::samples();
my $metrics;

ok(wait_for(sub {
       $metrics = Metrics->of($nginx, '/metrics');

       my %there = map { $_->[0] => 1 } $metrics->samples;

       return !grep { !$there{$_} && !$there{"${_}_bucket"} && !/_quota_/ }
                    keys %{ $metrics->types };
   }, 20, 'metrics'), 'an nginx that exports everything');

# The labels of docs/status.md are those of the samples.

my %wrong;

for my $sample ($metrics->samples) {
    my ($name, $has) = @$sample;
    my $has_names = join(' ', sort keys %$has);

    $wrong{"$name: $has_names"} = 1
        if $has_names ne join(' ', sort @{ $labels->{$name} // [] });
}

is(join(', ', sort keys %wrong), '', 'docs/status.md has their labels');

# the queries: { name, expr, legend }

my @queries = (
    (map { my $panel = $_;
           map { { name => "panel:$panel->{id}:$_->{refId}",
                   expr => $_->{expr}, legend => $_->{legendFormat} // '' } }
               @{ $panel->{targets} } } @panels),
    (map { { name => "annotation:$_", expr => $annotations[$_]{expr},
             legend => "$annotations[$_]{titleFormat} "
                       . $annotations[$_]{textFormat} } } 0 .. $#annotations),
);
my %used = map { $_ => 1 } map { MetricDocs::names($_->{expr}) } @queries;

is(join(' ', grep { !$labels->{$_} } sort keys %used), '',
   'the metrics of the dashboard exist');
is(join(' ', grep { !$used{$_} && !/_(?:sum|count)$/ } sort keys %$labels), '',
   'and it shows all that there are');

# Every query is limited by each variable that its metrics have as a label; the
# query of a variable by those before it.

sub limits {
    my ($name, $text, @by) = @_;

    my @wrong;

    while ($text =~ /\b(nginx_etcd_\w+)(?:\{([^}]*)\})?/g) {
        my ($metric, $given) = ($1, $2 // '');
        my %has = map { $_ => 1 } 'instance', @{ $labels->{$metric} // [] };
        my %given = map { $_ => 1 } split(/,/, $given);

        push @wrong, grep { !$given{$_} }
                     map { "$_=~\"\$$_\"" } grep { $has{$_} } @by;
    }

    return map { "$name: $_" } @wrong;
}


my @by = map { $_->{name} } grep { $_->{type} eq 'query' } @variables;
my $text = sub { $_[0]{query}{query} };

is_deeply(\@by, [qw(instance cluster module upstream)], 'variables');
is(join(', ', (map { limits($_->{name}, $_->{expr}, @by) } @queries),
        (map { limits($by[$_], $variables[$_ + 1]{query}{query},
                      @by[0 .. $_ - 1]) } 0 .. $#by)), '',
   'limit each query');
is(scalar(grep { $_->{expr} =~ /leader_changes_total/ } @annotations), 2,
   'annotations show the changes of leaders');

# Two such nginxes, whose counters grow, answer each query without an error, by
# samples which have the labels that are shown with them.  What nginx does not
# export yet has values, too.

my %series;

for my $sample ($metrics->samples,
                (map { [$_, { map { $_ => /class/ ? '5xx' : 1 }
                                  @{ $labels->{$_} } }, 0] }
                 grep { !grep { $metrics->{types}{$_} }
                            $_, s/_(?:bucket|sum|count)$//r }
                 sort keys %$labels))
{
    my ($name, $has, $value) = @$sample;
    my $grows = $name =~ /_(?:total|bucket|sum|count)$/;

    $value = '+Inf' if $value == 9**9**9;

    for my $instance ('web1', 'web2') {
        my %labels = (%$has, instance => $instance);

        $series{"$name\{" . join(',', map { "$_=\"$labels{$_}\"" }
                                      sort keys %labels) . '}'}
            = $value eq '+Inf' ? join(' ', ($value) x 21)
            : $value . ($grows ? '+1x20' : '+0x20');
    }
}

# Values that Grafana puts in
sub as_grafana { $_[0] =~ s/\$__rate_interval/5m/gr =~ s/\$\w+/.*/gr }

my $rules = $nginx->write_file('dashboard.yml', encode_json({
    groups => [{
        name  => 'dashboard',
        rules => [map { { record => $_->{name},
                          expr   => as_grafana($_->{expr}) } } @queries],
    }],
}));

judges('the expressions are PromQL', 'promtool', 'check', 'rules', $rules);
judges('and have values', 'promtool', 'test', 'rules',
       $nginx->write_file('dashboard_test.yml', encode_json({
    rule_files => [$rules],
    tests      => [{
        interval         => '30s',
        input_series     => [map { { series => $_, values => $series{$_} } }
                             sort keys %series],
        promql_expr_test => [map {
            my ($name, $legend) = @$_{qw(name legend)};
            my $shown = join(',', map { "$_!=\"\"" }
                                  $legend =~ /\{\{(\w+)\}\}/g);

            { expr        => "group by (__name__) ($name\{$shown})",
              eval_time   => '10m',
              exp_samples => [{ labels => "{__name__=\"$name\"}",
                                value => 1 }] }
        } @queries],
    }],
})));

# the form of panels

my %keys = (
    row => [qw(collapsed panels)],
    map({ $_ => [qw(description datasource fieldConfig targets)] }
        qw(timeseries table stat state-timeline)),
);
my (%ids, %titles, %descriptions, %taken);

for my $panel (@{ $dashboard->{panels} }) {
    my ($type, $title, $at) = @$panel{qw(type title gridPos)};

    is(join(' ', grep { !exists $panel->{$_} }
                 qw(id title gridPos), @{ $keys{$type} // ['no such type'] }),
       '', "panel $title has all keys");
    ok(!$ids{$panel->{id}}++ && !$titles{$title}++, 'a number and a title');

    my @cells = map { my $y = $_;
                      map { "$_,$y" } $at->{x} .. $at->{x} + $at->{w} - 1 }
                $at->{y} .. $at->{y} + $at->{h} - 1;

    is(join(' ', grep { $taken{$_}++ || /^(?:2[4-9]|[3-9]\d)/ } @cells), '',
       'and a place of its own');
}


# the units that an expression may have

sub units {
    my ($expression) = @_;

    return $expression =~ /_seconds/           ? 's'
         : $expression =~ m{_ratio\b| / }      ? 'percentunit'
         : $expression =~ /\brate\(\w+_bytes_/ ? 'Bps'
         : $expression =~ /\brate\(/           ? 'reqps|ops'
         :                                       'none|short';
}


for my $panel (@panels) {
    my ($title, $description) = @$panel{qw(title description)};
    my $defaults = $panel->{fieldConfig}{defaults};
    my %refs;

    ok($description =~ /^\w.{20,}\.$/ && !$descriptions{$description}++,
       "$title: it is described");
    is_deeply($panel->{datasource},
              { type => 'prometheus', uid => '${datasource}' },
              'asks the data source that is chosen');
    is(scalar(grep { $refs{$_->{refId}}++ } @{ $panel->{targets} }), 0,
       'each query has a name');
    like($defaults->{unit}, qr/^(?:${\ units($_->{expr}) })$/,
         "the unit of $_->{expr}") for @{ $panel->{targets} };

    # Numbers and states are shown as a word, or have a colour.

    my @mappings = map { @{ $_ // [] } } $defaults->{mappings},
        map { map { $_->{value} } grep { $_->{id} eq 'mappings' }
                  @{ $_->{properties} } } @{ $panel->{fieldConfig}{overrides} };
    my %shown = map { my $options = $_->{options};
                      map { ($options->{$_}{text} // $_) => $options->{$_} }
                          keys %$options } @mappings;

    is(scalar(grep { $_->{type} ne 'value' } @mappings), 0, 'mapped values');
    is(scalar(grep { !$_->{color} || $_->{index} !~ /^\d+$/ } values %shown),
       0, 'have colours');

    next if $panel->{type} !~ /^(?:table|state-timeline)$/;

    my ($metric) = MetricDocs::names($panel->{targets}[0]{expr});
    my %states = map { $_->[1]{state} // '' => 1 }
                 grep { $_->[0] eq $metric } $metrics->samples;

    $states{''} ? is(scalar(keys %shown), 2, "$metric: yes and no")
                : is_deeply([sort keys %shown], [sort keys %states],
                            "$metric: all states are mapped");
}

# The files that let Grafana load it name what is there.

my ($source) = @{ CPAN::Meta::YAML->read(
    "$top/conf-examples/grafana-datasource.yml") };
my ($provider) = @{ CPAN::Meta::YAML->read(
    "$top/conf-examples/grafana-provider.yml") };

is("$source->{apiVersion}$provider->{apiVersion}", 11, 'provisioning files');
is_deeply([map { @$_{qw(type access)} } @{ $source->{datasources} }],
          [qw(prometheus proxy)], 'a data source');
is_deeply([map { $_->{type} } @{ $provider->{providers} }], ['file'],
          'a provider');

my $page = slurp("$top/docs/operating.md");
my $path = $provider->{providers}[0]{options}{path};

like($page, qr/^install .*grafana-dashboard\.json \\\n +\Q$path\E\//m,
     'finds the dashboard where docs/operating.md puts it');

finish();
