/*
 * The report put together: reads the tables and samples that report_data.c wrote into the page,
 * draws the figures of figures.def into the sections they belong to, and starts the viewers. Which
 * figures there are is data; drawing is in report_figure.js, the viewer in report_viewer.js.
 */
const data = JSON.parse(document.getElementById('data').textContent);
for (const fig of data.figures) fig.z = fig.z[0] || ''; /* two only where metricPanels takes one */
const slots = []; /* places of panels, drawn again when widths or colours change */

/* A column as an array: plain, or runs of equal values as [value, times, ...]. */
function unpack(column) {
    const list = column.runs ? column.runs.reduce((out, v, i, all) => {
        if (i % 2 === 0) for (let k = 0; k < all[i + 1]; k++) out.push(v);
        return out;
    }, []) : column.list;
    return column.names ? list.map(i => column.names[i]) : list;
}

/* Rows of a frame on demand: {title, caption, rows, at: {column: [values]}}. */
const frames = {};
function frame(name) {
    if (!(name in frames)) {
        const packed = data.frames[name];
        if (!packed || !packed.data) return null;
        const at = {};
        packed.columns.forEach((column, i) => at[column] = unpack(packed.data[i]));
        frames[name] = {...packed, at, rows: packed.rows};
    }
    return frames[name];
}

const distinct = list => [...new Set(list)];
const runs = distinct((frame('runs') || {at: {run: []}}).at.run);
const blocks = distinct((frame('routing') || {at: {block: []}}).at.block).sort((a, b) => a - b);

/* A name of the tables as a reader says it. */
const say = name => data.words[name] ?? String(name).replace(/_/g, ' ');

function seriesName(column, value) {
    if (column === 'block') return value === null ? 'whole model' : `blocks.${value}`;
    if (column === 'fraction') return `${shown(value * 100, 3)}% of the weight`;
    if (column === 'choice') return `choice ${value}`;
    return column === 'run' ? value : say(value);
}

/* Ordered series (layers, fractions, choices) take colours evenly along the ramp, between those it has where they are more; others
 * colours that are apart. */
function colour(i, n, ordered) {
    if (!ordered || n < 2) return `var(--s${i % 6})`;
    const at = i * 7 / (n - 1), below = Math.floor(at);
    return at === below ? `var(--l${below})` : `color-mix(in srgb, var(--l${below + 1}) ${(100 * (at - below)).toFixed(1)}%, var(--l${below}))`;
}

/* ---- from rows to panels ---------------------------------------------------------------------- */

function rowsWhere(table, conditions) {
    const out = [];
    for (let r = 0; r < table.rows; r++)
        if (conditions.every(([column, value]) => table.at[column][r] === value)) out.push(r);
    return out;
}

function seriesOf(fig, table, rows) {
    const values = fig.z ? distinct(table.at[fig.z]).filter(v => rows.some(r => table.at[fig.z][r] === v)) : [null];
    const every = fig.z ? distinct(table.at[fig.z]).filter(v => v !== null) : [];
    if (every.every(v => typeof v === 'number')) every.sort((a, b) => a - b);
    const ordered = every.length > 0 && every.every(v => typeof v === 'number');
    const out = [];
    for (const value of values)
        (fig.y.length ? fig.y : ['']).forEach((y, k) => {
            const own = rows.filter(r => !fig.z || table.at[fig.z][r] === value);
            const names = [fig.z ? seriesName(fig.z, value) : '', fig.y.length > 1 ? say(y) : ''].filter(Boolean);
            const count = fig.z ? every.length : fig.y.length, at = fig.z ? Math.max(every.indexOf(value), 0) : k;
            out.push({name: names.join(', '), colour: fig.z && value === null ? 'var(--ink)' : colour(at, count, ordered), dashed: fig.z && k > 0,
                points: pointsOf(fig, table, own.map(r => [table.at[fig.x][r], y ? table.at[y][r] : NaN]).sort((a, b) => a[0] - b[0]))});
        });
    return out;
}

/* Points of a line as they are drawn. Cumulative: the share of values that are at most x, for every x of the figure. Histogram: each
 * bin from its left edge, and down to 0 after the last. */
function pointsOf(fig, table, points) {
    if (!points.length) return points;
    const last = points[points.length - 1][0];
    if (fig.kind === 'cumulative') {
        const [from, to] = rangeOf(table, fig.x, rowsWhere(table, []));
        return [[from, 0], ...points.map((p, i) => [p[0], (i + 1) / points.length]), [to, 1]];
    }
    if (fig.kind !== 'histogram') return points;
    const bin = points.reduce((least, p, i) => i ? Math.min(least, p[0] - points[i - 1][0]) : least, Infinity), half = Number.isFinite(bin) ? bin / 2 : 0;
    const steps = [[points[0][0] - half, 0]];
    points.forEach((p, i) => {
        if (i && p[0] - points[i - 1][0] > 1.5 * bin) steps.push([points[i - 1][0] + half, 0]);
        steps.push([p[0] - half, p[1]]);
    });
    return [...steps, [last + half, 0]];
}

