#!/usr/bin/perl

# conf-examples/three-members.conf works with a cluster that is as it says, and
# does what it says when members die.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Cluster;
use Finish;
use Load;
use Nginx;
use Tls;
use Upstream;
use Wait;


my $dir = test_dir();
my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'IP:127.0.0.1');

my $cluster = Cluster->new(3, tls => {
    cert => $server->cert,
    key  => $server->key,
    ca   => $ca->cert,
})->start();

my ($one, $two, $spare) = Backend->start('one', 'two', 'spare');

Tls::join_files("$dir/ca.crt", $ca->cert);
$ca->issue('client')->install($dir, 'client');

# Files, ports and modules are the test's.

my $text =
    Tls::read_file("$FindBin::Bin/../../conf-examples/three-members.conf");

$text =~ s/^load_module .*\n//mg;
$text =~ s/(listen 127\.0\.0\.1:)8080/$1%%PORT%%/;
$text =~ s/127\.0\.0\.1:8081/%%SPARE%%/;
$text =~ s{/etc/nginx/etcd/}{$dir/}g;
$text =~ s{endpoints [^;]*;}{endpoints %%ENDPOINTS%%;};

my $nginx = Nginx->new()->set(ENDPOINTS => $cluster->endpoints,
                              SPARE     => $spare->address)->start($text);
my $api = Upstream->new($nginx, 'api');

my %members = ($spare->address => $spare->address . ' 1 backup');

sub shows {
    my ($name) = @_;

    $api->shows(\%members, $name);
}


sub add {
    my ($key, $backend) = @_;

    $cluster->ask('put', $key, $backend->address);
    $members{$key} = $backend->address . ' 1 up';
}


is($nginx->get('/')->{body}, 'spare', 'without a member: the one in backup');

add('/services/api/1', $one);
shows('members are followed');
is($nginx->get('/')->{body}, 'one', 'and get requests');

my $load = Load->start($nginx->port, clients => 2);

# One member of three dies.

my $status = $nginx->status->{clusters}{default};

is_deeply([sort map { $_->{url} } @{ $status->{endpoints} }],
          [sort map { $_->endpoints } $cluster->members],
          'the status has all endpoints');

$cluster->member_at($status->{endpoint})->kill();

add('/services/api/2', $two);
shows('changes come from another member');

# Two members of three are dead.

my ($other) = $cluster->running;

$other->kill();
ok(wait_for(sub { ($nginx->status->{clusters}{default}{state} // '')
                  ne 'synced' }, 20), 'a single member is not enough');
shows('what is known stays');

$cluster->revive();
$cluster->ask('del', '/services/api/1');
delete $members{'/services/api/1'};
shows('the cluster is back');
is($nginx->get('/')->{body}, 'two', 'and so is what changed');

my $seen = $load->results();

is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
    or diag(Load::describe($seen));

finish();
