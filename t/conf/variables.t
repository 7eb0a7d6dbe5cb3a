#!/usr/bin/perl

# $etcd_member_key, $etcd_member_revision, $etcd_revision, $etcd_staleness:
# in headers, in the access log, and after redirects.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Etcd;
use Finish;
use Nginx;
use Upstream;
use Wait;

my $etcd = Etcd->new()->start();
my ($one, $two, $static) = Backend->start('one', 'two', 'static');

my $nginx = Nginx->new(etcd => $etcd)->set(STATIC => $static->address);

$nginx->start(<<'EOF');

etcd {
    endpoints %%ETCD%%;
    ping_interval 5s;
}

etcd idle {
    endpoints %%ETCD%%;
}

http {
    log_format etcd '$uri|$etcd_member_key|$etcd_member_revision|'
                    '$etcd_revision|$etcd_staleness';

    proxy_next_upstream error timeout http_503;

    upstream api {
        etcd_members /api/ max_fails=0;
    }

    upstream other {
        etcd_members /other/;
        server %%STATIC%%;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        access_log %%DIR%%/access.log etcd;

        add_header X-Key $etcd_member_key always;
        add_header X-Member-Revision $etcd_member_revision always;
        add_header X-Revision $etcd_revision always;
        add_header X-Staleness $etcd_staleness always;

        location /status {
            access_log off;
            etcd_status;
        }

        location / {
            proxy_pass http://api;
        }

        location /static {
            proxy_pass http://other;
        }

        location /none {
            return 200 none;
        }

        location /redirect {
            proxy_pass http://api;
            proxy_intercept_errors on;
            error_page 500 /error;
        }

        location /error {
            internal;
            return 200 "$etcd_member_key $etcd_member_revision $etcd_revision";
        }

        location /named {
            proxy_pass http://api;
            proxy_intercept_errors on;
            error_page 500 = @named;
        }

        location @named {
            return 200 "$etcd_member_key $etcd_member_revision $etcd_revision";
        }

        location /again {
            proxy_pass http://api;
            proxy_intercept_errors on;
            error_page 500 = @again;
        }

        location @again {
            proxy_pass http://other;
        }
    }
}

EOF

my $api = Upstream->new($nginx, 'api');


# Several workers write the access log: the line of a request is there before
# the next request is made.

my $requests = 0;

sub lines { my @lines = $nginx->lines_of('access.log'); return @lines }


sub get {
    my ($path) = @_;

    my $answer = $nginx->get($path);

    $requests++;
    wait_for { lines() == $requests } 10, "$path in the access log";

    return $answer;
}


sub headers {
    my ($path) = @_;

    my $headers = get($path)->{headers};

    return join(' ', map { $headers->{"x-$_"} // '-' }
                     qw(key member-revision revision));
}


# fields of the newest line of the access log, without staleness

sub logged {
    my ($uri) = @_;

    my @fields = split(/\|/, (lines())[-1] // '');

    is($fields[0], $uri, "$uri: in the access log");
    like($fields[4], qr/^\d+\.\d{3}\n$/, "$uri: staleness in the access log");

    return "@fields[1 .. 3]";
}


# No member is known.

my $status = wait_for {
    my $status = $nginx->status;
    $status && $status->{clusters}{default}{state} eq 'synced' && $status
} 10, 'the first list';

my $first = $status->{clusters}{default}{revision};

is(headers('/'), "- - $first", 'no member: only the revision is known');
is(headers('/none'), "- - $first", 'no upstream: the same');
is(logged('/none'), "- - $first", 'in the access log, too');
is(headers('/static'), "- - $first", 'a static server has neither key nor '
   . 'revision');
is(logged('/static'), "- - $first", 'in the access log, too');

# one member

my $created = $etcd->put('/api/1', $one->address);

$api->sees($created);
is(headers('/'), "/api/1 $created $created", 'the key of the member');
is(logged('/'), "/api/1 $created $created", 'in the access log');

my $put = $etcd->put('/api/1',
                     '{"address":"' . $one->address . '","weight":2}');

$api->sees($put);
is(headers('/'), "/api/1 $created $put",
   'the revision of a member is that of its creation');

$etcd->del('/api/1');
my $anew = $etcd->put('/api/1', $one->address);

$api->sees($anew);
is(headers('/'), "/api/1 $anew $anew", 'and grows when it is created anew');

# The variables show the revision that the request was routed by, whatever is
# known when the answer comes.

$one->set(hang => 1);
$one->reset;

my $held = $nginx->http;

$held->send('GET', '/');
wait_for { $one->requests == 1 } 10, 'a request under way';
$api->sees($etcd->put('/api/0', '{"address":"127.0.0.1:1","down":true}'));
$one->set(hang => 0);
$requests++;
is($held->receive->{headers}{'x-revision'}, $anew,
   'the revision that a request was routed by, after a later one');
wait_for { lines() == $requests } 10, 'the log';
is(logged('/'), "/api/1 $anew $anew", 'in the access log');

my $later = $etcd->del('/api/0');

$api->sees($later);
is(headers('/'), "/api/1 $anew $later", 'the next one tells a later one');

# redirects

$one->set(status => 500);

for my $path ('/redirect', '/named') {
    my $answer = get($path);

    is($answer->{body}, "/api/1 $anew $later",
       "$path: who had answered is known after the redirect");
    is($answer->{headers}{'x-key'}, '/api/1', "$path: in a header");
    is(logged($path eq '/redirect' ? '/error' : $path), "/api/1 $anew $later",
       "$path: in the access log");
}

is(get('/again')->{body}, 'static', 'a second upstream');
is(logged('/again'), "- - $first", 'counts from then on');

# the last member that was tried

$one->set(status => 503);
$two->set(status => 503);

my $second = $etcd->put('/api/2', $two->address);

$api->sees($second);

my %last = map { headers('/') => 1 } 1 .. 4;

is_deeply([grep { !/^\/api\/[12] (?:$anew|$second) $second$/ } keys %last], [],
          'of two tried one is told');

$two->set(status => 200);

for (1 .. 4) {
    my $answer = get('/');

    is($answer->{headers}{'x-key'} . " $answer->{body}", '/api/2 two',
       'who answered, not who was tried before');
}

# staleness


sub staleness { get('/none')->{headers}{'x-staleness'} }


$etcd->put('/api/2', $one->address);
ok(wait_for(sub { staleness() < 1 }, 10, 'fresh data'),
   'what was just read is fresh');

$etcd->freeze();

my $stale = staleness();

ok(wait_for(sub { staleness() >= $stale + 1.5 }, 10, 'stale data'),
   'etcd stands still: staleness grows with time');
cmp_ok($nginx->status->{clusters}{default}{staleness_ms}, '>=', 1500,
   'in the status, too');

$etcd->thaw();
wait_for { $etcd->is_healthy } 10, 'etcd';
$etcd->put('/api/2', $two->address);
ok(wait_for(sub { staleness() < 1 }, 20, 'fresh data'),
   'etcd goes on: the data are fresh again');

finish();
