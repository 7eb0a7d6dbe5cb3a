'use strict';

// Asks for the JSON of this location again and again, and shows it.  Whatever
// it says is data: it gets into the page as text nodes only.

const PERIOD = 1000;         // ms from an answer to the next question
const LONGEST = 5000;        // the same, where answers take long
const SHARE = 5;             // at most one part in so many goes to updates
const PATIENCE = 10000;      // ms for an answer
const EVENTS = 64;
const SPOKEN = 3;            // changes that are read out one by one

const view = {
    paused: false,
    busy: false,
    timer: 0,
    last: null,              // the time of what is shown
    before: new Map(),       // requests of each member, then
    seen: null,              // changes that were there then
    only: '',                // one upstream's members
};


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

        const version = make(line, 'span');

        return [line, (endpoint) => {
            write(state, endpoint.state);
            set(state, 'className', 'badge ' + toneOf(endpoint.state));
            write(url, endpoint.url);
            write(version, endpoint.version || '');
        }];
    });
}


function upstreamName(cell) {
    const button = make(cell, 'button');
    let mine;

    button.type = 'button';
    button.onclick = () => choose(mine.id === view.only ? null : mine);

    return (row) => {
        mine = row;
        write(button, row.name);
        button.setAttribute('aria-pressed', String(row.id === view.only));
    };
}


function serviceName(cell) {
    const button = make(cell, 'button');
    let mine;

    button.type = 'button';
    button.onclick = () => {
        $('service').value = mine.name;
        searchServices();
    };

    return (row) => {
        mine = row;
        write(button, row.name);
    };
}


const numbers = (...names) => names.map(([name, label]) => (
    { name, label, className: 'num', cell: figure(name, count) }));

const named = (label, cell) => (
    { name: 'name', label, className: 'main', cell });

const coded = (name, label) => (
    { name, label, className: 'wide', cell: code(name) });

const stated = (name, label) => (
    { name, label, className: 'some', cell: badge((row) => row[name]) });

const timed = (name, label, show) => (
    { name, label, className: 'num', cell: figure(name, show) });


const tables = {
    clusters: new Table('clusters', 'There is no etcd block.', [
        named('Cluster', shown((row) => row.name)),
        stated('state', 'State'),
        { name: 'endpoint', label: 'Endpoints', className: 'wide',
          cell: endpoints },
        timed('staleness_ms', 'Stale', age),
        ...numbers(['revision', 'Revision'], ['reconnects', 'Reconnects'],
                   ['resyncs', 'Resyncs'], ['repairs', 'Repairs']),
    ], 'name'),

    upstreams: new Table('upstreams', 'No upstream follows etcd.', [
        named('Upstream', upstreamName),
        { name: 'type', label: 'Type', className: 'some',
          cell: shown((row) => row.type) },
        coded('where', 'Prefix'),
        ...numbers(['sets', 'Services'], ['up', 'Up'], ['total', 'Members'],
                   ['bad', 'Invalid'], ['waiting', 'Waiting'],
                   ['revision', 'Revision']),
    ], 'name'),

    services: new Table('services', 'No service is found.', [
        named('Service', serviceName),
        ...numbers(['up', 'Up'], ['members', 'Members'], ['conns', 'Conns'],
                   ['fails', 'Fails'], ['requests', 'Requests']),
    ], 'name'),

    service: new Table('service-members', 'It has no members.', [
        { name: 'address', label: 'Address', className: 'main',
          cell: code('address') },
        stated('state', 'State'),
        coded('key', 'Key'),
        ...numbers(['weight', 'Weight'], ['conns', 'Conns'],
                   ['fails', 'Fails'], ['requests', 'Requests']),
    ], 'address'),

    members: new Table('members', 'No member is found.', [
        { name: 'address', label: 'Address', className: 'main',
          cell: code('address') },
        stated('state', 'State'),
        coded('key', 'Key'),
        { name: 'upstream', label: 'Upstream', className: 'wide some',
          cell: shown((row) => row.upstream + (row.near ? ', near' : '')) },
        ...numbers(['weight', 'Weight'], ['conns', 'Conns'],
                   ['fails', 'Fails'], ['requests', 'Requests']),
        timed('rate', 'Req/s', rate),
        coded('lease', 'Lease'),
    ], 'address'),

    elections: new Table('elections', 'None.', [
        named('Election', shown((row) => row.name)),
        { name: 'role', label: 'Here', className: 'some',
          cell: badge((row) => row.role) },
        coded('leader', 'Leader'),
        timed('remaining_ms', 'Lease left', (ms) => ms < 0 ? '–' : age(ms)),
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
          cell: shown((row) => row.pid) },
        timed('ms', 'Since', age),
        ...numbers(['waiting', 'Waiting'], ['token', 'Token']),
    ], 'lock'),

    variables: new Table('variables', 'None.', [
        named('Variable', code('name')),
        stated('state', 'State'),
        coded('value', 'Value'),
        coded('key', 'Key'),
        ...numbers(['revision', 'Revision']),
    ], 'name'),

    invalid: new Table('invalid', 'None.', [
        { name: 'upstream', label: 'Of', className: 'main',
          cell: shown((row) => row.upstream) },
        ...numbers(['mod_revision', 'Revision']),
        coded('key', 'Key'),
        { name: 'reason', label: 'Reason', className: 'wide',
          cell: shown((row) => row.reason) },
    ], 'upstream'),
};


