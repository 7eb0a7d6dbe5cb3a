package Writer;

# Members come and go in etcd all the time; a history has the times.
#
#     my $writer = Writer->start([$cluster->members],
#                                { KEY => ADDRESS, ... }, root => 'password');
#     $writer->pause(); $writer->resume();
#     $writer->history();     # in order: { key, op, sent, done, revision }
#     $writer->revision();    # of the last change that is not lost
#
# A key that is there is put again or deleted, and then left deleted for a
# while.  The process goes on whatever happens to etcd: a short deadline for
# each attempt, and then another member.  "sent" is the time of the first
# attempt, "done" that of the answer, "revision" the one that did it.
#
# An attempt without an answer may still succeed, even minutes later, when a
# stopped member wakes up.  Each change therefore counts a number up, on the
# condition that it is what it was before: it happens once, in its turn, or
# never.  Where the number went back, etcd has lost changes: an entry with the
# op "lost" says that nothing is known of any key.

use strict;
use warnings;

use JSON::PP;
use MIME::Base64;
use POSIX ();
use Time::HiRes qw(sleep time);

use Etcd;
use Finish;
use Process;
use Wait;

use constant {
    NUMBER  => '/number',
    ATTEMPT => 0.5,
    PAUSE   => 0.02,
    ABSENT  => 0.5,
    DELETED => 0.2,
};

my $count = 0;
my $slower = $ENV{TEST_SLOWER} || 1;


# root => PASSWORD: for an etcd that authenticates, or will do so

sub start {
    my ($class, $etcds, $members, %options) = @_;

    my $self = bless {
        file    => test_dir() . '/writer' . ++$count,
        etcds   => $etcds,
        members => $members,
        keys    => [sort keys %$members],
        %options,
    }, $class;

    $etcds->[0]->put(NUMBER, 0);

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        eval { $self->work(); 1 } or warn $@;
        POSIX::_exit(0);
    }

    $self->{pid} = $pid;
    Finish::later($self);

    return $self;
}


# Returns when the last change has been answered, and the history tells of lost
# changes up to now, also if the writer was paused before.

sub pause {
    my ($self) = @_;

    my $before = $self->{paused} // 0;
    my $now = $self->{paused} = $before + 1;

    create($self->file('pause', $now));
    unlink($self->file('pause', $before));

    return wait_for { -e $self->file('paused', $now) } 20,
        'the writer to pause';
}


sub resume {
    my ($self) = @_;

    unlink($self->file('pause', $self->{paused} // 0));
}


# the file of the Nth pause

sub file {
    my ($self, $what, $n) = @_;

    return "$self->{file}.$what$n";
}


sub create {
    my ($file) = @_;

    open(my $created, '>', $file) or die "open: $!\n";
}


sub history {
    my ($self) = @_;

    open(my $file, '<', $self->{file}) or return;

    return map { decode_json($_) } grep { /\n\z/ } <$file>;
}


sub revision {
    my ($self) = @_;

    my ($last) = reverse($self->history);

    return $last && $last->{revision} // 0;
}


sub stop {
    my ($self) = @_;

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


# the writer's own process

sub work {
    my ($self) = @_;

    my $stopped = 0;
    my $test = getppid();

    local @SIG{qw(INT HUP)} = ('DEFAULT') x 2;
    local $SIG{TERM} = sub { $stopped = 1 };

    open($self->{log}, '>>', $self->{file}) or die "open: $!\n";
    $self->{log}->autoflush(1);

    $self->{links} = [map { $_->http(timeout => ATTEMPT) }
                      @{ $self->{etcds} }];
    $self->{number} = 0;
    $self->{paused} = 0;

    until ($stopped || getppid() != $test) {
        if (-e $self->file('pause', $self->{paused} + 1)) {
            $self->execute(\$stopped, $self->{number});
            create($self->file('paused', ++$self->{paused}));

        } elsif (!-e $self->file('pause', $self->{paused})) {
            $self->change(\$stopped);
        }

        sleep(PAUSE);
    }
}


sub change {
    my ($self, $stopped) = @_;

    my ($key, $op) = $self->choose() or return;
    my %entry = (key => $key, op => $op, sent => time());
    my $number = $self->{number} + 1;
    my @value = $op eq 'put' ? $self->{members}{$key} : ();

    my $revision = $self->execute($stopped, $number, [put => NUMBER, $number],
                                  [$op => $key, @value]) // return;

    $self->{present}{$key} = $op eq 'put';
    $self->{deleted}{$key} = time() if $op eq 'del';
    $self->note({ %entry, done => time(), revision => $revision });
}


# Executes operations that make the number $number; returns their revision, or
# nothing if the number is not the former one: changes are lost.

sub execute {
    my ($self, $stopped, $number, @operations) = @_;

    my $body = encode_json($self->transaction(@operations));

    until ($$stopped) {
        my $answer = $self->attempt($body) or next;
        my ($is, $revision) = number_of($answer, $number);

        $self->{number} = $is;
        return $revision if $is == $number;

        delete @$self{qw(present deleted)};
        $self->note({ op => 'lost', done => time() });
        return;
    }
}


# Chooses a key and an operation; nothing if the writer has to wait.

sub choose {
    my ($self) = @_;

    my $key = $self->{keys}[rand(@{ $self->{keys} })];

    if ($self->{present}{$key}) {
        return ($key, rand() < DELETED ? 'del' : 'put');
    }

    return time() < ($self->{deleted}{$key} // 0) + ABSENT * $slower
        ? () : ($key, 'put');
}


sub note {
    my ($self, $entry) = @_;

    print { $self->{log} } encode_json($entry), "\n";
}


sub transaction {
    my ($self, @operations) = @_;

    my $number = Etcd::encode(NUMBER);

    return {
        compare => [{ target => 'VALUE', result => 'EQUAL', key => $number,
                      value  => Etcd::encode($self->{number}) }],
        success => [map { Etcd::request_op(@$_) } @operations],
        failure => [{ request_range => { key => $number } }],
    };
}


# Returns the answer, or nothing: the next attempt goes to another member then.

sub attempt {
    my ($self, $body) = @_;

    my @token = $self->{token} ? (Authorization => $self->{token}) : ();
    my $link = $self->{links}[0];
    my $answer = $link->post('/v3/kv/txn', $body, @token);

    if ($answer->{status} == 200) {
        return decode_json($answer->{body});
    }

    $link->close();
    $self->authenticate($link) if $self->{root};

    push @{ $self->{links} }, shift @{ $self->{links} };
    sleep(PAUSE);

    return;
}


sub authenticate {
    my ($self, $link) = @_;

    my $answer = $link->post('/v3/auth/authenticate', encode_json({
        name => 'root', password => $self->{root},
    }));

    $self->{token} = $answer->{status} == 200
        ? decode_json($answer->{body})->{token} : undef;
}


# Returns the present number, and the revision at which it was written.

sub number_of {
    my ($answer, $wanted) = @_;

    if ($answer->{succeeded}) {
        return ($wanted, $answer->{header}{revision});
    }

    my $kv = $answer->{responses}[0]{response_range}{kvs}[0] // {};

    return (decode_base64($kv->{value} // '') || 0, $kv->{mod_revision});
}


1;
