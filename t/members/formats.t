#!/usr/bin/perl

# Every value format, from a real etcd to the members that etcd_status shows and
# to the backends that answer; formats of other systems as these write them
# (t/formats/).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Backend;
use Corpus;
use Etcd;
use Finish;
use Nginx;
use Source;
use Upstream;

use constant {
    AGAIN     => 5,
    PAGE      => 4096,              # of the zone
    NOT_NAMED => 'is a host name, and there is no "resolver" in the "etcd" '
                 . 'block',
    NO_PORT   => 'has a port that is not an integer from 1 to 65535',
    NO_COUNT  => 'is not an integer from 0 on; its default is used',
    NO_SHAPE  => 'has no address, host or Addr, and the last segment of the '
                 . 'key is no address',
};

# Below /FORMAT/: [KEY, VALUE, 'ADDRESS WEIGHT STATE'], and maybe what is not
# used of the value; or a reference to the reason for which it is no member, or
# nothing if the key belongs to something else.

my @plain = (
    ['v4', '10.1.0.1:8080', '10.1.0.1:8080 1 up'],
    ['highest', '10.1.0.2:65535', '10.1.0.2:65535 1 up'],
    ['lowest', '10.1.0.2:1', '10.1.0.2:1 1 up'],
    ['space', " \t10.1.0.3:8080\r\n", '10.1.0.3:8080 1 up'],
    ['v6', '[fd00::1]:8080', '[fd00::1]:8080 1 up'],
    ['v6-long', '[fd00:0:0:0::0002]:08080', '[fd00::2]:8080 1 up'],
    ['v6-mapped', '[::ffff:10.1.0.4]:80', '[::ffff:10.1.0.4]:80 1 up'],
    ['unix', 'unix:/run/plain.sock', 'unix:/run/plain.sock 1 up'],
    ['a/b/c', '10.1.0.5:80', '10.1.0.5:80 1 up'],
    ["caf\xc3\xa9", '10.1.0.6:80', '10.1.0.6:80 1 up'],
    ['directory/', ''],
    ['name', 'localhost:80', \('address "localhost:80" ' . NOT_NAMED)],
    ['no-port', '10.1.0.7', \'address "10.1.0.7" has no port'],
    ['port-0', '10.1.0.7:0', \('address "10.1.0.7:0" ' . NO_PORT)],
    ['port-65536', '10.1.0.7:65536', \('address "10.1.0.7:65536" ' . NO_PORT)],
    ['octal', '010.1.0.7:80', \'address "010.1.0.7:80" is not an IP address'],
    ['any', '0.0.0.0:80', \'address "0.0.0.0:80" is the unspecified address'],
    ['colons', '::1:80', \('address "::1:80" has several colons; an IPv6 '
                           . 'address needs brackets')],
    ['url', 'http://10.1.0.7:80',
     \'address "http://10.1.0.7:80" is a URL, not an address and a port'],
    ['relative', 'unix:run', \'address "unix:run" has no absolute path'],
);

my @key = (
    ['10.2.0.1:8080', '', '10.2.0.1:8080 1 up'],
    ['10.2.0.2:8080', '{"weight":7}', '10.2.0.2:8080 1 up'],
    ['10.2.0.3:8080', "any\0thing \xff", '10.2.0.3:8080 1 up'],
    ['[fd00::3]:80', 'x', '[fd00::3]:80 1 up'],
    ['%5Bfd00%3A%3a4%5D%3A80', 'x', '[fd00::4]:80 1 up'],
    ['unix%3A%2Frun%2Fkey.sock', 'x', 'unix:/run/key.sock 1 up'],
    ['zone-a/10.2.0.4:80', 'x', '10.2.0.4:80 1 up'],
    ['zone-b/', ''],
    ['10.2.0.5', 'x', \'last segment of the key "10.2.0.5" has no port'],
    ['web:80', 'x', \('last segment of the key "web:80" ' . NOT_NAMED)],
    ['10.2.0.6%3', 'x',
     \'last segment of the key "10.2.0.6%3" has an invalid percent-encoding'],
);

# "weight" is that of a member without one, where 0 is "none" or drains it

