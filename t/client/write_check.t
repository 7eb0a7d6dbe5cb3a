#!/usr/bin/perl

# "write_check" says which keys the user may not write, once, and writes nothing
# to find out.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;
use Wait;

my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();
my $nginx = Nginx->new(etcd => $etcd);

$etcd->user_add('nginx', 'password', '/team/read/');
$etcd->grant_right('nginx', 'write', '/team/write/');
$etcd->grant_right('nginx', 'readwrite', '/team/both/');
$etcd->auth_enable('root');
$nginx->write_secret('password', "password\n");

my $revision = $etcd->revision;

$nginx->start(<<'EOC');
worker_processes 3;

etcd {
    endpoints %%ETCD%%;
    namespace /team;
    user nginx;
    password_file password;
    request_timeout 2s;

    write_check /read/x;
    write_check /write/x;
    write_check /both/x;
    write_check /none/x;
}
EOC

my %answers = (
    read  => qr{key "/read/x" cannot be written: permission denied},
    write => qr{key "/write/x" cannot be written: permission denied},
    both  => qr{key "/both/x" can be written},
    none  => qr{key "/none/x" cannot be written: permission denied},
);

becomes { $nginx->count_log($answers{none}) } 1, 'the last key', 20;
is($nginx->count_log($answers{$_}), 1, "the right for $_")
    for sort keys %answers;
is($nginx->count_log(qr/\[error\].*cannot be written/), 3, 'errors of three');
is($etcd->revision, $revision, 'nothing was written');
is_deeply([$etcd->list('/team/')], [], 'no key is there');

# an etcd that is away is asked when it is back

$nginx->stop();
$etcd->stop();
$nginx->start();
ok((wait_for { $nginx->count_log(qr/connect\(\) failed/) } 20), 'attempts');
is($nginx->count_log($answers{both}), 1, 'no answer without etcd');
$etcd->restart();
becomes { $nginx->count_log($answers{both}) } 2, 'when etcd is back', 30;

finish();
