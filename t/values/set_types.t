#!/usr/bin/perl

# etcd_set with type=int, type=size and type=flag, in http and stream.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Http;
use IO::Socket::INET;
use Metrics;
use Nginx;
use State;
use Wait;

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    ping_interval 5s;
    state_path %%DIR%%/state;
}

http {
    etcd_set $text /t/flag;
    etcd_set $int /t/int type=int default=-7;
    etcd_set $size /t/size default=1m type=size;
    etcd_set $flag /t/flag type=flag default=off;
    etcd_set $bare /t/bare type=flag;

    etcd_set $rate /rates/$arg_tenant type=size default=1k max_size=8;
    etcd_set $open /rates/$arg_tenant type=flag default=true;

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "$int|$size|$flag|$bare|$text";
        }

        location /tenant {
            return 200 "$rate|$open";
        }

        location /if {
            if ($flag) {
                return 503;
            }

            return 200 open;
        }

        location /rate/ {
            limit_rate $size;
            root %%DIR%%;
        }

        location /status {
            etcd_status;
        }

        location /metrics {
            etcd_status prometheus;
        }
    }
}

stream {
    etcd_set $flag /t/flag type=flag default=off;
    etcd_set $size /t/size type=size default=2m;

    server {
        listen 127.0.0.1:%%PORT_S%%;
        proxy_download_rate $size;
        return "$flag|$size\n";
    }
}

EOC


