#!/usr/bin/perl

# Directives of locks that nginx -t refuses, with the reason, and those that it
# takes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Conf qw(location refused);
use Finish;
use Nginx;


# lines of "etcd", of which the first one is line 3

sub etcd {
    my (@lines) = @_;

    return join("\n", 'etcd {', '    endpoints 127.0.0.1:2379;', @lines, '}');
}


for (
    ['""', 'has an empty name'],
    ['/a/$uri', 'cannot have variables in its name: they belong in the key'],
    ['/a/', 'has a name that ends in a slash'],
    ['"/a b"', 'has a name with other than printable ASCII characters'],
    ['/' . 'a' x 512, 'has a name of more than 512 bytes'],
    ['/a ""', 'has an empty key'],
    ['/a empty=pass', 'has "empty=pass" without a key'],
    ['/a reuse=1,1s', 'has a TIME in "reuse=" without "wait="'],
    ['/a wait=1s reuse=1,1s permits=2',
     'has both a TIME in "reuse=" and "permits="'],
    ['/a shared=1 permits=2', 'has both "shared=" and "permits="'],
    ['/a reuse=2 handoff=1', 'has both "reuse=" and one of its former names, '
     . '"handoff=" and "linger="'],
    ['/a wait=1s linger=1s reuse=2', 'has both "reuse=" and one of its former '
     . 'names, "handoff=" and "linger="'],
)
{
    refused('etcd_lock ' . substr($_->[0], 0, 20),
            location("etcd_lock $_->[0];"),
            "\"etcd_lock\" directive $_->[1] in AT", 7);
}

for (
    ['permits=0', 'it must be between 1 and 1000000'],
    ['permits=1000001', 'it must be between 1 and 1000000'],
    ['permits=x', 'it must be between 1 and 1000000'],
    ['handoff=1024', 'it must be between 0 and 1023'],
    (map { [$_, 'it must be NUMBER or NUMBER,TIME, with a NUMBER between 1 and '
                . '1024 and a TIME of at most 10s'] }
     map { "reuse=$_" } '', 0, 1025, 'x', ',1s', '2,', '2,x', '2,11s',
                        '2,1s,1s'),
    ['queue=0', 'it must be between 1 and 2147483647'],
)
{
    refused("etcd_lock $_->[0]", location("etcd_lock /a $_->[0];"),
            "invalid parameter \"$_->[0]\": $_->[1] in AT", 7);
}

refused("etcd_lock $_", location("etcd_lock /a \$uri $_;"),
        "invalid parameter \"$_\": invalid value in AT", 7)
    for qw(wait=soon wait= cluster= empty= empty=refuse linger= linger=11s
           shared=);
refused('etcd_lock speed=1', location('etcd_lock /a $uri speed=1;'),
        'invalid parameter "speed=1" in AT', 7);
refused("etcd_lock $_ twice", location("etcd_lock /a \$uri $_ $_;"),
        "invalid parameter \"$_\": it is duplicate in AT", 7)
    for qw(wait=1s queue=1 permits=2 shared=1 reuse=2 handoff=1 linger=1s
           empty=pass cluster=default);

refused('etcd_lock and off', location('etcd_lock /a;', 'etcd_lock off;'),
        '"etcd_lock" directive cannot be both "off" and on in AT', 8);
refused('off and etcd_lock', location('etcd_lock off;', 'etcd_lock /a;'),
        '"etcd_lock" directive cannot be both "off" and on in AT', 8);
refused('etcd_lock twice', location('etcd_lock /a $uri;', 'etcd_lock /a x;'),
        '"etcd_lock" directive is duplicate in AT', 8);
refused('a lock with other permits',
        location('etcd_lock /a;',
                 'location /etcd/x { etcd_lock /a permits=2; }'),
        'lock "/a" differs from its definition in nginx.conf:7 in "permits=", '
        . '"reuse=", or in having a key in AT', 8);
refused("a lock with $_",
        location('etcd_lock /a wait=1s reuse=3,1s;',
                 "location /etcd/x { etcd_lock /a wait=1s $_; }"),
        'lock "/a" differs from its definition in nginx.conf:7 in "permits=", '
        . '"reuse=", or in having a key in AT', 8)
    for 'reuse=3', 'reuse=2,1s', 'reuse=3,2s';
refused('a lock with and without a key',
        location('etcd_lock /a;',
                 'location /etcd/x { etcd_lock /a $uri; }'),
        'lock "/a" differs from its definition in nginx.conf:7 in "permits=", '
        . '"reuse=", or in having a key in AT', 8);
refused('a lock below another one',
        location('etcd_lock /a;', 'etcd_lock /a/b $uri;'),
        'lock "/a/b" in nginx.conf:8 is below lock "/a" in AT', 7);
refused("$_ 99", location("$_ 99;"),
        'value must be between 400 and 599 in AT', 7)
    for qw(etcd_lock_status etcd_lock_unavailable_status);
refused('lock_ttl 1s', etcd('lock_ttl 1s;'),
        '"lock_ttl" directive must be at least 2s in AT', 3);
refused('lock_ttl soon', etcd('lock_ttl soon;'),
        '"lock_ttl" directive invalid value in AT', 3);
refused('lock_ttl twice', etcd('lock_ttl 2s;', 'lock_ttl 2s;'),
        '"lock_ttl" directive is duplicate in AT', 4);
refused('db_check soon', etcd('db_check soon;'),
        '"db_check" directive invalid value in AT', 3);
refused('lock_waiters 0', etcd('lock_waiters 0;'),
        'value must be equal to or greater than 1 in AT', 3);

# A connection that is a lock.

