#!/usr/bin/perl

# An upgrade of etcd: all three members are restarted, one after another,
# while keys change all the time.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Becomes ();
use Cluster;
use Etcd;
use Finish;
use Load;
use Nginx;
use Upstream;
use Wait;

use constant {
    PAUSE => 0.01,                      # seconds between two changes
    SOME  => 30,                        # changes at least
};


my $slower = $ENV{TEST_SLOWER} || 1;

my $cluster = Cluster->new(3)->start();
my @backends = Backend->start(3);
my @members = $cluster->members;

$cluster->ask('put', "/s/$_", $backends[$_]->address) for 0 .. 1;

my $nginx = Nginx->new()->set(ENDPOINTS => $cluster->endpoints)->start(<<'EOC');

etcd {
    endpoints %%ENDPOINTS%%;
    ping_interval 5s;
    audit_interval 1s;
}

http {
    upstream api {
        etcd_members /s/;
    }

    upstream churn {
        etcd_members /churn/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC


sub api { Upstream->new($nginx, 'api') }
sub churn { Upstream->new($nginx, 'churn') }
sub address { '10.9.' . int($_[0] / 250) . '.' . $_[0] % 250 . ':80' }


# Changes keys until the condition is met; a change that has no answer may have
# been made, so keys are compared with what etcd has in the end.

my ($changes, $newest, $back) = (0, 0, 0);

sub change_until {
    my ($condition, $seconds, $what) = @_;

    my $enough = $changes + SOME;

    return wait_for {
        my $now = $nginx->cluster()->{revision};

        $back++ if $now < $newest;
        $newest = $now;

        my $key = '/churn/' . $changes % 20;
        my $up = (grep { $_->pid } @members)[$changes % 2];

        $changes++;

        my $done = $changes % 5 ? eval { $up->put($key, address($changes)) }
                                : eval { $up->del($key) };

        sleep(PAUSE);
        $changes >= $enough && $condition->();
    } $seconds, $what;
}


api()->shows({ map { ("/s/$_" => $backends[$_]->address . ' 1 up') } 0 .. 1 },
             'members');

my $load = Load->start($nginx->port, clients => 2);

for my $member (@members) {
    my $name = $member->{name};

    # The endpoint in use is among the members, wherever the watch goes
    # meanwhile.

    $member->stop();
    change_until(sub { $nginx->cluster()->{endpoint} ne $member->url
                       && $nginx->cluster()->{state} eq 'synced' }, 60,
                 'another endpoint');
    $member->launch($member->{cluster});

    ok(change_until(sub { $member->is_healthy }, 60, $name),
       "$name is restarted");
    ok(change_until(sub { my $ms = $nginx->cluster()->{staleness_ms};
                          $ms >= 0 && $ms < 1000 }, 60, 'a proof'),
       "$name: the data are fresh again");
}

my $revision = $cluster->ask('put', '/churn/last', address(0));

churn()->sees($revision);

# Changes without an answer may be made later.

my $in_etcd;

wait_for {
    my $now = Becomes::text(churn()->members);

    $in_etcd = { map { $_->{key} => "$_->{value} 1 up" }
                     $cluster->ask('list', '/churn/') };
    $now eq Becomes::text($in_etcd);
} 10, 'the same members';

is_deeply(churn()->members, $in_etcd, 'the members are those of etcd');
cmp_ok($changes, '>=', 9 * SOME, 'there were changes all the time');
is($back, 0, 'no member that lagged took the revision back');

my $now = $nginx->cluster();

cmp_ok($now->{reconnects}, '>=', 1, 'the watch went from member to member');
is($now->{resyncs}, 0, 'and on where it was');
is($now->{repairs}, 0, 'without losing anything');

my $seen = $load->results();

cmp_ok($seen->{requests}, '>', 100, 'there was load all the time');
is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
    or diag(Load::describe($seen));

finish();
