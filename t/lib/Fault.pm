package Fault;

# An nginx with members in etcd and load, to which something bad is done.
#
#     my $test = Fault->start(etcds => [$cluster->members]);
#     $test->fault('kill -9 of the member in use',
#                  sub { $cluster->member_at($test->endpoint)->kill() },
#                  sub { $cluster->revive() });
#     $test->finished();
#
# The second function returns when etcd is well again, and the fault is over.
# Five tests follow each fault:
#
#   - no request failed meanwhile, and there always were some;
#   - within CONVERGED seconds nginx is connected, and members are what etcdctl
#     reads from etcd (a time in which the machine stands still, or a control is
#     not served either, does not count in either: see Control);
#   - the workers' memory has not grown by more than GROWN KB, and AGENT KB for
#     each worker that has become the agent;
#   - nothing is in the log more than FLOOD times a minute, numbers aside;
#   - the invariant holds, see Invariant.

use strict;
use warnings;

use List::Util qw(max sum);
use Test::More ();
use Time::HiRes qw(time);

use Backend;
use Control;
use Invariant;
use Nginx;
use Process;
use Upstream;
use Wait;

use constant {
    MEMBERS   => 6,
    CONVERGED => 5,
    GROWN     => 256,
    AGENT     => 300,           # 284 KB were measured
    SANITIZED => 32,            # times: freed memory is not used again
    FLOOD     => 10,
    GAP       => 1,
};

my $slower = $ENV{TEST_SLOWER} || 1;

my $config = <<'EOC';

etcd {
    endpoints %%ENDPOINTS%%;
    ping_interval 5s;
    ping_timeout %%PING_TIMEOUT%%;
    %%CLUSTER%%
}

