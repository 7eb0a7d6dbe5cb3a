#!/usr/bin/perl

# A mirror that needs the lock for which its request waits: an error page has
# led the request to the lock while the mirror was in progress.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Lock;
use Nginx;
use Told;
use Wait;

my $etcd = Etcd->new()->start();
my ($main, $mirror) = Told->start('main', 'mirror');
my $nginx = Nginx->new(etcd => $etcd)->set(MAIN => $main->address,
                                           MIRROR => $mirror->address);

$nginx->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    upstream absent {
        etcd_members /services/absent/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        proxy_set_header X-Token $etcd_lock_token;

        location = /status {
            etcd_status;
        }

        location = /held {
            etcd_lock /locks/one wait=60s;
            proxy_pass http://%%MAIN%%;
        }

        location = /patient {
            mirror /mirror;
            error_page 502 = /locked;
            proxy_pass http://absent;
        }

        location = /hasty {
            mirror /mirror;
            error_page 502 = /tried;
            proxy_pass http://absent;
        }

        location = /refused {
            mirror /mirror;
            error_page 502 = /both;
            proxy_pass http://absent;
        }

        location = /locked {
            etcd_lock /locks/one wait=60s;
            proxy_pass http://%%MAIN%%;
        }

        location = /tried {
            etcd_lock /locks/one wait=1s;
            proxy_pass http://%%MAIN%%;
        }

        location = /both {
            etcd_lock /locks/two wait=60s;
            etcd_lock /locks/one wait=1s;
            proxy_pass http://%%MAIN%%;
        }

        location = /mirror {
            etcd_lock /locks/one wait=60s;
            proxy_pass http://%%MIRROR%%;
        }
    }
}

EOF

my $lock = Lock->new($nginx, $etcd);


sub hold {
    $main->set(hang => 1);

    my $before = $main->requests;
    my $held = $nginx->begin('/held');

    ok(wait_for(sub { $main->requests == $before + 1 }, 20),
       'a request has the lock');

    return $held;
}


sub let_go {
    my ($held) = @_;

    $main->set(hang => 0);
    is($held->receive->{status}, 200, 'it is answered');
}


my $held = hold();
my $patient = $nginx->begin('/patient');

$lock->waits('/locks/one', 1, 'another one waits, and its mirror with it');
let_go($held);

like($patient->receive->{body}, qr/^main [1-9]\d*\z/, 'it gets the lock');
ok(wait_for(sub { $mirror->requests == 1 }, 20), 'so does its mirror');
is(($mirror->seen)[0], ($main->seen)[1], 'the same one');
$lock->gone('/locks/one', 'nothing is left');

$held = hold();

for my $path ('/hasty', '/refused') {
    is($nginx->get($path)->{status}, 423, "$path does not get the lock");
}

is($mirror->requests, 1, 'nor do the mirrors');
let_go($held);
$lock->gone('/locks/one', 'nothing is left');

ok($nginx->quit(), 'nginx ends');

finish();
