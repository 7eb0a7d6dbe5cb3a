#!/usr/bin/perl

# The outcomes of upstreams: answers by class, times and bytes.  The status and
# the metrics have the same as nginx's own variables in its log, over all
# workers, after reloads, and when workers were killed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use List::Util qw(sum0);
use Test::More;

use Backend;
use Becomes;
use Datagram;
use Etcd;
use Finish;
use Line;
use Metrics;
use Nginx;
use Scripted;
use Upstream;
use Wait;

use constant BOUNDS => [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000,
                        10000];

my $etcd = Etcd->new()->start();
my ($one, $two, $gone) = Backend->start('one', 'two', 'gone');
my ($line, $lost) = Line->start('line', 'lost');
my $datagram = Datagram->start('datagram');
my $upgraded = Scripted->start(
    socket => [[0, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: any\r\n"
                   . "Connection: upgrade\r\n\r\n"],
               [0.3, 'said'], [0, undef]],
    broken => [[0, "HTTP/1.1 200 OK\r\n: :\r\n\r\n"]],
);

my %members = (
    api    => [$one->address],
    retry  => [$one->address, $gone->address],
    socket => [$upgraded->address('socket')],
    broken => [$upgraded->address('broken')],
    'sets/a' => [$one->address],
    'sets/b' => [$two->address],
    line   => [$line->address, $lost->address],
    datagram => [$datagram->address],
);

for my $upstream (keys %members) {
    my $n = 0;
    my @addresses = @{ $members{$upstream} };

    $etcd->put("/$upstream/" . ++$n, qq({"address":"$_","max_fails":0}))
        for @addresses;
}

my $config = <<'EOC';

worker_processes 3;

etcd {
    endpoints %%ETCD%%;
}

http {
    log_format tries '$upstream_addr|$upstream_status|$upstream_bytes_sent|'
                     '$upstream_bytes_received|$upstream_response_time|'
                     '$upstream_header_time';
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
    proxy_http_version 1.1;

    upstream api {
        etcd_members /api/;
        keepalive 4;
    }

    upstream retry {
        etcd_members /retry/;
    }

    upstream socket {
        etcd_members /socket/;
    }

    upstream broken {
        etcd_members /broken/;
    }

    upstream sets {
        etcd_members /sets/$set/;
    }

    upstream unused {
        etcd_members /unused/;
    }

    map $uri $set {
        "~^/sets/(?<name>\w+)" $name;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header Connection '';

        location = /status { etcd_status; }
        location = /metrics { etcd_status prometheus; }

        location /api {
            access_log %%DIR%%/api.log tries;
            proxy_pass http://api;
            proxy_read_timeout 500ms;
            proxy_next_upstream off;
        }

        location /cached {
            access_log %%DIR%%/api.log tries;
            proxy_pass http://api;
            proxy_cache cache;
            proxy_cache_valid 1h;
        }

        location /retry {
            access_log %%DIR%%/retry.log tries;
            proxy_pass http://retry;
            proxy_next_upstream error timeout http_503 http_404 http_429;
        }

        location /socket {
            access_log %%DIR%%/socket.log tries;
            proxy_pass http://socket;
            proxy_set_header Upgrade any;
            proxy_set_header Connection upgrade;
        }

        location /broken {
            access_log %%DIR%%/broken.log tries;
            proxy_pass http://broken;
        }

        location /sets/ {
            access_log %%DIR%%/sets.log tries;
            proxy_pass http://sets;
        }
    }
}

stream {
    log_format tries '$upstream_addr|$upstream_connect_time|'
                     '$upstream_bytes_sent|$upstream_bytes_received|'
                     '$upstream_session_time|$upstream_first_byte_time';

    upstream line {
        etcd_members /line/;
    }

    upstream datagram {
        etcd_members /datagram/;
    }

    server {
        listen 127.0.0.1:%%PORT_LINE%%;
        access_log %%DIR%%/line.log tries;
        proxy_pass line;
    }

    server {
        listen 127.0.0.1:%%PORT_DATAGRAM%% udp;
        access_log %%DIR%%/datagram.log tries;
        proxy_pass datagram;
        proxy_responses 1;
        proxy_timeout 500ms;
    }
}

EOC

my $nginx = Nginx->new(etcd => $etcd)->start($config);

my %upstreams = map { $_ => Upstream->new($nginx, $_) }
    qw(api retry socket broken sets unused);

$upstreams{$_} = Upstream->new($nginx, $_, 'stream') for qw(line datagram);


