#!/usr/bin/perl

# nginx-etcd-check tells what is wrong between a configuration and etcd, one
# line each, and by its exit status whether there is anything.  Its throw-away
# nginx changes nothing in etcd, and an nginx that runs notices nothing of it.

use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use IO::Socket::INET;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Process;
use Slurp;
use Tls;
use Wait;

plan(skip_all => 'needs TLS in http')
    unless Nginx::has('http_ssl_module');

my $TOOLS = abs_path("$FindBin::Bin/../../tools");

# the one file that is installed

my $SCRIPT = test_dir() . '/nginx-etcd-check';

is((run('sh', '-c', "$TOOLS/single $TOOLS/nginx-etcd-check > $SCRIPT"))[0], 0,
   'the script and its modules make one file');
chmod(0755, $SCRIPT);

my $ca = Tls->new('ca');
my $other_ca = Tls->new('other');
my $local = $ca->issue('local', san => 'IP:127.0.0.1');
my $named = $ca->issue('named', san => 'DNS:etcd.test');

my $etcd = Etcd->new()->start();
my $secure = Etcd->new(tls => { cert => $local->cert, key => $local->key,
                                ca => $ca->cert })->start();
my $misnamed = Etcd->new(tls => { cert => $named->cert,
                                  key => $named->key })->start();
my $guarded = Etcd->new()->start();

my $nginx = Nginx->new(etcd => $etcd);
my $is_safe = $etcd->version !~ /^3\.[0-4]\./;

$nginx->set(CA => $ca->cert, OTHER_CA => $other_ca->cert, DIR => $nginx->dir,
            SECURE => $secure->tls_url, MISNAMED => $misnamed->tls_url,
            GUARDED => $guarded->url);


sub command {
    my (@options) = @_;

    my (undef, %option) = $nginx->command('check.log');

    return ($SCRIPT, '--nginx', Nginx::binary(), @options,
            map({ ($_, $option{$_}) } '-p', '-g'), $option{'-c'});
}


# Runs it with a configuration: (exit status, output).

sub check {
    my ($text, @options) = @_;

    $nginx->write_config($text);

    my ($status, $output) = $nginx->run_nginx(command(@options));

    return ($status >> 8, $output);
}


sub finds {
    my ($text, $status, $what, $name, @options) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my ($is, $output) = check($text, @options);

    is($is, $status, "$name: exit status") or diag($output);
    like($output, $_, $name) for ref($what) eq 'ARRAY' ? @$what : $what;

    return $output;
}


# the blocks of a configuration with one etcd and these lines of http

sub with {
    my ($etcd, $http) = @_;

    return "etcd {\n    $etcd\n}\n\nhttp {\n    $http\n}\n";
}


my $api = 'upstream api { etcd_members /services/api/; }';


# all well, and wrong usage

$etcd->put('/services/api/1', '127.0.0.1:8080');
$secure->put('/services/api/1', '127.0.0.1:8080');

my $all = finds(with('endpoints %%ETCD%%;', $api), 0, qr/^all is well: /,
                'all is well');

is(scalar(split(/\n/, $all)), 1, 'and nothing else is said');

my ($status, $output) = run($SCRIPT, '--nonsense');

is($status >> 8, 2, 'wrong usage: exit status');
like($output, qr/^usage: nginx-etcd-check /m, 'the usage');
is((run("$TOOLS/nginx-etcd-check", '--help'))[0], 0,
   'it runs where it is, too');

finds(with('endpoints %%ETCD%%;', 'nonsense;'), 2, qr/\[emerg\].*"nonsense"/,
      'what nginx refuses');
finds("http {\n}\n", 2, qr/no "etcd" block/, 'nothing to look at');


# endpoints

finds(with("endpoints %%ETCD%% http://127.0.0.1:%%PORT_AWAY%%;", $api), 1,
      qr/endpoint \S+:\d+ does not answer: .*refused\): start etcd there/,
      'an endpoint is away');

my $tls = 'endpoints %%SECURE%%; ssl_trusted_certificate';

finds(with("$tls %%OTHER_CA%%;", $api), 1,
      qr/does not answer: .*: its certificate is not trusted: put /,
      'a certificate that is not trusted');
finds(with("$tls %%CA%%;", $api), 1,
      qr/does not answer: .*: etcd wants a certificate of nginx: /,
      'a client certificate is wanted');
finds(with('endpoints %%MISNAMED%%; ssl_trusted_certificate %%CA%%;', $api), 1,
      qr/ is not for "127\.0\.0\.1".*: the name does not match: /,
      'a name that does not match');

# with paths relative to the configuration

