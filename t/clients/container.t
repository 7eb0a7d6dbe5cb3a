#!/usr/bin/perl

# Kustomize and Compose take packaging/container/, and the overlay of
# docs/container.md: t/clients/manifests/ reads them by the libraries of both,
# whose types and schema refuse a field that they do not know.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Docs;
use Finish;
use Process;
use Registrant;
use Slurp;

my $dir = Docs::top() . '/packaging/container';

grep { -x "$_/go" } split(/:/, $ENV{PATH})
    or plan(skip_all => 'no Go here, with which the program is built');

ok(Registrant::is_built('manifests'), 'tools/clients has built the program')
    or exit(1);



sub read_by_both {
    my ($what, @paths) = @_;

    my ($status, $output) = run(Registrant::command('manifests'), @paths);

    is($status, 0, $what) or diag($output);

    return $status == 0 ? decode_json($output) : {};
}


my $read = read_by_both('Kustomize and Compose take the files', $dir,
                        "$dir/compose.yaml");
my %object = map { $_->{kind} => $_ } @{ $read->{kubernetes} };

is("@{[sort keys %object]}", 'ConfigMap Deployment PodDisruptionBudget Service',
   'objects of Kubernetes');

# Objects that name others name those that there are.

my $pod = $object{Deployment}{spec}{template};
my %label = %{ $pod->{metadata}{labels} };

is_deeply($_, \%label, 'a selector finds the pods')
    for $object{Deployment}{spec}{selector}{matchLabels},
        $object{Service}{spec}{selector},
        $object{PodDisruptionBudget}{spec}{selector}{matchLabels},
        map { $_->{labelSelector}{matchLabels} }
        @{ $pod->{spec}{topologySpreadConstraints} };

my ($container) = @{ $pod->{spec}{containers} };
my %port = map { $_->{name} => $_->{containerPort} } @{ $container->{ports} };

is_deeply(\%port, { http => 8080, status => 8081 }, 'ports');
ok(exists $port{$_}, "port $_ has a name")
    for $object{Service}{spec}{ports}[0]{targetPort},
        map { $container->{$_}{httpGet}{port} } qw(readinessProbe
                                                   livenessProbe);

my %volume = map { $_->{name} => $_ } @{ $pod->{spec}{volumes} };

ok($volume{ $_->{name} }, "volume $_->{name}")
    for @{ $container->{volumeMounts} };
is($volume{site}{configMap}{name}, $object{ConfigMap}{metadata}{name},
   'the ConfigMap, with the hash in its name');
is($object{ConfigMap}{data}{$_}, slurp("$dir/site/$_"), "has $_")
    for qw(etcd.conf http.conf);
like($object{ConfigMap}{metadata}{name}, qr/^nginx-etcd-\w{10}$/,
     'another configuration is another ConfigMap');

# The times add up: a pod has time for preStop and for its requests.

my ($sleep) = reverse @{ $container->{lifecycle}{preStop}{exec}{command} };
my ($shutdown) = slurp("$dir/nginx.conf")
    =~ /^worker_shutdown_timeout (\d+)s;$/m;
my $services = $read->{compose}{services};
my ($grace) = $services->{nginx}{stop_grace_period} =~ /^(\d+)s$/;

cmp_ok($pod->{spec}{terminationGracePeriodSeconds}, '>', $sleep + $shutdown,
       'Kubernetes waits for nginx');
cmp_ok($grace, '>', $shutdown, 'so does Compose');

# Compose

is("@{[sort keys %$services]}", 'backend etcd grafana nginx prometheus',
   'services');
ok(-e $_->{source}, "mounted: $_->{source}")
    for grep { $_->{type} eq 'bind' }
        map { @{ $_->{volumes} // [] } } map { $services->{$_} }
        sort keys %$services;
is(join(' ', grep { ($_->{host_ip} // '') ne '127.0.0.1' }
             map { @{ $_->{ports} // [] } } values %$services), '',
   'no port is open to others');

# the overlay of the page, beside a clone, and what it adds to compose.yaml

my %file = map { $_->{mark} =~ /^file=(\S+)$/ ? ($1 => $_->{text}) : () }
           Docs::page('docs/container.md')->fences;
my $overlay = test_dir() . '/overlay';

mkdir($overlay);
symlink(Docs::top(), test_dir() . '/nginx-etcd');
$file{$_} = "# $_\n"
    for qw(etcd.conf http.conf ca.crt client.crt client.key etcd.password);

for my $name (keys %file) {
    open(my $out, '>', "$overlay/$name") or die "open $name: $!\n";
    print $out $file{$name};
}

my $mine = read_by_both('the overlay', $overlay, "$dir/compose.yaml",
                        "$overlay/compose.override.yaml");

%object = map { $_->{kind} => $_ } @{ $mine->{kubernetes} };
$pod = $object{Deployment}{spec}{template}{spec};
($container) = @{ $pod->{containers} };

is($object{ConfigMap}{data}{'etcd.conf'}, "# etcd.conf\n",
   'it has another configuration');
isnt($container->{image}, 'nginx-etcd', 'and another image');
is(join(' ', map { $_->{secret}{secretName} // () } @{ $pod->{volumes} }),
   $object{Secret}{metadata}{name}, 'the secret is mounted');
is((grep { $_->{name} eq 'secrets' } @{ $container->{volumeMounts} })[0]
   {mountPath}, '/etc/nginx/etcd', 'where etcd.conf expects it');
is($mine->{compose}{services}{nginx}{secrets}[0]{source}, 'etcd.password',
   'Compose has a secret, too');

finish();
