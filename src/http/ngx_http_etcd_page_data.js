'use strict';

// What the JSON says, as rows of tables, and what of it is wrong.

const EVENTS = 64;
const NAMED = 10;            // services of an upstream that are named at once
const QUIET = 3000;          // ms without an answer that are usual
const CLOSED = 15000;        // ms after which nothing is proved
const RECENT = 60000;        // ms for which what was refused is shown


const entries = (object) => Object.entries(object || {});

const byName = (object) => entries(object).map(
    ([name, value]) => ({ ...value, name }));


const WHY = {
    loading: 'nginx has not read all keys yet',
    unreachable: 'nothing was read yet, and etcd does not answer',
    unauthorized: 'nothing was read yet, and etcd refuses the login',
    denied: 'etcd does not let nginx read the prefix',
    zone_full: 'the zone has no room for the members: raise "zone"',
    unreadable: 'a worker cannot read the zone',
    no_members: 'no key below the prefix has a member',
    all_unresolved: 'no host name has an address',
    all_down: 'all members are marked down',
    all_drained: 'all members drain',
    all_unhealthy: 'checks keep requests off all members',
    all_ejected: 'all members are ejected',
    all_failing: 'requests to all members fail',
    all_busy: 'all members have max_conns connections',
    no_leader: 'nobody leads',
    stale: 'etcd has not confirmed the members or the leader for too long',
    unknown: 'there is no service of this name',
    queue_full: 'too many requests wait',
    lock_queue_full: 'too many requests wait for the lock',
    lock_unavailable: 'etcd does not answer those who want the lock',
    lock_lost: 'requests have lost the lock while they held it',
};


// a key whose address another one has is no member

const distinct = ({ state }) => state !== 'shadowed';


// numbers of members by state, the most first

function statesOf(members) {
    const numbers = new Map();

    for (const { state } of members) {
        numbers.set(state, (numbers.get(state) || 0) + 1);
    }

    return [...numbers].sort(([, a], [, b]) => b - a);
}


// what the check of a member has found, of the first that fails

function failedCheck(members) {
    const failed = members.find(({ state, check }) =>
        check && /^un[hp]/.test(state));

    return failed ? `; the check of ${failed.address} says: ${failed.check}`
                  : '';
}


function reasonOf({ state, reason, members: all, sets }) {
    const members = all.filter(distinct);

    if (!/^(?:down|degraded)$/.test(state)) {
        return reason || '';
    }

    const numbers = statesOf(members).filter(
        ([word]) => state === 'down' || !/^(?:up|backup)$/.test(word));

    return [
        WHY[reason] || reason,
        numbers.length && numbers.map(([word, n]) => `${count(n)} ${word}`)
            .join(', ') + ' of ' + plural(members.length, 'member', 'members')
            + failedCheck(members),
    ].filter(Boolean).join(': ') || (sets === undefined ? state
                                     : `some of ${count(sets)} services`);
}


function upstreamType(module, upstream) {
    if (upstream.line > 1) {
        return module + ' backup' + (upstream.in_use ? ', in use' : '');
    }

    return upstream.kind === 'leader' ? module + ' leader' : module;
}


const usable = (members) =>
    members.filter(({ state }) => /^(?:up|backup)$/.test(state)).length;


function upstreamsOf(status) {
    const both = [['http', status.upstreams],
                  ['stream', status.stream_upstreams]];

    return both.flatMap(([module, list]) => entries(list).map(
        ([name, upstream]) => {
            const members = upstream.members || [];

            return {
                ...upstream, name, members, module,
                raw: upstream,
                id: module + ' ' + name,
                type: upstreamType(module, upstream),
                where: upstream.cluster + ' ' + upstream.prefix,
                up: upstream.members && usable(members),
                total: upstream.members && members.filter(distinct).length,
                bad: (upstream.invalid || []).length,
                why: reasonOf({ ...upstream, members }),
            };
        }));
}


// what is not of the JSON in a member

const OURS = ['id', 'mid', 'upstream', 'prefix', 'then', 'since', 'seen',
              'text', 'rate'];


// Members of an upstream, or of one of its services.  What they had in the
// last answer tells the requests of a second, and since when they are in their
// state: at least since this page has seen it.

function membersOf({ id, name, prefix, members }, last, now, time) {
    for (const member of members) {
        const key = `${id} ${member.address} ${member.key}`;
        const then = last.get(key);
        const same = then?.state === member.state;

        member.id = id;
        member.mid = key;
        member.upstream = name;
        member.prefix = prefix;
        member.then = then?.requests;
        member.since = same ? then.since : time;
        member.seen = same ? then.seen : then !== undefined;

        now.set(key, member);
    }

    return members;
}


