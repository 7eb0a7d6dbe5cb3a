#!/usr/bin/perl

# The status as a page, in a browser: its conditions and headers, its contents
# while members come and go; and keys and values of etcd stay text.  Of what it
# says of a state: page_view.t.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Browser;
use Etcd;
use Finish;
use Nginx;
use Process;
use Upstream;
use Wait;

use constant {
    MANY   => 10_000,
    BATCH  => 100,
    ROWS   => 50,
    SEARCH => 100,              # ms
    TAB    => "\x{E004}",
    ENTER  => "\x{E007}",

    # bytes: the page has what tells a state, its reason and its cause, the view
    # of a member, and lines of the last minutes; it is sent without comments
    # and indents, once for each time it is opened

    PAGE   => 60_000,

    SCRIPTS => 5,
};

my $evil = '<script>document.title = "run"</script>';
my $etcd = Etcd->new()->start();
my $one = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd);

$nginx->start(<<'EOF_CONFIG');

etcd {
    endpoints %%ETCD%%;
    election jobs /elections/jobs value=web1;
    zone 32m;
}

etcd away {
    endpoints 127.0.0.1:1;
    zone 512k;
}

http {
    upstream api {
        etcd_members /services/api/;
    }

    upstream many {
        etcd_members /services/many/;
    }

    upstream away {
        etcd_members /services/away/ cluster=away;
    }

    etcd_set $rate /flags/rate default=none;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status {
            etcd_status;
        }

        location /json {
            etcd_status json;
        }

        location /html {
            etcd_status html;
        }

        location /to {
            proxy_pass http://api;
        }
    }
}

EOF_CONFIG

my $api = Upstream->new($nginx, 'api');


# the type of the answer: the page, or JSON

sub type_of {
    my ($path, @accept) = @_;

    my $answer = $nginx->get($path, map { (Accept => $_) } @accept);

    return $answer->{headers}{'content-type'};
}

my $HTML = 'text/html; charset=utf-8';
my $JSON = 'application/json';
my $accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

is(type_of('/status'), $JSON, 'JSON, when nothing is said');
is(type_of('/status', '*/*'), $JSON, 'or anything is accepted');
is(type_of('/status', $accept), $HTML, 'a page for browsers');
is(type_of('/status', 'TEXT/HTML'), $HTML, 'in upper case, too');
is(type_of('/status', 'text/plain', 'text/html'), $HTML,
   'in the second of two headers');
is(type_of('/status', 'text/html;q=0, */*'), $JSON, 'q=0 refuses it');
is(type_of('/status', 'application/json, text/html ; level=1 ; q=0.9'), $JSON,
   'JSON is wanted more');
is(type_of('/status', 'application/json;q=0.5,text/html;q=0.51'), $HTML,
   'the page is');
is(type_of('/status', $_), $JSON, "Accept: $_")
    for '', ',', ';', 'text/html;q=', 'text/html;q=x', 'text/htmlx', 'text/';
is(type_of('/status?format=html'), $HTML, 'format=html');
is(type_of('/status?format=json', $accept), $JSON, 'format=json');
is($nginx->get('/status?format=htm', Accept => $accept)->{status}, 400,
   'a format there is not');
is(type_of('/json?format=html', $accept), $JSON, 'etcd_status json');
is(type_of('/html'), $HTML, 'etcd_status html');
is(type_of('/html?format=json'), $JSON, 'whose page has to ask for JSON');

my $page = $nginx->get('/html');
my $policy = $page->{headers}{'content-security-policy'};

is($page->{status}, 200, 'the page');
cmp_ok(length($page->{body}), '<', PAGE, 'is small');
is(scalar(() = $page->{body} =~ /(?:https?:)?\/\/\w+\./g), 1,
   'and names no other place, but for the name of SVG');
like($policy, qr/^default-src 'none'; script-src (?:'sha256-[^']+' ?)+; style-/,
     'Content-Security-Policy');
like($policy, qr/; \Q$_\E(?:;|$)/, $_)
    for "connect-src 'self'", "base-uri 'none'", "form-action 'none'",
        "frame-ancestors 'none'", "require-trusted-types-for 'script'";
unlike($policy, qr/unsafe/, 'which makes no exception');
is($page->{headers}{$_->[0]}, $_->[1], $_->[0])
    for ['x-content-type-options', 'nosniff'], ['cache-control', 'no-store'],
        ['referrer-policy', 'no-referrer'], ['vary', 'Accept'];
is($nginx->http->request('POST', '/html', 'x')->{status}, 405, 'POST: 405');

is($nginx->get('/html')->{body}, $page->{body}, 'it is always the same');


my ($status, $head) = run('curl', '-sI', 'http://127.0.0.1:' . $nginx->port
                          . '/html');

