#!/usr/bin/perl

# The SQL of docs/locks.md does not lose an update to a holder that has stood
# still, and SQL that checks the token only when it writes does.  The database
# is a real one: SQLite.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Process;

# the statements as the documentation has them

open(my $file, '<', "$FindBin::Bin/../../docs/locks.md")
    or die "locks.md: $!\n";
my @sql = join('', <$file>) =~ /^```sql\n(.*?)^```$/msg;
close($file);

is(scalar(@sql), 3, 'the documentation has three statements');
s/--.*//g for @sql;

my ($share, $read, $write) = @sql;
my $unfenced = 'SELECT state FROM orders WHERE id = :id;';
my $checked = 'UPDATE orders SET state = :state, token = :token'
    . ' WHERE id = :id AND token <= :token;';
my $rows = 'SELECT changes();';
my $database = test_dir() . '/orders.db';


# Runs statements with these values; returns their output, or the number of
# changed rows.

sub sql {
    my ($text, %values) = @_;

    $text =~ s/:(\w+)/$values{$1} \/\/ die "nobody set :$1\n"/ge;

    my ($status, $output) = run('sqlite3', $database, $text);

    $status == 0 or die "sqlite3: $output\n";
    chomp($output);

    return $output;
}


sub table {
    sql('DROP TABLE IF EXISTS orders;'
        . 'CREATE TABLE orders (id INTEGER, state INTEGER, token INTEGER);'
        . 'INSERT INTO orders VALUES (7, 100, 0);');
}


# Two holders add to the state, one 10 and one 1.  The first reads and stands
# still; the second reads; the first goes on and writes; the second writes.
# Returns the state, and the sum that they believe to have reached.

sub schedule {
    my ($read, $write) = @_;

    my %first = (id => 7, token => 5);
    my %second = (id => 7, token => 6);

    table();

    $first{state} = sql($read, %first) + 10;
    $second{state} = sql($read, %second) + 1;

    my $sum = 0;

    $sum += 10 if sql("$write $rows", %first);
    $sum += 1 if sql("$write $rows", %second);

    return (sql('SELECT state FROM orders;'), 100 + $sum);
}

my ($state, $believed) = schedule($unfenced, $checked);

is($state, 101, 'checked at the write alone: the state');
is($believed, 111, 'of two updates one is lost');

($state, $believed) = schedule($read, $write);

is($state, 101, 'raised at the read: the state');
is($believed, 101, 'the first holder knows that its write was refused');


# other reads and writes

table();
is(sql($read, id => 7, token => 6), 100, 'a holder reads');
is(sql($read, id => 7, token => 6), 100, 'and may read again');
is(sql($read, id => 7, token => 5), '', 'a former holder reads nothing');
is(sql("$write $rows", id => 7, token => 6, state => 1), 1, 'a holder writes');
is(sql("$write $rows", id => 7, token => 6, state => 2), 1, 'and writes again');
is(sql("$write $rows", id => 7, token => 7, state => 3), 0,
   'nobody writes who has not read');

# Requests that share the lock compare their tokens, and keep none: those of
# others that share it may be smaller.

is(sql($share, id => 7, token => $_), 2, "one that shares the lock reads: $_")
    for 9, 7;
is(sql($share, id => 7, token => 5), '', 'but not after a later writer');
is(sql($read, id => 7, token => 10), 2, 'and the next writer reads');
is(sql($share, id => 7, token => 9), '', 'which ends all before it');

finish();
