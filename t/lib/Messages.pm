package Messages;

# The messages of the code, and those of docs/messages.md.
#
#     Messages::logged();         # { text, levels, file } of each call
#     Messages::reasons();        # { TEXT => FILE }: texts inside of messages
#     Messages::documented();     # { kind, texts, cells, line } of each row
#
# Texts are in one form, in which they can be compared: % is what a message is
# about, [...] what it may lack, and (A/B) one of several.

use strict;
use warnings;

use Docs;

my $src = Docs::top() . '/src';

my $string = qr/"(?:\\.|[^"\\])*"/s;
my $quoted = qr/$string|'(?:\\.|[^'\\])+'/s;
my $nested = qr/(\((?:[^()"']|$quoted|(?-1))*\))/s;

# macros of nginx
my %macro = (ngx_create_dir_n => '"mkdir()"', ngx_open_file_n => '"open()"');

my %level = (NOTICE => 'notice', WARN => 'warn', ERR => 'error',
             CRIT => 'crit', ALERT => 'alert', EMERG => 'emerg');

# Texts that no message has: those of the status, of its page, of protocols and
# of what is compared.

my $no_message = qr{
    ^(?: nginx-etcd\ state | GET\ | HTTP/1 | .*PRIVATE\ KEY(?:-----)?$ | .*\n
       | Vary | Accept | etcd\ cluster\ "[%"] | X509\ | trusted-types
       | default-src | img-src | ,\ etcd\ endpoint: )
}x;

my $no_call = qr{
    (?: auth_says\([^"]* | sizeof\( | unary(?:->|\.)name\ =\s
      | ngx_strncmp\([^"]* | \#error\s | ngx_etcd_decode_shown\([^"]* )$
}x;


# The texts of all files, without comments.

my %source = map { substr($_, length("$src/")) => without_comments($_) }
    glob("$src/*/*.[ch]");

for my $text (values %source) {
    while ($text =~ /^#define (NGX_ETCD_\w+)((?:\s|\\\n)+$string)+\s*$/mg) {
        my ($name, $value) = ($1, $&);

        $macro{$name} = join(' ', $value =~ /$string/g);
    }
}


sub without_comments {
    my ($path) = @_;

    open(my $file, '<', $path) or die "open $path: $!\n";
    local $/;

    return <$file> =~ s{($quoted)|/\*.*?\*/}{$1 // ''}gser;
}


# the value of literals beside each other, and of macros between them

sub literal {
    my ($expression) = @_;

    my $text = '';

    while ($expression =~ /\G\s*(?:($string)|(\w+)(?:$nested)?)/gc) {
        $text .= defined $1        ? unquoted($1)
               : $macro{$2}        ? literal($macro{$2})
               : $2 eq 'ngx_value' ? '%d'
               : return;
    }

    return $expression =~ /\G\s*$/ ? $text : undef;
}


sub unquoted {
    my ($literal) = @_;

    return substr($literal, 1, -1) =~ s/\\(["\\])/$1/gr;
}


# the arguments of a call

sub arguments {
    my ($list) = @_;

    my @arguments = ('');

    while ($list =~ /\G(?:$quoted|$nested|(,)|[^,()"']+)/gc) {
        if (defined $2) {
            push @arguments, '';

        } else {
            $arguments[-1] .= $&;
        }
    }

    return map { s/^\s+|\s+$//gr } @arguments;
}


# A literal, or one of several that are all literals.

sub alternatives {
    my ($argument) = @_;

    return if $argument !~ /\?/;

    my ($first, @others) = map { [literal(s/^.*\?//sr)] } split(/\s:\s/,
        $argument);

    return if grep { !defined $_->[0] } $first, @others;

    return map { $_->[0] } $first, @others;
}


# A format in the form in which texts are compared.

sub form {
    my ($format, @arguments) = @_;

    # a percent sign, or a conversion with its unit
    my $conversion = qr/%(?:%|((?:[*.0-9]|[uxX](?=\w))*[a-zA-Z])
                              (?:m?s|[kmg])?\b|)/x;

    my $text = $format =~ s{$conversion}{
        $1 ? converted($1, \@arguments) : "\0"
    }ger;

    return plain($text);
}


sub converted {
    my ($type, $arguments) = @_;

    shift @$arguments if $type =~ /\*/;

    my $argument = shift(@$arguments) // '';
    my @of = $type eq 's' ? alternatives($argument) : ();
    my @some = grep { length } @of;

    return '%' if !grep { /\w/ } @some;
    return @some < @of ? '[' . join('/', @some) . ']'
                       : '(' . join('/', @some) . ')';
}


# names in capitals stand for something

sub plain {
    my ($text) = @_;

    return $text =~ s/(?:\b|(?<=\b0x))[A-Z][A-Z_]*\b/%/gr =~ s/%+/%/gr
                 =~ s/\0/%%/gr;
}


# levels that a call has, from notice on: the words are in the call, or in what
# its function does before

sub levels {
    my ($argument, $before) = @_;

    if ($argument !~ /NGX_LOG_/) {
        my ($function) = $before =~ /^.*\n\{\n(.*)$/s;
        my @set = $function =~ /\b\Q$argument\E = ([^;]*);/g;

        $argument = join(' ', map { level_of($_) } @set);
        $argument =~ /NGX_LOG_/ or die "a level is not known: $before\n";
    }

    my %found = map { $_ => 1 } grep { defined }
        map { $level{$_} } $argument =~ /NGX_LOG_(\w+)/g;

    return [sort keys %found];
}


# A level may be assigned by a function: its body, too.

sub level_of {
    my ($expression) = @_;

    my $levels = $expression;

    for my $name ($expression =~ /\b(ngx_etcd_\w+_(?:level|cause))\(/g) {
        for my $text (values %source) {
            $levels .= ' ' . level_of($1)
                if $text =~ /^\Q$name\E\(.*?\n\{\n(.*?)\n\}/ms;
        }
    }

    return $levels;
}


my $call = qr/\bngx_(?:log|conf_log|ssl)_error$nested;/;


sub logged {
    my @logged;

    for my $file (sort keys %source) {
        my $text = $source{$file};

        while ($text =~ /$call/g) {
            my ($list, $before) = ($1, substr($text, 0, $-[0]));
            my ($level, undef, undef, $format, @arguments) =
                arguments(substr($list, 1, -1));

            my $levels = levels($level, $before);
            my $form = form(literal($format), @arguments);

            next if !@$levels || $form !~ /\w/;

            push @logged, {
                text   => $form,
                levels => $levels,
                file   => $file,
            };
        }
    }

    return @logged;
}


# Texts of several words that are no format of a call: they become a part of a
# message, or follow "directive" in one of nginx.

sub reasons {
    my %reasons;

    for my $file (sort keys %source) {
        next if $file =~ m{^status/};

        my $text = $source{$file} =~ s/$call|\bngx_log_debug\d$nested;//gr;

        while ($text =~ /($quoted)(?:\s*(?:$string|NGX_ETCD_\w+
                                          |ngx_value\(\w+\)))*/gx)
        {
            my ($literals, $before) = ($&, substr($text, 0, $-[0]));
            my $value = literal($literals);

            next if !defined $value || $value !~ /\w \w|^, \w/
                    || $value =~ /^<|^\d{3} /
                    || $value =~ $no_message
                    || substr($before, -200) =~ $no_call;

            $reasons{form($value)} = $file;
        }
    }

    return \%reasons;
}


# The rows of the tables that begin with "message" or "reason".

sub documented {
    my ($page) = grep { $_->path eq 'docs/messages.md' } Docs::pages();
    my ($kind, @rows);

    for my $line (split(/\n/, $page->prose)) {
        if ($line =~ /^\| (message \| level|message|reason) \|/) {
            $kind = $1;

        } elsif ($line !~ /^\|/) {
            undef $kind;

        } elsif ($kind && $line !~ /^\|-/) {
            my @cells = $line =~ /\|\s((?:`[^`]*`|[^|`])*)(?=\s\|)/g;

            push @rows, {
                kind  => $kind,
                texts => [map { plain(s/%/\0/gr) }
                              $cells[0] =~ /`([^`]*)`/g],
                cells => \@cells,
                line  => $line,
            };
        }
    }

    return @rows;
}


1;