like($head, qr{^HTTP/1\.1 200 .*^Content-Security-Policy: }ms, 'HEAD: 200');
like($head, qr/\r\n\r\n\z/, 'without a body');


# in a browser

my $browser = Browser->start();
my $url = 'http://127.0.0.1:' . $nginx->port . '/status';

sub texts { $browser->texts(@_) }
sub text { $browser->text(@_) }
sub reads { $browser->reads(@_) }
sub count { scalar(texts(@_)) }

# Members that are up come by address: ours, and another.

sub up {
    my ($other) = @_;

    my $number = sub { join('.', map { sprintf('%05d', $_) } $_[0] =~ /\d+/g) };

    return sort { $number->($a) cmp $number->($b) } $one->address, $other;
}

sub up_place { (up($_[0]))[0] eq $_[0] ? 1 : 2 }

sub type_in {
    $browser->execute(<<'EOF_SCRIPT', @_);
const input = document.getElementById(arguments[0]);
input.value = arguments[1];
input.dispatchEvent(new Event('input'));
EOF_SCRIPT
}

# The page polls by itself every second; this call polls once, to its end.

sub poll { $browser->execute('return poll()') }

$etcd->put('/services/api/1', $one->address);
$api->sees($etcd->put('/services/api/2',
                      '{"address":"127.0.0.2:80","weight":7,"backup":true}'));
wait_for { $nginx->status->{elections}{jobs}{is_leader} } 10, 'a leader';

$browser->open($url);
reads('#members td.wide.some', 'api|api', 'members are shown');

reads('#clusters td.main', 'away|default', 'clusters');
reads('#clusters td:nth-child(2)', 'connecting|synced', 'their states');
is(text('#clusters td.list .code'), '127.0.0.1:1|' . $etcd->url,
   'and endpoints');
is(text('#upstreams td.main'), 'away|many|api', 'upstreams, the worst first');
is(text('#upstreams td:nth-child(2)'), 'down|down|ok', 'their states');
is(text('#upstreams td:nth-child(3)'), 'away /services/away/|'
   . 'default /services/many/|default /services/api/', 'and their prefixes');
is(text('#elections td:nth-child(-n+3)'), 'jobs|leads|web1', 'an election');
ok(wait_for(sub { text('#elections td:nth-child(4)') =~ /^\d\.\d s$/ }, 10,
            'a lease'), 'with its lease');
is(text('#variables td:nth-child(-n+4)'), '$rate|default|none|/flags/rate',
   'a variable');
is(text('#locks .empty'), 'None.', 'no locks');
is(text('#holds .empty'), 'Nobody.', 'and nobody who holds one');
is(text('#events .badge'), 'add|add', 'changes');
is(text('#members td:nth-child(2)'), 'backup|up',
   'states, those that get all requests last');
is(text('#members td:nth-child(5)'), '7|1', 'weights');

# Members come and go while the page is open.

$nginx->get('/to') for 1 .. 3;
reads('#members td:nth-child(8)', '0|3', 'requests are counted');
$etcd->put("/services/api/$evil", '127.0.0.3:80');
reads('#members td.main', join('|', '127.0.0.2:80', up('127.0.0.3:80')),
      'a member comes');
is((texts('#members td:nth-child(3)'))[up_place('127.0.0.3:80')],
   "/services/api/$evil", 'whose key is shown as it is');
is((texts('#events .code'))[0], "/services/api/$evil", 'in the changes, too');
reads('#said', "api: add /services/api/$evil", 'and is read out');
$etcd->put('/services/api/bad', "a $evil");
reads('#invalid td:nth-child(3)', '/services/api/bad', 'a value is invalid');
like(text('#invalid td:nth-child(4)'), qr/\Q<script>\E/, 'for a reason');
$etcd->put('/flags/rate', "\n$evil");
reads('#invalid td.main', '$rate|api', 'so is a variable\'s');
$etcd->put('/flags/rate', $evil);
reads('#variables td:nth-child(3)', $evil, 'a variable has a value');
reads('#invalid td.main', 'api', 'which is used');
like($browser->execute('return document.title'), qr/ - nginx-etcd\z/,
     'nothing runs');
is($browser->execute('return document.scripts.length'), SCRIPTS,
   'no script has come');
$etcd->del("/services/api/$evil");
reads('#members td.main', '127.0.0.2:80|' . $one->address, 'a member goes');

my $two = '{"address":"127.0.0.2:80","weight":7,"backup":true';

$etcd->put('/services/api/2', "$two,\"wieght\":1}");
reads('#invalid td:nth-child(3)', '/services/api/bad|/services/api/2',
      'an unknown field');
like(text('#invalid td:nth-child(4)'), qr/"wieght" is unknown/, 'is named');
$etcd->put('/services/api/2', "$two}");
reads('#invalid td:nth-child(3)', '/services/api/bad', 'and mended');

# the keyboard