sub json_values {
    my ($net, $weight, $none) = @_;

    my $at = sub { "{\"address\":\"$net.$_[0]:80\",$_[1]}" };
    my $w = $weight // 1;
    my $zero = $none ? "$w up" : "$w drained";

    return (
        ['weight', $at->(1, '"weight":65535'), "$net.1:80 65535 up"],
        ['down', $at->(2, '"down":true'), "$net.2:80 $w down"],
        ['down-1', $at->(3, '"down":1'), "$net.3:80 $w down"],
        ['not-down', $at->(4, '"down":0'), "$net.4:80 $w up"],
        ['backup', $at->(5, '"backup":true'), "$net.5:80 $w backup"],
        ['drain', $at->(6, '"drain":true'), "$net.6:80 $w drained"],
        ['weight-0', $at->(7, '"weight":0'), "$net.7:80 $zero"],
        ['both', $at->(8, '"drain":false,"weight":0'), "$net.8:80 $zero"],
        ['rest', $at->(9, '"max_fails":0,"fail_timeout":"1m","max_conns":7,'
                          . '"slow_start":"500ms"'), "$net.9:80 $w up"],
        ['seconds', $at->(10, '"fail_timeout":5,"slow_start":0'),
         "$net.10:80 $w up"],
        ['unknown', $at->(11, '"zone":"b","tags":{"a":[1,null]}'),
         "$net.11:80 $w up"],
        ['weight-text', $at->(12, '"weight":"7"'), "$net.12:80 7 up"],
        ['weight-real', $at->(13, '"weight":7.0'), "$net.13:80 7 up"],
        ['weight-exponent', $at->(14, '"weight":1e1'), "$net.14:80 10 up"],
        ['weight-null', $at->(15, '"weight":null'), "$net.15:80 $w up"],
        ['flag-2', $at->(16, '"down":2'), "$net.16:80 $w down"],
        ['flag-text', $at->(17, '"drain":"true"'), "$net.17:80 $w drained"],
        ['flag-yes', $at->(18, '"backup":"Yes"'), "$net.18:80 $w backup"],
        ['flag-no', $at->(19, '"down":"false"'), "$net.19:80 $w up"],
        ['flag-null', $at->(20, '"drain":null'), "$net.20:80 $w up"],
        ['mark', "\xef\xbb\xbf" . $at->(21, '"weight":2') . "\n",
         "$net.21:80 2 up"],
        ['beyond', $at->(22, '"id":18446744073709551615'), "$net.22:80 $w up"],
        unusable_values($net, $w),
        ['number', '{"address":80}', \'address 80 is not a string'],
    );
}

# an attribute that cannot be used does not cost the member

sub unusable_values {
    my ($net, $w) = @_;

    my $at = sub { "{\"address\":\"$net.$_[0]:80\",$_[1]}" };
    my $soon = 'fail_timeout "soon" is not a time like "10s" or a number of '
               . 'seconds; its default is used';

    return (
        ['weight-word', $at->(31, '"weight":"heavy"'), "$net.31:80 $w up",
         'weight "heavy" ' . NO_COUNT],
        ['weight-big', $at->(32, '"weight":2147483648'), "$net.32:80 65535 up",
         'weight 2147483647 is greater than 65535, which is used'],
        ['weight-part', $at->(33, '"weight":1.5'), "$net.33:80 $w up",
         'weight 1.5 ' . NO_COUNT],
        ['flag', $at->(34, '"down":"maybe"'), "$net.34:80 $w down",
         'down "maybe" is not true or false; it counts as set'],
        ['time', $at->(35, '"fail_timeout":"soon"'), "$net.35:80 $w up",
         $soon],
        ['conns', $at->(36, '"max_conns":-1,"max_fails":{},'
                            . '"fail_timeout":"soon"'), "$net.36:80 $w up",
         'max_conns -1 ' . NO_COUNT . '; and 2 more'],
    );
}

sub host_values {
    my ($net) = @_;

    return (
        ['host', "{\"host\":\"$net.1\",\"port\":80}", "$net.1:80 1 up"],
        ['text', "{\"host\":\"$net.2\",\"port\":\"80\"}", "$net.2:80 1 up"],
        ['host6', '{"host":"fd00::5","port":80}', '[fd00::5]:80 1 up'],
        ['host6b', '{"host":"[fd00::6]","port":80}', '[fd00::6]:80 1 up'],
        ['alone', "{\"host\":\"$net.3\"}", \'port is missing'],
        ['port0', "{\"host\":\"$net.3\",\"port\":0}",
         \'port 0 is not an integer from 1 to 65535'],
        ['port6', "{\"host\":\"$net.3\",\"port\":65536}",
         \'port 65536 is not an integer from 1 to 65535'],
        ['hostname', '{"host":"web","port":80}', \('host "web" ' . NOT_NAMED)],
    );
}