const bandPairs = [['p0.5', 'p99.5'], ['p2.5', 'p97.5'], ['p5', 'p95'], ['p10', 'p90'], ['p20', 'p80']];

/* The least and the largest number of a column in some rows. */
function rangeOf(table, column, rows) {
    return rows.map(r => table.at[column][r]).filter(Number.isFinite)
        .reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
}

function matrixOf(fig, table, rows) {
    const own = rows.filter(r => Number.isFinite(table.at[fig.x][r]) && Number.isFinite(table.at[fig.y[0]][r]));
    const xs = distinct(own.map(r => table.at[fig.x][r])).sort((a, b) => a - b), ys = distinct(own.map(r => table.at[fig.y[0]][r])).sort((a, b) => a - b);
    const xAt = new Map(xs.map((v, i) => [v, i])), yAt = new Map(ys.map((v, i) => [v, i]));
    const cells = new Float64Array(xs.length * ys.length).fill(NaN), columnNames = [], rowNames = [];
    for (const r of own) {
        const c = xAt.get(table.at[fig.x][r]), w = yAt.get(table.at[fig.y[0]][r]);
        cells[w * xs.length + c] = table.at[fig.z][r] ?? NaN;
        columnNames[c] = table.at[fig.xName || fig.x][r];
        rowNames[w] = table.at[fig.yName || fig.y[0]][r];
    }
    /* Of all cells, whatever their panel: all panels have one scale. */
    const [low, high] = rangeOf(table, fig.z, rowsWhere(table, []).filter(r => Number.isFinite(table.at[fig.x][r])));
    return {rows: ys.length, columns: xs.length, rowNames, columnNames, value: (r, c) => cells[r * xs.length + c],
        low: fig.signed ? -1 : low > high / 2 ? low : Math.min(low, 0), high: fig.signed ? 1 : high, signed: fig.signed, square: !fig.xName, name: say(fig.z)};
}

/* The panel of a figure for the rows that meet the conditions, or null where there are none. */
function panelOf(fig, conditions, title) {
    const table = frame(fig.frame), rows = rowsWhere(table, conditions);
    if (!rows.length) return null;
    const panel = {kind: fig.kind === 'heat' ? 'heat' : fig.kind === 'bars' ? 'bar' : 'line', title, step: ['steps', 'cumulative', 'histogram'].includes(fig.kind),
        stacked: fig.stacked, x: {label: fig.xTitle, log: fig.logX}, y: {label: fig.yTitle, from: fig.zero ? 0 : undefined},
        alt: `${table.title}${title && ', ' + title}: ${fig.yTitle || title} over ${fig.xTitle}; the numbers are in the table ${fig.frame}`};
    if (fig.kind === 'heat') {
        panel.matrix = matrixOf(fig, table, rows);
        return panel.matrix.rows ? panel : null;
    }
    panel.series = seriesOf(fig, table, rows);
    if (!panel.series.some(s => s.points.some(p => Number.isFinite(p[1])))) return null;
    if (fig.kind === 'bands') {
        panel.bands = bandPairs.map(([low, high]) => ({points: rows.map(r => [table.at[fig.x][r], table.at[low][r], table.at[high][r]])}));
        panel.y.low = 0;
        panel.y.high = 1;
    }
    return panel;
}

/* ---- sections ------------------------------------------------------------------------------- */

function legend(panels) {
    const seen = new Map();
    for (const p of panels) for (const s of p.series || []) if (s.name) seen.set(s.name, s);
    return seen.size > 1 ? html('ul.key', {}, ...[...seen.values()].map(s => html('li', {}, html(s.dashed ? 'i.dashed' : 'i', {style: `--colour:${s.colour}`}), s.name))) : '';
}

/* A figure with its panels in a place; nothing where no panel has rows. */
function addFigure(fig, sets, place) {
    const table = frame(fig.frame);
    if (!table) {
        const packed = data.frames[fig.frame];
        if (packed && packed.rows)
            place.append(html('p.note', {}, `${packed.title}: ${shown(packed.rows)} rows, too many to carry here; they are in ${fig.frame}.csv.`));
        return;
    }
    const panels = sets.map(([conditions, title]) => panelOf(fig, conditions, title)).filter(Boolean);
    if (!panels.length) return;
    const grid = html('div.panels');
    const caption = html('figcaption', {}, html('strong', {}, table.title), ' ', html('span', {}, table.caption + '.'));
    const own = place.lastElementChild && place.lastElementChild.classList.contains('figures') ? place.lastElementChild : html('div.figures');
    own.append(html(panels.length > 1 ? 'figure.wide' : 'figure', {'data-figure': fig.name}, caption, legend(panels), grid, tableOf(fig.frame, 'The numbers')));
    place.append(own);
    slots.push({grid, panels});
}

