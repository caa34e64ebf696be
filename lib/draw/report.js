/*
 * The report put together: reads the tables, plots and samples that report_data.c wrote into the
 * page, puts each plot into the section it belongs to, and starts the viewers. Drawing is in
 * report_figure.js, the viewer in report_viewer.js.
 */
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const slots = []; /* places of panels, drawn again when widths or colours change */

/* A column as an array: plain, or runs of equal values as [value, times, ...]. */
function unpack(column) {
    const list = column.runs ? column.runs.flatMap((v, i, all) => i % 2 ? [] : Array(all[i + 1]).fill(v)) : column.list;
    return column.names ? list.map(i => column.names[i]) : list;
}

/* Rows of a frame on demand: {title, caption, rows, at: {column: [values]}}. */
const frames = new Map();
function frame(name) {
    if (!frames.has(name)) {
        const packed = data.frames[name];
        if (!packed || !packed.data) return null;
        const at = {};
        packed.columns.forEach((column, i) => at[column] = unpack(packed.data[i]));
        frames.set(name, {...packed, at, rows: packed.rows});
    }
    return frames.get(name);
}

const distinct = list => [...new Set(list)];
const blocks = distinct((frame('routing') || {at: {block: []}}).at.block).sort((a, b) => a - b);

/* A name of the tables as a reader says it. */
const say = name => Object.hasOwn(data.words, name) ? data.words[name] : String(name).replace(/_/g, ' ');

const rowsWhere = (table, column, value) => table.at[column].flatMap((v, r) => v === value ? [r] : []);

/* The marks of some panels that have names, each name once, if there are several. */
function namedMarks(panels) {
    const seen = new Map();
    for (const p of panels) for (const m of p.marks) if (m.name && !seen.has(m.name)) seen.set(m.name, m);
    return seen.size > 1 ? [...seen.values()] : [];
}

/* ---- sections ------------------------------------------------------------------------------- */

function legend(panels) {
    const items = namedMarks(panels).map(m => html('li', {}, html('i', {style: `border-top-color:${shade(m.colour)};border-top-style:${borders[m.dash % borders.length]}`}), m.name));
    return items.length ? html('ul.key', {}, ...items) : '';
}

/* Some panels of a figure in a place; nothing where there are none. */
function addFigure(fig, panels, place) {
    if (!panels.length) return;
    const packed = data.frames[fig.table], table = frame(fig.table);
    if (!table) {
        place.append(html('p.note', {}, `${packed.title}: ${shown(packed.rows)} rows, too many to carry here; they are in ${fig.table}.csv.`));
        return;
    }
    for (const p of panels)
        p.alt = `${table.title}${p.title && ', ' + p.title}: ${p.y.label || 'it'} over ${p.x.label}; the numbers are in the table ${fig.table}`;
    const grid = html('div.panels'), key = html('div'), slot = {grid, key, fig, panels, table};
    const caption = html('figcaption', {}, html('strong', {}, table.title), ' ', html('span', {}, table.caption + '.'));
    const own = place.lastElementChild && place.lastElementChild.classList.contains('figures') ? place.lastElementChild : html('div.figures');
    own.append(html(panels.length > 1 ? 'figure.wide' : 'figure', {'data-figure': fig.name}, caption, key, grid,
        html('div.tools', {}, saveButton('save as SVG', fig.name + '.svg', 'image/svg+xml', () => svgOf(slot))),
        tableOf(fig.table, 'The numbers')));
    place.append(own);
    slots.push(slot);
}

/* A button that saves a text as a file; the text is made when it is clicked. */
function saveButton(words, name, type, make) {
    return button({class: 'save', 'data-file': name}, () => {
        const link = html('a', {href: URL.createObjectURL(new Blob([make()], {type})), download: name});
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }, words);
}

