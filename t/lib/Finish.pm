package Finish;

# finish() ends a test: it stops whatever the test started, last first, lets
# each part say whether it behaved, and closes the plan.  A test that dies
# before that is cleaned up after as well.
#
# What is started registers itself by Finish::later(); it has a method stop()
# and may have two more: check(), which calls ok() and the like, and problems(),
# which lists what somebody should know about a test that died.

use strict;
use warnings;

use Exporter 'import';
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use Test::More ();

our @EXPORT = qw(finish test_dir);

my $creator = $$;
my @started;
my $dir;


# An interrupted test runs its END blocks, and so stops all that it started,
# also when prove has ended and nobody reads the test's output any more.

$SIG{$_} = sub { exit 1 } for qw(HUP INT TERM PIPE);


sub later {
    my ($object) = @_;

    if (!grep { $_ == $object } @started) {
        push @started, $object;
    }
}


# Each test has a directory; TEST_KEEP=1 leaves it in place.  A child does not
# remove what it has made.

sub test_dir {
    defined $dir || $$ == $creator
        or die "the test itself has no directory yet\n";

    $dir //= tempdir('nginx-etcd-XXXXXX', TMPDIR => 1);

    return $dir;
}


sub finish {
    for my $object (stop_all()) {
        $object->check() if $object->can('check');
    }

    Test::More::done_testing();
}


sub stop_all {
    my @objects = reverse splice(@started);

    for my $object (@objects) {
        eval { $object->stop(); 1 } or warn $@;
    }

    return @objects;
}


END {
    if ($$ == $creator) {
        local $?;
        local $SIG{PIPE} = 'IGNORE';

        for my $object (stop_all()) {
            print STDERR map { "# $_\n" } $object->problems
                if $object->can('problems');
        }

        if (defined $dir && $ENV{TEST_KEEP}) {
            print STDERR "# files are in $dir\n";

        } elsif (defined $dir) {
            remove_tree($dir);
        }
    }
}


1;
