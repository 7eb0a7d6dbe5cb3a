'use strict';

// Searches the sections of all pages: all words must be in a section.  A
// heading that is the text, or begins with it, comes before others.

const root = new URL('.', document.currentScript.src);
const search = document.querySelector('search');
const input = search.querySelector('input');
const list = search.querySelector('ol');


function rank(words, heading, text) {
    const query = words.join(' ');
    const name = heading.toLowerCase();
    const all = name + ' ' + text.toLowerCase();

    return name === query ? 5 : name === '$' + query ? 4
           : name.startsWith(query) ? 3
           : words.every(word => name.includes(word)) ? 2
           : words.every(word => all.includes(word)) ? 1 : 0;
}


// Some text around the first of the words

function excerpt(words, text) {
    const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 40);

    return (at ? '... ' : '') + text.slice(at, at + 120);
}


function result(words, [address, title, heading, text]) {
    const item = document.createElement('li');
    const link = document.createElement('a');
    const small = document.createElement('small');

    link.href = new URL(address, root);
    link.textContent = heading === title ? title : heading + ' - ' + title;
    small.textContent = excerpt(words, text);
    item.append(link, small);

    return item;
}


function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = !words.length ? [] : sections
        .map(section => [rank(words, section[2], section[3]), section])
        .filter(([rank]) => rank)
        .sort(([a], [b]) => b - a)
        .slice(0, 30);

    list.replaceChildren(...found.map(([, section]) => result(words, section)));

    if (words.length && !found.length) {
        list.textContent = 'Nothing found';
    }
}


input.addEventListener('input', show);

input.addEventListener('keydown', event => {
    if (event.key === 'Enter') {
        list.querySelector('a')?.click();
    }
});

document.addEventListener('keydown', event => {
    if (event.key === '/' && document.activeElement !== input) {
        event.preventDefault();
        input.focus();
    }
});

search.hidden = false;

for (const details of document.querySelectorAll('details')) {
    details.open = matchMedia('(min-width: 64rem)').matches;
}
