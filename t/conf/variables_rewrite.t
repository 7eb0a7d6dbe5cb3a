#!/usr/bin/perl

# Texts of the rewrite module with variables that change by themselves: the
# module evaluates a text for its length, and again into that much memory.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Etcd;
use Finish;
use Nginx;
use Port;
use Wait;

use constant {
    COPIES   => 180,            # of a variable: nginx takes 4096 bytes a text
    REQUESTS => 1000,           # one in thirty sees a new ms in between
};

my $etcd = Etcd->new()->start();

$etcd->put('/api/1', '127.0.0.1:' . free_port());

my $nginx = Nginx->new(etcd => $etcd)->set(
    STALENESS => join(' ', ('$etcd_staleness') x COPIES),
)->start(<<'EOC');

etcd {
    endpoints %%ETCD%%;
}

http {
    upstream api {
        etcd_members /api/ max_fails=0;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        error_page 502 = @text;

        location / {
            proxy_pass http://api;
        }

        location @text {
            set $first "%%STALENESS%%";
            set $then $etcd_staleness;
            return 200 "$first $then";
        }
    }
}

EOC

my $one = qr/^(\d+\.\d{3})(?: \1)+$/;

ok(wait_for(sub { $nginx->get('/')->{body} =~ /^\d/ }, 10, 'a member'),
   'a variable has a value after a redirect');

my %values;
my @mixed;

for (1 .. REQUESTS) {
    my $text = $nginx->get('/')->{body};

    $text =~ $one ? $values{$1}++ : push(@mixed, $text);
}

is(scalar(@mixed), 0, 'a text has one value of a variable')
    or diag(substr($mixed[0], 0, 200));
cmp_ok(scalar(keys %values), '>', 10, 'and another one in other requests');

finish();
