#!/usr/bin/perl

# Requests that are refused or answered before their body has come: the rest of
# the body is never taken for another request, and ends nothing twice.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Backend;
use Election;
use Etcd;
use Finish;
use Http;
use Http2;
use Lock;
use Nginx;
use Wait;

use constant BODY => 1000;

my $SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

my $etcd = Etcd->new()->start();
my $election = Election->new($etcd, '/e/main');
my ($one, $two) = Backend->start('one', 'two');

my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $one->address,
                                           TWO => $two->address);

my $listens = Http2::listens('PORT_H2');

$etcd->put('/e/other/1', 'somebody else');
$etcd->put('/locks/taken/1', 'somebody else');

$nginx->start(<<'END' =~ s/%%LISTENS%%/$listens/r);

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election main /e/main ttl=10s;
    election other /e/other ttl=10s;
}

http {
    upstream nobody {
        etcd_members /nobody/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /term {
            return 200 "$etcd_is_leader_main:$etcd_election_revision_main";
        }

        location = /smuggled {
            return 200 SMUGGLED;
        }

        location = /lock/plain {
            etcd_lock /locks/plain wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location = /lock/named {
            etcd_lock /locks/named wait=600s;
            error_page 503 =200 @returned;
            proxy_pass http://%%ONE%%;
        }

        location = /lock/redirected {
            etcd_lock /locks/redirected wait=600s;
            error_page 503 =200 /returned;
            proxy_pass http://%%ONE%%;
        }

        location = /lock/unbuffered {
            etcd_lock /locks/unbuffered wait=600s;
            proxy_request_buffering off;
            proxy_pass http://%%ONE%%;
        }

        location = /leader/plain {
            etcd_require_leader main;
            proxy_pass http://%%ONE%%;
        }

        location = /leader/named {
            etcd_require_leader main;
            error_page 503 =200 @returned;
            proxy_pass http://%%ONE%%;
        }

        location = /leader/unbuffered {
            etcd_require_leader main;
            proxy_request_buffering off;
            proxy_http_version 1.1;
            proxy_pass http://%%ONE%%;
        }

        location = /at-once/taken {
            etcd_lock /locks/taken;
            proxy_pass http://%%ONE%%;
        }

        location = /at-once/waits {
            etcd_lock /locks/taken wait=100ms;
            proxy_pass http://%%ONE%%;
        }

        location = /at-once/no-key {
            etcd_lock /locks/key $arg_key;
            proxy_pass http://%%ONE%%;
        }

        location = /at-once/page {
            etcd_lock /locks/taken;
            error_page 423 =200 @returned;
            proxy_pass http://%%ONE%%;
        }

        location = /at-once/follower {
            etcd_require_leader other;
            proxy_pass http://%%ONE%%;
        }

        location = /at-once/no-member {
            etcd_wait nobody 100ms;
            proxy_request_buffering off;
            proxy_pass http://nobody;
        }

        location = /at-once/status {
            etcd_status;
        }

        location = /returned {
            etcd_lock off;
            return 200 returned;
        }

        location @returned {
            etcd_lock off;
            etcd_require_leader off;
            return 200 returned;
        }
    }

    server {
        %%LISTENS%%
        listen 127.0.0.1:%%PORT_OTHER%%;

        location = /pages {
            etcd_lock /locks/pages wait=600s;
            error_page 503 =200 @proxied;
            proxy_pass http://%%ONE%%;
        }

        location = /term-pages {
            etcd_require_leader main;
            error_page 503 =200 @proxied;
            proxy_pass http://%%ONE%%;
        }

        location @proxied {
            etcd_lock off;
            etcd_require_leader off;
            proxy_ignore_client_abort on;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_pass http://%%TWO%%;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd);


sub begin {
    my ($path, $method, $port) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $port // $nginx->port)
        or die "connect: $!\n";

    $socket->syswrite(($method // 'POST') . " $path HTTP/1.1\r\n"
                      . "Host: localhost\r\nContent-Length: " . BODY
                      . "\r\n\r\nabc");

    return $socket;
}


# The head and the body of one answer; the connection is read no further.

sub answer {
    my ($socket) = @_;

    my $text = '';
    my $left = 10 * ($ENV{TEST_SLOWER} || 1);

    until ($text =~ /^(.*?\r\n\r\n)(.*)$/s
           && length($2) >= ($1 =~ /^content-length: (\d+)/im ? $1 : 0))
    {
        Wait::can_read($socket, \$left) or return "$text timeout";
        sysread($socket, $text, 1, length($text)) or return "$text closed";
    }

    return $text;
}


# Sends the rest of the body, and reads all that is left.

sub rest {
    my ($socket) = @_;

    local $SIG{PIPE} = 'IGNORE';

    $socket->syswrite($SMUGGLED . 'x' x (BODY - 3 - length($SMUGGLED)));
    $socket->shutdown(1);

    return Http::read_all($socket) // '';
}


sub refused {
    my ($socket, $wanted, $what) = @_;

    like(answer($socket), $wanted, "$what: an answer");
    unlike(rest($socket), qr/SMUGGLED/, "$what: its body is no request");
}


sub lose {
    my ($name) = @_;

    $lock->holds("/locks/$name", 1, "$name: holds the lock");
    $etcd->del(($lock->keys("/locks/$name"))[0]);
}


# This nginx leads, in another term than the one given; returns its term.

sub leads {
    my ($before) = @_;

    return wait_for {
        my $term = $nginx->get('/term')->{body};

        $term =~ /^1:/ && $term ne ($before // '') && $term
    } 30, 'to lead';
}


# Waits until nginx has read what a client has sent: the worker serves all
# clients that have sent something before it waits for others.

sub settle { $nginx->get('/term') for 1, 2 }


sub next_term {
    my ($before) = @_;

    $etcd->revoke($election->leader->{lease});

    return leads($before);
}


# The lock is lost while the body is read.

for (['plain', qr/^HTTP\S+ 503 /], ['named', qr/^HTTP\S+ 200 .*returned$/s],
     ['redirected', qr/^HTTP\S+ 200 .*returned$/s],
     ['unbuffered', qr/^HTTP\S+ 503 /])
{
    my ($name, $wanted) = @$_;

    my $socket = begin("/lock/$name");

    lose($name);
    refused($socket, $wanted, "a lost lock, $name");
}

# The leadership is lost while the body is read, and more of the body comes.

for (['plain', qr/^HTTP\S+ 503 /], ['named', qr/^HTTP\S+ 200 .*returned$/s],
     ['unbuffered', qr/^HTTP\S+ 503 /])
{
    my ($name, $wanted) = @$_;

    my $term = leads();
    my $begun = $one->counts->{connections};
    my $socket = begin("/leader/$name");

    settle();

    if ($name eq 'unbuffered') {
        wait_for { $one->counts->{connections} > $begun } 10, 'the server';
    }

    next_term($term);
    $socket->syswrite('d');
    refused($socket, $wanted, "the end of a term, $name");
}

# Requests that are refused, or answered, before nginx has begun to read the
# body.

for (['taken', qr/^HTTP\S+ 423 /], ['waits', qr/^HTTP\S+ 423 /],
     ['no-key', qr/^HTTP\S+ 400 /], ['page', qr/^HTTP\S+ 200 .*returned$/s],
     ['follower', qr/^HTTP\S+ 503 /], ['no-member', qr/^HTTP\S+ 502 /],
     ['status', qr/^HTTP\S+ 405 /])
{
    my ($name, $wanted) = @$_;

    refused(begin("/at-once/$name"), $wanted, $name);
}

for my $query ('', '?format=html', '?format=prometheus', '?format=none',
               '?upstream=none')
{
    my $socket = begin("/at-once/status$query", 'GET');

    unlike(rest($socket), qr/SMUGGLED/, "status$query: its body is no request");
}

# A request is refused while its body is read, and the body goes on to its end
# while an error page waits for its server.

sub asks_for_page {
    my ($what) = @_;

    wait_for { $two->requests } 10, "$what: the error page";
}


sub asked_once {
    my ($what) = @_;

    is($two->requests, 1, "$what: the error page was asked for once");
    is($one->requests, 0, "$what: and nothing else was");
    $two->reset;
}


for my $path ('/pages', '/term-pages') {
    my $term = leads();
    my $socket = begin($path, 'POST', $nginx->port('PORT_OTHER'));
    my $left = BODY - 3;

    settle();
    $two->set(hang => 1);

    if ($path eq '/pages') {
        lose('pages');

    } else {
        next_term($term);
        $left -= $socket->syswrite('d');
    }

    asks_for_page($path);
    $socket->syswrite('x' x $left);
    settle();
    $two->set(hang => 0);
    like(answer($socket), qr/^HTTP\S+ 200 .*two$/s, "$path: an answer");
    asked_once($path);
}

SKIP: {
    skip('this nginx has no HTTP/2', 7) if !$listens;

    for my $path ('/pages', '/term-pages') {
        my $term = leads();
        my $client = Http2->new($nginx->port('PORT_H2'));
        my $stream = $client->ask($path, 'abc');

        $client->settle();
        $two->set(hang => 1);
        $path eq '/pages' ? lose('pages') : next_term($term);
        $client->send_body($stream, 'def');
        asks_for_page("HTTP/2, $path");
        $client->end_body($stream, 'ghi');
        $client->settle();
        $two->set(hang => 0);
        is($client->answer($stream), '200 two', "HTTP/2, $path: an answer");
        asked_once("HTTP/2, $path");
    }
}

finish();
