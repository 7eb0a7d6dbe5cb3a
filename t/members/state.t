#!/usr/bin/perl

# state_path: a start without etcd, and the way on when etcd is there.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Path qw(remove_tree);
use Test::More;

use Backend;
use Becomes;
use Etcd;
use Example;
use Finish;
use Http;
use Load;
use Nginx;
use Slurp;
use State;
use Wait;


my $etcd = Etcd->new()->start();
my @backends = Backend->start('one', 'two', 'three');
my ($at1, $at2, $at3) = map { $_->address } @backends;

# etcd refuses connections while it is away, and may be slow while it is there:
# nothing is to be read again because of that.

my $nginx = Nginx->new(etcd => $etcd)->set(
    ONE     => $at1,
    TEAM    => "/\xff",
    PATIENT => 'connect_timeout 60s; ping_timeout 60s;',
);
my $dir = $nginx->dir . '/state';
my $file = "$dir/default.state";

my $config = <<'EOC';

thread_pool default threads=1;

etcd {
    endpoints %%ETCD%%;
    %%PATIENT%%
    state_path %%DIR%%/state/;
}

etcd team {
    endpoints %%ETCD%%;
    namespace %%TEAM%%;
    %%PATIENT%%
    state_path %%DIR%%/state;
}

http {
    proxy_next_upstream off;

    upstream api {
        etcd_members /services/api/;
        etcd_guard off;
    }

    upstream keep {
        etcd_members /keep/ on_empty=keep;
    }

    upstream static {
        server %%ONE%% weight=3;
        etcd_members /static/;
        etcd_guard off;
    }

    upstream odd {
        etcd_members /odd/;
        etcd_allow unix: 0.0.0.0/0 ::/0;
    }

    upstream empty {
        etcd_members /empty/;
    }

    upstream team {
        etcd_members /services/api/ cluster=team;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }
}

EOC


# the file, decoded: { upstream => { revision, members => { key => member } } }

