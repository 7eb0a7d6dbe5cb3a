#!/usr/bin/perl

# The rights that docs/operating.md gives to nginx, by its own commands, are the
# rights that the configuration there needs: all of them, and no others.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Docs;
use Etcd;
use Example;
use Finish;
use Nginx;
use Stall;
use Wait;

use constant RESIGN => 0.05;   # seconds; nginx waits for 0.1 s

my $stall = Stall->watch();
my $page = Docs::page('docs/operating.md');

my ($commands) = map { $_->{text} }
    grep { $_->{language} eq 'sh' && $_->{text} =~ /^etcdctl role add/m }
    $page->fences;
my ($config) = map { $_->{text} }
    grep { $_->{language} eq 'nginx' && $_->{text} =~ /^ +user nginx;/m }
    $page->fences;

my @commands = grep { /\S/ } split(/\n/, $commands);
my ($password) = $commands =~ /user add nginx:(\S+)/;
my ($root) = $commands =~ /user add root:(\S+)/;

$config =~ s{http://127\.0\.0\.1:2379;}{%%ETCD%%;} or die "no endpoint\n";
$config = Example::adapt($config);


# an etcd after these commands, and an nginx that is its user

sub start {
    my (@commands) = @_;

    my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();

    $etcd->put('/services/api/1', '127.0.0.1:8081');
    $etcd->put('/election/orders/1', '127.0.0.1:8082');

    for my $command (@commands) {
        my ($etcdctl, @words) = split(' ', $command);
        my ($status, $output) = $etcd->$etcdctl(@words);

        $status == 0 or die "$command: $output\n";
    }

    $etcd->as_root($root);

    my $nginx = Nginx->new(etcd => $etcd);

    $nginx->write_secret('etcd.password', "$password\n");

    return ($etcd, $nginx->start($config));
}


# the names of working parts, joined

sub works {
    my ($etcd, $nginx) = @_;

    $nginx->get('/reports/');

    my $status = $nginx->status('/') or return '';

    my @works = (
        members  => scalar @{ $status->{upstreams}{api}{members} },
        leader   => scalar @{ $status->{upstreams}{orders}{members} },
        election => $status->{elections}{jobs}{is_leader},
        register => defined $etcd->get('/services/web/web1'),
        lock     => $status->{locks}{'/locks/reports'}{acquired},
    );

    my @names;

    while (my ($name, $value) = splice(@works, 0, 2)) {
        push @names, $name if $value;
    }

    return join(' ', @names);
}


sub can_do {
    my ($etcd, $nginx, $expected, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { works($etcd, $nginx) } $expected, $name, 20;
}


my ($etcd, $nginx) = start(@commands);

can_do($etcd, $nginx, 'members leader election register lock',
       'the rights are enough');

# The working parts may still have to be proved.

my $state;

wait_for {
    ($state = $nginx->status('/')->{clusters}{default}{state}) eq 'synced'
} 20, 'a proof';

is($state, 'synced', 'nothing is denied');

$etcd->put('/services/api/2', '127.0.0.1:8083');
ok(wait_for(sub {
    @{ $nginx->status('/')->{upstreams}{api}{members} } == 2
}, 20), 'and changes are seen');

# The user has no other rights.

my @user = ('--user', "nginx:$password");

for my $attempt (
    ['put', '/services/api/9', 'x'],
    ['put', '/election/orders/9', 'x'],
    ['put', '/services/web/web10', 'x'],
    ['get', '/services/web/web2'],
    ['get', '--prefix', '/services/'],
    ['get', '/elections/jobs'],
    ['get', '/locks/reports'],
    ['user', 'list'],
    ['role', 'grant-permission', 'nginx', 'read', '/'])
{
    my ($status, $output) = $etcd->etcdctl(@user, @$attempt);

    like($output, qr/permission denied/, "denied: @$attempt");
}

# An nginx that ends waits for etcd, but not for long.

ok($stall->again(RESIGN, sub {
    $nginx->start() if !$nginx->pid;
    wait_for { works($etcd, $nginx) =~ /election register/ } 30, 'it to lead';
    $nginx->stop();
    !defined $etcd->get('/services/web/web1')
        && !$etcd->list('/elections/jobs/');
}), 'and it may take its key away, and resign');

# None of the rights is too much.

my %missing = (
    '/services/api/'     => 'leader election register lock',
    '/election/orders/'  => 'members election register lock',
    '/elections/jobs/'   => 'members leader register lock',
    '/services/web/web1' => 'members leader election lock',
    '/locks/reports/'    => 'members leader election register',
);

my @grants = grep { /grant-permission/ } @commands;

is(scalar(@grants), scalar(keys %missing), 'there are as many rights as uses');

for my $grant (@grants) {
    my ($key) = $grant =~ m{(/\S+)$};

    my @without = start(grep { $_ ne $grant } @commands);

    can_do(@without, $missing{$key}, "without $key the others work");
    $without[0]->etcdctl('--user', "root:$root",
                         (split(' ', $grant))[1 .. split(' ', $grant) - 1]);
    can_do(@without, 'members leader election register lock',
           "and with it, it does, too");
    $_->stop() for reverse @without;
}

finish();
