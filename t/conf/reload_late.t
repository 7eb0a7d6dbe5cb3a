#!/usr/bin/perl

# A worker that starts when a newer configuration has removed its upstreams,
# values and elections: it must not use memory that has another use now.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Unit;
use Wait;


my $etcd = Etcd->new()->start();
my ($one, $two) = Backend->start(2);
my $late = build_unit('ngx_etcd_unit_late_module');

$etcd->put('/services/one/a', $one->address);
$etcd->put('/leader', $one->address);
$etcd->put('/services/two/b', $two->address);

my $nginx = Nginx->new(etcd => $etcd, first => $late)->set(
    FILE => 'none',
);


# a configuration with these upstreams, and a value, an election and a lock of
# this name, if there is one

sub config {
    my ($name, %upstreams) = @_;

    my $upstreams = join("\n", map { "upstream $_ { $upstreams{$_} }" }
                               sort keys %upstreams);

    $nginx->set(
        UPSTREAMS => $upstreams,
        ELECTION => $name ? "election $name /elections/$name;" : '',
        VALUE => $name ? "etcd_set \$value /values/$name default=none;" : '',
        LOCK => $name ? "etcd_lock /locks/$name;" : '',
    );

    return <<'EOF';

worker_processes 1;
etcd_late %%DIR%%/%%FILE%%;

etcd {
    endpoints %%ETCD%%;
    zone 1m;

    %%ELECTION%%
}

http {
    %%UPSTREAMS%%
    %%VALUE%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location /lock {
            %%LOCK%%
            return 204;
        }

        location / {
            proxy_pass http://$arg_to;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF
}


# The agent is a worker of the new configuration, which has removed the former
# upstreams before it reads its own.

sub comes_to_have {
    my (@upstreams) = @_;

    return wait_for {
        my $status = $nginx->status // {};
        my $has = $status->{upstreams} // {};

        join(' ', sort keys %$has) eq join(' ', @upstreams)
            && ($status->{clusters}{default}{state} // '') eq 'synced'
            && ($status->{agent}{pid} // 0) == ($nginx->workers)[0];
    } 20;
}


my %before = (
    one => 'etcd_members /services/one/;',
    leader => 'etcd_leader /leader;',
);

my %other = (kept => 'etcd_members /services/three/;');


my %after = (
    %other,
    other => 'etcd_members /services/two/;',
    two => 'etcd_members /services/two/;',
);

# The next worker of the former configuration waits while the file is there.

my $file;

sub start_late {
    $nginx->set(FILE => 'none');

    $nginx->pid ? $nginx->reload(config('before', %before))
                : $nginx->start(config('before', %before));

    ok(comes_to_have('leader', 'one'), 'its upstreams are there');

    $file = $nginx->write_file('waits', '');
    $nginx->set(FILE => 'waits');
    ok($nginx->reload(config('before', %before)), 'a reload');
    $nginx->set(FILE => 'none');

    my $pid = wait_for {
        (grep { $nginx->title($_) =~ /master/ } $nginx->children)[0]
    } 10;

    ok($pid, 'its worker starts late');

    return $pid;
}


sub goes_on {
    my ($pid) = @_;

    unlink($file) or die "$file: $!\n";

    ok(wait_for(sub { !grep { $_ == $pid } $nginx->children }, 20),
       'it ends');
    $nginx->logs(qr/ $pid exited with code 0/, 1, 'in order');
}


# Nothing has taken the place of the upstreams, or others have.

for my $next (\%other, \%after) {
    my $pid = start_late();

    for my $upstreams (\%other, $next) {
        ok($nginx->reload(config('after', %$upstreams)), 'another reload');
        ok(comes_to_have(sort keys %$upstreams), 'removes them');
    }

    goes_on($pid);
}

# There is no agent any more: the late worker does not become the agent of
# upstreams that were removed.

my $pid = start_late();

ok($nginx->reload(config('', %other)), 'another reload');
ok(comes_to_have(sort keys %other), 'removes them');
ok($nginx->reload(config('')), 'the last reload');
ok(wait_for(sub { !$nginx->status->{agent}{pid} }, 20), 'removes the agent');

goes_on($pid);

is($nginx->count_log(qr/ $pid#$pid: .*this worker is the agent/), 0,
   'it was not the agent');

finish();
