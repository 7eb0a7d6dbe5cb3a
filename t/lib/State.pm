package State;

# The text of a state file (src/agent/ngx_etcd_state.h), as a structure; the id
# is a text:
#
#     { version, cluster, namespace, cluster_id, revision,
#       sets => [ { name, stream, prefix, pattern, params, revision,
#                   held_until, members => [ { key, ... } ] } ],
#       values => [ { key, mod_revision, value } ] }
#
# saved_state(PATH) is that of a file, {} if there is none, or no complete one.
# state_text(STATE) is the text of a state; state_records(RECORD...) that of
# records of any kind, and state_record(...) is one of them.

use strict;
use warnings;

use Digest::SHA qw(sha1);
use Exporter 'import';

our @EXPORT = qw(saved_state state_text state_records state_record
                 state_members);

use constant MAGIC => 'nginx-etcd state';
use constant {
    ORIGIN => 1, SET => 2, MEMBER => 3, VALUE => 4, LAST => 5,
    STREAM => 1, GONE => 2, HELD => 4,
};

my @numbers = qw(weight max_fails max_conns fail_timeout slow_start priority);
my @flags = qw(down backup drain near ordered);
my $head = 'C C x2 N N Q> Q> Q>';


sub state_record {
    my ($kind, $flags, $created, $modified, $lease, $key, $data) = @_;

    return pack($head, $kind, $flags, length $key, length $data, $created,
                $modified, $lease) . $key . $data;
}


sub state_records {
    my ($version, @records) = @_;

    my $content = join('', @records);

    return MAGIC . pack('N', $version) . sha1($content) . $content;
}


sub member_data {
    my ($member) = @_;

    my $flags = 0;

    for my $n (0 .. $#flags) {
        $flags |= 1 << $n if $member->{$flags[$n]};
    }

    my @texts = map { $_ // '' } @$member{qw(address route host)};

    return pack('N6 C n n C3', (map { $_ // 0 } @$member{@numbers}), $flags,
                map({ $_ // 0 } @$member{qw(port whole_weight)}),
                map { length } @texts)
           . join('', @texts);
}


sub member_of {
    my ($data) = @_;

    my %member;
    my ($flags, @lengths);

    (@member{@numbers}, $flags, @member{qw(port whole_weight)}, @lengths)
        = unpack('N6 C n n C3', $data);

    $member{$flags[$_]} = $flags >> $_ & 1 for 0 .. $#flags;

    @member{qw(address route host)}
        = unpack("x32 a$lengths[0] a$lengths[1] a$lengths[2]", $data);

    return \%member;
}


sub state_text {
    my ($state) = @_;

    my $id = unpack('Q>', pack('H16', sprintf('%016s', $state->{cluster_id})));
    my @records = state_record(ORIGIN, 0, $id,
                               $state->{revision}, 0, $state->{cluster},
                               $state->{namespace});

    for my $set (@{ $state->{sets} }) {
        push @records, state_record(SET, $set->{stream} ? STREAM : 0,
            $set->{held_until} // 0, $set->{revision}, $set->{params},
            $set->{prefix},
            join("\0", $set->{name}, $set->{pattern} // ()));

        push @records, map {
            state_record(MEMBER,
                         ($_->{gone} ? GONE : 0) | ($_->{held} ? HELD : 0),
                         $_->{create_revision}, $_->{mod_revision},
                         $_->{lease} // 0, $_->{key},
                         $_->{data} // member_data($_))
        } @{ $set->{members} };
    }

    push @records, map {
        state_record(VALUE, 0, 0, $_->{mod_revision}, 0, $_->{key},
                     $_->{value})
    } @{ $state->{values} // [] };

    return state_records($state->{version} // 2, @records,
                         state_record(LAST, 0, 0, 0, 0, '', ''));
}


# The records of a text, each as a list like the parameters of state_record().

sub records {
    my ($rest) = @_;

    my @records;

    while (length $rest >= 36) {
        my ($kind, $flags, $key, $data, @numbers) = unpack($head, $rest);

        length $rest >= 36 + $key + $data or last;

        push @records, [$kind, $flags, @numbers,
                        substr($rest, 36, $key),
                        substr($rest, 36 + $key, $data)];
        $rest = substr($rest, 36 + $key + $data);
    }

    return @records;
}


sub saved_state {
    my ($path) = @_;

    open(my $in, '<:raw', $path) or return {};
    my $text = do { local $/; <$in> } // '';

    my ($magic, $version, $sum, $content) = unpack('a16 N a20 a*', $text);

    $magic eq MAGIC && $sum eq sha1($content) or return {};

    my %state = (version => $version, sets => [], values => []);

    for (records($content)) {
        my ($kind, $flags, $created, $modified, $lease, $key, $data) = @$_;

        if ($kind == ORIGIN) {
            @state{qw(cluster namespace revision)} = ($key, $data, $modified);
            $state{cluster_id} = sprintf('%x', $created);

        } elsif ($kind == SET) {
            my ($name, $pattern) = split(/\0/, $data, 2);

            push @{ $state{sets} }, {
                name => $name, pattern => $pattern, prefix => $key,
                stream => $flags & STREAM, held_until => $created,
                revision => $modified, params => $lease, members => [],
            };

        } elsif ($kind == MEMBER) {
            push @{ $state{sets}[-1]{members} }, {
                key => $key, create_revision => $created,
                mod_revision => $modified, lease => $lease,
                gone => ($flags & GONE) != 0, held => ($flags & HELD) != 0,
                %{ member_of($data) },
            };

        } elsif ($kind == VALUE) {
            push @{ $state{values} }, {
                key => $key, mod_revision => $modified, value => $data,
            };
        }
    }

    return \%state;
}


# The members of all sets of a file.

sub state_members {
    my ($path) = @_;

    return map { @{ $_->{members} } } @{ saved_state($path)->{sets} // [] };
}


1;