// what the JSON says, as rows

const entries = (object) => Object.entries(object || {});

const byName = (object) => entries(object).map(
    ([name, value]) => ({ ...value, name }));


function upstreamType(module, { kind, failsafe, near_percent, prefer }) {
    return module + (kind === 'leader' ? ' leader' : '')
        + (failsafe ? ' (failsafe)' : '')
        + (near_percent >= 0 ? `, ${near_percent} % ${prefer}` : '');
}


function upstreamsOf(status) {
    const both = [['http', status.upstreams],
                  ['stream', status.stream_upstreams]];

    return both.flatMap(([module, list]) => entries(list).map(
        ([name, upstream]) => {
            const members = upstream.members || [];

            return {
                ...upstream, name, members,
                id: module + ' ' + name,
                type: upstreamType(module, upstream),
                where: upstream.cluster + ' ' + upstream.prefix,
                up: upstream.members
                    && members.filter(({ state }) => state === 'up').length,
                total: upstream.members && members.length,
                bad: (upstream.invalid || []).length,
            };
        }));
}


function membersOf(upstreams, seconds) {
    const now = new Map();
    const rows = [];

    for (const { id, name, members } of upstreams) {
        for (const member of members) {
            const key = `${id} ${member.address} ${member.key}`;
            const more = member.requests - view.before.get(key);

            member.id = id;
            member.upstream = name;
            member.rate = more >= 0 ? more / seconds : NaN;

            now.set(key, member.requests);
            rows.push(member);
        }
    }

    view.before = now;

    return rows;
}


function electionsOf(status) {
    return byName(status.elections).map((row) => ({
        ...row,
        role: row.is_leader ? 'leads' : row.leader === null ? 'nobody'
                                                            : 'follows',
        leader: row.leader === null ? 'nobody is known to lead' : row.leader,
    }));
}


// without a value: the default; a key with variables has many

function variablesOf(status) {
    return byName(status.variables).map((row) => ({
        ...row,
        value: row.values === undefined ? row.value ?? row.default
            : `${row.values} of ${row.limit} keys`
              + (row.unused ? `, ${row.unused} not used` : '')
              + (row.invalid ? `, ${row.invalid} invalid` : ''),
    }));
}


// what is refused, or not used, and members that fail their checks

function unusedOf(upstreams, variables) {
    return [
        ...upstreams.flatMap(({ name, invalid, unused, members }) => [
            ...(invalid || []),
            ...(unused || []).filter((one) => one.key),
            ...members.filter((one) => one.reason || /^un[hp]/.test(one.state))
                .map((one) => ({
                    reason: `check: ${one.check}, ${one.check_row} in a row`,
                    ...one,
                })),
        ].map((row) => ({ ...row, upstream: name }))),
        ...variables.filter((row) => row.reason).map((row) => ({
            ...row, upstream: row.name, mod_revision: row.invalid_revision,
        })),
    ];
}


// workers of this nginx, by keys of locks

function holdsOf(status) {
    return byName(status.locks).flatMap(({ name, holders, waiters }) => {
        const row = (one, role, ms) => ({
            ...one, role, ms,
            lock: one.key ? `${name}/${one.key}` : name,
        });

        return [
            ...(holders || []).map((one) => row(one, 'holds', one.held_ms)),
            ...(waiters || []).map((one) => row(one, 'waits', one.waiting_ms)),
        ];
    });
}


function eventsOf(status) {
    const events = (status.events || []).slice();

    events.sort((a, b) => a.time < b.time ? 1 : a.time > b.time ? -1 : 0);

    return events.slice(0, EVENTS);
}


