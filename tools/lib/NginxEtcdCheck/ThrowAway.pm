package NginxEtcdCheck::ThrowAway;

# A throw-away nginx with the clusters, upstreams and values of a configuration.
# It listens on UNIX sockets in a temporary directory only, and writes nothing
# to etcd.
#
#     my $nginx = NginxEtcdCheck::ThrowAway->new($dir, \%option);
#
#     $nginx->read_conf(@arguments);    # of "nginx -T"
#     $nginx->start;
#     $nginx->status(upstream => ...);  # its status, or undef
#     $nginx->log;                      # lines
#
# Fields for the caller: clusters, upstreams, values, rights and pairs are what
# the configuration wants of etcd; sockets and locations are those of servers;
# dummies are variables whose value is not known here.

use strict;
use warnings;

use Exporter qw(import);
use IO::Socket::UNIX;
use POSIX qw(uname);

use NginxEtcdCheck::Conf;

our @EXPORT = qw($ID slurp shell encoded give_up);

our $ID = 'nginx_etcd_check';      # names of the throw-away nginx begin so

my $FILES = qr/^(?:ssl_(?:trusted_certificate|certificate|certificate_key
    |password_file|crl)|password_file)$/x;
my $COMMON = qr/^(?:map|geo|split_clients|etcd_set|resolver|resolver_timeout
    |(?:map|variables|server_names)_hash_\w+)$/x;
my $PASS = qr/^(?:proxy|grpc|fastcgi|uwsgi|scgi)_pass$/;


sub new {
    my ($class, $dir, $option) = @_;

    return bless {
        dir => $dir, option => $option, clusters => [], upstreams => [],
        values => [], rights => [], pairs => [], locations => [],
        sockets => {}, dummies => {},
    }, $class;
}


sub give_up {
    print STDERR @_;
    exit(2);
}


sub encoded { $_[0] =~ s/([^\w.~-])/sprintf('%%%02X', ord($1))/ger }


sub shell {
    my ($word) = @_;

    return $word if $word =~ m{^[\w/.:@%+=-]+$};
    return "'" . $word =~ s/'/'\\''/gr . "'";
}


sub slurp {
    my ($path) = @_;

    local $/;

    open(my $file, '<', $path) or return '';
    return <$file> // '';
}


# (exit status, output, errors)

sub run {
    my ($self, @words) = @_;

    my $errors = "$self->{dir}/stderr";
    my $command = join(' ', map({ shell($_) } @words), '2>' . shell($errors));
    my $output = qx($command);

    return ($?, $output, slurp($errors));
}


# uses of etcd by the configuration

sub wants_right {
    my ($self, $what, $directive, $key, $cluster) = @_;

    my $host = lc((uname())[1]);
    my $rights = $self->{rights};
    my $exact = $what =~ /^(?:registration|write_check)$/;

    $key =~ s/\$(?:hostname\b|\{hostname\})/$host/g;
    $key .= '/' if !$exact && $key !~ m{/$};

    push @$rights, {
        what => "$what ($directive->{at})", key => $key, exact => $exact,
        written => $exact ? $key : "$key$ID", cluster => $cluster,
        id => "${ID}_right_" . @$rights,
    };
}


