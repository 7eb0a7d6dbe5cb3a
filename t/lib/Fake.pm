package Fake;

# An etcd that answers as a real one cannot be made to; t/fake/fake_etcd.c
# lists its modes.
#
#     my $fake = Fake->new()->start('refuse-first:2', '--kv', 'KEY=VALUE');
#     $fake->endpoints;
#     $fake->lines(qr/ range /);        # its log: MILLISECONDS WHAT conn=N ...
#     $fake->times(qr/ open /);         # when, in seconds
#     $fake->stop(); $fake->start(...); # on the same port

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

use Finish;
use Port;
use Process;
use Wait;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $count = 0;


sub new {
    my ($class) = @_;

    return bless {
        port => free_port(),
        log  => test_dir() . '/fake' . ++$count . '.log',
    }, $class;
}


sub port { $_[0]{port} }
sub pid  { $_[0]{pid} }
sub url  { "http://127.0.0.1:$_[0]{port}" }
sub endpoints { $_[0]->url }


sub start {
    my ($self, $mode, @options) = @_;

    my $dir = $ENV{TEST_NGINX_MODULES} || "$top/build";

    -x "$dir/fake_etcd" or die "there is no $dir/fake_etcd, make builds it\n";

    my $listening = @{ $self->lines(qr/ listen /) };

    $self->{pid} = spawn($self->{log}, "$dir/fake_etcd", $self->{port}, $mode,
                         @options);

    Finish::later($self);

    wait_for { @{ $self->lines(qr/ listen /) } > $listening } 10, "fake $mode"
        or die "fake_etcd $mode did not start, see $self->{log}\n";

    return $self;
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


sub lines {
    my ($self, $pattern) = @_;

    open(my $file, '<', $self->{log}) or return [];

    return [grep { /$pattern/ } <$file>];
}


sub count { scalar(@{ $_[0]->lines($_[1]) }) }
sub times { map { /^(\d+)/ ? $1 / 1000 : () } @{ $_[0]->lines($_[1]) } }


1;
