#!/usr/bin/perl

# docs/status.md, and the dashboard and the alerts in conf-examples/, name
# metrics that exist; the alerts come when they should, and metrics.conf works.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Etcd;
use Example;
use Fields;
use Finish;
use Metrics;
use Nginx;
use Tls;
use Wait;

my $top = "$FindBin::Bin/../..";
my $etcd = Etcd->new()->start();
my $one = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd)->start(Example::text('metrics', 'etcd'));

# the example

$etcd->put('/services/api/1', $one->address);
ok(wait_for(sub {
       my @up = Metrics->of($nginx, '/metrics')
           ->values('nginx_etcd_upstream_members', upstream => 'api',
                    state => 'up');
       @up && $up[0] == 1
   }, 10, 'a member'), 'metrics.conf: sums');
is(Metrics->of($nginx, '/metrics/members')
       ->value('nginx_etcd_member_weight', key => '/services/api/1'), 1,
   'members');
is($nginx->status->{upstreams}{api}{kind}, 'members', 'JSON');


my $all = Metrics->of($nginx, '/metrics/members');

# the documentation

my ($section) = Tls::read_file("$top/docs/status.md")
    =~ /^## Metrics$(.*?)(?:^## |\z)/ms;
my %documented = $section =~ /^\| `(\w+)` \| (\w+) \|/mg;

is_deeply(\%documented, $all->types, 'docs/status.md has the metrics that '
                                     . 'there are, and their types');
is_deeply(\%documented, Fields::metrics(), 'and so do the tables');

my %names;

for my $name (keys %documented) {
    $names{$_} = 1 for $documented{$name} eq 'histogram'
                       ? map { "${name}_$_" } qw(bucket sum count) : $name;
}


# Every metric that a file names exists.

sub names_metrics {
    my ($file, @texts) = @_;

    my %named = map { $_ => 1 } map { /\b(nginx_etcd_\w+)/g } @texts;

    cmp_ok(scalar(keys %named), '>', 5, "$file names metrics");
    is(join(' ', grep { !$names{$_} } sort keys %named), '', 'that there are');

    return \%named;
}


my $dashboard = decode_json(
    Tls::read_file("$top/conf-examples/grafana-dashboard.json"));
