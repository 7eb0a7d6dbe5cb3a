package Patroni;

# A PostgreSQL cluster under Patroni, three members by default, with its state
# in an etcd.
#
# PostgreSQL does not run as root: a test that does starts it as "postgres".
# Replication is synchronous, so that a write that was acknowledged is one that
# a switchover may not lose.

use strict;
use warnings;

use File::Path qw(make_path);
use Time::HiRes qw(time);

use Finish;
use Http;
use Port;
use Process;
use Wait;

use constant {
    SCOPE     => 'batman',
    SUPERUSER => 'postgres',
    PASSWORD  => 'secret',
};


# etcd => Etcd, members => 3, ttl => 20: how long the leader's key outlives it,
# failsafe => 1: with Patroni's failsafe mode

sub new {
    my ($class, %options) = @_;

    my $self = bless {
        etcd     => $options{etcd},
        ttl      => $options{ttl} // 20,
        failsafe => $options{failsafe} ? 'true' : 'false',
        dir      => test_dir() . '/patroni',
    }, $class;

    # the test's directory is root's alone; its parent is everybody's

    chmod(0711, test_dir());
    make_path($self->{dir});
    own($self->{dir});

    $self->{members} = [map { $self->member("pg$_") }
                            1 .. $options{members} // 3];

    return $self;
}


sub own {
    my ($path) = @_;

    if ($> == 0) {
        my (undef, undef, $uid, $gid) = getpwnam('postgres')
            or die "there is no user postgres\n";

        chown($uid, $gid, $path);
    }
}


sub prefix { '/service/' . SCOPE . '/' }
sub members { @{ $_[0]{members} } }

sub member {
    my ($self, $name) = @_;

    return bless {
        name    => $name,
        cluster => $self,
        port    => free_port(),
        api     => free_port(),
        dir     => "$self->{dir}/$name",
        log     => "$self->{dir}/$name.log",
    }, 'Patroni::Member';
}


sub start {
    my ($self) = @_;

    Finish::later($self);

    $_->start() for $self->members;

    # The first member makes the data, the others copy it.

    wait_for { $self->healthy } 120, 'a healthy cluster of Patroni'
        or die "Patroni does not start\n" . $self->logs;

    return $self;
}


sub stop {
    my ($self) = @_;

    $_->stop() for $self->members;
}


# true with a primary, which all others follow synchronously or stand by to

sub healthy {
    my ($self) = @_;

    my @streaming = grep { $_->answers('/replica') } $self->members;

    return defined $self->primary && @streaming == $self->members - 1
           && grep { $_->answers('/synchronous') } @streaming;
}


# the primary as the members tell, not as etcd does

sub primary {
    my ($self) = @_;

    return (grep { $_->answers('/primary') } $self->members)[0];
}


# Switches over to any other member: returns at once.

sub switchover {
    my ($self) = @_;

    my $from = $self->primary or die "there is no primary\n";
    my ($to) = grep { $_->answers('/synchronous') } $self->members;

    my $answer = Http->new($from->{api})->post('/switchover',
        qq({"leader":"$from->{name}","candidate":"$to->{name}"}));

    if (($answer->{status} // 0) != 200) {
        die "switchover: ", $answer->{body} // 'no answer', "\n";
    }

    return $to;
}


# a connection to PostgreSQL, wherever it listens; undef: it is refused

sub connect {
    my ($port, $seconds) = @_;

    $seconds //= 5;

    # DBI may be missing where this file is only checked.

    require DBI;

    return DBI->connect("dbi:Pg:dbname=postgres;host=127.0.0.1;port=$port"
                        . ";connect_timeout=$seconds",
                        SUPERUSER, PASSWORD,
                        { RaiseError => 0, PrintError => 0, AutoCommit => 1 });
}


sub logs {
    my ($self) = @_;

    return join('', map { $_->tail } $self->members);
}


package Patroni::Member;

use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(sleep);

use Http;
use Process;
use Wait;


sub name { $_[0]{name} }
sub port { $_[0]{port} }
sub api_port { $_[0]{api} }


sub start {
    my ($self) = @_;

    my $file = "$self->{dir}.yml";

    mkdir($self->{dir}, 0700);
    Patroni::own($self->{dir});

    open(my $config, '>', $file) or die "$file: $!\n";
    print $config $self->config;
    close($config);
    Patroni::own($file);

    my @as = ($> == 0) ? ('setpriv', '--reuid=postgres', '--regid=postgres',
                          '--init-groups', 'env', "HOME=$self->{dir}") : ();

    $self->{pid} = Process::spawn($self->{log}, @as, 'patroni', $file);
}


sub config {
    my ($self) = @_;

    my $cluster = $self->{cluster};
    my ($scope, $user, $password) = (Patroni::SCOPE, Patroni::SUPERUSER,
                                     Patroni::PASSWORD);
    my $etcd = $cluster->{etcd}->port;

    # Of several releases of PostgreSQL any one will do.

    my ($programs) = glob('/usr/lib/postgresql/*/bin');

    return <<"EOF";
scope: $scope
name: $self->{name}
restapi:
  listen: 127.0.0.1:$self->{api}
  connect_address: 127.0.0.1:$self->{api}
etcd3:
  host: 127.0.0.1:$etcd
bootstrap:
  dcs:
    ttl: $cluster->{ttl}
    loop_wait: 2
    retry_timeout: 5
    synchronous_mode: true
    failsafe_mode: $cluster->{failsafe}
    postgresql:
      use_pg_rewind: true
      parameters:
        fsync: "off"
        max_connections: 100
        wal_keep_size: 128MB
  initdb:
    - encoding: UTF8
    - auth: scram-sha-256
postgresql:
  listen: 127.0.0.1:$self->{port}
  connect_address: 127.0.0.1:$self->{port}
  data_dir: $self->{dir}/data
  bin_dir: $programs
  pgpass: $self->{dir}/pgpass
  pg_hba:
    - host all all 127.0.0.1/32 scram-sha-256
    - host replication all 127.0.0.1/32 scram-sha-256
  authentication:
    superuser:
      username: $user
      password: $password
    replication:
      username: replicator
      password: $password
    rewind:
      username: $user
      password: $password
  parameters:
    unix_socket_directories: $self->{dir}
EOF
}


# true if Patroni answers 200 for the path

sub answers {
    my ($self, $path) = @_;

    my $answer = eval { Http->new($self->{api})->get($path) };

    return ($answer->{status} // 0) == 200;
}


# Patroni, the postmaster and all of its processes

sub processes {
    my ($self) = @_;

    my @pids = $self->{pid} ? $self->{pid} : ();

    if (open(my $file, '<', "$self->{dir}/data/postmaster.pid")) {
        chomp(my $postmaster = <$file> // '');

        if ($postmaster =~ /^\d+$/) {
            push @pids, $postmaster, children($postmaster);
        }
    }

    return @pids;
}


sub children {
    my ($pid) = @_;

    open(my $file, '<', "/proc/$pid/task/$pid/children") or return;

    return split(' ', <$file> // '');
}


sub freeze { suspend($_[0]->processes) }
sub thaw   { kill('CONT', $_[0]->processes) }


# The machine loses power; start() brings it back.

sub crash {
    my ($self) = @_;

    my @pids = $self->processes;

    kill('KILL', @pids);
    waitpid($self->{pid}, 0);
    $self->{pid} = undef;

    wait_for { !grep { Process::is_running($_) } @pids } 10,
        'PostgreSQL to end';
}


sub stop {
    my ($self) = @_;

    if (!$self->{pid}) {
        return;
    }

    my @pids = $self->processes;

    kill('CONT', @pids);
    Process::stop_child($self->{pid}, 'TERM', 30);
    $self->{pid} = undef;

    # A Patroni that was killed leaves its PostgreSQL behind.

    kill('KILL', grep { Process::is_running($_) } @pids);
}


sub tail {
    my ($self) = @_;

    open(my $file, '<', $self->{log}) or return '';

    my @lines = <$file>;

    return join('', splice(@lines, @lines > 20 ? -20 : 0));
}


1;
