#!/usr/bin/perl

# The page at a glance: its table, title and icon show what is wrong and why,
# also while etcd is silent; a link leads to what is seen; the view of a member
# has the lines that drain it, which a shell runs here; the lines of the last
# minutes; all fields.  By the keyboard, on a wide screen and on a phone, light
# and dark.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use Test::More;

use Backend;
use Becomes;
use Browser;
use Etcd;
use Finish;
use Nginx;
use Process;
use Upstream;
use Wait;

use constant {
    TAB    => "\x{E004}",
    ENTER  => "\x{E007}",
    ESCAPE => "\x{E00C}",
    IPV6   => '[2001:1db8:1234:5678:9abc:def0:1234:5678]:18080',
};

my $evil = q{it's $(touch evil) "x" `id`};
my $etcd = Etcd->new()->start();
my $one = Backend->start('one');
my $nginx = Nginx->new(etcd => $etcd);

$etcd->put('/shops/open/1', $one->address);
$etcd->put('/api/1', $one->address);
$etcd->put('/api/2', '{"address":"127.0.0.2:80","weight":7,"max_conns":20,'
                     . '"backup":true}', lease => $etcd->grant(600));

$nginx->start(<<'EOF_CONFIG');

etcd {
    endpoints %%ETCD%%;
    election jobs /elections/jobs value=web1;
}

http {
    upstream api {
        etcd_members /api;
    }

    upstream shops {
        etcd_members /shops/$shop/;
    }

    map $uri $shop {
        "~^/s/(?<name>.*)$" $name;
    }

    etcd_set $rate /flags/rate default=none;

    server {
        listen 127.0.0.1:%%PORT%%;

        location /status { etcd_status; }
        location /to { proxy_pass http://api; }
        location /s/ { proxy_pass http://shops; }
    }
}

EOF_CONFIG

my $api = Upstream->new($nginx, 'api');
my $browser = Browser->start();
my $url = 'http://127.0.0.1:' . $nginx->port . '/status';


sub js { $browser->execute(@_) }

sub text { $browser->text(@_) }
sub reads { $browser->reads(@_) }

sub title { js('return document.title') }
sub icon { js('return document.getElementById("icon").href') }
sub focus { js('return document.activeElement.textContent') }
sub live { text('#live') }

# Opens a member that is seen.

sub opens {
    js(<<'EOF_SCRIPT', @_);
[...document.querySelectorAll('#members td.main button')].find(
    (button) => button.getClientRects().length
                && button.textContent === arguments[0]).click();
EOF_SCRIPT
}


# Returns what a fact of the open member says.

sub fact {
    my ($name) = @_;

    return js(<<'EOF_SCRIPT', $name);
const pair = [...document.querySelectorAll('#member dl > div')].find(
    (pair) => pair.getClientRects().length
              && pair.firstChild.textContent === arguments[0]);
return pair?.lastChild.textContent;
EOF_SCRIPT
}


# nothing is wrong

$api->comes_to_be(members => {
    '/api/1' => $one->address . ' 1 up', '/api/2' => '127.0.0.2:80 7 backup',
}, 'members');
wait_for { $nginx->status->{elections}{jobs}{is_leader} } 20, 'a leader';
$browser->open($url);
reads('#problems .empty', 'Nothing.', 'nothing is wrong');
becomes { title() } 'ok - nginx-etcd', 'the title says it', 20;
like(live(), qr/^Live \d\d:\d\d:\d\d$/, 'it is live');

my $ok = icon();

like($ok, qr/^data:image\/svg\+xml,.*circle/, 'an icon');

# something is

$etcd->put('/api/1', '{"address":"127.0.0.3:80","down":true}');
$etcd->put('/api/2', '{"address":"127.0.0.2:80","down":true}');
$etcd->put('/api/3', 'nothing');
reads('#problems td', 'api|down|all members are marked down: '
      . '2 down of 2 members|api|notice|1 value is invalid',
      'an upstream is down, for this reason');
is(title(), '1 down - nginx-etcd', 'as the title says');
is(js('return document.getElementById("problems").className'), 'bad',
   'in red');
isnt(icon(), $ok, 'the icon is another one');
is(text('#upstreams td:nth-child(2)'), "down|ok", 'it is the first one');
$etcd->del('/api/3');
$etcd->put('/api/1', $one->address);
$etcd->put('/api/2', '127.0.0.2:80');
reads('#problems .empty', 'Nothing.', 'mended');
is(icon(), $ok, 'the icon, too');

# a link

$etcd->txn(map { [put => "/api/$_", "10.0.0.$_:80"] } 1 .. 100);
$etcd->txn(map { [put => "/api/$_", "10.0.0.$_:80"] } 101 .. 200);
wait_for { scalar(keys %{ $api->members }) == 200 } 20, 'members';
reads('#members .foot span', "1\x{2013}50 of 200", 'members by fifties');
js('document.querySelector("#upstreams td button").focus()');
$browser->press(ENTER);
reads('#one h2', 'Upstream http api', 'an upstream is opened by Enter');
is(js('return document.activeElement.id'), 'one', 'where the keyboard goes');
js('document.getElementById("search").focus()');
$browser->press(qw(a p i / 1 9));
js('document.querySelector("#members th:nth-child(1) button").focus()');
$browser->press(ENTER, ENTER);

my $seen = join('|', map { "10.0.0.$_:80" } reverse(19, 190 .. 199));

reads('#members td.main', $seen, 'those that are searched for, the last first');

my $link = js('return location.href');

like($link, qr/#upstream=http\+api&search=api%2F19&sort\.members=-address$/,
     'the link to it');
$browser->open('about:blank');
$browser->open($link);
reads('#members td.main', $seen, 'leads there');
is(text('#one h2'), 'Upstream http api', 'to the upstream');
like(text('#one dd'), qr{/api\b}, 'with its fields');
is(js('return document.getElementById("search").value'), 'api/19',
   'with what is searched for');

# a member

js('document.querySelector("#members td.main button").focus()');
$browser->press(ENTER);
reads('#member-name', '10.0.0.199:80', 'a member is opened by Enter');
like(js('return location.hash'), qr/&member=http\+api\+10\.0\.0\.199/,
     'the link has it');
is(focus(), 'Close', 'the keyboard is in it');
$browser->press(ESCAPE);
reads('#member-name', '', 'and closed by Escape');
is(focus(), '10.0.0.199:80', 'the keyboard is where it was');
is(text('#members td.main'), $seen, 'and so is all else');
$browser->press(ENTER);
reads('#member-name', '10.0.0.199:80', 'opened again');
js('history.back()');
reads('#member-name', '', 'the way back closes it');
$browser->press(TAB);
is(focus(), '10.0.0.198:80', 'Tab goes to the next member');
$browser->press(ENTER);
reads('#member-name', '10.0.0.198:80', 'which is opened');
$link = js('return location.href');
$browser->open('about:blank');
$browser->open($link);
reads('#member-name', '10.0.0.198:80', 'by a link, too');
is(fact('Key'), '/api/198', 'its key');
is(fact('Lease'), 'none', 'and lease');
is(fact('max_conns'), 'no limit', 'what its value says not');
like(fact('State'), qr/^up, at least since \d/, 'its state');

$etcd->put('/api/198', '{"address":"10.0.0.198:80","weight":5,"max_conns":9,'
    . '"max_fails":3,"fail_timeout":"7s","slow_start":"30s","route":"r198"}',
    lease => $etcd->grant(600));
becomes { fact('max_conns') } '9', 'its value as nginx has read it', 20;
is(fact('Weight'), 5, 'weight');
is(fact('Failures'), '3 in 7 s keep requests off it for 7 s', 'failures');
is(fact('Slow start'), '30.0 s', 'slow start');
is(fact('Route'), 'r198', 'route');
like(fact('Lease'), qr/^[0-9a-f]+$/, 'lease');
like(fact('Changes'), qr/ update, revision \d+$/m, 'its last changes');

# A shell runs the lines of the page as they are.

sub run_line {
    my ($line, $name) = @_;

    my ($status, $output) = run('bash', '-c', 'export ETCDCTL_API=3 '
        . 'ETCDCTL_ENDPOINTS=' . $etcd->url . "; cd $ENV{HERE} && $line");

    is($status, 0, "$name: $line") or diag($output);
}

$ENV{HERE} = Finish::test_dir();

is(fact('Drain'), "etcdctl put /api/.drain/10.0.0.198:80 ''", 'a line');
run_line(fact('Drain'), 'drains');
reads('#member-state', 'drained', 'the member drains');
like(text('#member-why'), qr/^An operator drains it/, 'for that reason');
run_line(fact('End'), 'ends that');
reads('#member-state', 'up', 'the member is up');
like(fact('State'), qr/^up, since \d/, 'since then');

$etcd->put("/shops/$evil/1", $one->address);
$etcd->put("/shops/$evil/2", '{"address":"127.0.0.2:80","drain":true}');
js('go({ upstream: "http shops", service: arguments[0] })', $evil);
reads('#members td:nth-child(2)', 'drained|up', 'of a service');
opens($one->address);
reads('#member-name', $one->address, 'whose name is hostile');
run_line(fact('Drain'), 'drains');
reads('#member-state', 'drained', 'it drains all the same');
run_line(fact('End'), 'ends that');
reads('#member-state', 'up', 'and does not');
ok(!-e "$ENV{HERE}/evil", 'and no part of the name was run');
$browser->press(ESCAPE);
opens('127.0.0.2:80');
is(text('#member-why'), 'Its value says so.', 'drained by its value');
is(js(q{return quoted("a'\n\u00fc\u001b")}), q{$'a\x27\x0a\xc3\xbc\x1b'},
   'no byte of a line controls a terminal');
$browser->press(ESCAPE);
js('go({})');

# fields that not every nginx tells

js('pause(true)');
wait_for { !js('return view.busy') } 10, 'an answer';


sub shows {
    js('show(JSON.parse(arguments[0]))',
       JSON::PP->new->canonical->encode($_[0]));
}


shows({
    clusters => { default => {
        state => 'stale', staleness_ms => 17_000,
        endpoints => [{ url => 'http://a:1', state => 'failed',
                        error => 'refused by <b>' }],
    }, other => { state => 'denied', reason => 'prefix "/x"' },
       third => { state => 'unauthorized', staleness_ms => 240_000 } },
    upstreams => {
        api => { state => 'ok', prefix => '/a/',
                 responses => { '2xx' => 5, '5xx' => 1 },
                 members => [
            { address => '10.0.0.1:80', key => '/a/1', state => 'up',
              responses => { '2xx' => 5, '4xx' => 0, '5xx' => 1 },
              sent => 100, received => 200,
              response_time => { count => 6, sum_ms => 30, buckets => [
                  { le_ms => 5, count => 4 }, { le_ms => 10, count => 6 },
              ] } },
            { address => '10.0.0.1:80', key => '/a/0', state => 'shadowed',
              hidden_by => '/a/1', unheard_of => { x => 1 } },
        ] },
        shops => { state => 'degraded', sets => 3,
                   reason => '2 services are down' },
        sick => { state => 'degraded', members => [
            { address => '10.0.0.2:80', key => '/s/1', state => 'unhealthy',
              check => 'status 500', check_row => 4, check_for => 9 },
            { address => '10.0.0.3:80', key => '/s/2', state => 'up' },
        ] },
    },
});
is(text('#problems td') =~ s/\d\d:\d\d:\d\d/TIME/gr, join('|',
    'etcd default', 'no answer', 'no answer for 17 s: members stay as known at '
        . 'TIME; leaders, locks and elections are closed; '
        . 'http://a:1: refused by <b>',
    'etcd other', 'denied',
        'etcd does not let nginx read all of it; prefix "/x"',
    'etcd third', 'unauthorized', 'etcd refuses the login for 4 min: members '
        . 'stay as known at TIME; leaders, locks and elections are closed',
    'shops', 'degraded', '2 services are down',
    'sick', 'degraded', '1 unhealthy of 2 members; the check of 10.0.0.2:80 '
        . 'says: status 500'), 'what is wrong, in order');
is(title(), 'no etcd, 2 degraded - nginx-etcd', 'in the title');
is(text('#tiles span:first-child'),
   'Requests|5xx|Usable members|Staleness', 'answers with an error');
js('go({ member: "http api 10.0.0.1:80 /a/1" })');
is(fact('Hides'), '/a/0', 'the key that a member hides');
is(fact('Answers'), '5 2xx, 1 5xx', 'what it has answered');
is(fact('Answer times'), '5.0 ms on average, 95 of 100 within 10 ms',
   'how fast');
is(fact('Bytes'), '100 to it, 200 from it', 'and how much');
js('go({ member: "http api 10.0.0.1:80 /a/0" })');
is(text('#member-why'), 'Another key has its address: /a/1', 'the hidden one');
is(fact('unheard_of.x'), '1', 'what is new is shown, too');
js('go({ member: "http api 10.0.0.9:80 /a/9" })');
is(text('#member-why'), 'There is no such member now.',
   'a member that is gone');
$browser->press(ESCAPE);

# all fields

my $leaves = js(<<'EOF_SCRIPT', $url);
const status = await (await fetch('?format=json')).json();
const shown = () => document.body.innerText;
document.getElementById('all').click();
show(status);
let text = '';
tables.rest.first = 0;
tables.rest.draw();
for (;;) {
    text += document.querySelector('#rest').textContent;
    if (tables.rest.forth.disabled || tables.rest.foot.hidden) { break }
    tables.rest.forth.click();
}
return [...fieldsOf(status, '', ['members'])]
    .filter(({ name, value }) => !text.includes(name + value))
    .map(({ name }) => name);
EOF_SCRIPT

is_deeply($leaves, [], 'all fields are there');
js('pause(false)');

# lines, which outlive a reload

wait_for { js('return (history_[""] || []).length') > 3 } 20, 'some points';

my $first = js('return history_[""][0][0]');

like(js('return document.querySelector("#tiles path").getAttribute("d")'),
     qr/^M[\d.]+ [\d.]+h\.5L/, 'a line');
$browser->open('about:blank');
$browser->open($url);
reads('#members .foot span', "1\x{2013}50 of 200", 'the page again');
is(js('return history_[""][0][0]'), $first, 'with its line');

# a wide screen, and a phone

$etcd->put('/api/200', IPV6);
$etcd->put('/api/199', '{"address":"10.0.0.199:80","down":true}');
reads('#members tbody tr:first-child td.main', '10.0.0.199:80', 'a member');
js('document.getElementById("search").value = "2001";'
   . ' document.getElementById("search").oninput()');
reads('#members td.main', IPV6, 'a long address');
is(js('const range = document.createRange();'
      . ' range.selectNodeContents(document.querySelector("#members td.main'
      . ' button")); return range.getClientRects().length'), 1,
   'is in one line of 1280 px');

# elements whose text is cut off, or that are wider than the page

my $cut = <<'EOF_SCRIPT';
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll('header *, main *, dialog *')].filter(
    (element) => element.getClientRects().length
        && (element.getBoundingClientRect().right > width + 1
            || element.scrollWidth > element.clientWidth + 1
               && getComputedStyle(element).overflowX === 'visible'
               && getComputedStyle(element).display === 'block'))
    .map((element) => element.tagName + ' ' + element.textContent);
EOF_SCRIPT

for my $scheme ('light', 'dark') {
    $browser->scheme($scheme);

    for my $width (1280, 400) {
        $browser->resize($width, 800);
        is_deeply(js($cut), [], "$scheme, $width px: nothing is cut off");
        js('scrollTo(0, 0);'
           . ' document.querySelector("#members td.main button").focus()');
        $browser->press(TAB);
        $browser->press("\x{E008}", TAB, "\x{E008}");

        my $outline = js('const style = getComputedStyle('
            . 'document.activeElement); return style.outlineStyle + " "'
            . ' + style.outlineWidth');

        is($outline, 'solid 2px', 'the focus is seen');
    }
}

# etcd is silent

js('document.getElementById("search").value = "";'
   . ' document.getElementById("search").oninput()');
$etcd->stop();
ok(wait_for(sub { text('#problems td') =~ /^etcd\ default\|no\ answer
    \|no\ answer\ for\ \d+\ s:\ members\ stay\ as\ known\ at\ [\d:]{8};
    \ leaders,\ locks\ and\ elections\ (?:will\ close\ soon|are\ closed)
    /x }, 20, 'a sentence'),
   'etcd does not answer, and since when');
ok(wait_for(sub { live() eq 'No answer from etcd' }, 20, 'no answer'),
   'it is not live');
like(title(), qr/^no etcd/, 'the title');
is(text('#members .foot span'), "1\x{2013}50 of 200", 'members stay');
is_deeply([grep { !/net::ERR/ } $browser->console], [],
          'the browser has no complaints');

finish();