sub get { return $nginx->get($_[0])->{body} }
sub variable { ($nginx->status // return {})->{variables}{"\$$_[0]"} // {} }


# the states that the metrics say a variable is in

sub states {
    my ($name) = @_;

    my $metrics = Metrics->of($nginx, '/metrics');

    return join(' ', grep {
        $metrics->value('nginx_etcd_variable_state', variable => "\$$name",
                        cluster => 'default', state => $_)
    } qw(unknown default set kept invalid denied));
}


my $port = $nginx->port('PORT_S');


sub stream {
    return Http::read_all(IO::Socket::INET->new("127.0.0.1:$port")) =~ s/\n//r;
}


my %place = (int => 0, size => 1, flag => 2, bare => 3, text => 4);


sub value { return (split(/\|/, get('/'), -1))[$place{ $_[0] }] }


sub says {
    my ($name, $wanted, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { value($name) } $wanted, $what;
}


sub refused {
    my ($name, $value, $reason, $stays, $shown) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $what = "$name: \"" . substr($value, 0, 30) =~ s/[^ -~]/?/gr . '"';
    my $at = $etcd->put("/t/$name", $value);

    wait_for { (variable($name)->{invalid_revision} // 0) == $at } 10, $what;
    is_deeply([@{ variable($name) }{qw(state invalid_revision value)}],
              [defined $shown ? 'kept' : 'invalid', $at, $shown],
              "$what: refused");
    is(states($name), variable($name)->{state}, "$what: in the metrics, too");
    like(variable($name)->{reason}, qr/\Q$reason\E/, "$what: says why");
    is(value($name), $stays, "$what: the last valid value stays");
    $nginx->logs(qr/"\$$name": key "\/t\/$name" at revision $at is invalid: /
                 . qr/.*\Q$reason\E.*, its (?:last valid|default)/, 1,
                 "$what: it is logged once");
}


$nginx->start($config);
says('int', '-7', 'the default of an integer');
is(get('/'), '-7|1m|0||', 'and of the others: of a flag it is 0 or 1');
is(stream(), '0|2m', 'in stream, too');
becomes { states('int') } 'default', 'the metrics: there is no key';
is(variable('flag')->{default}, 'off', 'the status has it as configured');

my %reason = (int => 'value is no integer from -9223372036854775807 to ',
              size => 'value is no size: a number, or one with k or m',
              flag => 'value is none of 0, 1, off, on, false, and true');

# without a valid value

refused('int', 'x', $reason{int}, '-7', undef);
refused('flag', 'yes', $reason{flag}, '0', undef);
is(value('text'), 'yes', 'the same key has any value without a type');

for my $case (['int', '5', '0', '-0', '-12', '007', '9223372036854775807',
               '-9223372036854775807'],
              ['size', '0', '1', '100k', '1m', '1K', '2M',
               '9223372036854775807'])
{
    my ($name, @values) = @$case;

    for my $value (@values) {
        $etcd->put("/t/$name", $value);
        says($name, $value, "$name: $value");
        is(variable($name)->{state}, 'set', "$name: $value is valid");
        is(states($name), 'set', "$name: $value is valid in the metrics, too");
        ok(!exists variable($name)->{reason}, "$name: no reason");
    }
}

for my $value ('', ' 5', '5 ', '+5', '-', '--5', '5.0', '0x5', '5k', '1e3',
               "\xd9\xa5", '9223372036854775808', '-9223372036854775808',
               '9' x 4000)
{
    refused('int', $value, $reason{int}, '-9223372036854775807',
            '-9223372036854775807');
}

$etcd->put('/t/size', '100k');
says('size', '100k', 'size: good again');

for my $value ('', 'k', '-1', '-1k', '1g', '1kb', '1.5m', ' 1k', '100k ',
               '9223372036854775808', '9223372036854775807k', 'off')
{
    refused('size', $value, $reason{size}, '100k', '100k');
}

for my $case (['1', 1], ['0', 0], ['on', 1], ['off', 0], ['true', 1],
              ['false', 0], ["\xef\xbb\xbfon\r\n", 1], ["off\n", 0])
{
    my ($value, $wanted) = @$case;

    $etcd->put('/t/flag', $value);
    says('flag', $wanted, "flag: $value");
    becomes { $nginx->get('/if')->{status} } $wanted ? 503 : 200, 'if ($flag)';
    becomes { (split(/\|/, stream()))[0] } $wanted, 'flag: stream';
}

$etcd->put('/t/flag', 'on');
says('flag', 1, 'flag: on');

for my $value ('', '2', '-1', '01', 'ON', 'yes', 'o', 'onn', 'on ', "on\n\n",
               'tru', '9' x 30)
{
    refused('flag', $value, $value =~ /\n/ ? 'LF at byte 3' : $reason{flag},
            '1', 'on');
}

is(stream(), '1|100k', 'stream: the last valid values stay');
$etcd->put('/t/flag', '0');
says('flag', 0, 'flag: good again');
is(variable('flag')->{state}, 'set', 'and its state');
$etcd->del('/t/flag');
says('flag', 0, 'deleted: the default');
refused('bare', 'x', $reason{flag}, '', undef);

# a rate

mkdir($nginx->dir . '/rate') or die "mkdir: $!\n";
$nginx->write_file('rate/file', 'x' x 300_000);
$etcd->put('/t/size', '1k');
says('size', '1k', 'limit_rate');

my $http = $nginx->http;

$http->send('GET', '/rate/file', undef);
ok(length($http->take_until("\r\n\r\n")), 'limit_rate: the head');
cmp_ok(length($http->{buffer}), '<', 300_000, 'limit_rate: not all at once');
$http->close();

# keys with variables: two types of the same keys

$etcd->put('/rates/a', '10k');
becomes { get('/tenant?tenant=a') } '10k|1', 'a key with variables';
is(get('/tenant?tenant=b'), '1k|1', 'another one has the defaults');
$etcd->put('/rates/a', 'off');
becomes { get('/tenant?tenant=a') } '10k|0', 'a value of the other type';
$etcd->put('/rates/a', '0');
becomes { get('/tenant?tenant=a') } '0|0', 'a value of both';

my $bad = $etcd->put('/rates/a', 'much');

$nginx->logs(qr/"\$rate": key "\/rates\/a" at revision $bad is invalid: /
             . qr/\Q$reason{size}\E, its last valid value stays/, 1,
             'a value of none: reported');
$nginx->logs(qr/"\$open": key "\/rates\/a" at revision $bad is invalid: /
             . qr/\Q$reason{flag}\E, its last valid value stays/, 1,
             'for each type');
is(get('/tenant?tenant=a'), '0|0', 'the last valid one stays');
is_deeply([map { variable($_)->{invalid} } 'rate', 'open'], [1, 1],
          'the status counts it');
$etcd->put('/rates/a', '123456789');
$nginx->logs(qr/"\$rate": .*is invalid: value of 9 bytes/, 1,
             'max_size= holds with a type');
$etcd->put('/rates/a', '1');
becomes { get('/tenant?tenant=a') } '1|1', 'good again';
becomes { join(' ', map { variable($_)->{invalid} } 'rate', 'open') } '0 0',
        'and counted no more';

# a reload

$etcd->put('/t/flag', 'true');
says('flag', 1, 'before the reload');
refused('flag', 'x', $reason{flag}, 1, 'true');
refused('int', 'x', $reason{int}, '-9223372036854775807',
        '-9223372036854775807');

my $before = get('/');

ok($nginx->reload(), 'reload');
is(get('/'), $before, 'values are there at once');
ok($nginx->reload($config =~ s/state_path.*;/$& zone 4m;/r),
   'reload with a zone of another size');
is(get('/'), $before, 'values are there at once');
is_deeply([@{ variable('flag') }{qw(state value reason)}],
          ['kept', 'true', $reason{flag}], 'and what was refused');

# another type of the same key

ok($nginx->reload($config =~ s/(\/t\/int) type=int/$1 type=flag/r =~
                  s/default=-7/default=1/r, gone => 1), 'another type');
$etcd->put('/t/int', 'on');
says('int', 1, 'applies');
$bad = $etcd->put('/t/int', '5');
$nginx->logs(qr/"\$int": .* $bad is invalid: \Q$reason{flag}\E/, 1,
             'and refuses');
ok($nginx->reload($config, gone => 1), 'the former type');
says('int', 5, 'reads the key again');

# a start with the state file: the last valid value of each type

$etcd->put('/t/int', '6');
says('int', 6, 'the last integer');
refused('int', 'x', $reason{int}, 6, 6);

my $state = $nginx->dir . '/state/default.state';


sub saved {
    my @values = @{ saved_state($state)->{values} };

    return join(' ', sort map { $_->{value} }
                     grep { $_->{key} eq '/t/flag' } @values);
}


$etcd->put('/rates/a', 'much');
wait_for { -s $state && saved() eq 'true x' } 10, 'saved';
is(saved(), 'true x', 'each type saves its own value');
$nginx->quit();
$etcd->stop();
$nginx->start($config);
is(get('/'), '6|1k|1||x', 'values of the state file');
is(get('/tenant?tenant=a'), '1|1', 'of keys with variables, too');
is(stream(), '1|1k', 'stream');
$etcd->start();
becomes { variable('int')->{state} } 'kept', 'refused again';
is(variable('int')->{reason} =~ s/to .*/to /r, $reason{int}, 'with a reason');
is(get('/'), '6|1k|1||x', 'the last valid values stay');
$etcd->put('/t/int', '8');
says('int', '8', 'etcd is back');

finish();
