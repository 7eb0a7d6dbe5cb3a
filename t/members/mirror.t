#!/usr/bin/perl

# The mirror alone: the calls of its handlers for lists and events in any order,
# and its contents beside a model of etcd.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Finish;
use Nginx;
use Unit;

my $module = build_unit('ngx_etcd_unit_mirror_module');


sub run_directives {
    my (@directives) = @_;

    my ($ok, $output) = Nginx->new(modules => ['etcd'])->configtest(
        join("\n", "load_module $module;", map { "$_;" } @directives) . "\n");

    ok($ok, @directives . ' directives') or diag($output);

    return map { /^(?:mirror|model): ?(.*)$/ ? $1 : () } split(/\n/, $output);
}

my ($DENIED, $INTERNAL, $UNAVAILABLE) = (7, 13, 14);
my $abc = 'list key:a:1:1:x key:b:2:4:y key:c:3:3:z listed:5 created';

# [NAME, OPTIONS, STEPS, TOLD]

my @cases = (
    ['a list', '-', "$abc dump",
     '+a:1=x +b:4=y +c:3=z listed@5 [3 synced a:1:1: b:2:4: c:3:3:]'],
    ['entries that are held', 'held',
     "$abc put:a:1:6:v del:b:6 del:z:6 events:6 put:b:7:7:w events:7 list "
     . 'key:b:7:7:w listed:8 dump',
     '+a:1=x +b:4=y +c:3=z listed@5 ~a:6=v -b:6 -z:6? @6 +b:7=w @7 -a:6 -c:3 '
     . 'listed@8 [1 synced b:7:7:] held:b:1 held:a:2 held:c:1'],
    ['values that are kept', 'keep=2', 'list key:a:1:1:xyz listed:5 dump',
     '+a:1=xy listed@5 [1 synced a:1:1:xy]'],
    ['an empty value that is kept', 'keep=2',
     'list key:a:1:1:x listed:5 put:a:1:6: events:6 dump',
     '+a:1=x listed@5 ~a:6= @6 [1 synced a:1:6:]'],
    ['the order of creation', 'create',
     "$abc put:a:6:6:v put:d:6:6:w events:6 del:c:7 events:7 dump",
     '+a:1=x +b:4=y +c:3=z listed@5 ~a:6=v +d:6=w @6 -c:7 @7 '
     . '[3 synced b:2:4: a:6:6: d:6:6:]'],
    ['events of one revision', '-',
     "$abc put:d:6:6:v del:a:6 put:b:2:6:w events:6 dump",
     '+a:1=x +b:4=y +c:3=z listed@5 +d:6=v -a:6 ~b:6=w @6 '
     . '[3 synced b:2:6: c:3:3: d:6:6:]'],
    ['nothing has happened', '-', 'list listed:5 created events:5 events:9',
     'listed@5 @5 @9'],
    ['duplicates', '-',
     'list listed:5 put:a:6:6:x events:6 put:a:6:6:x put:b:7:7:y events:7 '
     . 'del:a:8 events:7 del:a:8 put:c:8:8:z events:8 dump',
     'listed@5 +a:6=x @6 +b:7=y @7 -a:8 @7 -a:8? +c:8=z @8 '
     . '[2 synced b:7:7: c:8:8:]'],
    ['an event that is older than the list', '-',
     'list key:a:4:4:x listed:5 put:a:3:3:y del:a:5 put:b:5:5:z events:5 dump',
     '+a:4=x listed@5 @5 [1 synced a:4:4:]'],
    ['a deletion of what is not known', '-', 'list listed:5 del:z:6 events:6',
     'listed@5 -z:6? @6'],
    ['a revision in parts', '-',
     'list listed:5 put:a:6:6:x put:b:6:6:y events:5 put:b:6:6:y put:c:6:6:z '
     . 'events:6 dump',
     'listed@5 +a:6=x +b:6=y @5 +c:6=z @6 [3 synced a:6:6: b:6:6: c:6:6:]'],
    ['what a list does not name', '-',
     "$abc list key:b:2:4:y key:c:3:7:v listed:8 dump",
     '+a:1=x +b:4=y +c:3=z listed@5 ~c:7=v -a:1 listed@8 '
     . '[2 synced b:2:4: c:3:7:]'],
    ['a key that was deleted and created', '-',
     "$abc list key:a:6:6:x key:b:2:4:y key:c:3:3:z listed:8",
     '+a:1=x +b:4=y +c:3=z listed@5 ~a:6=x listed@8'],
    ['a list that ends early removes nothing', '-',
     "$abc list key:a:1:7:v dump failed:$UNAVAILABLE dump",
     '+a:1=x +b:4=y +c:3=z listed@5 ~a:7=v [3 listing a:1:7: b:2:4: c:3:3:] '
     . "denied=$UNAVAILABLE again [3 refused distrust a:1:7: b:2:4: c:3:3:]"],
    ['a list that begins anew, as after a compaction', '-',
     'list key:a:1:1:x key:b:2:2:y list key:b:2:2:y key:c:9:9:z listed:9 dump',
     '+a:1=x +b:2=y +c:9=z -a:1 listed@9 [2 synced b:2:2: c:9:9:]'],
    ['another history', '-',
     "$abc history list key:a:1:1:v key:d:2:2:w listed:3 put:a:1:4:u events:4 "
     . 'dump',
     '+a:1=x +b:4=y +c:3=z listed@5 foreign ~a:1=v +d:2=w -b:4 -c:3 listed@3 '
     . '~a:4=u @4 [2 synced a:1:4: d:2:2:]'],
    ['the consumer wants all again', '-',
     "$abc again dump list key:a:1:1:x listed:5",
     '+a:1=x +b:4=y +c:3=z listed@5 again [3 distrust a:1:1: b:2:4: c:3:3:] '
     . '~a:1=x -b:4 -c:3 listed@5'],
    ['denied, and allowed again', '-',
     "$abc failed:$DENIED failed:$DENIED dump events:5 dump",
     "+a:1=x +b:4=y +c:3=z listed\@5 denied=$DENIED denied=$DENIED "
     . '[3 synced refused a:1:1: b:2:4: c:3:3:] @5 '
     . '[3 synced a:1:1: b:2:4: c:3:3:]'],
    ['denied from the start', '-', "failed:$DENIED dump list listed:5 dump",
     "denied=$DENIED [0 refused] listed\@5 [0 synced]"],
    ['keys that are not wanted', 'wants',
     'list key:a:1:1:x key:xa:1:1:x listed:5 put:xb:6:6:y del:xa:6 events:6 '
     . 'dump',
     '+a:1=x listed@5 @6 [1 synced a:1:1:]'],
    ['from a known revision', 'from=5',
     'created events:5 dump put:s:2:6:x events:6 del:s:7 events:7',
     '@5 [1 synced s:0:5:] +s:6=x @6 -s:7 @7'],
    ['a list after a known revision', 'from=5',
     'list key:s:2:5:x listed:7 dump list listed:8',
     'listed@7 [1 synced s:2:5:] -s:5 listed@8'],
    ['no memory for an event', '-',
     "$abc oom:1 put:d:6:6:v events:6 dump list key:a:1:1:x listed:7",
     "+a:1=x +b:4=y +c:3=z listed\@5 denied=$INTERNAL again "
     . '[3 refused distrust a:1:1: b:2:4: c:3:3:] ~a:1=x -b:4 -c:3 listed@7'],
    ['no memory for a value', 'keep=9',
     "$abc oom:1 put:a:1:6:v events:6 dump",
     "+a:1=x +b:4=y +c:3=z listed\@5 denied=$INTERNAL again "
     . '[3 refused distrust a:1:1:x b:2:4:y c:3:3:z]'],
    ['stop', '-', "$abc stop dump", '+a:1=x +b:4=y +c:3=z listed@5 stop=0 [0]'],

    # audits

    ['an audit', '-',
     "$abc audit answer:5 akey:a:1:1 akey:b:2:4 akey:c:3:3 adone:0",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0'],
    ['an audit finds another revision', '-',
     "$abc audit answer:5 akey:a:1:2 akey:b:2:4 akey:c:3:3 adone:0 dump",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=1 again '
     . '[3 distrust a:1:1: b:2:4: c:3:3:]'],
    ['an audit finds a key', '-',
     "$abc audit answer:5 akey:a:1:1 akey:b:2:4 akey:c:3:3 akey:d:5:5 adone:0",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=1 again'],
    ['an audit does not find a key', '-',
     "$abc audit answer:5 akey:a:1:1 akey:c:3:3 adone:0",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=1 again'],
    ['an audit finds a key in place of another', '-',
     "$abc audit answer:5 akey:a:1:1 akey:b:2:4 akey:d:3:3 adone:0",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=1 again'],
    ['an audit and what happens meanwhile', '-',
     "$abc audit answer:7 del:a:6 put:b:2:7:v events:7 del:c:8 put:d:9:9:w "
     . 'events:9 akey:b:2:7 put:b:2:10:u del:d:10 events:10 akey:c:3:3 '
     . 'adone:0',
     '+a:1=x +b:4=y +c:3=z listed@5 lists -a:6 ~b:7=v @7 -c:8 +d:9=w @9 '
     . '~b:10=u -d:10 @10 repairs=0'],
    ['an audit whose list is older than the entries', '-',
     "$abc audit put:d:6:6:v events:6 answer:5 akey:a:1:1 adone:13 answer "
     . 'akey:a:1:1 akey:b:2:4 akey:c:3:3 akey:d:6:6 adone:0',
     '+a:1=x +b:4=y +c:3=z listed@5 lists +d:6=v @6 no-audit repairs=0 lists@6 '
     . 'repairs=0'],
    ['an audit between two pieces of a revision', '-',
     "$abc put:d:6:6:v events:5 audit answer:6 akey:a:1:1 akey:b:2:4 "
     . 'akey:c:3:3 akey:d:6:6 akey:e:6:6 adone:0 put:e:6:6:w events:6 '
     . 'settled:1:6',
     '+a:1=x +b:4=y +c:3=z listed@5 +d:6=v @5 lists repairs=0 +e:6=w @6 '
     . 'repairs=0'],
    ['an audit and an event that comes late', '-',
     "$abc audit answer:7 akey:a:1:1 akey:c:3:3 adone:0 settled:1:7 del:b:6 "
     . 'events:7 settled:1:7',
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0 repairs=0 -b:6 @7 '
     . 'repairs=0'],
    ['an audit and a later event', '-',
     "$abc audit answer:7 akey:a:1:1 akey:c:3:3 adone:0 put:d:8:8:v events:8 "
     . 'settled:1:8',
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0 +d:8=v @8 repairs=1 again'],
    ['an audit that nothing proves', '-',
     "$abc audit answer:7 akey:a:1:1 adone:0 settled:0:7 audit",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0 repairs=0 lists'],
    ['an audit of an endpoint that lags behind', '-',
     "$abc audit answer:7 akey:a:1:1 adone:0 settled:1:6 audit",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0 repairs=0 lists'],
    ['an audit of a revision that was not told of', '-',
     "$abc audit answer:7 akey:a:1:1 akey:b:2:4 adone:0 settled:1:7 "
     . 'settled:1:7',
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0 repairs=0 repairs=1 again'],
    ['an audit of an endpoint that has just caught up', '-',
     "$abc audit answer:7 akey:a:1:1 akey:b:2:7 akey:c:3:3 adone:0 "
     . 'settled:1:7 put:b:2:7:v events:7 settled:1:7',
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0 repairs=0 ~b:7=v @7 '
     . 'repairs=0'],
    ['an audit that fails', '-', "$abc audit answer:5 akey:a:1:1 adone:14",
     '+a:1=x +b:4=y +c:3=z listed@5 lists repairs=0'],
    ['an audit of a watch that is interrupted', '-',
     "$abc audit answer:5 akey:a:1:1 created akey:b:2:4",
     '+a:1=x +b:4=y +c:3=z listed@5 lists no-audit'],
    ['an audit and a list', '-', "$abc audit answer:5 list akey:b:2:4",
     '+a:1=x +b:4=y +c:3=z listed@5 lists no-audit'],
    ['no audit before a list', '-', 'created audit', 'no-audit'],
    ['no audit without memory', '-', "$abc oom:1 audit",
     '+a:1=x +b:4=y +c:3=z listed@5 no-audit'],
    ['an audit of wanted keys', 'wants',
     'list key:a:1:1:x listed:5 created audit answer:5 akey:xa:1:1 akey:a:1:1 '
     . 'adone:0',
     '+a:1=x listed@5 lists repairs=0'],
    ['an audit that is stopped', '-', "$abc audit answer:5 stop",
     '+a:1=x +b:4=y +c:3=z listed@5 lists stop=0'],
);

my @told = run_directives(map { "etcd_mirror $_->[1] $_->[2]" } @cases);

is(shift @told, $_->[3], $_->[0]) for @cases;

# Each allocation fails in turn: afterwards a list has everything.

my $steps = 'list key:a:1:1:x key:b:2:4:y listed:5 created '
            . 'put:c:6:6:z put:a:1:6:v del:b:6 events:6';
my $then = 'list key:a:1:6:v key:c:6:6:z listed:7 dump';

for my $options ('keep=9,create', 'create') {
    @told = run_directives(map {
        "etcd_mirror $options oom:$_ $steps oom:0 $then"
    } 1 .. 12);

    my $wanted = $options =~ /keep/ ? qr/a:1:6:v c:6:6:z/ : qr/a:1:6: c:6:6:/;

    is(scalar(grep { /\[2 synced $wanted\]$/ } @told), 12,
       "$options: every allocation may fail") or diag(join("\n", @told));
    ok((grep { /denied=$INTERNAL/ } @told) > 2, 'and some are noticed');
}

# beside a model of etcd

my @models = map { my $options = $_; map { "$options $_ 1000 " . ($_ % 3 * 5) }
                                     1 .. 9 }
             '-', 'keep', 'create,keep', 'create';

@told = map { [split(/ /, $_)] } run_directives(
            map { "etcd_mirror_model $_" } @models);

is(scalar(@told), scalar(@models), 'all models have run');

my @wrong = grep { $told[$_][1] != 0 } 0 .. $#told;

is_deeply([map { "$models[$_]: $told[$_][1]" } @wrong], [],
          'a mirror that is synced has what etcd had');
is(scalar(grep { $_->[0] < 200 } @told), 0, 'which was looked at often');
ok((grep { $_->[2] > 0 } @told) > @told / 3, 'also where memory had run out');

finish();
