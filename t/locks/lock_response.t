#!/usr/bin/perl

# A lock whose client has left is kept until the response has ended: a backend
# that has sent a part, and works on, is not done.  Each backend gives up its
# work when nginx shuts down the connection.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Etcd;
use Finish;
use Lock;
use Nginx;
use Scripted;
use Tls;
use Wait;

use constant {
    WORKS => 2.5,       # seconds: longer than nginx waits in silence
    LEFT  => -2.5,      # after the client has left, see Scripted
};

plan(skip_all => 'this nginx has no HTTP/2')
    if !Nginx::has('http_v2_module');


sub record {
    my ($type, $text) = @_;

    return pack('C2 n2 C2', 1, $type, 1, length($text), 0, 0) . $text;
}

my $ok = "HTTP/1.1 200 OK\r\n";
my $interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
my $chunked = "${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n";
my $cgi = "Content-Type: text/plain\r\n\r\n";

my $output = record(6, "${cgi}begun");
my $end = record(6, '') . record(3, "\0" x 8);

# the protocol, whether the client waits for a part of the body, and the script

my %rows = (
    silent  => [http => 0, [LEFT, "${ok}Content-Length: 2\r\n\r\nok"]],
    interim => [http => 0, [LEFT, $interim],
                           [WORKS, "${ok}Content-Length: 2\r\n\r\nok"],
                           [0, undef]],
    length  => [http => 1, [0, "${ok}Content-Length: 7\r\n\r\nbegun"],
                           [LEFT, 'ok']],
    chunked => [http => 1, [0, $chunked], [LEFT, "0\r\n\r\n"]],
    later   => [http => 0, [LEFT, $chunked], [WORKS, "2\r\nok\r\n0\r\n\r\n"]],
    head    => [http => 0, [LEFT, "${ok}Content-Length: 5\r\n\r\n"]],
    closed  => [http => 1, [0, "${ok}\r\nbegun"], [LEFT, 'ok'], [0, undef]],
    fastcgi => [fastcgi => 0, [LEFT, $output], [WORKS, $end]],
    fastcgi_begun => [fastcgi => 1, [0, $output], [LEFT, $end]],
    uwsgi   => [uwsgi => 1, [0, "${ok}${cgi}begun"], [LEFT, 'ok'],
                            [0, undef]],
    scgi    => [scgi => 1, [0, "Status: 200 OK\r\n${cgi}begun"],
                           [LEFT, 'ok'], [0, undef]],

    # An nginx is the backend, which sends SETTINGS at once, or speaks TLS.

    grpc    => [grpc => 0, [LEFT, "${ok}Content-Length: 2\r\n\r\nok"]],
    grpc_begun => [grpc => 1, [0, "${ok}Content-Length: 7\r\n\r\nbegun"],
                              [LEFT, 'ok']],
    grpcs   => [grpcs => 0, [LEFT, "${ok}Content-Length: 2\r\n\r\nok"]],
    tls     => [https => 0, [LEFT, "${ok}Content-Length: 2\r\n\r\nok"]],
    tls_begun => [https => 1, [0, "${ok}Content-Length: 7\r\n\r\nbegun"],
                              [LEFT, 'ok']],
);

my $backends = Scripted->start(map { my (undef, undef, @steps) = @{ $rows{$_} };
                                     ($_ => \@steps) } keys %rows);
my $server = Tls->new('ca')->issue('server', san => 'IP:127.0.0.1');


# a server of HTTP/2, and two with TLS

my $through = Nginx->new();

$through->{modules} = [];

my ($h2, $tls, $h2_tls) = Nginx::version() >= 1025001
    ? ('%%PORT_H2%%; http2 on', '%%PORT_TLS%% ssl',
       '%%PORT_H2_TLS%% ssl; http2 on')
    : ('%%PORT_H2%% http2', '%%PORT_TLS%% ssl', '%%PORT_H2_TLS%% ssl http2');

my $proxies = join('', map { <<"EOF_LOCATION" } keys %rows);
        location /$_ {
            proxy_pass http://@{[$backends->address($_)]};
        }
EOF_LOCATION

my $servers = join('', map { <<"EOF_SERVER" } $h2, $tls, $h2_tls);
    server {
        listen 127.0.0.1:$_;
        keepalive_timeout 3s;
$proxies
    }
EOF_SERVER

$through->start(<<"EOF_CONFIG");

http {
    ssl_certificate @{[$server->cert]};
    ssl_certificate_key @{[$server->key]};
    proxy_buffering off;

$servers
}

