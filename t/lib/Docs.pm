package Docs;

# The documentation: README.md and docs/, read as text.
#
#     for my $page (Docs::pages()) {
#         $page->path;                # docs/etcd.md
#         $page->anchors;             # as GitHub makes them of headings
#         $page->links;               # targets, as they are written
#         $page->fences;              # { language, mark, text, line }
#         $page->entries;             # { name, syntax, default, context }
#     }
#
# A fence is what stands between ```LANGUAGE MARK and ```.  An entry is a
# heading of the third level, and below it
#
#     Syntax:   ...
#     Default:  ...
#     Context:  ...

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Find qw(find);

my $top = abs_path(dirname(__FILE__) . '/../..');


sub top { $top }


# all pages of documentation that belong to the project

sub pages {
    my @paths;

    find({
        no_chdir => 1,
        wanted   => sub {
            if (-d && m{^\Q$top\E/(?:build|\.[^/]*)$}) {
                $File::Find::prune = 1;

            } elsif (/\.md$/) {
                push @paths, substr($_, length($top) + 1);
            }
        },
    }, $top);

    return map { page($_) } sort @paths;
}


sub page {
    my ($path) = @_;

    open(my $file, '<:encoding(UTF-8)', "$top/$path")
        or die "open $path: $!\n";

    my $self = bless {
        path   => $path,
        lines  => [<$file>],
        prose  => [],
        fences => [],
    }, __PACKAGE__;

    chomp(@{ $self->{lines} });
    $self->divide();

    return $self;
}


sub path { $_[0]{path} }
sub fences { @{ $_[0]{fences} } }

# the lines outside of fences
sub prose { join("\n", @{ $_[0]{prose} }) }


sub divide {
    my ($self) = @_;

    my $fence;

    for my $n (1 .. @{ $self->{lines} }) {
        my $line = $self->{lines}[$n - 1];

        if ($line !~ /^```(\S*)\s*(.*)$/) {
            push @{ $fence ? $fence->{lines} : $self->{prose} }, $line;

        } elsif ($fence) {
            push @{ $self->{fences} }, $fence;
            $fence->{text} = join("\n", @{ $fence->{lines} }, '');
            undef $fence;

        } else {
            $fence = { language => $1, mark => $2, line => $n, lines => [] };
        }
    }

    die "$self->{path}: a fence is open\n" if $fence;
}


sub headings {
    my ($self) = @_;

    return map { /^#+ (.*)$/ ? $1 : () } @{ $self->{prose} };
}


sub anchors { map { anchor($_) } $_[0]->headings }


sub anchor {
    my ($heading) = @_;

    my $anchor = lc($heading) =~ s/[^\w\- ]//gr;

    return $anchor =~ tr/ /-/r;
}


sub links {
    my ($self) = @_;

    my $prose = $self->prose =~ s/`[^`]*`/code/gr;

    return $prose =~ /\[[^\[\]]*\]\(([^()\s]+)\)/g;
}


sub entries {
    my ($self) = @_;

    my @entries;
    my $prose = $self->prose;

    while ($prose =~ /^### (\$?\w+)\n\n((?: {4}.*\n)+)\n/mg) {
        my ($name, $block) = ($1, $2);

        my ($syntax, $default, $context) = $block =~ /\A
            \ {4}Syntax:\ {3}(.*\n(?:\ {14}.*\n)*)
            \ {4}Default:\ {2}(.*)\n
            \ {4}Context:\ {2}(.*)\n\z/x;

        push @entries, {
            name    => $name,
            path    => $self->{path},
            syntax  => defined $syntax ? $syntax =~ s/\s+/ /gr : '',
            default => $default // '',
            context => $context // '',
        };
    }

    return @entries;
}


# the directives of all pages, and their variables

sub directives { grep { $_->{name} !~ /^\$/ } map { $_->entries } pages() }
sub variables  { grep { $_->{name} =~ /^\$/ } map { $_->entries } pages() }


# `code` in the first column of tables

sub first_column {
    my ($self) = @_;

    return map { /^\| (`[^|]*) \|/ ? $1 =~ /`([^`]*)`/g : () }
        @{ $self->{prose} };
}


1;
