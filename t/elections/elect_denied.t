#!/usr/bin/perl

# A leader that may not read the candidates any more: what a request is told and
# whether it is let in agree, in http and stream.  It leads on while its lease
# is valid: to the end of the lease, or for as long as it may read its own key.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Chaos;
use Election;
use Etcd;
use Finish;
use Http;
use Nginx;
use Wait;

use constant { LONG => 600, SHORT => 4 };

my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();
my $way = Chaos->start($etcd->port);

$etcd->user_add('nginx', 'secret');
$etcd->auth_enable('root-secret');
$etcd->grant_right('nginx', 'readwrite', "/e/$_/") for qw(long short);

my $nginx = Nginx->new()->set(ETCD => $way->url, LONG => LONG, SHORT => SHORT);

$nginx->write_secret('password', "secret\n");

$nginx->start(<<'END');

worker_processes 2;

etcd {
    endpoints %%ETCD%%;
    user nginx;
    password_file password;
    election long /e/long value=l ttl=%%LONG%%s;
    election short /e/short value=s ttl=%%SHORT%%s;
}

http {
    server {
        listen 127.0.0.1:%%PORT%%;

        location = /long {
            set $shown $etcd_is_leader_long:$etcd_election_revision_long;
            return 200 $shown:$etcd_leader_long;
        }

        location = /short {
            set $shown $etcd_is_leader_short:$etcd_election_revision_short;
            return 200 $shown:$etcd_leader_short;
        }

        location = /long/gate {
            etcd_require_leader long;
            proxy_pass http://127.0.0.1:%%PORT%%/in;
        }

        location = /short/gate {
            etcd_require_leader short;
            proxy_pass http://127.0.0.1:%%PORT%%/in;
        }

        location = /in {
            return 200 "in";
        }

        location /status {
            etcd_status;
        }
    }
}

stream {
    server {
        listen 127.0.0.1:%%PORT_SHOWN%%;
        return $etcd_is_leader_long:$etcd_election_revision_long;
    }

    server {
        listen 127.0.0.1:%%PORT_GATE%%;
        etcd_require_leader long;
        proxy_pass 127.0.0.1:%%PORT_SHOWN%%;
    }
}

END


sub says { $nginx->get($_[0])->{body} }


# the text that a stream server writes

sub streams {
    my ($name) = @_;

    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $nginx->port("PORT_$name"),
    ) or return '';

    local $/;
    return <$socket> // '';
}


# All ways to ask give the same answer.

sub agree {
    my ($election, $revision, $value, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $status = $nginx->status->{elections}{$election};
    my $gate = $nginx->get("/$election/gate");

    is(says("/$election"), $revision ? "1:$revision:$value" : '::',
       "$name: the variables");
    is($gate->{status}, $revision ? 200 : 503, "$name: etcd_require_leader");
    is($status->{is_leader} ? $status->{revision} : 0, $revision,
       "$name: the status");
    is($status->{leader}, $revision ? $value : undef,
       "$name: the leader in the status");
}


sub denied { $nginx->count_log(qr/election "$_[0]": prefix .* cannot be read/) }


ok(wait_for(sub { says("/$_") =~ /^1:\d+/ }, 30), "$_: it leads")
    for qw(long short);

my %leader = map { ($_ => Election->new($etcd, "/e/$_")->leader) }
    qw(long short);
my %revision = map { ($_ => $leader{$_}{create_revision}) } keys %leader;

agree('long', $revision{long}, 'l', 'with the rights');

# The rights are taken away, but for those on one key of the two.

$etcd->manage('role', 'grant-permission', 'nginx', 'readwrite',
              $leader{short}{key});
$etcd->revoke_read('nginx', "/e/$_/") for qw(long short);
$way->cut();

ok(wait_for(sub { denied($_) }, 30), "$_: the prefix cannot be read")
    for qw(long short);

agree('long', $revision{long}, 'l', 'without rights');
is(streams('SHOWN'), "1:$revision{long}", 'the variables in stream');
is(streams('GATE'), "1:$revision{long}", 'etcd_require_leader in stream');

stays { says('/short') } "1:$revision{short}:s",
    'it leads on with a key that it may read', 3 * SHORT;
agree('short', $revision{short}, 's', 'with the right on the own key');

# A reload hands the term on.

$nginx->reload();
agree($_, $revision{$_}, substr($_, 0, 1), "$_: after a reload")
    for qw(long short);

# Without that right no renewal counts: the lease ends.

$etcd->manage('role', 'revoke-permission', 'nginx', $leader{short}{key});
ok(wait_for(sub { says('/short') eq '::' }, 20 * SHORT),
   'without the right on its key it leads to the end of its lease');
agree('short', 0, 's', 'after the end');

ok($nginx->quit(), 'it ends');

finish();
