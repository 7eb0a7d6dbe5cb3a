#!/usr/bin/perl

# Space of etcd: if clients write to etcd, by locks whose KEY has variables,
# metrics tell how full the database is.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Fake;
use Finish;
use Lock;
use Metrics;
use Nginx;
use Wait;

use constant {
    QUOTA    => 4 * 1024 * 1024,
    VALUE    => 'x' x 60_000,
    REQUESTS => 2000,
};

my $etcd = Etcd->new(args => ['--quota-backend-bytes=' . QUOTA])->start();

my $blocks = <<'END';

etcd {
    endpoints %%ETCD%%;
    request_timeout 2s;
    db_check 50ms;
}

etcd constant {
    endpoints %%ETCD%%;
    db_check 50ms;
}

etcd off {
    endpoints %%ETCD%%;
    db_check 0;
}

END

my $http = <<'END';

http {
    server {
        listen 127.0.0.1:%%PORT%%;
        root %%DIR%%;

        location = /status {
            etcd_status;
        }

        location / {
            etcd_lock /locks/varied $uri;
        }

        location /key {
            etcd_lock /locks/varied $arg_k;
        }

        location /hold {
            etcd_lock /locks/hold $arg_k;
            proxy_pass http://%%BACKEND%%;
        }

        location /constant {
            etcd_lock /locks/constant constant cluster=constant;
        }

        location /off {
            etcd_lock /locks/off $uri cluster=off;
        }
    }
}

END

my $backend = Backend->start('backend');
my $nginx = Nginx->new(etcd => $etcd)->set(BACKEND => $backend->address)
    ->start($blocks . $http);
my $lock = Lock->new($nginx, $etcd);


sub metric {
    my ($name, %labels) = @_;

    return Metrics->of($nginx, '/status?format=prometheus')
        ->value("nginx_etcd_cluster_db_$name", cluster => 'default', %labels);
}


# the number of questions for the status, as etcd counts them

sub asked {
    my $text = $etcd->http->get('/metrics')->{body};
    my ($n) = $text =~ /^grpc_server_started_total\{[^}]*
                         grpc_method="Status"[^}]*\}\s(\S+)$/mx;

    return $n // 0;
}


sub asks_again {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $before = asked();

    return ok(wait_for(sub { asked() > $before + 1 }, 20, $name), $name);
}


# the statuses of requests that come at once, each for a lock of its own

sub together {
    my ($n) = @_;

    my @clients = map { $nginx->http } 1 .. $n;

    $clients[$_]->send('GET', "/key?k=$_") for 0 .. $#clients;

    return map { $_->receive->{status} } @clients;
}


# A value is overwritten again and again: etcd keeps all versions.

sub fill { return eval { $etcd->put('/fill', VALUE) } }


# bytes that the database uses, when all is written

sub used {
    my $before = asked();
    my @sizes;

    wait_for {
        push @sizes, $etcd->call('maintenance/status', {})->{dbSizeInUse};
        asked() > $before + 3
    } 20, 'etcd to write';

    return $sizes[-1];
}


# There is room enough.

ok(wait_for(sub { metric('size_bytes') }, 20, 'a size'), 'etcd is asked');
is(metric('nospace'), 0, 'there is room');
is(metric('size_bytes', cluster => $_), undef, "cluster $_ is not asked")
    for qw(constant off);
asks_again('and asked again');


# A request takes as much as the documentation says, at most.

for my $segment ('1' x 8, 'x' x 24 . '~' . '0' x 64) {
    my $key = $segment =~ /~/ ? 'y' x 80 : $segment;
    my $limit = 2 * (length("/locks/varied/$segment/") + 20) + 180;
    my $before = used();

    for my $n (1 .. REQUESTS / 50) {
        my @clients = map {
            my $http = $nginx->http;

            $http->send('GET', '/key?k=' . substr($n * 100 + $_ . $key, 0,
                                                  length($key)));
            $http;
        } 1 .. 50;

        $_->receive for @clients;
    }

    my $bytes = (used() - $before) / REQUESTS;

    cmp_ok($bytes, '<=', $limit, 'bytes a request');
    cmp_ok($bytes, '>', $limit / 2, 'and not far fewer');
}


# There is little room: the alert's limit is reached before etcd is full.

while (metric('size_bytes') < 0.8 * QUOTA) {
    my $before = asked();

    fill() or last;
    wait_for { asked() > $before + 1 } 20, 'etcd to be asked' or last;
}

cmp_ok(metric('size_bytes'), '>=', 0.8 * QUOTA, 'little room is shown');
is(metric('nospace'), 0, 'while there is some');
is($nginx->get('/x')->{status}, 404, 'locks are taken');


# There is no room: writes fail before etcd raises the alarm, by one of them.

$backend->set(hang => 1);

my @held = map { $nginx->http } 1 .. 3;

$held[$_]->send('GET', "/hold?k=$_") for 0 .. $#held;
$lock->holds('/locks/hold', scalar(@held), 'some locks are held');

ok(wait_for(sub { !fill() }, 30, 'a full database'), 'etcd takes no writes');
ok(wait_for(sub { metric('nospace') }, 20, 'the alarm'), 'nginx knows');
is($nginx->get('/x')->{status}, 503, 'no lock is taken');
is_deeply([grep { $_ != 503 } together(30)], [],
          'also by requests that come together, whose puts are nested');