my @panels = @{ $dashboard->{panels} };
my @expressions = map { map { $_->{expr} } @{ $_->{targets} // [] } } @panels;
my $used = names_metrics('grafana-dashboard.json', @expressions,
                         map { $_->{query}{query} }
                         grep { ref $_->{query} }
                         @{ $dashboard->{templating}{list} });

is(join(' ', grep { !$used->{$_} && !/_(?:sum|count)$/ } sort keys %names), '',
   'the dashboard shows all of them');
is(scalar(@panels), scalar(keys %{{ map { $_->{id} => 1 } @panels }}),
   'each of its panels has a number');

# Every expression of the dashboard is valid: it is checked as a rule, with the
# values that Grafana puts in.

my $rule = 0;
my $rules = join('', "groups:\n- name: dashboard\n  rules:\n", map {
    my $expression = s/\$__rate_interval/5m/gr =~ s/\$\w+/.*/gr;

    "  - record: panel:" . ++$rule . "\n    expr: "
    . encode_json([$expression]) =~ s/^\[|\]$//gr . "\n"
} @expressions);

judges('its expressions are PromQL', 'promtool', 'check', 'rules',
       $nginx->write_file('dashboard.yml', $rules));
like(judges('alerts.yml is valid', 'promtool', 'check', 'rules',
            "$top/conf-examples/alerts.yml"), qr/SUCCESS: \d+ rules found/,
     'as promtool says');
names_metrics('alerts.yml', Tls::read_file("$top/conf-examples/alerts.yml"));

# Each trouble raises its alert, and an nginx without trouble raises none.

my @troubles = (
    [NginxEtcdStale => 'nginx_etcd_cluster_staleness_seconds', '0', '+Inf'],
    [NginxEtcdAgentGone => 'nginx_etcd_agent_up', 1, 0],
    [NginxEtcdUnauthorized => 'nginx_etcd_cluster_state', 0, 1,
     state => 'denied'],
    [NginxEtcdNoLeader => 'nginx_etcd_upstream_has_leader', 1, 0],
    [NginxEtcdFailsafe => 'nginx_etcd_upstream_failsafe', 0, 1],
    [NginxEtcdElectionWithoutLeader => 'nginx_etcd_election_has_leader', 1, 0],
    [NginxEtcdLeadersChangeOften => 'nginx_etcd_election_leader_changes_total',
     '1', '1+1'],
    [NginxEtcdNoMembers => 'nginx_etcd_upstream_members', 3, 0,
     state => 'up', upstream => 'api'],
    [NginxEtcdUnhealthyMembers => 'nginx_etcd_upstream_members', 0, 1,
     state => 'unhealthy', upstream => 'api'],
    [NginxEtcdMembersHeld => 'nginx_etcd_upstream_members', 0, 1,
     state => 'held', upstream => 'api'],
    [NginxEtcdPanic => 'nginx_etcd_upstream_panic', 0, 1],
    [NginxEtcdFewPreferred => 'nginx_etcd_upstream_near_ratio', 1, '0.5'],
    [NginxEtcdInvalidValues => 'nginx_etcd_upstream_invalid_values', 0, 1],
    [NginxEtcdKeysNotUsed => 'nginx_etcd_variable_unused_values', 0, 1],
    [NginxEtcdSetsOverLimit => 'nginx_etcd_upstream_sets_over_limit', 0, 1],
    [NginxEtcdZoneNearlyFull => 'nginx_etcd_zone_used_bytes', 10, 95],
    [NginxEtcdEventsLost => 'nginx_etcd_cluster_repairs_total', 0, '0+1'],
    [NginxEtcdSlowChanges => 'nginx_etcd_change_visible_seconds_bucket',
     '0+1', '0', le => '0.05'],
    [NginxEtcdDatabaseNearlyFull => 'nginx_etcd_cluster_db_size_bytes', 75, 85],
    [NginxEtcdDatabaseFull => 'nginx_etcd_cluster_db_nospace', 0, 1],
    [NginxEtcdLocksLost => 'nginx_etcd_lock_lost_total', 0, '0+1'],
);


sub series {
    my ($name, $values, %labels) = @_;

    my $labels = join(',', map { "$_=\"$labels{$_}\"" } sort keys %labels);

    $values .= $values =~ /\+\d/ ? 'x40' : '+0x40' if $values ne '+Inf';
    $values = join(' ', ('+Inf') x 41) if $values eq '+Inf';

    return "  - series: '$name\{instance=\"web1\",$labels}'\n"
           . "    values: '$values'\n";
}


# %instead: other values of a metric, or undef for none

sub rule_test {
    my ($bad, %instead) = @_;

    my $text = "- interval: 30s\n  input_series:\n"
        . series('nginx_etcd_zone_size_bytes', 100, cluster => 'default')
        . series('nginx_etcd_cluster_db_quota_bytes', 100,
                 cluster => 'default')
        . join('', map { series('nginx_etcd_change_visible_seconds_bucket',
                                '0+1', cluster => 'default', le => $_) }
                   '0.5', '+Inf');

    for my $trouble (@troubles) {
        my ($alert, $name, $well, $ill, %labels) = @$trouble;
        my $values = $alert eq $bad ? $ill : $well;

        $values = $instead{$name} if exists $instead{$name};
        $text .= series($name, $values, cluster => 'default', %labels)
            if defined $values;
    }

    return $text . "  promql_expr_test:\n"
        . "  - expr: count by (alertname) (ALERTS{alertstate=\"firing\"})\n"
        . "    eval_time: 20m\n    exp_samples:"
        . ($bad ? "\n    - labels: '{alertname=\"$bad\"}'\n      value: 1\n"
                : " []\n");
}


my $tests = "rule_files:\n- $top/conf-examples/alerts.yml\n"
    . "evaluation_interval: 30s\ntests:\n"
    . join('', map { rule_test($_) } '', map { $_->[0] } @troubles);

# An nginx that only takes locks has no agent, and nothing to know.

$tests .= rule_test('', nginx_etcd_agent_up => undef,
                    nginx_etcd_cluster_staleness_seconds => '+Inf');

judges('each trouble is alerted, and it alone', 'promtool', 'test', 'rules',
       $nginx->write_file('alerts_test.yml', $tests));

my @alerts = Tls::read_file("$top/conf-examples/alerts.yml")
             =~ /^ *- alert: (\w+)$/mg;

is_deeply([sort map { $_->[0] } @troubles], [sort @alerts],
          'all alerts were tried');

finish();
