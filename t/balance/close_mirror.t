#!/usr/bin/perl

# A member that leaves while a mirror uses it: the mirror ends alone, when a
# thread that writes its answer to a file has written.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Etcd;
use Finish;
use Nginx;
use Unit;
use Wait;

plan(skip_all => 'this nginx has no threads') if !Nginx::has('threads');

my $etcd = Etcd->new()->start();
my ($one, $two) = Much->start('one', 'two');
my $busy = build_unit('ngx_etcd_unit_busy_module');

my $nginx = Nginx->new(etcd => $etcd, first => $busy)->set(
    ONE => $one->address, TWO => $two->address);

$nginx->start(<<'EOF_CONFIG');

worker_processes 1;
thread_pool default threads=1;
etcd_busy %%DIR%%/hold;

etcd {
    endpoints %%ETCD%%;
}

http {
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;

    aio threads;
    aio_write on;
    proxy_buffer_size 4k;
    proxy_buffers 2 4k;
    proxy_busy_buffers_size 4k;
    proxy_read_timeout 600s;
    add_header X-Client $connection always;
    add_header X-Cache $upstream_cache_status always;

    upstream mirrored {
        etcd_members /services/mirrored/ close_after=1s;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /status {
            etcd_status;
        }

        location = /two {
            proxy_pass http://%%TWO%%;
        }

        location = /member {
            mirror /left;
            proxy_pass http://%%TWO%%;
        }

        location = /left {
            proxy_cache cache;
            proxy_cache_key $request_id;
            proxy_cache_valid 200 600s;
            proxy_pass http://mirrored/much;
        }
    }
}

EOF_CONFIG

my ($worker) = $nginx->workers;
my $hold = $nginx->dir . '/hold';


# From now on, threads do nothing, or what they have to do.

sub hold {
    $nginx->write_file('hold', '');
    wait_for { -e "$hold.busy" } 20, 'a busy thread';
}


sub go_on { unlink($hold) }


# A test: so many connections of each backend.

sub become_open {
    my ($wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes {
        join(' ', map { $_->counts->{open} } $one, $two)
    } $wanted, $name;
}


# Tests: the client asks again, by the connection of its answer if it is kept.

sub goes_on {
    my ($client, $answer, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $next = $client->get('/two');

    is($next->{body}, 'two', "$name: the client is answered again");
    is($next->{headers}{'x-client'}, $answer->{headers}{'x-client'},
       "$name: by the same connection") if $answer;
}


for my $row ([0, 0], [0, 1], [1, 0], [1, 1]) {
    my ($writes, $answered) = @$row;
    my $name = ($writes ? 'a busy thread' : 'an idle thread')
        . ($answered ? ', answered' : '');
    my $revision = $etcd->put('/services/mirrored/1', $one->address);

    $nginx->upstream('mirrored')->sees($revision);
    hold() if $writes;
    $two->set(hang => !$answered);

    my $client = $nginx->begin('/member');
    my $answer = $answered && $client->receive;

    become_open("1 @{[1 - $answered]}", "$name: the mirror is not complete");
    $etcd->del('/services/mirrored/1');
    become_open("0 @{[1 - $answered]}", "$name: it leaves, the mirror ends");
    go_on() if $writes;
    $two->set(hang => 0);
    $answer ||= $client->receive;
    is($answer->{body}, 'two', "$name: the client has its answer");
    goes_on($client, $answer, $name);
}

is_deeply([$nginx->workers], [$worker], 'the worker is still the same');
ok($nginx->quit, 'and ends, as no request is left');

finish();


package Much;

# A backend whose answers to /much have begun with more than nginx's buffers
# take.

use strict;
use warnings;

use parent 'Backend';

use constant PART => 100_000;


sub take_request {
    my ($self, $client) = @_;

    my ($path) = $client->{input} =~ /^\S+ (\S+)/;

    $self->SUPER::take_request($client) or return;
    $client->{path} = $path;

    return 1;
}


sub format_answer {
    my ($self, $client) = @_;

    if ($client->{path} =~ m{^/much}) {
        delete $client->{close};
        return "HTTP/1.1 200 OK\r\nContent-Length: " . 2 * PART . "\r\n\r\n"
            . 'x' x PART;
    }

    return $self->SUPER::format_answer($client);
}
