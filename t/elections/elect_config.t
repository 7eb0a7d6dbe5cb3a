#!/usr/bin/perl

# Elections and registrations that nginx -t refuses, with message and line, and
# others that pass.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Conf;
use Finish;

my $election = 'election leader /elections/leader;';
my $register = 'register /nginx/1 value=x;';

for my $what ('election e /e', 'register /r value=x') {
    my $directive = (split(/ /, $what))[0];

    refused("$directive ttl=$_->[0]", etcd($endpoint, "$what ttl=$_->[0];"),
            qq(invalid parameter "ttl=$_->[0]": it must be a time from 2s to 1d)
            . ' in AT', 3)
        for ['0'], ['1'], ['1s'], ['1000000000'], [''], ['soon'];
    refused("$directive ttl twice", etcd($endpoint, "$what ttl=5 ttl=6;"),
            'invalid parameter "ttl=6": it is duplicate in AT', 3);
    refused("$directive speed=1", etcd($endpoint, "$what speed=1;"),
            'invalid parameter "speed=1" in AT', 3);
    refused("$directive with a variable",
            etcd($endpoint, "election e /e 'value=\$pid';"),
            'unknown variable in "value=$pid", only $hostname is supported in '
            . 'AT', 3);
}

refused('an election with a control byte in its value',
        etcd($endpoint, 'election e /e "value=a\\tb";'),
        '"election" directive has a value with a control byte in AT', 3);
passes('a registration with such a value',
       etcd($endpoint, 'register /r "value=a\\tb";'));
refused('an election without a prefix', etcd($endpoint, 'election e;'),
        'invalid number of arguments in "election" directive in AT', 3);
refused('an election with an empty prefix', etcd($endpoint, 'election e "";'),
        '"election" directive has an empty prefix in AT', 3);
refused('an election of all', etcd($endpoint, 'election e /;'),
        '"election" directive has an empty prefix in AT', 3);
refused('an election with a long prefix',
        etcd($endpoint, 'election e ' . 'x' x 1024 . ';'),
        '"election" directive has a key that is too long in AT', 3);
refused('a name with a slash', etcd($endpoint, 'election a/b /e;'),
        '"election" directive needs a name of letters, digits and '
        . 'underscores in AT', 3);
refused('an election twice', etcd($endpoint, $election, $election),
        'duplicate election "leader" in AT', 4);
refused('an election twice, in other letters',
        etcd($endpoint, $election, 'election LEADER /other;'),
        'duplicate election "LEADER" in AT', 4);
refused('two elections below one prefix',
        etcd($endpoint, $election, 'election other /elections/leader/;'),
        'key "/elections/leader" is already used by election "leader" in AT',
        4);
refused('a registration without a value', etcd($endpoint, 'register /r;'),
        'invalid number of arguments in "register" directive in AT', 3);
refused('a registration with a ttl alone',
        etcd($endpoint, 'register /r ttl=5s;'),
        '"register" directive needs "value=" in AT', 3);
refused('a registration with an empty key',
        etcd($endpoint, 'register "" value=x;'),
        '"register" directive has an empty key in AT', 3);
refused('a registration twice', etcd($endpoint, $register, $register),
        'key "/nginx/1" is already used by registration "/nginx/1" in AT', 4);
refused('a registration that would be a candidate',
        etcd($endpoint, $election, 'register /elections/leader/1 value=x;'),
        'key "/elections/leader/1" is below the prefix "/elections/leader" of '
        . 'an election in AT', 4);
refused('etcd_require_leader of nothing',
        location('etcd_require_leader nobody;'),
        'unknown election "nobody" in AT: no "etcd" block has such an '
        . '"election"', 7);
refused('a variable of nothing', location('return 200 $etcd_leader_nobody;'),
        'unknown election "nobody" in AT: no "etcd" block has such an '
        . '"election"', 10);
refused('etcd_require_leader twice',
        location('etcd_require_leader off;', 'etcd_require_leader off;'),
        '"etcd_require_leader" directive is duplicate in AT', 8);
refused("status=$_", location("etcd_require_leader e status=$_;"),
        qq(invalid parameter "status=$_": it must be between 400 and 599 in AT),
        7)
    for '', 'x', 200, 302, 399, 600;
refused('etcd_require_leader with something else',
        location('etcd_require_leader e speed=1;'),
        'invalid parameter "speed=1" in AT', 7);

passes('elections and registrations', etcd(
    $endpoint, $election, 'election _2 other/ value=a-$hostname ttl=2s;',
    'election three /e ttl=1d value=;', $register,
    'register /nginx/$1 value=$hostname$hostname ttl=1h;',
) =~ s{location /}{etcd_require_leader leader status=444;
                   location /off { etcd_require_leader off; }
                   location /}r);

finish();
