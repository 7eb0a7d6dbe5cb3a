#!/usr/bin/perl

# One election with candidates other than nginx: etcdctl, keys that dead
# candidates have left, and keys that are no candidates at all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Becomes;
use Election;
use Etcd;
use Finish;
use Nginx;
use Turns;
use Wait;

use constant TTL => 5;

my $name = '/elections/ingress';
my $etcd = Etcd->new()->start();
my $election = Election->new($etcd, $name);

my $nginx = Nginx->new(etcd => $etcd)->start(Turns::CONFIG);


sub candidates { scalar(my @all = $election->candidates) }


# A line of the log that has the pattern comes once.

sub says_once {
    my ($pattern) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_for { $nginx->count_log($pattern) } 10, 'the log';
    $nginx->logs($pattern, 1, 'that is said once');
}


Turns::take($etcd, $nginx, $name, 'etcdctl');

# A dead candidate has left a key: it leads up to its TTL.

$nginx->stop();
ok(wait_for(sub { candidates() == 0 }, 5), 'nobody is a candidate');

my $dead = $etcd->grant(TTL);

$etcd->put(sprintf('%s/%x', $name, $dead), 'dead', lease => $dead);
$nginx->start();

# nginx counts the TTL of the dead one from when it saw the key.

sub says_while_kept {
    $etcd->call('lease/keepalive', { ID => $dead });

    return $nginx->says;
}

ok(wait_for(sub { says_while_kept() eq 'dead:' && candidates() == 2 }, 10),
   'a dead one leads, and nginx campaigns');
stays { says_while_kept() } 'dead:', 'it leads on', 0.5;
$nginx->comes_to_say('nginx:1', 'and leads in the end', 20);

# keys that are no candidates

$etcd->put("$name/later", 'x');
stays { $nginx->says } 'nginx:1', 'a wrong key behind the leader', 0.3;
$etcd->revoke($election->leader->{lease});
$nginx->comes_to_say(':', 'a wrong key before all others: nobody leads');
ok(wait_for(sub { candidates() == 2 }, 5), 'nginx campaigns');
stays { $nginx->says } ':', 'but does not lead', 0.5;
says_once(qr{no leader: .*"/elections/ingress/later".*its name});
$etcd->del("$name/later");
$nginx->comes_to_say('nginx:1', 'it is gone: nginx leads');

$etcd->txn([put => "$name/12ab", 'x'], [put => "$name/12ac", 'y']);
stays { $nginx->says } 'nginx:1', 'two keys of one txn behind the leader', 0.3;
$etcd->revoke($election->leader->{lease});
$nginx->comes_to_say(':', 'before all others: nobody leads');
ok(wait_for(sub { candidates() == 3 }, 5), 'nginx campaigns');
stays { $nginx->says } ':', 'but does not lead', 0.5;
says_once(qr/there is no leader.*has its create revision/);
$etcd->del("$name/12ac");
$nginx->comes_to_say('x:', 'one is deleted: the other one leads');
$etcd->put("$name/12ab", 'x' x 4096);
$nginx->comes_to_say('x' x 4096 . ':', 'with a long value');
$etcd->put("$name/12ab", 'x' x 4097);
$nginx->comes_to_say(':', 'or one that is too long');
says_once(qr/there is no leader.*too long/);
$etcd->put("$name/12ab", '');
stays { $nginx->says } ':', 'or none', 0.3;
is(Election->view($nginx, 'ingress')->{leader}, '', 'which the status shows');
$etcd->del("$name/12ab");
$nginx->comes_to_say('nginx:1', 'it is gone: nginx leads');

# Names of decimal digits, as npm's etcd3 puts them: the key's own lease tells
# them from names of hexadecimal digits.

my $own = $etcd->grant(600);
my $other = $etcd->grant(600);

$etcd->put("$name/$own", 'other', lease => $other);
$etcd->revoke($election->leader->{lease});
$nginx->comes_to_say(':',
                     'the name of another lease than its own: nobody leads');
says_once(qr{no leader: .*"/elections/ingress/$own".*its name});
$etcd->del("$name/$own");
$nginx->comes_to_say('nginx:1', 'it is gone: nginx leads');

$etcd->put("$name/$own", 'decimal', lease => $own);
stays { $nginx->says } 'nginx:1', 'a decimal lease behind the leader', 0.3;
$etcd->revoke($election->leader->{lease});
$nginx->comes_to_say('decimal:', 'a decimal lease leads');
ok(wait_for(sub { candidates() == 2 }, 5), 'nginx campaigns');
$etcd->revoke($own);
$nginx->comes_to_say('nginx:1', 'and nginx after it');

# 12345678 in hexadecimal digits would be another lease

my $short = $etcd->call('lease/grant', { TTL => 600, ID => 12345678 })->{ID};

$etcd->call('lease/grant', { TTL => 600, ID => hex($short) });
$etcd->put("$name/$short", 'short', lease => $short);
$etcd->revoke($election->leader->{lease});
$nginx->comes_to_say('short:', 'a short one leads');
$etcd->revoke(hex($short));
stays { $nginx->says } 'short:',
    'whatever becomes of the lease that it might be', 0.5;
$etcd->revoke($short);
$nginx->comes_to_say('nginx:1', 'until its own one is gone');

$nginx->expect(qr/there is no leader: the first candidate/);

# compaction while nginx is away from etcd

$etcd->freeze();
$etcd->thaw();
$etcd->put('/elsewhere', $_) for 1 .. 10;
$etcd->compact();
stays { $nginx->says } 'nginx:1', 'compacted', 1;

finish();
