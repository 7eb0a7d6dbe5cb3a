#!/usr/bin/perl

# The page and a prefix with variables: a box to search services, and a
# service's members.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Becomes;
use Browser;
use Etcd;
use Finish;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my $one = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd);

$etcd->put(sprintf('/services/s%03d/1', $_), $one->address) for 1 .. 120;
$etcd->put('/services/web/1', $one->address);
$etcd->put('/services/web/2', '{"address":"127.0.0.2:80","down":true}');
$etcd->put('/fixed/1', $one->address);

$nginx->start(<<'EOF_CONFIG');

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream services {
        etcd_members /services/$service/;
    }

    upstream fixed {
        etcd_members /fixed/;
    }

    map $uri $service {
        "~^/s/(?<name>.*)$" $name;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status { etcd_status; }
        location /s/ { proxy_pass http://services; }
    }
}

EOF_CONFIG

wait_for { ($nginx->status->{upstreams}{services}{sets} // 0) == 121 } 20,
    'all sets';

my $browser = Browser->start();


sub text {
    my ($selector) = @_;

    return join('|', @{ $browser->execute(<<'EOF_SCRIPT', $selector) });
return [...document.querySelectorAll(arguments[0])]
    .filter((element) => element.getClientRects().length)
    .map((element) => element.textContent);
EOF_SCRIPT
}

sub reads {
    my ($selector, $wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { text($selector) } $wanted, $name, 20;
}

sub types {
    $browser->execute(<<'EOF_SCRIPT', $_[0]);
document.getElementById('service').value = arguments[0];
document.getElementById('service').dispatchEvent(new Event('input'));
EOF_SCRIPT
}


$browser->open('http://127.0.0.1:' . $nginx->port . '/status');

reads('#upstreams td.main', 'fixed|services', 'both upstreams');
is(text('#upstreams td:nth-child(4)'), "\x{2013}|121",
   'the number of services');
is(text('#upstreams td:nth-child(3)'),
   'default /fixed/|default /services/$service/', 'and the prefix');
reads('#services .foot span', "1\x{2013}50 of 100", 'the first services');
is(text('#service-members h2'), '', 'no service is chosen');

types('s01');
reads('#services td.main', join('|', map { "s01$_" } 0 .. 9),
      'those with what is in the box');

types('web');
reads('#services td.main', 'web', 'one of them');
reads('#service-members h2', 'Service /services/web/', 'its own view');
is(text('#service-members td:nth-child(2)'), 'up|down',
   'the states of its members');
is(text('#service-members td.wide'), '/services/web/1|/services/web/2',
   'and their keys');

$etcd->put('/services/web/3', '127.0.0.3:80');
reads('#service-members td:nth-child(2)', 'up|down|up', 'it is live');

types('nothing');
reads('#services .empty', 'No service is found.', 'nothing is found');
is(text('#service-members h2'), '', 'and no view of it');

types('s007');
reads('#service-members td.wide', '/services/s007/1', 'another one');
$browser->click('#services td.main button');
reads('#service-members h2', 'Service /services/s007/', 'by a click');
types('web');
reads('#service-members h2', 'Service /services/web/', 'and back');

$browser->picture($ENV{PAGE_PICTURE}) if $ENV{PAGE_PICTURE};

finish();
