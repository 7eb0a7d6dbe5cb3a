'use strict';

// What the page is made of: words and numbers, elements, and tables that sort
// and turn pages.

const PAGE = 50;             // rows of a table
const SHORT = 15;            // of one before those of upstreams and members


const $ = (id) => document.getElementById(id);


// words, numbers

const number = new Intl.NumberFormat('en');

const TONES = {
    bad: ['down', 'failed', 'unauthorized', 'denied', 'zone full',
          'no answer', 'unresolved', 'invalid', 'unhealthy', 'ejected',
          'failing', 'stale'],
    warn: ['drained', 'busy', 'connecting', 'syncing', 'update', 'unproven',
           'waits', 'held', 'degraded', 'nobody', 'notice'],
    plain: [],
    ok: ['up', 'ok', 'synced', 'connected', 'add', 'leads', 'holds'],
};

const tones = new Map(Object.entries(TONES).flatMap(
    ([tone, words]) => words.map((w) => [w, tone])));

const toneOf = (word) => tones.get(word) || 'plain';

// what is sorted by this has the worst first

const rankOf = (word) => Object.keys(TONES).indexOf(toneOf(word));

const count = (n) => Number.isFinite(n) ? number.format(n) : '–';

const plural = (n, one, many) => count(n) + ' ' + (n === 1 ? one : many);

const clock = (date) => new Date(date).toLocaleTimeString('en-GB');


function rate(n) {
    return !Number.isFinite(n) ? '–'
        : n > 0 && n < 10 ? n.toFixed(1) : count(Math.round(n));
}


function age(ms) {
    return !Number.isFinite(ms) ? '–'
        : ms < 0 ? 'never'
        : ms < 100000 ? (ms / 1000).toFixed(1) + ' s'
        : ms < 6000000 ? Math.round(ms / 60000) + ' min'
        : Math.round(ms / 3600000) + ' h';
}


// whole seconds, as in a sentence

const span = (s) => s < 100 ? Math.round(s) + ' s' : age(1000 * s);


function bytes(n) {
    return !Number.isFinite(n) ? '–'
        : n < 1048576 ? Math.round(n / 1024) + ' KiB'
        : (n / 1048576).toFixed(1) + ' MiB';
}


// texts in which numbers are in order: 10.0.0.9 before 10.0.0.10

const orders = new Map();

function order(text) {
    let made = orders.get(text);

    if (made === undefined) {
        if (orders.size > 100000) {
            orders.clear();
        }

        made = text.toLowerCase().replace(/\d+/g, (n) => n.padStart(12, '0'));
        orders.set(text, made);
    }

    return made;
}


// A word of a shell, in which nothing is a command, and no byte controls the
// terminal that it is pasted into.

function quoted(text) {
    if (/^[\w/.:@%+=,-]+$/.test(text)) {
        return text;
    }

    if (/^[ -~]*$/.test(text)) {
        return "'" + text.replaceAll("'", "'\\''") + "'";
    }

    return "$'" + Array.from(new TextEncoder().encode(text), (byte) =>
        byte < 32 || byte > 126 || byte === 39 || byte === 92
            ? '\\x' + byte.toString(16).padStart(2, '0')
            : String.fromCharCode(byte)).join('') + "'";
}


const rankable = (value) => typeof value === 'string' ? order(value)
    : Number.isFinite(value) ? value : -Infinity;


// elements

function make(parent, name, className, text) {
    const element = document.createElement(name);

    if (className) {
        element.className = className;
    }

    if (text !== undefined) {
        element.textContent = text;
    }

    return parent.appendChild(element);
}


function write(element, text) {
    if (element.textContent !== text) {
        element.textContent = text;
    }
}


function set(element, property, value) {
    if (element[property] !== value) {
        element[property] = value;
    }
}


function say(text) {
    write($('said'), text);
}


// What a cell is made of: a function of the cell that makes it once, and
// returns one that shows a row in it.

const shown = (get) => (cell) => (row) => write(cell, String(get(row)));

const figure = (name, show) => (cell) => (row) => {
    write(cell, show(row[name]));
    cell.classList.toggle('zero', !row[name]);
};

const code = (name) => (cell) => {
    const box = make(cell, 'span', 'code clip');

    return (row) => {
        const text = String(row[name] ?? '');

        write(box, text);
        set(box, 'title', text.length > 60 ? text : '');
    };
};

const link = (name, go) => (cell) => {
    const button = make(cell, 'button', 'code');
    let mine;

    button.type = 'button';
    button.onclick = () => go(mine);

    return (row) => {
        mine = row;
        write(button, String(row[name] ?? ''));
    };
};

const badge = (get) => (cell) => {
    const box = make(cell, 'span', 'badge');

    return (row) => {
        const word = String(get(row) ?? '–');

        write(box, word);
        set(box, 'className', 'badge ' + toneOf(word));
    };
};


// Elements are used again for other rows: there are never more of them than
// rows were to be seen at one time.