sub saved {
    return { map { $_->{name} => {
                       %$_,
                       members => { map { $_->{key} => $_ }
                                    @{ $_->{members} } },
                   } } @{ saved_state($file)->{sets} // [] } };
}


# Waits until the file has exactly these keys of an upstream.

sub keeps {
    my ($name, @keys) = @_;

    my $wanted = join(' ', sort @keys);

    return wait_for {
        my $upstream = saved()->{$name} or return 0;
        join(' ', sort keys %{ $upstream->{members} }) eq $wanted
    } 10, "$wanted of $name in the file";
}


sub ranges { return $etcd->metric('etcd_mvcc_range_total') }
sub in_dir { return sort map { s{.*/}{}r } glob("$dir/*"), glob("$dir/.??*") }
sub synced { return ($nginx->status // return)->{clusters}{default}{state}
                    eq 'synced' }


# A file that is being written is beside them for a moment.

sub holds_only {
    my ($files, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $seen;

    wait_for { ($seen = join(' ', in_dir())) eq $files } 10, $name;

    return is($seen, $files, $name);
}


# nginx -t makes the directory, as it makes all paths of nginx, and writes
# nothing.

my ($ok, $messages) = $nginx->configtest($config);

ok($ok, 'nginx -t') or diag($messages);
is(join(' ', in_dir()), '', 'it has written nothing');

# contents of the file

$etcd->put('/services/api/1', $at1);
$etcd->put('/services/api/2',
           "{\"address\":\"$at2\",\"weight\":2,\"max_fails\":7,"
           . '"fail_timeout":"1m","max_conns":9,"slow_start":"1500ms",'
           . '"drain":false,"route":"two"}');
$etcd->txn([put => '/keep/1', $at1], [put => '/keep/2', $at2]);
$etcd->put('/static/1', $at2);
$etcd->put("/odd/\x01\"\n", '[::1]:80');
$etcd->put("/odd/\xc3\xa4", 'unix:/run/odd.sock');
$etcd->put("/\xff/services/api/t", $at3);
$etcd->put('/odd/down', '{"address":"127.0.0.9:80","down":true}');

$nginx->start($config);

ok(keeps('api', '/services/api/1', '/services/api/2'), 'members are saved');
ok(wait_for(sub { grep { $_->{key} eq '/services/api/t' }
                  state_members("$dir/team.state") }, 10),
   'those of another cluster in another file');
is(saved_state("$dir/team.state")->{namespace}, "/\xff",
   'bytes that are no text');
is(saved()->{api}{members}{'/services/api/2'}{route}, 'two', 'with a route');
is_deeply([sort keys %{ saved()->{static}{members} }], ['/static/1'],
          'static servers are not');

$nginx->upstream('keep')->sees($etcd->del_prefix('/keep/'));

my $info = saved_state($file);

is($info->{version}, 2, 'a version, and a right checksum');
is($info->{cluster}, 'default', 'the cluster');
is($info->{cluster_id},
   $nginx->status->{clusters}{default}{cluster_id}, 'its id');
is(state_text($info), slurp($file), 'its form');
is((stat($file))[2] & 07777, 0600, 'the file is of its user alone');
holds_only('default.state team.state', 'there is nothing beside it');

my %known = map { $_ => $nginx->upstream($_)->status }
    qw(api keep static odd empty team);
my $before = saved();

delete $_->{generation} for values %known;

# a start without etcd

ok($nginx->quit(), 'nginx quits');
$etcd->stop();

my $newest = saved();

is(scalar(grep { $_->{gone} } values %{ $newest->{keep}{members} }), 2,
   'what on_empty=keep has kept is told from the rest');

$nginx->start();

is($nginx->get('/to/api')->{status}, 200, 'the first request is routed');
is_deeply([sort keys %{ $nginx->tally('/to/api', 9) }], ['one', 'two'],
          'and all the next');
is_deeply([sort keys %{ $nginx->tally('/to/keep', 8) }], ['one', 'two'],
          'on_empty=keep too');
is_deeply([sort keys %{ $nginx->tally('/to/static', 8) }], ['one', 'two'],
          'beside a static server');
is($nginx->who('team'), 'three', 'and another cluster');
is($nginx->get('/to/empty')->{status}, 502, 'no member where there was none');

for my $name (sort keys %known) {
    my $now = $nginx->upstream($name)->status;

    for my $upstream ($now, $known{$name}) {
        delete @$upstream{qw(generation revision staleness_ms refused responses
                             sent received response_time)};
        $upstream->{members} = [ sort { $a->{address} cmp $b->{address} }
                                 map { { %$_, requests => 0 } }
                                 @{ $upstream->{members} } ];
    }

    is_deeply($now, $known{$name}, "$name is as it was");
}

$nginx->logs(qr/\[notice\].*members of revision \d+ are from state/, 2,
             'the log says where they are from');
is($nginx->count_log(qr/state file .* is not used/), 0, 'and no more');

ok($nginx->quit(), 'it quits');
is_deeply(saved(), $newest, 'the file is as it was');

delete $_->{gone}
    for map { values %{ $_->{keep}{members} } } $newest, $before;

for my $name (sort keys %$before) {
    is_deeply($newest->{$name}{members}, $before->{$name}{members},
              "$name: every attribute");
}

# etcd comes back: nothing is listed.

$nginx->start();
is($nginx->get('/to/api')->{status}, 200, 'again without etcd');
$etcd->start();
ok(wait_for(\&synced, 20), 'etcd is back');
$etcd->put('/services/api/3', $at3);
$nginx->upstream('api')->shows({ '/services/api/1' => "$at1 1 up",
                                 '/services/api/2' => "$at2 2 up",
                                 '/services/api/3' => "$at3 1 up" },
                               'changes arrive');
is($nginx->status->{clusters}{default}{resyncs}, 0, 'nothing was read again');

$etcd->del("/odd/\x01\"\n");
$etcd->del("/odd/\xc3\xa4");
$nginx->upstream('odd')->shows({ '/odd/down' => '127.0.0.9:80 1 down' },
                               'keys of any bytes were the same');

# changes while nginx is away

ok($nginx->quit(), 'nginx is away');
is((keys %{ saved()->{api}{members} }), 3, 'the last change is in the file');

$etcd->put('/services/api/4', "$at3");
$etcd->del('/services/api/3');
$etcd->del('/services/api/1');

my $ranges = ranges();

$nginx->start();
$nginx->upstream('api')->shows({ '/services/api/2' => "$at2 2 up",
                                 '/services/api/4' => "$at3 1 up" },
                               'changes while nginx was away');
is(ranges(), $ranges, 'without a list');

# A reload does not read the file, and its watch goes on.

my $good = slurp($file);

open(my $out, '>', $file) or die "open $file: $!\n";
print $out 'garbage';
close($out);

ok($nginx->reload(), 'reloaded');
is_deeply([sort keys %{ $nginx->tally('/to/api', 9) }], ['three', 'two'],
          'members stay');
is($nginx->count_log(qr/state file .* is not used/), 0,
   'the file was not read');
ok(keeps('api', '/services/api/2', '/services/api/4'),
   'the new agent has written it anew');
is(ranges(), $ranges, 'without a list');

# Another agent saves.

my $agent = $nginx->status->{agent}{pid};

$nginx->kill_worker($agent);
ok(wait_for(sub { ($nginx->status // return)->{agent}{pid} != $agent }, 10),
   'another agent');
$etcd->put('/services/api/5', $at1);
ok(keeps('api', map { "/services/api/$_" } 2, 4, 5), 'saves');

# Everything is killed.

ok($nginx->crash(), 'nginx dies');
$etcd->kill();

# a file that a killed process may leave behind

my $left = "$file.99999999.tmp";

open($out, '>', $left) or die "open $left: $!\n";
close($out);

$nginx->start();
is_deeply([sort keys %{ $nginx->tally('/to/api', 9) }],
          ['one', 'three', 'two'], 'routed after a crash of everything');
holds_only('default.state team.state', 'nothing is left behind');

ok($nginx->crash(), 'nginx dies again');
$etcd->start();

# compaction while nginx is away

$etcd->del('/services/api/5');
$etcd->put('/services/api/6', $at1) for 1 .. 3;
$etcd->compact();
$nginx->start();
$nginx->upstream('api')->shows({ '/services/api/2' => "$at2 2 up",
                                 '/services/api/4' => "$at3 1 up",
                                 '/services/api/6' => "$at1 1 up" },
                               'compacted while nginx was away');
$nginx->logs(qr/"default": prefix "\/services\/.*compacted/, 1,
             'it was listed, and the log says why');

# Keys that are no members show again after a restart.

$etcd->put('/services/api/bad', 'no address');
$nginx->upstream('api')->sees($etcd->put('/services/api/6', $at1));
ok($nginx->quit(), 'with an invalid key nginx quits');
is(saved()->{api}{revision}, 0, 'its upstream is to be listed');
$nginx->start();
ok(wait_for(sub { $nginx->upstream('api')->invalid->{'/services/api/bad'} },
            10),
   'so the key shows');
$nginx->upstream('api')->sees($etcd->del('/services/api/bad'));

# A restored etcd: the revision went back.

ok($nginx->quit(), 'nginx quits');
$etcd->stop();
remove_tree($etcd->{data});
$etcd->start();
$etcd->put('/services/api/new', $at2);

$nginx->start();
$nginx->upstream('api')->shows({ '/services/api/new' => "$at2 1 up" },
                               'etcd was emptied while nginx was away');
$nginx->upstream('static')->shows({ $at1 => "$at1 3 up" }, 'in all upstreams');
$nginx->logs(qr/"default": the revision went back/, 1, 'the log says so');

# another cluster

my $other = Etcd->new()->start();

$other->put('/filler', $_) for 1 .. 20;
$other->put('/services/api/other', $at3);

ok($nginx->quit(), 'nginx quits');
$nginx->set(ETCD => $other->endpoints)->start($config);
$nginx->upstream('api')->shows({ '/services/api/other' => "$at3 1 up" },
                               'another cluster');
$nginx->logs(qr/"default": another cluster answers/, 1, 'the log says so');
ok(keeps('api', '/services/api/other'), 'it is saved');

# a burst of changes under load: few files, no request fails

my $load = Load->start($nginx->port, path => '/to/api');
my %files;
my $started = time();

for my $n (1 .. 100) {
    $other->put('/services/api/' . $n % 10, $backends[$n % 3]->address);
    $files{ join('.', (stat($file))[1, 9, 10]) } = 1;
}

ok(wait_for(sub {
    $files{ join('.', (stat($file))[1, 9, 10]) } = 1;
    my $last = saved()->{api}{members}{'/services/api/9'};
    $last && $last->{mod_revision} == $other->revision - 1
}, 10), 'the last of 100 changes is saved');

cmp_ok(scalar(keys %files), '<=', 3 + time() - $started,
       'a file a second at most');

my $seen = $load->results();

cmp_ok($seen->{requests}, '>', 50, 'under load');
is(scalar(@{ $seen->{failed} }), 0, 'no request failed')
    or diag(Load::describe($seen));

# a full disk, and no place to write to

my $failed = qr/\[error\].*state cannot be saved/;

my $disk = Disk->mount($dir);

$disk->fill();
$other->put('/services/api/full', $at1);
ok(wait_for(sub { $nginx->count_log($failed) }, 10), 'a full disk: an error');
like($nginx->error_log, qr/be saved: write\(\) "\Q$file\E" failed \(28: /,
     'names the file');
is($nginx->get('/to/api')->{status}, 200, 'requests are served');
ok(wait_for(sub { $nginx->count_log(qr/\[info\].*cannot be saved/) }, 20),
   'it is tried again');
$nginx->logs($failed, 1, 'there is one error');
holds_only('filler', 'no half of a file is left');

$disk->empty();
ok(wait_for(sub { $nginx->count_log(qr/\[notice\].*is saved again/) }, 20),
   'the end of it is told');
ok(exists saved()->{api}{members}{'/services/api/full'}, 'all is saved');
$disk->stop();

rename($dir, "$dir.away") or die "rename: $!\n";
open($out, '>', $dir) or die "open $dir: $!\n";
close($out);

$other->put('/services/api/x', $at1);
ok(wait_for(sub { $nginx->count_log($failed) == 2 }, 10), 'an error');
like($nginx->error_log, qr/cannot be saved: open\(\) "\Q$file\E" failed \(20: /,
     'names the file');
is($nginx->get('/to/api')->{status}, 200, 'requests are served');
ok(wait_for(sub { $nginx->count_log(qr/\[info\].*saved: open.*\(20: /) }, 20),
   'it is tried again');
$nginx->logs($failed, 2, 'there is one error');

unlink($dir);
rename("$dir.away", $dir) or die "rename: $!\n";
ok(wait_for(sub { $nginx->count_log(qr/is saved again/) == 2 }, 20),
   'the end of it is told');
ok(exists saved()->{api}{members}{'/services/api/x'}, 'all is saved');

# A refused file is replaced when etcd is there.

ok($nginx->quit(), 'nginx quits');
open($out, '+<', $file) or die "open $file: $!\n";
print $out '[';
close($out);

$nginx->start();
$nginx->logs(qr/\[error\].*state file .* is not used/, 1,
             'a damaged file is not used');
ok(keeps('api', '/services/api/other', '/services/api/full',
         '/services/api/x', map { "/services/api/$_" } 0 .. 9),
   'and is replaced when etcd has been read');

# A large set changes while it is saved.

my $count = 3000;

for my $n (map { $_ * 100 } 0 .. $count / 100 - 1) {
    $other->txn(map { [put => "/odd/$_",
                       sprintf('127.9.%d.%d:80', $_ >> 8, $_ & 255)] }
                    $n .. $n + 99);
}

my $changes = 0;

ok(wait_for(sub {
    $other->put('/odd/' . $changes % 400, '127.8.0.' . $changes % 200 . ':80');
    $changes++;
    keys %{ saved()->{odd}{members} } == $count
}, 60), 'a large set is saved');

$nginx->upstream('odd')->sees($other->revision);
ok($nginx->quit(), 'nginx quits');

my $large = saved()->{odd}{members};

is_deeply([map { $large->{"/odd/$_"}{address} } 0 .. $count - 1],
          [map { $other->get("/odd/$_") } 0 .. $count - 1], 'as it is');

my $revision = saved()->{odd}{revision};

$other->stop();
$nginx->start();
becomes { scalar(@{ $nginx->upstream('odd')->status->{members} }) } $count,
        'and is read';
is($nginx->upstream('odd')->status->{revision}, $revision, 'with its revision');
$other->start();

ok($nginx->quit(), 'nginx quits');

# the example

my $shown = Nginx->new(etcd => $other);

$shown->start(Example::text('state', 'etcd'));

ok(wait_for(sub { $shown->get('/')->{status} == 200 }, 10), 'the example');
ok($shown->quit(), 'quits');
$other->stop();
$shown->start();
is($shown->get('/')->{status}, 200, 'and starts without etcd');

finish();


# a small disk over a directory

package Disk;

use Process;


sub as_root {
    my @command = ($> == 0 ? () : ('sudo', '-n'), @_);
    my ($status, $output) = run(@command);

    $status == 0 or die "@command: $output\n";
}


sub mount {
    my ($class, $dir) = @_;

    as_root('mount', '-t', 'tmpfs', '-o', 'size=64k,mode=777', 'none', $dir);

    my $self = bless { dir => $dir }, $class;

    Finish::later($self);

    return $self;
}


sub fill {
    my ($self) = @_;

    open(my $out, '>', "$self->{dir}/filler") or die "open: $!\n";
    1 while syswrite($out, 'x' x 4096);
    close($out);
}


sub empty { unlink("$_[0]{dir}/filler") }


sub stop {
    my ($self) = @_;

    if (my $dir = delete $self->{dir}) {
        as_root('umount', '-l', $dir);
    }
}
