#!/usr/bin/perl

# The state file has all sets of a prefix with variables: a start without etcd
# routes to each, and nginx goes on from there when etcd is back.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use State;
use Wait;

my $etcd = Etcd->new()->start();
my @backends = Backend->start('one', 'two', 'three');
my @at = map { $_->address } @backends;
my @names = qw(one two three);

# etcd refuses connections while it is away, and may be slow while it is there:
# nothing is to be read again because of that.

my $nginx = Nginx->new(etcd => $etcd)->set(
    PATTERN => '/services/$service/',
    LIMIT   => 100,
    ZONE    => '8m',
    PATIENT => 'connect_timeout 60s; ping_timeout 60s;',
);
my $file = $nginx->dir . '/state/default.state';

my $config = <<'EOC';

etcd {
    endpoints %%ETCD%%;
    zone %%ZONE%%;
    %%PATIENT%%
    state_path %%DIR%%/state;
}

http {
    upstream services {
        etcd_members %%PATTERN%% limit=%%LIMIT%%;
    }

    upstream fixed {
        etcd_members /fixed/;
    }

    map $uri $service {
        "~^/s/(?<name>.*)$" $name;
    }

    map $arg_group $group {
        default $arg_group;
        ""      services;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status { etcd_status; }
        location /s/ { proxy_pass http://services; }
        location /fixed { proxy_pass http://fixed; }
    }
}

EOC


# the sets in the file: { prefix => keys }

sub saved {
    return { map { $_->{prefix}
                   => join(' ', sort map { $_->{key} } @{ $_->{members} }) }
             @{ saved_state($file)->{sets} // [] } };
}

sub keeps {
    my ($wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ok((wait_for { $wanted->(saved()) } 20, $name), $name);
}

sub says { return $nginx->get("/s/$_[0]")->{body} }
sub state_of { return $nginx->get("/s/$_[0]")->{status} }
sub ranges { return $etcd->metric('etcd_mvcc_range_total') }

sub synced {
    return ($nginx->status // return)->{clusters}{default}{state} eq 'synced';
}

sub goes {
    my ($service, $body, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok((wait_for { says($service) eq $body } 20, $name), $name);
}

sub unknown {
    my ($service, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok((wait_for { state_of($service) == 404 } 20, $name), $name);
}

# Every service except the given ones goes to its own backend.

sub all_go {
    my ($name, @but) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my %but = map { $_ => 1 } @but;
    my %wanted = map { $_ => $names[$_ % 3] } grep { !$but{$_} } 1 .. 30;

    return is_deeply({ map { $_ => says("s$_") } keys %wanted }, \%wanted,
                     $name);
}


$etcd->put("/services/s$_/1", $at[$_ % 3]) for 1 .. 30;
$etcd->put('/fixed/1', $at[0]);

$nginx->start($config);

keeps(sub { keys %{ $_[0] } == 31 }, 'each set is saved');
is(saved()->{'/services/s7/'}, '/services/s7/1', 'with its keys');

# A change of a set is saved, also of a set that comes or goes.

$etcd->put('/services/s7/2', $at[1]);
keeps(sub { ($_[0]{'/services/s7/'} // '') eq '/services/s7/1 /services/s7/2' },
      'a member is added');
$etcd->put('/services/new/1', $at[0]);
keeps(sub { $_[0]{'/services/new/'} }, 'a set comes');
$etcd->del('/services/new/1');
keeps(sub { !$_[0]{'/services/new/'} }, 'a set goes');
$etcd->del('/services/s7/2');
keeps(sub { ($_[0]{'/services/s7/'} // '') eq '/services/s7/1' },
      'a member is removed');

# a start without etcd

ok($nginx->quit, 'nginx quits');
$etcd->stop;

$nginx->start;

all_go('every service is routed without etcd');
is(state_of('none'), 503, 'an unknown one may have come since');
is($nginx->get('/fixed')->{body}, 'one', 'a fixed prefix beside them');
$nginx->logs(qr/31 members of revision \d+ are from state/, 1,
             'the log counts them');

# etcd comes back: nothing is listed.

$etcd->start;
ok((wait_for { synced() } 30, 'etcd is back'), 'etcd is back');
$etcd->put('/services/s1/1', $at[0]);
goes('s1', 'one', 'changes are followed');
$etcd->del('/services/s2/1');
unknown('s2', 'a service goes');
$etcd->put('/services/more/1', $at[2]);
goes('more', 'three', 'a service comes');
is($nginx->status->{clusters}{default}{resyncs}, 0, 'nothing was read again');

# changes while nginx is away

ok($nginx->quit, 'nginx is away');

$etcd->del('/services/s3/1');
$etcd->put('/services/s4/1', $at[0]);
$etcd->put('/services/later/1', $at[1]);

my $ranges = ranges();

$nginx->start;
unknown('s3', 'a service that was deleted meanwhile goes');
goes('s4', 'one', 'a member that was changed meanwhile');
goes('later', 'two', 'and a service that came');
is(ranges(), $ranges, 'without a list');

# A reload with a zone of another size takes the sets along.

$etcd->freeze;
ok($nginx->set(ZONE => '9m')->reload($config), 'reloaded');
all_go('a zone of another size has the sets', 1 .. 4);
is(says('later'), 'two', 'and the newest one');
$etcd->thaw;
$etcd->put('/services/s5/1', $at[0]);
goes('s5', 'one', 'changes are followed');

# everything is killed

keeps(sub { $_[0]{'/services/later/'} }, 'the newest set is in the file');
ok($nginx->crash, 'nginx dies');
$etcd->stop;
$nginx->start;
all_go('routed after a crash', 1 .. 5);

# Another limit, and another pattern: sets that do not fit are left out, and all
# keys are listed.

$nginx->quit;
$nginx->set(LIMIT => 7)->start($config);

my @routed = grep { state_of("s$_") == 200 } 1 .. 30;

is(@routed, 7, 'no more sets than the limit');
$nginx->quit;

$nginx->set(LIMIT => 100, PATTERN => '/services/s9/$service/')->start($config);
is(state_of('s9'), 503, 'no set of a pattern that does not match');
$nginx->quit;

# A wider pattern has sets that the file cannot have.

$etcd->start;
$etcd->put('/deep/services/s8/1', $at[0]);
$etcd->put('/deep/other/s8/1', $at[1]);

$nginx->set(PATTERN => '/deep/services/$service/')->start($config);
goes('s8', 'one', 'a pattern of one variable');
keeps(sub { $_[0]{'/deep/services/s8/'} }, 'is saved');
$nginx->quit;

$nginx->set(PATTERN => '/deep/$group/$service/')->start($config);
goes('s8', 'one', 'one of two variables has its sets');
goes('s8?group=other', 'two', 'and those that the file does not have');

finish();