const more = (now, then) => now >= then ? now - then : NaN;


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
            ...(holders || []).map((one) => row(
                one, one.shared ? 'shares' : 'holds', one.held_ms)),
            ...(waiters || []).map((one) => row(one, 'waits', one.waiting_ms)),
        ];
    });
}


function eventsOf(status) {
    const events = (status.events || []).slice();

    events.sort((a, b) => a.time < b.time ? 1 : a.time > b.time ? -1 : 0);

    return events.slice(0, EVENTS);
}


// services that an upstream's pages name

function servicesOf(upstream, list) {
    return list.map((row) => {
        const state = row.state || (row.up > 0 ? 'ok' : 'down');

        return {
            ...row, state, upstream: upstream.name, of: upstream.id,
            why: WHY[row.reason] || row.reason
                || (row.members ? `${row.up} of `
                    + plural(row.members, 'member is', 'members are') + ' up'
                    : WHY.no_members),
        };
    });
}


// every value of the JSON with its path; members have views of their own

function* fieldsOf(value, path, leave) {
    if (value === null || typeof value !== 'object') {
        yield { name: path, value: String(value) };
        return;
    }

    for (const [name, inner] of Object.entries(value)) {
        if (!leave.includes(name)) {
            yield* fieldsOf(inner, Array.isArray(value) ? `${path}[${name}]`
                            : path ? `${path}.${name}` : name, leave);
        }
    }
}


// What is wrong, the worst first: { word, what, why, go or section }, where the
// last one says what shows more of it.

const mute = ({ state, staleness_ms: ms }) =>
    /^(?:connecting|unauthorized)$/.test(state)
    || state === 'stale' && !(ms <= QUIET);


function clusterTrouble(cluster, at) {
    const { state, staleness_ms: ms, reason, endpoints } = cluster;
    const errors = (endpoints || []).filter(({ error }) => error)
        .map(({ url, error }) => `${url}: ${error}`);
    const texts = {
        denied: 'etcd does not let nginx read all of it',
        'zone full': 'the zone has no room for a member: raise "zone"',
        stale: 'no proof of a leader for too long: upstreams of leaders are'
               + ' closed',
        syncing: 'nginx reads its keys',
    };
    const lead = state === 'unauthorized' ? 'etcd refuses the login'
                                          : 'no answer';

    const text = !mute(cluster) ? texts[state]
        : ms >= 0 ? `${lead} for ${span(ms / 1000)}: members stay as known at `
                    + `${clock(at - ms)}; leaders, locks and elections `
                    + (ms < CLOSED ? 'will close soon' : 'are closed')
        : `${lead} yet: nothing is known from etcd`;

    return {
        word: mute(cluster) && lead === 'no answer' ? lead : state,
        what: 'etcd ' + cluster.name,
        section: 'clusters',
        why: [text, reason, ...errors].filter(Boolean).join('; '),
    };
}


function noticesOf({ name, id, held_for: held, panic, over_limit: over, bad,
                     check_role: role }) {
    return [
        role === 'alone' && 'no observer of its checks is heard or believed,'
                            + ' this nginx checks for itself',
        held !== undefined && 'the guard holds members whose keys are gone, for'
                              + ` ${span(held)} more`,
        panic > 0 && 'so many checks fail that they are ignored (panic)',
        over > 0 && plural(over, 'key is', 'keys are')
                    + ' beyond "limit", or without room in the zone',
        bad > 0 && `${plural(bad, 'value is', 'values are')} invalid`,
    ].filter(Boolean).map((why) => (
        { word: 'notice', what: name, why, go: { upstream: id } }));
}


// What was refused lately, since the page was opened, less what an upstream's
// state says, and locks that are held, which is what they are for.

const refusals = new Map();

function refusedOf(upstreams, locks, at) {
    const begun = refusals.has('');
    const rows = [...upstreams, ...locks.map(({ name, refused }) => (
        { refused, name: 'lock ' + name, section: 'locks' }))];

    refusals.set('');

    return rows.flatMap(({ id, name, reason, refused, section }) => entries(
        refused).flatMap(([word, n]) => {
        const key = `${id || name} ${word}`;
        const last = refusals.get(key) || { n: begun ? 0 : n };

        if (n !== last.n) {
            Object.assign(last, { n, grown: at });
        }

        refusals.set(key, last);

        return word === reason || word === 'lock_held'
            || !(at - last.grown < RECENT) ? [] : [{
                word: 'notice', what: name, section,
                why: `requests are refused, ${word}: ${WHY[word] || ''}`,
                go: section ? undefined : { upstream: id },
            }];
    }));
}


