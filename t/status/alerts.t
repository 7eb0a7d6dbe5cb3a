#!/usr/bin/perl

# The alerts of conf-examples/alerts.yml: each one is in the table of
# docs/operating.md, comes when it should and not before, and says of what it
# is and what to do.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use CPAN::Meta::YAML;
use Test::More;

use Docs;
use Finish;
use MetricDocs;
use Metrics;
use Slurp;

my $top = "$FindBin::Bin/../..";
my $file = "$top/conf-examples/alerts.yml";
my @rules = map { @{ $_->{rules} } }
            map { @{ $_->{groups} } } @{ CPAN::Meta::YAML->read($file) };
my @alerts = sort map { $_->{alert} } @rules;
my $labels = MetricDocs::samples();

like(judges('alerts.yml is valid', 'promtool', 'check', 'rules', $file),
     qr/SUCCESS: ${\ scalar(@rules)} rules found/, 'as promtool says');

# the table: a row for each alert, an alert for each row

my ($section) = slurp("$top/docs/operating.md") =~ /^## Alerts$(.*?)^## /ms;
my @rows = map { s/^`(\w+)`$/$1/r } $section =~ /^\| ([^|]*) \|/mg;

is(shift @rows, 'alert', 'docs/operating.md has a table of alerts');
is_deeply([sort @rows], \@alerts, 'which are those of alerts.yml');

# Each alert says of what it is, and where to read what to do.

my %anchors = map { $_ => 1 } Docs::page('docs/troubleshooting.md')->anchors;

