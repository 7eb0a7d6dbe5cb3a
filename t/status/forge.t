#!/usr/bin/perl

# Texts of others in the error log as part of a line: keys of etcd that nginx
# did not put, and texts of a server.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Fake;
use Finish;
use Nginx;
use Protobuf;
use Wait;

# a line as nginx writes it, of an impossible time

my $forged = "1999/12/31 23:59:59 [warn] 1#1: forged \"line\"\e[2J\x7f\xff";
my $escaped = '1999/12/31 23:59:59 [warn] 1#1: forged \"line\"\x1b[2J\x7f'
              . '\xff';

my $etcd = Etcd->new()->start();
my ($backend) = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd);

# WatchResponse: header, created, canceled, cancel_reason

my $canceled = $nginx->write_file('canceled',
    answer_header() . field(3, VARINT, 1) . field(4, VARINT, 1)
    . field(6, BYTES, "permission denied: canceled\r\n$forged"));

my $cancels = Fake->new()->start('ok', '--answer', "Watch=$canceled");
my $refuses = Fake->new()->start('trailers-only:7:refused%0d%0a'
                                 . $forged =~ s/[^\w ]/sprintf('%%%02x',
                                                               ord($&))/ger);

$etcd->put("/locks/foreign/x\n$forged", 'x');
$etcd->put("/elections/e/x\n$forged", 'x');
$etcd->put('/members/1', "not\n$forged");
$etcd->put("/members/2\n$forged", 'not one');

# all levels, if nginx has debug levels

local $ENV{TEST_LOG} = 'debug';

$nginx->set(CANCELS => $cancels->endpoints, REFUSES => $refuses->endpoints,
            BACKEND => $backend->address)->start(<<'EOF');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election e /elections/e ttl=30s;
}

etcd cancels {
    endpoints %%CANCELS%%;
}

etcd refuses {
    endpoints %%REFUSES%%;
}

http {
    upstream members {
        etcd_members /members/;
    }

    upstream cancels {
        etcd_members /m/ cluster=cancels;
    }

    upstream refuses {
        etcd_members /m/ cluster=refuses;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /locked {
            etcd_lock /locks/foreign wait=200ms;
            proxy_pass http://%%BACKEND%%;
        }

        location / {
            return 200 "$etcd_leader_e";
        }
    }
}

EOF


sub says {
    my ($name, $text, $times) = @_;

    my $line = qr/^\d{4}\/.*\Q$text\E/;

    ok(wait_for(sub { $nginx->count_log($line) }, 10, $name), $name);
}


is($nginx->get('/locked')->{status}, 423, 'a foreign key counts');

says('a key below a lock',
     "key \"/locks/foreign/x\\x0a$escaped\" is not named after a lease");
says('a key below an election',
     "first candidate is \"/elections/e/x\\x0a$escaped\" (revision ");
says('a value', 'key "/members/1" at revision ');
says('the key of a value',
     "key \"/members/2\\x0a$escaped\" at revision ");
says('why a server cancels a watch',
     "permission denied: canceled\\x0d\\x0a$escaped");
says('why a server refuses', "refused\\x0d\\x0a$escaped");

is($nginx->get('/')->{body}, '', 'who is no candidate is no value');

# No line of the log was written by others.

$nginx->quit();

unlike($nginx->error_log, qr/^1999/m, 'no line begins in them');
unlike($nginx->error_log, qr/[\e\x7f\xff]/, 'none of their bytes moves a '
       . 'cursor');

finish();