function downServices(services) {
    const lists = new Map();

    for (const row of services) {
        const name = `${row.state} ${row.of}`;

        if (!lists.has(name)) {
            lists.set(name, []);
        }

        lists.get(name).push(row);
    }

    return [...lists.values()].flatMap((list) => [
        ...list.slice(0, NAMED).map(({ state, name, of, upstream, why }) => ({
            word: state, what: `${upstream}: ${name}`, why, n: 1,
            go: { upstream: of, service: name },
        })),
        ...list.length <= NAMED ? [] : [{
            word: list[0].state, what: list[0].upstream,
            n: list.length - NAMED,
            why: `${plural(list.length - NAMED, 'service', 'services')} more:`
                 + ' see the table of services',
            go: { upstream: list[0].of },
        }],
    ]);
}


// what etcd does not say comes before what follows from it

const weightOf = ({ word }) => ['no answer', 'down', 'degraded', 'notice']
    .indexOf(word) + 1 || (toneOf(word) === 'bad' ? 1.5 : 3.5);


function problemsOf(status, { upstreams, services, variables, at }) {
    const clusters = byName(status.clusters);
    const lost = clusters.some(mute);
    const { size, used } = status.zone || {};
    const wrong = services.filter(({ state }) => state !== 'ok');

    const all = [
        ...clusters.filter(({ state }) => !/^(?:synced|idle)$/.test(state))
            .map((cluster) => clusterTrouble(cluster, at)),
        ...upstreams.filter(({ id, state }) => /^d/.test(state)
                            && !wrong.some(({ of }) => of === id))
            .map(({ id, name, state, why }) => ({
                word: state, what: name, why, n: 1, go: { upstream: id } })),
        ...downServices(wrong),
        ...electionsOf(status).filter(({ role }) => role === 'nobody' && !lost)
            .map(({ name, leader }) => (
                { word: 'nobody', what: 'election ' + name, why: leader,
                  section: 'elections' })),
        ...upstreams.flatMap(noticesOf),
        ...refusedOf(upstreams, byName(status.locks), at),
        ...variables.filter(({ reason, state }) => reason || state === 'denied')
            .map(({ name, state, reason }) => (
                { word: 'notice', what: name, why: reason || state,
                  section: 'variables' })),
        used > .9 * size
            && { word: 'notice', what: 'zone', section: 'rest',
                 why: `${bytes(used)} of ${bytes(size)} are used` },
    ];

    return all.filter(Boolean)
        .sort((a, b) => weightOf(a) - weightOf(b))
        .map((problem, rank) => ({ ...problem, rank }));
}


// The state in few words, for the title.

function headline(problems) {
    const sum = (word) => problems.reduce(
        (n, problem) => n + (problem.word === word && (problem.n || 1)), 0);
    const down = sum('down');
    const degraded = sum('degraded');
    const notices = problems.length;

    return [
        problems.some(({ what, word }) => word === 'no answer') && 'no etcd',
        down && `${down} down`,
        degraded && `${degraded} degraded`,
    ].filter(Boolean).join(', ')
        || (notices ? plural(notices, 'notice', 'notices') : 'ok');
}


// Of a member: why it is in its state, and all that is known of it.

function stateOf(m, status) {
    const check = `${m.check}, ${m.check_row} in a row`
        + `, for ${span(m.check_for)}`;

    return {
        up: 'It gets requests.',
        backup: 'It gets requests if members of a lower priority cannot.',
        busy: 'It has max_conns connections.',
        failing: 'Requests to it have failed' + (m.failed_ago === undefined
            ? '.' : `, the last time ${span(m.failed_ago)} ago.`),
        ejected: 'It has failed more often than others'
            + (m.ejected_for === undefined ? '.'
               : `, and gets no request for ${span(m.ejected_for)}.`),
        unhealthy: `Checks fail: ${check}.`,
        unproven: m.check ? `No check has succeeded yet: ${check}.`
            : 'It was not checked yet.',
        drained: m.drained_by === 'key'
            ? 'An operator drains it, by the key that the last line deletes.'
            : 'Its value says so.',
        down: 'Its value says so.',
        held: 'Its key is gone; the guard holds it.',
        unresolved: m.reason,
        shadowed: `Another key has its address: ${m.hidden_by}`,
    }[m.state] || '';
}


