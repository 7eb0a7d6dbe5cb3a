#!/usr/bin/perl

# The version of etcd that an endpoint runs is in the status and in the metrics,
# and nginx warns once of a version that is not safe for leaders, elections and
# locks, if there are any, and once of one that has a security advisory, if
# there are secrets in etcd.  It logs once that an endpoint does not tell its
# version.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Wait;

my $READS = 'linearizable reads may be stale';
my $LEASES = "$READS, and leases may be renewed that have been revoked";

my $election = 'election NAME /e value=here';


# [etcd's version, the shown version, the fault, the version without the fault]

my @cases = (
    ['3.3.27',        '3.3.27',    $LEASES, '3.4.42'],
    ['3.4.23',        '3.4.23',    $LEASES, '3.4.42'],
    ['3.4.37',        '3.4.37',    $LEASES, '3.4.42'],
    ['3.4.38',        '3.4.38',    $READS,  '3.4.42'],
    ['3.4.41',        '3.4.41',    $READS,  '3.4.42'],
    ['3.4.42',        '3.4.42'],
    ['3.5.0-rc.0',    '3.5.0-pre', $LEASES, '3.5.28'],
    ['3.5.22',        '3.5.22',    $LEASES, '3.5.28'],
    ['3.5.23',        '3.5.23',    $READS,  '3.5.28'],
    ['3.5.27',        '3.5.27',    $READS,  '3.5.28'],
    ['3.5.28-rc.1',   '3.5.28-pre', $READS, '3.5.28'],
    ['3.5.28',        '3.5.28'],
    ['3.6.4',         '3.6.4',     $LEASES, '3.6.9'],
    ['3.6.8',         '3.6.8',     $READS,  '3.6.9'],
    ['3.6.9',         '3.6.9'],
    ['3.7.0-alpha.0', '3.7.0-pre'],
    ['4.0.0',         '4.0.0'],
    ['3.5',           undef],
    ['3.5.x',         undef],
    ['3.65536.1',     undef],
    ['unknown',       undef],
);

my $WATCHES = 'GHSA-xg4h-6gfc-h4m8 (who may read one key can watch all later '
              . 'ones)';
my $CRL = "$WATCHES and GHSA-3wh4-j44w-pg92 "
          . '(with "--listen-client-http-urls" a CRL is not enforced)';

# [etcd's version, advisories, the version without them]

my @advisories = (
    ['3.4.42',     $CRL,     '3.5.33'],
    ['3.5.31',     $CRL,     '3.5.33'],
    ['3.5.32',     $WATCHES, '3.5.33'],
    ['3.5.33-rc.0', $WATCHES, '3.5.33'],
    ['3.5.33'],
    ['3.6.0-rc.5', $CRL,     '3.6.14'],
    ['3.6.12',     $CRL,     '3.6.14'],
    ['3.6.13',     $WATCHES, '3.6.14'],
    ['3.6.14'],
    ['3.7.0-rc.0', $CRL,     '3.7.1'],
    ['3.7.0',      $WATCHES, '3.7.1'],
    ['3.7.1'],
    ['3.8.0'],
);

my (@blocks, @upstreams, %fakes);


