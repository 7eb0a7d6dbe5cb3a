#!/usr/bin/perl

# State files that cannot be used: nginx refuses each as a whole, with one
# message that tells the reason, and starts.  Each is of a cluster of its own,
# so one nginx reads them all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use POSIX qw(mkfifo);
use Test::More;

use Backend;
use Finish;
use Nginx;
use Port;
use State;
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
        cluster => $name,
        namespace => '',
        cluster_id => 'cdf818194e3a8c32',
        revision => 9,
        sets => [ {
            name => $name,
            prefix => '/m/',
            params => 0,
            revision => 9,
            members => $changes{members} // [
                member(),
                member(key => '/m/2', %{ $changes{member} // {} }),
            ],
            %{ $changes{set} // {} },
        } ],
        %{ $changes{content} // {} },
    };
}


sub member {
    return {
        key => '/m/1',
        create_revision => 3,
        mod_revision => 5,
        address => $backend->address,
        weight => 2,
        max_fails => 1,
        fail_timeout => 10,
        @_,
    };
}


sub value {
    return { key => '/v', mod_revision => 5, value => 'x', @_ };
}


# the records of that state

sub parts { return State::records(substr(state_text(content($_[0])), 40)) }


sub spurt {
    my ($path, $text) = @_;

    open(my $out, '>:raw', $path) or die "open $path: $!\n";
    print $out $text;
    close($out) or die "write $path: $!\n";
}


# a case: the fault, nginx's message (undef: none), the file's text or a
# function that makes it, and further lines of the "etcd" block

sub add {
    my ($what, $reason, $text, @lines) = @_;

    my $name = 'c' . @cases;
    my $path = "$dir/$name.state";

    push @cases, { name => $name, what => $what, reason => $reason,
                   lines => "@lines", path => $path };

    if (ref $text eq 'CODE') {
        $text = $text->($path, $name);
    }

    spurt($path, $text) if defined $text;
}


# a case with a changed content, and a valid checksum

sub forged {
    my ($what, $reason, @changes) = @_;

    add($what, $reason, sub { state_text(content($_[1], @changes)) });
}


# a case with other records of the good text, and a valid checksum

sub formed {
    my ($what, $reason, $change) = @_;

    add($what, $reason, sub { state_records(2, $change->(parts($_[1]))) });
}


add('a good one', undef, sub { state_text(content($_[1])) });
add('none', undef, undef);
add('one of bytes that are no text', undef, sub {
    state_text(content($_[1], content => { namespace => "\xff" }))
}, "namespace \xff;");

# damage

my $whole = state_text(content('c0'));
my $torn = qr/it is no state file|checksum is wrong|it is empty/;
my $flipped = qr/it is no state file|checksum is wrong|its version is \d+/;

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
add('edited by hand', $flipped, $whole =~ s/127\.0\.0\.1/127.0.0.2/r);
add('garbage', qr/it is no state file/, "\xff\x00" x 100);
add('JSON', qr/it is no state file/, '{"version":1}');
add('empty', qr/it is empty/, '');
add('of the former version', qr/its version is 1, not 2/,
    sub { spurt($_[0] =~ s/state$/json/r, '{"version":1}'); undef });

# other things than a file

add('a directory', qr/it is no regular file/, sub { mkdir($_[0]); undef });
add('a fifo', qr/it is no regular file/, sub { mkfifo($_[0], 0600); undef });
add('a link', qr/it cannot be opened \(\d+: /,
    sub { symlink("$dir/c0.state", $_[0]); undef });
add('huge', qr/it is larger than any state of a zone of this size/,
    sub { open(my $out, '>', $_[0]); truncate($out, 3 << 20); undef });

# A valid checksum, but records that are none: the file ends after each record,
# and within each; a record is left out, or is there twice.

my $last = $#{ [ parts('c0') ] };

for my $n (0 .. $last) {
    formed("ends before record $n", qr/the end is missing at byte \d+/,
           sub { map { state_record(@$_) } @_[0 .. $n - 1] });
    formed("ends within the head of record $n", qr/is cut off at byte \d+/,
           sub {
               my @records = map { state_record(@$_) } @_[0 .. $n];
               substr($records[$n], 35) = '';
               return @records;
           });
    formed("record $n without an end",
           qr/a record is longer than the rest at byte \d+|is missing/,
           sub {
               my @records = map { state_record(@$_) } @_[0 .. $n];
               chop($records[$n]) if length $records[$n] > 36;
               return $n == $last ? @records[0 .. $n - 1] : @records;
           });

    for my $at (4, 8) {
        formed("a length of record $n at $at",
               qr/a record is longer than the rest at byte \d+/,
               sub {
                   my @records = map { state_record(@$_) } @_;
                   substr($records[$n], $at, 4) = "\xff\xff\xff\xff";
                   return @records;
               });
    }

    formed("record $n of no kind", qr/of kind 9 at byte \d+ is out of place/,
           sub {
               $_[$n][0] = 9;
               return map { state_record(@$_) } @_;
           });
}

formed('no records', qr/the end is missing at byte 40/, sub { () });
formed('no origin', qr/kind 2 at byte \d+ is out of place/,
       sub { map { state_record(@$_) } @_[1 .. $last] });
formed('two origins', qr/kind 1 at byte \d+ is out of place/,
       sub { map { state_record(@$_) } $_[0], @_ });
formed('a member of no set', qr/kind 3 at byte \d+ is out of place/,
       sub { map { state_record(@$_) } @_[0, 2 .. $last] });
formed('a set after a value', qr/kind 2 at byte \d+ is out of place/, sub {
    map { state_record(@$_) } $_[0], [4, 0, 0, 5, 0, '/v', 'x'],
                              @_[1 .. $last]
});
formed('an end in between', qr/there is more after its end/,
       sub { map { state_record(@$_) } $_[0], $_[$last], @_[1 .. $last] });
formed('a second end', qr/there is more after its end/,
       sub { map { state_record(@$_) } @_, $_[$last] });

# a valid checksum, but contents that this nginx cannot use

add('another version', qr/its version is 3, not 2/,
    sub { state_text(content($_[1], content => { version => 3 })) });
add('of version 0', qr/it is no state file/,
    sub { state_text(content($_[1], content => { version => 0 })) });
add('of another cluster', qr/it is of cluster "c0", not "c\d+"/, $whole);
forged('of another namespace', qr/it is of namespace "\/team", not ""/,
       content => { namespace => '/team' });
add('of no namespace', qr/it is of namespace "", not "\/team"/,
    sub { state_text(content($_[1])) }, 'namespace /team;');
forged('a negative revision', qr/there is no valid revision at byte 40/,
       content => { revision => -1 });
forged('a set of no revision', qr/there is no valid revision at byte \d+/,
       set => { revision => -1 });
forged('a broken address', qr/key "\/m\/2": address "x" has no port/,
       member => { address => 'x' });
forged('no address', qr/key "\/m\/2": address "" is empty/,
       member => { address => '' });
forged('an address that is not allowed',
       qr/key "\/m\/2": address "10.0.0.1:80" is not allowed by etcd_allow/,
       member => { address => '10.0.0.1:80' });
forged('a host name for an address', qr/key "\/m\/2": address "web:80" is a/,
       member => { address => 'web:80' });

for (['weight', 0], ['weight', 65536], ['max_fails', 1 << 31],
     ['max_conns', 1 << 31], ['fail_timeout', 2147484],
     ['slow_start', 2147483001], ['priority', 65536])
{
    my ($name, $value) = @$_;

    forged("$name $value", qr/key "\/m\/2": $name is not what a member has/,
           member => { $name => $value });
}

forged('a route with a blank', qr/"\/m\/2": route is not what a member has/,
       member => { route => 'a b' });
forged('a long route', qr/"\/m\/2": route is not what a member has/,
       member => { route => 'x' x 33 });
forged('a short member', qr/"\/m\/2": length is not what a member has/,
       member => { data => 'x' x 31 });
forged('a long member', qr/"\/m\/2": length is not what a member has/,
       member => { data => State::member_data(member()) . 'x' });
forged('no key', qr/a key has 0 bytes/, member => { key => '' });
forged('a long key', qr/a key has 32769 bytes/,
       member => { key => 'x' x 32769 });
forged('a host without a port', qr/host is not what a member has/,
       member => { host => 'web.test', whole_weight => 1 });
forged('a host without a weight', qr/host is not what a member has/,
       member => { host => 'web.test', port => 80 });
forged('a host of no name', qr/host is not what a member has/,
       member => { host => '', port => 80, whole_weight => 1 });
forged('a long host', qr/host is not what a member has/,
       member => { host => 'x' x 254, port => 80, whole_weight => 1 });
forged('an address of a host that is not allowed', qr/is not allowed by etcd/,
       member => { host => 'web', port => 80, whole_weight => 1,
                   address => '10.0.0.1:80' });
forged('a member of no revision', qr/there is no valid revision at byte \d+/,
       member => { mod_revision => -1 });
forged('a member of no first revision', qr/is no valid revision at byte \d+/,
       member => { create_revision => -1 });
forged('more than the zone holds', qr/the "zone" is too small for its members/,
       members => [ map { member(key => "/m/$_",
                                 address => '127.1.' . ($_ >> 8) . '.'
                                            . ($_ & 255) . ':80') }
                    1 .. 3000 ]);
forged('a value of no revision', qr/there is no valid revision at byte \d+/,
       content => { values => [ value(mod_revision => -1) ] });
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
       set => { name => 'gone' }, members => [ member() ]);


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
    my $members = grep { $_->{state} ne 'shadowed' }
                  @{ $upstreams->{$name}{members} };
    my @lines = @{ $said{$name} // [] };

    if (!defined $reason) {
        is(scalar(@lines), 0, "$what: no complaint");
        is($members, $what =~ /\bone\b/ ? 1 : 0, "$what: its members");
        next;
    }

    is($members, 0, "$what: not used");
    is(scalar(@lines), 1, "$what: one message") or next;
    is($lines[0]{path} =~ s/json$/state/r, $case->{path},
       "$what: names the file");
    like($lines[0]{reason}, $reason, "$what: says why");
}

is($nginx->get('/to/c0')->{body}, 'one', 'requests are served');

# No file was replaced: nothing better is known.

ok($nginx->quit(), 'nginx quits');

my ($edited) = grep { $_->{what} eq 'edited by hand' } @cases;

open(my $in, '<', $edited->{path}) or die "open $edited->{path}: $!\n";
is(do { local $/; <$in> }, $whole =~ s/127\.0\.0\.1/127.0.0.2/r,
   'what was refused is left as it was');

finish();
