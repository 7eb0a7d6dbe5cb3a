#!/usr/bin/perl

# Several keys that make one member: parts come, change and go one at a time,
# all at once, while nobody looks, and under another agent.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

use constant PREFIX => 'traefik/http/services/web/loadbalancer/servers';

my $text = <<'EOT';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream web {
        etcd_members traefik/http/services/web/ format=traefik PARAMETERS;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://web;
        }

        location /status {
            etcd_status;
        }
    }
}

EOT


sub conf { return $text =~ s/PARAMETERS/$_[0] \/\/ ''/er }
sub at { return PREFIX . "/$_[0]" }
sub shows { my ($name, %members) = @_; $main::web->shows(\%members, $name) }


my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->start(conf());
our $web = Upstream->new($nginx, 'web');

# Parts come one at a time, as if somebody typed them.

$etcd->put(at('0/weight'), '3');
$etcd->put(at('1/url'), 'http://10.0.0.2:80');
shows('a weight alone is no member', at(1) => '10.0.0.2:80 1 up');

$etcd->put(at('0/url'), 'http://10.0.0.1:80');
shows('with a URL it is one',
      at(0) => '10.0.0.1:80 3 up', at(1) => '10.0.0.2:80 1 up');

$etcd->put(at('1/weight'), "\xef\xbb\xbf5\n");
shows('a weight that comes later, from Windows',
      at(0) => '10.0.0.1:80 3 up', at(1) => '10.0.0.2:80 5 up');

$etcd->del(at('0/weight'));
shows('and one that goes',
      at(0) => '10.0.0.1:80 1 up', at(1) => '10.0.0.2:80 5 up');

$etcd->del(at('0/url'));
shows('without a URL it is none', at(1) => '10.0.0.2:80 5 up');

# a single revision

$etcd->txn([put => at('0/url'), 'http://10.0.0.3'], [put => at('0/weight'), 0],
           [del => at('1/weight')], [put => at('2/url'), 'http://10.0.0.4'],
           [put => at('2/preservePath'), 'true']);
shows('all in one revision', at(0) => '10.0.0.3:80 1 drained',
      at(1) => '10.0.0.2:80 1 up', at(2) => '10.0.0.4:80 1 up');

my $generation = $web->generation;

$web->sees($etcd->txn([put => at('0/url'), 'http://10.0.0.3:80/'],
                      [put => at('0/weight'), 0],
                      [put => at('2/preservePath'), 'false']));
is($web->generation, $generation, 'what says the same again changes nothing');

# A member whose new value cannot be read stays until the value can be read.

my $heavy = 'weight "heavy" is not an integer from 0 on; its default is used';

$etcd->put(at('1/weight'), 'heavy');
$web->reports({ at(1) => $heavy }, 'a bad weight is reported');
$etcd->put(at('2/url'), "http://\xff/");
$web->reports({ at(1) => $heavy, at(2) => 'url [] is not a string' },
              'so is a URL that is no UTF-8');
shows('their members stay', at(0) => '10.0.0.3:80 1 drained',
      at(1) => '10.0.0.2:80 1 up', at(2) => '10.0.0.4:80 1 up');

$etcd->del(at('1/weight'));
$etcd->put(at('2/url'), 'x' x 600_000);
wait_for {
    ($web->invalid->{at(2)} // '') =~ /is longer than 524288 bytes$/
} 10, 'the long value';
is_deeply([keys %{ $web->invalid }], [at(2)], 'a value that is too long');
$etcd->put(at('2/url'), 'http://10.0.0.5');
$web->reports({}, 'all is well again');

# The next agent knows none of the parts, and etcd goes on.

sub agent { $nginx->status->{agent}{pid} }

my $pid = agent();

$nginx->freeze($_) for grep { $_ != $pid } $nginx->workers;
$nginx->kill_worker($pid);
$etcd->txn([put => at('1/weight'), 7], [del => at('0/weight')],
           [del => at('2/url')]);
$nginx->thaw($_) for $nginx->workers;
shows('an agent that was killed',
      at(0) => '10.0.0.3:80 1 up', at(1) => '10.0.0.2:80 7 up');

$etcd->put(at('1/url'), 'http://10.0.0.6');
shows('the next one knows the other parts',
      at(0) => '10.0.0.3:80 1 up', at(1) => '10.0.0.6:80 7 up');

# The agent after a reload knows all parts, too, also with another way to read.

ok($nginx->reload(conf('weight=4'), gone => 1), 'a reload');
shows('with another default',
      at(0) => '10.0.0.3:80 4 up', at(1) => '10.0.0.6:80 7 up');

ok($nginx->reload(conf('scheme=https'), gone => 1), 'another reload');
shows('none is of that scheme');
$etcd->put(at('0/url'), 'https://10.0.0.3');
shows('but one', at(0) => '10.0.0.3:443 1 up');

# Changes are compacted while the connection is away; a watch from the revision
# of the compaction on, not from before, would lose the deletion, which is for
# audits to find.

$nginx->freeze($_) for $nginx->workers;
$etcd->stop();
$etcd->start();
$etcd->txn([del_prefix => PREFIX . '/0'],
           [put => at('1/url'), 'https://[::7]']);
$etcd->put('/elsewhere', 1);
$etcd->compact();
$nginx->thaw($_) for $nginx->workers;
shows('parts that went in between', at(1) => '[::7]:443 7 up');

$etcd->del_prefix('traefik');
shows('nothing is left');

finish();
