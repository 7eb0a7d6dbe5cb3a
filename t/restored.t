#!/usr/bin/perl

# etcd is restored from a snapshot, on the same URLs: what was put after that is
# gone, and leases from before are there.  A lock whose key is gone is given up
# before an nginx that knew the former history lets anybody in, and so is a
# leadership.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use IO::Select;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant TTL => 8;

# a cluster in which a leader was elected once more than in a restored one

my $etcd = Etcd->new()->start()->restart();
my $backend = Backend->start('one');

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl %%TTL%%s;
    election ingress /elections/ingress value=%%NAME%% ttl=%%TTL%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /leads {
            return 200 "$etcd_is_leader_ingress";
        }

        location = /free {
            etcd_lock /locks/free $arg_name wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location = /lock {
            etcd_lock /locks/one wait=600s;
            proxy_read_timeout 600s;
            proxy_pass http://%%ONE%%;
        }
    }
}
END


sub start {
    my ($name) = @_;

    return Nginx->new(etcd => $etcd)->set(NAME => $name, TTL => TTL,
                                          ONE => $backend->address)
                                    ->start($config);
}


sub ask {
    my ($nginx) = @_;

    my $client = $nginx->http;
    $client->send('GET', '/lock');

    return $client;
}


sub keys_of {
    my ($prefix) = @_;

    my @keys = $etcd->list($prefix);

    return scalar(@keys);
}


sub leads { ($_[0]->get('/leads')->{body} // '') eq '1' }


my $first = start('first');
my $second = start('second');

is($_->get('/free?name=' . $_->port)->{status}, 200, 'a lease for locks')
    for $first, $second;
wait_for { keys_of('/elections/ingress/') == 2 } 20, 'the candidates';

my $snapshot = $etcd->save();

$backend->reset;
$backend->set(hang => 1);

my $holder = ask($first);

wait_for { $backend->requests == 1 } 10, 'the first request';
is(keys_of('/locks/one/'), 1, 'the lock is held');

my ($leader, $other) = leads($first) ? ($first, $second) : ($second, $first);

$etcd->put("/more/$_", $_) for 1 .. 20;
$etcd->restore($snapshot);

my $waiter = ask($second);

# The other nginx lets nobody in for another TTL: its first answer shows it that
# there is another history.

my ($inside, $two_lead) = (0, 0);

wait_for {
    $inside = $backend->requests - 1;
    $two_lead += leads($other) && leads($leader);
    IO::Select->new($holder->{socket})->can_read(0);
} 60, 'the first request to end';

is($inside, 0, 'nobody else was let in meanwhile');
is($holder->receive->{status}, 503, 'the request whose lock is gone is cut');

wait_for {
    $two_lead += leads($other) && leads($leader);
    (leads($leader) || leads($other)) && $backend->requests == 2;
} 60, 'another leader and holder';

is($backend->requests, 2, 'then the other one has the lock');
is($two_lead, 0, 'never did two lead');
ok(leads($leader) || leads($other), 'one leads');
cmp_ok($first->count_log(qr/another history: the raft term went back/), '>', 0,
       'it is logged');

$backend->set(hang => 0);
is($waiter->receive->{status}, 200, 'its request succeeds');

finish();
