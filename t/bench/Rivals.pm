package Rivals;

# nginx and HAProxy before the same members, with the same intervals, timeouts
# and attempts, and with the same load.
#
#     my $nginx = Rivals::nginx($etcd, panic => 0);
#     my $haproxy = Rivals::haproxy(@addresses);
#     $haproxy->follow($etcd);          # members as etcd has them
#     $haproxy->kill_worker();          # and another one is started
#     $_->port for $nginx, $haproxy;
#
# HAProxy knows no etcd.  What follows etcd for it does what confd would: it
# asks every FOLLOW seconds, and when members are others it writes the file and
# reloads HAProxy.  When etcd does not answer, it leaves all as it is.

use strict;
use warnings;

use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(sleep);

use Etcd;
use Finish;
use Nginx;
use Port;
use Process;
use Slurp;
use Wait;

use constant {
    PREFIX  => '/m/',
    WORKERS => 2,
    TRIES   => 4,
    FOLLOW  => 0.1,
    RESTART => 0.1,             # of systemd, by default
};

my $nginx = <<'END';

worker_processes %%WORKERS%%;
worker_rlimit_nofile 16384;

events {
    worker_connections 8192;
}

etcd {
    endpoints %%ETCD%%;
    zone 64m;
}

http {
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_connect_timeout 1s;
    proxy_read_timeout 3s;
    proxy_next_upstream error timeout %%AGAIN%%;
    proxy_next_upstream_tries %%TRIES%%;
    keepalive_requests 1000000000;

    upstream api {
        etcd_members %%PREFIX%%;
        etcd_check http uri=/health interval=%%INTERVAL%%s fast=200ms mandatory
                   %%PANIC%%;
        etcd_eject errors=50% max=34%;
        %%GUARD%%
        keepalive 64;
    }

    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;

        location / {
            proxy_pass http://api;
        }

        location /status {
            etcd_status;
        }
    }
}

END

my $haproxy = <<'END';
global
    nbthread %WORKERS%
    maxconn 4096
    stats socket %DIR%/stats.sock expose-fd listeners

defaults
    mode http
    timeout connect 1s
    timeout server 3s
    timeout queue 3s
    timeout client 1h
    timeout check 1s
    retries %RETRIES%
    option redispatch 1
    retry-on conn-failure empty-response response-timeout %AGAIN%

listen api
    bind 127.0.0.1:%PORT%
    balance roundrobin
    option httpchk GET /health
    default-server check inter %INTERVAL%s fastinter 200ms fall 3 rise 2
    default-server observe layer7 error-limit 10 on-error mark-down
%SERVERS%
END


# options: panic => 0, interval => SECONDS (of checks), again => 1 (an answer by
# 500 is tried again), guard => DIRECTIVE

sub nginx {
    my ($etcd, %options) = @_;

    return Nginx->new(etcd => $etcd)->set(
        WORKERS  => WORKERS,
        TRIES    => TRIES,
        PREFIX   => PREFIX,
        INTERVAL => $options{interval} // 2,
        PANIC    => exists $options{panic} ? "panic=$options{panic}" : '',
        AGAIN    => $options{again} ? 'http_500' : '',
        GUARD    => $options{guard} // '',
    )->start($nginx);
}


sub haproxy {
    my ($addresses, %options) = @_;

    my $self = bless {
        port     => free_port(),
        dir      => test_dir(),
        interval => $options{interval} // 2,
        again    => $options{again},
    }, 'Rivals::HAProxy';

    $self->render(@$addresses);
    $self->launch();
    Finish::later($self);

    return $self;
}


package Rivals::HAProxy;

use Process;
use Time::HiRes qw(sleep);
use Wait;


sub port { $_[0]{port} }


sub render {
    my ($self, @addresses) = @_;

    my $n = 0;
    my %values = (
        WORKERS  => Rivals::WORKERS,
        RETRIES  => Rivals::TRIES - 1,
        DIR      => $self->{dir},
        PORT     => $self->{port},
        INTERVAL => $self->{interval},
        AGAIN    => $self->{again} ? 500 : '',
        SERVERS  => join('', map { '    server s' . ++$n . " $_\n" }
                                 @addresses),
    );
    my $file = "$self->{dir}/haproxy.cfg";

    open(my $config, '>', "$file.new") or die "$file: $!\n";
    print $config $haproxy =~ s/%(\w+)%/$values{$1}/gr;
    close($config) or die "$file: $!\n";

    rename("$file.new", $file) or die "rename $file: $!\n";
}


sub launch {
    my ($self) = @_;

    my $file = "$self->{dir}/haproxy.cfg";

    $self->{pid} = spawn("$file.log", 'haproxy', '-W', '-db', '-f', $file);

    wait_for {
        IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                              PeerPort => $self->{port})
    } 20, 'HAProxy' or die "there is no HAProxy\n";
}


# The follower is a process of its own.

sub follow {
    my ($self, $etcd) = @_;

    my $pid = fork() // die "fork: $!\n";

    if ($pid) {
        $self->{follower} = $pid;
        return;
    }

    my $known;
    my $bench = getppid();

    @SIG{qw(HUP INT TERM)} = ('DEFAULT') x 3;
    $etcd->{http} = $etcd->http(timeout => 1);

    while (getppid() == $bench) {
        my @members;

        if (eval { @members = $etcd->list(Rivals::PREFIX); 1 }) {
            my $now = join(' ', map { $_->{value} } @members);

            $self->render(split(/ /, $now));
            kill('USR2', $self->{pid}) if $now ne ($known // $now);
            $known = $now;
        }

        sleep(Rivals::FOLLOW);
    }

    POSIX::_exit(0);
}


# The master ends when its worker was killed, and systemd starts another one.

sub kill_worker {
    my ($self) = @_;

    my $pid = $self->{pid};
    my ($worker) = split(' ', Slurp::slurp("/proc/$pid/task/$pid/children"));

    kill('KILL', $worker);

    wait_for { waitpid($pid, POSIX::WNOHANG()) != 0 } 5, "HAProxy's end";
    sleep(Rivals::RESTART);
    $self->launch();
}


sub stop {
    my ($self) = @_;

    for my $pid (grep { $_ } delete @$self{qw(follower pid)}) {
        stop_child($pid);
    }
}


1;
