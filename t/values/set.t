#!/usr/bin/perl

# etcd_set: variables that are the values of keys.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Becomes;
use Etcd;
use Example;
use Finish;
use Http;
use Nginx;
use State;
use Wait;

my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();
my ($stable, $canary) = Backend->start('stable', 'canary');
my $nginx = Nginx->new(etcd => $etcd)->set(STABLE => $stable->address);

my $config = <<'EOC';

worker_processes 4;

etcd {
    endpoints %%ETCD%%;
    ping_interval 5s;
    state_path %%DIR%%/state;
}

etcd team {
    endpoints %%ETCD%%;
    namespace /team;
}

http {
    etcd_set $flag /flags/flag default=none;
    etcd_set $bare /flags/bare;
    etcd_set $again /flags/flag default=other;
    etcd_set $team /flags/flag cluster=team;
    etcd_set $place /place/http default=http;

    map $flag $mapped {
        default off;
        on      on;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        etcd_set $place /place/server default=server;

        location / {
            add_header X-Pid $pid;
            return 200 "$flag|$bare|$again|$team|$mapped";
        }

        location /place {
            return 200 $place;
        }

        location /place/own {
            etcd_set $place /place/own default=own;
            return 200 $place;

            location /place/own/below {
                etcd_set $nothing /flags/nothing;
                return 200 "$place$nothing";
            }
        }

        location /if {
            if ($flag) {
                return 503;
            }

            return 200 open;
        }

        location /proxy {
            proxy_set_header X-Flag $flag;
            add_header X-Mapped $mapped;
            add_header X-Flag $flag;
            proxy_pass http://%%STABLE%%;
        }

        location /rate {
            etcd_set $rate /flags/rate default=0;
            limit_rate $rate;
            root %%DIR%%;
        }

        location /status {
            etcd_status;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_2%%;

        location / {
            return 200 $place;
        }
    }
}

EOC


sub get { return $nginx->get($_[0])->{body} }
sub variable { ($nginx->status // return {})->{variables}{"\$$_[0]"} // {} }


# Every worker has the value once one request has had it.

sub all_say {
    my ($path, $wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { get($path) eq $wanted } 10, $name;

    my (%pids, @others);

    wait_for {
        for my $answer (Http::burst($nginx->port, $path, 16, 16)) {
            $pids{ $answer->{headers}{'x-pid'} // 0 }++;
            push @others, $answer->{body} if $answer->{body} ne $wanted;
        }
        $path ne '/' || keys %pids == 4
    } 10, 'every worker';

    return is("@others", '', $name);
}


sub says {
    my ($what, $state, $value, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        join(' ', map { $_ // 'null' } @{ variable($what) }{qw(state value)})
    } "$state $value", $name;
}


# keys that exist, and keys that do not

$etcd->put('/flags/flag/below', 'a longer key');
$etcd->put('/flags/flagged', 'another one');
$etcd->put("/flags/flag\0", 'the very next one');
$etcd->put('/team/flags/flag', 'theirs');

$nginx->start($config);

all_say('/', 'none||other|theirs|off', 'defaults, until there is a key');
says('flag', 'default', 'null', 'the status says so');

my $revision = $etcd->put('/flags/flag', 'on');

all_say('/', 'on||on|theirs|on', 'a key that is put');
says('flag', 'set', 'on', 'is set');

is_deeply(variable('flag'), { cluster => 'default', key => '/flags/flag',
                              value => 'on', default => 'none',
                              state => 'set', revision => $revision },
          'all that the status says');
is(variable('team')->{cluster}, 'team', 'another cluster');
becomes { $nginx->cluster->{state} } 'synced', 'synced';

$etcd->put('/flags/flag', '');
all_say('/', '|||theirs|off', 'an empty value is a value');
$etcd->put('/flags/flag', "\xc3\xa4\xff \"|\$bare");
all_say('/', "\xc3\xa4\xff \"|\$bare||\xc3\xa4\xff \"|\$bare|theirs|off",
        'any bytes but control ones');
$etcd->del('/flags/flag');
all_say('/', 'none||other|theirs|off', 'deleted');
$etcd->txn([put => '/flags/bare', 'b'], [put => '/flags/flag', 'on']);
all_say('/', 'on|b|on|theirs|on', 'two at once');

for my $value ("\xef\xbb\xbfon", "on\n", "on\r\n", "\xef\xbb\xbfon\r\n") {
    $etcd->put('/flags/bare', 'other');
    all_say('/', 'on|other|on|theirs|on', 'another value');
    $etcd->put('/flags/bare', $value);
    all_say('/', 'on|on|on|theirs|on',
            'a byte order mark and a last line feed are no part of it');
}

$etcd->put('/flags/bare', "\n");
all_say('/', 'on||on|theirs|on', 'nothing but a line feed');
$etcd->put('/flags/bare', 'b');
all_say('/', 'on|b|on|theirs|on', 'the former value');

is_deeply([map { $_->{upstream} . ' ' . $_->{change} }
           grep { $_->{key} eq '/flags/flag' && $_->{upstream} eq '$flag' }
           @{ $nginx->status->{events} }],
          [map { "\$flag $_" } qw(add remove update update add)],
          'the time line');

# values by place: http, server, location

is(get('/place'), 'server', 'a server has a key of its own');
is(get('/place/own'), 'own', 'so has a location');
is(get('/place/own/below'), 'own', 'which is inherited');
is(Http->new($nginx->port('PORT_2'))->get('/')->{body}, 'http',
   'elsewhere it is the one of http');
is_deeply([sort map { $_->{key} }
           map { $nginx->status->{variables}{$_} }
           '$place', '$place (2)', '$place (3)'],
          ['/place/http', '/place/own', '/place/server'],
          'the status shows all of them');

# values that are refused

for my $case (["one\ntwo", 'LF at byte 4'], ["\r\nX-Evil: 1", 'CR at byte 1'],
              ["a\0b", 'NUL at byte 2'],
              ["\ton", 'a control byte at byte 1'],
              ["on\x1f", 'a control byte at byte 3'],
              ["on\x7f", 'a control byte at byte 3'],
              ['x' x 4097, '4097 bytes'],
              ['x' x 1_000_000, '1000000 bytes'])
{
    my ($value, $reason) = @$case;
    my $at = $etcd->put('/flags/flag', $value);

    wait_for { (variable('flag')->{invalid_revision} // 0) == $at } 10, $reason;
    says('flag', 'kept', 'on', "refused: $reason");
    like(variable('flag')->{reason}, qr/\Q$reason\E/, 'with a reason');
    is(variable('flag')->{invalid_revision}, $at, 'and a revision');
    is(get('/'), 'on|b|on|theirs|on', 'the last good one stays');
    $nginx->logs(qr/revision $at is invalid: .*\Q$reason\E.*stays/, 1,
                 'it is reported once');
}

unlike(join('', %{ $nginx->get('/proxy')->{headers} }), qr/evil/i,
       'no header of anybody');

my $long = 'x' x 4096;

$etcd->put('/flags/flag', $long);
all_say('/', "$long|b|$long|theirs|off", '4096 bytes are allowed');
ok(!exists variable('flag')->{reason}, 'the reason is gone');

my $bad = $etcd->put('/flags/rate', "1\n2\n");
says('rate', 'invalid', 'null', 'without a good one before');
$nginx->logs(qr/revision $bad is invalid: .* its default is used/, 1,
             'it is the default');
$etcd->del('/flags/rate');
says('rate', 'default', 'null', 'a refused one is deleted');

# directives that use a value

$etcd->put('/flags/flag', '1');
wait_for { $nginx->get('/if')->{status} == 503 } 10, 'if';
is($nginx->get('/if')->{status}, 503, 'if: on');
$etcd->put('/flags/flag', '0');
wait_for { $nginx->get('/if')->{status} == 200 } 10, 'if';
is($nginx->get('/if')->{status}, 200, 'if: off');

mkdir($nginx->dir . '/rate') or die "mkdir: $!\n";
$nginx->write_file('rate/file', 'x' x 300_000);

is(length(get('/rate/file')), 300_000, 'limit_rate: none');
$etcd->put('/flags/rate', '1k');
says('rate', 'set', '1k', 'limit_rate');

my $http = $nginx->http;

$http->send('GET', '/rate/file', undef);
ok(length($http->take_until("\r\n\r\n")), 'limit_rate: the head');
cmp_ok(length($http->{buffer}), '<', 300_000, 'limit_rate: not all at once');
$http->close();

# A request keeps the value that it has seen.

$etcd->put('/flags/flag', 'on');
all_say('/', 'on|b|on|theirs|on', 'on');

my $held = $nginx->http;

$stable->reset();
$stable->set(hang => 1);
$held->send('GET', '/proxy', undef);
wait_for { $stable->requests == 1 } 10, 'the request is under way';
$etcd->put('/flags/flag', 'changed');
all_say('/', 'changed|b|changed|theirs|off', 'changed meanwhile');
$stable->set(hang => 0);

my $answer = $held->receive();

is($answer->{body}, 'stable', 'the request goes on');
is("$answer->{headers}{'x-flag'} $answer->{headers}{'x-mapped'}", 'on on',
   'with what it had, and what follows from that');

# reload, and another agent

my $watchers = $etcd->metric('etcd_debugging_mvcc_watcher_total');
my $agent = $nginx->status->{agent}{pid};

$nginx->kill_worker($agent);
$etcd->put('/flags/flag', 'killed');
like(get('/'), qr/^(?:changed|killed)\|/, 'without an agent it is there');
all_say('/', 'killed|b|killed|theirs|off', 'another agent goes on');
ok(wait_for(sub {
    $etcd->metric('etcd_debugging_mvcc_watcher_total') == $watchers
}, 10), 'it watches what the former one did');

ok($nginx->reload(), 'reload');
is(get('/'), 'killed|b|killed|theirs|off', 'values are there at once');
$etcd->put('/flags/flag', 'reloaded');
all_say('/', 'reloaded|b|reloaded|theirs|off', 'and go on');

$etcd->put('/flags/flag', "two\nlines");
says('flag', 'kept', 'reloaded', 'refused before a reload');
ok($nginx->reload($config =~ s/state_path.*;/$& zone 4m;/r),
   'reload with a zone of another size');
is(get('/'), 'reloaded|b|reloaded|theirs|off', 'values are there at once');
says('flag', 'kept', 'reloaded', 'and what was refused');

ok($nginx->reload($config =~ s/etcd_set \$bare.*?;/set \$bare x;/r =~
                  s/set \$bare x;(.*?)server \{/$1server { set \$bare x;/rs,
                  gone => 1),
   'reload without one of them');
$etcd->put('/flags/flag', 'less');
all_say('/', 'less|x|less|theirs|off', 'the others go on');
ok(!exists $nginx->status->{variables}{'$bare'}, 'it is gone');
ok($nginx->reload($config, gone => 1), 'reload with it');
all_say('/', 'less|b|less|theirs|off', 'it is read again');
is($nginx->count_log(qr/\[error\].*invalid.*lines/), 0, 'nothing more');

# without etcd, and a start without it

my $state = $nginx->dir . '/state/default.state';


sub state_values {
    return map { $_->{key} => $_->{value} } @{ saved_state($state)->{values} };
}


$etcd->put('/flags/bare', "\xff");
wait_for { ({ state_values() }->{'/flags/bare'} // '') eq "\xff" } 10, 'saved';
$etcd->put('/flags/flag', "refused\nhere");
says('flag', 'kept', 'less', 'refused before the end');

$nginx->quit();
$etcd->stop();
$nginx->start($config);
is(get('/'), "less|\xff|less||off", 'values of the state file');
says('flag', 'set', 'less', 'known from there');
is($nginx->status->{clusters}{default}{state}, 'connecting', 'without etcd');

my $early = Nginx->new(etcd => $etcd)->set(STABLE => $stable->address);

$early->start($config =~ s/state_path.*;//r);
is($early->get('/')->{body}, 'none||other||off',
   'before anything was ever read: defaults');
$early->stop();

$etcd->start();
says('flag', 'kept', 'less', 'what was refused is read again');
$etcd->put('/flags/flag', 'back');
all_say('/', "back|\xff|back|theirs|off", 'etcd is back');

$etcd->del_prefix('/flags/');
ok(wait_for(sub { -s $state && !state_values() }, 10),
   'the state file has no deleted values');
$etcd->put('/flags/flag', 'back');

# a user that may read that very key and no other

$etcd->put('/flags/secret', 'x');
$etcd->manage('user', 'add', 'nginx:secret');
$etcd->manage('role', 'add', 'flags');
$etcd->manage('role', 'grant-permission', 'flags', 'read', '/flags/flag');
$etcd->manage('user', 'grant-role', 'nginx', 'flags');
$etcd->auth_enable('root');

my $user = Nginx->new(etcd => $etcd);

$user->write_secret('password', "secret\n");
$user->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
    user nginx;
    password_file %%DIR%%/password;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        etcd_set $flag /flags/flag;
        etcd_set $secret /flags/secret default=no;

        location / {
            return 200 "$flag|$secret";
        }

        location /status {
            etcd_status;
        }
    }
}

EOC

wait_for {
    my $variables = ($user->status // return)->{variables};
    $variables->{'$flag'}{state} eq 'set'
        && $variables->{'$secret'}{state} eq 'denied'
} 30, 'rights';
is($user->get('/')->{body}, 'back|no', 'one is readable, the other is not');
is($user->status->{clusters}{default}{state}, 'denied', 'the cluster says so');
$user->logs(qr/\[error\].*"\/flags\/secret" cannot be read/, 1,
            'as does the log, once');

$etcd->manage('role', 'grant-permission', 'flags', 'read', '/flags/secret');
wait_for { $user->get('/')->{body} eq 'back|x' } 20, 'a right';
is($user->get('/')->{body}, 'back|x', 'a right that is granted');
$etcd->auth_disable();

# the example

my $text = Example::text('feature-flags', 'etcd');

$text =~ s/10\.0\.0\.1:8080/$stable->address/ge;
$text =~ s/10\.0\.0\.2:8080/$canary->address/ge;

my $example = Nginx->new(etcd => $etcd);

$etcd->txn([put => '/flags/canary', '0'], [put => '/flags/maintenance', '0']);
$example->start($text);
wait_for { $example->get('/')->{body} eq 'stable' } 10, 'the example';
is_deeply($example->tally('/', 20), { stable => 20 }, 'example: no canary');
$etcd->put('/flags/canary', '100');
wait_for { $example->get('/')->{body} eq 'canary' } 10, 'all canary';
is_deeply($example->tally('/', 20), { canary => 20 }, 'example: canary');
$etcd->put('/flags/canary', '50');
wait_for { keys %{ $example->tally('/', 40) } == 2 } 10, 'half canary';
is_deeply([sort keys %{ $example->tally('/', 200) }], ['canary', 'stable'],
          'example: half of both');
$etcd->put('/flags/maintenance', '1');
wait_for { $example->get('/')->{status} == 503 } 10, 'maintenance';
is($example->get('/')->{status}, 503, 'example: maintenance');
$etcd->del('/flags/maintenance');
wait_for { $example->get('/')->{status} == 200 } 10, 'no maintenance';
is($example->get('/')->{status}, 200, 'example: over');

finish();
