#!/usr/bin/perl

# docs/messages.md has each message that the code writes to the error log, with
# its level, what it means and what to do, and no others.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Messages;

my @logged = Messages::logged();
my $reasons = Messages::reasons();
my @rows = Messages::documented();

cmp_ok(scalar(@logged), '>', 150, 'messages are found in the code');
cmp_ok(scalar(keys %$reasons), '>', 250, 'and texts that are parts of them');


# entries by kind: those of a configuration that nginx refuses have no level

my %entry;

for my $row (@rows) {
    $entry{$row->{kind}}{$_} = $row for @{ $row->{texts} };
}


sub none {
    my ($name, @faults) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(!@faults, $name) or diag(map { "$_\n" } @faults);
}


my (@missing, @levels, %known);

for my $message (@logged) {
    my $text = $message->{text};
    my $levels = join(', ', map { "`$_`" } @{ $message->{levels} });
    my $row = $entry{'message | level'}{$text};

    $known{$text} = 1;

    if (!$row) {
        push @missing, "$message->{file}: $levels $text"
            if $levels ne '`emerg`' || !$entry{message}{$text};

    } elsif ($row->{cells}[1] ne $levels) {
        push @levels, "$text: $levels";
    }
}

none('each message has an entry', @missing);
none('with its level', @levels);
none('each text in messages has an entry',
     map { "$reasons->{$_}: $_" } grep { !$entry{reason}{$_} }
         sort keys %$reasons);

none('no entry is of a message that is gone',
     grep { !$known{$_} } map { sort keys %{ $entry{$_} // {} } }
         'message | level', 'message');
none('nor of a text', grep { !$reasons->{$_} } sort keys %{ $entry{reason} });


# a row says what to do, and, with a level, what it means

my %cells = ('message | level' => 4, message => 2, reason => 2);

none('each entry says what it means and what to do', map { $_->{line} } grep {
    my @told = grep { /\w{2}/ } @{ $_->{cells} };

    @told != $cells{$_->{kind}} || !@{ $_->{texts} };
} @rows);


# the extraction: what stands in a format, and the levels that a call may have

my ($both) = grep { $_->{text} =~ /^no \(free/ } @logged;
my ($failed) = grep { $_->{text} =~ /^etcd cluster "%": endpoint % failed/ }
    @logged;

is($both->{text},
   'no (free/further usable/usable) member in upstream "%", and % requests '
   . 'wait already; % refused',
   'a text of three');
is_deeply($failed->{levels}, ['error'], 'a level that is computed');
is(Messages::form('%s of %V%s%V is %uzk, %ui%%%s', 'a ? "x" : b ? "y" : "z"',
                  'c', 'd ? "/" : ""', 'e', 'f', 'g', 'h ? ", gone" : ""'),
   '(x/y/z) of % is %, %%%[, gone]', 'conversions');
is_deeply([Messages::arguments('a(b, "c, )"), ",", d')],
          ['a(b, "c, )")', '","', 'd'], 'arguments of a call');

done_testing();
