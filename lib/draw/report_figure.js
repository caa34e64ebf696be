/*
 * Figures of the report: a panel of lines, bands, bars or a heat map as SVG, drawn for the width
 * there is, so that letters stay as large as those of the text. Colours are those of report.css.
 * What is drawn comes from report.js, which reads the tables; nothing here knows a router.
 */
const SVG = 'http://www.w3.org/2000/svg';

function svg(name, attributes, ...children) {
    const node = document.createElementNS(SVG, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    node.append(...children);
    return node;
}

/* html('p.note', {id: 'x'}, 'text', node): text is never markup. */
function html(selector, attributes, ...children) {
    const [name, ...classes] = selector.split('.');
    const node = document.createElement(name);
    if (classes.length) node.className = classes.join(' ');
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    node.append(...children);
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

/* Little to much: paper to ink by day, night to light by night. Signed: blue, paper, orange. */
const ramps = {
    day: [[246, 248, 250], [198, 217, 232], [122, 170, 208], [46, 108, 160], [12, 44, 84]],
    night: [[28, 33, 40], [32, 62, 92], [48, 112, 164], [122, 182, 222], [236, 246, 253]],
    daySigned: [[20, 84, 140], [122, 170, 208], [247, 246, 243], [231, 160, 106], [172, 74, 14]],
    nightSigned: [[126, 190, 236], [48, 104, 150], [34, 38, 44], [164, 88, 38], [250, 176, 120]]
};

function rampColour(share, signed) {
    const night = dark.matches && !printing;
    const ramp = ramps[(night ? 'night' : 'day') + (signed ? 'Signed' : '')];
    const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
    const below = Math.min(Math.floor(at), ramp.length - 2), part = at - below;
    return ramp[below].map((c, k) => Math.round(c + part * (ramp[below + 1][k] - c)));
}

/* ---- axes ----------------------------------------------------------------------------------- */

/* About `count` round numbers from low to high. */
function ticks(low, high, count, whole) {
    const rough = Math.max((high - low) / Math.max(count, 1), whole ? 1 : 0), power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(m => m * power >= rough * 0.999);
    const out = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(k * step || 0);
    return out;
}

function logTicks(low, high) {
    const out = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++)
        for (const m of Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5])
            if (m * 10 ** p >= low * 0.999 && m * 10 ** p <= high * 1.001) out.push(m * 10 ** p);
    return out;
}

/* A scale from data to pixels. An axis is {label, log, low, high, from}: `from` is a number the
 * axis must reach, low and high are given or found. */
function scale(axis, values, start, end, room) {
    let low = axis.low, high = axis.high;
    const finite = values.filter(v => Number.isFinite(v) && !(axis.log && v <= 0));
    if (axis.from !== undefined) finite.push(axis.from);
    if (low === undefined) low = finite.reduce((a, b) => Math.min(a, b), Infinity);
    if (high === undefined) high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!(low < high)) {
        const wide = Math.max(Math.abs(low) / 20, 1e-3);
        [low, high] = Number.isFinite(low) ? [axis.log ? low / 2 : low - wide, axis.log ? low * 2 : low + wide] : [0, 1];
    }
    const f = axis.log ? Math.log : v => v;
    const at = v => start + (end - start) * (f(v) - f(low)) / (f(high) - f(low));
    /* As many decimals as the steps between them have. */
    const step = () => at.ticks.length > 1 ? at.ticks[1] - at.ticks[0] : 0;
    at.text = v => axis.log || Math.abs(v) >= 1e4 || step() < 1e-5 ? shown(v, 3)
        : v.toFixed(Math.max(0, -Math.floor(Math.log10(step()) + 1e-9))).replace('-', '−');
    const count = Math.abs(end - start) / room, whole = values.every(Number.isInteger);
    at.ticks = axis.log ? logTicks(low, high) : ticks(low, high, count, whole);
    if (at.ticks.length < 3 && !axis.log) at.ticks = ticks(low, high, 2 * count, whole);
    at.low = low;
    at.high = high;
    return at;
}

function axes(node, box, x, y, panel) {
    const g = svg('g', {class: 'axes', 'aria-hidden': 'true'});
    for (const v of y.ticks) {
        g.append(svg('line', {x1: box.left, x2: box.right, y1: y(v), y2: y(v)}),
            svg('text', {x: box.left - 6, y: y(v) + 4, 'text-anchor': 'end'}, y.text(v)));
    }
    if (!panel.names)
        for (const v of x.ticks)
            g.append(svg('text', {x: x(v), y: box.bottom + 16, 'text-anchor': 'middle'}, x.text(v)));
    g.append(svg('line', {class: 'base', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}));
    if (panel.x.label)
        g.append(svg('text', {class: 'label', x: (box.left + box.right) / 2, y: box.bottom + 34, 'text-anchor': 'middle'},
            panel.x.label));
    node.append(g);
}

/* ---- kinds of panels --------------------------------------------------------------------------
 * A panel is {kind, title, x, y, series: [{name, colour, points: [[x, y], ...]}], ...}. */

