package Structure;

# Dependencies and names of files, and beginnings of comments: tools/figures
# counts them, tools/lint complains of them.  Files come as a hash of their
# texts by path.

use strict;
use warnings;

use Exporter qw(import);
use File::Basename qw(basename dirname);

our @EXPORT_OK = qw(circles comments cycles exported script_comments
                    undeclared vague without_header);


# Sets of files of one folder each of which includes all others, by way of
# headers and the functions declared in them (Tarjan's strongly connected
# components).  A .c file and its header are one file, named without suffix.

sub cycles {
    my ($text) = @_;

    return components(includes($text, sub { $_[0] =~ s/\.[ch]$//r }, sub {
        dirname($_[0]) eq dirname($_[1])
    }));
}


# sets of rooms each of which includes all others

sub circles {
    my ($text) = @_;

    return components(includes($text, sub { basename(dirname($_[0])) },
                               sub { 1 }));
}


# Includes of units: { UNIT => { OTHER => 1 } }.  A file belongs to a unit; only
# those from one file to another that are wanted count.

sub includes {
    my ($text, $unit_of, $wanted) = @_;

    my (%where, %needs);

    $where{basename($_)} = $_ for grep { /\.h$/ } keys %$text;

    for my $file (keys %$text) {
        my $unit = $unit_of->($file);

        for my $header ($text->{$file} =~ /^#include\s+[<"]([^>"]+)[>"]/mg) {
            my $path = $where{$header} // next;
            my $other = $unit_of->($path);

            $needs{$unit}{$other} = 1
                if $other ne $unit && $wanted->($path, $file);
        }
    }

    return \%needs;
}


sub components {
    my ($needs) = @_;

    my ($count, %index, %low, %on, @stack, @found) = (0);
    my $visit;

    $visit = sub {
        my ($unit) = @_;

        $index{$unit} = $low{$unit} = $count++;
        push @stack, $unit;
        $on{$unit} = 1;

        for my $next (sort keys %{ $needs->{$unit} // {} }) {
            $visit->($next) if !exists($index{$next});

            $low{$unit} = $low{$next}
                if $on{$next} && $low{$next} < $low{$unit};
        }

        return if $low{$unit} != $index{$unit};

        my @component;

        do {
            push @component, pop(@stack);
            delete $on{$component[-1]};
        } while ($component[-1] ne $unit);

        push @found, [sort @component] if @component > 1;
    };

    for my $unit (sort keys %$needs) {
        $visit->($unit) if !exists($index{$unit});
    }

    return @found;
}


# Functions that other files may call: [FILE, NAME, LINE].  A definition has
# its type on a line of its own, and its name in the first column.

sub exported {
    my ($text) = @_;

    my @found;

    for my $file (sort grep { /\.c$/ } keys %$text) {
        while ($text->{$file} =~ /^(\w[\w *]*)\n\*?(\w+)\([^;{}]*\)\n\{/mg) {
            my ($type, $name, $at) = ($1, $2, $-[2]);

            next if $type =~ /\bstatic\b/;

            my $line = 1 + (substr($text->{$file}, 0, $at) =~ tr/\n//);

            push @found, [$file, $name, $line];
        }
    }

    return @found;
}


# Exported functions that the header of their file does not declare.

sub undeclared {
    my ($text, @exported) = @_;

    return grep {
        my ($file, $name) = @$_;
        my $header = $text->{ $file =~ s/\.c$/.h/r }
                     // $text->{ $file =~ s/(?:_module)?\.c$/.h/r } // '';

        $header !~ /\b\Q$name\E\(/;
    } @exported;
}


# The header of a module, ngx_http_etcd_module.c, may be ngx_http_etcd.h: the
# other files of a module declare its ngx_module_t there, with the structures
# of its configuration.

my %no_header = (

    # A configuration is found by its module, so that ngx_etcd_conf.h, the
    # header of the configuration, declares ngx_etcd_module for lower rooms.

    'ngx_etcd_module.c' => 1,
);


sub without_header {
    my ($text) = @_;

    return grep {
        /\.c$/
            && !$no_header{basename($_)}
            && !exists($text->{ s/\.c$/.h/r })
            && !exists($text->{ s/(?:_module)?\.c$/.h/r });
    } sort keys %$text;
}


# Comments of C: [FILE, LINE, TEXT], from the first word on; the first one of a
# file begins after the copyright.

sub comments {
    my ($text) = @_;

    my @found;

    for my $file (sort keys %$text) {
        while ($text->{$file} =~ m{/\*(.*?)\*/}gs) {
            my ($comment, $at) = ($1, $-[0]);

            $comment =~ s/^.*Copyright.*\n//m;
            $comment =~ /([[:alpha:]].*)/ or next;

            my $line = 1 + (substr($text->{$file}, 0, $at) =~ tr/\n//);

            push @found, [$file, $line, $1];
        }
    }

    return @found;
}


# Comments of Perl and of shells, in the same form.  A comment goes on in the
# next line if the line has nothing else, and the "#" is in the same column.
# The text of a here-document has no comments.

sub script_comments {
    my ($text) = @_;

    my @found;

    for my $file (sort keys %$text) {
        my ($n, $column, $end) = (0, -1);

        for my $line (split(/\n/, $text->{$file})) {
            $n++;

            if (defined $end) {
                $end = undef if $line =~ /^\s*\Q$end\E$/;
                next;
            }

            my ($code, $comment) = $line =~ /^(|.*?\s)#(|\s.*)$/;
            my $before = $column;

            $column = defined $code ? length($code) : -1;
            $code //= $line;

            if ($code =~ /\S/ || $column != $before) {
                push @found, [$file, $n, $1]
                    if ($comment // '') =~ /([[:alpha:]].*)/;
            }

            last if $code =~ /^__(?:END|DATA)__$/;

            ($end) = $code =~ /<<[-~]?\s*["']?([A-Z_]\w*)\b/;
            $end = undef if defined $end && $text->{$file} !~ /^\s*$end$/m;
        }
    }

    return @found;
}


# Comments that begin with a pronoun instead of their subject.

my $pronoun = qr/who(?:m|se|ever)?|what(?:ever)?|where(?:ver)?|which(?:ever)?
                 |its?|they|their|them|that|those|as|nor
                 |th(?:is|ese)\ (?:is|are|was|were|has|have|had)
                 |one\ (?:that|who|which|is)
                 |the\ same(?:\ (?:as|for|in|of|once|to|when|where|with)
                             |(?=[,.:;]|$))/x;


sub vague {
    return grep { lcfirst($_->[2]) =~ /^(?:$pronoun)\b/ } @_;
}

1;
