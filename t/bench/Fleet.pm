package Fleet;

# A cluster of three etcds, with a fleet of clients in one nginx, which are in
# t/bench/fleet.c.  KIND says how a client shows who it is: none, tls (https),
# cert, jwt, or cost4 and cost10, which are passwords with that cost of bcrypt.
#
#     my $fleet = Fleet->new('none')->start(1000);
#     $fleet->wait_all('synced', 60);
#     $fleet->counters->{connected};

use strict;
use warnings;

use JSON::PP;
use List::Util qw(max min sum);
use MIME::Base64 qw(decode_base64url encode_base64url);
use POSIX ();
use Time::HiRes qw(sleep time);

use Bench qw(memory slurp);
use Cluster;
use Finish;
use Http;
use Nginx;
use Process qw(run);
use Tls;
use Unit;

use constant {
    MEMBERS => 50,           # keys of the prefix
    ROOT    => 'root-secret',
    MS      => 60_001,       # NGX_ETCD_FLEET_MS and one
    PAUSE   => 0.02,
    PROBE   => 0.1,
    PATIENT => 120,
    FOREVER => 86400,
    NOFILE  => 20_000,
};

# of a worker's row, in the order of ngx_etcd_fleet_row_t

my @names = qw(clients synced connected authorized held leads logins events
               lost reconnects resyncs revision);

# etcd's own timeouts: those of the tests are for a fast failover

my @etcd = ('--heartbeat-interval=100', '--election-timeout=1000');

my $module;


sub new {
    my ($class, $kind, %options) = @_;

    my $self = bless { kind => $kind, endpoints => $options{endpoints} },
                     $class;

    my @args = (@etcd, $kind =~ /^cost(\d+)/ ? "--bcrypt-cost=$1"
                                             : '--bcrypt-cost=4');
    my %tls;

    push @args, $self->jwt_option() if $kind eq 'jwt';
    %tls = (tls => $self->tls()) if $kind =~ /^(?:tls|cert)$/;

    $self->{cluster} = Cluster->new(3, args => \@args, %tls)->start();

    $self->fill_members();
    $self->users() if $kind =~ /^(?:cost|jwt|cert)/;

    return $self;
}


sub cluster { $_[0]{cluster} }
sub nginx { $_[0]{nginx} }
sub etcds { $_[0]{cluster}->members }


# Etcd and nginx need keys, certificates and tokens.

sub jwt_option {
    my ($self) = @_;

    my $dir = test_dir();

    $self->{key} = "$dir/jwt.key";
    openssl('genrsa', '-out', "$dir/jwt.key", 2048);
    openssl('rsa', '-in', "$dir/jwt.key", '-pubout', '-out', "$dir/jwt.pub");

    return "--auth-token=jwt,pub-key=$dir/jwt.pub,priv-key=$dir/jwt.key,"
           . 'sign-method=RS256,ttl=60m';
}


sub openssl { (run('openssl', @_))[0] == 0 or die "openssl @_ failed\n" }


sub tls {
    my ($self) = @_;

    my $ca = Tls->new('ca');
    my $server = $ca->issue('etcd', san => 'IP:127.0.0.1');
    my $client = $ca->issue('nginx');

    $self->{ca} = $ca->cert;
    $self->{cert} = $client if $self->{kind} eq 'cert';

    return { cert => $server->cert, key => $server->key,
             $self->{cert} ? (ca => $ca->cert) : () };
}


sub fill_members {
    my ($self) = @_;

    my @puts = map { [put => "/fleet/members/$_", value($_)] } 1 .. MEMBERS;

    $self->cluster->ask('txn', @puts);
}


# a member, with the time of its put: a backup of the one that Nginxes.pm moves

sub value {
    my ($i) = @_;

    return sprintf('{"address":"127.0.1.%d:8080","weight":%d,"backup":true,'
                   . '"at":"%d"}', $i, 1 + rand(100), time() * 1e6);
}


sub users {
    my ($self) = @_;

    my $etcd = $self->cluster->any;

    $etcd->user_add('nginx', 'secret');
    $etcd->grant_right('nginx', 'readwrite', '/fleet/');
    $etcd->auth_enable(ROOT);
}


# a token for a day, of the present revision of users and roles

sub token {
    my ($self) = @_;

    my (undef, $claims) = split(/\./, $self->cluster->any->as_root(ROOT));
    my $dir = test_dir();
    my $text = join('.', map { encode_base64url(encode_json($_)) }
        { alg => 'RS256', typ => 'JWT' },
        { username => 'nginx', exp => int(time()) + 86400,
          revision => decode_json(decode_base64url($claims))->{revision} });

    Tls::write_file("$dir/text", $text);
    openssl('dgst', '-sha256', '-sign', $self->{key}, '-out', "$dir/signature",
            "$dir/text");

    return "$text." . encode_base64url(Tls::read_file("$dir/signature"));
}