http {
    %%FORMAT%%
    log_format static "$msec";

    upstream static {
        %%STATIC%%
        keepalive 8;
    }

    upstream api {
        etcd_members /s/;
        etcd_guard off;
        keepalive 8;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/requests.log invariant;

        location / {
            %%STALE%%
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }

        location /static {
            access_log %%DIR%%/static.log static;
            proxy_pass http://static;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }

        location /status {
            etcd_status;
            access_log off;
        }
    }
}

EOC


# etcds => [ETCD, ...]; endpoints => 'URL ...' where nginx does not use those of
# etcds; cluster => directives for the etcd block; ping_timeout => TIME (1s);
# nginx => $nginx, not started yet; root as of Invariant.  Without etcds nobody
# writes, and truth => sub {} says what members, as { KEY => ADDRESS }, there
# should be.  pause => SECONDS between requests of a client.

sub start {
    my ($class, %options) = @_;

    my @etcds = @{ $options{etcds} // [] };
    my @backends = @etcds ? Backend->start(MEMBERS) : ();
    my @static = @etcds ? @backends : Backend->start('static');
    my %members = map { ("/s/$_" => $backends[$_]->address) } 1 .. $#backends;

    my $self = bless {
        etcds => \@etcds,
        root  => $options{root},
        truth => $options{truth},
    }, $class;

    # a member that never leaves

    $etcds[0]->put('/s/0', $backends[0]->address) if @etcds;

    $self->{nginx} = $options{nginx} // nginx();
    $self->{nginx}->set(
        ENDPOINTS => $options{endpoints} // join(' ', map { $_->endpoints }
                                                          @etcds),
        CLUSTER   => $options{cluster} // '',
        FORMAT    => Invariant::FORMAT,
        STALE     => Invariant::STALE,
        PING_TIMEOUT => $options{ping_timeout} // '1s',
        STATIC    => Control::servers(map { $_->address } @static),
    )->start($config);

    $self->{api} = Upstream->new($self->{nginx}, 'api');
    wait_for { %{ $self->{api}->members } } 20, 'the first member'
        or die "nginx has no member\n";

    $self->{invariant} = Invariant->start($self->{nginx}, \@etcds, \%members,
        %options, servers => [map { $_->address } @backends]);

    $self->{static} = Control->beside($self->{nginx}, '/static', 'static.log',
                                      $self->{invariant}->control->{stall});

    return $self;
}


# A sanitizer would keep freed memory, so that memory would grow.

sub nginx { Nginx->new(sanitizer => 'quarantine_size_mb=0') }


sub lasted { my $self = shift; $self->{invariant}->lasted(@_) }
sub log_has { $_[0]{nginx}->count_log($_[1]) }
sub cluster { ($_[0]{nginx}->status // {})->{clusters}{default} // {} }
sub state { $_[0]->cluster->{state} // '' }
sub is_synced { $_[0]->state eq 'synced' }
sub endpoint { $_[0]->cluster->{endpoint} // '' }
sub revision { $_[0]{api}->status->{revision} // 0 }


# times => N makes the fault again and again: memory is compared with memory
# after the first time; late => SECONDS: the delay that the network alone adds
# to changes.

sub fault {
    my ($self, $name, $begin, $end, %options) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->{invariant}->allow($options{late});
    $self->begin($name, $begin);

    for (2 .. $options{times} // 1) {
        $self->over($end);
        $self->{memory} = $self->memory() if $_ == 2;
        $begin->();
    }

    return $self->end($end);
}


# Cuts all connections of these ways: true as soon as there are others.

sub reconnects {
    my ($self, @ways) = @_;

    my $before = $self->cluster->{reconnects};

    $_->cut() for @ways;

    return wait_for { $self->cluster->{reconnects} > $before
                      && $self->is_synced } 10,
        'another connection';
}


# fault() in two halves, so that something else may happen between them

sub begin {
    my ($self, $name, $begin) = @_;

    $self->{name} = $name;
    $self->{memory} = $self->memory();
    $self->{logged} = length($self->{nginx}->error_log);
    $self->{invariant}->look();
    $self->{late} = undef;
    $self->{begun} = time();

    $begin->();
}


sub end {
    my ($self, $end) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->over($end);
    $self->serves();
    $self->{invariant}->allow();
    $self->converges();
    $self->releases_memory();
    $self->is_quiet();
}


# no member changes until the fault is over

sub pause { $_[0]{invariant}->writer->pause() }


# The truth is read from etcd while nothing changes it.  Members may be the same
# at revisions that nginx has still to pass.

sub over {
    my ($self, $end) = @_;

    $end->();

    my $over = time();
    my $writer = $self->{invariant}->writer;
    my $paused = !$writer || $writer->pause();
    my $truth = $self->truth();
    my $revision = $writer ? $writer->revision : 0;

    my $same = $paused && wait_for { $self->is_synced()
                                     && $self->revision() >= $revision
                                     && $self->known() eq $truth }
        4 * CONVERGED, "$self->{name}: the truth";

    my $took = $self->lasted($over, time());

    if (!$same || $took > CONVERGED * $slower) {
        $self->{late} //= sprintf("after %.1f s\netcd:\n%s\nnginx, %s:\n%s",
                                  $took, $truth, $self->state, $self->known());
    }

    $writer->resume() if $writer;
}


# KEY ADDRESS lines

sub truth {
    my ($self) = @_;

    if (my $truth = $self->{truth}) {
        my %members = %{ $truth->() };

        return join("\n", map { "$_ $members{$_}" } sort keys %members);
    }

    my @user = $self->{root} ? ('--user', "root:$self->{root}") : ();
    my $output;

    for my $etcd (grep { $_->pid } @{ $self->{etcds} }) {
        my ($status, $text) = $etcd->etcdctl('get', '--prefix', '/s/');

        # "auth" may be enabled by now

        if ($status != 0 && @user) {
            ($status, $text) = $etcd->etcdctl(@user, 'get', '--prefix', '/s/');
        }

        return join("\n", $text =~ /^(.+\n.+)\n/mg) =~ s/^(\/.*)\n/$1 /mgr
            if $status == 0;

        $output = $text;
    }

    die "$self->{name}: etcdctl cannot read: $output\n";
}


sub known {
    my ($self) = @_;

    my $members = $self->{api}->members;

    return join("\n", map { "$_ " . $members->{$_} =~ s/ 1 up$//r }
                          sort keys %$members);
}


sub serves {
    my ($self) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    # a fault may be over between two requests of a busy machine

    $self->{invariant}->is_asked();

    my $seen = $self->{invariant}->holds("$self->{name}: the invariant holds");

    # static servers of the same nginx tell what a busy machine does to it

    my $static = $self->{static}->longest($self->{begun});
    my $usual = max($seen->{usual}, Wait::share() < 1 ? $static : 0);

    Test::More::ok($seen->{failed} == 0 && $seen->{requests}
                   && $seen->{gap} < GAP * $slower + $usual,
                   "$self->{name}: serving never stopped")
        or Test::More::diag("$seen->{requests} requests, $seen->{failed} "
                            . "failed, none for $seen->{gap} s, the "
                            . "control's longest pause: $seen->{usual} s, "
                            . "that of static servers: $static s");
}


sub converges {
    my ($self) = @_;

    Test::More::ok(!defined $self->{late},
                   "$self->{name}: then members are etcd's")
        or Test::More::diag($self->{late});
}


sub releases_memory {
    my ($self) = @_;

    my $grown;
    my $most = GROWN * (Nginx::built_with() =~ /-fsanitize/ ? SANITIZED : 1);

    # On a machine that stands still another worker may become the agent: what
    # an agent needs is then in two workers.

    my $log = substr($self->{nginx}->error_log, $self->{logged});
    my %agents = map { $_ => 1 }
                 $log =~ /\ (\d+)\#\d+:\ .*this\ worker\ is\ the\ agent$/xmg;

    $most += AGENT * keys %agents;

    # memory of a former connection may be freed a moment later

    wait_for { ($grown = $self->memory() - $self->{memory}) <= $most } 5, 'less'
        or Test::More::note("$grown KB");

    Test::More::cmp_ok($grown, '<=', $most,
                       "$self->{name}: memory is at its level");
}


# KB of all workers

sub memory {
    my ($self) = @_;

    return sum(0, map { own_memory($_) } $self->{nginx}->workers);
}


sub is_quiet {
    my ($self) = @_;

    my $log = substr($self->{nginx}->error_log, $self->{logged});
    my @floods = floods(split(/\n/, $log));

    Test::More::is(join("\n", @floods), '',
                   "$self->{name}: the log is not flooded");
}


# lines at notice or above that came more than FLOOD times in a minute

sub floods {
    my @lines = @_;

    my (%times, @floods);

    for (@lines) {
        my ($h, $m, $s, $level, $text) =
            m{^\S+ (\d+):(\d+):(\d+) \[(\w+)\] (.*)} or next;

        next if $level eq 'info' || $level eq 'debug';

        push @{ $times{ $text =~ s/\d+/N/gr } }, $h * 3600 + $m * 60 + $s;
    }

    for my $text (sort keys %times) {
        my @times = @{ $times{$text} };

        if (grep { $times[$_] - $times[$_ - FLOOD] < 60 } FLOOD .. $#times) {
            push @floods, @times . " times: $text";
        }
    }

    return @floods;
}


sub finished {
    my ($self) = @_;

    $self->{static}->finished();
    $self->{invariant}->finished();
}


1;
