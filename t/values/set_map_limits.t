#!/usr/bin/perl

# etcd_set with variables in its key: limits of number, size and memory.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Http;
use Nginx;
use Wait;

use constant {
    VALUES => 10_000,
    ASKED  => $ENV{TEST_ASKED} || 100_000,
};

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd, sanitizer => 'quarantine_size_mb=0');

my $config = <<'EOC';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    zone 8m;
}

etcd small {
    endpoints %%ETCD%%;
    zone 256k;
}

http {
    etcd_set $few /few/$arg_name limit=3;
    etcd_set $long /long/$arg_name max_size=64k;
    etcd_set $many /many/$arg_name;
    etcd_set $full /full/$arg_name cluster=small max_size=8k limit=100;
    etcd_set $one /one cluster=small default=none;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /few {
            return 200 "$few\n";
        }

        location /long {
            return 200 $long;
        }

        location /many {
            return 200 "$many\n";
        }

        location /full {
            return 200 $full;
        }

        location /one {
            return 200 $one;
        }

        location /status {
            etcd_status;
        }
    }
}

EOC


sub body { return $nginx->get($_[0])->{body} }


sub numbers {
    my ($name) = @_;

    my $variable = ($nginx->status // return '')->{variables}{"\$$name"};

    return join(' ', map { "$_=" . ($variable->{$_} // '') }
                     qw(values unused invalid));
}


sub resident {
    my ($pid) = @_;

    open(my $file, '<', "/proc/$pid/status") or die "status: $!\n";
    local $/;

    return <$file> =~ /^VmRSS:\s+(\d+) kB/m && $1;
}


# more keys than the limit

$etcd->put("/few/$_", "v$_") for 1 .. 3;
$nginx->start($config);

becomes { numbers('few') } 'values=3 unused=0 invalid=0', 'all keys are used';
$etcd->put('/few/4', 'v4');
becomes { numbers('few') } 'values=3 unused=1 invalid=0', 'one is too many';
is(body('/few?name=4'), "\n", 'it has no value');
is(body('/few?name=1'), "v1\n", 'the others have theirs');
$etcd->put('/few/5', 'v5');
becomes { numbers('few') } 'values=3 unused=2 invalid=0', 'two are too many';
$nginx->logs(qr{keys below "/few/" are not used: "limit="}, 1,
             'this is reported once');
$etcd->put('/few/1', 'w1');
becomes { body('/few?name=1') } "w1\n", 'a used key changes';
$etcd->del('/few/1');
becomes { numbers('few') } 'values=3 unused=1 invalid=0',
    'one of them is used instead of a deleted one';
$etcd->del('/few/2');
becomes { numbers('few') } 'values=3 unused=0 invalid=0', 'then the other';
is(join('', map { body("/few?name=$_") } 3 .. 5), "v3\nv4\nv5\n",
   'all have values');

# sizes

$etcd->put('/long/a', 'x' x 65536);
becomes { length(body('/long?name=a')) } 65536, '64 KB';
$etcd->put('/long/a', 'y' x 65537);
becomes { numbers('long') } 'values=1 unused=0 invalid=1', 'a byte more';
is(body('/long?name=a'), 'x' x 65536, 'leaves the former value');
$nginx->logs(qr/65537 bytes, at most 65536 are allowed/, 1, 'is reported');

# a full zone

# Two values leave room in their page for others of their size.

$etcd->put("/full/$_", 'small' x 180) for 'a', 'b';
$etcd->put("/full/$_", $_ x 8000) for 1 .. 9;
$etcd->put("/full/1$_", "z" x 8000) for 0 .. 30;
becomes {
    my ($used, $unused) = numbers('full') =~ /values=(\d+) unused=(\d+)/;
    ($unused // 0) > 0 && $used + $unused
} 42, 'some keys do not fit';
$nginx->logs(qr{keys below "/full/" are not used: the "zone" is full}, 1,
             'this is reported');
$etcd->put('/one', 'x' x 4096);
$nginx->logs(qr{key "/one" is not used: the "zone" is full}, 1,
             'so is a key without variables');
is(body('/one'), 'none', 'which has its default');
is(body('/full?name=1'), '1' x 8000, 'those that do have their values');
$etcd->put('/full/1', 'b' x 8100);
becomes { length(body('/full?name=1')) } 8000, 'a change does not fit either';

# A transaction of which one value does not fit: the next one, which does, tells
# when nginx has read it.

$etcd->txn([put => '/full/1', 'c' x 8100], [put => '/full/a', 'new' x 300]);
$etcd->put('/full/b', 'other' x 180);
becomes { body('/full?name=b') } 'other' x 180, 'a smaller value fits';

my ($new, $large) = map { body("/full?name=$_") } 'a', 1;

ok($new !~ /^new/ || $large =~ /^c/, 'a transaction is used as a whole');
$etcd->put('/full/1', 'b' x 8100);
$etcd->del_prefix("/full/1$_") for 0 .. 9;
becomes { length(body('/full?name=1')) } 8100, 'until there is room', 30;
$etcd->del_prefix('/full/1');
becomes { numbers('full') } 'values=10 unused=0 invalid=0', 'there is room';
is(body('/full?name=9'), '9' x 8000, 'and it is used');
becomes { body('/one') } 'x' x 4096, 'also by the key without variables', 30;

# many values

for my $hundred (0 .. VALUES / 100 - 1) {
    $etcd->txn(map { [put => "/many/n$_", "v$_"] }
               100 * $hundred .. 100 * $hundred + 99);
}

becomes { numbers('many') } "values=${\ VALUES} unused=0 invalid=0",
    VALUES . ' values', 60;

my @wrong = grep { body("/many?name=n$_") ne "v$_\n" }
    0, 1, VALUES - 1, map { int(rand(VALUES)) } 1 .. 20;

is("@wrong", '', 'each name has its own');
ok($nginx->reload(), 'reload');
is(body('/many?name=n7'), "v7\n", 'they are there at once');
$nginx->kill_worker($nginx->status->{agent}{pid});
becomes { $nginx->status && body('/many?name=n7') } "v7\n", 'another agent';
$etcd->put('/many/n7', 'new');
becomes { body('/many?name=n7') } "new\n", 'goes on';
$etcd->del_prefix('/many/n1');
becomes { numbers('many') } 'values=8889 unused=0 invalid=0', 'many deletions',
    30;

# names that do not exist

my ($worker) = $nginx->workers;


sub ask_random {
    my ($n) = @_;

    my %seen;
    my $http = $nginx->http;

    $http->connect() or die "no connection\n";

    for my $i (1 .. $n / 100) {
        $http->write_all(join('', map {
            my $name = join('', map { chr(97 + rand(26)) } 1 .. 1 + rand(60));
            "GET /many?name=$name HTTP/1.1\r\nHost: x\r\n\r\n"
        } 1 .. 100));

        for (1 .. 100) {
            $http->{left} = $http->{timeout};
            $seen{ $http->receive_once->{body} // 'none' }++;
        }

        # keepalive_requests is 1000

        if ($i % 5 == 0) {
            $http->close();
            $http->connect() or die "no connection\n";
        }
    }

    return \%seen;
}


ask_random(2000);

my $zone = $nginx->status->{zone}{used};
my $before = resident($worker);
my $lines = $nginx->count_log(qr/etcd|error/);

is_deeply(ask_random(ASKED), { "\n" => ASKED }, ASKED . ' random names');
cmp_ok(resident($worker), '<', $before + 512, 'take no memory of the worker');
is($nginx->status->{zone}{used}, $zone, 'nor of the zone');
is($nginx->count_log(qr/etcd|error/), $lines, 'and no lines of the log');

finish();
