package Nginx;

# An nginx with the modules loaded, from a configuration in the test.
#
#     my $nginx = Nginx->new(etcd => $etcd)->start(<<'EOF');
#
#     etcd {
#         endpoints %%ETCD%%;
#     }
#
#     http {
#         server {
#             listen 127.0.0.1:%%PORT%%;
#         }
#     }
#
#     EOF
#
#     $nginx->get('/')->{status};
#
# %%PORT%%, %%PORT_1%% and so on become free ports, %%ETCD%% the endpoints,
# %%DIR%% a directory for files, %%HOST%% the address where the test reaches
# it, and %%NAME%% what set(NAME => ...) said.
# Modules, pid, logs, temporary paths and events are cared for here, without
# moving the lines of the configuration.  Two workers unless it says otherwise.
#
# TEST_NGINX_BINARY and TEST_NGINX_MODULES choose another nginx, TEST_LOG=debug
# another level of error.log.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP;

use parent 'ErrorLog';

use Becomes;
use Finish;
use Http;
use Line;
use Port;
use Process;
use Upstream;
use Wait;

# seconds; a machine that stands still for START is no test's subject

use constant {
    START   => 60,
    PATIENT => 120,
};

my $top = abs_path(dirname(__FILE__) . '/../..');
my $count = 0;
my $built_with;


# etcd => $etcd, modules => ['etcd', 'http', 'stream'] (default: as needed),
# first => $path (a module of the tests, loaded before all others),
# ports => { PORT => 8080 } (default: any), user => 'nobody nogroup' (of the
# workers, where we are root), sanitizer => 'OPTION=VALUE' (more of them),
# place => $place: in a network namespace, listening on %%HOST%%

sub new {
    my ($class, %options) = @_;

    my $dir = test_dir() . '/nginx' . ++$count;

    mkdir($dir) or die "mkdir $dir: $!\n";

    my $self = bless {
        dir      => $dir,
        modules  => $options{modules},
        first    => $options{first},
        user     => $options{user} // 'root',
        asan     => $options{sanitizer} // '',
        place    => $options{place},
        values   => { DIR => $dir },
        ports    => $options{ports} // {},
        expected => [],
        problems => [],
        workers  => {},
    }, $class;

    $self->set(HOST => $self->host);

    if ($options{etcd}) {
        $self->set(ETCD => $options{etcd}->endpoints);
    }

    return $self;
}


# values for %%NAME%% in configurations to come

sub set {
    my ($self, %values) = @_;

    $self->{values}{$_} = $values{$_} for keys %values;

    return $self;
}


# The path is absolute: an nginx that is replaced executes the name by which it
# was started.

sub binary {
    my $binary = $ENV{TEST_NGINX_BINARY} || 'nginx';

    my ($path) = grep { -x } map { "$_/$binary" } split(/:/, $ENV{PATH});

    return $binary =~ m{/} ? $binary : $path // $binary;
}

sub modules_dir { abs_path($ENV{TEST_NGINX_MODULES} || "$top/build") }

sub dir { $_[0]{dir} }
sub pid { $_[0]{pid} }
sub place { $_[0]{place} }
sub host { $_[0]{place} ? $_[0]{place}->test_address : '127.0.0.1' }


