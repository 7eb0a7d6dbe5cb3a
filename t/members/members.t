#!/usr/bin/perl

# Keys become members: several keys of one member, changes that are none, empty
# prefixes, and servers beside discovered members.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my $other = Etcd->new()->start();
my ($one, $two, $three) = Backend->start('one', 'two', 'three');
my ($at1, $at2, $at3) = map { $_->address } $one, $two, $three;

my $nginx = Nginx->new(etcd => $etcd)->set(
    OTHER => $other->endpoints,
    ONE   => $at1,
    TWO   => $at2,
    THREE => $at3,
);

$nginx->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

etcd spaced {
    endpoints %%ETCD%%;
    namespace /team;
}

etcd other {
    endpoints %%OTHER%%;
}

http {
    proxy_next_upstream off;

    upstream same {
        etcd_members /same/;
    }

    upstream keep {
        etcd_members /keep/ on_empty=keep;
    }

    upstream drop {
        etcd_members /drop/ on_empty=drop;
    }

    upstream allow {
        etcd_members /allow/;
        etcd_allow 127.0.0.0/8 fd00::/8;
    }

    upstream allow_default {
        etcd_members /allow/;
    }

    upstream allow_unix {
        etcd_members /allow/;
        etcd_allow unix:;
    }

    upstream static {
        zone static 64k;
        server %%ONE%% weight=3;
        etcd_members /static/;
        server %%TWO%% down;
    }

    upstream reserve {
        etcd_members /reserve/;
        server %%ONE%% backup;
    }

    upstream api {
        etcd_members /services/api/;
    }

    upstream api2 {
        etcd_members /services/api/ weight=4;
    }

    upstream noslash {
        etcd_members /services/api;
    }

    upstream spaced {
        etcd_members /services/api/ cluster=spaced;
    }

    upstream other {
        etcd_members /services/api/ cluster=other;
    }

    upstream leave {
        etcd_members /leave/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }
}

EOF


sub json {
    my ($address, $rest) = @_;

    return "{\"address\":\"$address\"" . ($rest ? ",$rest" : '') . '}';
}



sub events {
    return scalar(grep { $_->{upstream} eq 'same' }
                  @{ $nginx->status->{events} });
}


sub status_of { return $nginx->get("/to/$_[0]")->{status} }


# a set that was never filled

is(status_of('same'), 502, 'an empty prefix: 502');
like($nginx->error_log, qr/no live upstreams.*upstream: "http:\/\/same/,
     'and the log names the upstream');

# two keys with one address

my $same = $nginx->upstream('same');

$etcd->put('/same/1', json($at1, '"weight":2'));
$etcd->put('/same/2', json($at1, '"weight":5'));
$same->shows({ '/same/2' => "$at1 5 up" },
             'two keys with one address: one member, the newest says how');

$nginx->tally('/to/same', 6);
is($same->member($at1)->{requests}, 6, 'it counts requests');

$etcd->put('/same/1', json($at1, '"weight":3'));
$same->shows({ '/same/1' => "$at1 3 up" }, 'the older key is the newest now');

my $generation = $same->generation;

$same->sees($etcd->put('/same/2', json($at1, '"weight":5')));
$same->shows({ '/same/2' => "$at1 5 up" },
             'a value rewritten as it was makes its key the newest');

$etcd->del('/same/2');
$same->shows({ '/same/1' => "$at1 3 up" }, 'the newer key goes: the other');
is($same->member($at1)->{requests}, 6, 'it is the same member throughout');

$etcd->del('/same/1');
$same->shows({}, 'the last key goes: the member goes');
is(status_of('same'), 502, 'and is asked no more');

$same->sees(
    $etcd->txn([put => '/same/1', json($at1)],
               [put => '/same/2', json($at1, '"weight":7')]));
is(scalar(keys %{ $same->members }), 1, 'one member from one txn');

$etcd->del('/same/1');
$same->shows({ '/same/2' => "$at1 7 up" }, 'the older key goes first');
$etcd->del('/same/2');
$same->shows({}, 'then the newer one');

# rewrites that change nothing

my %rewrites = (
    'the same bytes'  => "{\"address\":\"$at2\",\"weight\":2}",
    'other spaces'    => "{ \"weight\" : 2,\n\"address\" : \"$at2\" }",
    'unknown fields'  => json($at2, '"weight":2,"load":0.7,"seen":1700000000'),
    'said defaults'   => json($at2, '"weight":2,"max_fails":1,"down":false'),
    'host and port'   => "{\"host\":\"127.0.0.1\",\"port\":"
                         . $two->port . ',"weight":2}',
);

$etcd->put('/same/n', $rewrites{'the same bytes'});
$same->shows({ '/same/n' => "$at2 2 up" }, 'a member');
$nginx->tally('/to/same', 5);
wait_for { $same->member($at2)->{conns} == 0 } 10, 'no request';

