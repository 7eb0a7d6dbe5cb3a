#!/usr/bin/perl

# The image of packaging/container/, started with the user, the command and the
# health check that it names, and as compose.yaml and Kubernetes start it: its
# root is read-only but for its volume, and it has no capability.  Run by
# tools/image_test, which gives it IMAGE, what buildah says of it, and
# IMAGE_ROOT, its files.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Etcd;
use Finish;
use Http;
use Process;
use Slurp;
use Wait;

use constant {
    WEB    => 8080,
    STATUS => 8081,
};

my $root = $ENV{IMAGE_ROOT}
    // plan(skip_all => 'started by tools/image_test only');
my $dir = test_dir();
my $config = decode_json(slurp($ENV{IMAGE}))->{Docker}{config};
my ($user) = $config->{User} =~ /^(\d+):\1$/;
my ($volume) = keys %{ $config->{Volumes} };

ok(defined $user && $user > 0, 'the user is not root');

# The script does what "docker run" would do.  A volume begins with what the
# image has there, and the user owns the output.

my $START = <<'EOT';
set -e
root=$1 volume=$2 site=$3 user=$4 data=$5
shift 5
chown "$user" /proc/self/fd/1
mount --make-rprivate /
mount --bind "$root" "$root"
mount --bind "$data" "$root$volume"
mount --bind "$site" "$root/etc/nginx/site"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$user" --clear-groups \
    --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
EOT


sub within {
    return ('unshare', '--mount', 'sh', '-c', $START, 'sh', $root, $volume,
            "$dir/site", $user, "$dir/data", @_);
}


my ($kind, @health) = @{ $config->{Healthcheck}{Test} };

is($kind, 'CMD', 'there is a health check');


sub status { Http->new(STATUS)->get($_[0])->{status} }
sub healthy { (run(within(@health)))[0] == 0 }


run('cp', '-a', "$root$volume", "$dir/data");

# site/ is that of the tree, with another address of etcd

my $etcd = Etcd->new()->start();

run('cp', '-r', "$FindBin::Bin/../../packaging/container/site", "$dir/site");
run('sed', '-i', 's|http://etcd:2379|' . $etcd->endpoints . '|',
    "$dir/site/etcd.conf");
run('chmod', '-R', 'a+rX', $dir);

my ($tested, $said) = run(within(qw(nginx -t)));

is($tested, 0, 'nginx -t') or diag($said);

my $log = "$dir/log";
my $nginx = spawn($log, within(@{ $config->{Cmd} }));

END { kill('KILL', $nginx) if $nginx }

ok((wait_for { status('/ready') == 200 } 20, 'ready'), 'it is ready')
    or diag(slurp($log));
ok(healthy(), 'and healthy');

my ($id) = slurp("/proc/$nginx/status") =~ /^Uid:\s+(\d+)/m;

is($id, $user, 'the user of the process');
like(slurp("/proc/$nginx/cmdline"), qr/^nginx: master/,
     'which is nginx itself');

my $backend = Backend->start('one');

$etcd->put('/services/api/1', $backend->address);
ok((wait_for { Http->new(WEB)->get('/')->{status} == 200 } 20, 'member'),
   'it routes to a member');

my $answer = Http->new(WEB)->get('/report');

like($answer->{headers}{'x-lock-token'} // '', qr/^\d+$/, 'it takes a lock')
    or diag("$answer->{status}");

ok((wait_for { slurp($log) =~ m{"GET /report HTTP/1\.\d"} } 20, 'the log'),
   'requests are logged to stdout');
like(slurp($log), qr/\[notice\] .*start worker process/, 'the rest to stderr');

# a reload

my ($reloaded, $output) = run(within(qw(nginx -s reload)));

is($reloaded, 0, 'a reload') or diag($output);
ok((wait_for { slurp($log) =~ /reconfiguring/ } 20, 'the reload'),
   'reaches nginx');
ok((wait_for { status('/ready') == 200 } 20, 'ready'), 'which is ready');

ok((wait_for { -s "$dir/data/etcd/default.state" } 20, 'the file'),
   'the volume has the state file');

# another container with the same volume, without etcd

is($config->{StopSignal}, 'SIGQUIT', 'it is told to quit');
ok(stop_child($nginx, 'QUIT', 30), 'and ends');
$etcd->stop();
ok(!healthy(), 'then it is not healthy');

$nginx = spawn($log, within(@{ $config->{Cmd} }));
ok((wait_for { status('/ready') == 200 } 20, 'ready'),
   'it starts again without etcd');
is(Http->new(WEB)->get('/')->{status}, 200, 'with its member');
ok(stop_child($nginx, 'QUIT', 30), 'and ends');
undef $nginx;

unlike(slurp($log), qr/\[(?:alert|crit|emerg)\]/, 'no alarm in the log')
    or diag(slurp($log));

finish();
