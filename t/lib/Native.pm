package Native;

# Servers that are in one nginx twice: as "server" lines, and in etcd.
#
#     my $native = Native->new($etcd, @backends);
#
#     $native->add('NAME', servers => ['a weight=2', 'b backup'],
#                  native => 'least_conn;', etcd => 'etcd_balance least_conn;',
#                  upstream => 'keepalive 2;', location => '...');
#     my $nginx = $native->start();
#     $native->same($nginx, 'NAME', sub { my ($ask) = @_; $ask->() }, 'TEST');
#
# The code of a test runs for each of the two and returns what it saw; both must
# have seen the same.  $ask->(NAME => VALUE) makes a request with these headers
# and says who was tried, with which result: 'a=500 b=200'.  For stream there
# are add_stream, start_stream and same_stream; with "udp => 1" its servers are
# of Datagram, and $ask->(TEXT) sends a text.

use strict;
use warnings;

use JSON::PP;
use Test::More ();

use Datagram;
use Line;
use Nginx;
use Wait;


sub new {
    my ($class, $etcd, @backends) = @_;

    return bless {
        etcd      => $etcd,
        backends  => { map { $_->name => $_ } @backends },
        names     => { map { $_->address => $_->name } @backends },
        upstreams => '',
        locations => '',
    }, $class;
}


# parameters of a "server", as fields of a value in etcd

sub value {
    my ($self, $name, @parameters) = @_;

    return encode_json({
        address => $self->{backends}{$name}->address,
        map { /^(\w+)=(\d+)$/ ? ($1 => $2 + 0)
              : /^(\w+)=(.+)$/ ? ($1 => $2) : ($_ => JSON::PP::true) }
            @parameters
    });
}


sub add {
    my ($self, $name, %options) = @_;

    $self->add_upstreams($name, %options);

    for my $kind (qw(native etcd)) {
        $self->{locations} .= "location = /${name}_$kind {\n"
            . "proxy_pass http://${name}_$kind;\n"
            . ($options{location} // '') . "\n}\n";
    }
}


# an upstream of stream; "location" goes into its server{}

sub add_stream {
    my ($self, $name, %options) = @_;

    $self->add_upstreams($name, %options);

    my $udp = $options{udp} ? ' udp' : '';

    $self->{udp}{$name} = $options{udp};

    for my $kind (qw(native etcd)) {
        $self->{locations} .= "server {\n"
            . "listen 127.0.0.1:%%PORT_${name}_$kind%%$udp;\n"
            . "proxy_pass ${name}_$kind;\n"
            . "access_log %%DIR%%/tried.log tried;\n"
            . ($options{location} // '') . "\n}\n";
    }
}


sub add_upstreams {
    my ($self, $name, %options) = @_;

    my @servers = map { [split(' ')] } @{ $options{servers} };
    my $number = 0;
    my $rest = $options{upstream} // '';
    my $lines = '';

    for my $server (@servers) {
        my ($who, @parameters) = @$server;

        $lines .= 'server ' . $self->{backends}{$who}->address
            . " @parameters;\n";

        # Keys are in the order of the lines.

        $self->{etcd}->put(sprintf('/%s/%02d', $name, ++$number),
                           $self->value(@$server));
    }

    my %block = (
        native => $lines . ($options{native} // ''),
        etcd   => "etcd_members /$name/;\n" . ($options{etcd} // ''),
    );

    for my $kind (qw(native etcd)) {
        $self->{upstreams} .= "upstream ${name}_$kind {\n"
            . "$block{$kind}\n$rest\n}\n";
    }
}


# Starts an nginx with all upstreams, and waits until it knows the members.

sub start {
    my ($self) = @_;

    return $self->know('upstreams', <<"END");

    $self->{upstreams}

    server {
        listen 127.0.0.1:%%PORT%%;

        add_header X-Tried \$upstream_addr always;
        add_header X-Status \$upstream_status always;

        location /status {
            etcd_status;
        }

        $self->{locations}
    }
}
END
}


sub start_stream {
    my ($self) = @_;

    return $self->know('stream_upstreams', <<"END");

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }
    }
}

stream {
    log_format tried '\$server_port \$status \$upstream_addr';

    $self->{upstreams}
    $self->{locations}
}
END
}


sub know {
    my ($self, $upstreams, $config) = @_;

    my $nginx = Nginx->new(etcd => $self->{etcd})->start(<<"END");

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
$config
END

    Test::More::ok(wait_for(sub {
        my $known = $nginx->status->{$upstreams};

        return !grep { !@{ $_->{members} } } values %$known;
    }, 20), 'nginx knows all members');

    return $nginx;
}


# Returns the tries, as the headers X-Tried and X-Status tell of them.

sub tried {
    my ($self, $answer) = @_;

    my @status = split(/, /, $answer->{headers}{'x-status'} // '');
    my @tried = map { ($self->{names}{$_} // 'none') . '=' . shift @status }
        split(/, /, $answer->{headers}{'x-tried'} // '');

    return @tried ? join(' ', @tried) : "status $answer->{status}";
}


sub reset {
    my ($self) = @_;

    for my $backend (grep { $_->can('reset') } values %{ $self->{backends} }) {
        $backend->up;
        $backend->set(status => 200, delay => 0, hang => 0, once => 0,
                      headers => {});
        $backend->reset;
    }
}


sub same {
    my ($self, $nginx, $name, $code, $test) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $self->compare($name, $test, sub {
        my $path = "/${name}_$_[0]";

        return $code->(sub { $self->tried($nginx->get($path, @_)) }, $path);
    });
}


# In stream a session asks once and ends: 'a b=200'.

sub same_stream {
    my ($self, $nginx, $name, $code, $test) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $self->compare($name, $test, sub {
        my $port = $nginx->port("PORT_${name}_$_[0]");

        my $client = $self->{udp}{$name} ? 'Datagram::Client' : 'Line::Client';

        return $code->(sub { $self->session($nginx, $client, $port, @_) },
                       $port);
    });
}


sub session {
    my ($self, $nginx, $class, $port, $text) = @_;

    my $lines = sub { grep { /^$port / } $nginx->lines_of('tried.log') };
    my $before = $lines->();
    my $client = $class->new($port);

    $client->tell($text // 'who');
    $client->hear if !defined $text;
    $client->close if $client->can('close');

    my @lines;

    wait_for { (@lines = $lines->()) > $before && $lines[-1] =~ /\n/ } 10,
        'a line in the log' or return 'no line';

    my ($status, $tried) = $lines[-1] =~ /^\d+ (\d+) (.*)\n/;

    return join(' ', map { $self->{names}{$_} // 'none' } split(/, /, $tried))
           . "=$status";
}


sub compare {
    my ($self, $name, $test, $code) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my %seen;

    for my $kind (qw(native etcd)) {
        $self->reset;
        $seen{$kind} = [$code->($kind)];
    }

    return Test::More::is_deeply($seen{etcd}, $seen{native}, "$name: $test")
           && $seen{native};
}


1;
