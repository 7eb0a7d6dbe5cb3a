#!/usr/bin/perl

# "shared=": requests that read hold a lock together, those that write alone,
# and who waits to write is passed by nobody.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Door;
use Etcd;
use Finish;
use Go;
use Holder;
use Lock;
use Nginx;
use Wait;

use constant QUIET => 0.3;

my $etcd = Etcd->new()->start();
my $door = Door->new();

my $config = <<'END';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    lock_ttl 60s;
}

http {
    # a request writes unless its argument "read" says otherwise

    proxy_set_header X-Token $etcd_lock_token;
    proxy_set_header X-Path $uri;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /one {
            etcd_lock /locks/one wait=60s shared=$arg_read;
            proxy_pass http://%%DOOR%%;
        }

        location /now {
            etcd_lock /locks/one shared=$arg_read;
            proxy_pass http://%%DOOR%%;
        }

        location /kept {
            etcd_lock /locks/kept wait=60s shared=$arg_read reuse=1,10s;
            root %%DIR%%;
            add_header X-Token $etcd_lock_token always;
        }

        location /up {
            etcd_lock /locks/up wait=60s shared=1;
            error_page 404 = /alone;
            root %%DIR%%;
        }

        location /alone {
            etcd_lock /locks/up wait=60s;
            root %%DIR%%;
        }

        # a redirect to another location does not change the directive

        location /inherited/ {
            etcd_lock /locks/inherited wait=60s shared=$arg_read;
            proxy_pass http://%%DOOR%%;

            location /inherited/next {
                proxy_pass http://%%DOOR%%;
            }
        }

        location /serve {
            etcd_lock /locks/served wait=60s shared=$arg_read;
            etcd_lock_serve;
        }
    }
}

stream {
    map $remote_addr $reads {
        127.0.0.3  "";
        default    yes;
    }

    server {
        listen 127.0.0.1:%%PORT_DB%%;
        etcd_lock /locks/db wait=60s shared=$reads;
        proxy_pass %%DOOR%%;
    }
}

END

my ($nginx, $second) = map {
    Nginx->new(etcd => $etcd)->set(DOOR => $door->address)->start($config)
} 1, 2;
my ($lock, $others) = map { Lock->new($_, $etcd) } $nginx, $second;


sub ask {
    my ($from, $uri) = @_;

    my $http = $from->http;

    $http->{timeout} = 120;
    $http->send('GET', $uri, undef, Connection => 'close');

    return $http;
}


# Asks, and is let in.

