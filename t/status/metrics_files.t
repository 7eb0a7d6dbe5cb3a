#!/usr/bin/perl

# docs/status.md has the metrics that nginx exports, and metrics.conf works.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Example;
use Fields;
use Finish;
use MetricDocs;
use Metrics;
use Nginx;
use Wait;

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

my $docs = MetricDocs::metrics();
my %documented = map { $_ => $docs->{$_}{type} } keys %$docs;

is_deeply(\%documented, $all->types, 'docs/status.md has the metrics that '
                                     . 'there are, and their types');
is_deeply(\%documented, Fields::metrics(), 'and so do the tables');

finish();
