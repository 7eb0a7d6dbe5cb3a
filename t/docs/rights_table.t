#!/usr/bin/perl

# The rights that docs/operating.md names for each directive are enough for a
# user who has no others, and the right to a part of them is not.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Docs;
use Etcd;
use Finish;
use Nginx;
use Wait;

# a directive and its rights, in the words of the page; the line that needs
# them, in the "etcd" block, in an upstream, or in a server; the key that is
# granted, as a prefix if it begins with "^"; and one that is not enough

my $literal = 'the prefix before the first variable';

my @rows = (
    ['`etcd_members`', 'the prefix PREFIX, exactly as written, with or without '
     . 'a slash', upstream => 'etcd_members /a/api', '^/a/api', '^/a/api/'],
    ['`etcd_members`, `etcd_leader`, PREFIX with variables', $literal,
     upstream => 'etcd_members /b/$arg_service/', '^/b/', '^/b/api/'],
    ['`etcd_leader`', 'the prefix `PREFIX/`',
     upstream => 'etcd_leader /c', '^/c/', '/c/'],
    ['`etcd_leader` with `format=key`', 'the prefix KEY, without a slash: the '
     . 'right to the key alone is not enough',
     upstream => 'etcd_leader /d/leader format=key', '^/d/leader', '/d/leader'],
    ['`etcd_leader` with `format=patroni`', 'the prefix `PREFIX/`',
     upstream => 'etcd_leader /e/main format=patroni', '^/e/main/',
     '^/e/main/members/'],
    ['`etcd_leader` with `format=vitess`', 'the prefix `PREFIX/locks/`',
     upstream => 'etcd_leader /f format=vitess', '^/f/locks/', '^/f/other/'],
    ['`etcd_leader` with `members=`', 'the prefix that is the common directory '
     . 'of both', upstream => 'etcd_leader /g/main/leader format=key '
     . 'members=/g/main/members/', '^/g/main/', '^/g/main/members/'],
    ['`etcd_set`', 'the key', server => 'etcd_set $%s /h/rate', '/h/rate',
     '/h/other'],
    ['`etcd_set`, KEY with variables', $literal,
     server => 'etcd_set $%s /i/$host/rate', '^/i/', '^/i/test/'],
    ['`election`', 'the prefix `PREFIX/`', etcd => 'election %s /j value=x',
     '^/j/', '/j/'],
    ['`register`', 'the key', etcd => 'register /k value=x', '/k', '^/k/'],
    ['`etcd_check` with `share=`', 'the prefix `KEY/`, or `KEY/ZONE/`',
     upstream => 'etcd_check tcp share=/m/observer zone=a; '
     . 'etcd_members /m/members/', '^/m/', '^/m/members/'],
    ['`etcd_lock`', 'the prefix `NAME/`, whatever the KEY',
     location => 'etcd_lock /l $arg_key', '^/l/', '^/l/other/'],
);

my $page = Docs::page('docs/operating.md')->prose;
my ($table) = $page =~ /^\| directive \| reads \| writes \|\n(.*?)\n\n/ms;
my @table = map { /^\| (`.*?) +\| (.*?) +\|(.*)\|$/ ? [$1, $2, $3] : () }
    split(/\n/, $table);

is_deeply([map { "$_->[0]: $_->[1]" } @table],
          [map { "$_->[0]: $_->[1]" } @rows],
          'the table has the rights that are tried here');

my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();
my $nginx = Nginx->new(etcd => $etcd);
my (@etcd, @http, @server);

$nginx->write_secret('password', "password\n");

for my $n (0 .. $#rows) {
    my (undef, undef, $where, $line) = @{ $rows[$n] };
    my $name = "row$n";
    my $cluster = $where eq 'etcd' ? '' : " cluster=$name";

    $line = sprintf($line, $name) if $line =~ /%s/;

    my %lines = (etcd => '', $where => "$line$cluster;");

    push @etcd, "etcd $name { endpoints %%ETCD%%; user user$n; "
        . "password_file password; zone 1m; $lines{etcd} }";
    push @http, "upstream up$n { $lines{upstream} }" if $lines{upstream};
    push @server, $lines{server} // '',
        $lines{location} ? "location /row$n { $lines{location} }" : '';

    $etcd->user_add("user$n", 'password');
}

my $config = join("\n", @etcd, 'http {', @http, <<'EOC', @server, '}', '}', '');

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

EOC

$etcd->auth_enable('root');


# grants one of the rights of each row, and takes the other one away

sub grant {
    my ($which) = @_;

    for my $n (0 .. $#rows) {
        my @rights = @{ $rows[$n] }[4, 5];
        my $right = $table[$n][2] =~ /same/ ? 'readwrite' : 'read';

        for my $i (0, 1) {
            my ($prefix, $key) = $rights[$i] =~ /^(\^?)(.*)$/;
            my @command = $i == $which ? ('grant-permission', "user$n", $right)
                                       : ('revoke-permission', "user$n");

            next if $i != $which && $which == 0;

            $etcd->manage('role', shift @command,
                          $prefix ? '--prefix=true' : (), @command, $key);
        }
    }
}


# "works", "denied", or something else; $log is that of this nginx

sub state_of {
    my ($n, @log) = @_;

    my ($what) = @{ $rows[$n] };
    my $status = $nginx->status;

    if ($what eq '`etcd_lock`') {
        my $code = $nginx->get("/row$n?key=a")->{status};

        return $code == 404 ? 'works' : $code == 503 ? 'denied' : $code;
    }

    my $works = $what eq '`election`' ? $status->{elections}{"row$n"}{is_leader}
              : $what eq '`register`' ? defined $etcd->get('/k')
              : $what =~ /`share=`/
                ? ($status->{upstreams}{"up$n"}{check_role} // '') eq 'observes'
              : $status->{clusters}{"row$n"}{state} eq 'synced';

    return 'works' if $works;

    my $name = qr/"(?:row|up|\$row)$n"|registration "\/k"/;

    return 'denied' if grep { /$name.*permission denied/ } @log;
    return 'unknown';
}


for my $case ([0, 'works', 'is enough'], [1, 'denied', 'is not enough']) {
    my ($which, $expected, $what) = @$case;

    grant($which);
    $nginx->stop if $nginx->pid;

    my @before = split(/\n/, $nginx->error_log);

    $nginx->start($which == 0 ? $config : ());

    for my $n (0 .. $#rows) {
        my $state;

        wait_for {
            my @log = split(/\n/, $nginx->error_log);

            $state = state_of($n, @log[@before .. $#log]);
            $state eq $expected;
        } 20, "row $n";
        is($state, $expected, "$rows[$n][0]: $rows[$n][4 + $which] $what");
    }
}

finish();