/* A table as CSV, with the digits that the page has. */
function csvOf(table) {
    const cell = v => v === null || v === undefined ? '' : typeof v === 'string' && /[",\n]/.test(v) ? `"${v.replace(/"/g, '""')}"` : String(v);
    const lines = [table.columns.map(cell).join(',')];
    for (let r = 0; r < table.rows; r++) lines.push(table.columns.map(c => cell(table.at[c][r])).join(','));
    return lines.join('\n') + '\n';
}

/* A figure as one SVG, by day whatever the page is: title, key or colours of the cells, and its panels as they stand on the page, with
 * the style of the page. */
function svgOf({grid, fig, panels, table}) {
    const line = 20, marks = namedMarks(panels);
    printing = true;
    draw();
    const origin = grid.getBoundingClientRect(), width = Math.ceil(origin.width);
    const style = svg('style', {}), inner = svg('g', {});
    style.textContent = document.querySelector('style').textContent.replace(/@media[^{]*dark[^{]*\{[^{}]*\{[^{}]*\}\s*\}/g, '');
    inner.append(svg('text', {x: 0, y: 14}, table.title));
    let top = line + 4, left = 0;
    for (const m of marks) {
        const room = 34 + 7 * m.name.length; /* about what its letters take */
        if (left && left + room > width) [left, top] = [0, top + line];
        inner.append(svg('line', {class: 'line', x1: left, x2: left + 18, y1: top + 6, y2: top + 6, style: `stroke:${shade(m.colour)}${broken(m)}`}),
            svg('text', {x: left + 24, y: top + 10}, m.name));
        left += room;
    }
    if (fig.scale) {
        const [low, high] = [fig.scale.stops[0][0], fig.scale.stops.at(-1)[0]], words = `${fig.scale.label}: ${shown(low)}`;
        inner.append(svg('defs', {}, svg('linearGradient', {id: 'ramp'}, ...fig.scale.stops.map(([v, day]) =>
            svg('stop', {offset: (v - low) / (high - low), 'stop-color': day})))),
            svg('text', {x: 0, y: top + 10}, words), svg('rect', {x: 24 + 7 * words.length, y: top + 1, width: 90, height: 10, fill: 'url(#ramp)'}),
            svg('text', {x: 122 + 7 * words.length, y: top + 10}, shown(high)));
    }
    if (marks.length || fig.scale) top += line + 6;
    [...grid.children].forEach((panel, i) => {
        const own = panel.querySelector('svg'), copy = own.cloneNode(true), at = panel.getBoundingClientRect();
        const x = at.left - origin.left, y = at.top - origin.top + top, words = [panels[i].title, panels[i].y.label].filter(w => w);
        copy.querySelectorAll('.rule, .area').forEach(e => e.remove());
        copy.setAttribute('x', x);
        copy.setAttribute('y', y + own.getBoundingClientRect().top - at.top);
        if (!copy.getAttribute('height')) copy.setAttribute('height', own.getBoundingClientRect().height);
        inner.append(svg('text', {x, y: y + 12}, words.join(': ')), copy);
    });
    const height = Math.ceil(origin.height) + top;
    printing = false;
    draw();
    return new XMLSerializer().serializeToString(svg('svg', {xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`}, style, inner));
}

/* A table of a frame, filled when it is opened; long ones show their beginning. The field above it leaves the rows that have all
 * its words; it looks through all rows, also those that are not shown. */
function tableOf(name, title) {
    const table = frame(name), most = 400, place = html('div.scroll');
    const search = html('input', {type: 'search', placeholder: 'rows with ...', 'aria-label': `Search in ${table.title}`});
    const details = html('details', {}, html('summary', {}, title),
        html('div.tools', {}, search, saveButton('save as CSV', name + '.csv', 'text/csv', () => csvOf(table))), place);
    const body = html('tbody'), note = html('p.note');
    const fill = () => {
        const words = search.value.toLowerCase().split(/\s+/).filter(w => w);
        const has = r => { const text = table.columns.map(c => shown(table.at[c][r])).join(' ').toLowerCase(); return words.every(w => text.includes(w)); };
        const rows = [];
        let found = 0;
        for (let r = 0; r < table.rows; r++)
            if ((!words.length || has(r)) && ++found <= most)
                rows.push(html('tr', {}, ...table.columns.map(c => {
                    const v = table.at[c][r];
                    return html(typeof v === 'string' ? 'td.text' : 'td', {}, shown(v));
                })));
        body.replaceChildren(...rows);
        note.textContent = words.length ? `${shown(found)} of ${shown(table.rows)} rows${found > most ? `, the first ${most} are shown` : ''}.`
            : found > most ? `The first ${most} of ${shown(table.rows)} rows; all are in ${name}.csv.` : '';
    };
    search.addEventListener('input', fill);
    details.addEventListener('toggle', () => {
        if (!details.open || place.firstChild) return;
        const head = html('tr', {}, ...table.columns.map(c => html('th', {scope: 'col'}, c.replace(/_/g, ' '))));
        place.append(html('table', {}, html('caption', {}, `${table.title} (${name}.csv)`), html('thead', {}, head), body), note);
        fill();
    });
    return details;
}

const numbers = (data.frames.routing ? data.frames.routing.columns.slice(2) : []).map(name => [name, say(name)]); /* behind run and block */