$local->install($nginx->dir, 'client');
finds(with("$tls %%CA%%; ssl_certificate client.crt; "
           . 'ssl_certificate_key client.key;', $api), 0, qr/^all is well/,
      'TLS with a certificate');

finds(with('endpoints %%ETCD%%;', 'upstream it { etcd_leader /elect/it; }'),
      1, $is_safe ? qr/no keys/ : qr/ runs etcd \S+, in which .* upgrade it/,
      'an unsafe version');


# rights

$guarded->user_add('nginx', 'password', '/services/other/');
$guarded->auth_enable('root');
$nginx->write_secret('password', "password\n");

my $user = 'endpoints %%GUARDED%%; user nginx; password_file password;';
my $grant = qr/etcdctl role grant-permission ROLE/;

finds(with("$user election jobs /jobs; register /nginx/1 value=1;",
           "$api etcd_set \$rate /rate;"), 1,
      [qr{to read the prefix .*api: $grant read --prefix=true /services/api/$}m,
       qr{read the key /rate, .*: $grant read /rate$}m,
       qr{election .*: $grant readwrite --prefix=true /jobs/$}m,
       qr{registration .*: $grant readwrite /nginx/1$}m], 'a right is missing');

# Rights to write: the commands that are printed are those that help, and
# finding this out writes nothing.

$guarded->manage('role', 'grant-permission', 'nginx', 'read', '/app/', '/app0');

my $writers = with("$user namespace /app; election jobs /jobs; "
    . 'register /nginx/1 value=1; write_check /extra;', 'server { location / {
    etcd_lock /locks/it $arg_id; } }');
my $revision = $guarded->revision;
my $denied = finds($writers, 1,
    [qr{the prefix /jobs/, for election .*write --prefix=true /app/jobs/$}m,
     qr{the prefix /locks/it/, for lock .*true /app/locks/it/$}m,
     qr{the key /nginx/1, for registration .*: $grant readwrite /app/nginx/1$}m,
     qr{the key /extra, for write_check .*: $grant readwrite /app/extra$}m],
    'only the right to write is missing');

is(scalar(() = $denied =~ /no right to write/g), 4,
   'and nothing else');

for my $command ($denied =~ /etcdctl (role .*)$/mg) {
    $guarded->manage(split(' ', $command =~ s/ROLE/nginx/r));
}

# 1 if there is none but an unsafe version

($status, $output) = check($writers);

unlike($output, qr/no right|cannot be written|does not say/,
       'these commands grant them');
is($status, $output =~ / runs etcd / ? 1 : 0, 'no other problem');
is($guarded->revision, $revision, 'nothing was written');

$nginx->write_secret('password', "wrong\n");
finds(with($user, $api), 1, qr/etcd refuses the login: user "nginx" is refused/,
      'another password');


# keys

$etcd->put('/services/bad/1', 'nonsense');
$etcd->put('/services/bad/2', '{"address":"127.0.0.1:80","wieght":2}');
$etcd->put('/rate', "1\n2");

finds(with('endpoints %%ETCD%%;', 'upstream bad { etcd_members /services/bad/; }
    upstream none { etcd_members /services/none/; }
    upstream all { etcd_members /services/$nobody/; }
    server { listen %%PORT%%; set $nobody 1; etcd_set $rate /rate; }'),
      1, [qr{upstream "bad" .*: key /services/bad/1 is invalid, .*"nonsense"},
          qr{upstream "bad" .*a field is ignored .*bad/2\): .*"wieght"},
          qr{upstream "none" .*: the prefix /services/none/ has no keys},
          qr{upstream "all" .*, set bad: key /services/bad/1 is invalid},
          qr{etcd_set \$rate: key "/rate" .* is invalid: value has LF}],
      'keys that are invalid, ignored, or not there');


# certificates

my %files = (good => [$local->cert, $local->key],
             bad => [$local->cert, $named->key], half => [$local->cert]);

for my $name (keys %files) {
    my ($crt, $key) = map { slurp($_) } @{ $files{$name} };

    $etcd->put("/certs/$name.test/crt", $crt);
    $etcd->put("/certs/$name.test/key", $key) if defined $key;
}

my $certificates = finds(with('endpoints %%ETCD%%;', '
    etcd_set $crt /certs/$ssl_server_name/crt type=pem;
    etcd_set $key /certs/$ssl_server_name/key type=pem;
    server {
        listen 127.0.0.1:%%PORT%% ssl;
        ssl_certificate data:$crt;
        ssl_certificate_key data:$key;
    }'), 1, [qr/certificate of bad\.test: its private key does not fit/,
             qr/certificate of half\.test: it has no private key/],
    'certificates that do not fit');

