#!/usr/bin/perl

# etcd_status in subrequests and for HEAD: nothing but what was asked for goes
# to the client.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Etcd;
use Finish;
use Http;
use Nginx;

plan(skip_all => 'this nginx has no auth_request')
    if !Nginx::has(qw(http_auth_request_module));

# beyond the size of an answer that is written at once

use constant MEMBERS => 500;

my @formats = qw(json prometheus html);

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);

my $locations = join('', map { <<"END" } @formats);
        location = /$_ {
            etcd_status $_ members=on;
        }

        location = /auth/$_ {
            auth_request /$_;
            return_file;
        }

        location = /mirror/$_ {
            mirror /$_;
            return_file;
        }

        location = /ssi/$_ {
            ssi on;
            ssi_types *;
            try_files /ssi.$_ =404;
        }
END

$locations =~ s/return_file/try_files \/file =404/g;

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /api/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        root %%DIR%%;

        location = /status {
            etcd_status;
        }

        LOCATIONS
    }
}

END

$config =~ s/ *LOCATIONS\n/$locations/;

$nginx->write_file('file', 'FILE');
$nginx->write_file("ssi.$_", "[<!--# include virtual=\"/$_\" -->]")
    for @formats;
$nginx->start($config);

$etcd->txn(map { [put => "/api/$_", '127.0.0.1:' . (10000 + $_)] }
           $_ * 100 + 1 .. $_ * 100 + 100) for 0 .. MEMBERS / 100 - 1;
$nginx->upstream('api')->sees($etcd->revision);


# all that comes for one request, after which the client is not closed at once

sub raw {
    my ($method, $path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port);

    print $socket "$method $path HTTP/1.1\r\nHost: a\r\n\r\n"
                  . "GET /file HTTP/1.1\r\nHost: a\r\n"
                  . "Connection: close\r\n\r\n";

    return Http::read_all($socket);
}


my $file = qr{HTTP/1\.1\ 200\ OK\r\n (?:[^\r]+\r\n)+ \r\n FILE}x;
my $head = qr{HTTP/1\.1\ 200\ OK\r\n (?:[^\r]+\r\n)+ \r\n}x;

for my $format (@formats) {
    for my $way (qw(auth mirror)) {
        for (1, 2) {
            like(raw('GET', "/$way/$format"), qr/^$file$file$/,
                 "/$way/$format: the file, and nothing else");
        }
    }

    like(raw('HEAD', "/$format"), qr/^$head$file$/, "HEAD /$format: no body");
    like(raw('HEAD', "/auth/$format"), qr/^$head$file$/,
         "HEAD /auth/$format: no body");

    my $text = $nginx->get("/$format")->{body};
    my $included = $nginx->get("/ssi/$format")->{body};

    is(substr($included, 0, 20), '[' . substr($text, 0, 19),
       "/ssi/$format: the status");
    like($included, qr/\]$/, "/ssi/$format: to its end");
}

finish();
