#!/usr/bin/perl

# The operator's drain: while etcd has the key PREFIX/.drain/ADDRESS, all
# members of that address below the prefix drain, whoever registers them, and
# when.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time sleep);

use Backend;
use Becomes;
use Etcd;
use Finish;
use Line;
use Load;
use Nginx;
use State;
use Upstream;
use Wait;

plan(skip_all => 'this nginx has no stream') if !Nginx::has(qw(stream));

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c));
my %at = map { $_->{name} => $_->address } @backends;
my ($x, $y) = Line->start(qw(x y));

my $configuration = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
}

http {
    upstream api {
        etcd_members /api/;
        server %%STATIC%% backup;
    }

    upstream guarded {
        etcd_members /guarded/;
        etcd_guard keep=100%;
    }

    # without a slash at its end

    upstream json {
        etcd_members /json format=json;
    }

    upstream groups {
        etcd_members /groups/ format=traefik;
    }

    upstream sets {
        etcd_members /sets/$arg_set/;
    }

    upstream group_sets {
        etcd_members /gsets/$arg_set/ format=traefik;
    }

    upstream leader {
        etcd_leader /leader/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
            proxy_next_upstream off;
        }
    }

    server {
        listen [::1]:%%PORT_6%%;
        return 200 six;
    }
}

