#!/usr/bin/perl

# A subrequest that relies on a lock of its request has the variables of that
# lock: the backend gets the token.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Lock;
use Nginx;
use Register;
use Wait;

my $etcd = Etcd->new()->start();
my $register = Register->start(work => 0);
my $nginx = Nginx->new(etcd => $etcd)->set(REGISTER => $register->address);

$nginx->write_file('page', '<!--# include virtual="/part?id=ssi" -->');
$nginx->write_file('outer', '<!--# include virtual="/inner" -->');
$nginx->write_file('inner', '<!--# include virtual="/part?id=deep" -->');
$nginx->write_file('several', '<!--# include virtual="/both?id=both" -->');
$nginx->write_file('free', '<!--# include virtual="/part?id=own" -->');
$nginx->write_file('other', '<!--# include virtual="/none?id=none" -->');

$nginx->start(<<'EOF_CONFIG');

etcd {
    endpoints %%ETCD%%;
}

http {
    map $etcd_lock_token $tokens {
        volatile;
        default              $etcd_lock_token;
        "~^(\d+), (\d+)$"    $1+$2;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        root %%DIR%%;
        ssi on;
        ssi_types *;

        add_header X-Token $etcd_lock_token;
        proxy_method POST;
        proxy_set_header X-Request $arg_id:$tokens:$etcd_lock_status;

        location = /status {
            etcd_status;
        }

        location / {
            etcd_lock /locks/page wait=60s;
        }

        location = /part {
            etcd_lock /locks/page wait=60s;
            proxy_pass http://%%REGISTER%%/work;
        }

        location = /both {
            etcd_lock /locks/page wait=60s;
            etcd_lock /locks/also wait=60s;
            proxy_pass http://%%REGISTER%%/work;
        }

        location = /free {
            etcd_lock off;
        }

        location = /none {
            etcd_lock off;
            proxy_pass http://%%REGISTER%%/work;
        }

        location = /mirrored {
            etcd_lock /locks/page wait=60s;
            mirror /copy;
            proxy_pass http://%%REGISTER%%/work;
        }

        location = /copy {
            internal;
            etcd_lock /locks/page wait=60s;
            proxy_set_header X-Request copy:$tokens:$etcd_lock_status;
            proxy_pass http://%%REGISTER%%/work;
        }
    }
}

EOF_CONFIG

my $lock = Lock->new($nginx, $etcd);


# "TOKENS:STATUS" of a request, as the backend has received them

sub got {
    my ($id) = @_;

    wait_for { $register->count('write', "$id:") } 10, "$id";

    my ($event) = grep { ($_->{request} // '') =~ /^\Q$id\E:/ }
        $register->history;

    return ($event // {})->{request} =~ s/^\Q$id\E://r;
}

for (['page', 'ssi', 'included'], ['outer', 'deep', 'included twice'],
     ['mirrored?id=main', 'copy', 'a mirror'])
{
    my ($path, $id, $what) = @$_;
    my $answer = $nginx->get("/$path");

    is($answer->{status}, 200, "$what: is answered");
    like($answer->{headers}{'x-token'}, qr/^\d+$/, "$what: the token");
    is(got($id), "$answer->{headers}{'x-token'}:acquired",
       "$what: the subrequest has it");
    $lock->gone('/locks/page', "$what: nothing is left");
}

my $token = $nginx->get('/several')->{headers}{'x-token'};

like(got('both'), qr/^\d+\+$token:acquired$/, 'a lock of its own beside it');
$nginx->get('/free');
like(got('own'), qr/^\d+:acquired$/, 'a lock of its own alone');
$nginx->get('/other');
is(got('none'), ':', 'one without locks has none of its parent');
$lock->gone($_, "$_: nothing is left") for qw(/locks/page /locks/also);

finish();
