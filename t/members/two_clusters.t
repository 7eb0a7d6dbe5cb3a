#!/usr/bin/perl

# Members of two clusters in one upstream: those of the second line are used
# only while none of the first line can be.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Becomes;
use Conf qw(refused passes upstream stream);
use Etcd;
use Finish;
use Line;
use Load;
use Metrics;
use Nginx;
use Port;
use Wait;

plan(skip_all => 'this nginx has no stream') if !Nginx::has(qw(stream));

my ($east, $west) = (Etcd->new()->start(), Etcd->new()->start());
my @backends = Backend->start(qw(a b x y));
my @lines = Line->start(qw(la lx));
my %backend = map { $_->{name} => $_ } @backends, @lines;
my %at = map { $_ => $backend{$_}->address } keys %backend;

my $two = <<'EOC';
etcd_members /api/ max_fails=1 fail_timeout=1s;
        etcd_members /api/ cluster=west backup;
EOC

my $sticky = Nginx::has_sticky() ? 'sticky cookie id;' : '';

my $configuration = <<"EOC";

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

etcd west {
    endpoints %%WEST%%;
    state_path %%DIR%%/state;
}

http {
    add_header X-Reason \$etcd_reason always;
    add_header X-Key \$etcd_member_key always;
    add_header X-Staleness \$etcd_staleness always;
    proxy_connect_timeout 1s;

    upstream api {
        %%LINES%%
    }

    upstream one {
        etcd_members /one/ max_fails=1 fail_timeout=1h;
        etcd_members /one/ cluster=west backup;
    }

    upstream sole {
        etcd_members /one/ max_fails=1 fail_timeout=1h;
        etcd_members /drained/ backup;
        etcd_members /nobody/ backup;
        etcd_members /one/ cluster=west backup;
    }

    upstream drained {
        etcd_members /one/ max_fails=1 fail_timeout=1h;
        etcd_members /drained/ backup;
    }

    upstream checked {
        etcd_members /api/;
        etcd_members /api/ cluster=west backup;
        etcd_check http uri=/ interval=300ms timeout=300ms panic=0%;
    }

    upstream alarmed {
        etcd_members /api/;
        etcd_members /nobody/ backup;
        etcd_members /api/ cluster=west backup;
        etcd_check http uri=/ interval=300ms timeout=300ms fast=50ms;
    }

    upstream prefixes {
        etcd_members /first/;
        etcd_members /second/ backup outcomes=members;
        etcd_balance hash \$arg_key consistent;
    }

    upstream full {
        etcd_members /full/ max_conns=1;
        etcd_members /full/ cluster=west max_conns=1 backup;
    }

    upstream session {
        etcd_members /session/;
        etcd_members /session/ cluster=west backup;
        $sticky
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://api;
        }

        location ~ ^/to/(.*)\$ {
            proxy_pass http://\$1;
        }

        location /wait {
            etcd_wait api 20s;
            proxy_pass http://api;
        }

        location /full {
            etcd_wait full 20s full;
            proxy_pass http://full;
        }

        location /status {
            etcd_status;
        }

        location /metrics {
            etcd_status prometheus members=on;
        }
    }
}

stream {
    upstream tcp {
        etcd_members /tcp/ max_fails=1 fail_timeout=1s close_after=100ms;
        etcd_members /tcp/ cluster=west backup;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%%;
        proxy_pass tcp;
    }

    server {
        listen 127.0.0.1:%%PORT_HELD%%;
        etcd_wait tcp 20s;
        proxy_pass tcp;
    }
}

EOC

$east->put("/api/$_", $at{$_}) for qw(a b);
$west->put("/api/$_", $at{$_}) for qw(x y);
$east->put('/tcp/1', $at{la});
$west->put('/tcp/1', $at{lx});
$east->put('/first/1', $at{a});
$east->put("/second/$_", $at{$_}) for qw(x y);
$east->put("/drained/1", $at{y});
$east->put("/drained/.drain/$at{y}", 'for a test');

my $nginx = Nginx->new(etcd => $east)->set(WEST => $west->endpoints,
                                           LINES => $two)
    ->start($configuration);
my ($api, $api2) = map { $nginx->upstream($_) } 'api', 'api (2)';


# the backends that requests reach