# the sums of tries, each [CLASS, MS, SENT, RECEIVED], where an unknown class or
# time is undefined

sub sums {
    my (@tries) = @_;

    my %responses = map { $_ . 'xx' => 0 } 1 .. 5;
    my @times = grep { defined } map { $_->[1] } @tries;

    $responses{ $_->[0] . 'xx' }++ for grep { defined $_->[0] } @tries;

    return {
        responses     => \%responses,
        sent          => sum0(map { $_->[2] } @tries),
        received      => sum0(map { $_->[3] } @tries),
        response_time => {
            count   => scalar(@times),
            sum_ms  => sum0(@times),
            buckets => [map { my $le = $_;
                              { le_ms => $le,
                                count => scalar(grep { $_ <= $le } @times) }
                            } @{ BOUNDS() }],
        },
    };
}


# the tries of the lines in a log: each field has one item for each try, and
# where no member was found there is the name of the upstream as an address

sub tries {
    my ($name, $parse) = @_;

    return map {
        my @fields = map { [split(/, /, $_)] } split(/\|/, s/\n\z//r);

        my $addresses = shift @fields;

        map { my $i = $_; $parse->(map { $_->[$i] } @fields) }
            grep { $addresses->[$_] =~ /:/ } 0 .. $#$addresses;
    } $nginx->lines_of("$name.log");
}


sub ms { $_[0] eq '-' ? undef : sprintf('%.0f', 1000 * $_[0]) }
sub bytes { $_[0] eq '-' ? 0 : $_[0] }


sub http_try {
    my ($status, $sent, $received, $response, $header) = @_;

    return [$status eq '-' ? undef : int($status / 100),
            $status eq '-' ? undef : ms($status == 101 ? $header : $response),
            bytes($sent), bytes($received)];
}


sub tcp_try {
    my ($connected, $sent, $received, $session) = @_;

    return [$connected eq '-' ? 5 : 2,
            ms($connected eq '-' ? $session : $connected),
            bytes($sent), bytes($received)];
}


# a session that should have been answered

sub udp_try {
    my ($connected, $sent, $received, $session, $first) = @_;

    return [$first eq '-' ? 5 : 2, ms($first eq '-' ? $session : $first),
            bytes($sent), bytes($received)];
}


my %parse = (line => \&tcp_try, datagram => \&udp_try);


# the requests to each upstream: each leaves a line in its log

my %asked;


sub ask {
    my ($name, $path) = @_;

    $asked{$name}++;

    return $nginx->get($path);
}


sub say_to {
    my ($client, $name, $text) = @_;

    $asked{$name}++;

    return $client->ask($text) // '';
}


# All is in the log, and the status has what is in it.

sub counted {
    my ($name, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { (my @lines = $nginx->lines_of("$name.log")) == $asked{$name} }
             10, "$what: the log";

    my $wanted = sums(tries($name, $parse{$name} // \&http_try));
    my $upstream = $upstreams{$name}->status;

    is_deeply({ map { $_ => $upstream->{$_} } keys %$wanted }, $wanted, $what)
        or diag(join('', $nginx->lines_of("$name.log")));

    return $wanted;
}


sub responses { return join(' ', map { $_[0]{responses}{$_ . 'xx'} } 1 .. 5) }


# http: each class, and bytes over connections that are kept

wait_for { ask('api', '/api')->{status} == 200 } 10, 'a member';

my $client = $nginx->http;

for my $status (200, 201, 204, 301, 304, 404, 429, 500, 503) {
    $asked{api}++;
    $one->set(status => $status, body => $status =~ /^[23]04/ ? '' : 'x' x 999);
    is($client->get("/api/$status", 'X-Test' => 'y' x 100)->{status}, $status,
       "the answer $status");
}

$one->set(status => 200, body => 'one');
$asked{api}++;
is($client->post('/api/post', 'z' x 5000)->{status}, 200, 'a body');

my $got = counted('api', 'answers of each class');

cmp_ok($got->{sent}, '>', 5900, 'with the bytes of the request, and its body');
cmp_ok($got->{received}, '>', 6000, 'and those of the answers');
like(responses($got), qr/^0 \d+ 2 2 2$/, 'classes');

# a timeout is nginx's 504, a reset connection its 502

my $quick = $got->{response_time}{buckets}[6]{count};

$one->set(hang => 1);
is(ask('api', '/api/hangs')->{status}, 504, 'no answer');
$one->set(hang => 0, abort => 1);
is(ask('api', '/api/aborts')->{status}, 502, 'no connection');
$one->set(abort => 0);
$got = counted('api', 'tries that have failed');
like(responses($got), qr/^0 \d+ 2 2 4$/, 'are 5xx');
cmp_ok($got->{response_time}{sum_ms}, '>=', 500, 'and have their time');
cmp_ok($got->{response_time}{buckets}[6]{count}, '<=', $quick + 1,
       'in its bucket');

# a client that leaves: nobody knows what the answer would have been

$one->set(hang => 1);
$one->reset;
$asked{api}++;
$client = $nginx->begin('/api/leaves');
wait_for { $one->requests == 1 } 10, 'the member has it';
$client->close;
$got = counted('api', 'a client that leaves');
like(responses($got), qr/^0 \d+ 2 2 4$/, 'has no answer');
$one->set(hang => 0);

# Of what a cache answers nothing is counted.  Another worker may ask before the
# first one has put the answer there.

$one->reset;
is(ask('api', '/cached')->{body}, 'one', 'a cache') for 1 .. 5;

my $answered = $one->requests;

cmp_ok($answered, '<', 5, 'a cache answers');
is(counted('api', 'what the cache answers is not counted')
       ->{response_time}{count}, $got->{response_time}{count} + $answered,
   'only what the member has');

# each try is one

$gone->down;
wait_for { ask('retry', '/retry')->{status} == 200 } 10, 'members';
ask('retry', '/retry') for 1 .. 6;
$one->set(status => 404);
ask('retry', '/retry') for 1 .. 3;
$one->set(status => 429);
ask('retry', '/retry') for 1 .. 3;
$one->set(status => 200);
$got = counted('retry', 'each try counts');
cmp_ok($got->{responses}{'5xx'}, '>=', 2, 'those that have failed');
is($got->{responses}{'4xx'}, 6, 'and those that were tried again');

# a header that nginx cannot read is its 502

wait_for { %{ $upstreams{broken}->members } } 10, 'a member';
is(ask('broken', '/broken')->{status}, 502, 'a bad header');
is(responses(counted('broken', 'a bad header')), '0 0 0 0 1', 'is no answer');

# an upgraded connection: the answer counts, and all of the bytes

$client = $nginx->http;
$asked{socket}++;
$client->send('GET', '/socket', undef, Upgrade => 'any',
              Connection => 'upgrade');
is($client->receive_once->{status}, 101, 'an upgraded connection');
$got = counted('socket', 'counts when it ends');
is(responses($got), '1 0 0 0 0', 'as 1xx');
cmp_ok($got->{response_time}{sum_ms}, '<', 300, 'with the time of its answer');

# a prefix with variables: one sum

wait_for { ask('sets', "/sets/$_")->{status} == 200 } 10, "set $_"
    for 'a', 'b';
ask('sets', '/sets/a') for 1 .. 3;
counted('sets', 'a prefix with variables');

my $set = decode_json($nginx->get('/status?upstream=sets&set=a')->{body});

ok(exists $set->{upstreams}{sets}{responses}, 'its sum');
ok(!exists $set->{upstreams}{sets}{set}{$_}, "a set alone has no $_")
    for qw(responses sent received response_time);

my $alone = Metrics->of($nginx, '/metrics?set=a');

cmp_ok($alone->value('nginx_etcd_upstream_requests_total', set => 'a'), '>', 0,
       'a set alone has metrics');
is(scalar(my @samples = $alone->values($_)), 0, "but no $_")
    for qw(nginx_etcd_upstream_responses_total
           nginx_etcd_upstream_sent_bytes_total
           nginx_etcd_upstream_response_seconds_count);

# stream: sessions, and tries of them

$lost->down;
wait_for { say_to($nginx->line('LINE'), 'line', 'x') eq 'line: x' } 10,
         'a member';

say_to($nginx->line('LINE'), 'line', 'x' x $_) for 1 .. 6;

$got = counted('line', 'sessions');
cmp_ok($got->{responses}{'2xx'}, '>=', 7, 'those that were connected');
cmp_ok($got->{responses}{'5xx'}, '>=', 1, 'those that were not');

my $session = $nginx->line('LINE');

$session->ask('stays');
is($upstreams{line}->status->{responses}{'2xx'}, $got->{responses}{'2xx'},
   'a session is not counted before it ends');
$asked{line}++;
$session->close;
is(counted('line', 'its end')->{responses}{'2xx'},
   $got->{responses}{'2xx'} + 1, 'counts');

my $udp = Datagram::Client->new($nginx->port('PORT_DATAGRAM'));

wait_for { say_to($udp, 'datagram', 'hello') } 10, 'a member';
say_to($udp, 'datagram', 'hello') for 1 .. 3;
$asked{datagram}++;
$udp->tell('datagram, be silent');
is(counted('datagram', 'datagrams')->{responses}{'5xx'}, 1,
   'one without an answer');

# metrics have the same

wait_for { $nginx->get('/status')->{status} == 200 } 10, 'a worker';

my $metrics = Metrics->of($nginx, '/metrics');

for my $name (qw(api line)) {
    my @labels = (upstream => $name, cluster => 'default',
                  module => $name eq 'api' ? 'http' : 'stream');
    my $known = $upstreams{$name}->status;
    my $of = sub {
        return $metrics->value("nginx_etcd_upstream_$_[0]", @labels,
                               @_[1 .. $#_]);
    };

    is($of->('responses_total', class => $_), $known->{responses}{$_},
       "$name: responses $_") for map { $_ . 'xx' } 1 .. 5;
    is($of->('sent_bytes_total'), $known->{sent}, "$name: bytes sent");
    is($of->('received_bytes_total'), $known->{received},
       "$name: bytes received");

    my $times = $known->{response_time};

    is($of->('response_seconds_count'), $times->{count}, "$name: count");
    is($of->('response_seconds_sum') * 1000, $times->{sum_ms}, "$name: sum");
    is($of->('response_seconds_bucket', le => '+Inf'), $times->{count},
       "$name: all");
    is_deeply([map { $of->('response_seconds_bucket', le => $_) }
               qw(0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1.0 2.5 5.0 10.0)],
              [map { $_->{count} } @{ $times->{buckets} }], "$name: buckets");
}

is($metrics->value('nginx_etcd_upstream_responses_total', upstream => 'unused',
                   class => '2xx'), 0, 'without a request there is 0');

# a reload, also without the upstream, and workers that were killed

ok($nginx->reload(undef, gone => 1), 'a reload');
counted('api', 'changes nothing');
ask('api', '/api') for 1 .. 4;
counted('api', 'and new workers go on');

$nginx->kill_worker($_) for $nginx->workers;
counted('api', 'what dead workers have counted stays');
ask('api', '/api') for 1 .. 4;
counted('api', 'and others go on');

ok($nginx->reload($config =~ s/(etcd_members \/api)\//$1other\//r, gone => 1),
   'another prefix');
counted('api', 'is the same upstream');

my $without = $config =~ s/\bapi\b/apis/gr =~ s/apis\.log/api.log/gr;

ok($nginx->reload($without, gone => 1), 'without the upstream');
wait_for { $nginx->cluster->{state} eq 'synced' } 10, 'an agent';
ok($nginx->reload($config, gone => 1), 'and with it again');
is(responses($upstreams{api}->status), '0 0 0 0 0', 'it begins anew');
wait_for { $nginx->get('/api')->{status} == 200 } 10, 'its member';
becomes { $upstreams{api}->status->{responses}{'2xx'} } 1, 'and goes on';
$nginx->quit;

# more workers than there are rows: some share one

my $many = Nginx->new(etcd => $etcd)->start(<<'EOC');

worker_processes 70;

events {
    worker_connections 32;
}

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /api/;
    }

    server {
        listen 127.0.0.1:%%PORT%% reuseport;

        location = /status { etcd_status; }
        location /pid { return 200 $pid; }
        location / { proxy_pass http://api; add_header X-Pid $pid; }
    }
}

EOC

my $ask = 300;
my (%pids, %statuses);

wait_for { $many->get('/')->{status} == 200 } 20, 'a member';

my $before = wait_for {
    my $n = Upstream->new($many, 'api')->status->{responses}{'2xx'};

    $n == 1 && $n
} 10, 'the first one is counted';

for (1 .. $ask) {
    my $answer = $many->get('/');

    $pids{ $answer->{headers}{'x-pid'} // '' }++;
    $statuses{ $answer->{status} }++;
}

cmp_ok(scalar(keys %pids), '>', 63, 'more workers than rows have answered');
is_deeply(\%statuses, { 200 => $ask }, 'all requests');
becomes { Upstream->new($many, 'api')->status->{responses}{'2xx'} }
        $ask + $before, 'and all are counted';
$many->quit;

finish();
