#!/usr/bin/perl

# A member of etcd with a slow disk knows a token later than the member that
# issued it, and rejects it until then.  nginx watches through such a member all
# the same, and does not ask for token after token.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Cluster;
use Disk;
use Finish;
use Nginx;
use Upstream;
use Wait;

# Each client of nginx has a connection for streams and one for reads.  Of so
# many clients some have the first at the slow member and the second at the
# other one.

use constant {
    CLIENTS => 16,
    SLOW    => 1000,    # ms
};

Disk::need();

my $password = 'pass';
my $cluster = Cluster->new(3, args => ['--bcrypt-cost=4'])->start();
my $leader = $cluster->leader;
my ($slow) = grep { $_ != $leader } $cluster->members;

$leader->user_add('nginx', $password, '/s');
$leader->auth_enable('root');
$leader->put('/s/1', '127.0.0.1:1');

# A member that has not applied what was done before the token was issued keeps
# a call waiting, and does not reject it.

$slow->as_root('root');
is($slow->get('/s/1'), '127.0.0.1:1', 'a member that knows everything');

my $disk = Disk->slow($slow, ms => SLOW);
my @names = map { "c$_" } 1 .. CLIENTS;
my $nginx = Nginx->new()->set(ETCD => $leader->url . ' ' . $slow->url);

$nginx->write_secret('password', "$password\n");
$nginx->start(config());


sub config {
    my $clients = join('', map { <<"END" } @names);
etcd $_ {
    endpoints %%ETCD%%;
    user nginx;
    password_file password;
    rebalance 0;
    zone 1m;
}
END
    my $upstreams = join('', map { <<"END" } @names);
    upstream $_ {
        etcd_members /s/ cluster=$_;
    }
END

    return <<"END";
worker_processes 1;
$clients
http {
    $upstreams
    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}
END
}


sub clusters { $nginx->status->{clusters} // {} }


# the names of those that have not got so far

sub unsynced {
    my $clusters = clusters();

    return join(' ', grep { $clusters->{$_}{state} ne 'synced' } @names);
}


sub unaware {
    my ($key) = @_;

    return join(' ', grep {
        !Upstream->new($nginx, $_)->members->{$key}
    } @names);
}


ok(wait_for(sub { unsynced() eq '' }, 60), 'all are synced')
    or diag('not: ', unsynced());

my $clusters = clusters();
my @watching = grep { $clusters->{$_}{endpoint} eq $slow->url } @names;

cmp_ok(scalar(@watching), '>', 0, 'some of them at the slow member');

$leader->put('/s/2', '127.0.0.1:2');

ok(wait_for(sub { unaware('/s/2') eq '' }, 60), 'changes are followed')
    or diag('not by: ', unaware('/s/2'));

# The first may come from the other member.  The slow one may take longer than
# nginx waits for an answer.

for my $name (@names) {
    my $tokens = $nginx->count_log(qr/"$name": user "nginx" is authenticated/);
    my $unanswered = $nginx->count_log(qr/"$name": authentication failed/);

    cmp_ok($tokens, '<=', 2 + $unanswered, "$name: two tokens at most");
}

$disk->moves();

finish();
