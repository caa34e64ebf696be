/* The page of smoe serve: asks for runs.json every two seconds, and draws a chart per metric. */
'use strict';
const width = 360, height = 180, left = 52, right = 8, top_ = 8, bottom = 22;
const colours = ['#1f6fb2', '#c2571a', '#2a8a57', '#8a4fa8', '#a8323e', '#5c6b73', '#b08a00', '#1a8a99'];
let runs = [];

function make(name, attributes, ...children) {
    const svg = ['svg', 'path', 'text', 'rect', 'line'].includes(name);
    const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
    for (const key in attributes)
        if (key === 'style') node.style.cssText = attributes.style;
        else node.setAttribute(key, attributes[key]);
    node.append(...children);
    return node;
}

const colour = i => colours[i % colours.length];
const shown = x => x === null || x === undefined || !isFinite(x) ? '–' : Math.abs(x) >= 1e4 || (x && Math.abs(x) < 1e-3) ? x.toExponential(2) : String(+x.toPrecision(4));

function time(seconds) {
    if (!isFinite(seconds)) return '';
    const s = Math.round(seconds), two = n => String(n).padStart(2, '0');
    return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

/* ---- the table ------------------------------------------------------------------------------ */

function table() {
    const columns = runs.length ? runs[0].columns : [];
    const heads = ['run', 'state', 'step', ...columns.map(c => c[0]), 'left'];
    document.querySelector('#runs thead').replaceChildren(make('tr', {}, ...heads.map(h => make('th', {scope: 'col'}, h))));
    document.querySelector('#runs tbody').replaceChildren(...runs.map((run, i) => {
        const last = name => {
            const c = run.curves.get(name);
            return c ? shown(c.value[c.value.length - 1]) : '–';
        };
        const left = run.status === 'running' && run.step ? time((run.steps - run.step) / run.step * run.wall_s) : '';
        const cells = [run.problem ? `${run.status}: ${run.problem}` : run.status, run.steps ? `${run.step}/${run.steps}` : run.step, ...columns.map(c => last(c[1])), left];
        return make('tr', {}, make('td', {class: 'text'}, make('i', {style: `--colour:${colour(i)}`}), run.run),
            ...cells.map((c, k) => make('td', k ? {} : {class: 'text'}, String(c))));
    }));
}

/* ---- charts --------------------------------------------------------------------------------- */

/* [low, high] of the values of a metric, and the greatest step. */
function range(name, log) {
    let low = Infinity, high = -Infinity, steps = 0;
    for (const run of runs) {
        const c = run.curves.get(name);
        if (c) c.value.forEach((v, k) => {
            if (v === null || (log && v <= 0)) return;
            low = Math.min(low, v);
            high = Math.max(high, v);
            steps = Math.max(steps, c.step[k]);
        });
    }
    if (low === high) [low, high] = low ? [low - Math.abs(low) / 2, high + Math.abs(high) / 2] : [-0.5, 0.5];
    return {low, high, steps};
}

/* Round numbers from low to high: multiples of 1, 2 or 5 times a power of ten; on a logarithmic axis these themselves. */
function ticks(low, high, log) {
    const nice = [1, 2, 5], list = [], most = 7;
    if (log) {
        for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) list.push(...nice.map(n => n * 10 ** p));
        const inside = list.filter(t => t >= low && t <= high), tens = inside.filter(t => Number.isInteger(Math.log10(t)));
        if (inside.length >= 2) return inside.length > most ? tens.filter((t, i) => i % Math.ceil(tens.length / most) === 0) : inside;
    }
    const least = (high - low) / most, power = 10 ** Math.floor(Math.log10(least));
    const step = [...nice, 10].map(n => n * power).find(s => s >= least * (1 - 1e-9));
    const inside = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12); k++) inside.push(+(k * step).toPrecision(12));
    return inside;
}

