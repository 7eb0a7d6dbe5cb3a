package Etcd;

# A real etcd on loopback, asked through its HTTP/JSON gateway.
#
#     my $etcd = Etcd->new()->start();
#     $etcd->put('/services/api/1', '127.0.0.1:8080');
#     $etcd->txn([put => $key, $value], [del => $other]);   # one revision
#
# Calls that change something return the revision that did it.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use File::Path qw(make_path remove_tree);
use JSON::PP;
use MIME::Base64;

use Finish;
use Http;
use Port;
use Process;
use Wait;

# etcd reserves 64M for each of its write-ahead logs

use constant SHM_NEEDED_KB => 300 * 1024;

my $count = 0;


# name => 'e1', args => ['--flag=value', ...]: added to etcd's command line;
# tls => { cert => FILE, key => FILE, ca => FILE }: a second port for TLS, with
# a certificate wanted from clients where there is a ca.  The test's own
# requests go to the plaintext one.  place => $place: in a network namespace.
# disk => 1: with its data on disk, whatever room there is in memory.  bin =>
# DIR: another etcd, and etcdctl, than those of PATH.

sub new {
    my ($class, %options) = @_;

    my $name = $options{name} // 'etcd' . ++$count;

    my $self = bless {
        name  => $name,
        args  => $options{args} // [],
        port  => free_port(),
        peer  => free_port(),
        tls   => $options{tls},
        place => $options{place},
        bin   => $options{bin},
        log   => test_dir() . "/$name.log",
        data  => data_dir($name, $options{disk}),
    }, $class;

    $self->{http} = $self->http();
    $self->{tls_port} = free_port() if $self->{tls};

    return $self;
}


# Data is in memory if there is room: fsync() takes long.

