#!/usr/bin/perl

# Parameters of "etcd_check" that nginx -t refuses, with their messages, and
# others that pass.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Conf;
use Finish;


refused('etcd_check alone', upstream('server 127.0.0.1:1;', 'etcd_check tcp;'),
        '"etcd_check" in AT is without "etcd_members" or "etcd_leader" '
        . 'in its upstream', 7);
refused('etcd_check twice', upstream($members, 'etcd_check tcp;',
                                     'etcd_check tcp;'),
        '"etcd_check" directive is duplicate in AT', 8);
refused('etcd_check of a leader', upstream('etcd_leader /a/;',
                                           'etcd_check tcp;'),
        '"etcd_check" cannot be used together with "etcd_leader" in AT: etcd '
        . 'says who leads', 6);
refused("etcd_check $_", upstream($members, "etcd_check $_;"),
        "unknown type of check \"$_\", there are: tcp, http, grpc in AT", 7)
    for qw(udp ht mandatory);
refused('etcd_check without a type', upstream($members, 'etcd_check;'),
        '"etcd_check" needs a type of check, there are: tcp, http, grpc in AT',
        7);
refused('etcd_check with a long timeout',
        upstream($members, 'etcd_check tcp interval=1s timeout=2s;'),
        '"timeout" of "etcd_check" is longer than its "interval" in AT', 7);
refused('etcd_check that is fast and slower',
        upstream($members, 'etcd_check tcp interval=1s fast=2s;'),
        '"fast" of "etcd_check" is longer than its "interval" in AT', 7);
refused('etcd_check without certificates',
        upstream($members, 'etcd_check tcp ssl;'),
        '"etcd_check" has no "ssl_trusted_certificate=" to verify members by '
        . 'in AT', 7);

my %checks = (
    '' => [
        'tcp interval', 'tcp mandatory=on', 'http ssl=on', 'http verify=off',
    ],
    'it is for another type of check' => [
        'tcp uri=/', 'tcp status=200', 'tcp match=a', 'tcp host=a',
        'tcp header=A:b', 'tcp service=a', 'http service=a', 'grpc uri=/',
    ],
    'it is duplicate' => ['http uri=/a uri=/b', 'tcp mandatory mandatory'],
    'it needs "ssl" before it' => [
        'tcp ssl_verify=off', 'tcp ssl_name=a',
        'tcp ssl_trusted_certificate=a',
    ],
    'it takes a time of 10ms to 1d' => [
        map { "tcp $_" } qw(interval= interval=0 interval=9ms interval=25h
                            interval=soon interval=-1 timeout=0 timeout=1x
                            fast=0),
    ],
    'the number is out of range' => [
        map { "tcp $_" } qw(rises=0 rises=-1 rises=x fails=0 fails=65536 port=0
                            port=65536),
    ],
    'it must be from 0% to 100%' => [
        map { "tcp $_" } qw(panic=101% panic=-1% jitter=101% panic=50 panic=
                            panic=% jitter=1),
    ],
    'it does not begin with "/"' => ['http uri=', 'http uri=health'],
    'spaces and other bytes have to be escaped' => [
        'http "uri=/a b"', 'http "uri=/a\r\nB:c"',
    ],
    'it takes a status of 100 to 599, or two as in "200-399"' => [
        map { "http $_" } qw(status= status=99 status=600 status=2xx
                             status=300-200 status=200-),
    ],
    'it is empty' => ['http match=', 'tcp ssl ssl_name=',
                      'tcp ssl ssl_trusted_certificate='],
    'the expression is empty' => ['http match=~'],
    'it is not a host name' => ['http host=', 'grpc "host=a b"',
                                'http "host=a\r\nB:c"'],
    'it takes a name, ":", and a value' => [
        'http header=A', 'http header=:b', 'http "header=A b:c"',
        'http "header=A\r\nB:c"',
    ],
    'the header is set by the check' => [
        'http header=Host:a', 'http header=connection:keep-alive',
        'http header=Content-Length:1', 'http header=transfer-encoding:a',
    ],
    'the value has a control character' => [
        'http "header=A:b\r\nC:d"', 'http "header=A:\n"',
    ],
    'it is neither on nor off' => ['tcp ssl ssl_verify=maybe'],
    'it is empty' => ['tcp share=', 'tcp zone='],
);

for my $wrong (sort keys %checks) {
    for my $check (grep { / / } @{ $checks{$wrong} }) {
        my ($value) = (split(/ /, $check, 2))[1] =~ /^(?:ssl )?(.*)$/;
        my ($shown) = $value =~ s/^"|"$//gr =~ s/\\r/\\x0d/gr =~ s/\\n/\\x0a/gr;

        $shown =~ s/^\S+ (?=\S+=|mandatory)// if $wrong eq 'it is duplicate';

        refused("etcd_check $check", upstream($members, "etcd_check $check;"),
                "invalid parameter \"$shown\"" . ($wrong && ": $wrong")
                . ' in AT', 7);
    }
}

passes("etcd_check $_", upstream($members, "etcd_check $_;"))
    for 'tcp', 'grpc service=a.B',
        'http match=~^ok$ status=204 panic=0 rises=1',
        'http "header=A: b\tc" header=B:d host=[::1]:80 uri=/?a=b jitter=0',
        'tcp ssl ssl_verify=off port=1 interval=10ms timeout=10ms fails=65535';

my %shared = (
    'tcp zone=a' => 'has a "zone=" and no "share="',
    'tcp share=/a zone=b/c' => 'has a slash in "zone="',
    'tcp share=/a interval=900ms timeout=10ms' =>
        'has "share=" and an "interval=" of less than 1s',
);

for my $check (sort keys %shared) {
    refused($check, upstream($members, "etcd_check $check;"),
            "\"etcd_check\" $shared{$check} in AT", 7);
}

passes("etcd_check $_", upstream($members, "etcd_check $_;"))
    for 'tcp share=/a', 'tcp share=/a/ zone=eu-1';

refused('a prefix with variables',
        upstream('etcd_members /a/$arg_b/;', 'etcd_check tcp share=/a;'),
        '"etcd_check" has "share=" for a prefix with variables in AT', 6);
refused('several lines',
        upstream('etcd_members /a/;',
                 'etcd_members /b/ backup; etcd_check tcp share=/a;'),
        '"etcd_check" has "share=" for several "etcd_members" in AT', 6);

finish();
