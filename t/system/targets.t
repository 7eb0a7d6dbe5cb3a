#!/usr/bin/perl

# "make" says to somebody who has just unpacked the tree, before it installs or
# builds anything: the path cannot be built in, there is no etcd, a port is in
# use.  At its end it says which tests were not run.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Path qw(make_path);
use Test::More;

use Finish;
use Port;
use Process;

my $top = abs_path("$FindBin::Bin/../..");

delete @ENV{qw(NGINX T J ETCD PORT PORT2 PORT3)};


sub put_file {
    my ($path, $text) = @_;

    open(my $file, '>', $path) or die "open $path: $!\n";
    print $file $text;
    close($file) or die "close $path: $!\n";
}


sub make { run('make', '--no-print-directory', @_) }


# A name in the path that would be taken apart.  "make clean" in "a b" would
# remove what is called "a".

for my $name ('a b', "tab\there", 'a;b', 'a$b', "a'b", 'a"b', 'a#b', 'a:b',
              'a%b', 'a&b', 'a(b)', 'a*b', 'a\b', 'a|b')
{
    my $odd = test_dir() . "/$name";
    my ($beside) = split(/ /, $odd);

    make_path("$odd/build", $beside);
    put_file("$beside/mine", '');
    copy("$top/Makefile", "$odd/Makefile") or die "copy: $!\n";

    for my $target (qw(all demo test clean)) {
        my ($status, $output) = make('-C', $odd, $target);

        isnt($status, 0, "$name: make $target is refused");
        like($output, qr/nginx-etcd is not built in "\Q$odd\E": white space/,
             'with the path');
    }

    ok(-e "$beside/mine" && -d "$odd/build", 'nothing is removed');
}

{
    my $plain = test_dir() . "/Caf\xc3\xa9-1.0_~+\@,=";

    make_path("$plain/build");
    copy("$top/Makefile", "$plain/Makefile") or die "copy: $!\n";
    is((make('-C', $plain, 'clean'))[0], 0, 'other names are taken');
    ok(!-d "$plain/build", 'and build/ is removed');
}

for my $variable (qw(NGINX NGINX_SRC DESTDIR MANDIR ETCD)) {
    my ($status, $output) = make('-C', $top, 'help', "$variable=/opt/a b");

    isnt($status, 0, "$variable with white space is refused");
    like($output, qr/\Q$variable="\/opt\/a b" has white space\E/, 'by name');
}


# a PATH that has all but etcd, or all but etcdctl

sub path_without {
    my ($missing) = @_;

    my $bin = test_dir() . "/without-$missing";

    mkdir($bin) or die "mkdir $bin: $!\n";

    for my $program (map { glob("$_/*") } split(/:/, $ENV{PATH})) {
        my ($name) = $program =~ m{([^/]+)$};

        symlink($program, "$bin/$name") if $name ne $missing;
    }

    return $bin;
}


for my $missing (qw(etcd etcdctl)) {
    local $ENV{PATH} = path_without($missing);
    local $ENV{PACKAGES} = 'no';

    for my $target (qw(demo test test-all sim asan)) {
        my ($status, $output) = make('-C', $top, $target, 'PATH=' . $ENV{PATH},
                                     'BUILD=' . test_dir() . '/nothing',
                                     map { $_ . '=' . free_port() }
                                         qw(PORT PORT2 PORT3));

        isnt($status, 0, "no $missing: make $target ends");
        like($output, qr/there is no $missing in .*Debian has it in etcd-/,
             'and says so');
        unlike($output, qr/compiling|configuring|building/, 'before it builds');
    }
}

{
    my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1);
    my $port = $taken->sockport;

    for my $variable (qw(PORT PORT2 PORT3)) {
        my %ports = ((map { $_ => free_port() } qw(PORT PORT2 PORT3)),
                     $variable => $port);
        my ($status, $output) = make('-C', $top, 'demo', 'PACKAGES=no',
                                     'BUILD=' . test_dir() . '/nothing',
                                     map { "$_=$ports{$_}" } keys %ports);

        isnt($status, 0, "$variable is in use: the demo ends");
        like($output, qr/^127\.0\.0\.1:$port cannot be listened on/,
             'and says so first');
    }
}


# Skipped tests are named at the end, and a failure is a failure.

sub closing {
    my ($name, $text) = @_;

    my $path = test_dir() . "/$name.t";

    put_file($path, "use Test::More;\n$text");

    return run("$top/tools/test", $path);
}


{
    my ($status, $output) = closing('skipped',
                                    q(plan(skip_all => 'only on Sundays');));

    is($status, 0, 'a test that is skipped does not fail');
    like($output, qr/^Not run.*\n.*skipped\.t: only on Sundays/m,
         'its reason is the last that is said');

    ($status, $output) = closing('part',
        q(SKIP: { skip 'no room', 2 } pass('one'); done_testing();));

    is($status, 0, 'nor does a part');
    like($output, qr/^2 tests of other files were skipped/m,
         'which is counted');

    ($status, $output) = closing('fails', q(fail('one'); done_testing();));

    isnt($status, 0, 'a test that fails does');
    unlike($output, qr/Not run/, 'and nothing was skipped');

    ($status, $output) = run("$top/tools/test", 't/agent.t');

    isnt($status, 0, 'a file that is not there is not run');
    is($output, "tools/test: no such file: t/agent.t\n", 'which is said');
}

finish();
