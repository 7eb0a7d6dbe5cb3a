#!/usr/bin/perl

# nginx accepts every configuration in the documentation, and every example;
# each example says what it is for, is linked to, and is exercised by a test.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Docs;
use Example;
use Finish;
use Nginx;

# A mark after ```nginx tells what a block contains: "context=X" directives of
# an X, "modules" load_module lines, "foreign" directives of other modules, and
# "file=NAME" a file of the tutorial, which tutorial.t runs.
# A block without a mark is a configuration but for the modules, "events" and
# maybe "etcd".  The blocks around an X:

my %around = (
    etcd     => 'etcd { endpoints http://127.0.0.1:2379; %s }',
    http     => 'http { %s }',
    upstream => 'http { upstream api { %s } }',
    server   => 'http { server { listen 8080; %s } }',
    location => 'http { server { listen 8080; location / { %s } } }',
);

my $has_stream = Nginx::has('stream');


# Adds the blocks that a fragment refers to and does not contain.

sub surround {
    my ($text) = @_;

    my $election = $text =~ /^\s*election\b/m
        ? '' : "    election jobs /elections/jobs;\n";

    if ($text !~ /\betcd \{/) {
        $text = "etcd {\n    endpoints http://127.0.0.1:2379;\n$election}\n"
            . $text;
    }

    if ($text =~ m{\bapi\b} && $text !~ /\bupstream api\b/) {
        $text =~ s/^http \{/http { upstream api { etcd_members \/api\/; } /m;
    }

    return Example::adapt($text);
}


sub check_fence {
    my ($fence, $where) = @_;

    my ($context) = $fence->{mark} =~ /^context=(\w+)$/;
    my $text = $context ? sprintf($around{$context}, "\n$fence->{text}")
                        : $fence->{text};

    my ($ok, $output) = Example::check(surround($text));

    return ok($ok, "$where: nginx takes it") || diag($output);
}


my %mark = map { $_ => 1 } ('', map { "context=$_" } keys %around);

for my $page (Docs::pages()) {
    for my $fence (grep { $_->{language} eq 'nginx' } $page->fences) {
        my $where = $page->path . ":$fence->{line}";

        next if $fence->{mark} eq 'foreign';

        next if $where =~ /^docs\/tutorial\.md:/
            && $fence->{mark} =~ /^file=/;

        next if $fence->{text} =~ /^stream\b/m && !$has_stream;

        if ($fence->{mark} eq 'modules') {
            my @modules = $fence->{text} =~ m{modules/(\S*etcd\S*);}g;

            is_deeply([grep { !-e Nginx::modules_dir() . "/$_" } @modules],
                      [], "$where: there are such modules");
            next;
        }

        ok($mark{$fence->{mark}}, "$where: its mark is known");
        check_fence($fence, $where);
    }
}

# the examples

my $pages = join("\n", map { map { "$_\n" } $_->links } Docs::pages());

my $tests = '';

for my $path (glob(Docs::top() . '/t/*/*.t')) {
    open(my $file, '<', $path) or die "open $path: $!\n";

    local $/;
    $tests .= <$file> if $path !~ /docs_nginx/;
}

for my $name (Example::names()) {
    open(my $file, '<', Docs::top() . "/conf-examples/$name.conf")
        or die "$name.conf: $!\n";

    like(scalar(<$file>), qr/^# \w.*\w/,
         "$name.conf: says what it is for");
    like($pages, qr{^(?:\.\./)?conf-examples/\Q$name\E\.conf$}m,
         "$name.conf: is linked to");
    ok($tests =~ m{Example::text\('\Q$name\E'|conf-examples/\Q$name\E\.conf"},
       "$name.conf: has a test that runs it");

    next if !$has_stream && Example::text($name) =~ /^stream\b/m;

    my ($ok, $output) = Example::check(Example::text($name));

    ok($ok, "$name.conf: nginx takes it") or diag($output);
}

finish();