EOF_CONFIG

my %pass = (
    http    => sub { "proxy_pass http://$_[0]" },
    fastcgi => sub { "fastcgi_keep_conn on; fastcgi_buffering off; "
                     . "fastcgi_pass $_[0]" },
    uwsgi   => sub { "uwsgi_pass $_[0]" },
    scgi    => sub { "scgi_pass $_[0]" },
    grpc    => sub { 'grpc_pass grpc://127.0.0.1:'
                     . $through->port('PORT_H2') },
    grpcs   => sub { 'grpc_pass grpcs://127.0.0.1:'
                     . $through->port('PORT_H2_TLS') },
    https   => sub { 'proxy_pass https://127.0.0.1:'
                     . $through->port('PORT_TLS') },
);

# with and without buffers, for answers with a body that has begun

my $locations = join('', map {
    my ($name, $buffering) = split(/-/);
    my ($protocol) = @{ $rows{$name} };
    my $pass = $pass{$protocol}->($backends->address($name));

    <<"EOF_LOCATION";
        location /$name/$buffering {
            etcd_lock /locks/$name/$buffering wait=60s;
            proxy_buffering $buffering;
            $pass;
        }
EOF_LOCATION
} map { ("$_-on", "$_-off") } keys %rows);

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

$nginx->start(<<"EOF_CONFIG");

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        proxy_http_version 1.1;
        proxy_set_header Connection "";
        postpone_output 0;
        uwsgi_buffering off;
        scgi_buffering off;
        etcd_lock_max_hold 1h;

        location = /status {
            etcd_status;
        }

$locations
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);


sub ask {
    my ($path, $method) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port('PORT'))
        or die "connect: $!\n";

    print {$socket} "$method $path HTTP/1.1\r\nHost: a\r\n"
                    . "Content-Length: 0\r\nConnection: close\r\n\r\n";

    return $socket;
}


# With buffers, nginx sends the header at once, and the rest later.

sub begun {
    my ($socket, $mode) = @_;

    my $mark = $mode eq 'on' ? qr/\r\n\r\n/ : qr/begun/;

    my $text = '';

    while ($text !~ $mark) {
        sysread($socket, $text, 4096, length($text)) or return 0;
    }

    return 1;
}


sub method { $_[0] eq 'head' ? 'HEAD' : 'POST' }
sub began { scalar(grep { $_ eq 'began' } $backends->history($_[0])) }


# The first client of each backend leaves; the second one comes while the first
# request is still worked on.

my %modes = map { my $row = $rows{$_};
                  ($_ => [$row->[0] eq 'http' && $row->[1] ? qw(on off)
                                                           : 'off']) }
            keys %rows;
my @runs = map { my $name = $_; map { [$name, $_] } @{ $modes{$name} } }
           sort keys %rows;

my $left = 0;

for my $turn (0, 1) {
    $backends->hold;

    my @now = grep { defined $_->[1] }
              map { [$_, $modes{$_}[$turn]] } sort keys %rows;
    my %started = map { ($_->[0] => began($_->[0])) } @now;

    $left += @now;

    my %clients = map { my ($name, $mode) = @$_;
                        ($name => ask("/$name/$mode", method($name))) } @now;

    for (@now) {
        my ($name, $mode) = @$_;

        ok(wait_for(sub { began($name) > $started{$name} }, 20),
           "$name: the backend works");
        ok(begun($clients{$name}, $mode), "$name: and has begun to answer")
            if $rows{$name}[1];
    }

    close($_) for values %clients;
    wait_for { $nginx->count_log(qr/locks are kept until upstream/) >= $left }
        20, 'nginx to notice that';
    $backends->go;

    # The next requests come only now, or the order of locks would be luck.

    my %next = map { my ($name, $mode) = @$_;
                     ($name => ask("/$name/$mode", method($name))) } @now;

    for (@now) {
        my ($name, $mode) = @$_;

        my $head = readline($next{$name}) // '';

        # An nginx before 1.29 takes the interim response for the response.

        like($head, qr/^HTTP\S+ (?:200|103) /,
             "$name, buffers $mode: the next one");
        1 while sysread($next{$name}, my $rest, 4096);

        is("@{[($backends->history($name))[-4 .. -1]]}",
           'began finished began finished',
           "$name, buffers $mode: comes after the first one");
        $lock->gone("/locks/$name/$mode", "$name: nothing is left");
    }
}

is($nginx->count_log(qr/locks are released although/), 0, 'none is given up');

finish();