sub port {
    my ($self, $name) = @_;

    return $self->{ports}{$name // 'PORT'} //= free_port();
}


# the parameters of configure, and the version, of the binary

sub built_with {
    $built_with //= (run(binary(), '-V'))[1];

    return $built_with;
}


# true if the binary has all of these: has('stream', 'http_v2_module')

sub has {
    my @modules = @_;

    return !grep { built_with() !~ /--with-\Q$_\E\b/ } @modules;
}


# The version as a number: 1022001 for 1.22.1.

sub version {
    my ($major, $minor, $patch) =
        built_with() =~ m{nginx version: \S+?/(\d+)\.(\d+)\.(\d+)};

    return $major * 1000000 + $minor * 1000 + $patch;
}


# true if nginx accepts a configuration without modules of this project

sub accepts {
    my ($text) = @_;

    my ($ok) = Nginx->new(modules => [])->configtest($text);

    return $ok;
}


# Angie, and freenginx, whose versions are their own: neither has everything of
# the nginx of that number

sub is_angie { built_with() =~ /^Angie version/m }
sub is_freenginx { built_with() =~ m{^nginx version: freenginx/}m }
sub is_nginx { !is_angie() && !is_freenginx() }


# true for nginx's "sticky", which is not Angie's

sub has_sticky {
    return !is_angie() && accepts(
        'http { upstream u { server 127.0.0.1; sticky cookie s; } }'
    );
}


# true if connections to upstreams are kept without "keepalive"

sub keeps_by_default { is_nginx() && version() >= 1029007 }


# true if nginx has "server NAME resolve"

sub has_resolve {
    return accepts('http { resolver 127.0.0.1:1; upstream u { zone u 64k;'
                   . ' server u.test resolve; } }');
}


# configuration

sub write_config {
    my ($self, $text) = @_;

    $text =~ s/%%(\w+)%%/$self->value($1)/ge;

    # Additions go on lines that exist, so that messages name the right line.

    $text =~ s/^(http\s*\{)/$1 . $self->http_paths()/me;

    if ($text !~ /^worker_processes\b/m) {
        $text .= "\nworker_processes 2;\n";
    }

    if ($text !~ /^events\b/m) {
        $text .= "\nevents {\n}\n";
    }

    ($self->{processes}) = $text =~ /^worker_processes\s+(\d+)/m;
    $self->{processes} = 0 if $text =~ /^master_process\s+off/m;
    $self->{load} = $self->load_modules($text);
    $self->write_file('nginx.conf', $text);
}


sub value {
    my ($self, $name) = @_;

    if ($name =~ /^PORT(_\w+)?$/) {
        return $self->port($name);
    }

    return $self->{values}{$name} // die "nobody set %%$name%%\n";
}


sub http_paths {
    my ($self) = @_;

    my @paths = map { "${_}_temp_path $self->{dir}/$_;" }
        qw(client_body proxy fastcgi uwsgi scgi);

    return join(' ', '', 'access_log off;', @paths);
}


sub load_modules {
    my ($self, $text) = @_;

    my $dir = $self->modules_dir;
    my $stream = $text =~ /^stream\b/m;
    my @modules = @{ $self->{modules}
                     // ['etcd', 'http', $stream ? 'stream' : ()] };

    my @files = map { $_ eq 'etcd' ? "$dir/ngx_etcd_module.so"
                                   : "$dir/ngx_${_}_etcd_module.so" } @modules;

    # Debian's stream is a module itself

    if (($stream || grep { $_ eq 'stream' } @modules)
        && built_with() =~ /--with-stream=dynamic/)
    {
        unshift @files, stream_module();
    }

    unshift @files, $self->{first} // ();

    return join(' ', map { "load_module $_;" } @files);
}


# nginx's own: where nginx looks for it, or beside a binary that was not
# installed

sub stream_module {
    my ($prefix) = built_with() =~ /--prefix=(\S+)/;
    my ($modules) = built_with() =~ /--modules-path=(\S+)/;

    $prefix //= '/usr/local/nginx';
    $modules //= 'modules';
    $modules = "$prefix/$modules" if $modules !~ m{^/};

    my @files = map { "$_/ngx_stream_module.so" } $modules, dirname(binary());

    return (grep { -e } @files)[0] // $files[0];
}


# a file in the test's directory; returns its path

sub write_file {
    my ($self, $name, $text) = @_;

    my $path = "$self->{dir}/$name";

    open(my $file, '>', $path) or die "open $path: $!\n";
    print $file $text;
    close($file) or die "write $path: $!\n";

    return $path;
}


# a file that only its owner may read; returns its path

sub write_secret {
    my ($self, $name, $text) = @_;

    my $path = $self->write_file("$name.new", $text);

    chmod(0600, $path) or die "chmod $path: $!\n";
    rename($path, "$self->{dir}/$name") or die "rename $path: $!\n";

    return "$self->{dir}/$name";
}


# Workers of root stay root: they have to enter the test's directory.

sub command {
    my ($self, $log, @arguments) = @_;

    my $level = $ENV{TEST_LOG} || 'info';
    my @within = $self->{place} ? $self->{place}->within() : ();
    my $globals = "$self->{load} pid $self->{dir}/nginx.pid;"
        . " error_log $self->{dir}/$log $level;"
        . ($> == 0 ? " user $self->{user};" : '');

    return (@within, binary(), '-p', "$self->{dir}/", '-e', "$self->{dir}/$log",
            '-c', "$self->{dir}/nginx.conf", '-g', $globals, @arguments);
}


sub run_nginx {
    my ($self, @command) = @_;

    # nginx takes this variable for the sockets of its predecessor.

    delete local $ENV{NGINX};

    # Memory that was never used before costs most where machines are nested.

    local $ENV{ASAN_OPTIONS} = 'detect_leaks=0:detect_odr_violation=0:'
        . 'quarantine_size_mb=32:allocator_release_to_os_interval_ms=-1:'
        . "log_path=$self->{dir}/sanitizer:$self->{asan}";

    return run(@command);
}


# Runs `nginx -t`: (1 or 0, its output)

sub configtest {
    my ($self, $text) = @_;

    $self->write_config($text);
    Finish::later($self);

    my ($status, $output) =
        $self->run_nginx($self->command('configtest.log', '-t'));

    push @{ $self->{problems} },
        grep { /$ErrorLog::SANITIZER/ } split(/\n/, $output);

    return ($status == 0 ? 1 : 0, $output);
}


# life

sub start {
    my ($self, $text) = @_;

    $self->write_config($text) if defined $text;
    Finish::later($self);

    my ($status, $output) = $self->run_nginx($self->command('error.log'));

    $status == 0 or die "nginx did not start:\n$output\n";

    wait_for { $self->{pid} = $self->read_pid() } START, 'nginx.pid'
        or die "nginx did not start\n";

    # All workers run: a test may compare them with workers that it sees later.

    wait_for { $self->workers() >= ($self->{processes} // 1) } START, 'workers'
        or die "no workers\n";

    return $self;
}


sub read_pid {
    my ($self) = @_;

    open(my $file, '<', "$self->{dir}/nginx.pid") or return;

    return (<$file> // '') =~ /^(\d+)\n/ ? $1 : undef;
}


# With a new configuration, or the same again.  Returns when new workers have
# taken over, and with gone => 1 when the old ones have exited; false when
# nginx refused the configuration.

sub reload {
    my ($self, $text, %options) = @_;

    my %old = map { $_ => 1 } $self->workers();
    my $refused = $self->count_log(qr/\[emerg\]/);

    $self->write_config($text) if defined $text;
    kill('HUP', $self->{pid});

    my $result = wait_for {
        $self->count_log(qr/\[emerg\]/) > $refused ? 'refused'
        : grep({ $old{$_} } $self->workers()) ? 0
        : $options{gone} && grep({ is_running($_) } keys %old) ? 0
        : 'done'
    } 20, 'the reload';

    return defined $result && $result eq 'done';
}


# Another nginx takes over the sockets, as with an upgrade of the binary.  The
# former one stays until keep() has ended one of both: the 'new' or the 'former'
# one is kept.

sub replace {
    my ($self) = @_;

    my $former = $self->{pid};

    kill('USR2', $former);

    wait_for {
        my $pid = $self->read_pid() // $former;

        $pid != $former && ($self->{pid} = $pid)
    } START, 'another nginx.pid' or return 0;

    $self->{former} = $former;

    return wait_for { $self->workers() >= ($self->{processes} // 1) } START,
                    'other workers';
}


sub keep {
    my ($self, $which) = @_;

    my ($ends, $stays) = (delete $self->{former}, $self->{pid});

    ($ends, $stays) = ($stays, $ends) if $which eq 'former';

    kill('QUIT', $ends);

    $self->{pid} = $stays;
    $self->{workers} = {};

    return wait_for { !is_running($ends) } 10, 'one of both to end';
}


# pids of the workers that take connections, and of those on their way out

sub workers { grep { $_[0]->title($_) =~ /worker process$/ } $_[0]->children }
sub leaving { grep { $_[0]->title($_) =~ /shutting down$/ } $_[0]->children }


sub children {
    my ($self) = @_;

    my $pid = $self->{pid} // return;

    open(my $file, '<', "/proc/$pid/task/$pid/children") or return;

    my @children = split(' ', <$file> // '');

    $self->{workers}{$_} = 1 for @children;

    return @children;
}


# The title is without the number of the configuration, with which Angie's
# titles end.

sub title {
    my ($self, $pid) = @_;

    open(my $file, '<', "/proc/$pid/cmdline") or return '';

    return (<$file> // '') =~ s/[\0 ]+$//r =~ s/ #\d+$//r;
}


# Kills one worker; the lines about that in the log are expected then.  The
# worker may have held the mutex of a zone, which the master unlocks.

sub kill_worker {
    my ($self, $pid, $signal) = @_;

    $signal //= 'KILL';
    $self->expect(qr/process $pid exited on signal/, qr/was locked by $pid\b/);
    kill($signal, $pid);

    return wait_for { !is_running($pid) } 10, "worker $pid to die";
}


sub freeze { suspend($_[1]) }
sub thaw   { kill('CONT', $_[1]) }


# quit() is graceful, stop() is not; both wait

sub quit { $_[0]->end('QUIT') }
sub stop { $_[0]->end('TERM') }


# A power failure: master and workers end at once, the pid file stays.

sub crash {
    my ($self) = @_;

    my @pids = ($self->{pid}, $self->children());

    kill('KILL', @pids);

    my $ended = wait_for { !grep { is_running($_) } @pids } 10, 'all to die';

    # The next nginx may look whether they are there; init buries them.

    wait_for { !grep { kill(0, $_) } @pids } 10, 'all to be gone';

    unlink("$self->{dir}/nginx.pid");
    delete $self->{pid};
    $self->{workers} = {};

    return $ended;
}


sub end {
    my ($self, $signal) = @_;

    my $pid = $self->{pid} // return 1;

    $self->keep('new') if $self->{former};
    $self->children();
    kill('CONT', grep { $self->is_ours($_) } keys %{ $self->{workers} });
    kill($signal, $pid);

    # after TERM nginx kills workers that take longer than a second
    $self->expect(qr/process \d+ exited on signal 9$/) if $signal eq 'TERM';

    my $ended = wait_for { !is_running($pid) } 10, "nginx to end by $signal";

    for my $process ($pid, keys %{ $self->{workers} }) {
        if ($self->is_ours($process)) {
            push @{ $self->{problems} },
                "did not end: $process " . $self->title($process);
            kill('KILL', $process);
        }
    }

    delete $self->{pid};
    $self->{workers} = {};
    return $ended;
}


# The pid may belong to another process by now.

sub is_ours {
    my ($self, $pid) = @_;

    return is_running($pid) && $self->title($pid) =~ /^(?:nginx|angie): /;
}


# requests

sub get {
    my ($self, $path, @headers) = @_;

    return $self->http->get($path, Connection => 'close', @headers);
}


# a keep-alive connection

sub http {
    my ($self, $port) = @_;

    return Http->new($self->port($port), address => $self->host);
}


# How often each answer came: { body => times }; a failure counts as its status.

# how often each status came, and for 200 each body, less a final line feed

sub tally {
    my ($self, $path, $n, $concurrency) = @_;

    my %tally;

    for my $answer (Http::burst($self->port, $path, $n, $concurrency // 1)) {
        $tally{$answer->{status} == 200 ? $answer->{body} =~ s/\n\z//r
                                        : $answer->{status}}++;
    }

    return \%tally;
}


# Returns the status, decoded; undef without an answer.

sub status {
    my ($self, $path) = @_;

    my $answer = $self->get($path // '/status');

    $answer->{status} == 200 or return;

    return eval { decode_json($answer->{body}) };
}


# the status of one cluster; one upstream, of http or stream, as an object

sub cluster {
    my ($self, $name) = @_;

    return $self->status->{clusters}{$name // 'default'};
}


sub upstream { return Upstream->new(@_) }
sub stream { return Upstream->new(@_, 'stream') }


# the backend that "/to/NAME" leads to: the body, or a status that is not 200

sub who {
    my ($self, $name) = @_;

    my $answer = $self->get("/to/$name");

    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}


# Waits until "/to/NAME" leads to that backend.

sub leads_to {
    my ($self, $name, $who) = @_;

    return wait_for { $self->who($name) eq $who } 20, "$name: $who";
}


# the body of "/", and a test that "/" soon has this body

sub says { $_[0]->get('/')->{body} }


sub comes_to_say {
    my ($self, $wanted, $name, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { $self->says } $wanted, $name, $seconds;
}


# a test: requests of "/to/NAME" are answered by these, in order, and no others

sub comes_to_use {
    my ($self, $name, $who, $test, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        join(' ', sort keys %{ $self->tally("/to/$name", 24, 4) })
    } $who, "$name: $test", $seconds;
}


# true if this nginx leads, as "/leads" says

sub leads { ($_[0]->get('/leads')->{body} // '') eq '1' }


# a client of the line protocol for the port %%PORT_NAME%%

sub line { Line::Client->new($_[0]->port("PORT_$_[1]")) }


# a client that has sent a request, and one that can wait for minutes

sub begin {
    my ($self, $path) = @_;

    my $client = $self->http;

    $client->send('GET', $path);

    return $client;
}


sub patient {
    my ($self) = @_;

    my $client = $self->http;

    $client->{timeout} = PATIENT;

    return $client;
}


# the lines of a file in the test's directory, none if there is no such file

sub lines_of {
    my ($self, $name) = @_;

    open(my $file, '<', "$self->{dir}/$name") or return;

    return <$file>;
}


1;