$nginx->logs(qr/not put: failed precondition.*space exceeded/, 31,
             'etcd has refused them all: none was asked for again');
is(scalar($lock->keys('/locks/hold')), scalar(@held), 'those held stay');
$backend->set(hang => 0);
$_->receive for @held;
$lock->gone('/locks/hold', 'and are given up');

my $alarms = $etcd->call('maintenance/alarm', { action => 'GET' })->{alarms};

ok(scalar(@$alarms), 'etcd has the alarm');
ok($nginx->reload(undef, gone => 1), 'a reload');
ok(wait_for(sub {
       $etcd->leases;
       metric('nospace') == 1
   }, 20, 'the state'), 'the new workers know');


# Without a reason to ask, nginx asks no more; then it does again.

my $conf = $blocks . $http;

for (['no KEY with variables', $conf =~ s/\$(?:uri|arg_k);/constant;/gr],
     ['db_check 0', $conf =~ s/db_check 50ms/db_check 0/r])
{
    my ($name, $text) = @$_;

    ok($nginx->reload($text, gone => 1), "a reload with $name");
    is(metric($_), undef, "$name: there is no $_")
        for qw(size_bytes quota_bytes nospace);
}

ok($nginx->reload($conf, gone => 1), 'a reload as before');
ok(wait_for(sub { (metric('nospace') // 0) == 1 }, 20, 'the state'),
   'the state is shown again');


# There is room again.

$etcd->compact;
$etcd->manage('defrag');
$etcd->manage('alarm', 'disarm');
ok(wait_for(sub { metric('nospace') == 0 }, 20, 'room'), 'there is room again');
cmp_ok(metric('size_bytes'), '<', 0.8 * QUOTA, 'by the size');
ok(wait_for(sub { $nginx->get('/x')->{status} == 404 }, 20, 'a lock'),
   'locks are taken again');
$nginx->quit;


# A user without rights gets the size, or one line tells that it is not known.

$etcd->user_add('nginx', 'secret', '/locks/');
$etcd->grant_right('nginx', 'readwrite', '/locks/');
$etcd->auth_enable('root');

my $user = Nginx->new(etcd => $etcd)->set(BACKEND => $backend->address);

$user->write_secret('password', "secret\n");
$user->start(($blocks =~ s/(request_timeout 2s;)/$1
    user nginx; password_file password;/r) . $http);

$nginx = $user;

my $unknown = qr/could not get the size of the database/;

ok(wait_for(sub { metric('size_bytes') || $user->count_log($unknown) }, 20,
            'an answer'), 'a user without rights');
is($user->count_log(qr/\[(?:warn|error)\].*database/), 0,
   'is no reason to complain');
cmp_ok($user->count_log($unknown), '<=', 1, 'nor to repeat what is not known');
$user->quit;


# An etcd knows its quota (3.6): numbers in the encoding of protobuf.

sub number {
    my ($n) = @_;

    return $n < 128 ? chr($n) : chr($n % 128 + 128) . number(int($n / 128));
}


sub field { return number($_[0] << 3) . number($_[1]) }
sub text { return number($_[0] << 3 | 2) . number(length($_[1])) . $_[1] }


my $fake = Fake->new();
my $config = ($blocks =~ s/^etcd (?:constant|off).*?^\}\n//gmsr)
             . ($http =~ s/^.*cluster=.*\n//gmr);

$nginx = Nginx->new(etcd => $fake)->set(BACKEND => $backend->address);
$fake->start('ok', '--answer', 'Status='
             . $nginx->write_file('status', field(3, 850_000)
                                            . field(12, 1_000_000)));
$nginx->start($config);
ok(wait_for(sub { metric('size_bytes') }, 20, 'a size'), 'another etcd');
is(metric('quota_bytes'), 1_000_000, 'the quota is what etcd says');

for (
    [field(3, 760_000), 760_000, 0],
    [field(3, 1000) . text(8, 'memberID:1 alarm:CORRUPT '), 1000, 0],
    [field(3, 2000) . text(8, 'etcdserver: no leader')
     . text(8, 'memberID:1 alarm:NOSPACE '), 2000, 1],
)
{
    my ($message, $size, $nospace) = @$_;

    $fake->stop();
    $fake->start('ok', '--answer',
                 'Status=' . $nginx->write_file('status', $message));
    ok(wait_for(sub { metric('size_bytes') == $size }, 20, 'another size'),
       "a size of $size");
    is(metric('nospace'), $nospace, 'with or without the alarm');
    is(metric('quota_bytes'), undef, 'without a quota');
}


# An etcd that does not tell, as a proxy may be.

$fake->stop();
$fake->start('trailers-only:12:unimplemented', '--only', 'Status');
ok(wait_for(sub { $nginx->count_log(qr/$unknown: unimpl/) }, 20, 'a line'),
   'one that does not say is mentioned');

my $calls = $fake->count(qr{/Status});

ok(wait_for(sub { $fake->count(qr{/Status}) > $calls + 2 }, 20, 'calls'),
   'it is asked again');
$nginx->logs(qr/$unknown: unimplemented/, 1, 'but not again mentioned');
is(metric($_), undef, "there is no $_")
    for qw(size_bytes quota_bytes nospace);

finish();