sub credentials {
    my ($self, $nginx) = @_;

    my $kind = $self->{kind};

    if ($kind =~ /^cost/) {
        $nginx->write_secret('password', "secret\n");
        return "user nginx;\n    password_file password;";
    }

    if ($kind eq 'jwt') {
        $nginx->write_secret('token', $self->token() . "\n");
        return 'token_file token;';
    }

    my $lines = $self->{ca} ? "ssl_trusted_certificate $self->{ca};" : '';

    if (my $cert = $self->{cert}) {
        $lines .= "\n    ssl_certificate " . $cert->cert
                  . ";\n    ssl_certificate_key " . $cert->key . ';';
    }

    return $lines;
}


# mode => none, register or election; ttl; group: candidates of an election

sub start {
    my ($self, $n, %options) = @_;

    my ($status, $output);

    if (!$module) {
        ($module, $output) = Unit::make_unit('ngx_etcd_fleet_module');
        $module or die "no module: $output\n";
    }

    my $nginx = $self->{nginx} = Nginx->new(modules => ['etcd']);
    my $endpoints = $self->{endpoints} // $self->cluster->endpoints;
    my $mode = $options{mode} // 'none';

    $self->{n} = $n;
    $self->{file} = $nginx->dir . '/fleet';
    $nginx->set(CREDENTIALS => $self->credentials($nginx));

    # a line of the log for each client would be the load

    local $ENV{TEST_LOG} = 'alert';

    $self->{begun} = time();

    $nginx->start(<<"END");
load_module $module;
worker_processes 1;
worker_rlimit_nofile @{[NOFILE]};

events {
    worker_connections @{[NOFILE - 1000]};
}

etcd {
    endpoints $endpoints;
    zone 256k;
    %%CREDENTIALS%%
}

etcd_fleet $self->{file} $n /fleet/members/ $mode
           @{[$options{ttl} // 30]} @{[$options{group} // 10]};
END

    ($self->{worker}) = $nginx->workers();

    return $self;
}


sub stop {
    my ($self) = @_;

    $self->{nginx}->crash();
    unlink($self->{file});
}


# Everything of the fleet ends, so that the next one has the machine.

sub end {
    my ($self) = @_;

    $self->stop();
    $_->kill() for $self->etcds;
}


sub read_row {
    my ($self, $offset, $n) = @_;

    open(my $file, '<:raw', $self->{file}) or return (0) x $n;
    seek($file, $offset, 0);

    my $got = read($file, my $bytes, $n * 8);

    return ($got // 0) == $n * 8 ? unpack('Q*', $bytes) : (0) x $n;
}


sub counters {
    my ($self) = @_;

    my %counters;

    @counters{@names} = $self->read_row(0, scalar(@names));

    return \%counters;
}


# so many by ms: of events ("late"), of logins ("waited")

sub histogram {
    my ($self, $what) = @_;

    return [$self->read_row(8 * (@names + ($what eq 'late' ? MS : 0)), MS)];
}


# Percentiles of a histogram since an earlier one.

sub ms_at {
    my ($before, $after, @percents) = @_;

    my @n = map { $after->[$_] - ($before ? $before->[$_] : 0) } 0 .. MS - 1;
    my $all = sum(@n);

    return map { ms_of($_ / 100 * $all, \@n) } @percents;
}


sub ms_of {
    my ($rank, $n) = @_;

    my $sum = 0;

    for my $ms (0 .. MS - 1) {
        $sum += $n->[$ms];
        return $ms if $sum >= $rank && $sum > 0;
    }

    return 0;
}


# Waits until all clients are so.  Returns { t => seconds since the beginning,
# for tenths of the fleet }, what is missing is undef.

sub wait_all {
    my ($self, $what, $patience, $begun) = @_;

    $begun //= $self->{begun};

    my %at;

    while (time() - $begun < $patience) {
        my $counters = $self->counters;
        my $share = $counters->{$what} / $self->{n};

        for my $percent (1, 50, 99, 100) {
            $at{$percent} //= time() - $begun if $share >= $percent / 100;
        }

        return \%at if $share >= 1;

        sleep(PAUSE);
    }

    return \%at;
}


# Waits until all clients know that etcd was away.

sub wait_unsynced {
    my ($self) = @_;

    my $end = time() + 10;

    while ($self->counters->{synced} == $self->{n} && time() < $end) {
        sleep(PAUSE);
    }
}


# CPU seconds of the etcds, and of the fleet

sub cpu {
    my ($self) = @_;

    return { etcd  => Bench::cpu_time(map { $_->pid // () } $self->etcds),
             fleet => Bench::cpu_time($self->{worker}) };
}


sub etcd_memory {
    my ($self) = @_;

    return sum(map { memory($_->pid)->{own} } $self->etcds);
}


# connections of clients, by the file descriptors of the etcds

sub descriptors {
    my ($self) = @_;

    return sum(map { scalar(my @fds = glob('/proc/' . $_->pid . '/fd/*')) }
                   $self->etcds);
}


# The etcds count calls by method and code.

sub calls {
    my ($self, $method) = @_;

    my %calls;

    for my $etcd ($self->etcds) {
        my $text = Http->new($etcd->port, timeout => 60)->get('/metrics');

        while ($text->{body} =~ /^grpc_server_handled_total\{grpc_code="(\w+)",
                                 grpc_method="$method"[^}]*\}\ (\S+)/mgx)
        {
            $calls{$1} += $2;
        }
    }

    return \%calls;
}


sub metric {
    my ($self, $name) = @_;

    return sum(map { $_->metric($name) // 0 } $self->etcds);
}


# How long a linearizable read takes, by each etcd in turn, until ended: a child
# writes down when it was sent, and the seconds.

sub probe {
    my ($self) = @_;

    my $parent = $$;
    my $log = test_dir() . '/probe' . ++$self->{probes};
    my @ports = map { $_->port } $self->etcds;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        open(my $file, '>', $log) or POSIX::_exit(1);
        $file->autoflush();

        while (getppid() == $parent) {
            for my $port (@ports) {
                my $sent = time();
                my $answer = Http->new($port, timeout => 60)
                                 ->post('/v3/kv/range', '{"key":"AA=="}');

                print $file join(' ', $sent, time() - $sent,
                                 $answer->{status}), "\n"
                    if $answer->{status} != 0;
            }

            sleep(PROBE);
        }

        POSIX::_exit(0);
    }

    return { pid => $pid, log => $log, begun => time() };
}


# The longest, the first that etcd answered, and the longest of those that were
# sent after it: etcd that has just started has no leader.

sub probed {
    my ($probe) = @_;

    my $last = time() - $probe->{begun};

    CORE::kill('KILL', $probe->{pid});
    waitpid($probe->{pid}, 0);

    my @reads = map { [split] } split(/\n/, slurp($probe->{log}));
    my @took = map { $_->[1] } @reads;

    return ($last) x 3 if !@took;

    shift @reads while @reads && $reads[0][2] != 200;

    my ($first, @later) = map { $_->[1] } @reads;

    return (max(@took), $first // $last, max(0, @later));
}


# Puts at a rate, by some processes, each with a connection to an etcd of its
# own.  Returns how many were done, and in how many seconds.

sub put_at {
    my ($self, $rate, $seconds) = @_;

    my $begun = time();
    my @pids = $self->writers($rate, $seconds);

    waitpid($_, 0) for @pids;

    my $n = sum(map { slurp(test_dir() . "/puts$_") } 0 .. $#pids);

    return ($n, time() - $begun);
}


# Runs code while there are puts at a rate.

sub while_put_at {
    my ($self, $rate, $code) = @_;

    my @pids = $self->writers($rate, FOREVER);

    $code->();

    CORE::kill('KILL', @pids);
    waitpid($_, 0) for @pids;
}


sub writers {
    my ($self, $rate, $seconds) = @_;

    my $begun = time();
    my $parent = $$;
    my @etcds = $self->etcds;
    my $writers = $rate > 20 ? 8 : 1;
    my @pids;

    for my $i (0 .. $writers - 1) {
        my $pid = fork() // die "fork: $!\n";

        push(@pids, $pid), next if $pid;

        my $etcd = $etcds[$i % @etcds];

        $etcd->{http} = $etcd->http();

        my $n = 0;

        while (getppid() == $parent) {
            my $due = $begun + ($n * $writers + $i) / $rate;

            last if $due >= $begun + $seconds || time() > $begun + 2 * $seconds;

            sleep(max(0, $due - time()));

            my $key = 1 + int(rand(MEMBERS));

            eval { $etcd->put("/fleet/members/$key", value($key)) };
            $n++;
        }

        Tls::write_file(test_dir() . "/puts$i", $n);
        POSIX::_exit(0);
    }

    return @pids;
}


1;
