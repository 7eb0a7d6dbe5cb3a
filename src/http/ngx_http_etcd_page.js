'use strict';

// Asks for the JSON of this location again and again, and shows it.  Whatever
// it says is data: it gets into the page as text nodes only.

const PERIOD = 1000;         // ms from an answer to the next question
const LONGEST = 5000;        // the same, where answers take long
const SHARE = 5;             // at most one part in so many goes to updates
const PATIENCE = 10000;      // ms for an answer
const SPOKEN = 3;            // changes that are read out one by one

const view = {
    paused: false,
    busy: false,
    timer: 0,
    last: null,              // the time of what is shown
    status: null,
    at: 0,                   // its time, by nginx's clock
    members: new Map(),      // each member, then
    requests: new Map(),     // and of each upstream the requests
    seen: null,              // changes that were there then
    upstream: '',            // one upstream's members
    service: '',             // and one of its services
    member: '',              // which is open
    back: null,              // what had the focus before
};


// A link to this page has the view behind its "#": what is open, searched for,
// and sorted by.

const inputs = { search: 'search', state: 'state', services: 'service',
                 find: 'find' };

function viewText() {
    const text = new URLSearchParams();
    const add = (name, value) => value && text.set(name, value);

    for (const name of ['upstream', 'service', 'member']) {
        add(name, view[name]);
    }

    for (const [name, id] of entries(inputs)) {
        add(name, $(id).value);
    }

    for (const table of Object.values(tables)) {
        add('sort.' + table.id, table.order);
    }

    return text.toString();
}


// "step": the way back leads to what was before

function keepView(step) {
    const text = viewText();

    if (text !== location.hash.slice(1)) {
        history[step ? 'pushState' : 'replaceState'](null, '', text
            ? '#' + text : location.pathname + location.search);
    }
}


function readView() {
    const text = new URLSearchParams(location.hash.slice(1));

    for (const name of ['upstream', 'service', 'member']) {
        view[name] = text.get(name) || '';
    }

    for (const [name, id] of entries(inputs)) {
        $(id).value = text.get(name) || '';
    }

    for (const table of Object.values(tables)) {
        table.order = text.get('sort.' + table.id) || '';
    }

    draw();
    askService();
}


function go(what) {
    const next = { upstream: '', service: '', member: '', ...what };

    if (next.upstream !== view.upstream || next.service !== view.service) {
        tables.members.first = 0;
    }

    const opens = next.upstream && (next.upstream !== view.upstream
                                    || next.service !== view.service);

    if (opens && !view.upstream) {
        view.back = document.activeElement;
    }

    if (opens) {
        $('search').value = $('state').value = '';
    }

    Object.assign(view, next);
    keepView(true);
    draw();

    if (opens && !view.member) {
        jump('one');

    } else if (!view.upstream) {
        view.back?.focus();
        view.back = null;
    }

    askService();
    say(what.member ? '' : plural(tables.members.rows.length, 'member',
                                  'members') + ' found');
}


function jump(id) {
    $(id).focus();
    $(id).scrollIntoView();
}


// cells and columns of our tables

function endpoints(cell) {
    const lines = [];

    cell.classList.add('list');

    return (row) => pool(lines, row.endpoints || [], () => {
        const line = make(cell, 'span');
        const state = make(line, 'span', 'badge');

        line.append(' ');

        const url = make(line, 'span', 'code');

        line.append(' ');

        const more = make(line, 'span');

        return [line, (endpoint) => {
            write(state, endpoint.state);
            set(state, 'className', 'badge ' + toneOf(endpoint.state));
            write(url, endpoint.url);
            write(more, [endpoint.version, endpoint.error].filter(Boolean)
                .join(' '));
        }];
    });
}


const toggled = (id) => ({ upstream: view.upstream === id ? '' : id });

const openMember = ({ mid }) => go(
    { upstream: view.upstream, service: view.service, member: mid });

const numbers = (...names) => names.map(([name, label]) => (
    { name, label, className: 'num', cell: figure(name, count) }));

const named = (label, cell) => (
    { name: 'name', label, className: 'main', cell });

const coded = (name, label) => (
    { name, label, className: 'wide', cell: code(name) });

