#!/usr/bin/perl

# Sessions (nginx's "sticky", 1.29.6 and later): a session stays with its
# member by each method, also while the member drains, and the same id leads
# to the same address as with "server" lines.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::MD5 qw(md5_hex);
use JSON::PP;
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    SESSIONS     => 30,
    FAIL_TIMEOUT => 3600,
};

Nginx::has_sticky() or plan(skip_all => 'this nginx has no sticky');

my $etcd = Etcd->new()->start();
my @backends = Backend->start(qw(a b c d));
my %backend = map { $_->name => $_ } @backends;
my %at = map { $_->name => $_->address } @backends;

my %methods = (
    round_robin => 'round_robin',
    least_conn  => 'least_conn',
    random      => 'random',
    ewma        => 'ewma',
    hash        => 'hash $arg_key',
    ring        => 'hash $arg_key consistent',
);

my $upstreams = join("\n", map { <<"END" } sort keys %methods);
    upstream $_ {
        etcd_members /$_/ max_fails=1 fail_timeout=${\ FAIL_TIMEOUT};
        etcd_balance $methods{$_};
        sticky cookie sid path=/;
    }
END

my $config = <<'END';

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_next_upstream error timeout http_500;

    UPSTREAMS

    upstream native {
        server %%A%% max_fails=1;
        server %%B%% max_fails=1;
        server %%C%% max_fails=1;
        sticky cookie sid path=/;
    }

    upstream learned {
        etcd_members /round_robin/;
        sticky learn create=$upstream_http_x_session lookup=$arg_session
                     zone=learned:1m;
    }

    upstream kept {
        etcd_members /round_robin/ max_fails=0;
        keepalive 4;
        sticky cookie sid path=/;
    }

    upstream waited {
        etcd_members /round_robin/;
        sticky cookie sid path=/;
    }

    upstream routed {
        etcd_members /none/;
        server %%A%% route=one;
        server %%B%% route=two;
        server %%C%% route=two drain;
        sticky cookie sid path=/;
    }

    upstream standby {
        etcd_members /standby/;
        sticky cookie sid path=/;
    }

    upstream near {
        etcd_members /near/ max_fails=0;
        etcd_prefer zone:here;
        sticky cookie sid path=/;
    }

    upstream leads {
        etcd_leader /election;
        sticky cookie sid path=/;
    }

    upstream replicas {
        etcd_leader /patroni format=patroni role=replica;
        sticky cookie sid path=/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/waited {
            etcd_wait waited 10s;
            proxy_pass http://waited;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }
}

END

$config =~ s/UPSTREAMS/$upstreams/;

my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(map { uc $_ => $at{$_} } keys %at);
$nginx->start($config);


sub id { return md5_hex($at{$_[0]}) }


# the backend that answers, and the id that nginx gives to the session

sub ask {
    my ($name, $id, $arguments) = @_;

    my $answer = $nginx->get("/to/$name" . ($arguments // ''),
                             defined $id ? (Cookie => "sid=$id") : ());
    my ($given) = ($answer->{headers}{'set-cookie'} // '')
        =~ /^sid=([^;]*); path=\/$/;

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status},
           $given // 'none';
}


# All backends that answer these sessions, in order.  With ewma a member that
# was slow once may wait for its turn for longer than the test asks.

sub any_of {
    my ($name, $id, $wanted, $test) = @_;

    my $who = answers($name, $id);

    if ($name eq 'ewma') {
        like($who, qr/^[$wanted]+$/, $test);

    } else {
        is($who, $wanted, $test);
    }
}


sub answers {
    my ($name, $id) = @_;

    my %seen;

    for my $i (1 .. SESSIONS) {
        my ($who, $given) = ask($name, $id, "?key=$i");

        $seen{$who . ($given eq id($who) ? '' : " with the id $given")}++;
    }

    return join(' ', sort keys %seen);
}


sub put {
    my ($prefix, $name, $rest) = @_;

    $etcd->put("/$prefix/$name", '{"address":"' . $at{$name} . '"'
                                 . ($rest // '') . '}');
}


sub shows {
    my ($name, $states, $test) = @_;

    becomes {
        join(' ', sort map { s/.* //r }
                  values %{ $nginx->upstream($name)->members })
    } $states, $test;
}


for my $name (sort keys %methods) {
    put($name, $_) for qw(a b c);
}

for my $name (sort keys %methods) {
    shows($name, 'up up up', "$name: three members");

    any_of($name, undef, 'a b c',
           "$name: new sessions go to all members, and get their ids");

    for my $who (qw(a b c)) {
        is(answers($name, id($who)), $who, "$name: a session stays with $who");
    }

    any_of($name, 'f' x 32, 'a b c',
           "$name: sessions with an unknown id go to all members");

    # A member drains.

    put($name, 'b', ',"drain":true');
    shows($name, 'drained up up', "$name: one drains");

    any_of($name, undef, 'a c', "$name: it gets no new session");
    is(answers($name, id('b')), 'b', "$name: it keeps its sessions");

    put($name, 'b', ',"down":true');
    shows($name, 'down up up', "$name: it is down");
    any_of($name, id('b'), 'a c', "$name: its sessions go to others");

    $etcd->del("/$name/b");
    shows($name, 'up up', "$name: it is gone");
    any_of($name, id('b'), 'a c', "$name: its sessions go to others");

    put($name, 'b');
    shows($name, 'up up up', "$name: it is back");
    is(answers($name, id('b')), 'b', "$name: its sessions are there again");

    # The member fails: no session comes back within FAIL_TIMEOUT.

    $backend{b}->set(status => 500);
    ask($name, id('b')) for 1 .. 2 * 2;
    $backend{b}->set(status => 200);

    any_of($name, id('b'), 'a c', "$name: it has failed");
}

# "server" lines give the same ids.

is(answers('native'), 'a b c', 'servers have the same ids');

for my $who (qw(a b c)) {
    is(answers('native', id($who)), $who, "servers: a session stays with $who");
}

# ids that are learned

put('round_robin', $_, ',"weight":2') for qw(a b c);
$nginx->upstream('round_robin')->shows({
    map { ("/round_robin/$_" => "$at{$_} 2 " . ($_ eq 'b' ? 'failing' : 'up')) }
        qw(a b c)
}, 'another weight');

my %learned;

for my $i (1 .. 6) {
    $_->set(headers => { 'X-Session' => "s$i" }) for @backends;
    ($learned{$i}) = ask('learned');
}

$_->set(headers => {}) for @backends;

is(join(' ', sort keys %{ { reverse %learned } }), 'a b c',
   'learn: sessions are with all members');

my %wrong = map {
    my $i = $_;
    map { my ($who) = ask('learned', undef, "?session=s$i");
          $who eq $learned{$i} ? () : ("s$i" => $who) } 1 .. 10
} keys %learned;

is_deeply(\%wrong, {}, 'learn: each session stays');

# with kept connections, on whichever side of "sticky" their directive is

for my $who (qw(a b c)) {
    is(answers('kept', id($who)), $who, "keepalive: a session stays with $who");
}

# A member was picked before the session was known.

for my $who (qw(a b c)) {
    is(answers('waited', id($who)), $who,
       "etcd_wait: a session stays with $who");
}

becomes {
    join(' ', map { $_->{conns} }
              @{ $nginx->upstream('waited')->status->{members} })
} '0 0 0', 'etcd_wait: no connection is counted for ever';

# routes of static servers

is((ask('routed', 'one'))[0], 'a', 'a route of a server');
is((ask('routed', 'one'))[1], 'one', 'it is the id');

is(join(' ', sort keys %{ { map { (ask('routed', 'two'))[0] => 1 }
                            1 .. 10 } }),
   'b', 'of two servers with a route, the first one is used');
is(join(' ', sort keys %{ { map { (ask('routed'))[0] => 1 } 1 .. 20 } }),
   'a b', 'a server that drains gets no new session');

$backend{b}->set(status => 500);
ask('routed', 'two') for 1 .. 2;
$backend{b}->set(status => 200);

is((ask('routed', 'two'))[0], 'c', 'without it, the other one');

# A backup keeps no session when a server can take it, as in nginx.

put('standby', 'a');
put('standby', 'b', ',"backup":true');
shows('standby', 'backup up', 'a backup');

is(answers('standby', id('b')), 'a', 'a session of a backup goes to a server');

$etcd->del('/standby/a');
shows('standby', 'backup', 'no server is left');
is(answers('standby', id('b')), 'b', 'it is with the backup');

# A session keeps its member, preferred or not.

put('near', $_, ',"tags":{"zone":"here"}') for qw(a b);
put('near', 'c', ',"tags":{"zone":"there"}');
shows('near', 'up up up', 'two members are near');

is(answers('near'), 'a b', 'new sessions go to the near ones');
is(answers('near', id($_)), $_, "a session stays with $_") for qw(a b c);

put('near', $_, ',"down":true,"tags":{"zone":"here"}') for qw(a b);
shows('near', 'down down up', 'no near one is up');

is(answers('near'), 'c', 'new sessions go to the other one');
is(answers('near', id('a')), 'c', 'those of a near one, too');

put('near', $_, ',"tags":{"zone":"here"}') for qw(a b);
shows('near', 'up up up', 'the near ones are back');

is(answers('near', id('c')), 'c', 'a session does not go back by itself');

# The leader leads, whatever a session says.

$etcd->put('/election/1', $at{a});
$nginx->leads_to('leads', 'a');
$etcd->put('/election/2', $at{b});
is(answers('leads', id('b')), 'a', 'a session of a candidate is the leader\'s');

$etcd->del('/election/1');
$nginx->leads_to('leads', 'b');
is(answers('leads', id('a')), 'b', 'a session does not keep a former leader');

# A session stays with its replica while the replica has this role.


sub replica {
    my ($name, $state) = @_;

    $etcd->put("/patroni/members/$name", encode_json({
        conn_url => "postgres://$at{$name}/db",
        state    => $state // 'running',
        role     => 'replica',
    }));
}


sub replicas_are {
    my ($names, $test) = @_;

    becomes {
        join(' ', sort map { my $member = $_;
                             grep { $member->{address} eq $at{$_} } keys %at }
                       @{ $nginx->upstream('replicas')->status->{members} })
    } $names, $test;
}


replica($_) for qw(a b c);
$etcd->put('/patroni/leader', 'a');
replicas_are('b c', 'two replicas');

any_of('replicas', undef, 'b c', 'new sessions go to all replicas');
is(answers('replicas', id($_)), $_, "a session stays with replica $_")
    for qw(b c);
any_of('replicas', id('a'), 'b c', 'a session of the leader goes to replicas');

$etcd->put('/patroni/leader', 'b');
replicas_are('a c', 'another leader');
any_of('replicas', id('b'), 'a c',
       'a session does not stay with a replica that leads now');
is(answers('replicas', id('c')), 'c', 'another one is where it was');

$etcd->put('/patroni/leader', 'a');
replicas_are('b c', 'it is a replica again');
is(answers('replicas', id('b')), 'b', 'and has its sessions again');

replica('b', 'starting');
replicas_are('c', 'it does not run');
is(answers('replicas', id('b')), 'c', 'its sessions go to the other one');

is($nginx->count_log(qr/does not support sticky/), 0,
   'nginx found an id for each session');

# the order of directives

my ($ok, $output) = $nginx->configtest(<<'END');

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        server 127.0.0.1:1;
        sticky cookie sid;
        etcd_members /api/;
    }
}

END

ok(!$ok, '"sticky" first is refused');
like($output, qr/"etcd_members" .* must be before "keepalive" and "sticky"/,
     'with the reason');

finish();
