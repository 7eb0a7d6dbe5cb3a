#!/usr/bin/perl

# Leaders whose keys hold the name of a member, or JSON: as TiCDC and DM write
# them, for one prefix and for a prefix with variables.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Nginx;

my $etcd = Etcd->new()->start();
my %at = map { $_->name => $_->address } Backend->start(qw(one two));

my $nginx = Nginx->new(etcd => $etcd)->start(<<'END');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream cdc {
        etcd_leader /tidb/cdc/default/__cdc_meta__/owner
                    members=/tidb/cdc/default/__cdc_meta__/capture/;
    }

    upstream cdcs {
        etcd_leader /tidb/cdc/$arg_id/__cdc_meta__/owner
                    members=/tidb/cdc/$arg_id/__cdc_meta__/capture/;
    }

    upstream dm {
        etcd_leader /dm-master/leader value_format=json address=/addr;
    }

    upstream named {
        etcd_leader /named members=/named/hosts/ name=/leader/id
                    value_format=json host=/ip port=/port;
    }

    upstream key {
        etcd_leader /key/leader format=key value_format=json url=/at/url;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(\w+)$ {
            add_header X-Token $etcd_member_revision always;
            proxy_pass http://$1;
        }
    }
}

END


sub who {
    my $answer = $nginx->get("/to/$_[0]");

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}

sub leads {
    my ($upstream, $wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { who($upstream) } $wanted, "$upstream: $name";
}

sub capture {
    my ($cluster, $id, $at) = @_;

    $etcd->put("/tidb/cdc/$cluster/__cdc_meta__/capture/$id", encode_json({
        id => $id, address => $at, version => 'v7.5.0',
    }));
}

sub owner { "/tidb/cdc/$_[0]/__cdc_meta__/owner/$_[1]" }


# TiCDC: the owner's key has the id of a capture.

capture('default', 'c1', $at{one});
capture('default', 'c2', $at{two});
$etcd->put('/tidb/cdc/default/__cdc_meta__/meta/meta-version', '1');
leads(cdc => 502, 'captures alone have no owner');

my $token = $etcd->put(owner('default', '22317b'), 'c2');

leads(cdc => 'two', 'the capture that is the owner');
leads('cdcs?id=default' => 'two', 'by a variable');
is($nginx->get('/to/cdc')->{headers}{'x-token'}, $token,
   'the token is of the owner\'s key');

$etcd->put(owner('default', '22317c'), 'c1');
leads(cdc => 'two', 'the oldest candidate');
$etcd->del(owner('default', '22317b'));
leads(cdc => 'one', 'the next owner');
leads('cdcs?id=default' => 'one', 'by a variable');
capture('default', 'c1', $at{two});
leads(cdc => 'two', 'its address has changed');
$etcd->del('/tidb/cdc/default/__cdc_meta__/capture/c1');
leads(cdc => 502, 'a capture that is gone');
$nginx->upstream('cdc')->reports({
    owner('default', '22317c') => 'value "c1" does not name a member'
}, 'it is reported');

capture('other', 'c1', $at{one});
$etcd->put(owner('other', '1'), "c1\n");
leads('cdcs?id=other' => 'one', 'another cluster');
leads('cdcs?id=default' => 502, 'beside the first one');

# DM: the leader's value is JSON.

$etcd->put('/dm-master/leader/22317d',
           encode_json({ id => 'm1', addr => $at{one} }));
leads(dm => 'one', 'the leader');
$etcd->put('/dm-master/leader/22317e',
           encode_json({ id => 'm2', addr => $at{two} }));
$etcd->del('/dm-master/leader/22317d');
leads(dm => 'two', 'the next leader');
$etcd->put('/dm-master/leader/22317e', encode_json({ address => $at{two} }));
leads(dm => 502, 'no address where the pointer is');

# JSON with the name of a member, whose key is below that of the candidates

my ($host, $port) = split(/:/, $at{one});

$etcd->put('/named/hosts/a', encode_json({ ip => $host, port => $port + 0 }));
leads(named => 502, 'a member is no candidate');
$etcd->put('/named/1', encode_json({ leader => { id => 'a' } }));
leads(named => 'one', 'name=');

for my $value ('a', '{}', '{"leader":{"id":7}}', '{"leader":"a"}', '[]', '') {
    $etcd->put('/named/1', $value);
    leads(named => 502, "no name in '$value'");
    is_deeply([keys %{ $nginx->upstream('named')->invalid }], ['/named/1'],
              'which is reported');
    $etcd->put('/named/1', encode_json({ leader => { id => 'a' } }));
    leads(named => 'one', 'a name again');
}

# a key with a URL

$etcd->put('/key/leader', encode_json({ at => { url => "http://$at{two}/" } }));
leads(key => 'two', 'a pointer to a URL');

finish();
