#!/usr/bin/perl

# The modules load into the nginx that they were built for, also if it has no
# stream.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;
use Test::More;

use Finish;
use Nginx;


my $http = <<'EOF';

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            return 200 "here\n";
        }
    }
}

EOF

my $stream = <<'EOF';

stream {
    server {
        listen 127.0.0.1:%%PORT_1%%;
        return "there";
    }
}

EOF


sub configtest_ok {
    my ($modules, $text, $name) = @_;

    my ($ok, $output) = Nginx->new(modules => $modules)->configtest($text);

    ok($ok, $name) or diag($output);
}


configtest_ok(['etcd'], '', 'the client alone');
configtest_ok(['etcd', 'http'], $http, 'http without stream');

SKIP: {
    skip 'this nginx has no stream', 6
        if !Nginx::has('stream');

    my ($loads, $messages) =
        Nginx->new(modules => ['stream', 'etcd'])->configtest($stream);

    ok(!$loads, 'stream before the client is refused');
    like($messages, qr/ngx_stream_etcd_module\.so.*undefined symbol: ngx_etcd_/,
         'and the message says which is missing');

    configtest_ok(['etcd', 'stream'], $stream, 'stream without http');
    configtest_ok(['etcd', 'http', 'stream'], "$http$stream", 'all three');

    my $nginx = Nginx->new()->start("$http$stream");

    is($nginx->get('/')->{body}, "here\n", 'http answers');

    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $nginx->port('PORT_1'),
    );

    is($socket && <$socket>, 'there', 'stream answers');
}

# Without nginx's stream module, the project's stream module names the missing
# symbol.

SKIP: {
    skip 'stream is no module of its own', 2
        if Nginx::built_with() !~ /--with-stream=dynamic/;

    my $nginx = Nginx->new();
    my $module = Nginx::modules_dir() . '/ngx_stream_etcd_module.so';

    $nginx->write_config($http);
    $nginx->{load} .= " load_module $module;";

    my ($status, $output) =
        $nginx->run_nginx($nginx->command('load.log', '-t'));

    isnt($status, 0, 'stream without nginx\'s module of it is refused');
    like($output, qr/ngx_stream_etcd_module\.so.*undefined symbol: ngx_stream_/,
         'and the message says which is missing');
}

# The client's symbols come from the first module.

my ($ok, $output) = Nginx->new(modules => ['http'])->configtest($http);

ok(!$ok, 'http without the client is refused');
like($output, qr/undefined symbol: ngx_etcd_/, 'and says why');

finish();
