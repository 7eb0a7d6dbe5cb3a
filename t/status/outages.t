#!/usr/bin/perl

# Twelve outages: in each of them $etcd_reason, one line of the error log, the
# JSON, the metrics, an alert and what the page shows first name the cause.
# Each has an nginx of its own, with one upstream; a Prometheus looks at all of
# them, with the alerts of conf-examples/, which wait for nothing here.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Encode qw(encode);
use JSON::PP;
use List::Util qw(sum0);
use Test::More;

use Backend;
use Browser;
use Etcd;
use Finish;
use Http;
use Nginx;
use Port;
use Process;
use Slurp;
use Tls;
use Wait;

use constant SCREEN => [1280, 900];

my $plain = Etcd->new()->start();
my $stops = Etcd->new()->start();
my $guarded = Etcd->new()->start();
my ($ca, $other_ca) = (Tls->new('ca'), Tls->new('other ca'));
my $server = $ca->issue('server', san => 'IP:127.0.0.1');
my $secure = Etcd->new(tls => { cert => $server->cert, key => $server->key })
                 ->start();
my ($one, $two) = Backend->start('one', 'two');
my ($at1, $at2) = map { $_->address } $one, $two;
my ($refuses1, $refuses2) = map { '127.0.0.1:' . free_port() } 1, 2;

my $user = 'user nginx; password_file password;';

#     etcd      the server, where it is not the plain one
#     block     of the etcd block
#     upstream  and its directives
#     location
#     keys      of etcd
#     stage     what makes the outage
#     uri       the request, "/"
#     refused   status and $etcd_reason
#     line      of the error log
#     at        whether JSON says it, where that is not of the upstream
#     alert     by name
#     page      what is read on the first screen

my %outages = (
    mistyped => {
        upstream => 'etcd_members /servcies/shop/;',
        keys     => { '/services/shop/1' => $at1 },
        refused  => '502 no_members',
        line     => 'no usable member of "shop": there is none below '
                    . '/servcies/shop/',
        alert    => 'NginxEtcdNoMembers',
        page     => qr/shop.*no key below the prefix has a member/s,
    },

    refuse => {
        upstream => 'etcd_members /refuse/ max_fails=1;',
        keys     => { '/refuse/1' => $refuses1, '/refuse/2' => $refuses2 },
        refused  => '502 all_failing',
        line     => 'no usable member of "shop": 2 members, 2 failing',
        alert    => 'NginxEtcdFailingMembers',
        page     => qr/shop.*failing/s,
    },

    checks => {
        upstream => 'etcd_members /checks/; etcd_check tcp interval=300ms '
                    . 'timeout=300ms panic=0;',
        keys     => { '/checks/1' => $refuses1, '/checks/2' => $refuses2 },
        refused  => '502 all_unhealthy',
        line     => 'no usable member of "shop": 2 members, 2 failed checks',
        alert    => 'NginxEtcdUnhealthyMembers',
        page     => qr/shop.*unhealthy/s,
    },

    drained => {
        upstream => 'etcd_members /drained/;',
        keys     => { '/drained/1' => $at1, '/drained/2' => $at2 },
        stage    => sub { $plain->put("/drained/.drain/$_", '')
                              for $at1, $at2 },
        refused  => '502 all_drained',
        line     => 'no usable member of "shop": 2 members, 2 drained',
        alert    => 'NginxEtcdNoMembers',
        page     => qr/shop.*drained/s,
    },

    busy => {
        upstream => 'etcd_members /busy/ max_conns=1;',
        keys     => { '/busy/1' => $at2 },
        stage    => sub { hang($_[0]) },
        refused  => '502 all_busy',
        line     => 'no usable member of "shop": 1 member, 1 busy',
        alert    => 'NginxEtcdRefusals',
        page     => qr/shop.*busy/s,
    },

    stopped => {
        etcd     => $stops,
        block    => 'ping_interval 5s; ping_timeout 1s;',
        upstream => 'etcd_leader /stopped/ max_stale=7s;',
        keys     => { '/stopped/1' => $at1 },
        stage    => sub { served($_[0]); $stops->stop() },
        refused  => '502 stale',
        line     => 'no usable member of "shop"',
        alert    => 'NginxEtcdRefusals',
        page     => qr/no answer for \d+ s.*locks and elections are closed/s,
    },

    ca => {
        etcd     => $secure,
        block    => 'ssl_trusted_certificate ' . $other_ca->cert . ';',
        upstream => 'etcd_members /ca/;',
        refused  => '502 unreachable',
        line     => 'unable to get local issuer certificate',
        alert    => 'NginxEtcdStale',
        page     => qr/unable to get local issuer certificate/,
    },

    password => {
        etcd     => $guarded,
        block    => $user,
        secret   => 'former',
        upstream => 'etcd_members /open/;',
        refused  => '502 unauthorized',
        line     => 'user "nginx" is refused',
        alert    => 'NginxEtcdUnauthorized',
        page     => qr/unauthorized/,
    },

    denied => {
        etcd     => $guarded,
        block    => $user,
        secret   => 'secret',
        upstream => 'etcd_members /closed/;',
        refused  => '502 denied',
        line     => '"/closed/" cannot be read: permission denied',
        alert    => 'NginxEtcdUnauthorized',
        page     => qr{denied.*/closed/}s,
    },

    no_leader => {
        upstream => 'etcd_leader /nobody/;',
        refused  => '502 no_leader',
        line     => 'no usable member of "shop": there is no leader',
        alert    => 'NginxEtcdNoLeader',
        page     => qr/shop.*nobody leads/s,
    },

    lock_queue => {
        upstream => 'etcd_members /queue/;',
        location => 'etcd_lock /locks/jobs wait=60s queue=1;',
        keys     => { '/queue/1' => $at2 },
        stage    => sub { hang($_[0]); hang($_[0]) },
        refused  => '423 lock_queue_full',
        line     => 'lock "/locks/jobs/" was not obtained',
        at       => sub {
            grep { $_->{refused}{lock_queue_full} } values %{ $_[0]{locks} }
        },
        alert    => 'NginxEtcdLockRefusals',
        page     => qr/lock_queue_full/,
    },

    unknown => {
        upstream => 'etcd_members /sets/$service/;',
        location => 'set $service nowhere;',
        keys     => { '/sets/shop/1' => $at1 },
        refused  => '404 unknown',
        at       => sub { $_[0]{upstreams}{shop}{refused}{unknown} },
        alert    => 'NginxEtcdRefusals',
        page     => qr/shop.*unknown/s,
    },
);