function drainKey({ prefix, address }) {
    return quoted(`${prefix}${prefix.endsWith('/') ? '' : '/'}.drain/`
                  + address);
}


const answersOf = (responses) => Object.entries(responses)
    .filter(([, n]) => n).map(([name, n]) => `${count(n)} ${name}`).join(', ')
    || 'none';


// the mean, and the least bound that 95 of 100 answers keep

function timesOf({ count: all, sum_ms, buckets }) {
    const bound = buckets.find(({ count: n }) => n >= .95 * all);

    return all === 0 ? 'none' : `${(sum_ms / all).toFixed(1)} ms on average, `
        + (bound ? `95 of 100 within ${count(bound.le_ms)} ms`
                 : `some above ${count(buckets.at(-1).le_ms)} ms`);
}


// The facts about a member, by heads.  A fact that is undefined is left out;
// what no other part shows is in the last one.

function factsOf(m, members, events) {
    const shown = ['address', 'state', 'key', 'lease', 'mod_revision', 'host',
                   'weight', 'priority', 'max_conns', 'max_fails',
                   'fail_timeout', 'slow_start_ms', 'route', 'near',
                   'drained_by', 'check', 'check_for', 'check_row', 'check_us',
                   'fails', 'failed_ago', 'conns', 'requests', 'responses',
                   'sent', 'received', 'response_time', 'hides', 'hidden_by'];
    const if_ = (value, text) => value === undefined ? undefined : text;
    const hidden = members.filter((other) => other.hidden_by === m.key)
        .map(({ key }) => key);
    const drains = m.key && m.state !== 'unresolved';

    return {
        'Its key': {
            Key: m.key || 'none: a server of the configuration',
            Lease: m.lease || 'none',
            Revision: m.mod_revision,
            Hides: [...new Set([m.hides, ...hidden])].filter(Boolean)
                .join('\n') || undefined,
            'Hidden by': m.hidden_by,
        },
        'Its value, as nginx has read it': {
            Address: m.address,
            Host: m.host,
            Weight: m.weight,
            Priority: m.priority ?? 0,
            max_conns: m.max_conns ?? 'no limit',
            Failures: (m.max_fails ?? 1)
                ? `${m.max_fails ?? 1} in ${m.fail_timeout ?? 10} s`
                  + ` keep requests off it for ${m.fail_timeout ?? 10} s`
                : 'are ignored (max_fails=0)',
            'Slow start': if_(m.slow_start_ms, age(m.slow_start_ms)),
            Route: m.route,
            Preferred: m.near,
            'Drained by': m.drained_by,
        },
        'What happened': {
            State: m.state + (m.seen ? ', since ' : ', at least since ')
                + stamp(m.since, true),
            'Last check': if_(m.check, `${m.check}, ${m.check_row} in a row`
                + `, for ${span(m.check_for)}, took `
                + `${(m.check_us / 1000).toFixed(1)} ms`),
            'Last failure': if_(m.failed_ago, `${span(m.failed_ago)} ago, `
                + `${m.fails} count now`),
            Requests: `${count(m.requests)}, ${count(m.conns)} now`,
            Answers: m.responses && answersOf(m.responses),
            'Answer times': m.responses && timesOf(m.response_time),
            Bytes: if_(m.responses,
                       `${count(m.sent)} to it, ${count(m.received)} from it`),
            Changes: events.filter(({ key }) => key === m.key).map((event) =>
                `${stamp(event.time)} ${event.change}, revision `
                + event.revision).join('\n') || undefined,
        },
        'To drain it, and to end that': {
            Drain: drains ? `etcdctl put ${drainKey(m)} ''` : undefined,
            End: drains ? `etcdctl del ${drainKey(m)}` : undefined,
            'No way': drains ? undefined : 'no key drains it',
        },
        'All else': Object.fromEntries(
            [...fieldsOf(m, '', [...shown, ...OURS])].map(
                ({ name, value }) => [name, value])),
    };
}


// with the day, where it is another one

function stamp(text, whole) {
    const date = new Date(text);

    if (Number.isNaN(date.getTime())) {
        return String(text);
    }

    const day = date.toDateString() === new Date().toDateString() ? ''
        : date.toLocaleDateString('en-GB', { day: 'numeric',
                                             month: 'short' }) + ' ';

    return day + clock(date) + (whole ? '' : '.'
        + String(date.getMilliseconds()).padStart(3, '0'));
}