my @json = (
    json_values('10.3.0'),
    host_values('10.3.1'),
    ['unix', '{"address":"unix:/run/json.sock"}', 'unix:/run/json.sock 1 up'],
    ['lines', "\n{\n\"address\":\n\"[fd00::7]:80\"\n}\n", '[fd00::7]:80 1 up'],
    ['preferred', '{"address":"10.3.2.1:80","host":"x"}', '10.3.2.1:80 1 up'],
    ['none', '{}', \'address is missing'],
    ['plain', '10.3.2.2:80', \'value "10.3.2.2:80" is not a JSON object'],
    ['array', '["10.3.2.2:80"]',
     \'value "[\"10.3.2.2:80\"]" is not a JSON object'],
);

my @grpc = (
    ['10.4.0.1:80', '{"Op":0,"Addr":"10.4.0.1:80","Metadata":null}',
     '10.4.0.1:80 1 up'],
    ['metadata', '{"Op":0,"Addr":"10.4.0.2:80","Metadata":{"weight":-1}}',
     '10.4.0.2:80 1 up'],
    ['v6', '{"Op":0,"Addr":"[fd00::8]:80"}', '[fd00::8]:80 1 up'],
    ['unix', '{"Addr":"unix:/run/grpc.sock"}', 'unix:/run/grpc.sock 1 up'],
    ['lower', '{"address":"10.4.0.3:80"}', \'Addr is missing'],
    ['number', '{"Addr":7}', \'Addr 7 is not a string'],
    ['name', '{"Addr":"svc.local:80"}', \('Addr "svc.local:80" ' . NOT_NAMED)],
);

my @kitex = (
    json_values('10.5.0', 10, 1),
    ['10.5.1.1:80', '{"network":"tcp","address":"10.5.1.1:80","weight":10,'
                    . '"tags":{}}', '10.5.1.1:80 10 up'],
    ['tcp6', '{"network":"tcp6","address":"[fd00::9]:80","tags":null}',
     '[fd00::9]:80 10 up'],
    ['negative', '{"network":"tcp","address":"10.5.1.3:80","weight":-3}',
     '10.5.1.3:80 10 up'],
    ['unix', '{"network":"unix","address":"/run/kitex.sock","weight":2}',
     'unix:/run/kitex.sock 2 up'],
    ['udp', '{"network":"udp","address":"10.5.1.2:80"}',
     \'network "udp" is not tcp or unix'],
    ['none', '{"network":"tcp"}', \'address is missing'],
);

my @upsync = (
    ['10.6.0.1:80', '{"weight":10,"max_fails":3,"fail_timeout":10,"down":0,'
                    . '"backup":0}', '10.6.0.1:80 10 up'],
    ['10.6.0.2:80', '', '10.6.0.2:80 1 up'],
    ['10.6.0.3:80', '{}', '10.6.0.3:80 1 up'],
    ['10.6.0.4:80', '{"down":1,"backup":1}', '10.6.0.4:80 1 down'],
    ['10.6.0.5:80', '{"backup":1}', '10.6.0.5:80 1 backup'],
    ['[fd00::10]:80', '{"weight":0}', '[fd00::10]:80 1 drained'],
    ['unix%3A%2Frun%2Fupsync.sock', '{"weight":4}',
     'unix:/run/upsync.sock 4 up'],
    ['10.6.0.6:80', '{"weight":-1}', '10.6.0.6:80 1 up',
     'weight -1 ' . NO_COUNT],
    ['10.6.0.7:80', 'hello', \'value "hello" is not a JSON object'],
    ['x', '{}', \'last segment of the key "x" has no port'],
);

# Each shape is told from the others.