for my $name (sort keys %rewrites) {
    my $before = $same->status;
    my $events = events();
    my $revision = $etcd->put('/same/n', $rewrites{$name});

    $same->sees($revision);

    my $after = $same->status;
    my $seen = $after->{members}[0]{mod_revision};

    is($seen, $revision, "$name: the newest revision is known");

    delete $_->{members}[0]{mod_revision} for $before, $after;

    is_deeply([$after->{generation}, $after->{members}],
              [$before->{generation}, $before->{members}],
              "$name: no update at all");
    is(events(), $events, "$name: no event");
}

$generation = $same->generation;

$etcd->put('/same/n', json($at2, '"weight":3'));
$same->shows({ '/same/n' => "$at2 3 up" }, 'a change of weight');
is($same->generation, $generation + 1, 'is an update');
is($same->member($at2)->{requests}, 5, 'of the same member');

# Keys change places.

$same->sees($etcd->txn([del => '/same/n'], [put => '/same/m', json($at2)]));
$same->shows({ '/same/m' => "$at2 1 up" }, 'deleted and put in one txn');
is($same->member($at2)->{requests}, 5, 'it is still the same member');

$same->sees($etcd->txn([put => '/same/l', json($at2)], [del => '/same/m']));
$same->shows({ '/same/l' => "$at2 1 up" }, 'put and deleted in one txn');
is($same->member($at2)->{requests}, 5, 'the same member again');

$etcd->del('/same/l');
$same->sees($etcd->put('/same/l', json($at2)));
$same->shows({ '/same/l' => "$at2 1 up" }, 'deleted and put again');

$etcd->put('/same/l', $at3);
$same->shows({ '/same/l' => "$at3 1 up" }, 'a key with another address');
is($nginx->who('same'), 'three', 'that one answers');

$etcd->txn([put => '/same/l', $at1], [put => '/same/x', $at3]);
$same->shows({ '/same/l' => "$at1 1 up", '/same/x' => "$at3 1 up" },
             'another key takes the address over');
$etcd->txn([put => '/same/l', $at3], [put => '/same/x', $at1]);
$same->shows({ '/same/l' => "$at3 1 up", '/same/x' => "$at1 1 up" },
             'two keys exchange their addresses');
is_deeply([sort keys %{ $nginx->tally('/to/same', 8) }], ['one', 'three'],
          'and both answer');

# on_empty

for my $name (qw(keep drop)) {
    my $upstream = $nginx->upstream($name);

    $etcd->txn([put => "/$name/1", $at1], [put => "/$name/2", $at2]);
    $upstream->shows({ "/$name/1" => "$at1 1 up", "/$name/2" => "$at2 1 up" },
                     "on_empty=$name: two members");

    $upstream->sees($etcd->del_prefix("/$name/"));
}

$nginx->upstream('drop')->shows(
    {}, 'on_empty=drop: none when all keys are deleted');
is(status_of('drop'), 502, 'and no answer');

my $keep = $nginx->upstream('keep');
my %kept = ('/keep/1' => "$at1 1 up", '/keep/2' => "$at2 1 up");

$keep->shows(\%kept, 'on_empty=keep: all members stay');
is_deeply([sort keys %{ $nginx->tally('/to/keep', 8) }], ['one', 'two'],
          'and answer');
$nginx->logs(qr/\[warn\].*upstream "keep".*empty.*kept/, 1,
             'the log says so once');

my $agent = $nginx->status->{agent}{pid};

$nginx->kill_worker($agent);
wait_for {
    my $status = $nginx->status;
    $status && $status->{agent}{pid} != $agent
        && $status->{clusters}{default}{state} eq 'synced'
} 10, 'another agent';

$keep->shows(\%kept, 'they outlive the agent');

$etcd->put('/keep/3', $at3);
$keep->shows({ '/keep/3' => "$at3 1 up" }, 'and go when there is a new one');

$keep->sees($etcd->txn([put => '/keep/4', $at1]));
$etcd->del('/keep/3');
$keep->shows({ '/keep/4' => "$at1 1 up" }, 'one of two is deleted: it goes');
$keep->sees($etcd->del('/keep/4'));
$keep->shows({ '/keep/4' => "$at1 1 up" },
             'deleted one by one, the last stays');
is($nginx->who('keep'), 'one', 'and answers');

$keep->sees($etcd->put('/keep/4', $at1));
$keep->sees($etcd->put('/keep/5', $at2));
$keep->shows({ '/keep/4' => "$at1 1 up", '/keep/5' => "$at2 1 up" },
             'a kept key is put again: it is a member like any');

# etcd_allow

my $allow = $nginx->upstream('allow');

$etcd->txn(
    [put => '/allow/in4', '127.0.0.9:80'],
    [put => '/allow/in6', '[fd00::1]:80'],
    [put => '/allow/out4', '10.0.0.1:80'],
    [put => '/allow/out6', '[fe80::1]:80'],
    [put => '/allow/mapped', '[::ffff:127.0.0.8]:80'],
    [put => '/allow/unix', 'unix:/run/a.sock'],
);

my $refused = 'is not allowed by etcd_allow';
my $needs = 'needs "etcd_allow unix:"';

