#!/usr/bin/perl

# Large lists over TLS, for which etcd has another HTTP/2 server than for
# plaintext: messages of many frames, and watches that need not wait for them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

use Chaos;
use Control;
use Etcd;
use Finish;
use Nginx;
use Process;
use Stall;
use Tls;
use Upstream;
use Wait;

use constant {
    KEYS  => 6000,
    BATCH => 120,
    SIZE  => 5000,
};


my $stall = Stall->watch();
my $control = Control->start();
my $ca = Tls->new('ca');
my $server = $ca->issue('server', san => 'IP:127.0.0.1');
my $etcd = Etcd->new(tls => { cert => $server->cert, key => $server->key })
    ->start();
my $filler = 'x' x SIZE;

# 30 MB: the whole list is one page, and one message.

for (my $i = 0; $i < KEYS; $i += BATCH) {
    $etcd->txn(map { [put => "/bulk/$_", member($_)] }
               $i .. $i + BATCH - 1);
}

$etcd->put('/s/1', '127.0.0.1:1001');

my $nginx = Nginx->new(etcd => $etcd)->set(CA => $ca->cert, BULK => '');

# Nothing fails because a slow nginx takes long.

my $config = <<'EOF';

etcd {
    endpoints %%ETCD%%;
    connect_timeout 60s;
    ping_timeout 60s;
    request_timeout 60s;
    ssl_trusted_certificate %%CA%%;
    zone 32m;
}

http {
    upstream small {
        etcd_members /s/ max_fails=0;
    }

    %%BULK%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            add_header X-Member $upstream_addr always;
            proxy_pass http://small;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF

my $begun = time();

$nginx->start($config);

my $small = Upstream->new($nginx, 'small');
my $bulk = Upstream->new($nginx, 'bulk');

$small->shows({ '/s/1' => '127.0.0.1:1001 1 up' }, 'a small list');

# A reload brings the large prefix, and meanwhile the watch of the small one
# goes on.

$nginx->set(BULK => 'upstream bulk { etcd_members /bulk/; }');
ok($nginx->reload($config), 'an upstream of a large prefix');

put_and_see(1002);

ok(wait_for(sub { @{ $bulk->status->{members} // [] } == KEYS }, 60,
            'the large list'), 'all of a large list arrives');

my %seen = map { $_->{key} => $_->{address} } @{ $bulk->status->{members} };
my @differ = grep { ($seen{"/bulk/$_"} // '') ne address($_) } 0 .. KEYS - 1;

is("@differ[0 .. ($#differ > 4 ? 4 : $#differ)]", '', 'as it was put');

# Events, too, come in messages of many frames.

my $revision;

for (my $i = 0; $i < KEYS; $i += BATCH) {
    $revision = $etcd->txn(map { [put => "/bulk/$_", member($_ + KEYS)] }
                           $i .. $i + BATCH - 1);
}

ok(wait_for(sub { $bulk->status->{revision} >= $revision }, 60,
            'all changes'), 'a change of all keys is followed');

%seen = map { $_->{key} => $_->{address} } @{ $bulk->status->{members} };
@differ = grep { ($seen{"/bulk/$_"} // '') ne address($_ + KEYS) }
    0 .. KEYS - 1;

is("@differ[0 .. ($#differ > 4 ? 4 : $#differ)]", '', 'as it was put');

put_and_see(1003);

is($nginx->status->{clusters}{default}{reconnects}, 0, 'over one connection');

# A list takes as long as another client needs for it; a machine that stands
# still while etcd is asked gives no answer in time.

my $failed = qr/endpoint \S+ failed/;
my $late = qr/$failed for reads: no answer in (\d+) ms/;

is($nginx->count_log($failed) - $nginx->count_log($late), 0,
   'that did not fail')
    or diag(grep { /$failed/ } map { "$_\n" } split(/\n/, $nginx->error_log));

my $longest = max(0, map { $_ / 1000 } $nginx->error_log =~ /$late/g);
my $needed = another_client();

ok($longest < $needed || $stall->since($begun) > 0.2,
   'and had all its answers in time')
    or diag("no answer in $longest s, another client needed $needed s");

$control->finished();

finish();


sub address {
    my ($n) = @_;

    return sprintf('127.%d.%d.%d:80', 1 + int($n / 65536),
                   int($n / 256) % 256, $n % 256);
}


# the seconds in which another client has the whole list from etcd

sub another_client {
    my $start = time();
    my ($status) = run('etcdctl', '--endpoints', $etcd->tls_url,
                       '--cacert', $ca->cert, '--dial-timeout', '60s',
                       '--command-timeout', '60s', '--write-out', 'protobuf',
                       'get', '--prefix', '/bulk/');

    $status == 0 or die "etcdctl fails\n";

    return time() - $start;
}


sub member {
    my ($n) = @_;

    return sprintf('{"address":"%s","note":"%s"}', address($n), $filler);
}


# A change of the small prefix arrives soon, whatever else goes on.

sub put_and_see {
    my ($port) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $start = time();

    $etcd->put('/s/1', "127.0.0.1:$port");

    # The status of all members takes longer to decode.

    ok(wait_for(sub {
        ($nginx->get('/')->{headers}{'x-member'} // '') eq "127.0.0.1:$port"
    }, 20), 'a change of the small list');

    cmp_ok($control->lasted($start, time()), '<',
           5 * ($ENV{TEST_SLOWER} || 1),
           'arrives in time');
}
