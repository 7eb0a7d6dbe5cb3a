#!/usr/bin/perl

# Nearly all members fail at once, and the others were ejected before: when no
# member works any more, ejected members get requests again.

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

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d e));
my ($first, @others) = @backends;

for my $prefix (qw(checked never plain)) {
    $etcd->put("/$prefix/$_->{name}", $_->address) for @backends;
}

# No ejection is over before the test is.

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOC');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream checked {
        etcd_members /checked/ fail_timeout=1s;
        etcd_check http interval=200ms timeout=200ms;
        etcd_eject errors=50% window=1s min=2 time=1h max=30%;
    }

    upstream never {
        etcd_members /never/ fail_timeout=1s;
        etcd_check tcp interval=200ms timeout=200ms panic=0;
        etcd_eject errors=50% window=1s min=2 time=1h max=50%;
    }

    upstream plain {
        etcd_members /plain/ fail_timeout=1s;
        etcd_eject errors=50% window=1s min=2 time=1h max=30%;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location /checked { proxy_pass http://checked; }
        location /never   { proxy_pass http://never; }
        location /plain   { proxy_pass http://plain; }

        location /status {
            etcd_status;
        }
    }
}

EOC

sub state {
    my ($upstream, $backend) = @_;

    my $member = Upstream->new($nginx, $upstream)->member($backend->address);

    return ($member // {})->{state} // '';
}

sub panics { Upstream->new($nginx, $_[0])->status->{panic} }


# the members that answer, over all workers; a status stands for a failure

sub answering {
    my ($upstream) = @_;

    return join(' ', sort keys %{ $nginx->tally("/$upstream", 24) });
}


# These members fail some requests, and work from then on.

sub eject {
    my ($upstream, @members) = @_;

    $_->set(status => 500) for @members;

    wait_for {
        answering($upstream);
        !grep { state($upstream, $_) ne 'ejected' } @members;
    } 20, "ejections of $upstream";

    $_->set(status => 200) for @members;
}


sub all_answer {
    my ($upstream, $who, $name) = @_;

    my $answering = '';

    # A check of a busy machine may be late, and its member out for a moment.

    eval {
        wait_for { ($answering = answering($upstream)) eq $who } 30, $name;
    };

    is($answering, $who, "$upstream: $name");
}


# Members work again.  When the checks of a busy machine were late, requests may
# have failed at one of them while an ejected one worked: it is ejected then.

sub back {
    my ($upstream, $most, $name) = @_;

    my ($answering, $used);

    eval {
        wait_for {
            $used = join(' ', map { $_->name }
                              grep { state($upstream, $_) ne 'ejected' }
                              @backends);
            ($answering = answering($upstream)) eq $used
        } 30, $name;
    };

    is($answering, $used, "$upstream: $name");
    cmp_ok(@backends - split(' ', $used), '<=', $most,
           "$upstream: no more than max= are ejected");
}


for my $upstream (qw(checked never plain)) {
    all_answer($upstream, 'a b c d e', 'members');
}

# A member of five is ejected, three of the others fail.

eject('checked', $first);
all_answer('checked', 'b c d e', 'a member that has failed is ejected');

$_->set(status => 500) for @others[1 .. 3];
wait_for { panics('checked') } 20, 'a panic';
all_answer('checked', '500 b', 'a panic alone does not end an ejection');

$_->set(status => 200) for @others;
wait_for { !panics('checked') } 20, 'the end of the panic';
all_answer('checked', 'b c d e', 'the panic is over');

# All others fail, too.

$_->down for @others;
all_answer('checked', 'a', 'an ejected member is asked if no other one works');
ok(wait_for(sub {
    $nginx->count_log(qr/"checked": .* ejection, since no other member works/)
}, 20), 'its ejection ends, which is reported');

$_->up for @others;
back('checked', 1, 'they are back');

# Two members are ejected, three fail their checks, and no panic is allowed.

eject('never', $first, $others[0]);
all_answer('never', 'c d e', 'two members are ejected');

$_->down for @others[1 .. 3];
all_answer('never', 'a b', 'panic=0: ejected members are asked');

$_->up for @others;
back('never', 2, 'panic=0: the others are back');

# without checks

eject('plain', $first);
all_answer('plain', 'b c d e', 'without checks: a member is ejected');

$_->down for @others;
all_answer('plain', 'a', 'without checks: it is asked when the others fail');

$_->up for @others;
back('plain', 1, 'without checks: the others are back');

finish();