$allow->shows({ '/allow/in4'    => '127.0.0.9:80 1 up',
                '/allow/in6'    => '[fd00::1]:80 1 up',
                '/allow/mapped' => '[::ffff:127.0.0.8]:80 1 up' },
              'etcd_allow: networks');
$allow->reports({ '/allow/out4' => "address \"10.0.0.1:80\" $refused",
                  '/allow/out6' => "address \"[fe80::1]:80\" $refused",
                  '/allow/unix' => "address \"unix:/run/a.sock\" $needs" },
                'others are reported');
$nginx->upstream('allow_default')->reports({
    '/allow/unix' => "address \"unix:/run/a.sock\" $needs",
}, 'by default all but sockets may be');
$nginx->upstream('allow_unix')->shows(
    { '/allow/unix' => 'unix:/run/a.sock 1 up' }, 'etcd_allow: sockets alone');

# static servers

my $static = $nginx->upstream('static');
my %static = ($at1 => "$at1 3 up", $at2 => "$at2 1 down");

is_deeply($static->members, \%static, 'static servers without any key');
is($nginx->who('static'), 'one', 'answer');

$etcd->put('/static/3', $at3);
$static->shows({ %static, '/static/3' => "$at3 1 up" },
               'a member beside static servers');
is_deeply([sort keys %{ $nginx->tally('/to/static', 16) }], ['one', 'three'],
          'both answer');

$etcd->put('/static/1', json($at1, '"weight":9'));
$static->shows({ $at2 => $static{$at2}, '/static/1' => "$at1 9 up",
                 '/static/3' => "$at3 1 up" },
               'a key with the address of a static server goes before it');

$etcd->del_prefix('/static/');
$static->shows(\%static, 'static servers stay when all keys are deleted');

my $reserve = $nginx->upstream('reserve');

is_deeply($reserve->members, { $at1 => "$at1 1 backup" },
          'a backup server alone');
is($nginx->who('reserve'), 'one', 'it answers as long as there is no other');
$reserve->sees($etcd->put('/reserve/2', $at2));
is_deeply($nginx->tally('/to/reserve', 8), { two => 8 },
          'a discovered member goes before it');
$reserve->sees($etcd->del('/reserve/2'));
is($nginx->who('reserve'), 'one', 'when that is deleted it answers again');

# prefixes, namespaces, clusters

$etcd->txn(
    [put => '/services/api/1', $at1],
    [put => '/services/apix/1', $at2],
    [put => '/services/api', '10.0.0.1:80'],
    [put => '/team/services/api/1', $at3],
    [put => '/services/ap', '10.0.0.2:80'],
    [put => '/services/api0', '10.0.0.3:80'],
);
$other->put('/services/api/9', $at2);

my %api = ('/services/api/1' => "$at1 1 up");

$nginx->upstream('api')->shows(\%api, 'a prefix ends where it says');
$nginx->upstream('api2')->shows({ '/services/api/1' => "$at1 4 up" },
                                'the same prefix in another upstream');
$nginx->upstream('noslash')->shows({ %api,
                                     '/services/apix/1' => "$at2 1 up",
                                     '/services/api'    => '10.0.0.1:80 1 up',
                                     '/services/api0'   => '10.0.0.3:80 1 up' },
                                   'a prefix need not end with a slash');
$nginx->upstream('spaced')->shows({ '/services/api/1' => "$at3 1 up" },
                                  'a namespace goes before every key');
$nginx->upstream('other')->shows({ '/services/api/9' => "$at2 1 up" },
                                 'the same prefix in another etcd');
is(join(' ', map { $nginx->who($_) } qw(api api2 spaced other)),
   'one one three two',
   'each upstream has its own');

# leaving

my $leave = $nginx->upstream('leave');


sub leaves_ok {
    my ($name, $change) = @_;

    $etcd->txn([put => '/leave/1', $at1]);
    $leave->shows({ '/leave/1' => "$at1 1 up" }, "$name: a slow member");
    $one->set(hang => 1);
    $one->reset;

    my $client = $nginx->http;

    $client->send('GET', '/to/leave');
    wait_for { $one->requests == 1 } 10, 'the slow request';
    is($leave->member($at1)->{conns}, 1, "$name: its request is counted");

    $etcd->put('/leave/2', $at2);
    $leave->sees($change->());

    is_deeply($nginx->tally('/to/leave', 8), { two => 8 },
              "$name: new requests go to others");

    $one->set(hang => 0);
    is($client->receive->{body}, 'one', "$name: the old one is answered");

    $etcd->del_prefix('/leave/');
    $leave->shows({}, "$name: all gone");
}


leaves_ok('drain', sub { $etcd->put('/leave/1', json($at1, '"drain":true')) });
leaves_ok('weight 0', sub { $etcd->put('/leave/1', json($at1, '"weight":0')) });
leaves_ok('down', sub { $etcd->put('/leave/1', json($at1, '"down":true')) });
leaves_ok('delete', sub { $etcd->del('/leave/1') });

finish();
