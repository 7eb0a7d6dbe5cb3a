#!/usr/bin/perl

# Ten thousand requests for one key, half of whose clients leave while they
# wait: nothing is left of them, and nobody waits for ever.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(sum);
use Test::More;

use Crowd;
use Etcd;
use Finish;
use Nginx;
use Process;
use Wait;

use constant {
    REQUESTS  => 10_000,
    AT_ONCE   => 200,
    NGINXES   => 2,
    TIMES     => 3,
    GROWN     => 1024,
    SANITIZED => 32,
};

my $etcd = Etcd->new()->start();
my $config = <<'EOF_CONFIG';

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
}

http {
    server {
        listen 127.0.0.1:%%PORT%% backlog=1024;

        location /one {
            etcd_lock /locks/one wait=120s;
            empty_gif;
        }

        location /handed {
            etcd_lock /locks/handed wait=120s reuse=17;
            empty_gif;
        }

        location /status {
            etcd_status;
        }
    }
}

EOF_CONFIG

# A sanitizer would keep freed memory.

my @nginxes = map {
    Nginx->new(etcd => $etcd, sanitizer => 'quarantine_size_mb=0')
        ->start($config)
} 1 .. NGINXES;

sub left { map { $_->{key} } $etcd->list('/locks/') }
sub workers { map { $_->workers } @nginxes }
sub memory { sum(map { own_memory($_) } workers()) }


# open files of all workers

sub files {
    return sum(map { my @files = glob("/proc/$_/fd/*"); scalar(@files) }
               workers());
}


sub gauges {
    my ($path) = @_;

    return sum(map { my $lock = $_->status->{locks}{"/locks$path"} // {};
                     ($lock->{held} // 0) + ($lock->{waiting} // 0) }
               @nginxes);
}


sub come {
    my ($path, $n, $at_once) = @_;

    # A foreign key has the lock until many clients have left: no turn is too
    # soon.

    my $other = "/locks$path/0";
    my $many = $n / 100;

    $etcd->put($other, '');

    my $seen = Crowd::come([map { $_->port } @nginxes], $path, n => $n,
                           at_once => $at_once, leave => 0.5,
                           within => $path eq '/one' ? 0.1 : 0.01,
                           watch => sub {
        if ($other && ($_[0]{left} // 0) > $many) {
            $etcd->del($other);
            $other = undef;
        }
    });

    note("$path: ", join(', ', map { "$_: $seen->{$_}" } sort keys %$seen));
    is(join(' ', sort keys %$seen), '200 left',
       "$path: all have an answer, or leave");
    cmp_ok($seen->{left} // 0, '>', $many, "$path: many left");
    ok(wait_for(sub { gauges($path) == 0 }, 20),
       "$path: nobody waits, or is inside");
    ok(wait_for(sub { !left() }, 20), "$path: no key is left")
        or diag(join("\n", left()));
}


for my $path ('/one', '/handed') {

    # Memory is needed for the most requests at a time: there are more of them
    # at first than later.

    come($path, REQUESTS / 5, AT_ONCE * 2);
    come($path, REQUESTS / 5, AT_ONCE);

    my $files = files();
    my $most = GROWN * (Nginx::built_with() =~ /-fsanitize/ ? SANITIZED : 1);
    my $grown;

    # After a stall there may be more requests at a time than before, once; a
    # leak grows each time.

    for (1 .. TIMES) {
        my $memory = memory();

        come($path, REQUESTS, AT_ONCE);
        $grown = memory() - $memory;
        note("$grown KB");

        last if $grown <= $most;
    }

    cmp_ok($grown, '<=', $most, "$path: memory is at its level");
    ok(wait_for(sub { files() <= $files }, 20), "$path: so are open files");

    my @answers = map { $_->get($path)->{status} } (@nginxes) x 2;

    is("@answers", join(' ', (200) x @answers), "$path: and it goes on");
}

finish();
