#!/usr/bin/perl

# Bad input in etcd: it is reported, once, with key, revision and reason, and
# disturbs nothing else; the key's last valid member stays.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant {
    NO_COUNT => 'is not an integer from 0 on; its default is used',
    NO_PORT  => 'has a port that is not an integer from 1 to 65535',
};

my $etcd = Etcd->new()->start();
my ($one, $two, $three) = Backend->start('one', 'two', 'three');
my ($at1, $at2, $at3) = map { $_->address } $one, $two, $three;

my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    log_format key escape=json '{"key":"$etcd_member_key"}';

    upstream api {
        etcd_members /api/;
    }

    upstream bytes {
        etcd_members /bytes/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location /bytes {
            proxy_pass http://bytes;
            access_log %%DIR%%/key.log key;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

my $api = Upstream->new($nginx, 'api');
my $bytes = Upstream->new($nginx, 'bytes');
my %good = ('/api/good' => "$at1 1 up");


sub json { return "{\"address\":\"$at2\",$_[0]}" }


# the number of times that the log reports this key at this revision

sub reports {
    my ($key, $revision, $rest) = @_;

    my $line = quotemeta("key \"$key\" at revision $revision is invalid: ");

    return $nginx->count_log(qr/\[error\].*$line.*\Q$rest\E/);
}


$etcd->put('/api/good', $at1);
$api->shows(\%good, 'a good member');

my $tail = ', its last valid member stays';

my @values = (
    ['no address', 'hello', 'address "hello" has no port'],
    ['empty', '', 'last segment of the key "bad" has no port'],
    ['broken JSON', '{"address":', 'value is broken JSON at line 1, column '],
    ['two objects', json('"a":1') . '{}', 'value is broken JSON at line 1'],
    ['duplicate', json('"down":0,"down":1'), 'value is broken JSON at line 1'],
    ['wrong type', '{"address":[]}', 'address [] is not a string'],
    ['port 0', '127.0.0.1:0', 'address "127.0.0.1:0" ' . NO_PORT],
    ['port 65536', '127.0.0.1:65536', 'address "127.0.0.1:65536" ' . NO_PORT],
    ['1.4 MB', 'x' x 1_400_000,
     'value "' . 'x' x 64 . '..." is longer than 524288 bytes'],
    ['1.4 MB of JSON', json('"tags":"' . 'x' x 1_400_000 . '"'),
     'is longer than 524288 bytes'],
    ['deep JSON', json('"tags":' . '[' x 30000 . ']' x 30000),
     'value is broken JSON at line 1'],
    ['NUL', "127.0.0.1:80\0", 'value "127.0.0.1:80\\x00" has a NUL byte'],
    ['escaped NUL', '{"address":"127.0.0.1:80\\u0000"}',
     'value is broken JSON at line 1'],
    ['no UTF-8', "{\"address\":\"\xff\"}", 'value is broken JSON at line 1'],
    ['control bytes', "10.0.0.1\n2026/01/01 [notice] forged:80",
     'address "10.0.0.1\\x0a2026/01/01 [notice] forged:80" has a byte not '
     . 'allowed in an address'],
);

# Keys are invalid: one that never was valid, then one that was.

for my $key ('/api/bad', '/api/was/bad') {
    my $was = $key eq '/api/was/bad' ? 1 : 0;
    my %members = (%good, $was ? ($key => "$at2 3 up") : ());

    if ($was) {
        $etcd->put($key, json('"weight":3'));
        $api->shows(\%members, 'a second good member');
    }

    for (@values) {
        my ($name, $value, $reason) = @$_;

        my $revision = $etcd->put($key, $value);

        $api->sees($revision);

        my $status = $api->status;
        my @invalid = grep { $_->{key} eq $key } @{ $status->{invalid} };

        is_deeply($api->members, \%members, "$name: members are the same");
        is_deeply([map { $_->{mod_revision} } @invalid], [$revision],
                  "$name: reported by the status");
        like($invalid[0]{reason}, qr/\Q$reason\E/, "$name: with the reason");

        # a key that never was a member may be somebody's heartbeat

        is(reports($key, $revision, $reason), $was || $_ == $values[0] ? 1 : 0,
           "$name: reported by the log, once");
        is($nginx->count_log(qr/revision $revision .*\Q$tail\E/), $was,
           "$name: which says whether a member stays");
    }
}

is_deeply([sort keys %{ $nginx->tally('/', 16) }], ['one', 'two'],
          'all members answer');

# An attribute does not say where to go: one that cannot be used costs itself,
# not the member, and is reported once, however often the key is written.

my @partly = (
    ['weight -1', '"weight":-1', '1 up', 'weight -1 ' . NO_COUNT],
    ['weight {}', '"weight":{}', '1 up', 'weight {} ' . NO_COUNT],
    ['weight 2^64', '"weight":18446744073709551616', '65535 up',
     'weight 2147483647 is greater than 65535, which is used'],
    ['weight "1e9"', '"weight":"1e9"', '65535 up',
     'weight 1000000000 is greater than 65535, which is used'],
    ['fail_timeout "-1"', '"fail_timeout":"-1","weight":4', '4 up',
     'fail_timeout "-1" is not a time like "10s" or a number of seconds; its '
     . 'default is used'],
    ['down "soon"', '"down":"soon"', '1 down',
     'down "soon" is not true or false; it counts as set'],
);

for my $key ('/api/bad', '/api/was/bad') {
    for (@partly) {
        my ($name, $attributes, $member, $reason) = @$_;

        my $revision = $etcd->put($key, json($attributes));
        my $line = qr/\[warn\].*key "$key" at revision \d+ is used in part: /;

        $api->sees($revision);
        is($api->members->{$key}, "$at2 $member", "$name: the member is used");
        is($api->invalid->{$key}, $reason, "$name: reported by the status");

        $api->sees($etcd->put($key, json("\"n\":$_,$attributes"))) for 1 .. 3;
        $nginx->logs(qr/$line\Q$reason\E/, 1,
                     "$name: once by the log, when it is written again, too");
    }
}

$etcd->put('/api/bad', 'hello');
$etcd->put('/api/was/bad', json('"weight":2147483648,"max_fails":-1'));
$api->reports({ '/api/bad' => 'address "hello" has no port',
                '/api/was/bad' => 'max_fails -1 ' . NO_COUNT . '; and 1 more' },
              'the last of them');

# An invalid key is reported once, also when another agent reads it again; then
# it is forgotten.

my %reported = %{ $api->invalid };
my $log = $nginx->count_log(qr/is invalid|is used in part/);
my $agent = $nginx->status->{agent}{pid};

is_deeply([sort keys %reported], ['/api/bad', '/api/was/bad'],
          'two invalid keys');

$nginx->kill_worker($agent);
wait_for {
    my $status = $nginx->status;
    $status && $status->{agent}{pid} != $agent
} 10, 'another agent';

$api->sees($etcd->put('/api/good', "$at1 "));
$api->reports(\%reported, 'both are known to the next agent');
is($nginx->count_log(qr/is invalid|is used in part/), $log,
   'and not reported again');

$etcd->put('/api/was/bad', json('"weight":4'));
$api->shows({ %good, '/api/was/bad' => "$at2 4 up" }, 'valid again');
$api->reports({ '/api/bad' => $reported{'/api/bad'} }, 'no longer reported');
$etcd->del('/api/bad');
$api->reports({}, 'deleted: no longer reported');

$etcd->put('/api/was/bad', 'hello');
$api->reports({ '/api/was/bad' => 'address "hello" has no port' },
              'invalid once more');
$etcd->del('/api/was/bad');
$api->shows(\%good, 'deleted while invalid: its member goes');
$api->reports({}, 'and is no longer reported');

# many invalid keys among valid ones

$etcd->txn((map { [put => "/api/many/$_", "bad $_"] } 1 .. 60),
           [put => '/api/third', $at3],
           (map { [put => "/api/more/$_", "bad $_"] } 1 .. 60));
$api->shows({ %good, '/api/third' => "$at3 1 up" },
            'a good member among 120 invalid keys of one revision');
is(scalar(keys %{ $api->invalid }), 120, 'all of which are reported');
is_deeply([sort keys %{ $nginx->tally('/', 16) }], ['one', 'three'],
          'it answers');
$etcd->txn([del_prefix => '/api/many/'], [del_prefix => '/api/more/']);
$api->reports({}, 'and all are forgotten');

# keys of any bytes

my @keys = (
    ["no-\xff-utf8", '/bytes/no-\\xff-utf8', 'is not valid UTF-8'],
    ["overlong-\xc0\xaf", '/bytes/overlong-\\xc0\\xaf', 'is not valid UTF-8'],
    ["surrogate-\xed\xa0\x80", '/bytes/surrogate-\\xed\\xa0\\x80',
     'is not valid UTF-8'],
    ["nul-\0-byte", '/bytes/nul-\\x00-byte', 'has a NUL byte'],
);

for (@keys) {
    my ($key, $shown, $reason) = @$_;

    my $revision = $etcd->put("/bytes/$key", $at1);

    $bytes->sees($revision);
    is((values %{ $bytes->invalid })[0], "key \"$shown\" $reason",
       "a key that $reason: in the status");
    is(reports($shown, $revision, "key \"$shown\" $reason"), 1, 'in the log');
    $etcd->del("/bytes/$key");
    $bytes->reports({}, 'and forgotten');
}

my $used = $nginx->status->{zone}{used};
my $long = '/bytes/' . 'k' x 1_000_000;
my $revision = $etcd->put($long, $at1);

$bytes->sees($revision);
cmp_ok($nginx->status->{zone}{used} - $used, '<', 64 * 1024,
       'a key of 1 MB takes little room');
$nginx->logs(qr/k\.\.\." at revision $revision is invalid: key "k*/, 1,
             'is reported once by the log');
is_deeply([map { substr($long, 0, length) eq $_ ? 'long' : $_ }
           keys %{ $bytes->invalid }], ['long'],
          'and by the status, which shows how it begins');
$bytes->shows({}, 'and is no member');
$etcd->del($long);
$bytes->reports({}, 'and is forgotten');

# A key tries to write lines of its own into logs.

my $forged = "2026/01/01 00:00:00 [notice] 1#1: forged\r\n\e[31m\x7f\"\\";

$revision = $etcd->put("/bytes/\n$forged", 'hello');
$bytes->sees($revision);

is($nginx->count_log(qr/^2026\/01\/01 00:00:00/), 0, 'no forged line');
$nginx->logs(qr/revision $revision is invalid/, 1, 'one true line');
is($nginx->count_log(qr/[^\x20-\x7e]/), 0, 'no control byte in the log');
is_deeply([keys %{ $bytes->invalid }], ["/bytes/\n$forged"],
          'the status shows the key as it is');

$etcd->put("/bytes/\n$forged", $at1);
$bytes->shows({ "/bytes/\n$forged" => "$at1 1 up" }, 'it may be a member');
is($nginx->get('/bytes')->{body}, 'one', 'that answers');

my $events = $nginx->status->{events};

is($events->[0]{key}, "/bytes/\n$forged", 'its events are valid JSON as well');

# A request is logged after its answer.

my @lines;

wait_for { @lines = $nginx->lines_of('key.log') } 10, 'the log';
is_deeply([map { decode_json($_) } @lines], [{ key => '' }],
          'a variable does not have it');

finish();
