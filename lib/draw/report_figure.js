/*
 * Draws the panels of plots (lib/draw/plot.h) as SVG, for the width there is, so that letters stay
 * as large as those of the text. A plot says everything but that width: marks and their colours by
 * day and by night, the ends and ticks of axes, which rows and columns of which table. Tables come
 * from report.js, or live.js of smoe serve.
 */
'use strict';
const SVG = 'http://www.w3.org/2000/svg';

/* The policy of the page allows styles by CSSOM, and no style attributes. */
function dress(node, attributes, children) {
    for (const key in attributes)
        if (key === 'style') node.style.cssText = attributes.style;
        else node.setAttribute(key, attributes[key]);
    node.append(...children);
    return node;
}

const svg = (name, attributes, ...children) => dress(document.createElementNS(SVG, name), attributes, children);

/* html('p.note', {id: 'x'}, 'text', node): text is never markup. */
function html(selector, attributes, ...children) {
    const [name, ...classes] = selector.split('.');
    const node = document.createElement(name);
    if (classes.length) node.className = classes.join(' ');
    return dress(node, attributes, children);
}

/* A button; `act` is called when it is pressed. */
function button(attributes, act, ...children) {
    const node = html('button', {type: 'button', ...attributes}, ...children);
    node.addEventListener('click', act);
    return node;
}

/* A number for a reader: at most `digits` significant ones, no exponent where it can be avoided. */
function shown(value, digits = 4) {
    if (value === null || value === undefined || Number.isNaN(value)) return '–';
    if (typeof value !== 'number') return String(value);
    if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString('en').replace(/,/g, '\u202f');
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e6)) return value.toExponential(digits - 1).replace('-', '−');
    return String(Number(value.toPrecision(digits))).replace('-', '−');
}

const dark = window.matchMedia('(prefers-color-scheme: dark)');
let printing = false;

/* A colour of a plot is [by day, by night]; paper is day. */
const shade = colour => colour[dark.matches && !printing ? 1 : 0];

/* How a line is broken, by its dash; in the key, a border. */
const dashes = ['none', '3 4', '9 4', '9 3 2 3', '14 3'], borders = ['solid', 'dotted', 'dashed', 'double', 'ridge'];
const broken = mark => `;stroke-dasharray:${dashes[mark.dash % dashes.length]}`;

/* ---- numbers --------------------------------------------------------------------------------- */

/* The rows of a mark: those from first to last that have what the first has in some columns. */
function rowsOf(mark, table) {
    const [first, last] = mark.rows, out = [];
    for (let r = first; r <= last; r++) if (mark.same.every(c => table.at[c][r] === table.at[c][first])) out.push(r);
    return out;
}

const number = v => v === null ? NaN : v;

