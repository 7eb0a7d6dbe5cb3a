#!/usr/bin/perl

# etcd_require_leader lets a request in by a term, which the variables show from
# then on: after that term it is not sent to anybody, though this nginx may lead
# again.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Election;
use Etcd;
use Finish;
use Http;
use Line;
use Nginx;
use Told;
use Wait;

use constant BODY => 300000;

my $etcd = Etcd->new()->start();
my $election = Election->new($etcd, '/e/main');
my ($one, $two) = Told->start(qw(one two));
my ($line) = Line->start('line');

my $nginx = Nginx->new(etcd => $etcd)->set(
    ONE => $one->address, TWO => $two->address, LINE => $line->address,
);

$etcd->put('/members/1', $one->address);

$nginx->start(<<'END');

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    election main /e/main value=m ttl=30s;
}

http {
    log_format term "$uri $status $etcd_election_revision_main:"
                    "$etcd_is_leader_main:$etcd_leader_main";

    upstream named {
        server %%ONE%%;
        keepalive 4;
    }

    upstream pair {
        server %%ONE%%;
        server %%TWO%% backup;
    }

    upstream ours {
        etcd_members /members/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        access_log %%DIR%%/access.log term;
        etcd_require_leader main;
        proxy_set_header X-Token $etcd_election_revision_main;

        location = /status {
            etcd_require_leader off;
            etcd_status;
        }

        location /address {
            proxy_pass http://%%ONE%%;
        }

        location /named {
            proxy_pass http://named;
        }

        location /ours {
            proxy_pass http://ours;
        }

        location /variable {
            set $to %%ONE%%;
            proxy_pass http://$to;
        }

        location /unbuffered {
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_pass http://named;
        }

        location /pair {
            proxy_next_upstream error;
            proxy_pass http://pair;
        }

        location /status= {
            etcd_require_leader main status=451;
            proxy_pass http://named;
        }

        location /page {
            error_page 503 = @page;
            proxy_pass http://named;
        }

        location @page {
            etcd_require_leader off;
            return 200 "refused $etcd_election_revision_main";
        }
    }
}

stream {
    server {
        listen 127.0.0.1:%%PORT_LINE%%;
        etcd_require_leader main;
        proxy_pass %%LINE%%;
    }

    server {
        listen 127.0.0.1:%%PORT_SAYS%%;
        etcd_require_leader main;
        return "$etcd_election_revision_main:$etcd_is_leader_main\n";
    }
}

END


sub term {
    wait_for { Election->view($nginx, 'main')->{is_leader} } 30, 'to lead';

    return $election->leader->{create_revision};
}


# This nginx leads no more, and leads again by another key; returns its term.

sub next_term {
    my $before = $election->leader->{create_revision};

    $etcd->revoke($election->leader->{lease});

    wait_for {
        my $leader = $election->leader;

        $leader && $leader->{create_revision} > $before
            && Election->view($nginx, 'main')->{is_leader}
            && $nginx->get('/named')->{status} == 200
    } 30, 'another term';

    return $election->leader->{create_revision};
}


sub late {
    my ($path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $nginx->port);

    syswrite($socket, "POST $path HTTP/1.1\r\nHost: a\r\n"
             . "Expect: 100-continue\r\n"
             . 'Content-Length: ' . BODY . "\r\n\r\n");

    like(scalar(<$socket>), qr{^HTTP/1.1 100 }, "$path: asked for the body");
    <$socket>;

    return $socket;
}


sub answer {
    my ($socket) = @_;

    local $SIG{PIPE} = 'IGNORE';
    local $/;

    syswrite($socket, 'x' x BODY);

    return <$socket> // '';
}


my $term = term();

wait_for { $nginx->get('/ours')->{status} == 200 } 10, 'the member';

is($nginx->get("/$_")->{body}, "one $term", "/$_: the token of the term")
    for qw(address named ours variable unbuffered pair);

is(Line::Client->new($nginx->port('PORT_SAYS'))->hear, "$term:1",
   'stream: the token of the term');
is(Line::Client->new($nginx->port('PORT_LINE'))->ask('a'), 'line: a',
   'stream: let in');

# a body that takes longer than the term

for my $path (qw(/address /named /ours /variable)) {
    my $client = late($path);
    my $before = $term;

    $term = next_term();
    cmp_ok($term, '>', $before, "$path: another term");
    $one->reset;

    like(answer($client), qr{^HTTP/1.1 503 .*^Connection: close\r$}ms,
         "$path: refused");
    is(join(' ', $one->seen), '', "$path: nothing is sent");
    ok(wait_for(sub {
        grep { $_ eq "$path 503 $before:1:m\n" }
             $nginx->lines_of('access.log')
    }, 10), "$path: the log has the term that let it in");
}

{
    my $client = late('/status=');

    $term = next_term();
    like(answer($client), qr{^HTTP/1.1 451 }, 'with a status of its own');

    $client = late('/page');

    my $before = $term;

    $term = next_term();
    like(answer($client), qr{^HTTP/1.1 200 .*refused $before$}s,
         'an error page that is not gated');
}

# The header is sent already, with the token of its term.

{
    $one->reset;

    my $client = late('/unbuffered');

    syswrite($client, 'x');

    $term = next_term();
    $one->reset;
    like(answer($client), qr{^HTTP/1.1 503 }, '/unbuffered: refused');
    is(join(' ', $one->seen), '', '/unbuffered: it is never complete');
}

# Another server is not tried.

{
    $one->set(hang => 1);
    $one->reset;
    $two->reset;

    my $http = $nginx->http;

    $http->send('GET', '/pair');
    wait_for { $one->requests == 1 } 10, 'a request that is not answered';

    my $before = $election->leader->{create_revision};

    $etcd->revoke($election->leader->{lease});
    wait_for { (($election->leader // {})->{create_revision} // 0) > $before
               && Election->view($nginx, 'main')->{is_leader} } 30, 'a term';

    $one->down;
    is($http->receive->{status}, 503, '/pair: refused at the second try');
    is(join(' ', $two->seen), '', '/pair: nobody else is asked');
    $one->set(hang => 0);
    $one->up;
}

is($nginx->get('/pair')->{status}, 200, 'and others are let in');

finish();