sub enter {
    my ($from, $uri, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $http = ask($from, $uri);
    my $visit = $door->enters(10);

    ok($visit, $name);

    return { http => $http, visit => $visit,
             token => $visit ? $visit->header('x-token') : 0 };
}


sub leave {
    my ($name, @inside) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $_->{visit}->leave for @inside;
    is(join(' ', map { $_->{http}->receive->{status} } @inside),
       join(' ', (200) x @inside), $name);
}


sub nobody_enters {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(!$door->enters(QUIET), $name);
}


sub keys_are {
    my ($name, @wanted) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $seen = sub {
        join(' ', map { /-shared\z/ ? 'shared' : 'alone' }
                  $lock->keys('/locks/one'))
    };

    wait_for { $seen->() eq "@wanted" } 10, $name;
    is($seen->(), "@wanted", $name);
}


# Requests of one worker share a key; another worker has another one.

my @readers = enter($nginx, '/one?read=1', 'one reads');

keys_are('by a key that says so', 'shared');

my $before = $etcd->revision;

push @readers, enter($nginx, '/one?read=yes', 'another one joins'),
               enter($nginx, '/now?read=1', 'and one that does not wait');
is($etcd->revision, $before, 'which writes nothing');
is($lock->count('/locks/one', 'handoffs'), 2, 'and is counted');
$lock->holds('/locks/one', 3, 'three hold the lock');
is_deeply([map { $_->{token} } @readers], [($readers[0]{token}) x 3],
          'with one token');
is_deeply([map { [@$_{qw(token shared)}] }
               @{ $lock->list('/locks/one', 'holders') }],
          [[$readers[0]{token}, 3]], 'the status shows how many share it');

push @readers, enter($second, '/one?read=1', 'one reads elsewhere');
keys_are('by a key of its own', 'shared', 'shared');
push @readers, enter($second, '/now?read=1', 'so does one that does not wait');
is($nginx->get('/now')->{status}, 423, 'nobody may write');
is($second->get('/now?read=0')->{status}, 423, 'nor may another one');

# A request that waits to write is passed by nobody.

my $writer = ask($nginx, '/one');

keys_are('one wants to write', 'shared', 'shared', 'alone');

my @late = (ask($nginx, '/one?read=1'), ask($second, '/one?read=1'));

$_->waits('/locks/one', $_ == $lock ? 2 : 1, 'who comes later waits')
    for $lock, $others;
is($_->get('/now?read=1')->{status}, 423, 'or is refused')
    for $nginx, $second;
leave('some have read', splice(@readers, 0, 2));
nobody_enters('others still read');
leave('the rest of one nginx has read', shift(@readers));
nobody_enters('others still read elsewhere');
leave('all have read', splice(@readers));

my $visit = $door->enters(10);
my $alone = { http => $writer, visit => $visit,
              token => $visit->header('x-token') };

is($visit->header('x-path'), '/one', 'now the one that came first');
cmp_ok($alone->{token}, '>', $before, 'with a greater token');
nobody_enters('alone');
is($nginx->get('/now?read=1')->{status}, 423, 'nobody may read');
is_deeply([map { $_->{shared} } @{ $lock->list('/locks/one', 'holders') }],
          [0], 'the status says so');
leave('one has written', $alone);

@readers = map {
    my $visit = $door->enters(10);

    { visit => $visit, token => $visit->header('x-token') }
} @late;
is(scalar(grep { $_->{token} > $alone->{token} } @readers), 2,
   'those who waited read, with greater tokens');
keys_are('each by its key', 'shared', 'shared');

# A writer that gives up lets those behind it join.

$writer = ask($nginx, '/one');
keys_are('one wants to write', 'shared', 'shared', 'alone');
push @late, ask($nginx, '/one?read=1'), ask($second, '/one?read=1');
$lock->waits('/locks/one', 2, 'one waits behind it');
$others->waits('/locks/one', 1, 'and one elsewhere');
nobody_enters('nobody passes');
$writer->close;
push @readers, map { { visit => $door->enters(10) } } 1, 2;
ok($readers[2]{visit} && $readers[3]{visit}, 'it leaves: they read');
$_->{visit}->leave for @readers;
is(join(' ', map { $_->receive->{status} } @late), '200 200 200 200',
   'all have read');
$lock->gone('/locks/one', 'nobody is left');

# Of one nginx: readers, a writer, readers, in the order in which they came.

@readers = map { enter($nginx, '/one?read=1', 'one reads') } 1, 2;
@late = ();

for my $uri (qw(/one /one?read=1 /one?read=1 /one)) {
    push @late, ask($nginx, $uri);
    $lock->waits('/locks/one', scalar(@late), "$uri waits");
}

leave('two have read', @readers);
@readers = ({ http => $late[0], visit => $door->enters(10) });
nobody_enters('one writes alone');
leave('and has written', @readers);
@readers = map { { visit => $door->enters(10) } } 1, 2;
ok($readers[1]{visit}, 'two read');
nobody_enters('and nobody else');
$_->{visit}->leave for @readers;
is($_->receive->{status}, 200, 'they have read') for @late[1, 2];
leave('and another one writes',
      { http => $late[3], visit => $door->enters(10) });
$lock->gone('/locks/one', 'nobody is left');


# A lost key is lost for all that share it.

@readers = map { enter($nginx, '/one?read=1', 'one reads') } 1, 2;
$etcd->del($lock->keys('/locks/one'));
is(join(' ', map { $_->{http}->receive->{status} } @readers), '503 503',
   'the key is deleted: both are ended');
ok(wait_for(sub { $_->{visit}->is_gone }, 10), 'at the backend, too')
    for @readers;
is($lock->count('/locks/one', 'lost'), 2, 'and counted');
leave('the lock is free', enter($nginx, '/one', 'one writes'));
@readers = map { enter($nginx, '/one?read=1', 'one reads') } 1, 2;
$etcd->revoke($_) for $etcd->leases;
is(join(' ', map { $_->{http}->receive->{status} } @readers), '503 503',
   'the lease is gone: both are ended');
leave('the lock is free', enter($nginx, '/one?read=1', 'one reads'));
$lock->gone('/locks/one', 'nobody is left');


# Other programs know nothing of this: their keys are exclusive.

sub waits_for_readers {
    my ($who, @program) = @_;

    @readers = (enter($nginx, '/one?read=1', 'one reads'),
                enter($second, '/one?read=1', 'and one elsewhere'));

    my $other = Holder->want($etcd, '/locks/one', @program);

    keys_are("$who waits", 'shared', 'shared', 'alone');
    @late = (ask($nginx, '/one?read=1'), ask($second, '/one?read=1'));
    $_->waits('/locks/one', 1, 'who comes later waits') for $lock, $others;
    leave('one has read', shift(@readers));
    nobody_enters('the other one reads on');
    ok(!$other->has_won, "$who waits for it");
    leave('it has read', @readers);
    ok($other->wins, "$who has the lock");
    nobody_enters('alone');
    ok($other->resign, 'and is done');
    @readers = map { my $visit = $door->enters(10); { visit => $visit } } 1, 2;
    $_->{visit}->leave for @readers;
    is(join(' ', map { $_->receive->{status} } @late), '200 200',
       'those behind it read');
    $lock->gone('/locks/one', 'nobody is left');
}

waits_for_readers('etcdctl', 'etcdctl', '--endpoints', $etcd->url, 'lock',
                  '--ttl', 60);

SKIP: {
    my $go = Go::build("$FindBin::Bin/../go/hold.go") // skip(Go::MISSING, 1);

    waits_for_readers('go', $go, 'lock', $etcd->url);
}


# Keys that are kept: one that reads after the other writes nothing.

sub kept {
    my ($from, $uri) = @_;

    return $from->get($uri)->{headers}{'x-token'};
}

sub is_kept {
    my ($name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(wait_for(sub {
           my $before = $etcd->revision;

           kept($nginx, '/kept?read=1');
           $etcd->revision == $before;
       }, 20, $name), $name);
}

is_kept('a shared key is kept');

my $read = kept($nginx, '/kept?read=1');
my $elsewhere = kept($second, '/kept?read=1');

is(scalar(grep { /-shared\z/ } $lock->keys('/locks/kept')), 2,
   'beside that of another nginx');
is_kept('which does not end it');

my $wrote = kept($second, '/kept');

cmp_ok($wrote, '>', $_, 'one that writes ends both') for $read, $elsewhere;
cmp_ok(kept($nginx, '/kept?read=1'), '>', $wrote, 'and is followed by others');
cmp_ok(kept($nginx, '/kept'), '>', $wrote, 'as within one nginx');


# A request that reads cannot write as well.

is($nginx->get('/up')->{status}, 500, 'a redirect from one to the other');
is($nginx->count_log(qr{"/locks/up" refuses request "/alone", which shares it}),
   1, 'is an error that says so');
$lock->gone('/locks/up', 'and holds nothing');


# A location that inherits the lock is no way to write either.

sub redirected {
    my ($from, $to) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $request = enter($nginx, "/inherited/$from", "$from: a request");

    $request->{visit}->say("HTTP/1.1 200 OK\r\nConnection: close\r\n"
                           . "X-Accel-Redirect: /inherited/$to\r\n"
                           . "Content-Length: 0\r\n\r\n");
    delete $request->{visit};

    return $request;
}


sub goes_on {
    my ($request, $shared, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $request->{visit} = $door->enters(10);
    ok($request->{visit}, $name);
    is_deeply([map { $_->{shared} }
                   @{ $lock->list('/locks/inherited', 'holders') }], [$shared],
              "$name: as before");
    leave("$name: it is answered", $request);
    $lock->gone('/locks/inherited', "$name: nothing is left");
}

my $reader = enter($nginx, '/inherited/a?read=1', 'one reads');

my $both = redirected('b?read=1', 'next');

nobody_enters('a redirect to write, while others read');
is($both->{http}->receive->{status}, 500, 'it is an error');
is($nginx->count_log(qr{"/locks/inherited" refuses request "/inherited/next", }
                     . 'which shares it'), 1, 'that says so');
$lock->holds('/locks/inherited', 1, 'the other one reads on');
leave('and has read', $reader);
$lock->gone('/locks/inherited', 'nothing is left');

goes_on(redirected('b?read=1', 'next?read=yes'), 1, 'a redirect to read');
goes_on(redirected('b', 'next?read=1'), 0, 'a redirect of one that writes');


# Connections that are locks, and those of stream

my @sockets = map { $lock->connection("/serve?read=$_") } 1, 1, 0;
my @heads = ('', '', '');

sub head {
    my ($i) = @_;

    my $more = '';

    $sockets[$i]->blocking(0);
    sysread($sockets[$i], $more, 4096);

    return $heads[$i] .= $more // '';
}

ok(wait_for(sub { head($_) =~ /token \d+/ }, 10), 'a connection reads')
    for 0, 1;
is(head(2), '', 'and one waits to write');
close($sockets[0]);
close($sockets[1]);
ok(wait_for(sub { head(2) =~ /token \d+/ }, 10), 'it writes');
close($sockets[2]);

my @connections;

for my $from (qw(127.0.0.1 127.0.0.2 127.0.0.3)) {
    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $nginx->port('PORT_DB'),
        LocalAddr => $from) or die "connect: $!\n";

    print $socket "GET / HTTP/1.0\r\n\r\n";
    push @connections, $socket;
}

my @visits = map { $door->enters(10) } 1, 2;

ok($visits[0] && $visits[1], 'stream: two read');
nobody_enters('and one waits to write');
close($connections[0]);
close($connections[1]);
ok($door->enters(10), 'it writes');

finish();
