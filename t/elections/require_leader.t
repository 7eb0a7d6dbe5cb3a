#!/usr/bin/perl

# etcd_require_leader in http and stream: the requests that are let in, and the
# places where it holds.  And conf-examples/singleton.conf.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Backend;
use Election;
use Etcd;
use Finish;
use Http;
use Nginx;
use Wait;

my $etcd = Etcd->new()->start();
my $election = Election->new($etcd, '/e/main');
my ($backend) = Backend->start(1);

my $config = <<'EOF_CONFIG';

worker_processes 1;

http {
    etcd_require_leader other;

    server {
        listen 127.0.0.1:%%PORT%%;
        root %%DIR%%;

        etcd_require_leader main;

        location /inherits {
        }

        location /off {
            etcd_require_leader off;

            location /off/again {
                etcd_require_leader main status=451;
            }
        }

        location /if {
            etcd_require_leader off;

            if ($arg_gated) {
                etcd_require_leader main status=444;
            }
        }

        location /denied {
            deny all;
        }

        location /returns {
            return 200 "not gated";
        }

        location /page {
            etcd_require_leader main status=404;
            error_page 404 = /off/instead;
        }

        location /status {
            etcd_require_leader off;
            etcd_status;
        }
    }

    server {
        listen 127.0.0.1:%%OTHER%%;
        root %%DIR%%;
    }
}

etcd {
    endpoints %%ETCD%%;
    election main /e/main value=m ttl=10s;
    election other /e/other value=o ttl=10s;
}

EOF_CONFIG

my $stream = <<'EOF_STREAM';

stream {
    server {
        listen 127.0.0.1:%%GATED%%;
        etcd_require_leader main;
        return "in:$etcd_leader_main:$etcd_is_leader_main";
    }

    server {
        listen 127.0.0.1:%%OPEN%%;
        return "open:$etcd_leader_main:$etcd_is_leader_main";
    }
}

EOF_STREAM

my $nginx = Nginx->new(etcd => $etcd);

for my $name (qw(inherits off if page denied)) {
    $nginx->write_file($name, "$name\n");
}


sub status { $nginx->get($_[0])->{status} }

# all bytes of a connection to the port of that name, to its end

sub all_of {
    my ($name) = @_;

    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $nginx->port($name),
        Timeout => 10,
    ) or die "connect: $!\n";

    return Http::read_all($socket);
}

$nginx->set($_ => $nginx->port($_)) for qw(OTHER GATED OPEN);
$nginx->start($config . $stream);

ok(wait_for(sub { status('/inherits') == 200 }, 10), 'it leads: let in');
is(status('/off'), 200, 'ungated');
is(status('/if?gated=1'), 200, 'gated by if');
is(status('/denied'), 403, 'denied');
is(status('/page'), 200, 'no error page');
is(all_of('GATED'), 'in:m:1', 'stream: let in');

# Another candidate leads.

$etcd->revoke($election->leader->{lease});

my $lease = $etcd->grant(300);

$nginx->stop();
$etcd->put(sprintf('/e/main/%x', $lease), 'else', lease => $lease);
$nginx->start();

# A former lease may still last, if nginx could not resign.

ok(wait_for(sub { Election->view($nginx, 'other')->{is_leader} }, 30),
   'it leads in another election');
ok(wait_for(sub { (Election->view($nginx, 'main')->{leader} // '')
                  eq 'else' }, 30), 'somebody else leads');

is(status('/inherits'), 503, 'inherited from the server');
is(status('/off'), 200, 'off');
is(status('/off/again'), 451, 'and on again, with a status');
is(status('/if'), 200, 'if: not');
is(status('/if?gated=1'), 0, 'if: 444 closes the connection');
is(status('/denied'), 403, 'access control comes first');
is(status('/returns'), 200, 'return is not gated');
is(status('/page'), 404, 'error_page is followed');
is($nginx->http('OTHER')->get('/inherits')->{status}, 200,
   'inherited from http{}, for the other election');

is(all_of('GATED'), '', 'stream: the connection is closed');
is(all_of('OPEN'), 'open:else:', 'stream: variables');

$etcd->revoke($lease);
ok(wait_for(sub { status('/inherits') == 200 }, 10), 'it leads: let in again');
is(all_of('GATED'), 'in:m:1', 'stream: let in again');
is($nginx->get('/returns')->{body}, 'not gated', 'and nothing else changed');

# the example

open(my $file, '<', "$FindBin::Bin/../../conf-examples/singleton.conf")
    or die "singleton.conf: $!\n";

my $example = do { local $/; <$file> };

$example =~ s{^load_module.*\n}{}mg;
$example =~ s{10\.0\.0\.1:2379 10\.0\.0\.2:2379 10\.0\.0\.3:2379}
             {%%ETCD%%} or die "singleton.conf: no endpoints\n";
$example =~ s/listen 8080;/listen 127.0.0.1:%%PORT%%;/
    or die "singleton.conf: no listen\n";
$example =~ s{http://127\.0\.0\.1:9000}{'http://' . $backend->address}e
    or die "singleton.conf: no backend\n";

my @pair = map { Nginx->new(etcd => $etcd)->start($example) } 1 .. 2;

sub ran { map { $_->get('/jobs/nightly')->{status} } @pair }

my @ran;

ok(wait_for(sub { @ran = ran(); grep({ $_ == 200 } @ran) == 1 }, 20),
   'singleton.conf: one of two runs it');
is(join(' ', sort @ran), '200 503', 'the other one refuses');

my ($first) = grep { $ran[$_] == 200 } 0, 1;

splice(@pair, $first // 0, 1)->stop();
ok(wait_for(sub { "@{[ran()]}" eq '200' }, 30),
   'the first one ends: the other one runs');

finish();
