#!/usr/bin/perl

# Lists: in pages at one revision, made again when that is compacted, and
# compared with the known members.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Chaos;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Wait;

use constant {
    KEYS  => 17_000,                    # three pages
    OPS   => 125,
    TIMES => 10,
};


my $etcd = Etcd->new()->start();
my $chaos = Chaos->start($etcd->port);
my $paging = Chaos->start($etcd->port);
my @backends = Backend->start(3);


sub address { '10.0.' . int($_[0] / 250) . '.' . $_[0] % 250 . ':80' }
sub key { sprintf('/many/%05d', $_[0]) }

for (my $n = 1; $n <= KEYS; $n += OPS) {
    $etcd->txn(map { [put => key($_), address($_)] } $n .. $n + OPS - 1);
}

# These values are too long for a read after a reconnect: nginx lists the keys.

sub wordy {
    my ($backend) = @_;

    return '{"address":"' . $backend->address . '","note":"' . 'x' x 65_000
        . '"}';
}

$etcd->put('/api/0', $backends[0]->address);
$etcd->put('/api/1', wordy($backends[1]));

my $config = <<'EOC';

worker_processes 1;

etcd {
    endpoints %%CHAOS%%;
    request_timeout 60s;
}

etcd paging {
    endpoints %%PAGING%%;
    zone 32m;

    # the first page is held, and so is all else

    request_timeout 60s;
    ping_interval 60s;
}

http {
    upstream api {
        etcd_members /api/;
    }

    upstream many {
        etcd_members /many/ cluster=paging;
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

my $nginx = Nginx->new()->set(CHAOS  => $chaos->endpoints,
                              PAGING => $paging->endpoints);


sub ranges { $etcd->metric('etcd_mvcc_range_total') }


# the number of members in the status: decoding them takes longer than all the
# rest

sub many {
    my $body = $nginx->get('/status')->{body};

    return scalar(() = $body =~ m{"/many/\d+","address"}g);
}


# The first page is held in the middle, and the revision that it names is
# compacted: the next page cannot be had.  Returns how often the log says so.

sub compacted_between {
    $nginx->stop();
    $etcd->txn([put => key(KEYS), address(KEYS)], [del => key(0)]);

    $chaos->set(refuse => 1);
    $paging->set(hold_after => 8000);

    my $listed = $etcd->revision();
    my $before = ranges();

    $nginx->start($config);

    ok(wait_for(sub { ranges() > $before }, 20, 'the first page'),
       'the first page is under way');

    $etcd->put(key(0), address(0));
    $etcd->del(key(KEYS));
    $etcd->compact();
    $paging->set(hold_after => 0);
    $chaos->set(refuse => 0);

    ok(wait_for(sub { many() == KEYS }, 30, 'the members'), 'all pages');

    return $nginx->count_log(
        qr/"paging": list at revision $listed was compacted/);
}


# A page that is held for half a second is asked for again, at a later revision.

my $compacted;

for (1 .. TIMES) {
    my $late = $nginx->count_log(qr/"paging": range failed: deadline/);

    $compacted = compacted_between();

    last if $compacted
            || $nginx->count_log(qr/"paging": range failed: deadline/)
               == $late;
}

is($compacted, 1, 'a page of a compacted revision starts the list again')
    or diag(grep { /"paging"/ } $nginx->lines_of('error.log'));

my $members = $nginx->upstream('many')->members;

is($members->{key(0)}, address(0) . ' 1 up', 'with the first key');
ok(!$members->{key(KEYS)}, 'and without the last');

is_deeply([sort keys %$members], [map { key($_) } 0 .. KEYS - 1],
          'every key is there, none twice');

$etcd->del(key(8192));

ok(wait_for(sub { many() == KEYS - 1 }, 10, 'an event'),
   'the watch goes on from there');

$etcd->del_prefix('/many/');

ok(wait_for(sub { many() == 0 }, 10, 'an event of all keys'),
   'a prefix that is deleted at once');


# A compaction while the connection was away, and no change: nothing changes.

my $both = { map { ("/api/$_" => $backends[$_]->address . ' 1 up') } 0, 1 };

$nginx->upstream('api')->shows($both, 'members');

is($nginx->tally('/', 20)->{$_->name}, 10, 'requests to ' . $_->name)
    for @backends[0, 1];


# Keys change while the connection is down, and a compaction covers them.

sub compacted_while_away {
    my ($changes) = @_;

    my $resyncs = $nginx->cluster()->{resyncs};

    $chaos->set(refuse => 1);
    $chaos->cut();
    $changes->();
    $etcd->put('/unrelated', 1);
    $etcd->compact();
    $chaos->set(refuse => 0);

    ok(wait_for(sub { $nginx->cluster()->{resyncs} == $resyncs + 1
                      && $nginx->cluster()->{state} eq 'synced'
                      && $nginx->upstream('api')->status->{revision}
                         >= $etcd->revision() }, 10, 'a list'),
       'it lists once');
}

sub requests {
    return { map { $_->{key} => $_->{requests} }
             @{ $nginx->upstream('api')->status->{members} } };
}


my $generation = $nginx->upstream('api')->generation;
my $requests = requests();

cmp_ok($requests->{'/api/0'} + $requests->{'/api/1'}, '>=', 40,
       'requests are counted');

compacted_while_away(sub {});

is($nginx->upstream('api')->generation, $generation,
   'an unchanged list: no update');
is_deeply(requests(), $requests, 'and no counter lost');

compacted_while_away(sub {
    $etcd->put('/api/0', '{"address":"' . $backends[0]->address . '"}');
    $etcd->put('/api/1', ' ' . wordy($backends[1]));
});

is($nginx->upstream('api')->generation, $generation,
   'values written in another way: no update');
is_deeply(requests(), $requests, 'and no counter lost');

compacted_while_away(sub {
    $etcd->del('/api/0');
    $etcd->put('/api/2', $backends[2]->address);
});

$nginx->upstream('api')->shows({
    map { ("/api/$_" => $backends[$_]->address . ' 1 up') } 1, 2
}, 'a list is compared: one gone, one new');

is(requests()->{'/api/1'}, $requests->{'/api/1'},
   'the one that stayed keeps its counters');
is(requests()->{'/api/2'}, 0, 'the new one starts with its own');

is_deeply([sort keys %{ $nginx->tally('/', 20) }],
          [sort map { $_->name } @backends[1, 2]], 'requests go there');

finish();