unlike($certificates, qr/good\.test/, 'one that fits');


# servers, locations and sets of a request

$etcd->put('/svc/shop/1', '127.0.0.1:8081');

my $routes = with('endpoints %%ETCD%%;', "$api " . '
    map $host $service { ~^(?<name>\w+)\.test$ $name; default none; }
    upstream services { etcd_members /svc/$service/; }
    upstream tenants { etcd_members /svc/$tenant/; }

    server {
        listen 127.0.0.1:%%PORT%% default_server;
        location / { proxy_pass http://services; }
        location ~ ^/api { proxy_pass http://api; }
        location = /old { return 410; }
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        server_name ~^(?<tenant>\w+)\.tenant\.test$;
        location / { proxy_pass http://tenants; }
    }');

my @host = ('--host', 'shop.test');

finds($routes, 0, [qr{^shop\.test/ at \S+: server "" .*, location / .*ices$}m,
                   qr{ /svc/\$service/, set "shop": 1 members: \S+:8081 up$}m],
      'a set', @host);
finds($routes, 0, qr{location ~ \^/api .*\n.*"api", .*: 1 members: \S+:8080 up},
      'an upstream, by a location', @host, '--uri', '/api/x');
finds($routes, 0, qr{location = /old .*, return 410}, 'no upstream', @host,
      '--uri', '/old');
finds($routes, 0, qr{server "~.*\n.*/svc/\$tenant/, set "shop": 1 members},
      'a server whose name is a regular expression', '--host',
      'shop.tenant.test');
finds($routes, 1, qr/there is no set "nosuch"/, 'no set', '--host',
      'nosuch.test');


# an nginx that runs is not disturbed; this endpoint takes connections only

my $silent = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1')
    or die "listen: $!\n";

$nginx->set(SILENT => 'http://127.0.0.1:' . $silent->sockport);
$nginx->start(<<'EOC');
etcd {
    endpoints %%ETCD%%;
    state_path %%DIR%%/state;
    election jobs /jobs/it value=me;
    register /services/api/me value=127.0.0.1:8082;
}

http {
    upstream api {
        etcd_members /services/api/;
        etcd_check tcp interval=1h;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /leads { return 200 $etcd_is_leader_jobs; }
        location /status { etcd_status; }

        location / {
            etcd_lock /locks/it;
            proxy_pass http://api;
        }
    }
}
EOC

wait_for { $nginx->leads && $etcd->get('/services/api/me')
           && -e $nginx->dir . '/state/default.state' } 20, 'nginx to be busy';
sleep(2);                          # the state file is written once a second

my $config = $nginx->dir . '/nginx.conf';
my $away = $nginx->value('SILENT');
my $text = slurp($config) =~ s/(endpoints [^;]*);/$1 $away;/r;
my @before = facts();

$nginx->write_file('nginx.conf', $text);

my $log = $nginx->dir . '/check.out';
my $pid = spawn($log, command('--timeout', 4));
my @children;

ok((wait_for { @children = map { descendants($_) } descendants($pid) } 10),
   'a throw-away nginx with a worker');
is_deeply([map { tcp_listeners($_) } @children, descendants($pid)], [],
          'which listens on no TCP port');
is(scalar(map { tcp_listeners($_) } $nginx->workers) > 0, 1,
   'as the other nginx does');
wait_for { !is_running($pid) } 20, 'it to end';
like(slurp($log), qr/endpoint \S+ does not answer: .*timed out/,
     'an endpoint that says nothing');
is_deeply([facts()], \@before, 'nothing has changed in etcd and in nginx');
is_deeply([grep { is_running($_) } @children], [], 'all of it has ended');

finish();


# a list in which something differs after a disturbance

sub facts {
    my $state = $nginx->dir . '/state';

    return ($etcd->revision, join(' ', sort $etcd->leases),
            $nginx->leads ? 1 : 0, $nginx->status->{agent}{pid},
            map { ($_, (stat)[1, 9]) } sort glob("$state/*"));
}


sub descendants {
    my ($pid) = @_;

    open(my $file, '<', "/proc/$pid/task/$pid/children") or return;

    return split(' ', <$file> // '');
}


# inodes of sockets of a process that are listening by TCP

sub tcp_listeners {
    my ($pid) = @_;

    my %listens = map { my @column = split; $column[3] eq '0A'
                        ? ($column[9] => 1) : () }
        map { split(/\n/, slurp($_)) } '/proc/net/tcp', '/proc/net/tcp6';

    return grep { $listens{$_} }
        map { (readlink // '') =~ /^socket:\[(\d+)\]/ } glob("/proc/$pid/fd/*");
}
