/* The page of smoe serve: asks for runs.json every two seconds, and draws a chart per metric, as report_figure.js does. */
'use strict';
const colours = ['#1f6fb2', '#c2571a', '#2a8a57', '#8a4fa8', '#a8323e', '#5c6b73', '#b08a00', '#1a8a99'];
let runs = [], pointer = null; /* its last move; null outside of the page */

const colour = i => colours[i % colours.length];

function time(seconds) {
    if (!isFinite(seconds)) return '';
    const s = Math.round(seconds), two = n => String(n).padStart(2, '0');
    return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

/* ---- the table ------------------------------------------------------------------------------ */

function table() {
    const columns = Object.entries(runs.length ? runs[0].columns : {});
    const heads = ['run', 'state', 'step', ...columns.map(c => c[0]), 'left'];
    document.querySelector('#runs thead').replaceChildren(html('tr', {}, ...heads.map(h => html('th', {scope: 'col'}, h))));
    document.querySelector('#runs tbody').replaceChildren(...runs.map((run, i) => {
        const last = name => shown(run.curves.get(name)?.value.at(-1));
        const left = run.status === 'running' && run.step ? time((run.steps - run.step) / run.step * run.wall_s) : '';
        const cells = [run.problem ? `${run.status}: ${run.problem}` : run.status, run.steps ? `${run.step}/${run.steps}` : run.step, ...columns.map(c => last(c[1])), left];
        return html('tr', {}, html('td.text', {}, html('i', {style: `--colour:${colour(i)}`}), run.run),
            ...cells.map((c, k) => html(k ? 'td' : 'td.text', {}, String(c))));
    }));
}

/* ---- charts --------------------------------------------------------------------------------- */

/* An axis with about six ticks at round numbers. */
function axisOf(label, low, high, log) {
    const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
    return {label, low, high, log, step: power * [1, 2, 5, 10].find(n => n * power >= rough * (1 - 1e-9)), ticks: []};
}

/* A metric of all runs: a panel whose marks are rows of one table. */
function draw(figure, name) {
    const log = document.getElementById('log').checked ? 10 : 0, at = {step: [], value: []}, marks = [];
    let low = Infinity, high = -Infinity, steps = 0;
    runs.forEach((run, i) => {
        const c = run.curves.get(name), first = at.step.length;
        if (!c) return;
        c.value.forEach((v, k) => {
            const drawn = v !== null && !(log && v <= 0);
            at.step.push(c.step[k]);
            at.value.push(drawn ? v : null);
            if (drawn) [low, high, steps] = [Math.min(low, v), Math.max(high, v), Math.max(steps, c.step[k])];
        });
        marks.push({kind: 'line', name: run.run.split('/').pop(), colour: [colour(i), colour(i)], dash: Math.floor(i / colours.length), rows: [first, at.step.length - 1], same: [], x: 'step', y: ['value']});
    });
    if (low > high) return;
    if (low === high) [low, high] = low ? [low - Math.abs(low) / 2, high + Math.abs(high) / 2] : [-0.5, 0.5];
    const panel = {title: '', alt: `${name} over steps`, x: axisOf('step', 0, steps || 1, 0), y: axisOf('', low, high, log), marks};
    figure.lastChild.replaceWith(drawPanel({}, panel, {at}, figure.clientWidth || 360));
}

/* A figure per metric stays where it is, so that the page does not jump. */
function charts() {
    const place = document.getElementById('charts'), wanted = document.getElementById('filter').value.trim();
    const names = [...new Set(runs.flatMap(run => [...run.curves.keys()]))].filter(n => n.includes(wanted));
    for (const figure of [...place.children]) if (!names.includes(figure.dataset.metric)) figure.remove();
    for (const name of names) {
        let figure = [...place.children].find(f => f.dataset.metric === name);
        if (!figure) {
            figure = html('figure', {'data-metric': name}, html('figcaption', {}, html('strong', {}, name)), html('div'));
            place.append(figure);
        }
        draw(figure, name);
    }
    const under = pointer && document.elementFromPoint(pointer.clientX, pointer.clientY);
    if (under && under.matches('.area')) under.dispatchEvent(new PointerEvent('pointermove', pointer)); /* the new chart says it again */
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

document.addEventListener('pointermove', event => pointer = event);
document.documentElement.addEventListener('pointerleave', () => pointer = null);
document.getElementById('filter').addEventListener('input', charts);
document.getElementById('log').addEventListener('change', charts);
ask();
