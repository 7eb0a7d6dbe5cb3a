#!/usr/bin/perl

# Parameters of etcd_eject, etcd_guard and etcd_prefer, and outcomes=: what
# nginx -t refuses, with which words and where, and what passes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Conf;
use Finish;
use Nginx;

$ENV{ETCD_ZONE} = 'a';
$ENV{ETCD_EMPTY} = '';

refused('etcd_eject alone',
        upstream('server 127.0.0.1:1;', 'etcd_eject errors=50%;'),
        '"etcd_eject" in AT is without "etcd_members" or "etcd_leader" '
        . 'in its upstream', 7);
refused('etcd_eject twice', upstream($members, 'etcd_eject errors=50%;',
                                     'etcd_eject errors=50%;'),
        '"etcd_eject" directive is duplicate in AT', 8);
refused('etcd_eject without errors', upstream($members, 'etcd_eject min=3;'),
        '"etcd_eject" needs the parameter "errors=" in AT', 7);
refused('etcd_eject with a parameter twice',
        upstream($members, 'etcd_eject errors=50% min=3 min=4;'),
        'invalid parameter "min=4": it is duplicate in AT', 7);
refused("etcd_eject $_", upstream($members, "etcd_eject errors=50% $_;"),
        "invalid parameter \"$_\" in AT", 7)
    for qw(error=50% once);
refused("etcd_eject $_", upstream($members, "etcd_eject $_;"),
        "invalid parameter \"$_\": invalid value in AT", 7)
    for qw(errors=0% errors=101% errors=50 errors=% max=0% max=-1% min=0
           min=x window=999ms window=2h window= time=0 time=25h time=soon
           status= status=99 status=600 status=599-500 status=5xx
           status=500-599-600), 'status=500,';
refused('etcd_eject of a leader',
        upstream('etcd_leader /a/;', 'etcd_eject errors=50%;'),
        '"etcd_eject" cannot be used together with "etcd_leader" in AT: a '
        . 'leader is not chosen by its errors', 6);
passes("etcd_eject $_", upstream($members, "etcd_eject errors=$_;"))
    for '1%', '100% status=500', '50% status=500-502,504,599 window=1s min=1 '
        . 'time=1 max=100%';

# outcomes

refused("$_->[0] $_->[1]", upstream("$_->[0] /a/ $_->[1];"),
        'invalid parameter "' . $_->[1] =~ s/.* //r . "\": $_->[2] in AT", 6)
    for map { ([$_, 'outcomes=all', 'invalid value'],
               [$_, 'outcomes=members outcomes=upstream', 'it is duplicate'])
        } qw(etcd_members etcd_leader);

# the guard

refused('etcd_guard alone',
        upstream('server 127.0.0.1:1;', 'etcd_guard off;'),
        '"etcd_guard" in AT is without "etcd_members" or "etcd_leader" '
        . 'in its upstream', 7);
refused('etcd_guard twice', upstream($members, 'etcd_guard off;',
                                     'etcd_guard keep=50%;'),
        '"etcd_guard" directive is duplicate in AT', 8);
refused("etcd_guard $_->[0]", upstream($members, "etcd_guard $_->[0];"),
        'invalid parameter "' . $_->[0] =~ s/.* //r . "\": $_->[1] in AT", 7)
    for ['keep=1% keep=2%', 'it is duplicate'],
        map({ ["keep=$_", 'it must be from 1% to 100%'] }
            '', qw(% 50 0% 101% x% 5.5%)),
        map({ [$_, 'it must be a time from 1s to 7d'] }
            qw(window=999ms window= hold=0 hold=soon hold=8d));
refused("etcd_guard $_", upstream($members, "etcd_guard $_;"),
        'invalid parameter "' . s/.* //r . '" in AT', 7)
    for qw(on dry_run=1 dry=1 off=1 =), 'hold=1m off';
refused("etcd_guard $_ alone", upstream($members, "etcd_guard $_;"),
        '"window=" and "dry_run" of "etcd_guard" need the parameter "keep=" '
        . 'in AT', 7)
    for qw(window=1m dry_run);
refused('etcd_guard of a leader',
        upstream('etcd_leader /a/;', 'etcd_guard off;'),
        '"etcd_guard" cannot be used together with "etcd_leader" in AT: a '
        . 'former leader is not used', 6);
passes("etcd_guard $_", upstream($members, "etcd_guard $_;"))
    for 'off', 'hold=1s', 'keep=1%', 'keep=100% window=1h hold=7d dry_run';

# nearness

refused('etcd_prefer alone',
        upstream('server 127.0.0.1:1;', 'etcd_prefer zone:a;'),
        '"etcd_prefer" in AT is without "etcd_members" or "etcd_leader" '
        . 'in its upstream', 7);
refused('etcd_prefer twice', upstream($members, 'etcd_prefer zone:a;',
                                      'etcd_prefer zone:b;'),
        '"etcd_prefer" directive is duplicate in AT', 8);
refused("etcd_prefer $_", upstream($members, "etcd_prefer $_;"),
        "invalid tag \"$_\": it is not \"TAG:VALUE\" in AT", 7)
    for qw(zone :a);
refused("etcd_prefer $_", upstream($members, "etcd_prefer $_;"),
        "invalid tag \"$_\": its value is empty in AT", 7)
    for qw(zone: zone:env:ETCD_EMPTY);
refused("etcd_prefer $_", upstream($members, "etcd_prefer $_;"),
        "invalid tag \"$_\": there is no such variable in the environment "
        . 'in AT', 7)
    for qw(zone:env:ETCD_NO_SUCH zone:env:);
refused("etcd_prefer $_", upstream($members, "etcd_prefer $_;"),
        "invalid tag \"$_\": the only variable is \"\$hostname\", as the "
        . 'whole value in AT', 7)
    for 'zone:$zone', 'zone:$hostname.a';
refused("etcd_prefer $_", upstream($members, "etcd_prefer zone:a $_;"),
        "invalid parameter \"$_\" in AT", 7)
    for qw(spil=70% 70%);
refused("etcd_prefer $_", upstream($members, "etcd_prefer zone:a $_;"),
        "invalid parameter \"$_\": it must be from 1% to 100% in AT", 7)
    for qw(spill=0% spill=101% spill=-1% spill=7.5% spill=70 spill=%);
refused('etcd_prefer of a leader',
        upstream('etcd_leader /a/;', 'etcd_prefer zone:a;'),
        '"etcd_prefer" cannot be used together with "etcd_leader" in AT: only '
        . '"etcd_members" has members to prefer', 6);
refused("etcd_prefer, $_", upstream("etcd_members /a/ $_;",
                                    'etcd_prefer zone:a;'),
        '"etcd_prefer" cannot be used together with "etcd_members" in AT: the '
        . 'format has no tags', 6)
    for map({ "format=$_" } qw(plain key traefik upsync dolphinscheduler)),
        'format=json address=/a';
passes("etcd_prefer $_", upstream("etcd_prefer $_;", $members))
    for 'zone:a', 'zone:a:b spill=1%', 'host:$hostname spill=100%',
        'zone:env:ETCD_ZONE';

finish();
