#!/usr/bin/perl

# The state of a prefix with variables: that of its sets, how many of them are
# down or degraded, and the names of the first ones.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Metrics;
use Nginx;
use Port;
use Wait;

use constant {
    NAMED => 8,
    MANY  => 300,          # sets: more than are listed at once
};

my $etcd = Etcd->new()->start();
my $at = '127.0.0.1:1001';
my $down = qq({"address":"$at","down":true});

my $nginx = Nginx->new(etcd => $etcd)->set(NODNS => free_port())
    ->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
    resolver 127.0.0.1:%%NODNS%%;
    resolver_timeout 1s;
}

http {
    upstream api { etcd_members /api/$host/ limit=1000; }
    upstream small { etcd_members /small/$host/ limit=1; }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status { etcd_status; }
        location = /metrics { etcd_status prometheus; }
        location / { proxy_pass http://api; }
        location /small { proxy_pass http://small; }
    }
}

stream {
    upstream db { etcd_members /db/$remote_addr/ limit=1000; }

    server { listen 127.0.0.1:%%PORT_DB%%; proxy_pass db; }
}

EOC


sub upstream_of {
    my ($name, $part, $arguments) = @_;

    my $status = $nginx->status('/status' . ($arguments // ''));

    return $status->{$part}{$name};
}


# "STATE REASON, N sets: N down, N degraded: NAME STATE REASON, ..."

sub told {
    my ($name, $part) = @_;

    my $one = upstream_of($name, $part);

    return join(' ', grep { defined } @$one{qw(state reason)})
        . ", $one->{sets} sets: $one->{sets_down} down, "
        . "$one->{sets_degraded} degraded: "
        . join(', ', map { join(' ', grep { defined }
                                @$_{qw(name state reason)}) }
               @{ $one->{troubles} });
}


sub metric {
    my ($metric, $module, @labels) = @_;

    return Metrics->of($nginx, '/metrics')
        ->value("nginx_etcd_upstream_$metric", module => $module, @labels);
}


for (['api', 'upstreams', 'http'], ['db', 'stream_upstreams', 'stream']) {
    my ($name, $part, $module) = @$_;
    my $is = sub {
        my ($wanted, $what) = @_;

        becomes { told($name, $part) } $wanted, "$module: $what";
    };
    my $value = sub { metric($_[0], $module, upstream => $name, @_[1 .. $#_]) };

    $is->('down no_members, 0 sets: 0 down, 0 degraded: ', 'no set');
    is($value->('state', state => 'down'), 1, "$module: the metric");

    $etcd->put("/$name/a/1", $at);
    $etcd->put("/$name/b/1", $at);
    $is->('ok, 2 sets: 0 down, 0 degraded: ', 'sets that can be used');
    is($value->('state', state => 'ok'), 1, "$module: the metric");

    # a member without an address: the set has another one

    $etcd->put("/$name/a/2", 'name.invalid:80');
    $is->('degraded, 2 sets: 0 down, 1 degraded: a degraded', 'a member less');
    is($value->('state', state => 'degraded'), 1, "$module: the metric");
    is($value->('sets_degraded'), 1, "$module: the number");

    $etcd->put("/$name/b/1", $down);
    $is->('degraded, 2 sets: 1 down, 1 degraded: b down all_down, a degraded',
          'one without a member: it is named first');
    is($value->('sets_down'), 1, "$module: the number of those");

    $etcd->del("/$name/a/1");
    $is->('down all_unresolved, 2 sets: 2 down, 0 degraded: '
          . 'a down all_unresolved, b down all_down', 'no set can be used');
    is($value->('state', state => 'down'), 1, "$module: the metric");

    my $list = upstream_of($name, $part, "?upstream=$name")->{list};

    is(join(', ', map { join(' ', @$_{qw(name state reason)}) } @$list),
       'a down all_unresolved, b down all_down', "$module: the list of sets");

    my $set = upstream_of($name, $part, "?upstream=$name&set=b")->{set};

    is("$set->{state} $set->{reason}", 'down all_down', "$module: one set");

    # asked for one set, the upstream is still that of all

    is(upstream_of($name, $part, "?upstream=$name&set=b")->{sets_down}, 2,
       "$module: the numbers are those of all sets");

    # many sets: the first ones are named, and all are counted

    $etcd->txn(map { [put => sprintf("/$name/m%03d/1", $_),
                      $_ % 3 ? $at : $down] } $_ * 100 .. $_ * 100 + 99)
        for 0 .. MANY / 100 - 1;

    my $downs = 2 + grep { $_ % 3 == 0 } 0 .. MANY - 1;

    becomes { $value->('sets_down') } $downs, "$module: many sets";
    is($value->('state', state => 'degraded'), 1, "$module: some can be used");

    my $one = upstream_of($name, $part);

    is("$one->{state} $one->{sets} $one->{sets_down} "
       . scalar(@{ $one->{troubles} }), 'degraded ' . (MANY + 2) . " $downs "
       . NAMED, "$module: some are named, all are counted");

    $etcd->del_prefix("/$name/");
    $is->('down no_members, 0 sets: 0 down, 0 degraded: ', 'no set is left');
}

# keys beyond the limit have no set

$etcd->put("/small/$_/1", $at) for qw(a b);

becomes { upstream_of('small', 'upstreams')->{over_limit} } 1,
    'a key beyond the limit';
is(told('small', 'upstreams'), 'degraded, 1 sets: 0 down, 0 degraded: ',
   'is no set, but a state');

finish();
