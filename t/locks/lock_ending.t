#!/usr/bin/perl

# nginx itself leaves a backend that works on: after a timeout, for another
# location or an error page in place of the answer, for an answer that it
# cannot read, for a body that the client has cut.  The lock is kept until the
# backend is done.

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
use Wait;

use constant LEFT => -2.5;      # seconds after nginx has left, see Scripted


sub record {
    my ($type, $text) = @_;

    return pack('C2 n2 C2', 1, $type, 1, length($text), 0, 0) . $text;
}

my $ok = "HTTP/1.1 200 OK\r\n";
my $length = "Content-Length: 7\r\n\r\n";
my $cgi = "Content-Type: text/plain\r\n\r\n";
my $end = record(6, '') . record(3, "\0" x 8);

# The protocol, what the client has, and the script.  A backend that does not
# stay gives up its work when nginx half-closes the connection: after a timeout
# nginx does so when the backend has answered.

my %rows = (
    silent   => [http => 504, [LEFT, "$ok${length}all of"]],
    begun    => [http => '', [0, "$ok${length}begun"], [LEFT, 'ok']],
    chunked  => [http => '', [0, "${ok}Transfer-Encoding: chunked\r\n\r\n"
                              . "5\r\nbegun\r\n"], [LEFT, "0\r\n\r\n"]],
    fastcgi  => [fastcgi => 504, [LEFT, record(6, "${cgi}ok") . $end]],
    uwsgi    => [uwsgi => 504, [LEFT, "${ok}${cgi}ok"], [0, undef]],
    scgi     => [scgi => 504, [LEFT, "Status: 200 OK\r\n${cgi}ok"],
                              [0, undef]],
    memcached => [memcached => 504, [LEFT, "VALUE a 0 2\r\nok\r\nEND\r\n"]],
    accel    => [http => 200, 'stays', [0, "${ok}X-Accel-Redirect: /other\r\n"
                                        . "${length}begun"],
                              [LEFT, 'ok'], [0, undef]],
    error    => [http => 200, 'stays', [0, "HTTP/1.1 500 Oops\r\n${length}"],
                              [LEFT, 'all ok!'], [0, undef]],
    invalid  => [http => 502, 'stays', [0, "${ok}a\0b: c\r\n\r\n"],
                              [LEFT, 'ok'], [0, undef]],
    head     => [http => 200, 'stays', [0, "${ok}Connection: close\r\n\r\n"],
                              [LEFT, 'ok'], [0, undef]],
    cut      => [http => undef, 'stays', [LEFT, "$ok${length}begunok"],
                                [0, undef]],
);

my $backends = Scripted->start(map { my (undef, undef, @steps) = @{ $rows{$_} };
                                     ($_ => \@steps) } keys %rows);

my %pass = (
    http      => sub { "proxy_pass http://$_[0]" },
    fastcgi   => sub { "fastcgi_keep_conn on; fastcgi_pass $_[0]" },
    uwsgi     => sub { "uwsgi_pass $_[0]" },
    scgi      => sub { "scgi_pass $_[0]" },
    memcached => sub { "set \$memcached_key a; memcached_pass $_[0]" },
);

# with and without buffers

my $locations = join('', map {
    my ($name, $buffering) = split(/-/);
    my $pass = $pass{ $rows{$name}[0] }->($backends->address($name));

    <<"EOF_LOCATION";
        location /$name/$buffering {
            etcd_lock /locks/$name/$buffering wait=60s;
            proxy_buffering $buffering;
            $pass;
        }
EOF_LOCATION
} map { ("$_-on", "$_-off") } keys %rows);

my $timeouts = join('', map { "        ${_}_read_timeout 500ms;\n" }
                        qw(proxy fastcgi uwsgi scgi memcached));

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
        proxy_request_buffering off;
        proxy_next_upstream off;
        proxy_intercept_errors on;
        error_page 500 =200 /other;
        postpone_output 0;
        etcd_lock_max_hold 1h;

$timeouts
        location = /status {
            etcd_status;
        }

        location = /other {
            return 200 other;
        }

$locations
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);


# The body of "cut" never comes.

sub ask {
    my ($name, $mode) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port('PORT'))
        or die "connect: $!\n";
    my $method = $name eq 'head' ? 'HEAD' : $name =~ /mem/ ? 'GET' : 'POST';
    my $body = $name eq 'cut' ? "10\r\n\r\nbegun" : "0\r\n\r\n";

    print {$socket} "$method /$name/$mode HTTP/1.1\r\nHost: a\r\n"
                    . "Connection: close\r\nContent-Length: $body";

    return $socket;
}


sub status {
    my ($socket) = @_;

    my $text = '';

    1 while sysread($socket, $text, 4096, length($text));

    return $text =~ /^HTTP\S+ (\d+)/ ? $1 : '';
}


sub began { scalar(grep { $_ eq 'began' } $backends->history($_[0])) }


# nginx leaves the first request to each backend; the second one comes while the
# backend works on.

for my $mode ('on', 'off') {
    my %started = map { ($_ => began($_)) } keys %rows;
    my $ended = sub {
        my ($name, $socket) = @_;

        if ($name eq 'cut') {
            close($socket);
            return;
        }

        like(status($socket), $rows{$name}[1] ? qr/^$rows{$name}[1]$/
                                              : qr/^200$/,
             "$name, buffers $mode: nginx ends the request");
    };

    $backends->hold;

    my %clients = map { ($_ => ask($_, $mode)) } sort keys %rows;

    for (sort keys %rows) {
        my $name = $_;

        ok(wait_for(sub { began($name) > $started{$name} }, 20),
           "$name, buffers $mode: the backend works");
        $ended->($name, $clients{$name});
    }

    $lock->holds("/locks/$_/$mode", 1, "$_, buffers $mode: the lock is kept")
        for sort keys %rows;

    my %next = map { ($_ => ask($_, $mode)) } sort keys %rows;

    $lock->waits("/locks/$_/$mode", 1, "$_, buffers $mode: another one waits")
        for sort keys %rows;
    $backends->go;

    for (sort keys %rows) {
        my $name = $_;

        ok(wait_for(sub { began($name) > $started{$name} + 1 }, 20),
           "$name, buffers $mode: the next one comes");
        $ended->($name, $next{$name});
        $lock->gone("/locks/$name/$mode", "$name, buffers $mode: is left");
        is("@{[($backends->history($name))[-4 .. -1]]}",
           'began finished began finished',
           "$name, buffers $mode: the backend has done one after the other");
    }
}

is($nginx->count_log(qr/locks are released although/), 0, 'none is given up');

finish();
