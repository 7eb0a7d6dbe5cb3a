#!/usr/bin/perl

# State files that cannot be used: nginx refuses each as a whole, with one
# message that tells the reason, and starts.  Each is of a cluster of its own,
# so one nginx reads them all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(sha1_hex);
use JSON::PP;
use POSIX qw(mkfifo);
use Test::More;

use Backend;
use Finish;
use Nginx;
use Port;
use Wait;

my ($backend) = Backend->start('one');
my $nginx = Nginx->new();
my $dir = $nginx->dir . '/state';

mkdir($dir) or die "mkdir $dir: $!\n";

my @cases;


# the state of a cluster as nginx itself would write it, except for changes

sub content {
    my ($name, %changes) = @_;

    return {
        state => {
            cluster => $name,
            namespace => '',
            cluster_id => 'cdf818194e3a8c32',
            revision => 9,
            %{ $changes{state} // {} },
        },
        upstreams => [ {
            upstream => {
                name => $name,
                stream => JSON::PP::false,
                prefix => '/m/',
                params => 0,
                revision => 9,
                %{ $changes{upstream} // {} },
            },
            members => $changes{members} // [
                member(),
                member(key => '/m/2', %{ $changes{member} // {} }),
            ],
        } ],
        %{ $changes{content} // {} },
    };
}


sub member {
    return {
        key => '/m/1',
        create_revision => 3,
        mod_revision => 5,
        gone => JSON::PP::false,
        address => $backend->address,
        weight => 2,
        max_fails => 1,
        max_conns => 0,
        fail_timeout => 10,
        slow_start => '0ms',
        down => JSON::PP::false,
        backup => JSON::PP::false,
        drain => JSON::PP::false,
        @_,
    };
}


sub value {
    return { key => '/v', revision => 9, mod_revision => 5, value => 'x',
             @_ };
}


sub text {
    my ($content, $version) = @_;

    my $json = JSON::PP->new->canonical->ascii->encode($content);

    return '{"version":' . ($version // 1) . ',"sha1":"' . sha1_hex($json)
        . "\",\"content\":\n$json\n}\n";
}


# a case: the fault, nginx's message (undef: none), the file's text or a
# function that makes it, and further lines of the "etcd" block

sub add {
    my ($what, $reason, $text, @lines) = @_;

    my $name = 'c' . @cases;
    my $path = "$dir/$name.json";

    push @cases, { name => $name, what => $what, reason => $reason,
                   lines => "@lines", path => $path };

    if (ref $text eq 'CODE') {
        $text = $text->($path, $name);
    }

    if (defined $text) {
        open(my $out, '>:raw', $path) or die "open $path: $!\n";
        print $out $text;
        close($out) or die "write $path: $!\n";
    }
}


# a case with a changed content, and a valid checksum

sub forged {
    my ($what, $reason, @changes) = @_;

    add($what, $reason, sub { text(content($_[1], @changes)) });
}


add('a good one', undef, sub { text(content($_[1])) });
add('none', undef, undef);
add('one of bytes that are no text', undef, sub {
    text(content($_[1], state => { namespace => { base64 => '/w==' } }))
}, "namespace \xff;");

# damage

my $whole = text(content('c0'));
my $torn = qr/is no valid JSON|checksum is wrong|it is empty/;
my $flipped = qr/is no valid JSON|checksum is wrong|version/;

for (my $n = 0; $n < length($whole); $n += 9) {
    add("torn at $n", $torn, substr($whole, 0, $n));
}

add('torn at the last byte', $torn, substr($whole, 0, -1));

for (my $n = 0; $n < length($whole); $n += 11) {
    for my $bit (0x01, 0x80) {
        my $text = $whole;

        substr($text, $n, 1) ^= chr($bit);
        add("byte $n with bit $bit", $flipped, $text);
    }
}

add('one byte more', $flipped, "$whole\n");
add('a space more', $flipped, $whole =~ s/"members":/"members": /r);
add('edited by hand', $flipped, $whole =~ s/"weight":2/"weight":3/r);
add('garbage', qr/line 1, column 0 is no valid JSON/, "\xff\x00" x 100);
add('empty', qr/it is empty/, '');
add('nested too deep', $flipped, '[' x 100000);

# other things than a file

add('a directory', qr/it is no regular file/, sub { mkdir($_[0]); undef });
add('a fifo', qr/it is no regular file/, sub { mkfifo($_[0], 0600); undef });
add('a link', qr/it cannot be opened \(\d+: /,
    sub { symlink("$dir/c0.json", $_[0]); undef });
add('huge', qr/it is larger than any state of a zone of this size/,
    sub { open(my $out, '>', $_[0]); truncate($out, 3 << 20); undef });

# a valid checksum, but contents that this nginx cannot use

add('another version', qr/its version is 2, not 1/,
    sub { text(content($_[1]), 2) });
add('a version of text', qr/it has no "version"/,
    sub { text(content($_[1]), '"1"') });
add('of another cluster', qr/it is of cluster "c0", not "c\d+"/, $whole);
forged('of another namespace', qr/it is of namespace "\/team", not ""/,
       state => { namespace => '/team' });
add('of no namespace', qr/it is of namespace "", not "\/team"/,
    sub { text(content($_[1])) }, 'namespace /team;');
forged('no id', qr/it has no "cluster_id"/, state => { cluster_id => 1 });
forged('a negative revision', qr/there is no valid "revision"/,
       state => { revision => -1 });
forged('no upstreams', qr/it has no "upstreams"/,
       content => { upstreams => undef });
forged('upstreams that are none', qr/there is no valid "name"/,
       content => { upstreams => [1] });
forged('no members', qr/upstream "c\d+" has no "members"/,
       members => 'none');
forged('a broken address', qr/key "\/m\/2": address "x" has no port/,
       member => { address => 'x' });
forged('an address that is not allowed',
       qr/key "\/m\/2": address "10.0.0.1:80" is not allowed by etcd_allow/,
       member => { address => '10.0.0.1:80' });
forged('a weight that is none', qr/key "\/m\/2": weight -1 is not an integer/,
       member => { weight => -1 });
forged('no key', qr/a key has 0 bytes/, member => { key => '' });
forged('a key that is none', qr/there is no valid "key"/,
       member => { key => 7 });
forged('a key that is no base64', qr/there is no valid "key"/,
       member => { key => { base64 => '*' } });
forged('a host without a port', qr/there is no valid "port"/,
       member => { host => 'web.test', whole_weight => 1 });
forged('a host of no name', qr/host "" is not what a member has/,
       member => { host => '', port => 80, whole_weight => 1 });
forged('a long host', qr/is not what a member has/,
       member => { host => 'x' x 254, port => 80, whole_weight => 1 });
forged('a host with a large weight', qr/is not what a member has/,
       member => { host => 'web', port => 80, whole_weight => 65536 });
forged('an address of a host that is not allowed', qr/is not allowed by etcd/,
       member => { host => 'web', port => 80, whole_weight => 1,
                   address => '10.0.0.1:80' });
forged('no revision', qr/there is no valid "mod_revision"/,
       member => { mod_revision => 'x' });
forged('more than the zone holds', qr/the "zone" is too small for its members/,
       members => [ map { member(key => "/m/$_",
                                 address => '127.1.' . ($_ >> 8) . '.'
                                            . ($_ & 255) . ':80') }
                    1 .. 3000 ]);
forged('values that are none', qr/it has no "values"/,
       content => { values => 'none' });
forged('a value of no key', qr/there is no valid "key"/,
       content => { values => [ value(key => 1) ] });
forged('a value of no revision', qr/there is no valid "mod_revision"/,
       content => { values => [ value(mod_revision => 'x') ] });
forged('a value of two lines', qr/a value has LF at byte 2/,
       content => { values => [ value(value => "a\nb") ] });
forged('a long value', qr/a value of 65537 bytes/,
       content => { values => [ value(value => 'x' x 65537) ] });
forged('a value of a variable that is gone, and one', undef,
       content => { values => [ value() ] });
forged('three keys with one address', undef,
       members => [ member(), member(key => '/m/2'), member(key => '/m/3') ]);
forged('a key that has one address twice', undef,
       members => [ member(), member(key => '/m/2'),
                    member(mod_revision => 6) ]);
forged('of an upstream that is gone', undef,
       upstream => { name => 'gone' }, members => [ member() ]);


# an upstream of each cluster

my $port = free_port();

my $config = join("\n", 'worker_processes 1;',
    'thread_pool default threads=1;', 'events { worker_connections 4096; }',
    (map { "etcd $_->{name} { endpoints 127.0.0.1:$port; zone 256k;"
           . " state_path %%DIR%%/state; $_->{lines} }" } @cases),
    'http {',
    (map { "upstream $_->{name} { etcd_members /m/ cluster=$_->{name};"
           . ' etcd_allow 127.0.0.0/8; }' } @cases),
    'server { listen 127.0.0.1:%%PORT%%;',
    'location /status { etcd_status; }',
    'location ~ ^/to/(.*)$ { proxy_pass http://$1; }', '} }', '');

my ($ok, $output) = $nginx->configtest($config);

ok($ok, 'nginx -t') or diag($output);
unlike($output, qr/state file/, 'it does not read the files');

$nginx->start($config);

my $upstreams = (wait_for { $nginx->status } 60, 'the status')->{upstreams};
my %said;

for (split(/\n/, $nginx->error_log)) {
    if (/\[error\].*"(c\d+)": state file "(.*?)" is not used: (.*)/) {
        push @{ $said{$1} }, { path => $2, reason => $3 };
    }
}

for my $case (@cases) {
    my ($name, $what, $reason) = @$case{qw(name what reason)};
    my $members = @{ $upstreams->{$name}{members} };
    my @lines = @{ $said{$name} // [] };

    if (!defined $reason) {
        is(scalar(@lines), 0, "$what: no complaint");
        is($members, $what =~ /\bone\b/ ? 1 : 0, "$what: its members");
        next;
    }

    is($members, 0, "$what: not used");
    is(scalar(@lines), 1, "$what: one message") or next;
    is($lines[0]{path}, $case->{path}, "$what: names the file");
    like($lines[0]{reason}, $reason, "$what: says why");
}

is($nginx->get('/to/c0')->{body}, 'one', 'requests are served');

# No file was replaced: nothing better is known.

ok($nginx->quit(), 'nginx quits');

my ($edited) = grep { $_->{what} eq 'edited by hand' } @cases;

open(my $in, '<', $edited->{path}) or die "open $edited->{path}: $!\n";
is(do { local $/; <$in> }, $whole =~ s/"weight":2/"weight":3/r,
   'what was refused is left as it was');

finish();