for my $rule (@rules) {
    my ($alert, $notes) = @$rule{qw(alert annotations)};
    my @metrics = MetricDocs::names($rule->{expr});
    my $said = join(' ', map { $_ // '' } @$notes{qw(summary description)});

    is(join(' ', grep { !$labels->{$_} } @metrics), '',
       "$alert: its metrics exist");

    # the label that names most exactly what this metric is of

    my %subjects = map { $_ => 1 } 'instance', map {
        (grep { !/^(?:state|class|le|module)$/ } @{ $labels->{$_} // [] })[-1]
    } @metrics;

    is(join(' ', grep { $said !~ /\{\{ \$labels\.$_ \}\}/ }
                 sort keys %subjects), '', 'says of what it is');
    is(scalar(grep { length($notes->{$_} // '') > 10 }
              qw(summary description)), 2, 'in a summary and a description');

    my ($anchor) = ($notes->{runbook} // '')
                   =~ m{^docs/troubleshooting\.md#(.+)$};

    ok($anchor && $anchors{$anchor}, 'and which section says what to do')
        or diag($notes->{runbook} // 'none');
    like($rule->{labels}{severity}, qr/^(?:warning|critical)$/, 'severity');
}

# Each trouble begins after 16 minutes in which every number was as bad as it
# may be, and raises its alert, and it alone, after so many seconds:
#
#     [ALERT, SECONDS, [METRIC, well, ill, LABELS], ...]
#
# A value "A+B" grows by B every 30 seconds.  A trouble without a name raises
# nothing.

my $begin = 16 * 60;
my $interval = 30;
my $steps = $begin / $interval;

my @troubles = (
    (map { [NginxEtcdNotSynced => 60,
            [nginx_etcd_cluster_state => 0, 1, state => $_]] }
         qw(connecting syncing stale)),
    [NginxEtcdNotSynced => 60,
     [nginx_etcd_cluster_state => 0, '1 1 0+0x60', state => 'connecting'],
     [nginx_etcd_cluster_state => 0, '0 0 1+0x60', state => 'syncing']],
    ['' => 0, [nginx_etcd_cluster_state => 0, '1 1 0+0x60',
               state => 'connecting']],
    [NginxEtcdStale => 60, [nginx_etcd_cluster_staleness_seconds => 60, 61]],
    [NginxEtcdStale => 60, [nginx_etcd_cluster_staleness_seconds => 60,
                            '+Inf']],
    [NginxEtcdAgentGone => 30, [nginx_etcd_agent_up => 1, 0]],
    (map { [NginxEtcdUnauthorized => 60,
            [nginx_etcd_cluster_state => 0, 1, state => $_]] }
         qw(unauthorized denied)),
    [NginxEtcdReconnects => 150,
     [nginx_etcd_cluster_reconnects_total => 0, '1+1']],
    ['' => 0, [nginx_etcd_cluster_reconnects_total => 0, '1 2 3 4 5+0x60']],
    [NginxEtcdReadsAgain => 0, [nginx_etcd_cluster_resyncs_total => 7, 8]],
    [NginxEtcdEventsLost => 0, [nginx_etcd_cluster_repairs_total => 7, 8]],
    [NginxEtcdSlowChanges => 600,
     [nginx_etcd_change_visible_seconds_bucket => '0+100', '70+70',
      le => '0.1']],
    [NginxEtcdWorkerStalls => 0,
     [nginx_etcd_longest_stall_seconds => '0.009', '0.011']],
    ['' => 0, [nginx_etcd_longest_stall_seconds => '0.009', '0.01']],
    [NginxEtcdZoneNearlyFull => 300, [nginx_etcd_zone_used_bytes => 85, 86]],
    [NginxEtcdZoneNearlyFull => 300,
     [nginx_etcd_cluster_state => 0, 1, state => 'zone full']],
    [NginxEtcdDatabaseNearlyFull => 300,
     [nginx_etcd_cluster_db_size_bytes => 80, 81]],
    [NginxEtcdDatabaseNearlyFull => 300,
     [nginx_etcd_cluster_db_size_bytes => 1717986918, 1717986919,
      cluster => 'older']],
    [NginxEtcdDatabaseFull => 60, [nginx_etcd_cluster_db_nospace => 0, 1]],
    [NginxEtcdNoMembers => 60,
     [nginx_etcd_upstream_state => 0, 1, state => 'down']],
    [NginxEtcdNoMembers => 60,
     [nginx_etcd_upstream_members => 1, 0, state => 'backup',
      upstream => 'sets'],
     [nginx_etcd_upstream_members => 0, 1, state => 'drained',
      upstream => 'sets']],
    [NginxEtcdFewMembers => 300,
     [nginx_etcd_upstream_members => 10, 4, state => 'up']],
    ['' => 0, [nginx_etcd_upstream_members => 10, 5, state => 'up']],
    ['' => 0,
     [nginx_etcd_upstream_members => 10, 0, state => 'up'],
     [nginx_etcd_upstream_members => 0, 10, state => 'busy']],
    [NginxEtcdMembersHeld => 0,
     [nginx_etcd_upstream_members => 0, 1, state => 'held']],
    (map { [NginxEtcdFailingMembers => 300,
            [nginx_etcd_upstream_members => 0, 1, state => $_]] }
         qw(failing ejected)),
    [NginxEtcdUnhealthyMembers => 600,
     [nginx_etcd_upstream_members => 0, 1, state => 'unhealthy']],
    [NginxEtcdPanic => 60, [nginx_etcd_upstream_panic => 0, 1]],
    [NginxEtcdErrorResponses => 300,
     [nginx_etcd_upstream_responses_total => '0+5', '50+50', class => '5xx']],
    ['' => 0, [nginx_etcd_upstream_responses_total => '0+5',
               '0 99 99+5x60', class => '5xx']],
    [NginxEtcdRefusals => 300,
     [nginx_etcd_upstream_refused_total => 7, '8+1', reason => 'all_failing']],
    [NginxEtcdUnresolvedMembers => 300,
     [nginx_etcd_upstream_members => 0, 1, state => 'unresolved']],
    [NginxEtcdInvalidValues => 300,
     [nginx_etcd_upstream_invalid_values => 0, 1]],
    [NginxEtcdSetsOverLimit => 300,
     [nginx_etcd_upstream_sets_over_limit => 0, 1]],
    [NginxEtcdFewPreferred => 900,
     [nginx_etcd_upstream_near_ratio => 1, '0.99']],
    [NginxEtcdRequestsWait => 60,
     [nginx_etcd_upstream_waiting_requests => 800, 801]],
    [NginxEtcdNoLeader => 30,
     [nginx_etcd_upstream_has_leader => 1, 0, upstream => 'db'],
     [nginx_etcd_upstream_state => 0, 1, state => 'down', upstream => 'db']],
    [NginxEtcdFailsafe => 30, [nginx_etcd_upstream_failsafe => 0, 1]],
    [NginxEtcdElectionWithoutLeader => 60,
     [nginx_etcd_election_has_leader => 1, 0]],
    (map { [NginxEtcdLeadersChangeOften => 150, [$_ => 1, '2+1']],
           ['' => 0, [$_ => 1, '2 3 4 5 6+0x60']] }
         'nginx_etcd_upstream_leader_changes_total',
         'nginx_etcd_election_leader_changes_total'),
    [NginxEtcdLockRefusals => 300,
     [nginx_etcd_lock_refused_total => 7, '8+1', reason => 'lock_queue_full']],
    ['' => 0,
     [nginx_etcd_lock_refused_total => 7, '8+1', reason => 'lock_held']],
    [NginxEtcdLocksLost => 0, [nginx_etcd_lock_lost_total => 7, '8+1']],
    [NginxEtcdInvalidVariables => 300,
     [nginx_etcd_variable_invalid_values => 0, 1]],
    [NginxEtcdInvalidVariables => 300,
     [nginx_etcd_variable_state => 0, 1, state => 'kept']],
    [NginxEtcdKeysNotUsed => 300,
     [nginx_etcd_variable_unused_values => 0, 1]],
);

my %tried = map { $_->[0] => 1 } grep { $_->[0] } @troubles;

is_deeply([sort keys %tried], \@alerts, 'all alerts are tried');

# These series are there in all tests.

my @constant = (
    [nginx_etcd_zone_size_bytes => 100],
    [nginx_etcd_cluster_db_quota_bytes => 100],
    (map { [nginx_etcd_change_visible_seconds_bucket => '0+100', le => $_] }
         '0.5', '+Inf'),
    [nginx_etcd_upstream_responses_total => '0+100', class => '2xx'],
    [nginx_etcd_longest_stall_seconds => '0.5', cluster => 'older'],
    [nginx_etcd_upstream_sets => 1, upstream => 'sets'],
    [nginx_etcd_upstream_sets => 0, upstream => 'none'],
    [nginx_etcd_upstream_members => 0, upstream => 'none', state => 'up'],
    [nginx_etcd_cluster_state => 1, state => 'idle', cluster => 'locks'],
    [nginx_etcd_cluster_staleness_seconds => '+Inf', cluster => 'locks'],
);



# a metric with all labels that it has

sub series {
    my ($name, %labels) = @_;

    %labels = (instance => 'web1', cluster => 'default', module => 'http',
               upstream => 'api', election => 'jobs', lock => '/locks/jobs',
               variable => '$rate', %labels);

    return "$name\{" . join(',', map {
        "$_=\"" . ($labels{$_} // die "$name: which $_?\n") . '"'
    } 'instance', @{ $labels->{$name} // die "there is no $name\n" }) . '}';
}


# $n samples

sub samples {
    my ($value, $n) = @_;

    return $value if $value =~ / /;
    return join(' ', ($value) x $n) if $value eq '+Inf';

    return $value . ($value =~ /\+/ ? 'x' : '+0x') . ($n - 1);
}


# A counter that grew before goes on from what it was.

sub samples_after {
    my ($well, $ill) = @_;

    my ($growth) = $well =~ /^0\+(\d+)$/ or return samples($ill, $steps + 1);
    my $last = $growth * ($steps - 1);

    return samples(join(' ', map { s/^(\d+)/$1 + $last/er }
                             split(/ /, $ill)), $steps + 1);
}


sub expects {
    my ($expression, $time, $alert) = @_;

    return "  - expr: '$expression'\n    eval_time: ${time}s\n"
        . '    exp_samples: '
        . ($alert ? "[{labels: '{alertname=\"$alert\"}', value: 1}]" : '[]')
        . "\n";
}


# The values without any trouble, of all series.

my %well;

for my $series (@constant, map { @$_[2 .. $#$_] } @troubles) {
    my ($name, $well, @labels) = @$series;

    shift @labels if @labels % 2;               # a trouble has its ill value
    $well{series($name, @labels)} = samples($well, 2 * $steps + 1);
}


# An alert's samples have the labels that its texts name, as matchers.

sub named {
    my ($alert, $metric) = @_;

    my ($rule) = grep { $_->{alert} eq $alert } @rules
        or die "there is no alert $alert\n";
    my %has = map { $_ => 1 } 'instance', @{ $labels->{$metric} };
    my %named = map { $_ => 1 } grep { $has{$_} }
                join(' ', %{ $rule->{annotations} }) =~ /\$labels\.(\w+)/g;

    return join('', map { ",$_!=\"\"" } sort keys %named);
}


sub rule_test {
    my ($trouble) = @_;

    my ($alert, $seconds, @changes) = @$trouble;
    my %values = %well;

    for my $change (@changes) {
        my ($name, $well, $ill, %labels) = @$change;

        $values{series($name, %labels)} =
            samples($well, $steps) . ' ' . samples_after($well, $ill);
    }

    my $firing = 'ALERTS{alertstate="firing"';
    my $all = "count by (alertname) ($firing})";
    my $time = $begin + $seconds;

    return "- interval: ${interval}s\n  input_series:\n"
        . join('', map { "  - {series: '$_', values: '$values{$_}'}\n" }
                   sort keys %values)
        . "  promql_expr_test:\n"
        . join('', map { expects($all, $begin + $_) }
                   $alert ? $seconds - $interval : (0, 60, 300))
        . (!$alert ? '' : expects($all, $time, $alert)
           . expects('count by (alertname) (' . $firing
                     . named($alert, $changes[0][0]) . '})', $time, $alert))
        . expects($all, 2 * $begin, $alert);
}


my $tests = test_dir() . '/alerts_test.yml';

open(my $out, '>', $tests) or die "open $tests: $!\n";
print $out "rule_files: ['$file']\nevaluation_interval: ${interval}s\ntests:\n",
    map { rule_test($_) } @troubles;
close($out) or die "close $tests: $!\n";

judges('each trouble is alerted in time, and it alone', 'promtool', 'test',
       'rules', $tests);

finish();