sub data_dir {
    my ($name, $disk) = @_;

    my (undef, $df) = run('df', '-Pk', '/dev/shm');
    my ($free) = $df =~ /^\S+\s+\d+\s+\d+\s+(\d+)\s.*shm$/m;

    if (!$disk && -w '/dev/shm' && ($free // 0) > SHM_NEEDED_KB) {
        return "/dev/shm/nginx-etcd-test-$$-$name";
    }

    return test_dir() . "/$name.data";
}


# from its next start on

sub runs {
    my ($self, $bin) = @_;

    $self->{bin} = $bin;
}


sub program {
    my ($self, $name) = @_;

    return $self->{bin} ? "$self->{bin}/$name" : $name;
}


sub port { $_[0]{port} }
sub pid  { $_[0]{pid} }
sub place { $_[0]{place} }

# URLs for nginx, for the peers of this etcd, and for the test
sub url { $_[0]->url_by('address', $_[0]{port}, $_[1]) }
sub peer_url { $_[0]->url_by('peer_address', $_[0]{peer}) }
sub test_url { $_[0]->url_by('test_address', $_[0]{port}) }

sub tls_port { $_[0]{tls_port} }
sub tls_url { "https://127.0.0.1:$_[0]{tls_port}" }

# the value of nginx's "endpoints"; with a place, by the way of that number
sub endpoints { $_[0]{tls} ? $_[0]->tls_url : $_[0]->url($_[1]) }


sub url_by {
    my ($self, $method, $port, @way) = @_;

    my $host = $self->{place} ? $self->{place}->$method(@way) : '127.0.0.1';

    return "http://$host:$port";
}


# a connection of the test to this etcd, with the options of Http

sub http {
    my ($self, %options) = @_;

    if ($self->{place}) {
        $options{address} = $self->{place}->test_address;
    }

    return Http->new($self->{port}, %options);
}


# life

sub start {
    my ($self) = @_;

    $self->launch();
    $self->wait_healthy() or die "etcd did not start, see $self->{log}\n";

    return $self;
}


sub launch {
    my ($self, $cluster) = @_;

    # etcd takes options from the environment too, not from ours

    delete local @ENV{grep { /^ETCD_/ } keys %ENV};

    $cluster //= "$self->{name}=" . $self->peer_url;
    $self->{cluster} //= $cluster;

    make_path($self->{data}, { mode => 0700 });

    my @within = $self->{place} ? $self->{place}->within() : ();

    $self->{pid} = spawn($self->{log}, @within, $self->program('etcd'),
        '--name', $self->{name},
        '--data-dir', $self->{data},
        '--listen-client-urls', $self->listen_urls,
        '--advertise-client-urls', $self->url,
        '--listen-peer-urls', $self->peer_url,
        '--initial-advertise-peer-urls', $self->peer_url,
        '--initial-cluster', $self->{cluster},
        '--heartbeat-interval', 20,
        '--election-timeout', 200,
        '--logger', 'zap',
        $self->tls_options,
        @{ $self->{args} });

    Finish::later($self);
}


sub listen_urls {
    my ($self) = @_;

    my $place = $self->{place};

    return join(',', $place ? map({ $self->url($_) } $place->ways) : $self->url,
                $place ? $self->test_url : (),
                $self->{tls} ? $self->tls_url : ());
}


sub tls_options {
    my ($self) = @_;

    my $tls = $self->{tls} or return;

    return ('--cert-file', $tls->{cert}, '--key-file', $tls->{key},
            $tls->{ca} ? ('--client-cert-auth', '--trusted-ca-file', $tls->{ca})
                       : ());
}


sub wait_healthy {
    my ($self, $seconds) = @_;

    return wait_for { $self->is_healthy() } $seconds // 20, 'etcd';
}


sub is_healthy {
    my ($self) = @_;

    my $answer = $self->http(timeout => 1)->get('/health');

    return $answer->{body} =~ /"true"/;
}


# the data outlives stop() and kill(): start() goes on with them

sub stop { $_[0]->end('TERM') }
sub kill { $_[0]->end('KILL') }


sub end {
    my ($self, $signal) = @_;

    $self->{http}->close();

    # a process that dies may wait for its tracer, which may wait for ever

    if (my $disk = delete $self->{disk}) {
        $disk->stop();
    }

    if (my $pid = delete $self->{pid}) {
        stop_child($pid, $signal);
    }
}


sub restart {
    my ($self) = @_;

    $self->stop();

    return $self->start();
}


# a frozen etcd keeps its connections and answers nothing

sub freeze { suspend($_[0]{pid}) }
sub thaw   { CORE::kill('CONT', $_[0]{pid}) }


sub DESTROY {
    my ($self) = @_;

    if ($self->{data} =~ m{^/dev/shm/nginx-etcd-test-$$-}) {
        remove_tree($self->{data});
    }
}


# the API; $path is what follows /v3/

sub call {
    my ($self, $path, $request) = @_;

    my $answer = $self->post($path, $request);

    # a token is gone after a while, and with each restart

    if ($answer->{status} == 401 && $self->{root}) {
        $self->as_root($self->{root});
        $answer = $self->post($path, $request);
    }

    # etcd gives up after five seconds, which a busy machine may take, and ends
    # a read when another member leads

    my $again = $path eq 'kv/range' ? qr/request timed out|leader changed/
                                    : qr/request timed out/;

    if ($answer->{status} == 503 && $answer->{body} =~ $again) {
        $answer = $self->post($path, $request);
    }

    if ($answer->{status} != 200) {
        die "etcd: $path: $answer->{status} ", $answer->{error} // '',
            "$answer->{body}\n";
    }

    return decode_json($answer->{body});
}


sub post {
    my ($self, $path, $request) = @_;

    my @token = $self->{token} ? (Authorization => $self->{token}) : ();

    return $self->{http}->post("/v3/$path", encode_json($request), @token);
}


sub put {
    my ($self, $key, $value, %options) = @_;

    my $lease = $options{lease} ? { lease => $options{lease} } : {};
    my $answer = $self->call('kv/put', { put_op($key, $value), %$lease });

    return $answer->{header}{revision};
}


# the newest value, or undef

sub get {
    my ($self, $key) = @_;

    my ($kv) = $self->range({ key => encode($key) });

    return $kv && $kv->{value};
}


# all keys of a prefix, each as
# { key, value, create_revision, mod_revision, ... }

sub list {
    my ($self, $prefix) = @_;

    return $self->range({ prefix_op($prefix) });
}


sub count {
    my ($self, $prefix) = @_;

    return scalar(my @kvs = $self->list($prefix));
}


sub range {
    my ($self, $request) = @_;

    my @kvs = @{ $self->call('kv/range', $request)->{kvs} // [] };

    for my $kv (@kvs) {
        $kv->{$_} = decode_base64($kv->{$_} // '') for qw(key value);
    }

    return @kvs;
}


sub del {
    my ($self, $key) = @_;

    my $answer = $self->call('kv/deleterange', { key => encode($key) });

    return $answer->{header}{revision};
}


sub del_prefix {
    my ($self, $prefix) = @_;

    my $answer = $self->call('kv/deleterange', { prefix_op($prefix) });

    return $answer->{header}{revision};
}


# [put => KEY, VALUE], [del => KEY], [del_prefix => PREFIX]: all in one revision

sub txn {
    my ($self, @operations) = @_;

    my @success = map { request_op(@$_) } @operations;
    my $answer = $self->call('kv/txn', { success => \@success });

    return $answer->{header}{revision};
}


sub grant {
    my ($self, $ttl) = @_;

    return $self->call('lease/grant', { TTL => $ttl })->{ID};
}


sub revoke {
    my ($self, $lease) = @_;

    return $self->call('lease/revoke', { ID => $lease })->{header}{revision};
}


# the ids of all leases

sub leases {
    my ($self) = @_;

    return map { $_->{ID} } @{ $self->call('kv/lease/leases', {})->{leases}
                               // [] };
}


sub revision {
    my ($self) = @_;

    my $answer = $self->call('kv/range', { key => encode("\0") });

    return $answer->{header}{revision};
}


# forgets all revisions before the given one (default: the newest)

sub compact {
    my ($self, $revision) = @_;

    $revision //= $self->revision();
    $self->call('kv/compaction', { revision => $revision, physical => \1 });

    return $revision;
}


# Saves etcd's present state in a file.  restore() brings that state back, on
# the same URLs, and loses all later changes.

sub save {
    my ($self) = @_;

    my $file = test_dir() . "/$self->{name}.snapshot";

    $self->manage('snapshot', 'save', $file);

    return $file;
}


sub restore {
    my ($self, $file) = @_;

    $self->stop();
    $self->restore_data($file);
    $self->start();

    # A token of before would wait for a revision that does not come.

    $self->as_root($self->{root}) if $self->{root};

    return $self;
}


sub restore_data {
    my ($self, $file, @options) = @_;

    my @command = ('snapshot', 'restore', $file,
        '--name', $self->{name},
        '--data-dir', $self->{data},
        '--initial-cluster', $self->{cluster},
        '--initial-advertise-peer-urls', $self->peer_url, @options);

    remove_tree($self->{data});

    # etcdutl exists since 3.5; etcdctl of 3.6 does not restore any more.

    my $etcdutl = $self->program('etcdutl');

    if ((run($etcdutl, 'version'))[0] != 0) {
        $self->manage(@command);
        return;
    }

    my ($status, $output) = run($etcdutl, @command);

    $status == 0 or die "etcdutl @command: $output\n";
}


# the release of this etcd: "3.5.30"

sub version {
    my ($self) = @_;

    my $answer = $self->{http}->get('/version');

    return decode_json($answer->{body})->{etcdserver};
}


# true of that release, "3.7", and of later ones

sub is_since {
    my ($self, $release) = @_;

    my ($major, $minor) = split(/\./, $release);
    my ($is_major, $is_minor) = split(/\./, $self->version);

    return ($is_major <=> $major || $is_minor <=> $minor) >= 0;
}


# An option that was an experiment in etcd 3.5, and lost that name after 3.6.

sub option {
    my ($name) = @_;

    my (undef, $help) = run('etcd', '--help');

    return $help =~ /^ *--\Q$name\E\b/m ? "--$name" : "--experimental-$name";
}


# A metric by its name, with its labels, or without: then the sum of all lines
# of that name.

sub metric {
    my ($self, $name) = @_;

    my $sum;

    for (split(/\n/, $self->{http}->get('/metrics')->{body})) {
        if (/^\Q$name\E(?:\{[^}]*\})? (\S+)$/) {
            $sum = ($sum // 0) + $1;
        }
    }

    return $sum;
}


# Runs etcdctl; returns its exit status and output, without complaints of a
# command that succeeds: etcdctl 3.5 logs its attempts.

sub etcdctl {
    my ($self, @arguments) = @_;

    local $ENV{ETCDCTL_API} = 3;

    my $errors = test_dir() . '/etcdctl.errors';
    my ($status, $output) = run('sh', '-c', 'exec "$@" 2> "$0"', $errors,
        $self->program('etcdctl'), '--endpoints', $self->test_url, @arguments);

    return ($status, $output) if $status == 0;

    open(my $file, '<', $errors) or return ($status, $output);
    local $/;

    return ($status, $output . (<$file> // ''));
}


# Authentication.  A user gets a role of its own name, which may read what is
# granted to it; after auth_enable() all that is asked here is asked as root.

sub user_add {
    my ($self, $name, $password, @prefixes) = @_;

    $self->manage('user', 'add', "$name:$password");
    $self->manage('role', 'add', $name);
    $self->manage('user', 'grant-role', $name, $name);
    $self->grant_read($name, $_) for @prefixes;
}


sub grant_read { $_[0]->grant_right($_[1], 'read', $_[2]) }


# right: read, write, or readwrite

sub grant_right {
    my ($self, $name, $right, $prefix) = @_;

    $self->manage('role', 'grant-permission', '--prefix=true', $name, $right,
                  $prefix);
}


sub revoke_read {
    my ($self, $name, $prefix) = @_;

    $self->manage('role', 'revoke-permission', '--prefix=true', $name,
                  $prefix);
}


# etcdctl would ask for the password on a terminal.

sub user_passwd {
    my ($self, $name, $password) = @_;

    $self->call('auth/user/changepw', { name => $name,
                                        password => $password });
}


sub auth_enable {
    my ($self, $password) = @_;

    if (!$self->{has_root}++) {
        $self->manage('user', 'add', "root:$password");
        $self->manage('user', 'grant-role', 'root', 'root');
    }

    $self->manage('auth', 'enable');
    $self->as_root($password);
}


sub auth_disable {
    my ($self) = @_;

    $self->manage('auth', 'disable');

    delete @$self{qw(root token)};
}


sub as_root {
    my ($self, $password) = @_;

    delete @$self{qw(root token)};

    my $answer = $self->call('auth/authenticate', { name => 'root',
                                                    password => $password });

    $self->{root} = $password;
    $self->{token} = $answer->{token};
}


sub manage {
    my ($self, @command) = @_;

    my @user = $self->{root} ? ('--user', "root:$self->{root}") : ();
    my ($status, $output) = $self->etcdctl(@user, @command);

    $status == 0 or die "etcdctl @command: $output\n";
}


# lines of etcd's log

sub count_log {
    my ($self, $pattern) = @_;

    return scalar(grep { /$pattern/ } $self->log_lines);
}


sub log_lines {
    my ($self) = @_;

    open(my $file, '<', $self->{log}) or return;

    return <$file>;
}


# At --log-level=debug: the tokens that a user was given, in their order.  Since
# 3.5.26 they are known by a fingerprint until they are deleted.

sub tokens {
    my ($self, $user) = @_;

    return $self->logged_tokens(qr/authenticated a user/, $user);
}


sub deleted_tokens {
    my ($self, $user) = @_;

    return $self->logged_tokens(qr/deleted a simple token/, $user);
}


sub logged_tokens {
    my ($self, $what, $user) = @_;

    my $token = qr/"token(?:-fingerprint)?":"([^"]+)"/;

    return map { /$what.*"user-name":"\Q$user\E".*$token/ }
           $self->log_lines;
}


# true if a token of that name, as tokens() has found it, is not known any more

sub has_forgotten {
    my ($self, $user, $token) = @_;

    return scalar(grep { $token eq $_ || $token eq fingerprint($_) }
                  $self->deleted_tokens($user));
}


sub fingerprint { substr(sha256_hex($_[0]), 0, 12) }


# Returns the tokens, of those that tokens() has found, that are in a text.  If
# a token is known by its fingerprint, everything that looks like a token is
# compared: more digits than its own may follow it.

sub tokens_in {
    my ($text, @tokens) = @_;

    my %known = map { $_ => 1 } @tokens;
    my %found = map { $_ => 1 } grep { index($text, $_) >= 0 } @tokens;

    while ($text =~ /([A-Za-z]{16}\.)(\d{1,20})/g) {
        my ($name, $number) = ($1, $2);

        $found{$_} = 1 for grep { $known{$_} }
                           map { fingerprint($name . substr($number, 0, $_)) }
                           1 .. length($number);
    }

    return grep { $found{$_} } @tokens;
}


sub encode { return encode_base64($_[0], '') }


sub put_op {
    my ($key, $value) = @_;

    return (key => encode($key), value => encode($value));
}


# an operation of a transaction

sub request_op {
    my ($what, @arguments) = @_;

    if ($what eq 'put') {
        return { request_put => { put_op(@arguments) } };
    }

    return { request_delete_range => {
        $what eq 'del' ? (key => encode(@arguments)) : prefix_op(@arguments)
    } };
}


# a prefix is the range up to its successor

sub prefix_op {
    my ($prefix) = @_;

    my $end = $prefix;

    $end =~ s/\xff+$//;
    $end = $end eq '' ? "\0"
                      : substr($end, 0, -1) . chr(ord(substr($end, -1)) + 1);

    return (key => encode($prefix), range_end => encode($end));
}


1;
