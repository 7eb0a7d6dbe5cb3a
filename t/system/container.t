#!/usr/bin/perl

# packaging/container/: its configurations do what docs/container.md says, with
# the addresses of the test.  compose.yaml and Kustomize name files that exist,
# the alerts and the dashboard of conf-examples/ among them.  The image itself
# is made and started by tools/image_test.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use CPAN::Meta::YAML;
use File::Copy qw(copy);
use Test::More;
use Time::HiRes qw(time);

use Docs;
use Etcd;
use Finish;
use Lock;
use Metrics;
use Nginx;
use Slurp;
use Upstream;
use Wait;

my $top = Docs::top();
my $dir = "$top/packaging/container";

my ($compose) = @{ CPAN::Meta::YAML->read("$dir/compose.yaml") };
my ($deployment) = @{ CPAN::Meta::YAML->read("$dir/nginx.yaml") };
my ($base) = @{ CPAN::Meta::YAML->read("$dir/kustomization.yaml") };
my $services = $compose->{services};
my $dockerfile = slurp("$dir/Dockerfile");


# A configuration with the files that it includes; what Nginx.pm cares for is
# left out.  The status, at 8081, is the test's %%PORT%%.

sub configuration {
    my ($name) = @_;

    my $text = slurp("$dir/$name");

    $text =~ s{^ *include (site/\S+);$}{slurp("$dir/$1")}mge;
    $text =~ s{^ *(?:include|pid|error_log) .*\n}{}mg;
    $text =~ s/listen 8080;/listen 127.0.0.1:%%PORT_WEB%%;/;
    $text =~ s/listen 8081;/listen 127.0.0.1:%%PORT%%;/;
    $text =~ s{http://etcd:2379;}{%%ETCD%%;};
    $text =~ s{/var/lib/nginx/etcd}{%%DIR%%/state};

    return $text;
}


# a backend of compose.yaml, whose host has a name

sub backend {
    my ($etcd, $name) = @_;

    my $text = configuration('compose/backend.conf');

    $text =~ s/\$hostname:8080/127.0.0.1:%%PORT_WEB%%/;
    $text =~ s/\$hostname/$name/g;

    return Nginx->new(etcd => $etcd)->start($text);
}


# nginx starts before etcd does

my $etcd = Etcd->new()->start();

$etcd->stop();

my $nginx = Nginx->new(etcd => $etcd)->start(configuration('nginx.conf'));
my $api = Upstream->new($nginx, 'api');


sub ready { $nginx->get('/ready')->{status} }

sub web { $nginx->http('PORT_WEB')->get($_[0]) }


is(ready(), 503, 'without etcd and a state file nginx is not ready');
is($nginx->get('/status')->{status}, 200, 'but alive');

$etcd->start();
ok((wait_for { 200 == ready() } 20, 'ready'), 'it is ready once etcd answers');

# backends register themselves

my %backend = map { $_ => backend($etcd, $_) } qw(one two);
my %address = map { $_ => '127.0.0.1:' . $backend{$_}->port('PORT_WEB') }
              keys %backend;

$api->shows({ map { ("/services/api/$_" => "$address{$_} 1 up") } qw(one two) },
            'backends register themselves');

# each of two workers takes turns

my %seen = map { web('/')->{body} => 1 } 1 .. 8;

is_deeply([sort keys %seen], ["one\n", "two\n"], 'and get requests');
like(web('/')->{headers}{'x-member'}, qr{^/services/api/(?:one|two)$},
     'the answer tells which');

# the lock

my $lock = Lock->new($nginx, $etcd);
my @reports = map {
    my $client = $nginx->http('PORT_WEB');

    $client->send('GET', '/report');
    $client;
} 1, 2;

$lock->holds('/locks/report', 1, 'one report at a time');
$lock->waits('/locks/report', 1, 'another one waits');

my @answers = map { $_->receive } @reports;
my @tokens = map { $_->{headers}{'x-lock-token'} } @answers;

is("@{[map { $_->{status} } @answers]}", '200 200', 'and has its turn');
isnt($tokens[0], $tokens[1], 'with a token of its own');
is("@{[map { $_->{body} =~ /token (\d+)$/m } @answers]}", "@tokens",
   'which the backend gets');

# the status, at the locations that the probes ask

my $status = $nginx->status;

is($status->{clusters}{default}{state}, 'synced', 'the status: of etcd');
is($status->{upstreams}{api}{state}, 'ok', 'and of the upstream');
like($nginx->get('/status', Accept => 'text/html')->{body}, qr/<html/i,
     'a page for browsers');
is(Metrics->of($nginx, '/metrics')->value('nginx_etcd_upstream_members',
                                          upstream => 'api', state => 'up'),
   2, 'metrics');

my ($container) = @{ $deployment->{spec}{template}{spec}{containers} };
my ($health) = $dockerfile =~ m{"http://127\.0\.0\.1:8081(/[^"]*)"};

