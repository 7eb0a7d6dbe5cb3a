#!/usr/bin/perl

# The resolver of host names without name servers and without time: what it asks
# when, what it keeps, and whom it tells.  t/unit/unit_resolver.c has the
# commands.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use Test::More;

use Finish;
use Nginx;
use Unit;

my $module = build_unit('ngx_etcd_unit_module');


sub happens {
    my ($name, $commands, $wanted) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my ($ok, $output) = Nginx->new(modules => ['etcd'])->configtest(
        "load_module $module;\netcd_resolver "
        . join(' ', map { "\"$_\"" } @$commands) . ";\n");
    my ($events) = $output =~ /^resolver:(.*)$/m;

    ok($ok, "$name: nothing is left") or diag($output);

    return is($events // $output, join('', map { " $_" } @$wanted), $name);
}


happens('a name is asked for once, whoever uses it',
        ['use 1 one', 'use 2 one', 'show 1', 'answer one 0 1.0.0.2 1.0.0.1',
         'show 1', 'use 3 one', 'show 3'],
        ['ask one', '1=', 'changed 1', 'changed 2', '1=1.0.0.1,1.0.0.2',
         '3=1.0.0.1,1.0.0.2']);

happens('the same addresses in another order, and twice, are no change',
        ['use 1 one', 'answer one 0 1.0.0.1 1.0.0.2', 'wait 1000',
         'answer one 0 1.0.0.2 1.0.0.1 1.0.0.2', 'show 1', 'wait 1000',
         'answer one 0 1.0.0.2', 'show 1'],
        ['ask one', 'changed 1', 'ask one', '1=1.0.0.1,1.0.0.2', 'ask one',
         'changed 1', '1=1.0.0.2']);

happens('an address stays while the name has it',
        ['use 1 one', 'answer one 0 1.0.0.1 1.0.0.2', 'show 1 1.0.0.2',
         'show 1 1.0.0.3'],
        ['ask one', 'changed 1', '1=1.0.0.1,1.0.0.2>1.0.0.2',
         '1=1.0.0.1,1.0.0.2>1.0.0.1']);

happens('it is asked for again after a second at least, or its TTL',
        ['use 1 one', 'answer one 0 1.0.0.1', 'wait 999', 'wait 1',
         'answer one 10 1.0.0.1', 'wait 10999', 'show 1', 'wait 1'],
        ['ask one', 'changed 1', 'ask one', '1=1.0.0.1', 'ask one',
         'forget one']);

happens('after failures later each time, up to 10 s',
        ['use 1 one', map({ ('fail one bad', 'wait ' . ($_ - 1), 'show 1',
                             'wait 1') }
                          1000, 2000, 4000, 8000, 10000, 10000),
         'answer one 0 1.0.0.1', 'wait 1000', 'fail one bad', 'wait 1000'],
        ['ask one', 'changed 1', ('1=bad', 'ask one') x 6, 'changed 1',
         'ask one', 'ask one', 'forget one']);

happens('failures keep what is known',
        ['use 1 one', 'fail one bad', 'wait 1000', 'fail one worse', 'show 1',
         'wait 2000', 'answer one 0 1.0.0.1', 'wait 1000', 'fail one bad',
         'show 1'],
        ['ask one', 'changed 1', 'ask one', 'changed 1', '1=worse', 'ask one',
         'changed 1', 'ask one', '1=1.0.0.1']);

happens('addresses that may not be used',
        ['use 1 one', 'answer one 0 10.0.0.1 1.0.0.1', 'show 1', 'wait 1000',
         'answer one 0 10.0.0.1 10.0.0.2 1.0.0.1', 'show 1', 'wait 1000',
         'answer one 0 10.0.0.1', 'show 1', 'use 2 two',
         'answer two 0 10.0.0.1', 'show 2'],
        ['ask one', 'changed 1', '1=1.0.0.1(1/0)', 'ask one', 'changed 1',
         '1=1.0.0.1(2/0)', 'ask one', '1=1.0.0.1(2/0)', 'ask two', 'changed 2',
         '2=there is no address that may be used']);

my @many = map { "1.0.0.$_" } 1 .. 70;

happens('of too many the lowest ones',
        ['use 1 one', "answer one 0 @{[ reverse @many ]}", 'show 1'],
        ['ask one', 'changed 1', '1=' . join(',', @many[0 .. 63]) . '(0/6)']);

happens('what nobody uses is forgotten, in any state',
        ['use 1 one', 'unuse 1', 'use 1 two', 'use 2 two', 'unuse 1',
         'answer two 0 1.0.0.1', 'unuse 2', 'wait 100000', 'use 1 one',
         'use 1 two'],
        ['ask one', 'forget one', 'ask two', 'changed 2', 'ask one', 'ask two',
         'forget one', 'forget two']);

happens('who is told may go, and take others along',
        ['use 1 one', 'use 2 one', 'use 3 one', 'when 1 2', 'when 3 1',
         'answer one 0 1.0.0.1', 'unuse 3', 'use 1 one', 'when 1 1',
         'answer one 0 1.0.0.1', 'wait 100000'],
        ['ask one', 'changed 1', 'changed 3', 'ask one', 'changed 1']);

# user and name have one number; those above 64 wait for others to be answered

my @names = 1 .. 64;

happens('so many names at a time, the others in turn',
        [map({ "use $_ n$_" } @names, 65 .. 67), 'unuse 66',
         'answer n5 0 1.0.0.1', 'unuse 1', 'show 67'],
        [map({ "ask n$_" } @names), 'changed 5', 'ask n65', 'forget n1',
         'ask n67', '67=',
         map({ "forget n$_" } 2 .. 4, 6 .. 64, 65, 67)]);

finish();