sub block {
    my ($name, $version, $directive, $upstream) = @_;

    $fakes{$name} = Fake->new()->start(
        !defined $version
        ? ('trailers-only:7:etcdserver: permission denied',
           '--only', 'Status')
        : ($directive // '') =~ /^user/
        ? ('trailers-only:9:etcdserver: authentication is not enabled',
           '--only', 'Authenticate', '--etcd-version', $version)
        : ('ok', '--etcd-version', $version));

    push @blocks, "etcd $name {",
        'endpoints ' . $fakes{$name}->endpoints . ';', 'zone 256k;',
        $directive ? "$directive;" : (), '}';
    push @upstreams, "upstream $name { " . ($upstream // 'etcd_members /m/')
        . " cluster=$name; }";
}


for my $i (0 .. $#cases) {
    block("c$i", $cases[$i][0], $election =~ s/NAME/e$i/r);
}

# The proof of a leader is a read.

block('leads', '3.4.23', undef, 'etcd_leader /l');
block('each_leads', '3.4.23', undef, 'etcd_leader /l/$ssl_server_name');

# Private keys are in etcd, or its rights keep others from something.

for my $i (0 .. $#advisories) {
    block("a$i", $advisories[$i][0]);
    push @upstreams, "etcd_set \$key$i /key/\$ssl_server_name type=pem "
        . "cluster=a$i;";
}

block('logs_in', '3.5.32', 'user nginx; password_file password');

# The cluster has no elections, no locks, no leaders, and no secrets.

block('members', '3.4.23');
block('registers', '3.4.23', 'register /r/1 value=here');

# etcd 3.5.30 tells the version to nobody but root.

block('untold', undef, $election =~ s/NAME/untold/r);
block('unasked', undef);

my $nginx = Nginx->new();

$nginx->write_secret('password', 'secret');

my $config = join("\n", 'worker_processes 2;',
    'events { worker_connections 1024; }', @blocks, 'http {', @upstreams,
    'server { listen 127.0.0.1:%%PORT%%;',
    'location /status { etcd_status; }', '} }', '');

$nginx->start($config);

sub endpoint { $nginx->status->{clusters}{$_[0]}{endpoints}[0] }

sub asked {
    my ($name) = @_;

    return wait_for(sub { $fakes{$name}->count(qr/ status /) }, 10,
                    "$name is asked");
}


sub warnings {
    my ($name) = @_;

    return grep { /\[warn\].*etcd cluster "$name": endpoint .* runs etcd/ }
           split(/\n/, $nginx->error_log);
}


for my $i (0 .. $#cases) {
    my ($says, $shown, $fault, $mended) = @{ $cases[$i] };
    my $name = "c$i";
    my $url = $fakes{$name}->url;

    asked($name);

    if (!defined $shown) {
        is(endpoint($name)->{version}, undef, "$says: no version");
        is(scalar(warnings($name)), 0, "$says: no warning");
        next;
    }

    ok(wait_for(sub { (endpoint($name)->{version} // '') eq $shown }, 10),
       "$says is shown as $shown");

    my @warnings = warnings($name);

    is(scalar(@warnings), $fault ? 1 : 0, "$says: how many warnings");

    if ($fault) {
        my $text = "endpoint $url runs etcd $shown, in which $fault: for "
                   . 'leaders, elections and locks upgrade it to '
                   . "$mended or later";

        like($warnings[0], qr/ \Q$text\E$/,
             "$says: says what, where, and what mends it");
    }
}

for my $i (0 .. $#advisories) {
    my ($says, $faults, $mended) = @{ $advisories[$i] };
    my $name = "a$i";

    asked($name);
    ok(wait_for(sub { endpoint($name)->{version} }, 10), "$says is shown");

    my @warnings = warnings($name);

    is(scalar(@warnings), $faults ? 1 : 0, "$says: how many advisories");

    if ($faults) {
        my $is = $faults eq $CRL ? 'are' : 'is';
        my $text = "in which $faults $is not mended: for \"user\" and "
                   . "\"type=pem\" upgrade it to $mended or later";

        like($warnings[0], qr/ \Q$text\E$/,
             "$says: says which, and what mends");
    }
}

ok(wait_for(sub { warnings('logs_in') }, 10), 'with "user": a warning');

for my $name (qw(leads each_leads)) {
    asked($name);
    ok(wait_for(sub { warnings($name) }, 10), "$name: a warning");
    is(scalar(warnings($name)), 1, "$name: one");
}

for my $name (qw(members registers)) {
    ok(wait_for(sub { (endpoint($name)->{version} // '') eq '3.4.23' }, 10),
       "$name: the version is shown");
    is(scalar(warnings($name)), 0, "$name: nothing to warn of");
}

sub notices {
    my ($name) = @_;

    return $nginx->count_log(
        qr/\[notice\].* "$name": endpoint \S+ does not tell its version,/);
}


# a call that has ended and was refused

sub refused {
    my ($name, $times) = @_;

    return wait_for(sub {
        $fakes{$name}->count(qr{ /etcdserverpb.Maintenance/Status$}) >= $times
    }, 10, "$name is asked");
}


ok(wait_for(sub { notices('untold') }, 10), 'no version is told: a notice');
is(endpoint('untold')->{version}, undef, 'no version is shown');
ok(refused('unasked', 1), 'members only: the version is asked');
is(notices('unasked'), 0, 'members only: there is nothing to say');

# another agent, another connection, another configuration

ok($nginx->reload(), 'a reload');
ok(wait_for(sub { $fakes{c1}->count(qr/ status /) > 1 }, 10), 'asks again');
is(scalar(warnings('c1')), 1, 'and does not warn again');
ok(refused('untold', 2), 'asks again where it is refused');
is(notices('untold'), 1, 'nor says again that a version is not told');

# An upgrade shows with the next connection.

$fakes{c1}->stop();
$fakes{c1}->start('ok', '--etcd-version', '3.4.42');
ok(wait_for(sub { endpoint('c1')->{version} eq '3.4.42' }, 20),
   'an upgrade is seen');
ok($nginx->quit(), 'nginx quits');

# a real etcd of any version, with a client of locks that has no agent

my $etcd = Etcd->new()->start();
my $version = $etcd->version;
my ($minor, $patch) = $version =~ /^3\.(\d+)\.(\d+)/;
my $faulty = $patch < ({ 4 => 42, 5 => 28, 6 => 9 }->{$minor} // 0) ? 1 : 0;

my ($backend) = Backend->start('one');
my $locks = Nginx->new(etcd => $etcd)->set(ONE => $backend->address);

$locks->start(<<'EOC');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            etcd_lock /locks/one;
            proxy_pass http://%%ONE%%;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

sub lines { $locks->count_log(qr/\[warn\].* runs etcd \Q$version\E, in which/) }

is(lines(), 0, 'before a lock is taken nobody has asked');
is($locks->get('/')->{body}, 'one', 'a lock');
ok(wait_for(sub { ($locks->status->{clusters}{default}{endpoints}[0]{version}
                   // '') eq $version }, 10), "etcd $version is asked");
is(lines(), $faulty, 'and warned of if it has to be');
is($locks->get('/')->{body}, 'one', 'another lock');
is(lines(), $faulty, 'no more is said');

my $metrics = $locks->get('/status?format=prometheus')->{body};

my $url = $etcd->url;
my $labels = qq(cluster="default",endpoint="$url",version="$version");

like($metrics, qr/^nginx_etcd_endpoint_info\{\Q$labels\E\} 1$/m, 'a metric');

finish();