/* What a mark draws: [x, y, row] of each of its rows; a bar's y is the sum of its columns. */
function pointsOf(mark, table) {
    return rowsOf(mark, table).map(r => [number(table.at[mark.x][r]), mark.y.reduce((sum, c) => sum + number(table.at[c][r]), 0), r]);
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* Where an axis has its ticks: [value, words]. */
function ticksOf(axis) {
    const out = [], low = Math.min(axis.low, axis.high), high = Math.max(axis.low, axis.high);
    if (axis.ticks.length) return axis.ticks;
    if (axis.log) {
        for (let p = Math.floor(Math.log(low) / Math.log(axis.log)); axis.log ** p <= high; p++)
            for (const m of axis.log === 10 ? [1, 2, 5] : [1])
                if (m * axis.log ** p >= low && m * axis.log ** p <= high) out.push([m * axis.log ** p, shown(m * axis.log ** p, 3)]);
        if (out.length > 1 || !axis.step) return out;
        out.length = 0; /* too few: those of a linear axis */
    }
    const decimals = Math.max(0, -Math.floor(Math.log10(axis.step) + 1e-9));
    for (let k = Math.ceil(low / axis.step - 1e-9); k * axis.step <= high + axis.step * 1e-9; k++) {
        const v = k * axis.step || 0;
        out.push([v, Math.abs(v) >= 1e4 || axis.step < 1e-5 ? shown(v, 3) : v.toFixed(decimals).replace('-', '−')]);
    }
    return out;
}

/* From values of an axis to pixels. */
function scaleOf(axis, start, end) {
    const f = axis.log ? Math.log : v => v;
    return v => start + (end - start) * (f(v) - f(axis.low)) / (f(axis.high) - f(axis.low));
}

const clip = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;

/* Ticks and names; every so many of them as have room. Lines across are of panels without cells. */
function axes(node, box, panel, x, y, cells) {
    const g = svg('g', {class: 'axes', 'aria-hidden': 'true'});
    const thin = (ticks, at, room) => {
        const every = ticks.length > 1 ? Math.max(1, Math.ceil(room / Math.abs(at(ticks[1][0]) - at(ticks[0][0])))) : 1;
        return ticks.filter((t, i) => i % every === 0);
    };
    for (const [v, text] of thin(ticksOf(panel.y), y, 14)) {
        if (!cells) g.append(svg('line', {x1: box.left, x2: box.right, y1: y(v), y2: y(v)}));
        g.append(svg('text', {x: box.left - 6, y: y(v) + 4, 'text-anchor': 'end'}, clip(text, 14)));
    }
    const across = ticksOf(panel.x), longest = Math.max(...across.map(t => t[1].length));
    for (const [v, text] of thin(across, x, 7 * longest + 8))
        g.append(svg('text', {x: x(v), y: box.bottom + 16, 'text-anchor': 'middle'}, text));
    if (!cells) g.append(svg('line', {class: 'base', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}));
    g.append(svg('text', {class: 'label', x: (box.left + box.right) / 2, y: box.bottom + 34, 'text-anchor': 'middle'}, panel.x.label));
    node.append(g);
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* A path through points; it is broken where there is no number, and where the value of a column changes. */
function path(points, x, y, step, each) {
    let d = '', pen = false, before;
    for (const [px, py, row] of points) {
        if (!Number.isFinite(px) || !Number.isFinite(py)) {
            pen = false;
            continue;
        }
        if (each && each[row] !== before) pen = false;
        if (each) before = each[row];
        d += step && pen ? `H${x(px).toFixed(1)}V${y(py).toFixed(1)}` : `${pen ? 'L' : 'M'}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
        pen = true;
    }
    return d;
}

/* Each bin from its left edge, and down to 0 after the last and where bins are missing. */
function histogram(points) {
    if (!points.length) return points;
    const bin = points.reduce((least, p, i) => i ? Math.min(least, p[0] - points[i - 1][0]) : least, Infinity), half = Number.isFinite(bin) ? bin / 2 : 0;
    const steps = [[points[0][0] - half, 0]];
    points.forEach((p, i) => {
        if (i && p[0] - points[i - 1][0] > 1.5 * bin) steps.push([points[i - 1][0] + half, 0]);
        steps.push([p[0] - half, p[1]]);
    });
    return [...steps, [points[points.length - 1][0] + half, 0]];
}

function addBand(node, mark, table, x, y) {
    const rows = rowsOf(mark, table), edge = column => rows.map(r => [number(table.at[mark.x][r]), number(table.at[column][r])]);
    node.append(svg('path', {class: 'band', style: `fill:${shade(mark.colour)}`,
        d: path(edge(mark.y[1]), x, y) + path(edge(mark.y[0]).reverse(), x, y).replace('M', 'L') + 'Z'}));
}

function addBars(node, mark, points, x, y, box) {
    const room = Math.abs(x(1) - x(0)), used = Math.max(room * (room > 8 ? 0.78 : 0.96), 1);
    for (const [px, py] of points)
        if (Number.isFinite(py))
            node.append(svg('rect', {x: (x(px) - used / 2).toFixed(2), y: y(py).toFixed(2), width: used.toFixed(2),
                height: Math.max(box.bottom - y(py), 0).toFixed(2), style: `fill:${shade(mark.colour)}`}));
}

function addLine(node, mark, points, table, x, y) {
    const colour = shade(mark.colour), steps = mark.kind === 'steps' || mark.kind === 'histogram';
    node.append(svg('path', {class: mark.each ? 'line each' : 'line', style: `stroke:${colour}${broken(mark)}`,
        d: path(mark.kind === 'histogram' ? histogram(points) : points, x, y, steps, mark.each && table.at[mark.each])}));
    if (mark.error)
        for (const [px, py, row] of points) {
            const half = table.at[mark.error][row];
            if (Number.isFinite(py) && half > 0)
                node.append(svg('line', {class: 'error', x1: x(px), x2: x(px), y1: y(py - half), y2: y(py + half), style: `stroke:${colour}`}));
        }
    if (points.length < 9 && !steps)
        for (const [px, py] of points)
            if (Number.isFinite(py)) node.append(svg('circle', {cx: x(px), cy: y(py), r: 3, style: `fill:${colour}`}));
}

/* Lines, bands and bars. */
function xyPanel(panel, table, width, say) {
    const height = Math.round(Math.min(Math.max(width * 0.58, 180), 290));
    const node = svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': panel.alt});
    const box = {left: 46, right: width - 10, top: 8, bottom: height - 40};
    const x = scaleOf(panel.x, box.left, box.right), y = scaleOf(panel.y, box.bottom, box.top);
    axes(node, box, panel, x, y, false);
    const told = [];
    for (const mark of panel.marks) {
        const points = pointsOf(mark, table);
        if (mark.kind === 'band') addBand(node, mark, table, x, y);
        else if (mark.kind === 'bar') addBars(node, mark, points, x, y, box);
        else addLine(node, mark, points, table, x, y);
        if (mark.kind !== 'band') told.push([mark, points]);
    }
    hover(node, box, panel, table, told, x, y, say);
    return node;
}

/* A rule under the pointer, and in words what the marks are there, lines also what they are nearest to it; of many lines, the nearest one. */
function hover(node, box, panel, table, told, x, y, say) {
    const rule = svg('line', {class: 'rule', y1: box.top, y2: box.bottom, visibility: 'hidden'});
    const area = svg('rect', {class: 'area', x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top});
    node.append(rule, area);
    area.addEventListener('pointerleave', () => {
        rule.setAttribute('visibility', 'hidden');
        say(null);
    });
    area.addEventListener('pointermove', event => {
        const at = node.getBoundingClientRect(), px = event.clientX - at.left, py = event.clientY - at.top;
        let nearest = null, least = Infinity;
        for (const [mark, points] of told)
            for (const p of points) {
                if (!Number.isFinite(p[1])) continue;
                const far = mark.each ? Math.hypot(x(p[0]) - px, y(p[1]) - py) : Math.abs(x(p[0]) - px);
                if (far < least) [nearest, least] = [p, far];
            }
        if (!nearest) return;
        rule.setAttribute('x1', x(nearest[0]));
        rule.setAttribute('x2', x(nearest[0]));
        rule.setAttribute('visibility', 'visible');
        const words = told.slice().sort((a, b) => a[0].y.length - b[0].y.length).flatMap(([mark, points]) => {
            const far = q => Math.abs(q[0] - nearest[0]), there = mark.kind === 'line' ? points : points.filter(q => !far(q));
            const p = mark.each ? nearest : there.reduce((best, q) => !best || far(q) < far(best) ? q : best, null);
            const own = p && table.at[mark.y[mark.y.length - 1]][p[2]], elsewhere = p && p[0] !== nearest[0] ? ` at ${shown(p[0])}` : '';
            return p ? [`${mark.each ? `${mark.each} ${table.at[mark.each][p[2]]}` : mark.name || panel.y.label || panel.title}: ${shown(own)}${mark.error ? ' ± ' + shown(table.at[mark.error][p[2]], 2) : ''}${elsewhere}`] : [];
        });
        say([`${panel.x.label}: ${shown(nearest[0])}`, ...words], px, py);
    });
}

/* ---- heat maps ------------------------------------------------------------------------------- */

const channels = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));

/* The colour of a value, [r, g, b]: between the stops around it. */
function scaleColour(scale, v) {
    const stops = scale.stops;
    let above = 1;
    while (above + 1 < stops.length && v > stops[above][0]) above++;
    const [low, high] = [stops[above - 1], stops[above]];
    const part = Math.min(Math.max((v - low[0]) / (high[0] - low[0] || 1), 0), 1), from = channels(shade(low.slice(1))), to = channels(shade(high.slice(1)));
    return from.map((c, k) => Math.round(c + part * (to[k] - c)));
}

/* Cells as one pixel each of a picture, magnified without smoothing. */
function cellPicture(mark, table, scale, left, top, columns, rows) {
    const canvas = document.createElement('canvas'), at = new Map();
    canvas.width = columns;
    canvas.height = rows;
    const pen = canvas.getContext('2d'), pixels = pen.createImageData(columns, rows);
    for (const r of rowsOf(mark, table)) {
        const c = table.at[mark.x][r] - left, w = table.at[mark.y[0]][r] - top, v = table.at[mark.z][r];
        if (table.at[mark.x][r] === null || table.at[mark.y[0]][r] === null || v === null) continue;
        at.set(w * columns + c, r);
        pixels.data.set([...scaleColour(scale, v), 255], (w * columns + c) * 4);
    }
    pen.putImageData(pixels, 0, 0);
    return [canvas.toDataURL(), at];
}

function heatPanel(panel, table, scale, names, width, say) {
    const mark = panel.marks[0], columns = Math.round(panel.x.high - panel.x.low), rows = Math.round(panel.y.low - panel.y.high);
    const longest = Math.max(...ticksOf(panel.y).map(t => clip(t[1], 14).length));
    const left = Math.min(Math.max(46, longest * 6.4 + 12), 100), inner = Math.max(Math.min(width - left - 10, 420), 20);
    const cell = Math.min(inner / columns, inner / rows, 40);
    const w = panel.square ? columns * cell : inner, h = panel.square ? rows * cell : Math.min(Math.max(rows * 16, 120), 300);
    const box = {left, right: left + w, top: 6, bottom: 6 + h}, height = h + 46;
    const node = svg('svg', {width: left + w + 10, height, viewBox: `0 0 ${left + w + 10} ${height}`, role: 'img', 'aria-label': panel.alt});
    const x = scaleOf(panel.x, box.left, box.right), y = scaleOf(panel.y, box.bottom, box.top);
    const [picture, at] = cellPicture(mark, table, scale, panel.x.low + 0.5, panel.y.high + 0.5, columns, rows);
    const image = svg('image', {x: left, y: box.top, width: w, height: h, preserveAspectRatio: 'none', class: 'cells', href: picture});
    node.append(image);
    for (let v = panel.group - 0.5; panel.group && v < panel.x.high; v += panel.group)
        node.append(svg('line', {class: 'group', x1: x(v), x2: x(v), y1: box.top, y2: box.bottom}),
            svg('line', {class: 'group', x1: box.left, x2: box.right, y1: y(v), y2: y(v)}));
    axes(node, box, panel, x, y, true);
    image.addEventListener('pointerleave', () => say(null));
    image.addEventListener('pointermove', event => {
        const place = image.getBoundingClientRect(), outer = node.getBoundingClientRect();
        const c = Math.floor((event.clientX - place.left) / place.width * columns), d = Math.floor((event.clientY - place.top) / place.height * rows);
        const row = at.get(d * columns + c);
        if (row === undefined) return say(null);
        say([`${panel.y.label} ${shown(table.at[names[1] || mark.y[0]][row])}, ${panel.x.label} ${shown(table.at[names[0] || mark.x][row])}`,
            `${scale.label}: ${shown(table.at[mark.z][row])}`], event.clientX - outer.left, event.clientY - outer.top);
    });
    return node;
}

/* The scale of a heat map, in words and colours. */
function heatLegend(scale) {
    const [low, high] = [scale.stops[0][0], scale.stops[scale.stops.length - 1][0]];
    const stops = scale.stops.map(s => `${shade(s.slice(1))} ${(100 * (s[0] - low) / (high - low)).toFixed(1)}%`).join(',');
    return html('span.ramp', {}, scale.label, ' ', shown(low, 3), html('i', {style: `background:linear-gradient(90deg,${stops})`}), shown(high, 3));
}

/* One panel of a figure with its title, for a width in pixels. What the pointer is on is said beside it. */
function drawPanel(figure, panel, table, width) {
    const tip = html('div.tip', {hidden: ''});
    const say = (lines, x, y) => {
        tip.hidden = !lines;
        if (!lines) return;
        tip.replaceChildren(...lines.map(line => html('div', {}, line)));
        tip.style.cssText = (x > width / 2 ? `right:${width - x + 12}px` : `left:${x + 12}px`) + `;top:${y + 28}px`;
    };
    const drawn = figure.scale ? heatPanel(panel, table, figure.scale, figure.names, width, say) : xyPanel(panel, table, width, say);
    const head = html('div.head', {}, html('span', {}, panel.title ? html('b', {}, panel.title) : '', ' ', panel.y.label));
    if (figure.scale) head.append(heatLegend(figure.scale));
    return html('div.panel', {}, head, drawn, tip);
}