$browser->press('/');
is($browser->execute('return document.activeElement.id'), 'search',
   '/ goes to the search');
$browser->press(qw(a p i / 2));
reads('#members td.main', '127.0.0.2:80', 'what is typed is searched for');
type_in('search', '');
is(count('#members tbody tr'), 2, 'or not');
$browser->execute('document.querySelector(".skip").focus()');
$browser->press(ENTER);
is($browser->execute('return document.activeElement.id'), 'members',
   'a link skips to the members');
$browser->press((TAB) x 3);
is($browser->execute('return document.activeElement.textContent'), 'Address',
   'Tab goes to the heads of columns');
is(text('#members th[aria-sort=ascending]'), 'State', 'one is sorted by');

my ($outline) = $browser->execute(
    'return getComputedStyle(document.activeElement).outlineStyle');

is($outline, 'solid', 'where the focus is can be seen');

$browser->execute(
    'document.querySelector("#members th:nth-child(5) button").focus()');
$browser->press(ENTER);
is(text('#members td:nth-child(5)'), '1|7', 'sorted by weight');
$browser->press(ENTER);
is(text('#members td:nth-child(5)'), '7|1', 'and the other way round');
is(text('#members th[aria-sort=descending]'), 'Weight', 'as it says');

# one upstream, one state

$browser->execute('scrollTo(0, 0)');
$browser->click('#upstreams tbody tr:nth-child(1) button');
is(text('#members .empty'), 'No member is found.', 'one upstream\'s members');
$browser->click('#only');
is(count('#members tbody tr'), 2, 'those of all');


type_in('state', 'backup');
is(text('#members td.main'), '127.0.0.2:80', 'those in one state');
type_in('state', '');
is(count('#members tbody tr'), 2, 'in any');

# The page asks for nothing while it is paused, or hidden.

$browser->click('#pause');
is(text('#pause[aria-pressed=true]'), 'Pause', 'a pause');
wait_for { !$browser->execute('return view.busy') } 10, 'an answer';
$etcd->put('/services/api/3', '127.0.0.3:80');
wait_for { $api->member('127.0.0.3:80') } 10, 'a member';
poll();
is(count('#members tbody tr'), 2, 'in which nothing changes');
$browser->click('#pause');
wait_for { count('#members tbody tr') == 3 } 20, 'the third member';
is(count('#members tbody tr'), 3, 'and after which it does');

$browser->execute('Object.defineProperty(document, "hidden",'
                  . ' { configurable: true, value: true })');
$etcd->del('/services/api/3');
wait_for { !$api->member('127.0.0.3:80') } 10, 'a member to go';
wait_for { !$browser->execute('return view.busy') } 10, 'an answer';

my $hidden = count('#members tbody tr');

poll();
is(count('#members tbody tr'), $hidden, 'nothing changes while it is hidden');
$browser->execute('delete document.hidden;'
                  . ' document.dispatchEvent(new Event("visibilitychange"))');
wait_for { count('#members tbody tr') == 2 } 20, 'two members';
is(count('#members tbody tr'), 2, 'and it does when it is seen again');

# A status with parts that this nginx does not have, and parts of a later
# version.

$browser->click('#pause');
wait_for { !$browser->execute('return view.busy') } 10, 'an answer';
$browser->execute('scrollTo(0, 0)');
$browser->click('#members th button');
$browser->execute('show(JSON.parse(arguments[0]))', encode_json({
    locks => {
        '/locks/b' => { held => 1, waiting => 12, acquired => 3456,
                        timeouts => 5, lost => 0, handoffs => 7,
                        holders => [{ key => $evil, pid => 4274, token => 17,
                                      held_ms => 1234 }],
                        waiters => [{ key => $evil, pid => 4275, waiting => 12,
                                      waiting_ms => 250 },
                                    { key => '', pid => 4276 }] },
        '/locks/a' => {},
        __proto__  => { held => 2 },
    },
    upstreams => { x => { members => [
        { address => '127.0.0.10:80', state => 'unresolved',
          reason => $evil },
        { address => '127.0.0.9:80', state => 'new', requests => -1 },
    ] } },
    events => [{ time => 'then', change => 'other' }],
}));
is(text('#locks td') =~ s/\x{2013}/-/gr, '/locks/a|-|-|-|-|-|-'
   . '|/locks/b|1|12|3,456|5|0|7|__proto__|2|-|-|-|-|-', 'locks');
is(text('#holds td') =~ s/\x{2013}/-/gr, '/locks/b|waits|4276|-|-|-'
   . "|/locks/b/$evil|holds|4274|1.2 s|-|17|/locks/b/$evil|waits|4275|0.3 s"
   . '|12|-', 'who holds, and who waits: as it is');
is($browser->execute('return document.scripts.length'), SCRIPTS,
   'no script in that');


