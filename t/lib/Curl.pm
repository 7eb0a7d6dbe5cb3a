package Curl;

# curl in the background: one object is one transfer.
#
#     my $curl = Curl->start('http://127.0.0.1:8080/', '-0');
#     my $curl = Curl->within([$place->within], 'http://10.0.1.254/');
#     $curl->came(qr/^token /m);    # waits; false if it never comes
#     $curl->leave;                 # closes the connection
#     $curl->ended;                 # waits; the exit status
#     $curl->head, $curl->body;     # what came so far

use strict;
use warnings;

use Finish;
use Process;
use Slurp;
use Wait;

my $count = 0;


sub start {
    my ($class, @arguments) = @_;

    return $class->within([], @arguments);
}


sub within {
    my ($class, $within, $url, @options) = @_;

    my $name = test_dir() . '/curl' . ++$count;
    my $self = bless { name => $name }, $class;

    $self->{pid} = spawn("$name.log", @$within, 'curl', '-sSN',
                         '-D', "$name.head", '-o', "$name.body", @options,
                         $url);

    return $self;
}


sub pid { $_[0]{pid} }
sub head { -e "$_[0]{name}.head" ? slurp("$_[0]{name}.head") : '' }
sub body { -e "$_[0]{name}.body" ? slurp("$_[0]{name}.body") : '' }


sub came {
    my ($self, $pattern) = @_;

    my $over = sub { !$self->{pid} || !is_running($self->{pid}) };

    wait_for { $self->body =~ $pattern || $over->() } 20, "$pattern from nginx"
        or return 0;

    return $self->body =~ $pattern ? 1 : 0;
}


# the token that nginx sends first

sub token { $_[0]->came(qr/^token \d+\n/) && ($_[0]->body =~ /(\d+)/)[0] }


sub leave {
    my ($self) = @_;

    my $pid = delete $self->{pid} // return;

    return stop_child($pid);
}


sub ended {
    my ($self) = @_;

    my $status;

    wait_for {
        local $?;

        waitpid($self->{pid}, POSIX::WNOHANG) != 0 or return 0;
        $status = $? & 127 ? 'signal' : $? >> 8;
        1;
    } 30, 'the end of curl' or return 'none';

    delete $self->{pid};

    return $status;
}


sub DESTROY { $_[0]->leave }


1;
