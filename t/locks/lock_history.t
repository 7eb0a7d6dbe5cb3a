#!/usr/bin/perl

# The judge of locks finds all faults in invented histories, and in a real one
# of registers without a lock.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Contenders;
use Finish;
use LockHistory;
use Nginx;
use Register;
use Served;
use Wait;

use constant LATE => 0.5;

# [WHAT, REQUEST, TOKEN or VALUE]: each event is a second after the one before.

sub events {
    my $at = 100;

    return map {
        my ($what, $request, $number, $after) = @$_;

        $at += $after // 1;

        { what => $what, at => $at, register => 'r', request => $request,
          $what eq 'enter' ? (token => $number, read => $_->[4] // 0)
          : $what eq 'write' ? (wrote => $number)
          : $what eq 'read' ? (read => $number) : (token => $number) };
    } @_;
}


# NAME => STATUS; the nginx is the number in the name, else the first one; names
# that begin with "reader" are those of requests that only read

sub requests {
    my (%status) = @_;

    return map {
        { what => 'request', request => $_, register => 'r',
          nginx => /(\d)$/ ? $1 : 0, sent => 100, arrived => 200,
          status => $status{$_}, left => 0,
          reads => /^reader/ ? 1 : 0 };
    } sort keys %status;
}


sub history {
    my ($events, $status, %options) = @_;

    return LockHistory->new(
        events   => [events(@$events)],
        requests => [requests(%$status)],
        late     => LATE,
        %options,
    );
}


sub finds {
    my ($what, $wanted, $name, @history) = @_;

    my @found = history(@history)->$what('r');

    like(join("\n", @found), $wanted ? qr/$wanted/ : qr/^$/, "$what: $name");
}


my @turns = (['enter', 'a', 5, 1, 0], ['write', 'a', 1],
             ['enter', 'b', 6, 1, 1], ['write', 'b', 2]);
my %fine = (a => 200, b => 200);

finds($_, undef, 'one after the other', \@turns, \%fine)
    for qw(lost_updates overlaps tokens stale);

# updates

my @both = (['enter', 'a', 5, 1, 0], ['enter', 'b', 6, 1, 0],
            ['write', 'a', 1], ['write', 'b', 1]);

finds('lost_updates', 'b read 0, and wrote 1 over 1', 'two read the same',
      \@both, \%fine);
finds('lost_updates', 'b read 0, and wrote 1 over 1', 'or one that was cut',
      \@both, { a => 503, b => 200 });
finds('lost_updates', undef, 'one was refused',
      [@both[0, 1], ['refused', 'a', 5], ['write', 'b', 1]], \%fine);
finds('lost_updates', 'c read 0, and wrote 1 over 2', 'later ones',
      [['enter', 'c', 4, 1, 0], @turns, ['write', 'c', 1]],
      { %fine, c => 200 });

# overlaps

my @disturbed = (disturbed => [[0, 101, 102]]);

finds('overlaps', 'a at 101.000 with 5 b at 102.000 with 6', 'two inside',
      \@both, \%fine);
finds('overlaps', 'a at .* b at', 'one was cut, but stayed inside',
      \@both, { a => 503, b => 200 });
finds('overlaps', undef, 'one had been cut before the other came',
      [$both[0], ['gone', 'a', 5], @both[1 .. 3]], { a => 503, b => 200 });
finds('overlaps', undef, 'or soon after',
      [@both[0, 1], ['gone', 'a', 5, LATE / 2], @both[2, 3]],
      { a => 503, b => 200 });
finds('overlaps', 'a at .* b at', 'or late',
      [@both[0, 1], ['gone', 'a', 5, LATE * 2], @both[2, 3]],
      { a => 503, b => 200 });
finds('overlaps', undef, 'late, in an nginx that was stopped',
      [@both[0, 1], ['gone', 'a', 5, LATE * 2], @both[2, 3]],
      { a => 503, b => 200 }, @disturbed);
finds('overlaps', 'a at .* b at', 'stopped, but not cut', \@both, \%fine,
      @disturbed);
finds('overlaps', undef, 'its key was taken away at its end', \@both, \%fine,
      disturbed => [[undef, 101, 103]], taken => [[101, 103]]);
finds('overlaps', 'a at .* b at', 'and it went on', \@both, \%fine,
      disturbed => [[undef, 101, 102]], taken => [[101, 102]]);
finds('overlaps', undef, 'all were disturbed', \@both,
      { a => 503, b => 200 }, disturbed => [[undef, 101, 102]]);
finds('overlaps', 'a1 at .* b at', 'another one was stopped',
      [['enter', 'a1', 5], ['enter', 'b', 6]], { a1 => 503, b => 200 },
      @disturbed);
finds('overlaps', 'a at .* b at', 'it was stopped later', \@both,
      { a => 503, b => 200 }, disturbed => [[0, 102.5, 103]]);
finds('overlaps', undef, 'it came in when it was stopped, and was cut',
      [['enter', 'b2', 6], ['enter', 'a', 5], ['gone', 'a', 5]],
      { a => 503, b2 => 200 }, @disturbed);
finds('overlaps', 'b at .* a at', 'it came in and left of its own',
      [['enter', 'b', 6], ['enter', 'a', 5], ['gone', 'a', 5, LATE / 2]],
      { a => 0, b => 200 });

my @pair = (permits => { r => 2 });

finds('overlaps', undef, 'two with two permits', \@both, \%fine, @pair);
finds('overlaps', 'a at .* b at .* c at', 'three with two permits',
      [@both[0, 1], ['enter', 'c', 7]], { %fine, c => 200 }, @pair);
finds('overlaps', undef, 'three with two permits, one being gone',
      [$both[0], ['gone', 'a', 5], $both[1], ['enter', 'c', 7]],
      { %fine, a => 503, c => 200 }, @pair);

# tokens

sub tokens { map { (['enter', @$_], ['write', $_->[0], 1]) } @_ }

finds('tokens', 'back: a at .* with 6 b at .* with 5', 'it goes back',
      [tokens(['a', 6], ['b', 5])], \%fine);
finds('tokens', 'twice: a at .* with 5 b at .* with 5', 'twice the same',
      [tokens(['a', 5], ['b', 5])], \%fine);
finds('tokens', 'twice: a at .* a at', 'one request comes twice',
      [tokens(['a', 5], ['a', 5])], \%fine);
finds('tokens', 'none: b', 'none', [tokens(['a', 5], ['b', 0])], \%fine);
finds('tokens', undef, 'it goes back in a request that was cut',
      [tokens(['a', 6], ['b', 5], ['c', 7])], { a => 200, b => 503, c => 200 });
finds('tokens', undef, 'the order of two with two permits',
      [tokens(['a', 6], ['b', 5])], \%fine, @pair);
finds('tokens', 'twice', 'twice the same with two permits',
      [tokens(['a', 5], ['b', 5])], \%fine, @pair);

# requests that only read

my %readers = (%fine, reader => 200, reader_b => 200);
my @reading = (['enter', 'reader', 5], ['enter', 'reader_b', 5],
               ['read', 'reader', 0], ['read', 'reader_b', 0]);

finds($_, undef, 'two that read', \@reading, \%readers)
    for qw(lost_updates overlaps tokens stale);
finds('overlaps', 'reader at .* reader_b at .* a at', 'one that writes comes',
      [@reading[0, 1], ['enter', 'a', 6]], \%readers);
finds('overlaps', 'reader_b at .* a at', 'before the last has left',
      [@reading[0 .. 2], ['enter', 'a', 6]], \%readers);
finds('overlaps', undef, 'when they have left', [@reading, ['enter', 'a', 6]],
      \%readers);
finds('overlaps', 'a at .* reader at', 'one that reads comes to that',
      [['enter', 'a', 5], ['enter', 'reader', 6]], \%readers);
finds('overlaps', undef, 'one that writes was cut, two that read go on',
      [['enter', 'a', 4], ['enter', 'reader', 5], ['gone', 'a', 4, LATE / 2],
       @reading[1 .. 3]], { %readers, a => 503 });
finds('overlaps', 'reader at .* a at', 'one that reads was cut late',
      [$reading[0], ['enter', 'a', 6], ['gone', 'reader', 5, LATE * 2]],
      { %readers, reader => 503 });
finds('tokens', undef, 'two that read have different ones',
      [['enter', 'reader', 6], ['enter', 'reader_b', 5]], \%readers);
finds('tokens', 'back: a at .* with 6 reader at .* with 5',
      'that of one that reads goes back',
      [['enter', 'a', 6], ['enter', 'reader', 5]], \%readers);
finds('tokens', 'back: reader at .* with 6 a at .* with 5',
      'or that of one that writes after it',
      [['enter', 'reader', 6], ['enter', 'a', 5]], \%readers);
finds('tokens', 'twice: reader at .* with 5 a at .* with 5',
      'one that writes has that of one that reads',
      [['enter', 'reader', 5], ['enter', 'a', 5]], \%readers);

# refusals

my @stale = (['enter', 'a', 5], ['enter', 'b', 6], ['refused', 'a', 5]);

finds('stale', 'a at', 'it was refused', \@stale, { a => 409, b => 200 });
finds('stale', undef, 'it was refused, and cut', \@stale,
      { a => 503, b => 200 });
finds('stale', undef, 'it was refused in an nginx that was stopped', \@stale,
      { a => 409, b => 200 }, @disturbed);

# answers

sub unanswered {
    my ($status, $error, %options) = @_;

    my ($request) = requests(a => $status);

    return scalar(LockHistory->new(requests => [{ %$request, error => $error,
                                                  %{ $options{more} // {} } }],
                                   %options)->unanswered);
}

is(unanswered($_), 0, "unanswered: $_ is an answer")
    for 200, 409, 423, 503, 504;
is(unanswered($_), 1, "unanswered: $_ is none") for 0, 404, 500, 502;
is(unanswered(0, 'closed'), 1, 'unanswered: it was closed');
is(unanswered(0, 'closed', killed => [[0, 150, 151]]), 0,
   'unanswered: its nginx was killed');
is(unanswered(0, 'closed', killed => [[1, 150, 151]]), 1,
   'unanswered: another one was killed');
is(unanswered(0, 'closed', killed => [[0, 250, 251]]), 1,
   'unanswered: it was killed later');
is(unanswered(0, 'timeout', killed => [[0, 150, 151]]), 1,
   'unanswered: it hangs');
is(unanswered(0, 'timeout', more => { left => 1 }), 0,
   'unanswered: the client left');

# clients that leave, and time-outs: nginx keeps the lock

my @abandoned = ($both[0], ['gone', 'a', 5], ['enter', 'b', 6, 1, 0],
                 ['write', 'a', 1], ['write', 'b', 1]);
my @left = map { +{ %$_, $_->{request} eq 'a' ? (left => 1) : () } }
           requests(a => 0, b => 200);


sub overlaps {
    my ($requests, %options) = @_;

    return join("\n", LockHistory->new(
        events => [events(@abandoned)], requests => $requests, late => LATE,
        %options)->overlaps('r'));
}


like(overlaps(\@left), qr/^left: a at .* b at/, 'overlaps: the client left');
like(overlaps([requests(a => 504, b => 200)]), qr/^left: a at/,
     'overlaps: it timed out');
is(overlaps([requests(a => 503, b => 200)]), '', 'overlaps: it was cut');
is(overlaps(\@left, lost => [[0, 101, 102]]), '',
   'overlaps: the client left, but the lock was lost');
is(overlaps(\@left, killed => [[0, 101, 102]]), '',
   'overlaps: the client left, but the worker was killed');
like(overlaps(\@left, lost => [[1, 101, 102]]), qr/^left/,
     'overlaps: another one lost its lock');
like(join('', history(\@both, \%fine)->overlaps('r')), qr/^succeeded:/,
     'overlaps: all succeeded');
like(join('', history(\@both, { a => 503, b => 200 })->overlaps('r')),
     qr/^cut:/, 'overlaps: one was cut');

# checks of linearizability

sub explained {
    my ($wanted, $name, @history) = @_;

    my ($found) = history(@history)->unexplained('r');

    is(defined $found ? 0 : 1, $wanted, "linearizable: $name")
        or diag($found);
}


explained(1, 'one after another', \@turns, \%fine);
explained(0, 'not two inside', \@both, \%fine);
explained(1, 'two inside, but one was cut', \@both, { a => 503, b => 200 });
explained(1, 'two with two permits', \@both, \%fine, @pair);
explained(0, 'not a token that goes back', [tokens(['a', 6], ['b', 5])],
          \%fine);

# the times in which nobody is inside

my $foreign;

sub idle {
    my ($events, $requests, @within) = @_;

    my @times = LockHistory->new(events => [events(@$events)],
                                 requests => $requests, foreign => $foreign)
        ->idle('r', @within);

    return join(' ', map { join('-', map { sprintf('%.0f', $_) } @$_) } @times);
}


sub waits { map { { request => $_->[0], register => 'r', sent => $_->[1],
                    arrived => $_->[2], status => 200, nginx => 0 } } @_ }

# Request a is inside from 101 to 102, b from 105 to 106.

my @late = ($turns[0], $turns[1], ['enter', 'b', 6, 3, 1], $turns[3]);

is(idle(\@late, [waits(['a', 101, 102], ['b', 101, 106])], [100, 110]),
   '102-105', 'idle: a request waits');
is(idle(\@late, [waits(['a', 101, 102], ['b', 104, 106])], [100, 110]),
   '104-105', 'idle: since the request was sent');
is(idle(\@late, [waits(['a', 101, 102], ['b', 101, 106])], [103, 110]),
   '103-105', 'idle: since the time that counts');
is(idle(\@late, [waits(['a', 101, 102], ['b', 101, 106])], [100, 103],
        [104, 110]), '102-103 104-105', 'idle: in two times that count');
is(idle(\@late, [waits(['a', 101, 102], ['b', 101, 106], ['c', 104, 109])],
        [100, 110]), '102-105 106-109', 'idle: another one waits in vain');
is(idle(\@late, [waits(['a', 101, 102])], [100, 110]), '',
   'idle: nobody waits');

$foreign = qr/^g\d/;

is(idle(\@late, [waits(['a', 101, 102], ['b', 104, 106], ['g1-1', 101, 109])],
        [100, 110]), '104-105', 'idle: a program that waits does not count');

undef $foreign;

# Requests that read are inside from 101 to 103, and from 102 to 104.

is(idle([@reading, ['enter', 'a', 6, 2]],
        [waits(['reader', 100.5, 103], ['reader_b', 100.5, 104],
               ['a', 100.5, 106])], [101, 110]),
   '104-106', 'idle: since the last one that reads has left');

# registers without a lock that keeps clients apart

my $registers = Register->start(open => 0, fenced => 1, ends => 0,
                                silent => 0);
my $nginx = Nginx->new(modules => [])
    ->set(REGISTER => $registers->address, MANY => '# held ' x 100)
    ->start(<<'EOF_CONFIG');

http {
    map $msec $token {
        ~^(?<s>\d+)\.(?<ms>\d+)$ $s$ms;
    }

    server {
        listen 127.0.0.1:%%PORT%%;

        location / {
            proxy_pass http://%%REGISTER%%;
            proxy_set_header X-Token $token;
        }

        location /ends {
            return 200 "token 5\n# held 9.000\n";
        }

        # some bytes, and nothing for a second: longer than the lock lasts

        location /silent {
            limit_rate 100;
            return 200 "token 5\n# held 0.500\n%%MANY%%\n";
        }
    }
}

EOF_CONFIG

my $contenders = Contenders->start([$nginx], ['open', 'fenced'],
                                   clients => 6, long => 0.2,
                                   shared => ['open']);

my %enough = (write => 300, read => 100, gone => 2, refused => 5);

ok(wait_for(sub { !grep { $registers->count($_) < $enough{$_} } keys %enough },
            30), 'clients of registers without a lock');
ok($contenders->end(), 'they end');

my $seen = LockHistory->new(events   => [$registers->history],
                            requests => [$contenders->history]);

cmp_ok(scalar($seen->lost_updates('open')), '>', 3, 'lost updates are found');
cmp_ok(scalar($seen->overlaps('open')), '>', 3, 'so are two inside');
cmp_ok(scalar($seen->tokens('open')), '>', 0, 'and tokens');
cmp_ok(scalar($seen->stale('fenced')), '>', 3, 'and refusals');
is(join("\n", $seen->unanswered), '', 'all were answered');

# clients that have the lock from nginx

for my $how (qw(ends silent)) {
    my $answer = Served::visit($nginx->port, $registers->port, 60, "/$how", '',
                               'X-Request' => $how, 'X-Stay' => 60);

    is($answer->{error}, 'the lock has ended', "served: it $how");
    is($answer->{status}, 503, 'the request is cut');
    ok(wait_for(sub { $registers->count('gone', $how) }, 20),
       'the register is left');
}

my $left = Served::visit($nginx->port, $registers->port, 0.01, '/silent', '',
                         'X-Request' => 'left', 'X-Stay' => 60);

is($left->{error}, 'timeout', 'served: no token came in time');
is($registers->count('enter', 'left'), 0, 'the register was not asked');

finish();
