#!/usr/bin/perl

# Elections, registrations and leaders with authentication: with rights on
# exactly the keys that they need, and without rights, which is reported once,
# and leads to no leader until rights are granted.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Election;
use Etcd;
use Finish;
use Nginx;
use Stall;
use Upstream;
use Wait;

use constant {
    ROOT     => 'root-secret',
    ATTEMPTS => 3,
    RESIGN   => 0.5,         # seconds; nginx waits for 1 s
};

my $stall = Stall->watch();
my $etcd = Etcd->new(args => ['--bcrypt-cost=4'])->start();
my ($backend) = Backend->start('leader');

$etcd->put('/leader/1', $backend->address);
$etcd->put('/elsewhere', 'is nobody\'s business');

$etcd->user_add('rich', 'rich-secret');
$etcd->user_add('poor', 'poor-secret');
$etcd->auth_enable(ROOT);

my $config = <<'EOF';

etcd {
    endpoints %%ETCD%%;
    user %%USER%%;
    password_file password;
    election ingress /elections/ingress value=%%USER%% ttl=10s;
    register /nginx/%%USER%% value=%%USER%% ttl=10s;
}

http {
    upstream db {
        etcd_leader /leader;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://db;
        }

        location /gate {
            etcd_require_leader ingress;
            proxy_pass http://db;
        }

        location /leader {
            return 200 "$etcd_leader_ingress:$etcd_is_leader_ingress";
        }

        location /status {
            etcd_status;
        }
    }
}

EOF


# Grants all rights that nginx needs, and no others.

sub grant {
    my ($user) = @_;

    $etcd->grant_right($user, 'readwrite', '/elections/ingress/');
    $etcd->grant_right($user, 'readwrite', "/nginx/$user");
    $etcd->grant_right($user, 'read', '/leader/');
}


sub nginx {
    my ($user) = @_;

    my $nginx = Nginx->new(etcd => $etcd)->set(USER => $user);

    $nginx->write_secret('password', "$user-secret\n");

    return $nginx->start($config);
}


sub leads {
    my ($nginx) = @_;

    return wait_for { $nginx->get('/leader')->{body} =~ /:1$/ } 30,
        'it to lead';
}


sub is_registered {
    my ($user) = @_;

    return wait_for { ($etcd->get("/nginx/$user") // '') eq $user } 30,
        'the registration';
}


# how often the log has a text at a level

sub said {
    my ($nginx, $level, $text) = @_;

    return $nginx->count_log(qr/\[(?:$level)\].*$text/);
}


# Everything works.

sub works {
    my ($nginx, $user) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(leads($nginx), "$user: it leads");
    is($nginx->get('/leader')->{body}, "$user:1", 'and knows who does');
    ok(is_registered($user), 'it is registered');
    ok(wait_for(sub { $nginx->get('/')->{body} eq 'leader' }, 20),
       'it follows a leader');
    is($nginx->get('/gate')->{body}, 'leader', 'what only the leader may do');
}


# rights on the prefixes

grant('rich');

my $rich = nginx('rich');

works($rich, 'rich');

my ($candidate) = Election->new($etcd, '/elections/ingress')->candidates;

is($candidate->{value}, 'rich', 'its key is that of the election');
is(said($rich, '\w+', 'denied'), 0, 'nothing is refused');

# An nginx that ends waits for etcd, but not for long.

ok($stall->again(RESIGN, sub {
    $rich->start() if !$rich->pid;
    leads($rich) && is_registered('rich') or return;
    $rich->quit() or return;
    !$etcd->list('/elections/') && !defined $etcd->get('/nginx/rich');
}), 'it ends: it has resigned, and is not registered any more');

# no rights

my $poor = nginx('poor');

my @refused = ('election "ingress": prefix "/elections/ingress/" cannot be '
                   . 'read', 'election "ingress": campaign failed',
               'registration "/nginx/poor": key "/nginx/poor" cannot be '
                   . 'read',
               'registration "/nginx/poor" cannot be put');

for my $refused (@refused) {
    ok(wait_for(sub { said($poor, 'info', $refused) >= ATTEMPTS }, 30),
       "tried again and again: $refused");
    is(said($poor, 'error|warn', "$refused: permission denied"), 1,
       'reported once');
}

my $unread = 'prefix "/leader/".*permission denied';

wait_for { said($poor, 'error', $unread) } 10, 'the leader to be refused';

is(said($poor, 'error', $unread), 1,
   'a leader that it may not read: reported once');
is($poor->get('/leader')->{body}, ':', 'it does not lead, and sees no leader');
is($poor->get('/')->{status}, 502, 'it follows no leader');
is($poor->get('/gate')->{status}, 503, 'and may not what a leader may');
is(scalar($etcd->list('/elections/')) + scalar($etcd->list('/nginx/')), 0,
   'nothing of it is in etcd');
is(said($poor, 'alert|crit|emerg', ''), 0, 'nothing is worse than that');

# etcd tells its version, or only to root: nginx notes that in the log.


sub untold { said($poor, 'notice', 'endpoint \S+ does not tell its version,') }
sub version { $poor->status->{clusters}{default}{endpoints}[0]{version} }


ok(wait_for(sub { untold() || defined version() }, 10), 'the version is asked');
is(untold(), defined version() ? 0 : 1, 'noted once if it is not told');

# Rights that are granted later are used.

grant('poor');
works($poor, 'poor');

# The rights are taken away again: leadership and registration are given up in
# time, if not before.

$etcd->manage('role', 'revoke-permission', '--prefix=true', 'poor', $_)
    for '/elections/ingress/', '/leader/';
ok($poor->quit(), 'it ends without them');
ok(wait_for(sub { !$etcd->list('/elections/') }, 30),
   'what it could not delete ends with its lease');

finish();
