#!/usr/bin/perl

# $etcd_reason and the error log say why a request or a session was refused,
# each cause by a word and a line of its own; $etcd_wait_time says how long it
# has waited.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Nginx;
use Port;
use Slurp;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my $away = Etcd->new();
my ($one, $two) = Backend->start('one', 'two');
my ($at1, $at2) = map { $_->address } $one, $two;
my ($refuses, $refuses2) = map { '127.0.0.1:' . free_port() } 1, 2;

# name, parameters of the upstream, members, and what is to be seen: status,
# word, text of the line

my @causes = (
    [empty => '', [], 502, 'no_members', 'there is none below /empty/'],
    [down => '', ["$at1 down", "$at2 down"], 502, 'all_down',
     '2 members, 2 down'],
    [drained => '', ["$at1 drain"], 502, 'all_drained',
     '1 member, 1 drained'],
    [purpose => '', ["$at1 drain", "$at2 down", "$refuses max_fails=1"], 502,
     'all_failing', '3 members, 1 failing, 1 drained, 1 down'],
    [refuse => 'max_fails=1', [$refuses, $refuses2], 502, 'all_failing',
     '2 members, 2 failing'],
    [lone => '', [$refuses], 502, 'all_failing', undef],
    [never => 'max_fails=0', [$refuses, $refuses2], 502, 'all_failing', undef],
    [checked => '', [$refuses, $refuses2], 502, 'all_unhealthy',
     '2 members, 2 failed checks',
     'etcd_check tcp interval=300ms timeout=300ms panic=0;'],
    [away => 'cluster=away', undef, 502, 'unreachable',
     'it has not been read, etcd does not answer'],
    [named => '', ['name.invalid:80'], 502, 'all_unresolved',
     '1 member, 1 unresolved'],
);

