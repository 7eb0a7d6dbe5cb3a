package Protobuf;

# Messages of etcd as bytes, for Fake and its --answer.
#
#     my $grant = answer_header() . field(2, VARINT, 99);
#     my $inner = field(3, BYTES, $message);

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(VARINT BYTES field answer_header);

use constant {
    VARINT => 0,
    BYTES  => 2,
};


sub varint {
    my ($n) = @_;

    return $n < 128 ? chr($n) : chr($n & 127 | 128) . varint($n >> 7);
}


sub field {
    my ($number, $type, $value) = @_;

    return varint($number << 3 | $type)
           . ($type == BYTES ? varint(length($value)) . $value
                             : varint($value));
}


# the header of the fake's other answers: cluster, member, revision, term

sub answer_header {
    my ($revision) = @_;

    return field(1, BYTES, field(1, VARINT, 0xfa4e) . field(2, VARINT, 1)
                           . field(3, VARINT, $revision // 101)
                           . field(4, VARINT, 2));
}


1;
