#!/usr/bin/perl

# "etcd_check fast=": a member whose newest check contradicts its state is
# checked again soon.  The interval of a day leaves each member one check of its
# own, its first.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant { FAILS => 3, RISES => 4 };

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d e f));
my ($sick, $well, $late, $short, $last, $gone) = @backends;

my $configuration = <<'EOC';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream fails {
        etcd_members /fails/ max_fails=0;
        etcd_check http interval=1d fails=%%FAILS%% fast=50ms panic=0;
    }

    upstream short {
        etcd_members /short/ max_fails=0;
        etcd_check http interval=1d fails=60000 fast=50ms panic=0;
    }

    upstream rises {
        etcd_members /rises/ max_fails=0;
        etcd_check http interval=1d fails=1 rises=%%RISES%% fast=50ms panic=0;
    }

    upstream gone {
        etcd_members /gone/ max_fails=0;
        etcd_check http interval=1d fails=2 fast=3s panic=0;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /fails/ { proxy_pass http://fails; }
        location /short/ { proxy_pass http://short; }
        location /rises/ { proxy_pass http://rises; }
        location /gone/  { proxy_pass http://gone; }

        location /status { etcd_status; }
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)
    ->set(FAILS => FAILS, RISES => RISES)->start($configuration);


sub member {
    my ($upstream, $backend) = @_;

    return Upstream->new($nginx, $upstream)->member($backend->address) // {};
}

sub becomes {
    my ($upstream, $backend, $state) = @_;

    return wait_for {
        (member($upstream, $backend)->{state} // '') eq $state
    } 20, "$upstream: $backend->{name} is $state";
}

sub put { $etcd->put("/$_[0]/$_[1]{name}", $_[1]->address) }

# failures

$sick->set(status => 500);
put('fails', $_) for $sick, $well;

ok(becomes('fails', $sick, 'unhealthy'), 'a member fails without its turn');
is($sick->requests, FAILS, 'after as many checks as it takes');

$late->set(status => 500);
put('fails', $late);

ok(becomes('fails', $late, 'unhealthy'), 'another one fails');
is($sick->requests, FAILS, 'the first one waits for its turn again');
is($well->requests, 1, 'one that works was checked once');

# a failure that is not repeated

$short->set(status => 500);
put('short', $short);
wait_for { $short->requests >= 2 } 20, 'checks that follow one another';
$short->set(status => 200);
wait_for { (member('short', $short)->{check} // '') eq 'ok' } 20, 'a success';

my $asked = $short->requests;

$last->set(status => 500);
put('fails', $last);
becomes('fails', $last, 'unhealthy');

is($short->requests, $asked, 'a success ends it');
is(member('short', $short)->{state}, 'up', 'the member stays in use');

# successes: its turn comes with a reload

$gone->set(status => 500);
put('rises', $gone);
becomes('rises', $gone, 'unhealthy');

$gone->set(status => 200);
$nginx->reload(undef, gone => 1);

ok(becomes('rises', $gone, 'up'), 'a member is back without another turn');
is(member('rises', $gone)->{check_row}, RISES,
   'after as many checks as it takes');

# a member whose key is deleted before its next check, and another one

$gone->set(status => 500);
put('gone', $gone);
wait_for { (member('gone', $gone)->{check} // '') eq 'status 500' } 20,
    'a failure';

$etcd->del('/gone/' . $gone->{name});
wait_for { !%{ member('gone', $gone) } } 10, 'a member is deleted';

my $failed = $gone->requests;

$well->reset;
put('gone', $well);
wait_for { (member('gone', $well)->{check} // '') eq 'ok' } 20, 'a check';

$sick->set(status => 500);
put('gone', $sick);
ok(becomes('gone', $sick, 'unhealthy'), 'a member fails later');
is($gone->requests, $failed, 'who is gone is not asked again');
is($well->requests, 1, 'nor is who came after it');

finish();
