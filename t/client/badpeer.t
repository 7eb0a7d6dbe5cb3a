#!/usr/bin/perl

# Endpoints that are no etcd at all: one line in the log tells the fault,
# attempts become rarer, and nothing else is disturbed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Backend;
use Chaos;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Port;
use Process;
use Upstream;
use Wait;

# ATTEMPTS, and the CPU time of REQUESTS, are limits for SECONDS: a busy loop
# makes hundreds of attempts, and costs the time of some 40 000 requests.

use constant {
    SECONDS  => 4,
    ATTEMPTS => 32,
    REQUESTS => 3000,
};


# Kinds of peers, and their lines in the log.  A peer that closes at once has
# "closed" or "reset" the connection, depending on whether it has read our first
# bytes.

my %peers = (
    http1    => ['http1', qr/no HTTP\/2: got "HTTP\/1\.1 400 Bad Request"/],
    close    => ['close', qr/by peer\)? before HTTP\/2 SETTINGS/],
    silent   => ['silent', qr/timed out waiting for HTTP\/2 SETTINGS/],
    settings => ['bad-settings', qr/HTTP\/2 error: PROTOCOL_ERROR/],
);

my %greetings = (
    garbage => ["\x93\xff\x00\xfe\xed" x 40,
                qr/no HTTP\/2: got bytes 0x93ff00fe/],
    ssh     => ["SSH-2.0-OpenSSH_9.2\r\n",
                qr/no HTTP\/2: got "SSH-2\.0-OpenSSH_9\.2"/],
    tls     => ["\x15\x03\x01\x00\x02\x02\x46",
                qr/got a TLS alert, is this an https endpoint/],
    huge    => ["\xff\xff\xff\x04\x00\x00\x00\x00\x00" . 'x' x 100,
                qr/HTTP\/2 error: FRAME_SIZE_ERROR/],
);

my $etcd = Etcd->new()->start();
my ($backend) = Backend->start('one');

$etcd->put('/s/1', $backend->address);

my (%peer, %says, %connections);

for my $name (keys %peers) {
    my ($mode, $says) = @{ $peers{$name} };
    my $fake = Fake->new()->start($mode);

    $peer{$name} = $fake;
    $says{$name} = $says;
    $connections{$name} = sub { $fake->count(qr/ open /) };
}

for my $name (keys %greetings) {
    my ($greeting, $says) = @{ $greetings{$name} };
    my $chaos = Chaos->start($etcd->port);

    $chaos->set(greeting => $greeting);

    $peer{$name} = $chaos;
    $says{$name} = $says;
    $connections{$name} = sub { $chaos->counts->{accepted} };
}

# Only one peer is silent: answers of the others are waited for, however long
# they take.

my $nobody = free_port();
my $clusters = join('', map {
    my $timeout = $_ eq 'silent' ? '300ms' : '60s';

    "etcd $_ { endpoints " . $peer{$_}->endpoints
    . "; zone 256k; connect_timeout $timeout; }\n"
} keys %peer);

my $upstreams = join('', map {
    "upstream $_ { etcd_members /s/ cluster=$_; "
    . 'server ' . $backend->address . "; }\n"
} keys %peer, 'nobody');

my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(CLUSTERS => $clusters, UPSTREAMS => $upstreams,
            NOBODY => $nobody);

my $began = time();

$nginx->start(<<'EOC');

%%CLUSTERS%%

etcd nobody {
    endpoints 127.0.0.1:%%NOBODY%%;
    zone 256k;
}

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream good {
        etcd_members /s/;
    }

    %%UPSTREAMS%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://good;
        }

        location /static {
            proxy_pass http://http1;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC


sub errors_of {
    my ($name) = @_;

    return grep { /\[error\].*cluster "$name"/ } split(/\n/, $nginx->error_log);
}


my $good = Upstream->new($nginx, 'good');

$good->shows({ '/s/1' => $backend->address . ' 1 up' },
             'members of a good cluster are there beside the bad ones');

my ($cpu, $since) = (cpu_time($nginx->workers), time());

# the time that is measured

sleep(SECONDS);

my $spent = (cpu_time($nginx->workers) - $cpu) * SECONDS / (time() - $since);

$cpu = cpu_time($nginx->workers);
$nginx->tally('/static', REQUESTS, 4);

cmp_ok($spent, '<', cpu_time($nginx->workers) - $cpu,
       'bad peers cost no CPU time');

for my $name (sort keys %peer, 'nobody') {
    my $says = $says{$name} // qr/connect\(\) failed \(111: Connection refused/;

    wait_for { errors_of($name) > 0 } 10, "an error of $name";

    my @lines = errors_of($name);

    is(scalar(@lines), 1, "$name: one line, whatever failed first")
        or diag(join("\n", @lines));
    like($lines[0] // '', qr/$says/, "$name: it says what it is");
}

for my $name (sort keys %peer) {
    ok(wait_for(sub { $connections{$name}->() >= 4 }, 10, "$name: attempts"),
       "$name: it is tried again");

    my $n = $connections{$name}->();

    cmp_ok($n, '<=', ATTEMPTS * (time() - $began) / SECONDS,
           "$name: not without pause");
}

is($nginx->get('/static')->{body}, 'one', 'a static server serves meanwhile');
is($nginx->get('/')->{body}, 'one', 'and so do the members');

is($nginx->status->{clusters}{http1}{state}, 'connecting',
   'the status says that there is no connection');
ok(wait_for(sub {
    $nginx->status->{clusters}{http1}{endpoints}[0]{state} eq 'failed'
}, 10, 'a failed endpoint'), 'and that the endpoint failed');

# An etcd takes the place of the garbage.

$peer{garbage}->set(greeting => 0);

Upstream->new($nginx, 'garbage')->shows({
    '/s/1' => $backend->address . ' 1 up',
}, 'an endpoint that becomes an etcd is used');

$etcd->put('/s/2', '127.0.0.1:1001');

$good->shows({ '/s/1' => $backend->address . ' 1 up',
               '/s/2' => '127.0.0.1:1001 1 up' },
             'changes of the good cluster arrive');

finish();