my @auto = (
    ['plain', '10.7.0.1:80', '10.7.0.1:80 1 up'],
    ['plain6', '[fd00::11]:80', '[fd00::11]:80 1 up'],
    ['unix', 'unix:/run/auto.sock', 'unix:/run/auto.sock 1 up'],
    ['10.7.0.2:80', '', '10.7.0.2:80 1 up'],
    ['grpc', '{"Op":0,"Addr":"10.7.0.3:80","Metadata":null}',
     '10.7.0.3:80 1 up'],
    ['kitex', '{"network":"tcp","address":"10.7.0.4:80","weight":10}',
     '10.7.0.4:80 10 up'],
    ['kitex-unix', '{"network":"unix","address":"/run/auto2.sock"}',
     'unix:/run/auto2.sock 10 up'],
    ['network', '{"network":"vpc-1","address":"10.7.0.5:80"}',
     '10.7.0.5:80 1 up'],
    ['10.7.0.6:80', '{"weight":10,"down":0}', '10.7.0.6:80 10 up'],
    ['10.7.9.9:80', '{"address":"10.7.0.7:80"}', '10.7.0.7:80 1 up'],
    ['directory/', ''],
    json_values('10.7.1'),
    host_values('10.7.2'),
    ['hello', 'hello', \'address "hello" has no port'],
    ['empty', '', \'last segment of the key "empty" has no port'],
    ['shape', '{"weight":1}', \('value "{\"weight\":1}" ' . NO_SHAPE)],
);

my %formats = (
    plain  => \@plain,
    key    => \@key,
    json   => \@json,
    grpc   => \@grpc,
    kitex  => \@kitex,
    upsync => \@upsync,
    auto   => \@auto,
);

# Every attribute has a default, and a value's own attribute goes before it.

my @defaults = (
    ['none', '{"address":"10.8.0.1:80"}', '10.8.0.1:80 5 up'],
    ['own', '{"address":"10.8.0.2:80","weight":2}', '10.8.0.2:80 2 up'],
    ['drained', '{"address":"10.8.0.3:80","weight":0}',
     '10.8.0.3:80 5 drained'],
    ['plain', '10.8.0.4:80', '10.8.0.4:80 5 up'],
);

my $etcd = Etcd->new()->start();
my $nginx = Nginx->new(etcd => $etcd);
my ($one, $two) = Backend->start('one', 'two');

my @corpus = Corpus::all();

my %tried = map { $_ => 1 } keys %formats,
            map { (Corpus::words($_))[0] } @corpus;

for my $format (Source::strings('ngx_etcd_formats')) {
    ok(delete $tried{$format}, "there are values of $format, as in t/formats");
}

is(join(' ', sort keys %tried), '', 'there are values of formats only');

my $upstreams = join("\n", map { upstream($_, "/$_/", "format=$_") }
                           sort keys %formats)
                . join("\n", map { upstream("corpus-$_->{name}", $_->{prefix},
                                            Corpus::quoted($_)) } @corpus);


sub upstream {
    my ($name, $prefix, $parameters) = @_;

    return <<"EOF";

    upstream $name {
        etcd_members $prefix $parameters;
        etcd_allow unix: 0.0.0.0/0 ::/0;
    }

EOF
}


$nginx->start(<<'EOF' =~ s/UPSTREAMS/$upstreams/r);

worker_processes 1;

etcd {
    endpoints %%ETCD%%;
}

http {
    UPSTREAMS

    upstream defaults {
        etcd_members /defaults/ weight=5 max_fails=3 fail_timeout=1m
                     max_conns=100;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location ~ ^/to/(.*)$ {
            proxy_pass http://$1;
        }
    }

    server {
        listen [::1]:%%PORT_6%%;
        listen unix:%%DIR%%/socket;

        location / {
            return 200 $server_addr;
        }
    }
}

EOF


# all values of a format at once

sub check_values {
    my ($format, $rows) = @_;

    my (%members, %invalid);

    for (@$rows) {
        my ($key, $value, $wanted, $unused) = @$_;

        $key = "/$format/$key";
        utf8::decode($key);

        if (ref($wanted)) {
            $invalid{$key} = $$wanted;

        } elsif (defined $wanted) {
            $members{$key} = $wanted;
            defined $unused and $invalid{$key} = $unused;
        }
    }

    $etcd->txn(map { [put => "/$format/$_->[0]", $_->[1]] } @$rows);

    my $upstream = Upstream->new($nginx, $format);

    $upstream->shows(\%members, "$format: members of " . @$rows . ' values');
    $upstream->reports(\%invalid, "$format: the invalid ones of these");
}


