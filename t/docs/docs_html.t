#!/usr/bin/perl

# tools/docs makes HTML of all pages, whose links and search work without a
# server, and a page for man with every directive and variable.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Browser;
use Docs;
use Finish;

use constant {
    NARROW => 375,
    WIDE   => 1280,
};

grep { -x "$_/pandoc" } split(/:/, $ENV{PATH})
    or plan(skip_all => 'pandoc is not installed');

my $dir = test_dir() . '/docs';
my $html = "$dir/html";
my $printed = `@{[ Docs::top() ]}/tools/docs $dir 2>&1`;

is("$?: $printed", '0: ', 'the pages are made');


sub text_of {
    my ($path) = @_;

    open(my $file, '<:encoding(UTF-8)', $path) or die "open $path: $!\n";
    local $/;

    return <$file>;
}


sub address {
    my ($path) = @_;

    return $path =~ s/\.md$/.html/r =~ s{(?:^|/)\KREADME\.html$}{index.html}r;
}


my @entries = map { {
    name    => $_->{name},
    syntax  => $_->{syntax} =~ s/ $//r,
    address => address($_->{path}) . '#' . Docs::anchor($_->{name}),
} } Docs::directives(), Docs::variables();


# links

my @files = map { s{^\Q$html\E/}{}r } split(/\n/, `find $html -name '*.html'`);
my %text = map { $_ => text_of("$html/$_") } @files;
my %ids = map { $_ => [$text{$_} =~ /\sid="([^"]*)"/g] } @files;
my %has = map { my $file = $_;
                ($file => 1, map { ("$file#$_" => 1) } @{ $ids{$file} }) }
          @files;


sub dead {
    my ($file) = @_;

    my ($folder) = $file =~ m{^(.*/)?};

    return grep {
        my $to = /^#|^$/ ? $file . $_ : ($folder // '') . $_;

        1 while $to =~ s{(?:^|/)\K(?!\.\./)[^/]+/\.\./}{};

        !/^https:/ && !($to =~ /\.html\b/ ? $has{$to} : -f "$html/$to");
    } $text{$file} =~ /\s(?:href|src)="([^"]*)"/g;
}


for my $file (sort @files) {
    my %seen;

    is(join(' ', dead($file)), '', "$file: links");
    is(join(' ', grep { $seen{$_}++ } @{ $ids{$file} }), '',
       "$file: no anchor is there twice");
}

for my $page (Docs::pages()) {
    my $address = address($page->path);

    is(join(' ', grep { !$has{"$address#$_"} } $page->anchors), '',
       "$address has the headings of " . $page->path);
}

is(join(' ', grep { !$has{"$_.html"} } map { s{^\Q@{[ Docs::top() ]}\E/}{}r }
             glob(Docs::top() . '/conf-examples/*')),
   '', 'all examples are shown');

# the sections that are searched

my ($list) = text_of("$html/sections.js") =~ /^const sections = (.*);$/s;
my %section = map { $_->[0] => $_ } @{ JSON::PP->new->decode($list) };

is(join(' ', grep { !$has{$_} } keys %section), '',
   'all sections that are searched exist');
is_deeply([map { $section{ $_->{address} }[2] } @entries],
          [map { $_->{name} } @entries],
          'the entry of each directive and variable is searched');

# man: entries are not hyphenated

for my $columns (80, 120) {
    my $output = `LC_ALL=C.UTF-8 MANWIDTH=$columns MANROFFSEQ= \\
        man --warnings -E UTF-8 -l -Tutf8 $dir/ngx_etcd.5 2>&1 >/dev/null`;

    is("$?: $output", '0: ', "man has no warnings in $columns columns");
}

my $man = `LC_ALL=C.UTF-8 MANWIDTH=80 man -E ascii -l $dir/ngx_etcd.5 \\
           | col -bx`;
my %syntax = $man =~ /^ {3}(\$?\w+)\n +Syntax: +(.*?)\s+Default:/msg;

is_deeply({ map { $_ => $syntax{$_} =~ s/\s+/ /gr } keys %syntax },
          { map { $_->{name} => $_->{syntax} } @entries },
          'man has each directive and variable with its Syntax');
unlike($man, qr/\]\(|\*\*|`\w/, 'and no Markdown');

# a browser

my $browser = Browser->start();


# pages that are wider than the window

sub too_wide {
    my ($width) = @_;

    $browser->resize($width, 800);

    return grep {
        $browser->open("file://$html/$_");
        $browser->execute('return document.documentElement.scrollWidth')
            > $width;
    } sort @files;
}


is(join(' ', too_wide($_)), '', "no page is wider than $_ pixels")
    for NARROW, WIDE;

$browser->open("file://$html/docs/locks.html");

is_deeply($browser->execute(<<'EOF', [map { $_->{name} } @entries]),
const input = document.querySelector('input[type=search]');

return arguments[0].map(name => {
    input.value = name;
    input.dispatchEvent(new Event('input'));

    return document.querySelector('search a')?.href;
});
EOF
          [map { "file://$html/$_->{address}" } @entries],
          'the search finds the entry of each directive and variable first');

$browser->execute('document.querySelector("input").value = ""');
$browser->press('/');
$browser->press(split(//, 'etcd xyzzy'));
is($browser->execute('return document.querySelector("search ol").textContent'),
   'Nothing found', 'and it says that it finds nothing');


# how light text and background are, from 0 to 255

sub shades {
    my ($scheme) = @_;

    $browser->scheme($scheme);

    return map { /\((\d+)/ } @{ $browser->execute(<<'EOF') };
const style = getComputedStyle(document.documentElement);

return [style.color, style.backgroundColor];
EOF
}


my ($text, $back) = shades('light');

ok($text < 64 && $back > 192, 'by day text is dark');
($text, $back) = shades('dark');
ok($text > 192 && $back < 64, 'by night text is light');

is(join("\n", $browser->console), '', 'the browser complains about nothing');
is(join(' ', grep { !m{^file://\Q$html\E/} } $browser->requests), '',
   'and asks for files of the pages only');

finish();