function layerSection(block) {
    const section = html('section', {id: `blocks.${block}`}, html('h2', {}, `blocks.${block}`));
    const routing = frame('routing');
    const value = (column, r) => column === 'dropped' ? `${shown(routing.at[column][r] * 100, 3)}%` : shown(routing.at[column][r], 4);
    const rows = rowsWhere(routing, 'block', block);
    if (rows.length === 1) {
        section.append(html('dl.numbers', {}, ...numbers.map(([column, text]) =>
            html('div', {}, html('dt', {}, text), html('dd', {}, value(column, rows[0]))))));
    } else {
        const head = html('tr', {}, html('td'), ...numbers.map(([, text]) => html('th', {scope: 'col'}, text)));
        const body = rows.map(r => html('tr', {}, html('th', {scope: 'row'}, routing.at.run[r]), ...numbers.map(([column]) => html('td', {}, value(column, r)))));
        section.append(html('div.scroll', {}, html('table', {'aria-label': `Means of blocks.${block}`}, html('thead', {}, head), html('tbody', {}, ...body))));
    }
    for (const fig of data.figures.filter(f => f.section === 'layer')) addFigure(fig, fig.panels.filter(p => p.block === block), section);
    return section;
}

function build() {
    const main = document.getElementById('layers');
    const figures = (id, title) => {
        const section = html('section', {id}, html('h2', {}, title));
        for (const fig of data.figures.filter(f => f.section === id)) addFigure(fig, fig.panels, section);
        if (section.children.length > 1) main.append(section);
    };
    figures('across', 'Across layers');
    main.append(...blocks.map(layerSection));
    figures('training', 'Training');
    const tables = html('section', {id: 'tables'}, html('h2', {}, 'All tables'));
    for (const name in data.frames)
        if (data.frames[name].rows) {
            const f = frame(name);
            tables.append(f ? tableOf(name, `${f.title} · ${shown(f.rows)} ${f.rows === 1 ? 'row' : 'rows'}`)
                : html('p.note', {}, `${data.frames[name].title}: ${shown(data.frames[name].rows)} rows, in ${name}.csv only`));
        }
    main.append(tables);
    const nav = document.getElementById('contents');
    const provenance = document.getElementById('provenance');
    for (const section of [...main.querySelectorAll('section'), ...(provenance ? [provenance] : [])]) nav.append(html('a', {href: '#' + section.id}, section.querySelector('h2').textContent));
}

let drawnFor = 0; /* width of the page at the last drawing, in pixels */

/* Draws every panel for the width of its place: as many beside one another as stay legible. */
function draw() {
    drawnFor = document.body.clientWidth;
    for (const {grid, key, fig, panels, table} of slots) {
        const width = grid.clientWidth;
        if (!width) continue; /* not laid out yet: drawn when it is */
        const fit = Math.max(1, Math.min(panels.length, Math.floor((width + 28) / 308), 4));
        const across = Math.ceil(panels.length / Math.ceil(panels.length / fit)), each = Math.min((width - 28 * (across - 1)) / across, fig.scale ? 420 : 520);
        grid.style.gridTemplateColumns = `repeat(${across}, minmax(0, ${Math.floor(each)}px))`;
        key.replaceChildren(legend(panels));
        grid.replaceChildren(...panels.map(p => drawPanel(fig, p, table, Math.floor(each))));
    }
}

async function start() {
    build();
    draw();
    const place = document.getElementById('viewers');
    for (const samples of data.samples) {
        if (samples.images.length) await new Viewer(samples, samples.run, place).start();
        if (samples.left)
            place.append(html('p.note', {}, `${samples.run}: ${samples.left} more ${samples.left > 1 ? 'images are' : 'image is'} too much for one page; `
                + 'the folder overlays beside it has the pictures.'));
    }
    viewers.forEach(v => v.fillGallery()); /* now that all have their pictures */
    if (!data.samples.length) {
        document.getElementById('viewer').hidden = true;
        for (const link of document.querySelectorAll('[href="#viewer"]')) link.hidden = true;
    }
    new ResizeObserver(() => {
        if (document.body.clientWidth === drawnFor) return;
        draw();
        viewers.forEach(v => v.show(false));
    }).observe(document.body);
    dark.addEventListener('change', draw);
    for (const [when, state] of [['beforeprint', true], ['afterprint', false]])
        window.addEventListener(when, () => {
            printing = state;
            draw();
        });
    document.documentElement.dataset.ready = 'yes';
}

start();
