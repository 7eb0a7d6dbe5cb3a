'use strict';

// Lines of the last minutes: requests, errors, usable members, staleness; of
// all, and of each upstream.  They outlive a reload of the page.

const HISTORY = 300000;      // ms that the lines at the top show
const GAP = 15000;           // ms after which a line is broken
const LINES = 100;           // upstreams that have lines


const KEPT = 'nginx-etcd ' + location.pathname;

let history_ = {};

try {
    history_ = JSON.parse(sessionStorage.getItem(KEPT)) || {};
} catch { /* there are none, or the browser keeps nothing */ }


addEventListener('pagehide', () => {
    try {
        sessionStorage.setItem(KEPT, JSON.stringify(history_));
    } catch { /* as above */ }
});


function remember(id, values) {
    const points = (history_[id] ??= []);
    const now = Date.now();

    points.push([now, ...values.map((value) =>
        Number.isFinite(value) ? Math.round(10 * value) / 10 : null)]);

    while (points[0][0] < now - HISTORY) {
        points.shift();
    }
}


function line(points, i, highest) {
    let last = 0;

    return points.map((point) => {
        if (point[i] === null) {
            return '';
        }

        const x = 200 * (1 - (Date.now() - point[0]) / HISTORY);
        const y = 31 - 30 * point[i] / (highest || 1);
        const move = point[0] - last > GAP ? 'M' : 'L';

        last = point[0];

        return `${move}${x.toFixed(1)} ${y.toFixed(1)}`
            + (move === 'M' ? 'h.5' : '');
    }).join('');
}


const tiles = [];
const SVG = 'http://www.w3.org/2000/svg';

function showTiles() {
    const points = Object.hasOwn(history_, view.upstream)
        ? history_[view.upstream] : [];
    const of = view.upstream && ' of ' + view.upstream.replace(/^\S+ /, '');
    const rows = [['Requests' + of, (n) => rate(n) + '/s'],
                  [view.responses ? '5xx' + of : 'Failures' + of,
                   view.responses ? (n) => rate(n) + '/s' : count],
                  ['Usable members' + of, count],
                  ['Staleness' + of, age]];

    pool(tiles, rows.map((row, i) => [...row, points, i + 1]), () => {
        const tile = make($('tiles'), 'div');
        const label = make(tile, 'span');
        const figure = make(tile, 'b');
        const svg = tile.appendChild(document.createElementNS(SVG, 'svg'));
        const path = svg.appendChild(document.createElementNS(SVG, 'path'));

        svg.setAttribute('viewBox', '0 0 200 32');
        svg.setAttribute('preserveAspectRatio', 'none');
        svg.setAttribute('aria-hidden', 'true');

        const note = make(tile, 'small');

        return [tile, ([name, show, points, i]) => {
            const last = points.at(-1) || [];
            const known = points.map((point) => point[i])
                .filter(Number.isFinite);
            const highest = Math.max(0, ...known);

            write(label, name);
            write(figure, show(last[i] ?? NaN));
            path.setAttribute('d', line(points, i, highest));
            write(note, known.length < 2 ? '' : (i === 3
                ? `${show(Math.min(...known))} to ` : 'up to ')
                + show(highest));
        }];
    });
}


function record(status) {
    const sum = (name) => upstreams.reduce((n, one) => n + (one[name] || 0), 0);
    const ages = byName(status.clusters).map((one) => one.staleness_ms)
        .filter((ms) => ms >= 0);

    remember('', [sum('rate'), sum('errors'),
                  sum('up'),
                  ages.length ? Math.max(...ages) : NaN]);

    for (const one of upstreams.slice(0, LINES)) {
        remember(one.id, [one.rate, one.errors, one.up,
                          one.staleness_ms >= 0 ? one.staleness_ms : NaN]);
    }
}