function draw(figure, name) {
    const log = document.getElementById('log').checked, r = range(name, log);
    const svg = make('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${name} over steps`});
    if (!(r.high > r.low)) return;
    const f = log && r.low > 0 ? Math.log : x => x;
    const x = s => left + (r.steps ? s / r.steps : 0) * (width - left - right);
    const y = v => height - bottom - (f(v) - f(r.low)) / (f(r.high) - f(r.low)) * (height - top_ - bottom);
    svg.append(make('rect', {class: 'frame', x: left, y: top_, width: width - left - right, height: height - top_ - bottom}),
        ...ticks(r.low, r.high, f === Math.log).flatMap(v => [
            make('line', {class: 'grid', x1: left, x2: width - right, y1: y(v), y2: y(v)}),
            make('text', {x: left - 4, y: y(v) + 4, 'text-anchor': 'end'}, shown(v))]),
        ...(r.steps ? ticks(0, r.steps, false) : [0]).flatMap(s => [
            make('line', {class: 'grid', x1: x(s), x2: x(s), y1: top_, y2: height - bottom}),
            make('text', {x: x(s), y: height - 6, 'text-anchor': x(s) > width - 30 ? 'end' : 'middle'}, String(s))]));
    runs.forEach((run, i) => {
        const c = run.curves.get(name);
        if (!c) return;
        let path = '', open = false;
        c.value.forEach((v, k) => {
            const there = v !== null && (f !== Math.log || v > 0);
            if (there) path += `${open ? 'L' : 'M'}${x(c.step[k]).toFixed(1)} ${y(v).toFixed(1)}`;
            open = there;
        });
        svg.append(make('path', {class: 'line', d: path, stroke: colour(i)}));
    });
    svg.addEventListener('mousemove', event => {
        const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width * width - left) / (width - left - right) * r.steps;
        figure.querySelector('.at').textContent = runs.flatMap(run => {
            const c = run.curves.get(name);
            if (!c || !c.step.length) return [];
            let k = 0;
            while (k + 1 < c.step.length && Math.abs(c.step[k + 1] - at) <= Math.abs(c.step[k] - at)) k++;
            return `${run.run.split('/').pop()}: ${shown(c.value[k])} at step ${c.step[k]}`;
        }).join(' · ');
    });
    figure.querySelector('svg').replaceWith(svg);
}

/* A figure per metric stays where it is, so that the page does not jump. */
function charts() {
    const place = document.getElementById('charts'), wanted = document.getElementById('filter').value.trim();
    const names = [...new Set(runs.flatMap(run => [...run.curves.keys()]))].filter(n => n.includes(wanted));
    for (const figure of [...place.children]) if (!names.includes(figure.dataset.metric)) figure.remove();
    for (const name of names) {
        let figure = [...place.children].find(f => f.dataset.metric === name);
        if (!figure) {
            figure = make('figure', {'data-metric': name}, make('figcaption', {}, make('strong', {}, name)), make('svg', {}), make('div', {class: 'at note'}));
            place.append(figure);
        }
        draw(figure, name);
    }
}

function show() {
    table();
    charts();
    const going = runs.filter(r => r.status === 'running').length;
    document.getElementById('state').textContent = `${runs.length} ${runs.length === 1 ? 'run' : 'runs'}, ${going} going on; read at ${new Date().toLocaleTimeString()}.`;
    document.documentElement.dataset.ready = 'yes';
}

async function ask() {
    try {
        const answer = await fetch('runs.json', {cache: 'no-store'});
        if (!answer.ok) throw new Error(await answer.text());
        runs = await answer.json();
        for (const run of runs) run.curves = new Map(Object.entries(run.curves)); /* a metric may have any name */
        show();
    } catch (problem) {
        document.getElementById('state').textContent = `No answer: ${problem.message}`;
    }
    setTimeout(ask, 2000);
}

document.getElementById('filter').addEventListener('input', charts);
document.getElementById('log').addEventListener('change', charts);
ask();
