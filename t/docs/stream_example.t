#!/usr/bin/perl

# conf-examples/stream.conf does what it says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Datagram;
use Etcd;
use Example;
use Finish;
use Line;
use Nginx;
use Upstream;
use Wait;

plan(skip_all => 'this nginx has no stream')
    if !Nginx::has('stream');

my $etcd = Etcd->new()->start();
my ($db) = Line->start('db');
my ($dns) = Datagram->start('dns');

my $nginx = Nginx->new(etcd => $etcd)->start(Example::text('stream', 'etcd'));

my $client = Line::Client->new($nginx->port('PORT_5432'));

$client->tell('first');
Upstream->new($nginx, 'db', 'stream')->holds(1, 'a connection is held');
$etcd->put('/services/db/1', $db->address);
is($client->hear(), 'db: first', 'until there is a server');

$etcd->put('/services/dns/1', $dns->address);
Upstream->new($nginx, 'dns', 'stream')->shows(
    { '/services/dns/1' => $dns->address . ' 1 up' }, 'a name server');

# A datagram that is not answered within 2 s is sent again, as to any name
# server.

my $answer;

wait_for { $answer = Datagram::Client->new($nginx->port('PORT_5353'))
                                     ->ask('who') } 30, 'an answer';
like($answer, qr/^dns \d+ who$/, 'it answers questions');

$client->close;

finish();