// the summary: [section, label, number, tone, what it says beside]

function worst(rows) {
    const states = rows.map((row) => row.state);

    for (const tone of ['bad', 'warn', 'plain', 'ok']) {
        const found = states.find((state) => toneOf(state) === tone);

        if (found !== undefined) {
            return [tone, found];
        }
    }

    return ['', ''];
}


function summary(status, upstreams, members) {
    const up = members.filter((member) => member.state === 'up').length;
    const bad = upstreams.reduce((n, upstream) => n + upstream.bad, 0);
    const requests = members.reduce((n, row) => n + (row.rate || 0), 0);
    const elections = entries(status.elections);
    const locks = entries(status.locks);
    const led = elections.filter(([, election]) => election.is_leader).length;
    const held = locks.reduce((n, [, lock]) => n + (lock.held || 0), 0);
    const { size = 0, used = 0 } = status.zone || {};
    const clusters = byName(status.clusters);

    return [
        ['clusters', 'Clusters', count(clusters.length), ...worst(clusters)],
        ['upstreams', 'Upstreams', count(upstreams.length), 'plain',
         rate(requests) + ' req/s'],
        ['members', 'Members', count(members.length),
         up === members.length ? 'ok' : 'warn',
         up === members.length ? 'all up' : count(up) + ' up'],
        ['elections', 'Elections', count(elections.length),
         led ? 'ok' : 'plain', led ? 'leads in ' + count(led) : ''],
        ['locks', 'Locks', count(locks.length), 'plain',
         held ? count(held) + ' held' : ''],
        ['invalid', 'Invalid', count(bad), bad ? 'bad' : 'plain', 'values'],
        ['clusters', 'Zone', size ? (100 * used / size).toFixed(1) + ' %' : '–',
         used > .9 * size ? 'bad' : 'plain',
         'of ' + bytes(size)],
    ];
}


const tiles = [];

function showSummary(rows) {
    pool(tiles, rows, ([target]) => {
        const tile = make($('summary'), 'a');
        const label = make(tile, 'span');
        const figure = make(tile, 'b');
        const note = make(tile, 'span');

        tile.href = '#' + target;

        return [tile, ([, name, value, tone, text]) => {
            write(label, name);
            write(figure, value);
            set(note, 'className', 'tone ' + tone);
            write(note, text);
        }];
    });
}


// the last changes

const lines = [];

function showEvents(events) {
    pool(lines, events.length ? events : [null], () => {
        const line = make($('events'), 'li');
        const dot = make(line, 'i', 'dot');
        const time = make(line, 'time');
        const change = make(line, 'span', 'badge');
        const where = make(line, 'div');
        const key = make(line, 'span', 'code clip');

        return [line, (event) => {
            const { change: word = 'none yet', upstream = '', revision } =
                event || {};

            set(dot, 'className', 'dot ' + toneOf(word));
            set(change, 'className', 'badge ' + toneOf(word));
            write(change, word);
            write(time, event ? stamp(event.time) : '');
            set(time, 'dateTime', event ? event.time : '');
            write(where, event ? `${upstream}, revision ${revision}` : '');
            write(key, event ? event.key : '');
        }];
    });
}


// with the day, where it is another one

