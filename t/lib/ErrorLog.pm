package ErrorLog;

# The error log of an nginx, whose directory is $self->{dir}.  check() ends a
# test: no line may be an alarm but for those that were expected.

use strict;
use warnings;

use Test::More ();

use Slurp;
use Wait;

our $SANITIZER = qr/Sanitizer|runtime error:/;
my $ALARMING = qr/\[(?:alert|crit|emerg)\]|exited on signal|$SANITIZER/;


sub error_log {
    my ($self) = @_;

    open(my $file, '<', "$self->{dir}/error.log") or return '';

    local $/;

    return <$file> // '';
}


sub count_log {
    my ($self, $pattern) = @_;

    return scalar(grep { /$pattern/ } split(/\n/, $self->error_log));
}


# A test that it comes to have N such lines, which may come after what they tell
# of, and has no more.

sub logs {
    my ($self, $pattern, $n, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { $self->count_log($pattern) >= $n } 10, $name;

    return Test::More::is($self->count_log($pattern), $n, $name);
}


# A test that such a line comes, or several.

sub comes_to_log {
    my ($self, $pattern, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Test::More::ok(wait_for(sub { $self->count_log($pattern) }, 20,
                                   $name), $name);
}


# Lines of error.log that match this are wanted: check() does not complain about
# them.

sub expect {
    my ($self, @patterns) = @_;

    push @{ $self->{expected} }, @patterns;
}


sub check {
    my ($self) = @_;

    Test::More::is(join("\n", $self->problems), '', 'nginx gave no alarm');
}


sub problems {
    my ($self) = @_;

    my @lines = grep { /$ALARMING/ } split(/\n/, $self->error_log);

    for my $pattern (@{ $self->{expected} }) {
        @lines = grep { !/$pattern/ } @lines;
    }

    my %seen;

    return (@{ $self->{problems} }, grep({ !$seen{$_}++ } @lines),
            $self->sanitizer_reports);
}


sub sanitizer_reports {
    my ($self) = @_;

    return map { slurp($_) } glob("$self->{dir}/sanitizer.*");
}


1;