type_in('find', 'SCRIPT 4274');
is(text('#holds td.main'), "/locks/b/$evil", 'they are searched');
is(text('#said'), '1 row found', 'which is read out');
type_in('find', 'waits');
is(text('#holds td.some'), 'waits|4276|waits|4275', 'by what they do');
type_in('find', 'nobody');
is(text('#holds .empty'), 'Nobody.', 'and not found');
type_in('find', '');
is(text('#members td.main'), '127.0.0.9:80|127.0.0.10:80',
   'numbers in addresses are in order');
is(text('#members .badge'), 'new|unresolved', 'other states');
is(text('#invalid td:nth-child(4)'), $evil, 'why a member is not used');
is(text('#events time'), 'then', 'other times');
$browser->execute('show(JSON.parse(arguments[0]))', encode_json({
    upstreams => { x => { members => [
        { address => '127.0.0.9:80', state => 'unhealthy',
          check => 'status 500', check_row => 4 },
        { address => '127.0.0.8:80', state => 'up', check => 'timeout' },
    ] } },
}));
is(text('#invalid td:nth-child(4)'), 'check: status 500, 4 in a row',
   'why checks keep requests off a member');
$browser->execute('show({})');
is(text('#members .empty'), 'No member is found.', 'nothing at all');
$browser->click('#pause');
wait_for { count('#members tbody tr') == 2 } 20, 'the real ones';

# phone, and dark

$browser->resize(375, 800);
cmp_ok($browser->execute('return document.documentElement.scrollWidth'), '<=',
       375, 'it fits a phone');

my $light = $browser->execute(
    'return getComputedStyle(document.documentElement).backgroundColor');

$browser->scheme('dark');
isnt($browser->execute(
    'return getComputedStyle(document.documentElement).backgroundColor'),
    $light, 'dark is another colour');
$browser->resize(1280, 900);

# many members

for my $batch (0 .. MANY / BATCH - 1) {
    $etcd->txn(map {
        my $n = $batch * BATCH + $_;
        [put => "/services/many/$n", sprintf('10.0.%d.%d:80', $n / 250,
                                             $n % 250 + 1)]
    } 1 .. BATCH);
}

wait_for { text('#members .foot span') =~ / of 10,002$/ } 30, 'all of them';
like(text('#members .foot span'), qr/^1\W50 of 10,002$/, '10 000 members');
is(count('#members tbody tr'), ROWS, 'are shown in pages');
is(count('#events li'), 64, 'and the last 64 changes');
cmp_ok($browser->execute('return document.querySelectorAll("*").length'), '<',
       3000, 'of few elements');

# the shortest time of some searches: others include other work of the machine


sub search_time {
    return $browser->execute(<<'EOF_SCRIPT');
const search = document.querySelector('#search');
const start = performance.now();

search.value = 'many/777';
search.dispatchEvent(new Event('input'));
document.body.getBoundingClientRect();

return performance.now() - start;
EOF_SCRIPT
}


ok(wait_for(sub { search_time() < SEARCH }, 60, 'a quick search'),
   'a search among them takes less than a tenth of a second');
is(count('#members tbody tr'), 11, 'and are found');

type_in('search', '');
$browser->click('#members .foot button:last-child');
like(text('#members .foot span'), qr/^51\W100 of 10,002$/, 'the next page');
is(count('#members tbody tr'), ROWS, 'is as long');

# requests and messages of the page

my @requests = $browser->requests;

is(scalar(grep { $_ eq $url } @requests), 1, 'it asks for itself once');
is_deeply([grep { $_ ne $url && $_ ne "$url?format=json" && !/^data:/ }
           @requests], [], 'and for nothing else but JSON');
is_deeply([$browser->console], [], 'the browser has no complaints');

# actions that the page cannot do, whatever is wrong with it

my $backend = 'http://' . $one->address . '/';

$one->reset;
is($browser->execute('return fetch(arguments[0]).catch((error) => error.name)',
                     $backend), 'TypeError', 'it cannot ask others');
is($one->requests, 0, 'who see nothing of it');
is($browser->execute("try { $_ } catch (error) { return error.name }"),
   'TypeError', $_)
    for 'document.body.innerHTML = "<b>x</b>"',
        'document.createElement("script").text = "document.title = 1"',
        'document.write("<b>x</b>")';
cmp_ok(scalar($browser->console), '>', 0, 'and the browser says so');

# nginx goes

$etcd->stop();
reads('#clusters td:nth-child(2)', 'connecting|connecting', 'etcd is away');
is(count('#members tbody tr'), ROWS, 'its members stay');
$nginx->stop();
wait_for { text('#banner') ne '' } 20, 'a banner';
like(text('#banner'), qr/^No new data: .*What is shown is of \d\d:\d\d:\d\d\.$/,
     'nginx is away');
is(count('#members tbody tr'), ROWS, 'they stay still');

finish();
