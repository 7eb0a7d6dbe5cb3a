package NginxEtcdCheck::Conf;

# A configuration of nginx, as "nginx -T" prints it, and what is found in it:
#
#     my $conf = parse($text, $g);      # $g: the directives of option -g
#
# It is a list of directives: { name, args, raw (with quotes), block, at (file
# and line) }.  Only modules of Debian's perl-base are used.

use strict;
use warnings;

use Exporter qw(import);
use File::Basename qw(dirname);
use File::Glob qw(bsd_glob);

our @EXPORT = qw(parse conf_dir named block_of within cluster_of variables
                 literal quoted unquoted);

my (%dump, $conf_dir);


sub quoted { '"' . $_[0] =~ s/(["\\])/\\$1/gr . '"' }


sub unquoted {
    return $_[0] =~ s/^(["'])(.*)\1$/$2/sr =~ s/\\(["'\\ ])/$1/gr;
}


# words and special characters: [text, place, the special character]

sub tokens {
    my ($text, $file) = @_;

    my $line = 1;
    my @tokens;

    for ($text) {
        while (/\G(?:(\s+|\#[^\n]*)|([;{}])|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'
                  |(?:\\.|\$\{|[^\s;{\\])+))/gcsx)
        {
            my ($text, $special) = ($&, $2);

            push @tokens, [$text, "$file:$line", $special] if !defined $1;
            $line += ($text =~ tr/\n//);
        }
    }

    return @tokens;
}


sub included {
    my ($pattern) = @_;

    $pattern = "$conf_dir/$pattern" if $pattern !~ m{^/};

    return map { @{ directives([tokens($dump{$_} // '', $_)]) } }
        $pattern =~ /[*?\[]/ ? bsd_glob($pattern) : $pattern;
}


sub directives {
    my ($tokens) = @_;

    my (@directives, @words);

    while (my $token = shift @$tokens) {
        my ($word, undef, $special) = @$token;

        push(@words, $token), next if !$special;
        last if $word eq '}';

        my @raw = map { $_->[0] } @words;
        my ($name, @args) = map { unquoted($_) } @raw or next;
        my $block = $word eq '{' ? directives($tokens) : undef;

        push @directives, $name eq 'include' ? included($args[0]) : {
            name => $name, args => \@args, raw => \@raw, block => $block,
            at => $words[0][1],
        };

        @words = ();
    }

    return \@directives;
}


sub parse {
    my ($text, $g) = @_;

    my (undef, @files) = split(/^# configuration file (\/.*):\n/m, $text);

    $conf_dir = dirname($files[0]);
    %dump = @files;

    return directives([tokens($g, '-g'), tokens(@files[1, 0])]);
}


# the directory of relative paths

sub conf_dir { $conf_dir }


sub named {
    my ($name, $in) = @_;

    return grep { $_->{name} eq $name } @{ $in // [] };
}


sub block_of {
    my ($block) = map { $_->{block} } named(@_);

    return $block;
}


# directives of a name, at any depth

sub within {
    my ($name, $in) = @_;

    return map { ($_->{name} eq $name ? $_ : (),
                  $_->{block} ? within($name, $_->{block}) : ()) } @$in;
}


sub cluster_of {
    my ($directive) = @_;

    my ($name) = map { /^cluster=(.*)/ } @{ $directive->{args} };

    return $name // 'default';
}


# names of variables in a text, and the text before the first one

sub variables { map { s/^ssl_server_name$/host/r } $_[0] =~ /\$\{?(\w+)\}?/g }
sub literal { $_[0] =~ s{\$.*}{}sr }


1;