sub used { join(' ', sort keys %{ $nginx->tally($_[0] // '/', 16, 4) }) }


sub uses {
    my ($who, $name, $path) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { used($path) } $who, $name;
}


sub tcp { join(' ', sort keys %{ Line::Client::tally($nginx->port('PORT_TCP'),
                                                     8) }) }


# A test: of refused requests the log has such a line, one a second.

sub says_why {
    my ($path, $line) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        $nginx->get($path);
        $nginx->count_log($line) ? 1 : 0;
    } 1, 'the log has both lines';
}


# Runs steps while requests go on: none fails.

sub loses_nothing {
    my ($name, $steps) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $load = Load->start($nginx->port, clients => 4, pause => 0.002);

    wait_for { $load->asked > 20 } 20, 'requests';
    $steps->();

    my $seen = $load->results();

    is(Load::describe($seen), '', "$name: no request has failed");

    return;
}


# Returns the numbers of the lines that are in use.

sub in_use {
    my ($name) = @_;

    my $status = $nginx->status or return '';
    my $list = $status->{ $name eq 'tcp' ? 'stream_upstreams' : 'upstreams' };

    return join ' ', map { $_->{in_use} ? $_->{line} : () }
        map { $list->{$_} // {} } $name, map { "$name ($_)" } 2 .. 4;
}


# The own region's members come first.

uses('a b', 'the own region');
becomes { tcp() } 'la', 'stream: the own region';
becomes { in_use('api') } 1, 'the status says so';
becomes { in_use('tcp') } 1, 'of stream, too';
is_deeply([map { [@{ $_->status }{qw(cluster prefix line)}] } $api, $api2],
          [['default', '/api/', 1], ['west', '/api/', 2]],
          'the status has both lines');
$api2->shows({ '/api/x' => "$at{x} 1 up", '/api/y' => "$at{y} 1 up" },
             'and their members');

# All keys of the own region are deleted.

loses_nothing('keys deleted', sub {
    $east->del_prefix('/api/');
    uses('x y', 'the other region');
});
becomes { in_use('api') } 2, 'the status says so';
is($api->status->{state}, 'down', 'the first line is down');
is($api2->status->{state}, 'ok', 'the second is not');

my $answer = $nginx->get('/');

like($answer->{headers}{'x-key'}, qr{^/api/[xy]$}, '$etcd_member_key');
ok(defined $answer->{headers}{'x-staleness'}, '$etcd_staleness');
is($answer->{headers}{'x-reason'}, undef, 'no $etcd_reason');

loses_nothing('keys come back', sub {
    $east->put("/api/$_", $at{$_}) for qw(a b);
    uses('a b', 'the own region again');
});
$east->del('/tcp/1');
becomes { tcp() } 'lx', 'stream: the other region';

my $session = $nginx->line('TCP');

is($session->ask('1'), 'lx: 1', 'a session of the other region');
$east->put('/tcp/1', $at{la});
becomes { tcp() } 'la', 'stream: the own region again';
is($session->ask('2'), 'lx: 2', 'the session goes on');

# close_after is of a line: it closes sessions of this line alone.

my $own = $nginx->line('TCP');

is($own->ask('1'), 'la: 1', 'a session of the own region');
$east->del('/tcp/1');
$west->del('/tcp/1');
ok($own->is_closed(10), 'close_after of the first line');
is($session->ask('3'), 'lx: 3', 'none of the second');
becomes { tcp() } '', 'stream: no line has a member';

my $held = $nginx->line('HELD');

$held->tell('x');
$nginx->stream('tcp')->holds(1, 'stream: etcd_wait holds a session');
$west->put('/tcp/1', $at{lx});
is($held->hear(10), 'lx: x', 'until the second line has a member');
$east->put('/tcp/1', $at{la});

# All members of the own region refuse connections.

$backend{la}->down;
is(tcp(), 'lx', 'stream: refused connections');
$backend{la}->up;
becomes { tcp() } 'la', 'stream: the own region again';

uses('a b', 'the own region');
loses_nothing('refused connections', sub {
    $backend{$_}->down for qw(a b);
    uses('x y', 'the other region');
    $backend{$_}->up for qw(a b);
    uses('a b', 'the own region again');
});

# One member alone counts failures, since there are others.

$east->put('/one/1', $at{a});
$west->put('/one/1', $at{x});
uses('a', 'one member', '/to/one');
$backend{a}->down;
is(used('/to/one'), 'x', 'it fails');
is($nginx->upstream('one')->member($at{a})->{state}, 'failing', 'and is known');
is(used('/to/sole'), 'x', 'it fails, and the next lines have nobody to ask');
$backend{a}->up;
is(used('/to/one'), 'x', 'for fail_timeout');
is(used('/to/sole'), 'x', 'also where a later line has members');
is(used('/to/drained'), 'a', 'but not where all others are drained');

# Checks.

uses('a b', 'checked', '/to/checked');
$backend{$_}->set(status => 500) for qw(a b);
uses('x y', 'all of the own region fail their checks', '/to/checked');
becomes { in_use('checked') } 2, 'the status says so';
$backend{$_}->set(status => 200) for qw(a b);
uses('a b', 'they succeed', '/to/checked');

# A panic: members of a later line that pass their checks come first.

my $panics = $nginx->upstream('alarmed');

uses('a b', 'alarmed', '/to/alarmed');
$backend{$_}->set(status => 500) for qw(a b);
uses('x y', 'a panic of the own region', '/to/alarmed');
becomes { $panics->status->{panic} } 1, 'the status says so';
becomes { in_use('alarmed') } 3, 'and which line is in use';
$backend{$_}->set(status => 500) for qw(x y);
becomes { in_use('alarmed') } 1, 'a panic of both regions';
like($nginx->get('/to/alarmed')->{headers}{'x-key'}, qr{^/api/[ab]$},
     'failed checks are ignored in the first one');
$backend{$_}->set(status => 200) for qw(x y);
uses('x y', 'the other region succeeds', '/to/alarmed');
$backend{a}->set(status => 200);
uses('a', 'a member of the own region succeeds', '/to/alarmed');
$backend{b}->set(status => 200);
uses('a b', 'all succeed', '/to/alarmed');

# Both prefixes are of one cluster; the hash is stable in each line.

uses('a', 'two prefixes', '/to/prefixes');
$east->del('/first/1');
becomes { used('/to/prefixes?key=1') =~ /^[xy]$/ ? 1 : 0 } 1,
    'one member of the second prefix for a key';
$east->put('/first/1', $at{a});
uses('a', 'back', '/to/prefixes');

# Neither has a member.

$_->del_prefix('/one/') for $east, $west;
becomes { $nginx->get('/to/one')->{headers}{'x-reason'} } 'no_members',
    '$etcd_reason';
is($nginx->get('/to/one')->{status}, 502, 'no line has a member');
says_why('/to/one', qr{no\ usable\ member\ of\ "one":
                       \ there\ is\ none\ below\ /one/;
                       \ line\ 2:\ there\ is\ none\ below\ /one/;
                       \ \d+\ refused}x);
ok(!in_use('one'), 'the status: no line is in use');
is($nginx->upstream('one')->status->{refused}{no_members} > 0, 1,
   'the first line counts refusals');

# etcd_wait waits for any line.

for my $etcd ($east, $west) {
    $_->del_prefix('/api/') for $east, $west;
    uses('502', 'no member');

    my $client = $nginx->begin('/wait');

    $api->holds(1, 'etcd_wait holds a request');
    $etcd->put('/api/x', $at{x});
    is($client->receive()->{body}, 'x', 'until a line has a member');
}

# Connections to full members, of any line.

$east->put('/full/a', $at{a});
$west->put('/full/x', $at{x});
becomes { $nginx->get('/to/full')->{body} } 'a', 'a member of each line';
becomes { scalar @{ $nginx->upstream('full (2)')->status->{members} } } 1,
    'known';
$backend{$_}->set(hang => 1) for qw(a x);

my @clients = ($nginx->begin('/full'));

becomes { $nginx->upstream('full')->member($at{a})->{conns} } 1, 'one is full';
push @clients, $nginx->begin('/full');
becomes { $nginx->upstream('full (2)')->member($at{x})->{conns} } 1, 'and two';
push @clients, $nginx->begin('/full');
$nginx->upstream('full')->holds(1, 'each line has one, a third one waits');
$backend{x}->set(hang => 0);
is($clients[1]->receive()->{body}, 'x', 'the second line answers');
is($clients[2]->receive()->{body}, 'x', 'the third request is next there');
$backend{a}->set(hang => 0);
is($clients[0]->receive()->{body}, 'a', 'the first line answers');

# Metrics: no series is there twice.

my $metrics = Metrics->of($nginx, '/metrics');
my @second = (module => 'http', upstream => 'prefixes (2)');
my @first = (module => 'http', upstream => 'prefixes');

is($metrics->value('nginx_etcd_upstream_in_use', @second), 0, 'in_use');
is($metrics->value('nginx_etcd_upstream_in_use', @first), 1,
   'of the first line');
ok($metrics->value('nginx_etcd_upstream_responses_total', @second,
                   class => '2xx') > 0, 'answers of the second line');
ok($metrics->value('nginx_etcd_upstream_responses_total', @first,
                   class => '2xx') > 0, 'and of the first');

# Reloads that add, remove and move lines.

$_->del_prefix('/api/') for $east, $west;
$east->put("/api/$_", $at{$_}) for qw(a b);
$west->put("/api/$_", $at{$_}) for qw(x y);
uses('a b', 'both lines');

loses_nothing('reloads', sub {
    $nginx->set(LINES => 'etcd_members /api/;')->reload($configuration);
    uses('a b', 'without the second line');
    is($api2->status->{line}, undef, 'the status has none');
    is($api->status->{line}, undef, 'nor a number of the only one');
    $nginx->set(LINES => $two)->reload($configuration);
    uses('a b', 'with it');
    is($api2->status->{line}, 2, 'the status has it');
    $nginx->set(LINES => <<'EOC')->reload($configuration);
etcd_members /api/ cluster=west;
        etcd_members /api/ backup;
EOC
    uses('x y', 'the lines have changed places');
    is($api->status->{cluster}, 'west', 'in the status, too');
    $nginx->set(LINES => $two)->reload($configuration);
    uses('a b', 'and again');
});

# Sessions.

SKIP: {
    skip('this nginx has no sticky', 3) if !$sticky;

    $east->put("/session/$_", $at{$_}) for qw(a b);
    $west->put("/session/$_", $at{$_}) for qw(x y);
    uses('a b', 'sessions', '/to/session');
    $east->del_prefix('/session/');
    uses('x y', 'of the other region', '/to/session');

    my ($id) = $nginx->get('/to/session')->{headers}{'set-cookie'}
        =~ /^(id=\w+)/;
    my %who = map { $nginx->get('/to/session', Cookie => $id)->{body} => 1 }
        1 .. 8;

    is(keys %who, 1, 'a session stays with its member of the second line');
}

# Losing etcd of the own region changes nothing; with a state file not even a
# start does.

$nginx->expect(qr/\[error\]/);
$east->kill;
$west->kill;
uses('a b', 'without etcd');
$_->close for $session, $own, $held;
$nginx->quit;
$nginx->start();
uses('a b', 'the state file has the first line');
uses('a', 'of two prefixes in one cluster, too', '/to/prefixes');
$backend{$_}->down for qw(a b);
uses('x y', 'and the second');
$backend{$_}->up for qw(a b);
$nginx->quit;

# One cluster cannot be reached at start.

$west->restart();
wait_for { $west->is_healthy } 20, 'etcd';

$nginx = Nginx->new()->set(ETCD => 'http://127.0.0.1:' . free_port(),
                           WEST => $west->endpoints, LINES => $two)
    ->start($configuration);
uses('x y', 'the own cluster cannot be reached at start');
becomes { in_use('api') } 2, 'the status says so';
is($nginx->upstream('api')->status->{reason}, 'unreachable', 'and why');
$west->del_prefix('/api/');
becomes { $nginx->get('/')->{headers}{'x-reason'} } 'unreachable',
    '$etcd_reason is that of the first line';
says_why('/', qr{no\ usable\ member\ of\ "api":
                 \ it\ has\ not\ been\ read,\ etcd\ does\ not\ answer;
                 \ line\ 2:\ there\ is\ none\ below\ /api/;}x);

# nginx refuses these configurations.

for (
    ['http', \&upstream],
    ['stream', \&stream],
) {
    my ($module, $block) = @$_;
    my $directive = '"etcd_members" directive';

    refused("$module: no backup",
            $block->('etcd_members /a/;', 'etcd_members /b/;'),
            "$directive needs \"backup\", since another one precedes it in its "
            . 'upstream: members of two of them are not balanced as one pool '
            . 'in AT', 7);
    refused("$module: a backup of nothing",
            $block->('etcd_members /a/ backup;'),
            "$directive with \"backup\" must follow another one in its "
            . 'upstream in AT', 6);
    refused("$module: the same twice",
            $block->('etcd_members /a/;', 'etcd_members /b/ backup;',
                     'etcd_members /a/ backup;'),
            "$directive is duplicate in AT", 8);
    refused("$module: variables",
            $block->('etcd_members /a/;', 'etcd_members /b/$hostname/ backup;'),
            "$directive cannot stand beside another one if a prefix has "
            . 'variables in AT', 7);
    refused("$module: a leader as a backup",
            $block->('etcd_members /a/;', 'etcd_leader /b/;'),
            '"etcd_leader" directive cannot be used together with '
            . '"etcd_members" in AT', 7);
    passes("$module: three lines",
           $block->('etcd_members /a/;', 'etcd_members /b/ backup;',
                    'etcd_members /c/ backup;'));
}

finish();
