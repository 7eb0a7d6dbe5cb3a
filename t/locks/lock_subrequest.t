#!/usr/bin/perl

# A subrequest takes no lock: it runs under the lock of its request, whose
# token the backend gets, and fails if its request does not hold that lock.

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

plan(skip_all => 'this nginx has no auth_request')
    if !Nginx::has(qw(http_auth_request_module));

my $etcd = Etcd->new()->start();
my $register = Register->start(work => 0);
my $nginx = Nginx->new(etcd => $etcd)->set(REGISTER => $register->address);

$nginx->write_file('page', '<!--# include virtual="/part?id=ssi" -->');
$nginx->write_file('outer', '<!--# include virtual="/inner" -->');
$nginx->write_file('inner', '<!--# include virtual="/part?id=deep" -->');
$nginx->write_file('several', '<!--# include virtual="/both?id=both" -->');
$nginx->write_file('free', '<!--# include virtual="/part?id=own" -->');
$nginx->write_file('other', '<!--# include virtual="/none?id=none" -->');
$nginx->write_file('keyed',
                   '<!--# include virtual="/key?id=same&key=1" -->'
                   . '<!--# include virtual="/key?id=another&key=2" -->');

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
        proxy_set_header X-Request $arg_id:$tokens:$etcd_lock_result;

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

        location = /keyed {
            etcd_lock /locks/keyed 1;
        }

        location = /key {
            etcd_lock /locks/keyed $arg_key;
            proxy_pass http://%%REGISTER%%/work;
        }

        location = /free {
            etcd_lock off;
        }

        location = /none {
            etcd_lock off;
            proxy_pass http://%%REGISTER%%/work;
        }

        # access control comes before the lock

        location = /guarded {
            auth_request /part;
            etcd_lock /locks/page wait=60s;
            proxy_pass http://%%REGISTER%%/work;
        }

        # an error page leads the request to the lock, and its mirror

        location = /mirrored {
            etcd_lock off;
            mirror /copy;
            error_page 418 = /part;
            proxy_intercept_errors on;
            proxy_pass http://127.0.0.1:%%PORT%%/teapot;
        }

        location = /teapot {
            etcd_lock off;
            return 418;
        }

        location = /copy {
            internal;
            etcd_lock /locks/page wait=60s;
            proxy_set_header X-Request copy:$tokens:$etcd_lock_result;
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


# The backend has seen nothing of a request that was refused.

sub refused {
    my ($id, $line) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $nginx->logs(qr/\[error\] .* etcd: lock $line/, 1, "$id: refused");
    is($register->count('enter', "$id:"), 0, "$id: it has done nothing");
}


for (['page', 'ssi', 'included'], ['outer', 'deep', 'included twice']) {
    my ($path, $id, $what) = @$_;
    my $answer = $nginx->get("/$path");

    is($answer->{status}, 200, "$what: is answered");
    like($answer->{headers}{'x-token'}, qr/^\d+$/, "$what: the token");
    is(got($id), "$answer->{headers}{'x-token'}:acquired",
       "$what: the subrequest has it");
    $lock->gone('/locks/page', "$what: nothing is left");
}

$nginx->get('/other');
is(got('none'), ':', 'one without locks has none of its parent');

my $key = $nginx->get('/keyed');

like(got('same'), qr/^$key->{headers}{'x-token'}:/, 'the same key');
like($key->{body}, qr/500 Internal/, 'another one: 500');
refused('another', qr{"/locks/keyed/2" refuses subrequest "/key", whose});

my $acquired = $lock->count('/locks/page', 'acquired');

like($nginx->get('/several')->{body}, qr/500 Internal/, 'a lock beside it');
refused('both', qr{"/locks/also" refuses subrequest "/both", whose});
like($nginx->get('/free')->{body}, qr/500 Internal/, 'a request without it');
refused('own', qr{"/locks/page" refuses subrequest "/part", whose});
is($nginx->get('/guarded?id=auth')->{status}, 500, 'a request before it');
refused('auth', qr{"/locks/page" refuses subrequest "/part", whose.*/guarded});
is($nginx->get('/mirrored?id=page')->{status}, 200, 'a request with a mirror');
refused('copy', qr{"/locks/page" refuses subrequest "/copy", which runs in});
is($lock->count('/locks/page', 'acquired'), $acquired + 2,
   'only requests have had locks');
$lock->gone($_, "$_: nothing is left")
    for qw(/locks/page /locks/also /locks/keyed);

finish();