is($nginx->get($_)->{status}, 200, "a probe asks $_")
    for $health, map { $container->{$_}{httpGet}{path} }
                 qw(readinessProbe livenessProbe);

# a backend that ends

$backend{one}->quit();
$api->shows({ '/services/api/two' => "$address{two} 1 up" },
            'a backend that ends deletes its key');

# etcd ends, and then nginx, too

ok((wait_for { -s $nginx->dir . '/state/default.state' } 20, 'the file'),
   'there is a state file');
$etcd->stop();
is(ready(), 200, 'without etcd nginx stays ready');
$nginx->quit();
$nginx->start();
is(ready(), 200, 'also when it starts again, by its state file');
is(web('/')->{body}, "two\n", 'and goes on with its member');
$etcd->start();

# All of it anew, in the order of compose.yaml: how long a user waits for the
# first answer, once the images are there.

my $began = time();
my $new_etcd = Etcd->new()->start();
my $new = Nginx->new(etcd => $new_etcd)->start(configuration('nginx.conf'));
my @new = map { backend($new_etcd, $_) } qw(three four);

ok((wait_for { 200 == $new->http('PORT_WEB')->get('/')->{status} } 60,
    'an answer'), 'a request is routed');
note(sprintf('%.1f s after the start', time() - $began));

# The files that compose.yaml mounts: each is where it says, and those for
# Prometheus and Grafana are no copies.

my @volumes = map { @{ $_->{volumes} // [] } } values %$services;
my @mounted = map { /^(\.[^:]*):/ ? $1 : () } @volumes;

is(join(' ', grep { !-e "$dir/$_" } @mounted), '', 'mounted files exist');
is_deeply([sort map { m{^\.\./\.\./(conf-examples/.*)} } @mounted],
          [map { "conf-examples/$_" } qw(alerts.yml grafana-dashboard.json
                                         grafana-datasource.yml
                                         grafana-provider.yml)],
          'those of conf-examples/ among them');

my ($provider) =
    @{ CPAN::Meta::YAML->read("$top/conf-examples/grafana-provider.yml") };
my $folder = $provider->{providers}[0]{options}{path};

ok((grep { m{:\Q$folder\E/} } @volumes),
   'the dashboard is where Grafana looks');

for my $name (grep { $services->{$_}{build} } sort keys %$services) {
    my $build = $services->{$name}{build};

    ok(-f "$dir/$build->{context}/$build->{dockerfile}",
       "$name: there is a Dockerfile");
}

ok(-f "$dir/$_", "Kustomize: there is a file $_")
    for @{ $base->{resources} }, @{ $base->{configMapGenerator}[0]{files} };

is(join(' ', grep { !-e "$top/$_" }
             $dockerfile =~ m{^COPY ((?:debian|packaging)/\S+)}mg), '',
   'what the Dockerfile copies exists');

# Prometheus takes the configuration.

SKIP: {
    grep { -x "$_/promtool" } split(/:/, $ENV{PATH})
        or skip('promtool is not installed', 1);

    copy($_, test_dir()) for "$dir/compose/prometheus.yml",
                             "$top/conf-examples/alerts.yml";
    judges('Prometheus takes its configuration', 'promtool', 'check', 'config',
           test_dir() . '/prometheus.yml');
}

# One user everywhere, who can write to the one volume.

my ($user) = $dockerfile =~ /^USER (\d+):\1$/m;
my $pod = $deployment->{spec}{template}{spec}{securityContext};

is("@$pod{qw(runAsUser runAsGroup fsGroup)}", "$user $user $user",
   'Kubernetes and the Dockerfile have one user');

my ($volume) = $dockerfile =~ /^VOLUME (\S+)$/m;

ok((grep { $_->{mountPath} eq $volume } @{ $container->{volumeMounts} }),
   'and one volume');
like(slurp("$dir/$_"), qr/^pid \Q$volume\E/m, "where $_ has its pid")
    for qw(nginx.conf compose/backend.conf);

finish();