/* A table of a frame, filled when it is opened; long ones show their beginning. */
function tableOf(name, title) {
    const table = frame(name), most = 400, place = html('div.scroll');
    const details = html('details', {}, html('summary', {}, title), place);
    details.addEventListener('toggle', () => {
        if (!details.open || place.firstChild) return;
        const head = html('tr', {}, ...table.columns.map(c => html('th', {scope: 'col'}, c.replace(/_/g, ' '))));
        const body = html('tbody');
        for (let r = 0; r < Math.min(table.rows, most); r++)
            body.append(html('tr', {}, ...table.columns.map(c => {
                const v = table.at[c][r];
                return html(typeof v === 'string' ? 'td.text' : 'td', {}, shown(v));
            })));
        place.append(html('table', {}, html('caption', {}, `${table.title} (${name}.csv)`), html('thead', {}, head), body));
        if (table.rows > most) place.append(html('p.note', {}, `The first ${most} of ${shown(table.rows)} rows; all are in ${name}.csv.`));
    });
    return details;
}

const numbers = ['tokens_per_slot', 'slots_per_token', 'dispatch_max', 'combine_max', 'dropped'].map(name => [name, say(name)]);

function layerSection(block) {
    const section = html('section', {id: `blocks.${block}`}, html('h2', {}, `blocks.${block}`));
    const routing = frame('routing');
    const value = (column, r) => column === 'dropped' ? `${shown(routing.at[column][r] * 100, 3)}%` : shown(routing.at[column][r], 4);
    const rows = rowsWhere(routing, [['block', block]]);
    if (rows.length === 1) {
        section.append(html('dl.numbers', {}, ...numbers.map(([column, text]) =>
            html('div', {}, html('dt', {}, text), html('dd', {}, value(column, rows[0]))))));
    } else {
        const head = html('tr', {}, html('td'), ...numbers.map(([, text]) => html('th', {scope: 'col'}, text)));
        const body = rows.map(r => html('tr', {}, html('th', {scope: 'row'}, routing.at.run[r]), ...numbers.map(([column]) => html('td', {}, value(column, r)))));
        section.append(html('div.scroll', {}, html('table', {'aria-label': `Means of blocks.${block}`}, html('thead', {}, head), html('tbody', {}, ...body))));
    }
    for (const fig of data.figures.filter(f => f.panel.includes('block')))
        addFigure(fig, runs.map(run => [[['run', run], ['block', block]], runs.length > 1 ? run : '']), section);
    return section;
}

/* The records of training, one panel per quantity: for one run with one line per block, for several with one line per run and one
 * panel per block. */
function metricPanels(table) {
    return distinct(table.at.metric).flatMap(metric => {
        const own = rowsWhere(table, [['metric', metric]]), name = say(metric);
        if (runs.length === 1) return [[[['metric', metric]], name]];
        return distinct(own.map(r => table.at.block[r])).map(block =>
            [[['metric', metric], ['block', block]], block !== null ? `${name}, blocks.${block}` : metric === 'test/dropped' ? `${name}, largest of the blocks` : name]);
    });
}

function build() {
    const main = document.getElementById('layers');
    const across = html('section', {id: 'across'}, html('h2', {}, 'Across layers'));
    for (const fig of data.figures.filter(f => f.panel.join() === 'run'))
        addFigure(fig, runs.map(run => [[['run', run]], runs.length > 1 ? run : '']), across);
    main.append(across, ...blocks.map(layerSection));
    const training = html('section', {id: 'training'}, html('h2', {}, 'Training'));
    for (const fig of data.figures.filter(f => f.panel.join() === 'metric')) {
        const table = frame(fig.frame);
        if (table) addFigure({...fig, z: runs.length > 1 ? 'run' : 'block'}, metricPanels(table), training);
    }
    if (training.children.length > 1) main.append(training);
    const tables = html('section', {id: 'tables'}, html('h2', {}, 'All tables'));
    for (const name in data.frames)
        if (data.frames[name].rows) {
            const f = frame(name);
            tables.append(f ? tableOf(name, `${f.title} · ${shown(f.rows)} rows`)
                : html('p.note', {}, `${data.frames[name].title}: ${shown(data.frames[name].rows)} rows, in ${name}.csv only`));
        }
    main.append(tables);
    const nav = document.getElementById('contents');
    for (const section of main.querySelectorAll('section')) nav.append(html('a', {href: '#' + section.id}, section.querySelector('h2').textContent));
}

let drawnFor = 0; /* width of the page at the last drawing, in pixels */

/* Draws every panel for the width of its place: as many beside one another as stay legible. */
function draw() {
    drawnFor = document.body.clientWidth;
    for (const {grid, panels} of slots) {
        const width = grid.clientWidth;
        if (!width) continue; /* not laid out yet: drawn when it is */
        const fit = Math.max(1, Math.min(panels.length, Math.floor((width + 28) / 308), 4));
        const across = Math.ceil(panels.length / Math.ceil(panels.length / fit)), each = Math.min((width - 28 * (across - 1)) / across, panels[0].kind === 'heat' ? 420 : 520);
        grid.style.gridTemplateColumns = `repeat(${across}, minmax(0, ${Math.floor(each)}px))`;
        grid.replaceChildren(...panels.map(p => drawPanel(p, Math.floor(each))));
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
    if (!data.samples.length) document.getElementById('viewer').hidden = true;
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