my $upstreams = join("\n", map {
    my ($name, $parameters, undef, undef, undef, undef, $more) = @$_;
    "upstream $name { etcd_members /$name/ $parameters; " . ($more // '') . ' }'
} @causes);

my $locations = join("\n", map {
    "location = /$_->[0] { proxy_pass http://$_->[0]; }"
} @causes);

my $servers = join("\n", map {
    "server { listen 127.0.0.1:%%PORT_\U$_->[0]\E%%; proxy_pass $_->[0]; }"
} @causes);

my $config = <<"EOF";

worker_processes 1;

events {
}

etcd {
    endpoints %%ETCD%%;
    resolver 127.0.0.1:%%NODNS%%;
    resolver_timeout 1s;
    election lead /lead value=other ttl=60s;
}

etcd away {
    endpoints %%AWAY%%;
}

http {
    log_format why '\$uri \$status \$etcd_reason \$etcd_wait_time';
    $upstreams

    upstream sets { etcd_members /sets/\$service/; }
    upstream far { etcd_members /far/\$service/ cluster=away; }
    upstream leader { etcd_leader /leader/; }
    upstream held { etcd_members /held/; }
    upstream works { etcd_members /works/; }
    upstream some { etcd_members /some/ max_fails=0; }
    upstream full { etcd_members /full/; }

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%LOG%% why;
        error_page 404 423 502 503 \@why;

        $locations

        location = /status {
            access_log off;
            etcd_status;
        }

        location = /set/unknown { set \$service unknown;
                                  proxy_pass http://sets; }
        location = /far { set \$service any; proxy_pass http://far; }
        location = /leader { proxy_pass http://leader; }
        location = /works { proxy_pass http://works; }
        location = /fallback { error_page 502 = \@works;
                               proxy_pass http://empty; }
        location \@works { proxy_pass http://works; }
        location = /wait { etcd_wait held 200ms; proxy_pass http://held; }
        location = /waits { etcd_wait held 60s queue=1;
                            proxy_pass http://held; }
        location = /some { proxy_next_upstream off; proxy_pass http://some; }
        location = /full { proxy_pass http://full; }
        location = /require { etcd_require_leader lead;
                              proxy_pass http://works; }
        location = /lock { etcd_lock /locks/a wait=0; proxy_pass http://works; }
        location = /own { error_page 423 /none;
                          etcd_lock /locks/a wait=0;
                          proxy_pass http://works; }

        location \@why {
            return 200 "\$etcd_reason";
        }
    }

    server {
        listen 127.0.0.1:%%PORT_PAGE%%;

        location = /lock { etcd_lock /locks/a wait=0; proxy_pass http://works; }
        location = /hold { etcd_lock /locks/a; proxy_pass http://works; }
    }
}

stream {
    log_format why '\$server_port \$status \$etcd_reason \$etcd_wait_time';
    access_log %%STREAM_LOG%% why;

    $upstreams

    $servers
}

EOF

$etcd->put("/works/1", $at1);
$etcd->put("/lead/0", "another");
$etcd->put("/some/$_", $refuses) for 1;
$etcd->put("/some/2", $refuses2);

for my $cause (@causes) {
    my ($name, undef, $members) = @$cause;
    my $i = 0;

    $etcd->put("/$name/" . $i++, value($_)) for @{ $members // [] };
}


# "ADDRESS FLAG|NAME=N ..." as a JSON value

sub value {
    my ($address, @attributes) = split(/ /, $_[0]);

    return sprintf('{"address":"%s"%s}', $address, join('', map {
        my ($name, $number) = split(/=/);
        qq{,"$name":} . ($number // 'true');
    } @attributes));
}


my $nginx = Nginx->new(etcd => $etcd);

$nginx->set(AWAY => $away->endpoints, NODNS => free_port(),
            LOG => "$nginx->{dir}/why.log",
            STREAM_LOG => "$nginx->{dir}/stream.log");
$nginx->start($config);

my $client = $nginx->http;


# the last line of a log that begins with that word

sub last_line {
    my ($log, $word) = @_;

    my @lines = grep { /^\Q$word\E / } split(/\n/, slurp("$nginx->{dir}/$log"));

    return $lines[-1] // '';
}


# A request gets this status and reason, which are in the log, too.

sub refused {
    my ($uri, $status, $word) = @_;

    my $answer;

    wait_for { $answer = $client->get($uri); $answer->{body} eq $word } 10,
        "$uri: $word";

    is("$answer->{status} $answer->{body}", "$status $word",
       "$uri: status and reason");

    like(waited(sub { last_line('why.log', $uri) }, qr/ $word /),
         qr{^$uri $status $word }, "$uri: the log of requests");
}


sub session {
    my ($port) = @_;

    return IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port")
           // die "port $port: $!\n";
}


# the result of $ask, once it is as wanted

sub waited {
    my ($ask, $wanted) = @_;

    my $seen;

    wait_for { ($seen = $ask->()) =~ $wanted } 10, $wanted;

    return $seen;
}


# The log says why, once a second: the request is repeated.

sub says {
    my ($uri, $text) = @_;

    my $pattern = qr/\[error\].* \Q$text\E/;

    ok(wait_for(sub { $nginx->count_log($pattern) || !$client->get($uri) }, 10),
       $text);
}


for my $cause (@causes) {
    my ($name, undef, $members, $status, $word, $text) = @$cause;

    if (defined $members) {
        my $n = @$members;

        wait_for { keys %{ Upstream->new($nginx, $name)->members } == $n } 10,
            "$name: members";
    }

    wait_for { Upstream->new($nginx, $name)->states !~ /:up/ } 10, 'checks'
        if $name eq 'checked';

    refused("/$name", $status, $word);

    if (defined $text) {

        # The request that tries the last member says nothing of the others.

        $client->get("/$name");
        says("/$name", qq(no usable member of "$name": $text));
    }

    my $port = $nginx->port("PORT_\U$name\E");

    wait_for {
        Http::read_all(session($port));
        last_line('stream.log', $port) =~ / $word -$/;
    } 10, "$name: a session";

    is(last_line('stream.log', $port), "$port $status $word -",
       "$name: a session");
}

# The JSON and the metrics say the same.

my %shown = map { $_ => Upstream->new($nginx, $_)->status } qw(drained refuse);

is(join(' ', map { @{ $shown{$_} }{qw(state reason)},
                   sort map { $_->{state} } @{ $shown{$_}{members} } }
             sort keys %shown),
   'down all_drained drained down all_failing failing failing',
   'the states of upstreams and members');

like($client->get('/status?format=prometheus')->{body},
     qr/^nginx_etcd_upstream_state\{[^}]*module="http",upstream="refuse",
        state="down"\}\ 1$/mx, 'and as metrics');

# All that are refused are counted; the only sessions of some have failed.

for my $cause (grep { defined $_->[5] } @causes) {
    my ($name, $word) = @$cause[0, 4];

    cmp_ok($nginx->upstream($name)->status->{refused}{$word} // 0, '>', 0,
           "$name: refused are counted");
    cmp_ok($nginx->stream($name)->status->{refused}{$word} // 0, '>', 0,
           "$name: refused sessions are counted") if $word ne 'all_failing';
}

my $some = Upstream->new($nginx, 'works')->status;

is($some->{state} . ($some->{reason} // ''), 'ok', 'one that works is "ok"');

# sets

refused('/set/unknown', 404, 'unknown');
refused('/far', 503, 'unreachable');
says('/far', 'no usable member of "far": it has not been read, etcd does not '
             . 'answer');

# leaders

refused('/leader', 502, 'no_leader');
says('/leader', 'no usable member of "leader": there is no leader');
refused('/require', 503, 'not_leader');
says('/require', 'election "lead": this nginx does not lead');

# All went well, and a fallback.

is($client->get('/works')->{body}, 'one', 'a request is answered');
is(waited(sub { last_line('why.log', '/works') }, qr/200/), '/works 200 - -',
   'and has no reason');
is($client->get('/fallback')->{body}, 'one', 'another upstream answers');
is(waited(sub { last_line('why.log', '/fallback') }, qr/200/),
   '/fallback 200 no_members -', 'and the reason is kept');

# not all members were tried

refused('/some', 502, 'failed');

# waits

refused('/wait', 502, 'wait_timeout');
like(last_line('why.log', '/wait'), qr/ 0\.[2-9]\d\d$/, 'and the time');
says('/wait', 'no usable member of "held" after a wait: there is none below '
              . '/held/');

my ($waits) = map { $_->send('GET', '/waits'); $_ } $nginx->http;

Upstream->new($nginx, 'held')->holds(1, 'a request waits');
refused('/waits', 503, 'queue_full');
$etcd->put('/held/1', $at1);
is($waits->receive->{body}, 'one', 'the one that waits gets its answer');
like(waited(sub { last_line('why.log', '/waits') }, qr/200/),
     qr{^/waits 200 - \d+\.\d{3}$}, 'and says how long it has waited');

# locks

$one->set(hang => 1);

my $holder = session($nginx->port('PORT_PAGE'));

print $holder "GET /hold HTTP/1.0\r\n\r\n";
wait_for { $one->requests } 10, 'the lock is held';

refused('/lock', 423, 'lock_held');
says('/lock', 'lock "/locks/a/" was not obtained: it is held');
is(join(' ', keys %{ $nginx->status->{locks}{'/locks/a'}{refused} }),
   'lock_held', 'and it is counted');

my $page = session($nginx->port('PORT_PAGE'));

print $page "GET /lock HTTP/1.0\r\n\r\n";
like(Http::read_all($page),
     qr{^HTTP/1.1 423 Locked\r\n.*\r\n\r\n<html>.*423 Locked}s,
     'a status with its text, and a page');

$one->set(hang => 0);
close($holder);

$nginx->stop;
$nginx->check;

done_testing();
