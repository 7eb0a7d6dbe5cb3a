package Porcupine;

# Judges histories by a checker of linearizability that is somebody else's:
# github.com/anishathalye/porcupine, by t/clients/porcupine/.
#
#     Porcupine::is_built()             # "make test-clients" does
#     Porcupine::accepts('mutex', @operations)
#     Porcupine::accepts('counter', @operations)
#
# Operations are those of Linearizability.

use strict;
use warnings;

use JSON::PP;

use Finish;
use Process;
use Registrant;

my $program = Registrant::command('porcupine');


sub is_built { Registrant::is_built('porcupine') }


sub accepts {
    my ($model, @operations) = @_;

    my $file = test_dir() . '/operations';

    open(my $out, '>', $file) or die "open $file: $!\n";
    print {$out} map { encode_json($_) . "\n" } @operations;
    close($out) or die "write $file: $!\n";

    my ($status, $output) = run('sh', '-c', 'exec "$0" "$1" < "$2"', $program,
                                $model, $file);

    $status == 0 && $output =~ /^(ok|illegal)$/
        or die "porcupine: $output\n";

    return $1 eq 'ok';
}


1;
