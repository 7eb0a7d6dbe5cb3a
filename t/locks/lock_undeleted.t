#!/usr/bin/perl

# etcd answers, but refuses to delete the keys of locks that nobody holds any
# more, as an etcd does whose data is corrupt: the error log has one error, and
# attempts become rarer, however many keys there are.  All keys go when etcd
# deletes keys again.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep);

use Backend;
use Etcd;
use Finish;
use Http;
use Lock;
use Nginx;
use Wait;

# With an attempt each second there would be some SECONDS of them for each key.

use constant {
    KEYS     => 100,
    SECONDS  => 8,
    ATTEMPTS => 6,
};

my $etcd = Etcd->new()->start();
my $backend = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $backend->address);

$nginx->start(<<'END');

worker_processes 1;

events {
    worker_connections 1024;
}

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            etcd_lock /locks/one $arg_key;
            etcd_lock_hold client;
            proxy_pass http://%%ONE%%;
        }
    }
}

END

my $refused = qr/key \S+ of a lock was not deleted/;
my $lock = Lock->new($nginx, $etcd);


sub keys_left { scalar(my @keys = $lock->keys('/locks/one')) }


sub alarm_of_etcd {
    my ($action) = @_;

    my $status = $etcd->call('maintenance/status', {});

    $etcd->call('maintenance/alarm', {
        action   => $action,
        memberID => $status->{header}{member_id},
        alarm    => 'CORRUPT',
    });
}


sub hold {
    $backend->set(hang => 1);

    my @clients = map { Http->new($nginx->port) } 1 .. KEYS;

    $clients[$_]->send('GET', "/?key=$_") for 0 .. $#clients;

    ok(wait_for(sub { keys_left() == KEYS }, 60), 'locks are held');

    return @clients;
}


my @clients = hold();

alarm_of_etcd('ACTIVATE');

$_->close for @clients;

ok(wait_for(sub { $nginx->count_log($refused) >= KEYS }, 60),
   'etcd deletes no key');

sleep(SECONDS);

$nginx->logs(qr/\[error\] .*$refused/, 1, 'one error');
cmp_ok($nginx->count_log($refused), '<=', KEYS * ATTEMPTS,
       'attempts become rarer');

alarm_of_etcd('DEACTIVATE');

ok(wait_for(sub { keys_left() == 0 }, 60), 'the keys go');

# Another fault has another error.

@clients = hold();

alarm_of_etcd('ACTIVATE');

$_->close for @clients;

ok(wait_for(sub { $nginx->count_log(qr/\[error\] .*$refused/) == 2 }, 60),
   'the next time has an error of its own');

alarm_of_etcd('DEACTIVATE');

ok(wait_for(sub { keys_left() == 0 }, 60), 'the keys go');

finish();