function stamp(text) {
    const date = new Date(text);

    if (Number.isNaN(date.getTime())) {
        return String(text);
    }

    const day = date.toDateString() === new Date().toDateString() ? ''
        : date.toLocaleDateString('en-GB', { day: 'numeric',
                                             month: 'short' }) + ' ';

    return day + clock(date) + '.'
        + String(date.getMilliseconds()).padStart(3, '0');
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


const wordsOf = (id) =>
    $(id).value.toLowerCase().split(/\s+/).filter(Boolean);


// who holds locks and who waits, with all words of the search

let holds = [];

function showHolds() {
    const words = wordsOf('find');

    tables.holds.show(holds.filter(({ lock, role, pid }) => {
        const text = `${lock}\n${role}\n${pid}`.toLowerCase();

        return words.every((word) => text.includes(word));
    }));
}


function find() {
    tables.holds.first = 0;
    showHolds();
    say(`${count(tables.holds.rows.length)} found`);
}


// members: those of one upstream, in one state, with all words of the search

let members = [];

function found() {
    const words = wordsOf('search');
    const state = $('state').value;

    return members.filter((member) => {
        if (view.only && member.id !== view.only) {
            return false;
        }

        if (state && member.state !== state) {
            return false;
        }

        if (words.length === 0) {
            return true;
        }

        member.text ??= `${member.key}\n${member.address}`.toLowerCase();

        return words.every((word) => member.text.includes(word));
    });
}


function search() {
    tables.members.first = 0;
    tables.members.show(found());
    say(plural(tables.members.rows.length, 'member', 'members') + ' found');
}


// the services of a prefix with variables: the first ones whose name has what
// is in the box, and the one that has that name

const choices = [];
let catalogs = [];
let question = 0;

function showCatalogs(upstreams) {
    catalogs = upstreams.filter((upstream) => upstream.sets !== undefined);

    pool(choices, catalogs, () => {
        const choice = make($('of'), 'option');

        return [choice, (upstream) => {
            write(choice, upstream.type + ' ' + upstream.name);
            set(choice, 'value', upstream.id);
        }];
    });

    set($('services'), 'hidden', catalogs.length === 0);
    set($('of'), 'hidden', catalogs.length < 2);
}


async function askServices() {
    const mine = ++question;
    const chosen = catalogs.find(({ id }) => id === $('of').value)
        || catalogs[0];

    if (!chosen) {
        return;
    }

    const status = await ask({ upstream: chosen.name,
                               set: $('service').value.trim() });
    const [found] = upstreamsOf(status).filter(({ id }) => id === chosen.id);

    if (mine !== question) {
        return;
    }

    tables.services.show(found?.list || []);
    set($('service-members'), 'hidden', !found?.set);

    if (found?.set) {
        write($('service-members-title'), 'Service ' + found.set.prefix);
        tables.service.show(found.set.members);
    }
}


function searchServices() {
    tables.services.first = 0;
    askServices().then(
        () => say(plural(tables.services.rows.length, 'service', 'services')
                  + ' found'),
        (error) => failed(error.message));
}


// null: all of them

function choose(upstream) {
    view.only = upstream ? upstream.id : '';
    $('only').disabled = !upstream;
    write($('only'), upstream ? `All upstreams (now: ${upstream.name})`
                              : 'All upstreams');
    tables.upstreams.draw();
    search();
}


// the whole of it

function show(status) {
    const time = performance.now();
    const seconds = (time - view.time) / 1000;
    const upstreams = upstreamsOf(status);
    const variables = variablesOf(status);
    const events = eventsOf(status);

    view.time = time;
    members = membersOf(upstreams, seconds);
    holds = holdsOf(status);

    write($('about'), [`${status.version} in nginx ${status.nginx}`,
                       `agent ${status.agent?.pid}, configuration `
                       + status.agent?.epoch, location.host].join(' · '));

    showSummary(summary(status, upstreams, members));
    tables.clusters.show(byName(status.clusters));
    tables.upstreams.show(upstreams);
    showCatalogs(upstreams);
    tables.members.show(found());
    tables.elections.show(electionsOf(status));
    tables.locks.show(byName(status.locks));
    showHolds();
    tables.variables.show(variables);
    tables.invalid.show(unusedOf(upstreams, variables));
    showEvents(events);
    sayChanges(events);

    set(document.querySelector('main'), 'hidden', false);
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
    write($('banner'), `No new data: ${reason}.${when}`);
    set($('banner'), 'hidden', false);
}


async function ask(what) {
    const url = new URL(location.pathname + location.search, location.origin);

    for (const [name, value] of entries({ ...what, format: 'json' })) {
        url.searchParams.set(name, value);
    }

    const answer = await fetch(url, {
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

    return answer.json();
}


async function poll() {
    if (view.busy || view.paused || document.hidden) {
        return;
    }

    const start = performance.now();

    view.busy = true;
    clearTimeout(view.timer);

    try {
        show(await ask());
        await askServices();
        view.last = new Date();
        state('ok', 'Live ' + clock(view.last));
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


for (const word of ['', 'up', 'backup', 'drain', 'down', 'unresolved',
                    'unproven', 'unhealthy', 'ejected', 'held'])
{
    make($('state'), 'option', '', word || 'All states').value = word;
}

$('pause').onclick = () => pause(!view.paused);
$('search').oninput = search;
$('find').oninput = find;
$('service').oninput = searchServices;
$('of').onchange = searchServices;
$('state').onchange = search;
$('only').onclick = () => choose(null);

document.onvisibilitychange = poll;

document.onkeydown = (event) => {
    if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey
        && !event.target.closest('input, select'))
    {
        event.preventDefault();
        $('search').focus();
    }
};

poll();