const stated = (name, label) => (
    { name, label, className: 'some', cell: badge((row) => row[name]),
      by: (row) => rankOf(row[name] ?? 'ok') });

const timed = (name, label, show) => (
    { name, label, className: 'num', cell: figure(name, show) });

const text = (name) => shown((row) => row[name] ?? '');


const tables = {
    problems: new Table('problems', 'Nothing.', [
        { name: 'what', label: 'What', className: 'main',
          cell: link('what', (row) => row.go ? go(row.go)
                                             : jump(row.section)) },
        { ...stated('word', 'State'), by: (row) => row.rank },
        { name: 'why', label: 'Why', className: 'wide', cell: text('why') },
    ], 'word'),

    upstreams: new Table('upstreams', 'No upstream follows etcd.', [
        named('Upstream', link('name', (row) => go(toggled(row.id)))),
        stated('shown', 'State'),
        coded('where', 'Prefix'),
        { name: 'type', label: 'Type', className: 'wide some',
          cell: text('type') },
        ...numbers(['sets', 'Services'], ['up', 'Usable'],
                   ['total', 'Members'], ['bad', 'Invalid'],
                   ['waiting', 'Waiting']),
        timed('rate', 'Req/s', rate),
    ], 'shown'),

    services: new Table('services', 'No service is found.', [
        named('Service', link('name', (row) => go(
            { upstream: row.of, service: row.name }))),
        stated('state', 'State'),
        { name: 'upstream', label: 'Upstream', className: 'wide some',
          cell: text('upstream') },
        ...numbers(['up', 'Up'], ['members', 'Members'], ['conns', 'Conns'],
                   ['fails', 'Fails'], ['requests', 'Requests']),
    ], 'state'),

    members: new Table('members', 'No member is found.', [
        { name: 'address', label: 'Address', className: 'main',
          cell: link('address', openMember) },
        stated('state', 'State'),
        coded('key', 'Key'),
        { name: 'upstream', label: 'Upstream', className: 'wide some',
          cell: shown((row) => row.upstream + (row.near ? ', near' : '')) },
        ...numbers(['weight', 'Weight'], ['conns', 'Conns'],
                   ['fails', 'Fails'], ['requests', 'Requests']),
        timed('rate', 'Req/s', rate),
    ], 'state'),

    clusters: new Table('clusters', 'There is no etcd block.', [
        named('Cluster', text('name')),
        stated('state', 'State'),
        { name: 'endpoint', label: 'Endpoints', className: 'wide',
          cell: endpoints },
        timed('staleness_ms', 'Stale', age),
        ...numbers(['revision', 'Revision'], ['reconnects', 'Reconnects'],
                   ['resyncs', 'Resyncs'], ['repairs', 'Repairs']),
    ], 'name'),

    invalid: new Table('invalid', 'None.', [
        { name: 'upstream', label: 'Of', className: 'main',
          cell: text('upstream') },
        ...numbers(['mod_revision', 'Revision']),
        coded('key', 'Key'),
        { name: 'reason', label: 'Reason', className: 'wide',
          cell: text('reason') },
    ], 'upstream'),

    elections: new Table('elections', 'None.', [
        named('Election', text('name')),
        stated('role', 'Here'),
        coded('leader', 'Leader'),
        timed('remaining_ms', 'Lease left', (ms) => ms < 0 ? '–' : age(ms)),
        ...numbers(['revision', 'Revision']),
    ], 'name'),

    variables: new Table('variables', 'None.', [
        named('Variable', code('name')),
        stated('state', 'State'),
        coded('value', 'Value'),
        coded('key', 'Key'),
        ...numbers(['revision', 'Revision']),
    ], 'name'),

    locks: new Table('locks', 'None.', [
        named('Lock', code('name')),
        ...numbers(['held', 'Held'], ['waiting', 'Waiting'],
                   ['acquired', 'Acquired'], ['timeouts', 'Timeouts'],
                   ['lost', 'Lost'], ['handoffs', 'Handoffs']),
    ], 'name'),

    holds: new Table('holds', 'Nobody.', [
        { name: 'lock', label: 'Lock', className: 'main',
          cell: code('lock') },
        stated('role', 'State'),
        { name: 'pid', label: 'Worker', className: 'some',
          cell: text('pid') },
        timed('ms', 'Since', age),
        ...numbers(['waiting', 'Waiting'], ['token', 'Token']),
    ], 'lock'),

    rest: new Table('rest', '', [
        coded('name', 'Field'),
        { name: 'value', label: 'Value', className: 'wide',
          cell: text('value') },
    ], 'name'),
};