function path(points, x, y, step) {
    let d = '', pen = false;
    for (let i = 0; i < points.length; i++) {
        const [px, py] = points[i];
        if (!Number.isFinite(px) || !Number.isFinite(py) || !Number.isFinite(y(py)) || !Number.isFinite(x(px))) {
            pen = false;
            continue;
        }
        d += step && pen ? `H${x(px).toFixed(1)}V${y(py).toFixed(1)}`
            : `${pen ? 'L' : 'M'}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
        pen = true;
    }
    return d;
}

function frameOf(panel, width, height) {
    const node = svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': panel.alt});
    const box = {left: 46, right: width - 10, top: 8, bottom: height - (panel.x.label ? 40 : 22)};
    return [node, box];
}

function linePanel(panel, width, height) {
    const [node, box] = frameOf(panel, width, height);
    const bands = panel.bands || [];
    const xs = panel.series.flatMap(s => s.points.map(p => p[0]));
    const ys = panel.series.flatMap(s => s.points.map(p => p[1])).concat(bands.flatMap(b => b.points.flatMap(p => [p[1], p[2]])));
    const x = scale(panel.x, xs, box.left, box.right, 64), y = scale(panel.y, ys, box.bottom, box.top, 34);
    axes(node, box, x, y, panel);
    for (const band of bands) {
        const upper = path(band.points.map(p => [p[0], p[2]]), x, y);
        const lower = path(band.points.map(p => [p[0], p[1]]).reverse(), x, y).replace('M', 'L');
        node.append(svg('path', {class: 'band', d: upper + lower + 'Z'}));
    }
    for (const s of panel.series) {
        const few = s.points.length < 9 && !panel.step;
        node.append(svg('path', {class: s.dashed ? 'line dashed' : 'line', d: path(s.points, x, y, panel.step), style: `stroke:${s.colour}`}));
        if (few)
            for (const [px, py] of s.points)
                if (Number.isFinite(py)) node.append(svg('circle', {cx: x(px), cy: y(py), r: 3, style: `fill:${s.colour}`}));
    }
    hover(node, box, x, y, panel);
    return node;
}

function barPanel(panel, width, height) {
    const [node, box] = frameOf(panel, width, height);
    const xs = [...new Set(panel.series.flatMap(s => s.points.map(p => p[0])))].sort((a, b) => a - b);
    const count = panel.series.length;
    const sums = panel.stacked ? xs.map(v => panel.series.reduce((sum, s) => sum + (s.points.find(p => p[0] === v) || [0, 0])[1], 0))
        : panel.series.flatMap(s => s.points.map(p => p[1]));
    const gap = xs.reduce((least, v, i) => i ? Math.min(least, v - xs[i - 1]) : least, Infinity);
    const wide = Number.isFinite(gap) ? gap : 1;
    const x = scale({low: xs[0] - wide / 2, high: xs[xs.length - 1] + wide / 2}, [], box.left, box.right, 64);
    const y = scale({...panel.y, from: 0}, sums, box.bottom, box.top, 34);
    const every = Math.ceil(xs.length / Math.max(Math.floor((box.right - box.left) / (panel.names ? 64 : 40)), 1));
    x.ticks = xs.filter((v, i) => i % every === 0);
    axes(node, box, x, y, panel);
    const room = Math.abs(x(wide) - x(0)), used = Math.max(room * (room > 8 ? 0.78 : 0.96), 1);
    const base = new Map(xs.map(v => [v, 0]));
    panel.series.forEach((s, k) => s.points.forEach(([px, py]) => {
        if (!Number.isFinite(py)) return;
        const from = panel.stacked ? base.get(px) : 0;
        base.set(px, from + py);
        const each = panel.stacked ? used : used / count;
        const left = x(px) - used / 2 + (panel.stacked ? 0 : k * each);
        const top = y(Math.max(from, from + py)), bottom = y(Math.min(from, from + py));
        node.append(svg('rect', {x: left.toFixed(2), y: top.toFixed(2), width: Math.max(each - (each > 5 ? 1 : 0), 0.6).toFixed(2),
            height: Math.max(bottom - top, 0).toFixed(2), style: `fill:${s.colour}`},
        svg('title', {}, `${panel.names ? panel.names[px] : shown(px)}${s.name ? ', ' + s.name : ''}: ${shown(py)}`)));
    }));
    if (panel.names)
        xs.forEach((v, i) => {
            if (i % every === 0)
                node.append(svg('text', {class: 'tick', x: x(v), y: box.bottom + 16, 'text-anchor': 'middle'}, panel.names[v]));
        });
    return node;
}

/* panel.matrix {rows, columns, value(row, column), low, high, signed}: a canvas of one pixel a
 * cell, magnified without smoothing. */
function heatPanel(panel, width) {
    const m = panel.matrix;
    const names = Math.max(...m.rowNames.map(n => String(n).length));
    const left = Math.min(Math.max(46, names * 6.4 + 12), 100), right = 10, top = 6, below = 40;
    const inner = Math.max(Math.min(width - left - right, 420), 20);
    const cell = Math.min(inner / m.columns, inner / m.rows, 40);
    const w = m.square ? m.columns * cell : inner, h = m.square ? m.rows * cell : Math.min(Math.max(m.rows * 16, 120), 300);
    const canvas = document.createElement('canvas');
    canvas.width = m.columns;
    canvas.height = m.rows;
    const pen = canvas.getContext('2d'), pixels = pen.createImageData(m.columns, m.rows);
    for (let r = 0; r < m.rows; r++)
        for (let c = 0; c < m.columns; c++) {
            const v = m.value(r, c), at = (r * m.columns + c) * 4;
            const colour = Number.isFinite(v) ? rampColour((v - m.low) / (m.high - m.low || 1), m.signed) : [128, 128, 128];
            for (let k = 0; k < 3; k++) pixels.data[at + k] = colour[k];
            pixels.data[at + 3] = Number.isFinite(v) ? 255 : 0;
        }
    pen.putImageData(pixels, 0, 0);
    const height = top + h + below;
    const node = svg('svg', {width: left + w + right, height, viewBox: `0 0 ${left + w + right} ${height}`, role: 'img', 'aria-label': panel.alt});
    const image = svg('image', {x: left, y: top, width: w, height: h, preserveAspectRatio: 'none', class: 'cells'});
    image.setAttribute('href', canvas.toDataURL());
    node.append(image);
    const g = svg('g', {class: 'axes', 'aria-hidden': 'true'});
    const across = Math.ceil(m.columns / Math.max(Math.floor(w / 34), 1)), down = Math.ceil(m.rows / Math.max(Math.floor(h / 15), 1));
    for (let c = 0; c < m.columns; c += across)
        g.append(svg('text', {x: left + (c + 0.5) * w / m.columns, y: top + h + 15, 'text-anchor': 'middle'}, m.columnNames[c]));
    for (let r = 0; r < m.rows; r += down)
        g.append(svg('text', {x: left - 6, y: top + (r + 0.5) * h / m.rows + 4, 'text-anchor': 'end'}, clip(m.rowNames[r], 14)));
    if (panel.x.label) g.append(svg('text', {class: 'label', x: left + w / 2, y: top + h + 33, 'text-anchor': 'middle'}, panel.x.label));
    node.append(g);
    const tip = svg('title', {}, '');
    image.append(tip);
    image.addEventListener('pointermove', event => {
        const at = image.getBoundingClientRect();
        const c = Math.min(Math.floor((event.clientX - at.left) / at.width * m.columns), m.columns - 1);
        const r = Math.min(Math.floor((event.clientY - at.top) / at.height * m.rows), m.rows - 1);
        if (r >= 0 && c >= 0)
            tip.textContent = `${panel.y.label} ${m.rowNames[r]}, ${panel.x.label} ${m.columnNames[c]}: ${m.name} ${shown(m.value(r, c))}`;
    });
    return node;
}

function clip(text, most) {
    text = String(text);
    return text.length > most ? text.slice(0, most - 1) + '…' : text;
}

/* The scale of a heat map, in words and colours. */
function heatLegend(m) {
    const stops = [0, 0.25, 0.5, 0.75, 1].map(s => `rgb(${rampColour(s, m.signed)})`).join(',');
    return html('span.ramp', {}, m.name, ' ', shown(m.low, 3), html('i', {style: `background:linear-gradient(90deg,${stops})`}), shown(m.high, 3));
}

/* A rule under the pointer with what the lines are there. */
function hover(node, box, x, y, panel) {
    const rule = svg('line', {class: 'rule', y1: box.top, y2: box.bottom, visibility: 'hidden'});
    const tip = svg('title', {}, '');
    const area = svg('rect', {class: 'area', x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top}, tip);
    node.append(rule, area);
    area.addEventListener('pointerleave', () => rule.setAttribute('visibility', 'hidden'));
    area.addEventListener('pointermove', event => {
        const at = event.clientX - node.getBoundingClientRect().left;
        let nearest = null;
        for (const s of panel.series)
            for (const p of s.points)
                if (nearest === null || Math.abs(x(p[0]) - at) < Math.abs(x(nearest) - at)) nearest = p[0];
        if (nearest === null) return;
        rule.setAttribute('x1', x(nearest));
        rule.setAttribute('x2', x(nearest));
        rule.setAttribute('visibility', 'visible');
        tip.textContent = `${panel.x.label} ${shown(nearest)}\n` + panel.series.flatMap(s => {
            const p = s.points.find(q => q[0] === nearest);
            return p ? [`${s.name || panel.y.label} ${shown(p[1])}`] : [];
        }).join('\n');
    });
}

/* One panel with its title, for a width in pixels. */
function drawPanel(panel, width) {
    const height = Math.round(Math.min(Math.max(width * 0.58, 180), 290));
    const drawn = panel.kind === 'heat' ? heatPanel(panel, width)
        : panel.kind === 'bar' ? barPanel(panel, width, height) : linePanel(panel, width, height);
    const head = html('div.head', {}, html('span', {}, panel.title ? html('b', {}, panel.title) : '', ' ', panel.y.label));
    if (panel.matrix) head.append(heatLegend(panel.matrix));
    return html('div.panel', {}, head, drawn);
}
