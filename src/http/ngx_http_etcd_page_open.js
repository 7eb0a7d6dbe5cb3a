'use strict';

// What is open: a service, an upstream, a member; and the services of prefixes
// with variables.

const PAGES = 2;             // of services that are read after each answer
const FIRST_PAGES = 10;      // the same, until all were read once


// The services of prefixes with variables come by pages, and are read again and
// again: each sweep goes on where the last one has ended.

const sweeps = new Map();

const services = () => upstreams.filter(({ sets }) => sets !== undefined)
    .flatMap((upstream) => servicesOf(upstream,
                                      sweeps.get(upstream.id)?.rows || []));

async function sweep({ id, name, module }) {
    const mine = sweeps.get(id) || { from: 0, found: [], rows: [], at: null };

    sweeps.set(id, mine);

    for (let n = mine.at ? PAGES : FIRST_PAGES; n > 0; n--) {
        const status = await ask({ upstream: name, from: mine.from });
        const one = (module === 'http' ? status.upstreams
                                       : status.stream_upstreams)[name];

        mine.found.push(...one?.list || []);
        mine.from = one?.next || 0;

        if (!mine.at) {
            mine.rows = mine.found;
        }

        if (!mine.from) {
            mine.rows = mine.found;
            mine.found = [];
            mine.at = view.at;
            return;
        }
    }
}


// the open service

let question = 0;

async function readService() {
    const mine = ++question;
    const upstream = upstreams.find(({ id }) => id === view.upstream);
    const name = view.service;

    if (!upstream || !name) {
        service = null;
        return;
    }

    const status = await ask({ upstream: upstream.name, set: name });
    const found = upstreamsOf(status).find(({ id }) => id === upstream.id);

    if (mine !== question) {
        return;
    }

    const time = view.at;
    const now = new Map();
    const own = found?.set || { members: [], prefix: '' };
    const last = service?.now || new Map();

    service = {
        ...own, now, raw: own,
        members: rated(membersOf({
            ...own, id: `${upstream.id} ${name}`, name: upstream.name,
        }, last, now, time), service?.time),
        time: performance.now(),
    };
}


function askService() {
    if (view.service) {
        readService().then(draw, (error) => failed(error.message));
    }
}


function rated(rows, then) {
    const seconds = (performance.now() - then) / 1000;

    for (const member of rows) {
        member.rate = more(member.requests, member.then) / seconds;
    }

    return rows;
}


// facts, as pairs with a head

function makeGroup(parent) {
    const group = make(parent, 'div');
    const head = make(group, 'h3');
    const list = make(group, 'dl');
    const pairs = [];

    return [group, ([title, facts]) => {
        const rows = entries(facts).filter(([, value]) => value !== undefined);

        write(head, title);
        set(head, 'hidden', !title);
        set(group, 'hidden', rows.length === 0);
        pool(pairs, rows, () => {
            const pair = make(list, 'div');
            const name = make(pair, 'dt');
            const value = make(pair, 'dd', 'code');

            return [pair, ([label, text]) => {
                write(name, label);
                write(value, String(text));
            }];
        });
    }];
}


// the open upstream, or service: all of its fields

const ones = [];

function showOne() {
    const upstream = upstreams.find(({ id }) => id === view.upstream);
    const one = view.service ? service?.raw : upstream?.raw;

    set($('one'), 'hidden', !view.upstream);

    if (view.upstream) {
        write($('one-title'), view.service
            ? `Service ${service?.prefix || view.service}`
            : `Upstream ${view.upstream}`);
        write($('one-why'), view.service && service?.prefix === ''
            ? 'There is no such service.' : view.service || !upstream ? ''
            : upstream.why && `${upstream.state}: ${upstream.why}`);
        pool(ones, [['', Object.fromEntries([...fieldsOf(one || {}, '', [
            'members', 'list', 'invalid', 'unused', 'set', 'next'])].map(
                ({ name, value }) => [name, value]))]],
             () => makeGroup($('one')));
    }

    const name = view.service || view.upstream.replace(/^\S+ /, '');

    set($('only'), 'hidden', !view.upstream);
    write($('only'), `All upstreams (now: ${name})`);
    $('download').href = address(!upstream ? {} : view.service
        ? { upstream: upstream.name, set: view.service }
        : { upstream: upstream.name });
}


// the open member

const groups = [];

function showMember() {
    const dialog = $('member');
    const rows = view.service ? service?.members || [] : members;
    const member = rows.find(({ mid }) => mid === view.member);

    if (!view.member || !view.status) {
        if (dialog.open) {
            dialog.close();
        }

        return;
    }

    if (member) {
        const facts = factsOf(member, rows, eventsOf(view.status));

        write($('member-name'), member.address);
        write($('member-state'), member.state);
        set($('member-state'), 'className', 'badge ' + toneOf(member.state));
        pool(groups, entries(facts), () => makeGroup(dialog));

    } else if (!dialog.open) {
        write($('member-name'), view.member.replace(/^\S+ /, ''));
        pool(groups, []);
    }

    write($('member-why'), member ? stateOf(member)
          : 'There is no such member now.');

    if (!dialog.open) {
        dialog.showModal();
    }
}
