#!/usr/bin/perl

# The documentation and the code have the same directives, variables, formats,
# parameters and fields, and all links have targets.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Chaos;
use Dns;
use Docs;
use Door;
use Etcd;
use Fields;
use Finish;
use Nginx;
use Port;
use Source;
use Wait;

my @pages = Docs::pages();
my %page = map { $_->path => $_ } @pages;


sub same {
    my ($got, $expected, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is_deeply([sort @$got], [sort @$expected], $name);
}


# contexts in the notation of the code, from 'http, server; stream, server'

sub contexts {
    my ($text) = @_;

    if ($text eq 'upstream (http, stream)') {
        return ('http upstream', 'stream upstream');
    }

    if ($text =~ /^(?:main|etcd)$/) {
        return $text;
    }

    return map {
        my $module = /^\s*stream\b/ ? 'stream' : 'http';

        map { "$module $_" } split(/,\s*/, s/^\s+//r);
    } split(/;/, $text);
}


# directives: each has an entry with its contexts and its default

my $code = Source::directives();
my %documented = map { $_->{name} => $_ } Docs::directives();
my $index = $page{'docs/README.md'};

same([map { $_->{name} } Docs::directives()], [keys %$code],
     'each directive has an entry, and one only');

for my $name (sort keys %documented) {
    my $entry = $documented{$name};

    same([contexts($entry->{context})], [keys %{ $code->{$name}{contexts} }],
         "$name: Context");
    like($entry->{syntax}, qr/^\Q$name\E(?: .*)?[;}] $/, "$name: Syntax");
    like($entry->{default}, qr/^(?:-|\Q$name\E .*;)$/, "$name: Default");
}


same([$index->prose =~ /^\| (\[\w+\]\(.*) \|$/mg],
     [map { "[$_->{name}](" . ($_->{path} =~ s{^docs/}{}r)
            . "#$_->{name}) | $_->{context}" } values %documented],
     'the index has them, each with its Context');


# Numbers with units and products are equal: 2m and 120000, 8m and 8 * 1024 *
# 1024; words stay words.

sub number {
    my ($text, $unit) = @_;

    my %factor = $unit eq 'size' ? (m => 1 << 20, k => 1 << 10)
               : $unit eq 'seconds' ? (s => 1)
               : (s => 1000, m => 60_000, h => 3_600_000);

    if ($text =~ /^\d[\d *]*$/) {
        my $product = 1;

        $product *= $_ for split(/\s*\*\s*/, $text);

        return $product;
    }

    return $1 * $factor{$2} if $text =~ /^(\d+)([a-z])$/;

    return $text eq 'on' ? 1 : $text if $text =~ /^[a-z]+$/;

    die "$text is no number\n";
}


# directives whose default ngx_conf_init_value() does not set

my %proved = map { $_ => 1 } qw(etcd_balance etcd_guard etcd_wait
                                ssl_protocols);

my $defaults = Source::defaults();

for my $field (sort keys %$defaults) {
    my ($name) = grep { ($code->{$_}{field} // '') eq $field
                        || "${_}_size" eq $field || $_ eq $field }
                 keys %$code;
    my ($default) = ($documented{$name // ''} // {})->{default} =~
        /^\w+ (\S+);$/;

    my $unit = $field =~ /_(?:size|quota)$/ ? 'size'
             : $field =~ /_ttl$/ ? 'seconds' : 'time';

    is(number($default, $unit), number($defaults->{$field}, $unit),
       "$name: its Default is that of the code");
    $proved{$name} = 1;
}

same([grep { $documented{$_}{default} ne '-' } keys %documented],
     [keys %proved], 'no other one has a Default');

# variables, and prefixes of variables

my @names = map { /_$/ ? "${_}NAME" : $_ }
            (Source::strings('ngx_etcd_variables'),
             Source::strings('ngx_etcd_election_variables'),
             Source::strings('ngx_etcd_lock_variables'));

# the entry of a variable says its former name

my %former = (etcd_lock_status => 'etcd_lock_result');
my $variables = Docs::page('docs/variables.md')->prose;

for my $name (sort keys %former) {
    like($variables, qr/^### \$$former{$name}\n(?:(?!##).*\n)*?.*`\$$name`/m,
         "\$$name: the former name of \$$former{$name}");
}

same([map { $_->{name} } Docs::variables()],
     [map { "\$$_" } grep { !$former{$_} } @names],
     'each variable has an entry, and one only');

for my $entry (Docs::variables()) {
    is("$entry->{syntax}|$entry->{default}|$entry->{context}",
       "$entry->{name} |empty|http, stream", "$entry->{name}: its form");
    like($index->prose, qr/^- \[\Q$entry->{name}\E\]\(/m,
         "$entry->{name}: the index has it");
}

# The entry that an example is in says where it belongs, or its first line.

my @lost;

for my $page (Docs::pages()) {
    for my $fence ($page->fences) {
        my ($context) = $fence->{mark} =~ /^context=(\w+)/ or next;
        my $before = join("\n", @{ $page->{lines} }[0 .. $fence->{line} - 2]);

        push @lost, $page->path . ":$fence->{line}"
            if $before !~ /^ {4}Context:(?!.*^#)/ms
               && $fence->{text} !~ /^# in $context \{ \}\n/;
    }
}

same(\@lost, [], 'examples say where they belong');

# parameters, with the notation of their types

my %table = (
    (map { ("etcd_$_" => "ngx_etcd_${_}_options") }
         qw(check eject guard leader lock members prefer require_leader set
            wait)),
    (map { ($_ => 'ngx_etcd_campaign_options') } qw(election register)),
    etcd_status => 'ngx_http_etcd_status_options',
);

my %notation = (
    NUMBER  => qr/^(?:NUMBER|CODE)$/,
    SECONDS => qr/^TIME$/,
    SHARE   => qr/^SHARE$/,
    SIZE    => qr/^SIZE$/,
    TIME    => qr/^TIME$/,
);

my @attributes = Source::strings('ngx_etcd_attrs');
my @paths = Source::strings('ngx_etcd_parameter_paths');


# { NAME => [alternatives of its value] } of a Syntax line

sub parameters {
    my ($syntax) = @_;

    my %values;

    push @{ $values{$1} }, split(/\|/, $2)
        while $syntax =~ /\b(\w+)=([^\s\];]*)/g;
    $values{$1} //= []
        while $syntax =~ /\[([a-z_]+)(?=\]| \[)/g;

    return \%values;
}


# nginx itself reads the parameters of "resolver"

same([grep { $_ ne 'resolver' && $documented{$_}{syntax} =~ /=/ }
      keys %documented],
     [keys %table], 'the directives that have parameters have tables');

for my $name (sort keys %table) {
    my $options = Source::options($table{$name});
    my $values = parameters($documented{$name}{syntax});
    my @pointers = $name =~ /^etcd_(?:members|leader)$/ ? ('ATTRIBUTE', @paths)
                 : ();

    same([keys %$values], [keys %{ { %$options, map { $_ => 1 } @pointers } }],
         "$name: its parameters");

    for my $parameter (sort grep { $values->{$_} } keys %$options) {
        my ($type, $names) = @{ $options->{$parameter} }{qw(type names)};
        my @values = grep { $_ ne 'POINTER' } @{ $values->{$parameter} };

        if ($type eq 'ENUM') {
            same(\@values, $names, "$name: the words of $parameter=");

        } elsif ($notation{$type}) {
            ok(@values == 1 && $values[0] =~ $notation{$type},
               "$name: the notation of $parameter=");

        } else {
            is(scalar(@{ $values->{$parameter} }) != 0,
               $options->{$parameter}{value} eq '=',
               "$name: whether $parameter has a value");
        }
    }
}

my $formats = $page{'docs/formats.md'};

same([grep { $formats->prose !~ /`\Q$_\E=`/ } @attributes, @paths], [],
     'each pointer is among the formats');

# Parameters that are no pointers: nginx tells whether it knows them.

my $tester = Nginx->new();

sub accepts {
    my ($parameter) = @_;

    my ($ok) = $tester->configtest(<<"EOF");
etcd {
    endpoints http://127.0.0.1:2379;
}
http {
    upstream api {
        etcd_members /services/api/ $parameter;
    }
}
EOF

    return $ok;
}

for my $name (@attributes) {
    my $in_syntax = $documented{etcd_members}{syntax}
        =~ /\[$name=(?!POINTER)/ ? 1 : 0;

    is(accepts("$name=1"), $in_syntax,
       "etcd_members: $name= is " . ($in_syntax ? 'taken' : 'not taken'));
}

# formats

my @tables = map { [/^\| `([\w-]+)` \|/mg] }
             $formats->prose =~ /\n(\| format .*?)\n\n/sg;

same($tables[0], [Source::strings('ngx_etcd_formats')],
     'each format is in the table');
same($tables[1], [Source::strings('ngx_etcd_leader_formats')],
     'each format of leaders is in theirs');

# links

my %anchors = map { my $page = $_;
                    ($page->path => { map { $_ => 1 } $page->anchors }) }
              @pages;


sub broken {
    my ($page) = @_;

    my ($dir) = $page->path =~ m{^(.*/)};

    return grep {
        my ($file, $anchor) = /^([^#]*)(?:#(.*))?$/;

        my $target = $file eq '' ? $page->path : ($dir // '') . $file;

        1 while $target =~ s{(?:^|(?<=/))(?!\.\./)[^/]+/\.\./}{};

        !/^https:/ && (!-e Docs::top() . "/$target"
                       || defined $anchor && !$anchors{$target}{$anchor});
    } $page->links;
}


for my $page (@pages) {
    my %seen;

    is(join(' ', broken($page)), '', $page->path . ': links');
    is(join(' ', grep { $seen{$_}++ } $page->anchors), '',
       $page->path . ': no anchor is there twice');
}

# the status of an nginx that has something of everything

my $etcd = Etcd->new()->start();
my $proxy = Chaos->start($etcd->port);

my $config = <<'EOF';
etcd {
    endpoints %%ETCD%%;
    resolver %%DNS%%;
    auto_sync 1s;
    election jobs /elections/jobs;
}
etcd away {
    endpoints http://127.0.0.1:%%NOBODY%%;
}
http {
    etcd_set $rate /flags/rate;
    etcd_set $backend /routes/$host;
    upstream postgres {
        etcd_leader /service/batman format=patroni failsafe=on;
    }

    upstream api {
        etcd_members /services/api/ close_after=1m outcomes=members;
        etcd_prefer zone:eu-1a;
    }

    upstream routed {
        etcd_members /routed/$arg_service/;
    }

    upstream away {
        etcd_members /away/ cluster=away;
    }

    upstream held {
        etcd_members /held/;
        etcd_members /spare/ backup;
        etcd_guard keep=100%;
    }

    upstream sick {
        etcd_members /sick/;
        etcd_guard keep=1% dry_run;
        etcd_check tcp interval=1s timeout=100ms fast=100ms share=/observer
            zone=a;
        etcd_eject errors=50% window=1s min=1 time=1h max=50%;
    }
    server {
        listen 127.0.0.1:%%PORT_GOOD%%;
        return 200;
    }
    server {
        listen 127.0.0.1:%%PORT_BAD%%;
        return 500;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /sick {
            proxy_pass http://sick;
        }
        location /status {
            etcd_status;
        }
        location /full {
            etcd_wait api 1s full;
            proxy_pass http://api;
        }
        location /lock {
            etcd_lock /locks/orders orders wait=600s;
            proxy_pass http://%%DOOR%%;
        }
    }
}
EOF

if (Nginx::has('stream')) {
    $config .= "stream {\n    upstream db {\n"
        . "        etcd_members /services/db/;\n    }\n}\n";
}

$etcd->put('/services/api/1', '127.0.0.1:8080');
$etcd->put('/services/api/2', 'nothing');
$etcd->put('/services/api/3', 'nobody.test:80');
$etcd->put('/services/api/4', '{"address":"127.0.0.1:8080","wieght":1}',
           lease => $etcd->grant(600));
$etcd->put('/flags/rate', "two\nlines");
$etcd->put('/routed/web/1', '127.0.0.1:8080');
$etcd->put('/routed/mail/1', '{"address":"127.0.0.1:25","down":true}');
$etcd->put('/services/db/1', '127.0.0.1:5432');
$etcd->put('/held/1', '127.0.0.1:8080');

$etcd->put('/services/api/5', '{"address":"127.0.0.1:8081","max_conns":9,'
    . '"max_fails":2,"fail_timeout":"5s","slow_start":"1s","priority":1,'
    . '"route":"a","drain":true}');

my $dns = Dns->start();
my $door = Door->new();
my $nginx = Nginx->new(etcd => $proxy)
    ->set(DNS => $dns->address, DOOR => $door->address, NOBODY => free_port())
    ->start($config);

$etcd->put("/sick/$_", '127.0.0.1:' . $nginx->port("PORT_$_"))
    for qw(GOOD BAD);

# One request holds a lock, another waits.

my @clients = map { $nginx->http } 1, 2;

$_->send('GET', '/lock') for @clients;

my %named = map { $_ => 1 } qw(clusters upstreams elections locks variables);


sub fields {
    my ($value, @path) = @_;

    if (ref($value) eq 'ARRAY') {
        $path[-1] .= '[]';

        return map { fields($_, @path) } @$value;
    }

    if (ref($value) ne 'HASH' || !%$value) {
        return join('.', @path);
    }

    return map {
        my $name = @path == 1 && $named{$path[0]} ? 'NAME'
                 : !@path && $_ eq 'stream_upstreams' ? 'upstreams' : $_;

        fields($value->{$_}, @path, $name);
    } keys %$value;
}


# An empty upstream has no fields; "next" belongs to a page of sets.

sub fields_of {
    my ($status) = @_;

    # counts of reasons that there were

    my %fields = map { s/\.refused\K\.\w+$//r . (/\.refused\b/ ? '.REASON' : '')
                       => 1 } fields($status);

    delete @fields{qw(upstreams upstreams.NAME.next)};

    return sort keys %fields;
}


my $status;

Upstream->new($nginx, 'held')->comes_to_be(
    members => { '/held/1' => '127.0.0.1:8080 1 up' }, 'a member that goes');
$etcd->del('/held/1');

ok(wait_for(sub {
    $nginx->get($_) for '/sick', '/full';
    $status = $nginx->status() or return;

    my $cluster = $status->{clusters}{default};

    $cluster->{state} eq 'synced'
        && grep({ $_->{learned} } @{ $cluster->{endpoints} })
        && grep({ $_->{version} } @{ $cluster->{endpoints} })
        && $status->{clusters}{away}{reason}
        && grep({ $_->{hidden_by} } @{ $status->{upstreams}{api}{members} })
        && @{ $status->{upstreams}{api}{invalid} }
        && @{ $status->{upstreams}{api}{unused} }
        && grep({ $_->{reason} } @{ $status->{upstreams}{api}{members} })
        && grep({ $_->{drained_by} } @{ $status->{upstreams}{api}{members} })
        && grep({ exists $_->{failed_ago} }
                @{ $status->{upstreams}{api}{members} })
        && $status->{variables}{'$rate'}{reason}
        && @{ $status->{locks}{'/locks/orders'}{holders} }
        && @{ $status->{locks}{'/locks/orders'}{waiters} }
        && $status->{elections}{jobs}{leader}
        && $status->{upstreams}{routed}{sets}
        && $status->{upstreams}{sick}{ejections}
        && defined $status->{upstreams}{held}{held_for}
        && $status->{upstreams}{sick}{checks}
        && defined $status->{upstreams}{sick}{check_heard_ms};
}, 20), 'there is a status');

# Only a request for an upstream shows the upstream's sets.

my $routed = decode_json($nginx->get('/status?upstream=routed')->{body});

$status->{upstreams}{routed} = $routed->{upstreams}{routed};

my @fields = grep { !/^nginx_etcd_/ } $page{'docs/status.md'}->first_column;

same(\@fields, [fields_of($status)], 'the status has the fields that it says');
same(\@fields, [Fields::json()], 'and its tables have them');

my ($shown) = grep { $_->{language} eq 'json' } $page{'docs/status.md'}->fences;

same([fields_of(decode_json($shown->{text}))],
     [grep { !/\.learned$/ } @fields], 'and so has what is shown of it');

finish();