// the sections with their numbers, which are links

const chips = [];

function showSummary(rows) {
    pool(chips, rows, ([target]) => {
        const chip = make($('summary'), 'a');
        const label = make(chip, 'span');
        const figure = make(chip, 'b');

        chip.href = '#' + target;

        return [chip, ([, name, value]) => {
            write(label, name);
            write(figure, value);
        }];
    });
}


// the last changes

const lines = [];

function showEvents(events) {
    pool(lines, events.length ? events : [null], () => {
        const line = make($('events'), 'li');
        const time = make(line, 'time');
        const change = make(line, 'span', 'badge');
        const where = make(line, 'small');
        const key = make(line, 'span', 'code clip');

        return [line, (event) => {
            const { change: word = 'none yet', upstream = '', revision } =
                event || {};

            set(change, 'className', 'badge ' + toneOf(word));
            write(change, word);
            write(time, event ? stamp(event.time) : '');
            set(time, 'dateTime', event ? event.time : '');
            write(where, event ? `${upstream}, revision ${revision}` : '');
            write(key, event ? event.key : '');
        }];
    });
}


function sayChanges(events) {
    const name = (event) => [event.time, event.upstream, event.key,
                             event.change, event.revision].join(' ');
    const fresh = view.seen === null ? []
        : events.filter((event) => !view.seen.has(name(event)));

    view.seen = new Set(events.map(name));

    if (fresh.length > SPOKEN) {
        say(plural(fresh.length, 'change', 'changes'));

    } else if (fresh.length) {
        say(fresh.reverse().map(({ upstream, change, key }) =>
            `${upstream}: ${change} ${key}`).join('; '));
    }
}


// what is searched for, in the rows of a table

function matching(id, rows, textOf) {
    const words = $(id).value.toLowerCase().split(/\s+/).filter(Boolean);

    return words.length === 0 ? rows : rows.filter((row) => {
        row.text ??= textOf(row).toLowerCase();

        return words.every((word) => row.text.includes(word));
    });
}


let upstreams = [];
let members = [];
let service = null;          // the open one: its members, once they are known
let holds = [];

const heldText = ({ lock, role, pid }) => `${lock}\n${role}\n${pid}`;
const memberText = ({ key, address }) => `${key}\n${address}`;

function foundMembers() {
    const state = $('state').value;
    const rows = view.service ? service?.members || [] : members;

    return matching('search', rows, memberText).filter((member) =>
        (!view.upstream || member.id === view.upstream || view.service)
        && (!state || member.state === state || state === '!'
            && !/^(?:up|backup|shadowed)$/.test(member.state)));
}


function foundServices() {
    return matching('service', services(), ({ name }) => name).filter(
        ({ of }) => !view.upstream || of === view.upstream
            || !upstreams.some(({ id, sets }) => id === view.upstream
                                                 && sets !== undefined));
}


// the state, where a tab shows it

const SHAPES = {
    ok: "%3Ccircle cx='4' cy='4' r='3' fill='%232f8f57'/%3E",
    warn: "%3Cpath d='M4 .5L8 7.5H0z' fill='%23d99000'/%3E",
    bad: "%3Cpath d='M.5 .5h7v7h-7z' fill='%23d1291e'/%3E",
};

function tell(tone, text) {
    set(document, 'title', `${text} - nginx-etcd`);
    set($('icon'), 'href', 'data:image/svg+xml,%3Csvg xmlns='
        + `'${SVG}' viewBox='0 0 8 8'%3E${SHAPES[tone]}%3C/svg%3E`);
}


// the whole of it

