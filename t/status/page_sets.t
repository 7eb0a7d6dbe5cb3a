#!/usr/bin/perl

# The page and a prefix with variables: all services, however many pages of
# the JSON have them, the useless ones first; a box to search them, and a
# service's members.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
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
$etcd->put('/services/gone/1', '{"address":"127.0.0.2:80","down":true}');
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

wait_for { ($nginx->status->{upstreams}{services}{sets} // 0) == 122 } 20,
    'all sets';

my $browser = Browser->start();


sub text { $browser->text(@_) }
sub reads { $browser->reads(@_) }

sub types {
    $browser->execute(<<'EOF_SCRIPT', $_[0]);
document.getElementById('service').value = arguments[0];
document.getElementById('service').dispatchEvent(new Event('input'));
EOF_SCRIPT
}


$browser->open('http://127.0.0.1:' . $nginx->port . '/status');

reads('#upstreams td.main', 'services|fixed', 'both upstreams');
reads('#upstreams td:nth-child(2)', 'degraded|ok',
      'the one whose services are not all usable is not well');
is(text('#upstreams td:nth-child(5)'), "122|\x{2013}",
   'the number of services');
is(text('#upstreams td:nth-child(3)'),
   'default /services/$service/|default /fixed/', 'and the prefix');

# All pages of the JSON are read.

reads('#services .foot span', "1\x{2013}15 of 122", 'all services');
is(text('#services tbody tr:first-child td:nth-child(-n+2)'), 'gone|down',
   'the first one is of no use');
is(text('#problems td'), 'services: gone|down|all members are marked down',
   'which is what is wrong');
is($browser->execute('return document.title'), '1 down - nginx-etcd',
   'as the title says');
is(text('#one h2'), '', 'no service is chosen');

types('s01');
reads('#services td.main', join('|', map { "s01$_" } 0 .. 9),
      'those with what is in the box');

types('s119');
reads('#services td.main', 's119', 'one behind the first hundred');

types('web');
reads('#services td.main', 'web', 'one of them');
$browser->click('#services td.main button');
reads('#one h2', 'Service /services/web/', 'its own view');
reads('#members td:nth-child(2)', 'down|up', 'the states of its members');
is(text('#members td:nth-child(3)'), '/services/web/2|/services/web/1',
   'and their keys');
like($browser->execute('return location.hash'),
     qr/\bservice=web\b.*\bservices=web\b/, 'a link has both');
is($browser->execute('return document.activeElement.id'), 'one',
   'the keyboard is there');

$etcd->put('/services/web/3', '127.0.0.3:80');
reads('#members td:nth-child(2)', 'down|up|up', 'it is live');

my $json = $browser->execute(
    'return fetch(document.getElementById("download").href)'
    . '.then((answer) => answer.json())');

is(scalar(@{ $json->{upstreams}{services}{set}{members} }), 3,
   'what is loaded has its members');

$browser->press("\x{E00C}");
reads('#one h2', 'Upstream http services', 'Escape leads back to the upstream');
$browser->press("\x{E00C}");
reads('#one h2', '', 'and to all');
is($browser->execute('return document.activeElement.textContent'), 'web',
   'where the keyboard was');

types('nothing');
reads('#services .empty', 'No service is found.', 'nothing is found');

# A link leads there, even if there is no such service now.

my $url = 'http://127.0.0.1:' . $nginx->port . '/status';

$browser->open('about:blank');
$browser->open("$url#upstream=http+services&service=s119");
reads('#one h2', 'Service /services/s119/', 'another one');
reads('#members td:nth-child(3)', '/services/s119/1', 'with its member');
$browser->open('about:blank');
$browser->open("$url#upstream=http+services&service=nobody");
reads('#one p', 'There is no such service.', 'none');

# A service whose members can be used again is not wrong.

$etcd->put('/services/gone/1', $one->address);
reads('#problems .empty', 'Nothing.', 'all is well');
reads('#upstreams td:nth-child(2)', 'ok|ok', 'of both upstreams');

$browser->picture($ENV{PAGE_PICTURE}) if $ENV{PAGE_PICTURE};

finish();