for (
    ['without etcd_lock', 'needs "etcd_lock"'],
    ['with a key to pass by', 'cannot be used with "empty=pass"',
     'etcd_lock /a $uri empty=pass;', 'etcd_lock /b;'],
    ['with a loss that changes nothing',
     'cannot be used with "etcd_lock_lost continue"',
     'etcd_lock /a;', 'etcd_lock_lost continue;'],
)
{
    my ($name, $why, @lines) = @$_;
    my ($ok, $output) = Nginx->new()->configtest(
        location(@lines, 'etcd_lock_serve;'));

    is($ok, 0, "etcd_lock_serve $name");
    like($output, qr/\[emerg\] "etcd_lock_serve" in location "\S+" \Q$why\E/,
         "etcd_lock_serve $name: refused");
}

refused('etcd_lock_serve twice',
        location('etcd_lock /a;', 'etcd_lock_serve;', 'etcd_lock_serve;'),
        '"etcd_lock_serve" directive is duplicate in AT', 9);
refused('etcd_lock_serve_ping 0', location('etcd_lock_serve_ping 0;'),
        'value must be equal to or greater than 1 in AT', 7);
refused('etcd_lock_serve_ping soon', location('etcd_lock_serve_ping soon;'),
        '"etcd_lock_serve_ping" directive invalid value in AT', 7);
refused('etcd_lock_serve_ping twice',
        location('etcd_lock_serve_ping 1s;', 'etcd_lock_serve_ping 1s;'),
        '"etcd_lock_serve_ping" directive is duplicate in AT', 8);
ok((Nginx->new()->configtest(location(
       'etcd_lock /a;', 'etcd_lock_serve;',
       'location /etcd/x { etcd_lock off; }')))[0],
   'a location within inherits no handler');

# Background subrequests go on when their request has its answer.

for (
    ['mirror', 'mirror /copy;'],
    ['proxy_cache_background_update', 'proxy_cache one;',
     'proxy_cache_background_update on;'],
    ['fastcgi_cache_background_update', 'fastcgi_cache two;',
     'fastcgi_cache_key $uri;', 'fastcgi_cache_background_update on;'],
)
{
    my ($directive, @lines) = @$_;
    my $cached = sub {
        $_[0] =~ s/http \{/http { proxy_cache_path one keys_zone=one:1m;
                                  fastcgi_cache_path two keys_zone=two:1m;/r;
    };

    for my $locks ('etcd_lock /a;', '') {
        my ($ok, $output) = Nginx->new()->configtest(
            $cached->(location($locks, 'etcd_lock_status 429;', @lines)));

        is($ok, $locks ? 0 : 1, "$directive, $locks");
        $locks or next;
        like($output, qr{\[emerg\] "$directive" cannot be used with "etcd_lock},
             "$directive: refused");
    }
}

ok((Nginx->new()->configtest(location(
       'proxy_cache_background_update on;', 'etcd_lock /a;',
       'location /etcd/x { etcd_lock off; mirror /copy; }')))[0],
   'no cache is used, and the mirror has no lock');

my ($fine, $said) = Nginx->new()->configtest(
    location('etcd_lock /ab wait=0 permits=1000000 reuse=1024;',
                         'etcd_lock /a $uri wait=1h cluster=default'
                         . ' empty=pass;',
                         'etcd_lock_status 599;', 'etcd_lock_lost continue;',
                         'location /etcd/x { etcd_lock off; }'));

ok($fine, 'the greatest values') or diag($said);

for (
    ['handoff=16', 'reuse=17,0ms'],
    ['wait=1s linger=2s', 'reuse=1,2000ms'],
    ['wait=1s handoff=3 linger=10s', 'reuse=4,10000ms'],
)
{
    my ($former, $now) = @$_;

    ($fine, $said) = Nginx->new()->configtest(
        location("etcd_lock /a $former;",
                 "location /etcd/x { etcd_lock /a wait=1s $now; }"));

    ok($fine, "$former is $now");
    like($said, qr/\[warn\] "handoff=" and "linger=" of "etcd_lock" are /,
         "$former: warned of");
    like($said, qr/ use "$now" instead in \S+:7$/m, "$former: what to write");
}

# A KEY that looks like a parameter.

for my $key ('permit=4', 'share=$pid', '_=', 'x=y') {
    for my $text (location("etcd_lock /a $key wait=1s;"),
                  join("\n", 'etcd {', 'endpoints 127.0.0.1:2379;', '}',
                       'stream {', 'server {', 'listen 127.0.0.1:%%PORT%%;',
                       "etcd_lock /a $key wait=1s;", 'return x;', '} }'))
    {
        ($fine, $said) = Nginx->new()->configtest($text);

        ok($fine, "a key $key");
        like($said, qr/\[warn\] "etcd_lock" has no parameter "\Q$key\E" and /,
             "a key $key: warned of");
        like($said, qr/ let a variable have this value in \S+:7$/m,
             "a key $key: where");
    }
}

for my $key ('$uri', 'permit', '=4', '4=4', 'A=4', '${uri}permit=4', '.a=4') {
    ($fine, $said) = Nginx->new()->configtest(location("etcd_lock /a $key;"));
    ok($fine, "a key $key");
    unlike($said, qr/warn/, "a key $key: without a word");
}

{
    my ($ok, $output) = Nginx->new()->configtest(
        location('etcd_lock /a/b $uri;')
        =~ s/http \{/http { upstream a { etcd_members \/a\/; }/r);

    ok($ok, 'a lock below members');
    like($output,
         qr{\[warn\] keys of lock "/a/b" in .*:7 overlap the prefix of},
         'a lock below members: warned of');
}

finish();