function show(status) {
    const now = new Map();
    const requests = new Map();
    const time = performance.now();
    const seconds = (time - view.time) / 1000;

    upstreams = upstreamsOf(status);
    members = upstreams.flatMap(
        (upstream) => membersOf(upstream, view.members, now, view.at));
    rated(members, view.time);

    view.responses = false;

    for (const upstream of upstreams) {
        const { id, responses } = upstream;
        const failed = responses && (responses['5xx'] || 0);
        const then = view.requests.get(id) || {};

        requests.set(id, { requests: upstream.requests, failed });
        view.responses ||= responses !== undefined;

        upstream.rate = upstream.sets === undefined
            ? upstream.members.reduce((n, row) => n + (row.rate || 0), 0)
            : more(upstream.requests, then.requests) / seconds;
        upstream.errors = responses
            ? more(failed, then.failed) / seconds
            : upstream.members.reduce((n, row) => n + (row.fails || 0), 0);
    }

    Object.assign(view, { status, time, members: now, requests });
    holds = holdsOf(status);
    draw();
    sayChanges(eventsOf(status));

    set(document.querySelector('main'), 'hidden', false);
}


// what an upstream is, or the services that were read of it

function sumUp(upstream, all) {
    const rows = all.filter(({ of }) => of === upstream.id);

    if (upstream.sets === undefined || rows.length === 0) {
        upstream.shown = upstream.state;
        return;
    }

    const down = rows.filter(({ state }) => state === 'down').length;

    upstream.up = rows.reduce((n, row) => n + row.up, 0);
    upstream.total = rows.reduce((n, row) => n + row.members, 0);
    upstream.shown = upstream.state || (down === 0 ? 'ok'
        : down < rows.length ? 'degraded' : 'down');
}


function draw() {
    const { status } = view;

    if (!status) {
        return;
    }

    const variables = variablesOf(status);
    const unused = unusedOf(upstreams, variables);
    const all = services();

    upstreams.forEach((upstream) => sumUp(upstream, all));

    const problems = problemsOf(status, { upstreams, variables, at: view.at,
                                          services: all });
    const worst = problems.length ? toneOf(problems[0].word) : 'ok';
    const tone = worst === 'plain' ? 'warn' : worst;

    write($('about'), [`${status.version} in nginx ${status.nginx}`,
                       `agent ${status.agent?.pid}, configuration `
                       + status.agent?.epoch, location.host].join(' · '));
    showSummary([
        ['upstreams', 'Upstreams', count(upstreams.length)],
        ...all.length ? [['services', 'Services', count(all.length)]] : [],
        ['members', 'Members', count(members.length)],
        ['clusters', 'Clusters', count(entries(status.clusters).length)],
        ['invalid', 'Not used', count(unused.length)],
        ['elections', 'Elections', count(entries(status.elections).length)],
        ['variables', 'Variables', count(variables.length)],
        ['locks', 'Locks', count(entries(status.locks).length)],
        ['changes', 'Last changes', ''],
    ]);

    tables.problems.show(problems);
    set($('problems'), 'className', tone);
    showTiles();
    tables.upstreams.show(upstreams);
    set($('services'), 'hidden',
        !upstreams.some(({ sets }) => sets !== undefined));
    tables.services.show(foundServices());
    write($('swept'), [...sweeps.values()].every(({ at }) => at)
          ? '' : 'not all are read yet');
    showOne();
    tables.members.show(foundMembers());
    tables.clusters.show(byName(status.clusters));
    tables.invalid.show(unused);
    tables.elections.show(electionsOf(status));
    tables.variables.show(variables);
    tables.locks.show(byName(status.locks));
    tables.holds.show(matching('find', holds, heldText));
    showEvents(eventsOf(status));
    showRest();
    showMember();
    tell(tone, headline(problems));
}


function showRest() {
    const open = $('all').getAttribute('aria-expanded') === 'true';

    tables.rest.show(open ? [...fieldsOf(view.status, '', ['members'])] : []);
    set(tables.rest.empty, 'hidden', true);
}


// asking for it

function state(tone, text) {
    set($('live').firstElementChild, 'className', 'dot ' + tone);
    write($('live-text'), text);
}