stream {
    upstream tcp {
        etcd_members /tcp/;
    }

    server {
        listen 127.0.0.1:%%PORT_TCP%%;
        proxy_pass tcp;
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)->set(STATIC => $at{c})
    ->start($configuration);
my $file = $nginx->dir . '/state/default.state';

my %upstream = map { $_ => Upstream->new($nginx, $_) }
    qw(api guarded json groups leader);
$upstream{tcp} = Upstream->new($nginx, 'tcp', 'stream');

my %known = (%at, x => $x->address, y => $y->address);


sub shows {
    my ($name, $wanted, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { $upstream{$name}->states(%known) } $wanted,
        "$name: $what";
}


# the backends that 12 requests of a path reach

sub used {
    my ($path) = @_;

    return join ' ', sort keys %{ $nginx->tally("/to/$path", 12) };
}


sub use_only {
    my ($path, $who, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { used($path) } $who, "$path: $what";
}


sub agent { return ($nginx->status // {})->{agent}{pid} }


# Ends the agent; another worker takes over.

sub take_over {
    my $pid = wait_for { agent() } 20, 'an agent';

    $nginx->kill_worker($pid);

    return wait_for { (agent() // $pid) != $pid } 20, 'the next agent';
}


# A member is drained and put back while requests run.

$etcd->put("/api/$_", $at{$_}) for qw(a b);
shows('api', 'a:up b:up c:backup', 'members');

my $load = Load->start($nginx->port, path => '/to/api', clients => 4);

wait_for { $load->asked > 100 } 20, 'requests';
$etcd->put("/api/.drain/$at{a}", 'for a new kernel');
shows('api', 'a:drained b:up c:backup', 'drained by a key with any value');

my $drained = time();

is(used('api'), 'b', 'no request goes to the drained member');
wait_for { time() > $drained + 0.5 } 5, 'more requests';

my $seen = $load->results();

cmp_ok($seen->{last}{a}, '<', $drained + 0.1, 'not under load either');
is_deeply($seen->{failed}, [], 'no request has failed');

$load = Load->start($nginx->port, path => '/to/api', clients => 4);
$etcd->del("/api/.drain/$at{a}");
shows('api', 'a:up b:up c:backup', 'put back');
use_only('api', 'a b', 'both');
is_deeply($load->results()->{failed}, [], 'no request has failed');

# The service registers again: the same key, another key, a lease, another
# value.

$etcd->put("/api/.drain/$at{a}", '', lease => $etcd->grant(600));
shows('api', 'a:drained b:up c:backup', 'drained by a key with a lease');
$upstream{api}->sees($etcd->put('/api/a', $at{a}));
shows('api', 'a:drained b:up c:backup', 'the same key');
$etcd->del('/api/a');
shows('api', 'b:up c:backup', 'deregistered');
$upstream{api}->sees($etcd->put('/api/-a2',
                                qq({"address":"$at{a}","weight":3})));
shows('api', 'a:drained b:up c:backup', 'registered by another key');
is(used('api'), 'b', 'gets no request');
is_deeply($upstream{api}->invalid, {}, 'the drain key is no invalid key');
is_deeply($upstream{api}->status->{unused}, [], 'and none that is unused');

# A drain is no loss for the guard; a member that the guard holds drains, too.

$etcd->put("/guarded/$_", $at{$_}) for qw(a b c);
shows('guarded', 'a:up b:up c:up', 'members');
$etcd->put("/guarded/.drain/$at{$_}", '') for qw(a b);
shows('guarded', 'a:drained b:drained c:up', 'most of them');
is($upstream{guarded}->status->{holds}, 0, 'guarded: none is held');
$etcd->del("/guarded/.drain/$at{$_}") for qw(a b);
shows('guarded', 'a:up b:up c:up', 'and no loss afterwards');
is($upstream{guarded}->status->{holds}, 0, 'guarded: none is held still');
$etcd->del('/guarded/a');
shows('guarded', 'a:held b:up c:up', 'a loss');
$etcd->put("/guarded/.drain/$at{a}", '');
shows('guarded', 'a:drained b:up c:up', 'the held one drains');
$etcd->del("/guarded/.drain/$at{a}");
shows('guarded', 'a:held b:up c:up', 'and is held as before');
$etcd->put("/guarded/.drain/$at{a}", '');
$upstream{guarded}->sees($etcd->put('/guarded/a', $at{a}));
shows('guarded', 'a:drained b:up c:up', 'it is registered again');
$etcd->del("/guarded/.drain/$at{a}");
shows('guarded', 'a:up b:up c:up', 'and put back');

# A server of the configuration is not below the prefix.

$etcd->put("/api/.drain/$at{c}", '');
$upstream{api}->sees($etcd->put("/api/.drain/$at{b}", ''));
shows('api', 'a:drained b:drained c:backup', 'a static server stays');
$etcd->del("/api/.drain/$at{$_}") for qw(b c);
shows('api', 'a:drained b:up c:backup', 'b is back');

# The key comes before the member, also that of an IPv6 address.

my $six = '[::1]:' . $nginx->port('PORT_6');

$etcd->put("/api/.drain/$six", '');
$upstream{api}->sees($etcd->put('/api/six', $six));
is($upstream{api}->member($six)->{state}, 'drained',
   'a member that comes later');
is(used('api'), 'b', 'gets no request');

# A name that is no address is reported.

$etcd->put('/api/.drain/README', '');
$etcd->put('/api/.drain/[0:0::1]:80', '');

my $why = 'its name is no address as the status has it, it drains no member';

$nginx->expect(qr/is invalid: \Q$why\E/);
$upstream{api}->reports({ '/api/.drain/README' => $why,
                          '/api/.drain/[0:0::1]:80' => $why },
                        'keys that drain nobody');
$etcd->del('/api/.drain/[0:0::1]:80');
$upstream{api}->reports({ '/api/.drain/README' => $why }, 'one is gone');
$etcd->del('/api/.drain/README');
$upstream{api}->reports({}, 'and the other');

# A member that drains by its own value goes on with that, and sessions are
# closed after close_after.

$etcd->put('/json/a', qq({"address":"$at{a}"}));
$etcd->put('/json/b', qq({"address":"$at{b}"}));
$etcd->put('/json/c', qq({"address":"$at{c}","drain":true}));
shows('json', 'a:up b:up c:drained', 'format=json');

$etcd->put("/json/.drain/$at{$_}", '') for qw(b c);
shows('json', 'a:up b:drained c:drained', 'one drains, one did');
$etcd->del("/json/.drain/$at{$_}") for qw(b c);
shows('json', 'a:up b:up c:drained', 'its own value drains it');
$etcd->put("/json/.drain/$at{c}", '');
$upstream{json}->sees($etcd->put('/json/c', qq({"address":"$at{c}"})));
shows('json', 'a:up b:up c:drained', 'the key alone drains it');
$etcd->del("/json/.drain/$at{c}");
shows('json', 'a:up b:up c:up', 'nothing drains it');

# A format of several keys.

$etcd->put("/groups/$_/url", "http://$at{$_}") for qw(a b);
shows('groups', 'a:up b:up', 'format=traefik');
$etcd->put("/groups/.drain/$at{a}", '');
shows('groups', 'a:drained b:up', 'drained');
use_only('groups', 'b', 'one');
$upstream{groups}->sees($etcd->put('/groups/a/weight', '2'));
shows('groups', 'a:drained b:up', 'a group that changes');

# A leader: the key of the drain is no candidate.

$etcd->put("/leader/.drain/$at{b}", '');
$etcd->put("/leader/$_", $at{$_}) for qw(a b);
shows('leader', 'a:up', 'the first one');
$etcd->put("/leader/.drain/$at{a}", '');
shows('leader', 'a:drained', 'drained');
$etcd->del('/leader/a');
shows('leader', 'b:drained', 'the next one, too');
$etcd->del("/leader/.drain/$at{b}");
shows('leader', 'b:up', 'put back');

my $refused = qr{key "/leader/\.drain/b" at revision \d+ is invalid: \Q$why\E};

$etcd->put('/leader/.drain/b', '');
wait_for { $nginx->count_log($refused) } 10, 'a line';
$nginx->logs($refused, 1, 'a name that is no address');

# Sets: below the prefix of the set.

for my $sets (qw(sets gsets)) {
    my $path = ($sets eq 'sets' ? 'sets' : 'group_sets') . '?set=shop';
    my $end = $sets eq 'sets' ? '' : '/url';

    # the key of the drain before those of the members

    $etcd->put("/$sets/shop/.drain/$at{a}", '');
    $etcd->put("/$sets/shop/$_$end", ($end ? 'http://' : '') . $at{$_})
        for qw(a b);
    use_only($path, 'b', 'the other one of the set');
    $etcd->put("/$sets/more/$_$end", ($end ? 'http://' : '') . $at{$_})
        for qw(a b);
    use_only($path =~ s/shop/more/r, 'a b', 'another set');
}

$etcd->put("/sets/only/.drain/$at{b}", '');
becomes { $nginx->get('/to/sets?set=only')->{status} } 502,
    'a set with such a key only exists';
$etcd->del("/sets/only/.drain/$at{b}");
becomes { $nginx->get('/to/sets?set=only')->{status} } 404, 'and is gone';

$etcd->put("/sets/.drain/$at{b}", '');

my $unmatched = qr{key "/sets/\.drain/\Q$at{b}\E" does not match};

wait_for { $nginx->count_log($unmatched) } 10, 'a line';
$nginx->logs($unmatched, 1, 'no set has the name ".drain"');
is($nginx->get('/to/sets?set=.drain')->{status}, 404, 'for a request, too');
is(used('sets?set=shop'), 'b', 'no set is drained by that');

# Stream: sessions go on.

$etcd->put("/tcp/$_->{name}", $_->address) for $x, $y;
shows('tcp', 'x:up y:up', 'members');

my ($session) = grep { $_->ask('hello') eq 'x: hello' }
    map { $nginx->line('TCP') } 1 .. 8;

$etcd->put('/tcp/.drain/' . $x->address, '');
shows('tcp', 'x:drained y:up', 'drained');
is_deeply(Line::Client::tally($nginx->port('PORT_TCP'), 8), { y => 8 },
          'new sessions go to the other one');
is($session->ask('more'), 'x: more', 'a session goes on');

# Members stay drained over a reload and a takeover; those that come later
# drain, too.

sub all_drained {
    my ($when, $api) = @_;

    $api //= 'b';

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is(used('api'), $api, "$when: api");
    is(used('groups'), 'b', "$when: groups");
    is(used('sets?set=shop'), 'b', "$when: sets");
    is(used('group_sets?set=shop'), 'b', "$when: sets of groups");
    is_deeply(Line::Client::tally($nginx->port('PORT_TCP'), 8), { y => 8 },
              "$when: tcp");
}

# a reload, and a member whose drain key nobody had a use for

$etcd->put("/json/.drain/$at{c}", '');
$etcd->del('/json/c');
shows('json', 'a:up b:up', 'c is gone');
$nginx->reload;
all_drained('after a reload');
$etcd->put('/json/c', qq({"address":"$at{c}"}));
shows('json', 'a:up b:up c:drained', 'a member that comes later');

# the agent is killed, and keys change while there is none

$etcd->del('/json/c');
shows('json', 'a:up b:up', 'c is gone again');
$load = Load->start($nginx->port, path => '/to/api', clients => 2);
my $killed = time();
take_over();
all_drained('after a takeover');
$upstream{api}->sees($etcd->put('/api/other', $at{c}));
$seen = $load->results();
cmp_ok($seen->{last}{a} // 0, '<', $killed, 'none came to a meanwhile');
$etcd->put('/json/c', qq({"address":"$at{c}"}));
shows('json', 'a:up b:up c:drained', 'a member that comes later still');
$etcd->del("/tcp/.drain/" . $x->address);
shows('tcp', 'x:up y:up', 'the next agent puts back');
$etcd->put('/tcp/.drain/' . $x->address, '');
shows('tcp', 'x:drained y:up', 'and drains');

# The state file: a start without etcd, and a key that is gone since.

my ($state) = wait_for {
    my ($tcp) = grep { $_->{prefix} eq '/tcp/' }
        @{ saved_state($file)->{sets} // [] };
    $tcp && grep({ $_->{ordered} } @{ $tcp->{members} });
} 20, 'the state file';

ok($state, 'the state file has it');
$session->close;
ok($nginx->quit, 'nginx quits');
$etcd->stop;
$nginx->start;
all_drained('without etcd', 'b c');
shows('json', 'a:up b:up c:drained', 'without etcd');

$nginx->quit;
$etcd->start;
$etcd->del('/tcp/.drain/' . $x->address);
$etcd->stop;
$nginx->start;
shows('tcp', 'x:drained y:up', 'from the state file');
$etcd->start;
shows('tcp', 'x:up y:up', 'the key is gone meanwhile');
use_only('api', 'b c', 'etcd is back');
use_only('groups', 'b', 'etcd is back');
use_only('sets?set=shop', 'b', 'etcd is back');
shows('json', 'a:up b:up c:drained', 'etcd is back');
is_deeply($upstream{api}->invalid, {}, 'no key is invalid');

finish();
