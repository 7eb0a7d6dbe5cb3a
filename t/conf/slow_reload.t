#!/usr/bin/perl

# A configuration that takes longer to read than "connect_timeout": the workers
# count their timers from their own start, and give up no connection to etcd.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use POSIX qw(mkfifo _exit);
use Test::More;

use Etcd;
use Finish;
use Nginx;
use Wait;

use constant {
    TIMEOUT => 2,       # s
    READING => 3,       # s, more than TIMEOUT: the fault itself
};

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd)->set(TIMEOUT => TIMEOUT);
my $config = <<'EOC';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    connect_timeout %%TIMEOUT%%s;
}

http {
    upstream s {
        etcd_members /s/;
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        %%SLOW%%

        location /status {
            etcd_status;
        }
    }
}

EOC

$nginx->set(SLOW => '')->start($config);
wait_for { ($nginx->status // {})->{clusters}{default}{state} eq 'synced' } 20,
    'etcd to be read';

# nginx waits until somebody writes passwords

my $fifo = $nginx->dir . '/passwords';

mkfifo($fifo, 0600) or die "mkfifo: $!\n";

my $writer = fork() // die "fork: $!\n";

if ($writer == 0) {
    select(undef, undef, undef, READING);

    open(my $file, '>', $fifo) or _exit(1);
    print $file "password\n";
    close($file);
    _exit(0);
}

$nginx->set(SLOW => "ssl_password_file $fifo;")->reload($config);
waitpid($writer, 0);
is($?, 0, 'the configuration was slow to read');

$etcd->put('/s/1', '127.0.0.1:1');
$nginx->upstream('s')->shows({ '/s/1' => '127.0.0.1:1 1 up' },
                             'members after it');
is($nginx->count_log(qr/timed out/), 0, 'no connection is given up');

finish();