for my $format (sort keys %formats) {
    check_values($format, $formats{$format});
}

check_values('defaults', \@defaults);


# A value may hold several members: they are told apart by their addresses.

sub check_corpus {
    my ($set) = @_;

    my (%members, %invalid);

    for my $entry (@{ $set->{entries} }) {
        my $key = $entry->{key};

        for (@{ $entry->{members} }) {
            my ($address, $weight, $state, $shown) = split(/ /);
            $members{$address} = join(' ', $shown // $key, $weight, $state);
        }

        if (defined $entry->{invalid}) {
            $invalid{$entry->{of} // $key} = $entry->{invalid};
        }
    }

    put_corpus($set);

    my $upstream = Upstream->new($nginx, "corpus-$set->{name}");
    my $n = @{ $set->{entries} };

    $upstream->shows_by_address(\%members,
                                "corpus: $set->{name}: members of $n values");
    $upstream->reports(\%invalid, "corpus: $set->{name}: the invalid ones");
}


sub put_corpus {
    my ($set) = @_;

    return $etcd->txn(map { [put => $_->{key}, $_->{value}] }
                      @{ $set->{entries} });
}


sub generations {
    return { map { $_->{name} => Upstream->new($nginx, "corpus-$_->{name}")
                                         ->generation } @corpus };
}


check_corpus($_) for @corpus;

# All values are put again: new revisions change nothing.

my $generations = generations();
my $used = $nginx->status->{zone}{used};

for (1 .. AGAIN) {
    for my $set (@corpus) {
        Upstream->new($nginx, "corpus-$set->{name}")->sees(put_corpus($set));
    }
}

is_deeply(generations(), $generations,
          'corpus: written again, nothing has changed');

# a report of an invalid value is written before the former one is freed

cmp_ok($nginx->status->{zone}{used}, '<=', $used + PAGE,
       'and nothing more is kept');

# backends by the member's address: two of IPv4, one of IPv6, one socket

my $socket = 'unix:' . $nginx->dir . '/socket';

my @live = (
    { address => $one->address, weight => 4, answer => 'one' },
    { address => $two->address, weight => 3, answer => 'two' },
    { address => '[::1]:' . $nginx->port('PORT_6'), weight => 2,
      answer  => '::1' },
    { address => $socket, weight => 1, answer => $socket },
);


sub encoded { return $_[0] =~ s{([/%])}{sprintf('%%%02X', ord($1))}ger }
sub json { return "{\"address\":\"$_[0]\",\"weight\":$_[1]}" }


sub kitex {
    my ($address, $weight) = @_;

    $address =~ /^unix:(.*)/ or return json($address, $weight);

    return "{\"network\":\"unix\",\"address\":\"$1\",\"weight\":$weight}";
}


# the key's last part and the value for an address and a weight

my %put = (
    auto   => sub { ("m$_[1]", json(@_)) },
    grpc   => sub { ("m$_[1]", "{\"Op\":0,\"Addr\":\"$_[0]\"}") },
    json   => sub { ("m$_[1]", json(@_)) },
    key    => sub { (encoded($_[0]), '') },
    kitex  => sub { ("m$_[1]", kitex(@_)) },
    plain  => sub { ("m$_[1]", $_[0]) },
    upsync => sub { (encoded($_[0]), "{\"weight\":$_[1]}") },
);

my %weighs = map { $_ => 1 } qw(auto json kitex upsync);

for my $format (sort keys %put) {
    my (@puts, %members, %answers);

    for my $live (@live) {
        my ($key, $value) = $put{$format}->(@$live{qw(address weight)});
        my $weight = $weighs{$format} ? $live->{weight} : 1;

        push @puts, [put => "/$format/$key", $value];
        $members{"/$format/$key"} = "$live->{address} $weight up";
        $answers{$live->{answer}} = $weighs{$format} ? 2 * $weight : 5;
    }

    $etcd->del_prefix("/$format/");
    $etcd->txn(@puts);

    Upstream->new($nginx, $format)->shows(\%members, "$format: live members");

    is_deeply($nginx->tally("/to/$format", 20), \%answers,
              "$format: each answers as often as its weight says");
}

finish();
