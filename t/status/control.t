#!/usr/bin/perl

# Keys and values of etcd with control bytes: no variable has them, and no
# header of HTTP, to a client or to a backend, begins in one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Door;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my $door = Door->new();

my $evil = "\r\nSet-Cookie: stolen=1\r\nX-Rest: ";
my $plain = "\xc3\xa4\xff \"|\\~";

# values of the leaders of elections, by the name of the election; their keys
# were put by no nginx

my %leader = (
    crlf  => "a$evil",
    lf    => "\nSet-Cookie: stolen=1",
    cr    => "a\rSet-Cookie: stolen=1",
    nul   => "a\0",
    tab   => "a\tb",
    del   => "a\x7f",
    us    => "a\x1f",
    plain => $plain,
);

my @names = sort keys %leader;
my %key = (
    evil  => "/api/1$evil",
    del   => "/del/1\x7f",
    plain => "/plain/\xc3\xa4 \"|\\~",
);

$etcd->put("/elections/$_/12ab", $leader{$_}) for @names;
$etcd->put($_, '{"address":"' . $door->address . '"}') for values %key;

my $elections = join('', map { "    election $_ /elections/$_ ttl=30s;\n" }
                         @names);
my $headers = join('', map { "add_header X-$_ \$etcd_leader_$_;\n"
                             . "proxy_set_header X-$_ \$etcd_leader_$_;\n" }
                       @names);
my $terms = join('|', map { "\$etcd_election_revision_$_" } @names);
my $values = join('|', map { "$_=\$etcd_leader_$_" } @names);

my $nginx = Nginx->new(etcd => $etcd)->set(
    DOOR      => $door->address,
    ELECTIONS => $elections,
    HEADERS   => $headers,
    TERMS     => $terms,
    VALUES    => $values,
)->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
%%ELECTIONS%%
}

http {
    upstream evil {
        etcd_members /api/;
    }

    upstream del {
        etcd_members /del/;
    }

    upstream plain {
        etcd_members /plain/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /terms {
            return 200 "%%TERMS%%";
        }

        location /leaders {
            %%HEADERS%%
            add_header X-Key $etcd_member_key;
            proxy_pass http://%%DOOR%%;
        }

        location /evil {
            add_header X-Key $etcd_member_key;
            add_header X-Set "key $etcd_member_key.";
            proxy_pass http://evil;
        }

        location /del {
            add_header X-Key $etcd_member_key;
            proxy_pass http://del;
        }

        location /plain {
            add_header X-Key $etcd_member_key;
            proxy_pass http://plain;
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
    log_format key escape=none "[$etcd_member_key]";

    upstream evil {
        etcd_members /api/;
    }

    server {
        listen 127.0.0.1:%%PORT_1%%;
        return "%%VALUES%%";
    }

    server {
        listen 127.0.0.1:%%PORT_2%%;
        access_log %%DIR%%/key.log key;
        proxy_pass evil;
    }
}

EOF


# Returns the bytes of an answer, and the visitor of the door, if there is one.

sub ask {
    my ($port, $request, $visited) = @_;

    my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $port)
        or die "connect to $port: $!\n";

    my $visit;

    print $client $request;
    $client->flush();

    if ($visited) {
        $visit = $door->enters(10) or die "nobody has come\n";
        $visit->leave();
    }

    local $/;

    return (scalar(<$client>), $visit && $visit->{head});
}

sub get { ask($nginx->port, "GET $_[0] HTTP/1.0\r\n\r\n", $_[1]) }

sub header {
    my ($head, $name) = @_;

    return $head =~ /^\Q$name\E: (.*?)\r$/im ? $1 : undef;
}

sub reported { $nginx->count_log(qr/\Q$_[0]\E" has no value, .* control/) }


# All elections have a leader that is proved, and nginx knows the members.


ok(wait_for(sub { (get('/terms'))[0] =~ /\r\n\r\n\d+(?:\|\d+){$#names}$/ }, 10,
            'the terms'), 'all elections have a leader that is proved');

for ([evil => 'http'], [evil => 'stream'], [del => 'http'], [plain => 'http']) {
    my $upstream = Upstream->new($nginx, @$_);

    ok(wait_for(sub { $upstream->status->{members}[0] }, 10, "@$_"),
       "@$_: a member");
}

for (1 .. 3) {
    my ($answer, $request) = get('/leaders', 1);

    unlike($answer, qr/stolen/, 'no header in an answer');
    unlike($request, qr/stolen/, 'nor in a request');

    for my $name (@names) {
        my $wanted = $name eq 'plain' ? $plain : undef;

        is(header($answer, "X-$name"), $wanted, "$name: to the client");
        is(header($request, "X-$name"), $wanted, "$name: to the backend");
    }
}

for my $name (@names) {
    is(reported("\$etcd_leader_$name"), $name eq 'plain' ? 0 : 1,
       "$name is reported, once");
}

$nginx->logs(qr/ in "a\\x0d\\x0aSet-Cookie: stolen=1\\x0d\\x0aX-Rest/, 1,
             'with its bytes, escaped');

# keys of members

my ($answer) = get('/evil', 1);

unlike($answer, qr/stolen/, 'a key, too');
is(header($answer, 'X-Key'), undef, 'is no header');
is(header($answer, 'X-Set'), 'key .', 'and empty in a text');

($answer) = get('/del', 1);
is(header($answer, 'X-Key'), undef, 'DEL is a control byte');

($answer) = get('/plain', 1);
is(header($answer, 'X-Key'), $key{plain}, 'other bytes are not');
is(reported('$etcd_member_key'), 1, 'one report, whatever keys there are');

# stream

is((ask($nginx->port('PORT_1'), ''))[0],
   join('|', map { "$_=" . ($_ eq 'plain' ? $plain : '') } @names),
   'stream: the same');
ask($nginx->port('PORT_2'), "GET / HTTP/1.0\r\n\r\n", 1);
wait_for { $nginx->lines_of('key.log') } 10, 'the log';
is(join('', $nginx->lines_of('key.log')), "[]\n", 'stream: keys');

# Outputs with all bytes have escapes of their own.

is($nginx->status->{elections}{crlf}{leader}, $leader{crlf},
   'the status has all bytes');
is(Upstream->new($nginx, 'evil')->status->{members}[0]{key}, $key{evil},
   'of keys, too');
is(scalar(grep { !/^(?:#.*|\w+(?:\{.*\})? [\w.+-]+)?$/ }
          split(/\n/, $nginx->get('/metrics')->{body})),
   0, 'each metric is a line');
is($nginx->count_log(qr/^(?!\d{4}\/)/), 0, 'each line of the log is ours');

finish();