my $template = <<'EOF_CONFIG';

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
    connect_timeout 500ms;
    %%BLOCK%%
}

http {
    log_format why '$status $etcd_reason';

    upstream shop {
        %%UPSTREAM%%
    }

    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/why.log why;

        location / {
            %%LOCATION%%
            proxy_pass http://shop;
        }

        location /status {
            access_log off;
            etcd_status;
        }
    }
}

EOF_CONFIG


# A request that stays where it goes to.

sub hang {
    my ($outage) = @_;

    $two->set(hang => 1);

    my $client = $outage->{nginx}->http;
    my $before = busy($outage);

    $client->send('GET', '/');
    push @{ $outage->{clients} }, $client;

    wait_for { busy($outage) > $before } 10, 'the request is inside';
}


# the number of requests that members have, or that wait for a lock

sub busy {
    my ($outage) = @_;

    my $status = $outage->{nginx}->status;
    my @locks = values %{ $status->{locks} // {} };

    return sum0(map { $_->{conns} // 0 }
                map { @{ $_->{members} } } values %{ $status->{upstreams} })
           + sum0(map { $_->{waiting} } @locks);
}


sub served {
    my ($outage) = @_;

    wait_for { $outage->{nginx}->get('/')->{status} == 200 } 10,
        'a request is served';
}


sub shop { $_[0]{nginx}->status->{upstreams}{shop} }


# etcd

$guarded->user_add('nginx', 'secret', '/open/');
$guarded->auth_enable('root');

for my $name (sort keys %outages) {
    my $outage = $outages{$name};
    my $etcd = $outage->{etcd} // $plain;

    $etcd->put($_, $outage->{keys}{$_}) for sort keys %{ $outage->{keys} };

    my $nginx = Nginx->new()->set(
        ETCD     => $etcd == $secure ? $etcd->tls_url : $etcd->url,
        BLOCK    => $outage->{block} // '',
        UPSTREAM => $outage->{upstream},
        LOCATION => $outage->{location} // '',
    );

    $nginx->write_secret('password', "$outage->{secret}\n")
        if $outage->{secret};
    $outage->{nginx} = $nginx->start($template);
}

# Prometheus, for which nothing has to last

my $alerts = slurp("$FindBin::Bin/../../conf-examples/alerts.yml");

$alerts =~ s/^ +for: .*\n//mg;

my $dir = test_dir() . '/prometheus';
my $port = free_port();

mkdir($dir) or die "mkdir $dir: $!\n";
Tls::write_file("$dir/alerts.yml", $alerts);
Tls::write_file("$dir/prometheus.yml", join("\n", 'global:',
    '  scrape_interval: 500ms', '  evaluation_interval: 500ms',
    'rule_files:', "- $dir/alerts.yml", 'scrape_configs:',
    map { my $nginx = $outages{$_}{nginx};
          ("- job_name: $_", '  metrics_path: /status',
           '  params:', '    format: [prometheus]',
           '  static_configs:', '  - targets:',
           '    - 127.0.0.1:' . $nginx->port) } sort keys %outages) . "\n");

Finish::later(bless {
    pid => spawn("$dir/log", 'prometheus', "--config.file=$dir/prometheus.yml",
                 "--storage.tsdb.path=$dir/data",
                 "--web.listen-address=127.0.0.1:$port"),
}, 'Prometheus');

my $prometheus = Http->new($port);


sub alerts_of {
    my ($name) = @_;

    my $answer = $prometheus->get('/api/v1/alerts');

    $answer->{status} == 200 or return;

    return map { $_->{labels} }
           grep { $_->{state} eq 'firing' && $_->{labels}{job} eq $name }
           @{ decode_json($answer->{body})->{data}{alerts} };
}


my $browser = Browser->start();

$browser->resize(@{ +SCREEN });

for my $name (sort keys %outages) {
    my $outage = $outages{$name};
    my $nginx = $outage->{nginx};
    my ($status, $reason) = split(/ /, $outage->{refused});

    $browser->open('http://127.0.0.1:' . $nginx->port . '/status');
    $outage->{stage}->($outage) if $outage->{stage};

    # A request more, while something is waited for: the log has a line a
    # second, and a rate takes two.

    my $seen = sub {
        my ($what, $condition) = @_;

        ok(wait_for(sub { $nginx->get('/'); $condition->() }, 30,
                    "$name: $what"), "$name: $what");
    };

    $seen->('$etcd_reason', sub {
        (split(/\n/, slurp("$nginx->{dir}/why.log")))[-1] eq $outage->{refused}
    });

    $seen->('the error log', sub {
        $nginx->count_log(qr/\[error\].*\Q$outage->{line}\E/)
    }) if $outage->{line};

    $seen->('JSON', sub {
        my $shop = shop($outage);

        $shop->{state} eq 'down' && ($shop->{reason} // '') eq $reason
    }) if !$outage->{at};

    $seen->('JSON', sub { $outage->{at}->($nginx->status) }) if $outage->{at};

    $seen->('metrics', sub {
        $nginx->get('/status?format=prometheus')->{body}
            =~ /^nginx_etcd_\w+_refused_total\{[^}]*reason="$reason"[^}]*\}
                \ [1-9]/mx
    });

    $seen->("alert $outage->{alert}", sub {
        grep { $_->{alertname} eq $outage->{alert} } alerts_of($name)
    });

    $seen->('an alert with the reason', sub {
        grep { ($_->{reason} // '') eq $reason } alerts_of($name)
    });

    my $screen;

    $seen->('page', sub {
        ($screen = first_screen()) =~ $outage->{page}
    }) or diag(encode('UTF-8', $screen));
    like($browser->execute('return document.title'), qr/down|etcd/i,
         "$name: the title");
}


# the text that is seen without scrolling

sub first_screen {
    return $browser->execute(<<'EOF_JS');
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);

for (let node; (node = walker.nextNode());) {
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();

    if (box.height && box.bottom <= innerHeight && box.top >= 0)
        texts.push(node.data.trim());
}

return texts.filter(t => t).join(' ');
EOF_JS
}


$two->set(hang => 0);

finish();


package Prometheus;

sub stop {
    my ($self) = @_;

    Process::stop_child(delete $self->{pid}) if $self->{pid};
}