function failed(reason) {
    const when = view.last
        ? ` What is shown is of ${clock(view.last)}.` : '';

    state('bad', view.last ? 'Data of ' + clock(view.last) : 'No data');
    tell('bad', 'no data');
    write($('banner'), `No new data: ${reason}.${when}`);
    set($('banner'), 'hidden', false);
}


function address(what) {
    const url = new URL(location.pathname + location.search, location.origin);

    for (const [name, value] of entries({ ...what, format: 'json' })) {
        url.searchParams.set(name, value);
    }

    // nginx reads no plus as a space

    url.search = url.search.replaceAll('+', '%20');

    return url.href;
}


async function ask(what) {
    const answer = await fetch(address(what), {
        cache: 'no-store',
        redirect: 'error',
        signal: AbortSignal.timeout(PATIENCE),
    }).catch((error) => {
        throw new Error(error.name === 'TimeoutError'
                        ? 'nginx has not answered in time'
                        : 'nginx does not answer');
    });

    if (!answer.ok) {
        throw new Error(`nginx answers with status ${answer.status}`);
    }

    view.at = Date.parse(answer.headers.get('Date')) || Date.now();

    return answer.json();
}


function live(status) {
    const lost = byName(status.clusters).find(mute);

    if (lost) {
        state('bad', 'No answer from etcd');

    } else {
        state('ok', 'Live ' + clock(view.last));
    }
}


async function poll() {
    if (view.busy || view.paused || document.hidden) {
        return;
    }

    const start = performance.now();

    view.busy = true;
    clearTimeout(view.timer);

    try {
        const status = await ask();

        show(status);
        await readService();

        for (const upstream of upstreams) {
            if (upstream.sets !== undefined) {
                await sweep(upstream);
            }
        }

        record(status);
        draw();
        view.last = new Date();
        live(status);
        set($('banner'), 'hidden', true);

    } catch (error) {
        failed(error.message);
    }

    const took = performance.now() - start;

    view.busy = false;
    view.timer = setTimeout(poll, Math.min(
        Math.max(PERIOD, (SHARE - 1) * took), LONGEST));

    if (view.paused) {
        pause(true);
    }
}


function pause(paused) {
    view.paused = paused;
    $('pause').setAttribute('aria-pressed', String(paused));

    if (paused) {
        state('warn', view.last ? 'Data of ' + clock(view.last) : 'No data');
        return;
    }

    poll();
}


function searched(id, table, one, many) {
    $(id).oninput = () => {
        table.first = 0;
        keepView();
        draw();
        say(plural(table.rows.length, one, many) + ' found');
    };
}


for (const [word, label] of [['', 'All states'], ['!', 'Not usable'],
    ...['up', 'backup', 'busy', 'failing', 'ejected', 'unhealthy', 'unproven',
        'drained', 'down', 'unresolved', 'held', 'shadowed']
        .map((state) => [state, state])])
{
    make($('state'), 'option', '', label).value = word;
}

searched('search', tables.members, 'member', 'members');
searched('state', tables.members, 'member', 'members');
searched('service', tables.services, 'service', 'services');
searched('find', tables.holds, 'row', 'rows');

$('pause').onclick = () => pause(!view.paused);
$('only').onclick = () => go({});
document.querySelector('#one .close').onclick = () => go({});
document.querySelector('#member .close').onclick = () => $('member').close();

$('member').onclose = () => view.member && go(
    { upstream: view.upstream, service: view.service });

$('all').onclick = () => {
    $('all').setAttribute('aria-expanded', String(
        $('all').getAttribute('aria-expanded') !== 'true'));
    showRest();
};

document.onvisibilitychange = poll;
onpopstate = readView;


// Links within the page leave the view as it is.

document.onclick = (event) => {
    const link = event.target.closest('a[href^="#"]');

    if (link) {
        event.preventDefault();
        jump(link.getAttribute('href').slice(1));
    }
};

$('member').onclick = (event) =>
    event.target === $('member') && $('member').close();


document.onkeydown = (event) => {
    const typing = event.target.closest('input, select, dialog');

    if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey
        && !typing)
    {
        event.preventDefault();
        $('search').focus();

    } else if (event.key === 'Escape' && !typing && view.upstream) {
        go(view.service ? { upstream: view.upstream } : {});
    }
};

readView();
poll();
