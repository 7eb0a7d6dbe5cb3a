package Conf;

# Configurations as blocks of given lines, and what nginx -t says of them.
#
#     passes('two of them', etcd($endpoint, 'zone 1m;'));
#     refused('zone soon', etcd($endpoint, 'zone soon;'),
#             '"zone" directive invalid value in AT', 3);

use strict;
use warnings;

use Test::More ();

use Nginx;

use Exporter 'import';

our @EXPORT = qw($endpoint $http $members etcd upstream stream location passes
                 refused);

our $endpoint = 'endpoints http://127.0.0.1:2379;';
our $members = 'etcd_members /services/api/;';
our $http = <<'EOF';
http {
    upstream api {
        etcd_members /services/api/;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            proxy_pass http://api;
        }
    }
}
EOF


# an etcd block, its lines given, with a http block that uses it

sub etcd {
    my (@lines) = @_;

    return join("\n", 'etcd {', (map { "    $_" } @lines), '}', $http);
}


# an upstream block, its lines given: the first one is line 6

sub upstream {
    my (@lines) = @_;

    return join("\n", 'etcd {', '    endpoints http://127.0.0.1:2379;', '}',
                'http {', '    upstream api {',
                (map { "        $_" } @lines), '    }', '}');
}


# a stream upstream with these lines

sub stream { return upstream(@_) =~ s/^http /stream /mr }


# a location, its lines given: the first one is line 7

sub location {
    my (@lines) = @_;

    return join("\n", 'etcd {', '    endpoints 127.0.0.1:2379;', '}',
                'http {', '    server {', '        location /etcd {',
                (map { "            $_" } @lines),
                '        }', '    }', '}');
}


sub passes {
    my ($name, $text) = @_;

    my $nginx = Nginx->new();

    write_passwords($nginx);

    my ($ok, $output) = $nginx->configtest($text);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    Test::More::ok($ok, $name) or Test::More::diag($output);
    Test::More::unlike($output, qr/\[(?:warn|emerg|alert)\]/,
                       "$name: without a word");
}


# files for "password_file"

sub write_passwords {
    my ($nginx) = @_;

    my %text = (
        good   => "secret\n",
        bare   => 'secret',
        crlf   => "secret\r\n",
        lines  => "secret\nsecond\n",
        most   => 'x' x 1024 . "\n",
        none   => '',
        empty  => "\nsecret\n",
        long   => 'x' x 1025 . "\n",
        longer => 'x' x 5000,
        zero   => "sec\0ret\n",
    );

    $nginx->write_secret("$_.password", $text{$_}) for keys %text;

    chmod(0640, $nginx->write_secret('root.password', "secret\n"));

    for my $mode (qw(0604 0640 0644)) {
        my $path = $nginx->write_secret("$mode.password", "secret\n");

        chmod(oct($mode), $path) or die "chmod $path: $!\n";

        # not root's, where we are root

        chown(1, -1, $path) if $mode eq '0640';
    }
}


# exactly one message, with these words, that ends with file and line

sub refused {
    my ($name, $text, $message, $line) = @_;

    my $nginx = Nginx->new();

    write_passwords($nginx);

    my ($ok, $output) = $nginx->configtest($text);
    my $dir = $nginx->dir;
    my @messages = grep { /\[emerg\]/ } split(/\n/, $output);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    Test::More::ok(!$ok, "$name: refused");
    Test::More::is(join("\n", map { s/.*\[emerg\] (?:\d+#\d+: )?//r
                                     =~ s{\Q$dir/}{}gr } @messages),
                   $message =~ s/AT/nginx.conf:$line/r,
                   "$name: says why and where");
}


1;