sub wants_cluster {
    my ($self, $etcd, $name, $conf) = @_;

    my $block = $etcd->{block};
    my @sets = grep { cluster_of($_) eq $name } within('etcd_set', $conf);
    my @mine = grep { $_->{cluster} eq $name }
        @{ $self->{upstreams} }, @{ $self->{rights} };
    my ($pem) = grep { "@{ $_->{args} }" =~ /\btype=pem\b/ } @sets;
    my ($key) = ((map { $_->{prefix} // $_->{key} } @mine),
                 (map { $_->{args}[1] } @sets), '/');
    my @urls = map { @{ $_->{args} } } named('endpoints', $block);
    my %only = map { $_->{name} => $_->{args}[0] } @$block;
    my $id = "${ID}_" . @{ $self->{clusters} };

    push @{ $self->{values} },
        map { { name => $_->{args}[0], cluster => $name } } @sets;

    push @{ $self->{clusters} }, {
        name => $name, block => $block, key => literal($key),
        user => $only{user}, namespace => $only{namespace} // '',
        pem => $pem && literal($pem->{args}[1]),
        leads => scalar(grep { $_->{uses} ? $_->{uses}{name} eq 'etcd_leader'
                                          : !$_->{exact} } @mine),
        probes => [map { { url => $urls[$_], id => "${id}_$_" } } 0 .. $#urls],
    };
}


# a certificate of a server and its key, each below one name

sub wants_pair {
    my ($self, $server, $http) = @_;

    my $pairs = $self->{pairs};
    my @pair;

    for my $name (qw(ssl_certificate ssl_certificate_key)) {
        my ($variable) = map { $_->{args}[0] =~ /^data:(\$\w+)$/ }
            named($name, $server->{block}) or return;

        push @pair, (grep { $_->{args}[0] eq $variable
                            && "@{ $_->{args} }" =~ /\btype=pem\b/
                            && variables($_->{args}[1]) == 1 }
                     named('etcd_set', $server->{block}),
                     named('etcd_set', $http))[0] // return;
    }

    push @$pairs, \@pair if !grep { "@$_" eq "@pair" } @$pairs;
}


# Checks that are shared have an election below KEY, or KEY/ZONE.

sub wants_observer {
    my ($self, $check, $cluster) = @_;

    my %option = map { /^(share|zone)=(.*)/s ? ($1, $2) : () }
        @{ $check->{args} };

    my $key = $option{share} // return;

    $key =~ s{/$}{};
    $key .= "/$option{zone}" if defined $option{zone};

    $self->wants_right('election', $check, $key, $cluster);
}


sub wants {
    my ($self, $conf) = @_;

    for my $module (qw(http stream)) {
        for my $upstream (named('upstream', block_of($module, $conf))) {
            my ($uses) = grep { $_->{name} =~ /^etcd_(?:members|leader)$/ }
                @{ $upstream->{block} } or next;

            push @{ $self->{upstreams} }, {
                %$upstream, module => $module, uses => $uses,
                name => $upstream->{args}[0], prefix => $uses->{args}[0],
                cluster => cluster_of($uses),
            };

            $self->wants_observer($_, cluster_of($uses))
                for named('etcd_check', $upstream->{block});
        }
    }

    $self->wants_right('lock', $_, $_->{args}[0], cluster_of($_))
        for grep { $_->{args}[0] ne 'off' } within('etcd_lock', $conf);

    for my $etcd (named('etcd', $conf)) {
        my $name = $etcd->{args}[0] // 'default';

        $self->wants_right('election', $_, $_->{args}[1], $name)
            for named('election', $etcd->{block});
        $self->wants_right('registration', $_, $_->{args}[0], $name)
            for named('register', $etcd->{block});
        $self->wants_right('write_check', $_, $_->{args}[0], $name)
            for named('write_check', $etcd->{block});
        $self->wants_cluster($etcd, $name, $conf);
    }

    my $http = block_of('http', $conf);

    $self->wants_pair($_, $http) for named('server', $http);
}


# A line of the throw-away configuration: as written, but for paths relative to
# the directory of the other one, and for the name that a client asks for by
# TLS, which is the host of a request here.

sub line {
    my ($directive, @raw) = @_;

    @raw = @{ $directive->{raw} } if !@raw;

    for my $word (@raw[1 .. $#raw]) {
        my ($key, $path) = $raw[0] =~ $FILES ? ('', unquoted($word))
            : unquoted($word) =~ /^(default_file=)(.*)/s;

        $word = quoted($key . conf_dir() . "/$path")
            if defined $path && $path !~ m{^(?:/|data:|engine:)};
        $word =~ s/\$(?:ssl_server_name\b|\{ssl_server_name\})/\${host}/g;
    }

    my $block = $directive->{block} or return "@raw;\n";

    return "@raw {\n" . join('', map { line($_) } @$block) . "}\n";
}


# Elections, registrations and the state file are left out.  Of the keys that
# these and locks write, nginx finds out whether it may write them.

sub etcd_block {
    my ($self, $name, $block, $url) = @_;

    my @lines = map { line($_) } grep {
        $_->{name} !~ /^(?:election|register|state_path|write_check)$/
        && !(defined $url && $_->{name} =~ /^(?:zone|auto_sync|endpoints)$/)
    } @$block;

    push @lines, defined $url ? "zone 512k;\nendpoints $url;\n"
        : map { 'write_check ' . quoted($_->{written}) . ";\n" }
              grep { $_->{cluster} eq $name } @{ $self->{rights} };

    return 'etcd ' . quoted($name) . " {\n" . join('', @lines) . "}\n";
}


# without checks, APIs and balancing, which only requests need

sub upstream_block {
    my ($upstream) = @_;

    return 'upstream ' . quoted($upstream->{name}) . " {\n"
        . join('', map { line($_, grep {
              !/^["']?(?:confirm|failsafe|close_after|api_\w+)=/
          } @{ $_->{raw} }) } $upstream->{uses},
               named('etcd_allow', $upstream->{block})) . "}\n";
}


sub small_upstream {
    my ($id, $key, $cluster, $leads, $more) = @_;

    return "upstream $id {\n" . ($leads ? 'etcd_leader ' : 'etcd_members ')
        . quoted($key) . ' ' . quoted("cluster=$cluster")
        . ($leads ? ' format=key' : '') . ($more // '') . ";\n}\n";
}


# An endpoint has a cluster of its own, since nginx uses one of many at a time.
# It has a leader and a certificate if the other has: of which versions nginx
# warns depends on them.

sub probe {
    my ($cluster, $id) = @_;

    my $pem = $cluster->{pem};

    return small_upstream($id, "$cluster->{key}$ID", $id, $cluster->{leads})
        . (defined $pem ? "etcd_set \$$id \"$pem$ID/\${host}\" type=pem"
                          . " cluster=$id;\n" : '');
}


# A location only tells which one it is, and the values of variables.

sub answer {
    my ($self, $text, $pass) = @_;

    my $locations = $self->{locations};
    my %names = map { $_ => 1 } map { variables($_->{prefix}) }
        grep { $_->{module} eq 'http' } @{ $self->{upstreams} };

    push @$locations, $text;

    return "return 200 \"loc $#$locations\\n" . (defined $pass ? 'pass '
        . $pass =~ s/(["\\])/\\$1/gr . '\n' : '')
        . join('', map { "var $_ \${$_}\\n" } sort keys %names) . "\";\n";
}


# of a server or a location: its lines here, its text, the target of its pass

sub place {
    my ($block, $text) = @_;

    my ($pass) = map { $_->{args}[0] } grep { $_->{name} =~ $PASS } @$block;
    my ($return) = named('return', $block);
    my %odd = map { $_->{name} => 1 }
        grep { $_->{name} =~ /^(?:rewrite|if|try_files)$/ } @$block;

    $text .= " (\"$_\" is not followed here)" for sort keys %odd;
    $text .= ", return @{ $return->{args} }" if $return;

    return (join('', map { line($_) } grep { $_->{name} =~ /^(?:etcd_)?set$/ }
                 @$block), $text, $return ? undef : $pass);
}


sub location_block {
    my ($self, $location, $server) = @_;

    my ($name, @words) = @{ $location->{raw} };
    my ($lines, $text, $pass) = place($location->{block},
        "$server, location @words ($location->{at})");

    return '' if $words[0] =~ /^["']?\@/;

    return "location @words {\n$lines" . $self->answer($text, $pass)
        . join('', map { $self->location_block($_, $server) }
                   named('location', $location->{block})) . "}\n";
}


sub server_block {
    my ($self, $server) = @_;

    my $block = $server->{block};
    my ($name) = map { $_->{args}[0] } named('server_name', $block);
    my $text = 'server ' . quoted($name // '') . " ($server->{at})";
    my ($lines, $told) = place($block, $text);
    my @locations = named('location', $block);
    my @listen = map { $_->{args} } named('listen', $block);
    my $sockets = $self->{sockets};
    my %seen;

    for (@listen ? @listen : ['80']) {
        my ($address, @words) = @$_;

        $address = "*:$address" if $address =~ /^\d+$/;
        $address .= ':80' if $address !~ /:\d+$|^unix:/;
        next if $seen{$address}++;

        $sockets->{$address} //= 'server' . keys %$sockets;
        @words = grep { /^default(?:_server)?$/ } @words;
        $lines .= "listen unix:$self->{dir}/$sockets->{$address} @words;\n";
    }

    $lines .= line($_) for named('server_name', $block);
    $lines .= $self->answer($told) if named('return', $block);
    $lines .= $self->location_block($_, $text) for @locations;

    $lines .= "location / {\n" . $self->answer("$told, no location") . "}\n"
        if !grep { "@{ $_->{args} }" =~ m{^(?:\^~ )?/$} } @locations;

    return "server {\n$lines}\n";
}


# A certificate and its key are compared in a handshake: nginx makes one with
# itself for each name that an upstream finds below the prefix.

sub pair_blocks {
    my ($self, $n) = @_;

    my $pair = $self->{pairs}[$n];
    my $crt = $pair->[0]{args}[1] =~ s/\$(?:\w+|\{\w+\})/\${host}/r;
    my @files = ('ssl_certificate', 'ssl_certificate_key');
    my $server = "listen unix:$self->{dir}/tls$n ssl;\n"
        . "location / {\nreturn 204;\n}\n";

    for my $i (0, 1) {
        my (undef, $key, @words) = @{ $pair->[$i]{args} };

        $key =~ s/\$(?:\w+|\{\w+\})/\${ssl_server_name}/;
        @words = map { quoted($_) } grep { !/^default_file=/ } @words;
        $server .= "etcd_set \$${ID}_pem${n}_$i " . quoted($key) . " @words;\n"
            . "$files[$i] data:\$${ID}_pem${n}_$i;\n";
    }

    return small_upstream("${ID}_names_$n", $crt, cluster_of($pair->[0]), 0,
                          ' limit=10240') . "server {\n$server}\n";
}


sub http_and_stream {
    my ($self) = @_;

    my $conf = $self->{conf};
    my %in = map {
        $_ => join('', map { line($_) } grep { $_->{name} =~ $COMMON }
                   @{ block_of($_, $conf) // [] })
    } qw(http stream);

    $self->{locations} = [];

    for my $cluster (@{ $self->{clusters} }) {
        $in{http} .= probe($cluster, $_->{id}) for @{ $cluster->{probes} };
    }

    $in{ $_->{module} } .= upstream_block($_) for @{ $self->{upstreams} };

    $in{http} .= $_->{exact} ? "etcd_set \$$_->{id} " . quoted($_->{key}) . ' '
        . quoted("cluster=$_->{cluster}") . ";\n"
        : small_upstream(@$_{qw(id key cluster)}) for @{ $self->{rights} };

    $in{http} .= $self->pair_blocks($_) for 0 .. $#{ $self->{pairs} };
    $in{http} .= $self->server_block($_)
        for named('server', block_of('http', $conf));

    for my $name (sort keys %{ $self->{dummies} }) {
        my $map = "map \$pid \$$name {\ndefault '';\n}\n";

        $in{http} = $map . $in{http};
        $in{stream} = $map . $in{stream} if $self->{dummies}{$name} > 1;
    }

    return @in{qw(http stream)};
}


sub text {
    my ($self) = @_;

    my ($conf, $dir) = @$self{qw(conf dir)};
    my ($http, $stream) = $self->http_and_stream;
    my $main = '';

    for my $cluster (@{ $self->{clusters} }) {
        $main .= $self->etcd_block(@$cluster{qw(name block)});
        $main .= $self->etcd_block($_->{id}, $cluster->{block}, $_->{url})
            for @{ $cluster->{probes} };
    }

    return join('', map({ line($_) } named('load_module', $conf),
                        $> == 0 ? named('user', $conf) : ()),
        "daemon off;\nworker_processes 1;\npid $dir/nginx.pid;\n",
        "lock_file $dir/lock;\nerror_log $dir/error.log info;\n",
        "events {\n}\n$main\nhttp {\naccess_log off;\n",
        map({ "${_}_temp_path $dir/$_;\n" }
            grep { $self->{built_with} !~ /--without-http_$_\b/ }
                qw(client_body proxy fastcgi uwsgi scgi)),
        "${http}server {\nlisten unix:$dir/status;\n",
        "location = /status {\netcd_status json;\n}\n",
        map({ "location = /tls$_ {\nproxy_pass https://unix:$dir/tls$_:/;\n"
              . "proxy_ssl_server_name on;\nproxy_ssl_name \$arg_name;\n"
              . "proxy_ssl_session_reuse off;\n}\n" }
            0 .. $#{ $self->{pairs} }),
        "}\n}\n", $stream ne '' ? "stream {\n$stream}\n" : '');
}


sub read_conf {
    my ($self, @arguments) = @_;

    my $option = $self->{option};
    my $nginx = $option->{nginx};
    my ($status, $text, $errors) = $self->run($nginx, '-T', @arguments,
        map { defined $option->{$_} ? ("-$_", $option->{$_}) : () } qw(p g));

    give_up($errors || "$nginx does not run\n") if $status;

    $self->{built_with} = ($self->run($nginx, '-V'))[2];
    $self->{conf} = parse($text, $option->{g} // '');
    $self->wants($self->{conf});
}


# A variable that only requests have, by a directive that is not here, is empty.

sub start {
    my ($self) = @_;

    my ($dir, $option) = @$self{qw(dir option)};
    my @nginx = ($option->{nginx},
                 defined $option->{p} ? ('-p', $option->{p}) : (),
                 '-e', "$dir/error.log", '-c', "$dir/nginx.conf");
    my ($user) = (map({ $_->{args}[0] } named('user', $self->{conf})),
                  $self->{built_with} =~ /--user=(\S+)/, 'nobody');

    chown((getpwnam($user))[2] // 0, -1, $dir) if $> == 0;

    while (1) {
        open(my $file, '>', "$dir/nginx.conf") or die "$dir/nginx.conf: $!\n";
        print $file $self->text;
        close($file);

        my ($status, undef, $errors) = $self->run(@nginx, '-t');
        last if $status == 0;

        my ($name) = $errors =~ /\[emerg\].*unknown "(\w+)" variable/;

        give_up("the throw-away nginx does not start:\n$errors")
            if !defined $name || ++$self->{dummies}{$name} > 2;
    }

    truncate("$dir/error.log", 0);
    $self->{child} = fork() // die "fork: $!\n";
    return if $self->{child};

    open(STDERR, '>', "$dir/stderr");
    exec(@nginx) or POSIX::_exit(127);
}


sub stop {
    my ($self) = @_;

    my $child = delete $self->{child} or return;

    kill('TERM', $child) && waitpid($child, 0);
}


sub log { slurp("$_[0]{dir}/error.log") }


# a request to a socket of it: (status, body)

sub request {
    my ($self, $name, $uri, $host) = @_;

    my $socket = IO::Socket::UNIX->new("$self->{dir}/$name") or return (0, '');

    local $/;

    print $socket "GET $uri HTTP/1.0\r\nHost: $host\r\n\r\n";

    my ($head, $body) = split(/\r\n\r\n/, <$socket> // '', 2);

    return (($head // '') =~ /^HTTP\S+ (\d+)/ ? $1 : 0, $body // '');
}


sub json {
    my ($text) = @_;

    for ($$text) {
        /\G[\s,:]*/gc;

        if (/\G([\[{])/gc) {
            my ($open, @values) = ($1);

            push @values, json($text) while !/\G[\s,]*(?:[\]}]|\z)/gc;
            return $open eq '[' ? \@values : { @values };
        }

        return $1 =~ s/\\(?:u(....)|(.))/defined $1 ? chr(hex($1)) : $2/ger
            if /\G"((?:[^"\\]|\\.)*)"/gc;

        my ($word) = /\G([\w.+-]+)/gc ? $1 : return;

        return $word eq 'null' ? undef : $word eq 'false' ? 0 : $word;
    }
}


sub status {
    my ($self, %arguments) = @_;

    my (undef, $body) = $self->request('status', '/status?' . join('&', map {
        "$_=" . encoded($arguments{$_}) } keys %arguments), 'check');

    return $body ne '' ? json(\$body) : undef;
}


1;
