#!/usr/bin/perl

# Requests that are refused while their body is read, and error pages from
# another server: it gets a request that is complete, and none of the body.

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


# A backend that says what it gets: the method, the body's length, and what
# nginx says of the length.

package Heard {
    our @ISA = ('Backend');

    sub take_request {
        my ($self, $client) = @_;

        my ($head) = $client->{input} =~ /^(.*?\r\n\r\n)/s or return;
        my $size = length($client->{input});

        $self->SUPER::take_request($client) or return;

        $size -= length($client->{input}) + length($head);
        push @{ $self->{seen} },
            ($head =~ /^(\S+)/)[0] . " $size"
            . ($head =~ /^transfer-encoding:/im ? ' chunked' : '')
            . ($head =~ /^x-length: *(\S+)/im ? " ($1)" : '');

        return 1;
    }
}


my $etcd = Etcd->new()->start();
my $election = Election->new($etcd, '/e/main');
my $one = Backend->start('one');
my $heard = Heard->start('heard');

my $nginx = Nginx->new(etcd => $etcd)->set(ONE => $one->address,
                                           HEARD => $heard->address);

my $listens = Http2::listens('PORT_H2');

$nginx->write_file('sorry', 'a file');

$nginx->start(<<'END' =~ s/%%LISTENS%%/$listens/r);

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election main /e/main ttl=10s;
}

http {
    upstream heard {
        server %%HEARD%%;
        keepalive 1;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /term {
            return 200 "$etcd_is_leader_main:$etcd_election_revision_main";
        }
    }

    server {
        %%LISTENS%%
        listen 127.0.0.1:%%PORT_PAGES%%;
        root %%DIR%%;

        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header X-Length $content_length;
        error_page 503 =200 @heard;

        location = /lock {
            etcd_lock /locks/one wait=600s;
            proxy_pass http://%%ONE%%;
        }

        location = /lock/unbuffered {
            etcd_lock /locks/one wait=600s;
            proxy_request_buffering off;
            proxy_pass http://%%ONE%%;
        }

        location = /lock/redirected {
            etcd_lock /locks/one wait=600s;
            error_page 503 =200 /heard;
            proxy_pass http://%%ONE%%;
        }

        location = /lock/file {
            etcd_lock /locks/one wait=600s;
            error_page 503 =200 @file;
            proxy_pass http://%%ONE%%;
        }

        location = /leader {
            etcd_require_leader main;
            proxy_pass http://%%ONE%%;
        }

        location = /leader/unbuffered {
            etcd_require_leader main;
            proxy_request_buffering off;
            proxy_pass http://%%ONE%%;
        }

        location = /heard {
            proxy_pass http://heard;
        }

        location @heard {
            proxy_pass http://heard;
        }

        location @file {
            try_files /sorry =404;
        }
    }
}

END

my $lock = Lock->new($nginx, $etcd);


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


# Calls more() to send more of the body, without which the end of a term is not
# noticed.

sub refuse {
    my ($path, $term, $n, $more) = @_;

    settle();

    if ($path =~ /unbuffered/) {
        wait_for { $one->counts->{connections} > $n } 10, 'the server';
    }

    if ($path =~ /lock/) {
        wait_for { $lock->count('/locks/one', 'held') } 10, 'the lock';
        $etcd->del(($lock->keys('/locks/one'))[0]);

    } else {
        $etcd->revoke($election->leader->{lease});
        leads($term);
        $more->();
    }
}


# The server of the page takes one request after the other on a connection.

sub hears {
    my ($wanted, $what) = @_;

    is(Http->new($nginx->port('PORT_PAGES'))->get('/heard')->{body}, 'heard',
       "$what: the next one is answered");

    my $counts = $heard->counts;

    is_deeply($counts->{seen}, [$wanted, 'GET 0'], "$what: as requested");
    is($counts->{open}, 1, "$what: on the same connection");
    $heard->reset;
}


sub http1 {
    my ($path, $method, $chunked) = @_;

    my $what = "$path, $method" . ($chunked ? ', chunked' : '');
    my $term = leads();
    my $n = $one->counts->{connections};
    my $client = Http->new($nginx->port('PORT_PAGES'));

    $client->send($method, $path, undef,
                  $chunked ? ('Transfer-Encoding' => 'chunked')
                           : ('Content-Length' => BODY));
    $client->write_all($chunked ? "5\r\nabc" : 'abc');
    refuse($path, $term, $n, sub { $client->write_all('d') });

    my $answer = $client->receive_once;

    is("$answer->{status} $answer->{body}",
       $path =~ /file/ ? '200 a file' : '200 heard', "$what: an answer");
    is($answer->{headers}{connection}, 'close', "$what: the last one");
    hears('GET 0 (0)', $what) if $path !~ /file/;
}


$one->set(hang => 1);

my @paths = ('/lock', '/lock/unbuffered', '/leader', '/leader/unbuffered');

for my $path (@paths, '/lock/redirected', '/lock/file') {
    http1($path, 'POST', $_) for 0, 1;
}

http1('/lock', 'PUT', 0);

# A body that nginx has read completely goes to the page, unless the body went
# through nginx.

for (['/lock', 'POST ' . BODY . ' (' . BODY . ')'],
     ['/lock/unbuffered', 'GET 0 (0)'])
{
    my ($path, $wanted) = @$_;

    my $n = $one->counts->{connections};
    my $client = Http->new($nginx->port('PORT_PAGES'));

    $client->send('POST', $path, undef, 'Content-Length' => BODY);
    $client->write_all('x');

    if ($path =~ /unbuffered/) {
        wait_for { $one->counts->{connections} > $n } 10, 'the server';
    }

    my $requests = $one->requests;

    $client->write_all('x' x (BODY - 1));
    wait_for { $one->requests > $requests } 10, 'the request';
    refuse($path, undef, $n);
    is($client->receive_once->{body}, 'heard', "$path, complete: an answer");
    hears($wanted, "$path, complete");
}

SKIP: {
    skip('this nginx has no HTTP/2', 16) if !$listens;

    for my $path (@paths) {
        my $term = leads();
        my $n = $one->counts->{connections};
        my $client = Http2->new($nginx->port('PORT_H2'));
        my $stream = $client->ask($path, 'abc');

        $client->settle();
        refuse($path, $term, $n, sub { $client->send_body($stream, 'd') });
        is($client->answer($stream), '200 heard', "HTTP/2, $path: an answer");
        hears('GET 0 (0)', "HTTP/2, $path");
    }
}

finish();