function pool(elements, rows, create) {
    rows.forEach((row, i) => {
        if (elements[i] === undefined) {
            elements[i] = create(row);
        }

        const [element, show] = elements[i];

        set(element, 'hidden', false);
        show(row);
    });

    for (let i = rows.length; i < elements.length; i++) {
        set(elements[i][0], 'hidden', true);
    }
}


// Tables.  A column is { name, label, cell, and maybe className and by: what
// the rows are sorted by }; then by what the first column has.

class Table {

    constructor(id, none, columns, first) {
        const section = $(id);

        this.id = id;
        this.page = /^(?:problems|services)$/.test(id) ? SHORT : PAGE;
        this.usual = columns.find((column) => column.name === first);

        this.columns = columns;
        this.rows = [];
        this.lines = [];
        this.first = 0;
        this.none = none;
        this.sorted = this.usual;
        this.down = false;

        this.table = make(section, 'table');
        this.table.setAttribute('role', 'table');
        this.table.setAttribute('aria-labelledby', id + '-title');
        section.querySelector('h2').id = id + '-title';

        this.makeHead();
        this.body = make(this.table, 'tbody');
        this.body.setAttribute('role', 'rowgroup');
        this.empty = make(section, 'p', 'empty', none);
        this.makeFoot(section);
    }

    makeHead() {
        const head = make(this.table, 'thead');
        const line = make(head, 'tr');

        head.setAttribute('role', 'rowgroup');
        line.setAttribute('role', 'row');

        for (const column of this.columns) {
            column.head = make(line, 'th', column.className);
            column.head.scope = 'col';
            column.head.setAttribute('role', 'columnheader');

            const button = make(column.head, 'button', '', column.label);

            button.type = 'button';
            button.onclick = () => this.sort(column);
        }

        this.showSorted();
    }

    makeFoot(section) {
        this.foot = make(section, 'div', 'foot');
        this.range = make(this.foot, 'span');
        this.back = this.turn('Previous', -this.page);
        this.forth = this.turn('Next', this.page);
    }

    turn(label, rows) {
        const button = make(this.foot, 'button', '', label);

        button.type = 'button';
        button.onclick = () => {
            this.first += rows;
            this.draw();
            say(this.range.textContent);
        };

        return button;
    }

    sort(column) {
        this.down = this.sorted === column && !this.down;
        this.sorted = column;
        this.resort();
        keepView();
        say(`Sorted by ${column.label}, ${this.down ? 'de' : 'a'}scending`);
    }

    // how it is sorted: '' if as ever, else a column, with '-' if descending

    get order() {
        return this.sorted === this.usual && !this.down ? ''
            : (this.down ? '-' : '') + this.sorted.name;
    }

    set order(text) {
        const name = text.replace('-', '');

        this.down = text !== name;
        this.sorted = this.columns.find((column) => column.name === name)
            || this.usual;
        this.resort();
    }

    resort() {
        this.first = 0;
        this.showSorted();
        this.show(this.rows);
    }

    showSorted() {
        for (const column of this.columns) {
            if (column === this.sorted) {
                column.head.setAttribute('aria-sort', this.down
                                         ? 'descending' : 'ascending');
            } else {
                column.head.removeAttribute('aria-sort');
            }
        }
    }

    show(rows) {
        const { name, by } = this.sorted;
        const second = this.columns[0].name;
        const sign = this.down ? -1 : 1;
        const key = by || ((row) => row[name]);
        const keyed = rows.map((row) => [rankable(key(row)),
                                         rankable(row[second]), row]);

        keyed.sort(([a, c], [b, d]) => a < b ? -sign : a > b ? sign
                   : c < d ? -1 : c > d ? 1 : 0);

        this.rows = keyed.map(([, , row]) => row);
        this.draw();
    }

    draw() {
        const n = this.rows.length;
        const last = n ? Math.floor((n - 1) / this.page) * this.page : 0;

        this.first = Math.max(0, Math.min(this.first, last));

        const end = Math.min(this.first + this.page, n);

        pool(this.lines, this.rows.slice(this.first, end),
             () => this.makeLine());

        set(this.table, 'hidden', n === 0);
        set(this.table, 'className', n < 2 ? 'few' : '');
        set(this.empty, 'hidden', n !== 0);
        set(this.foot, 'hidden', n <= this.page);
        set(this.back, 'disabled', this.first === 0);
        set(this.forth, 'disabled', end === n);
        write(this.range, `${count(this.first + 1)}–${count(end)} of `
                          + count(n));
    }

    makeLine() {
        const line = make(this.body, 'tr');
        const cells = this.columns.map((column) => {
            const cell = make(line, 'td', column.className);

            cell.setAttribute('role', 'cell');
            cell.dataset.label = column.label;

            return column.cell(cell);
        });

        line.setAttribute('role', 'row');

        return [line, (row) => cells.forEach((show) => show(row))];
    }
}
