#!/usr/bin/perl

# A worker that starts when a newer configuration has removed upstreams, values
# and elections of its own: it must not use what has become of the memory.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

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
# this name

sub config {
    my ($name, %upstreams) = @_;

    my $upstreams = join("\n", map { "upstream $_ { $upstreams{$_} }" }
                               sort keys %upstreams);

    $nginx->set(NAME => $name, UPSTREAMS => $upstreams);

    return <<'EOF';

worker_processes 1;
etcd_late %%DIR%%/%%FILE%%;

etcd {
    endpoints %%ETCD%%;
    zone 1m;

    election %%NAME%% /elections/%%NAME%%;
}

http {
    %%UPSTREAMS%%

    etcd_set $value /values/%%NAME%% default=none;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /lock {
            etcd_lock /locks/%%NAME%%;
            return 200 "$value $etcd_leader_%%NAME%%";
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


# the agent is a worker of the new configuration, which has removed the former
# upstreams before it reads its own

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

for my $case (
    ['nothing has come in their place', \%other],
    ['other upstreams have come in their place', \%after])
{
    my ($name, $next) = @$case;

    $nginx->set(FILE => 'none');

    $nginx->pid ? $nginx->reload(config('before', %before))
                : $nginx->start(config('before', %before));

    ok(comes_to_have('leader', 'one'), "$name: before");

    # the next worker waits while the file is there

    my $file = $nginx->write_file('waits', '');

    $nginx->set(FILE => 'waits');
    ok($nginx->reload(config('before', %before)), 'a reload');

    my $pid = wait_for {
        (grep { $nginx->title($_) =~ /master/ } $nginx->children)[0]
    } 10;

    ok($pid, 'its worker starts late');

    for my $n (0, 1) {
        $nginx->set(FILE => 'none');
        my $upstreams = $n ? $next : \%other;

        ok($nginx->reload(config("after$n", %$upstreams)), 'another reload');
        ok(comes_to_have(sort keys %$upstreams), 'without them');
    }

    unlink($file) or die "$file: $!\n";

    ok(wait_for(sub { !grep { $_ == $pid } $nginx->children }, 20),
       'the late worker ends');
    is($nginx->count_log(qr/ $pid exited with code 0/), 1, 'in order');
}

finish();
