/*
 * The viewer of the report: an image, a layer, a slot or expert, and at once the patches it takes;
 * a patch, and at once the slots it is rebuilt from. Everything is in the page: pixels as PNG,
 * weights as bytes (see report_data.c for how they are packed).
 *
 * A unit is what takes tokens: a slot of the soft family, an expert of the choice routers. For an
 * image and a layer, `view` has
 *   units, tokens   how many
 *   take(u, t)      dispatch weight of token t in unit u (choice: the weight of the placement)
 *   give(t, u)      combine weight of unit u in token t
 *   lost(t)         choice: no expert processes token t
 */
'use strict';
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));

function softView(layer, packed) {
    const T = layer.tokens, S = layer.slots;
    const d = bytes(packed.dispatch), c = bytes(packed.combine);
    return {units: S, tokens: T, lost: () => false,
        take: (u, t) => d[u * T + t] / 255 * packed.dispatchMax[u], give: (t, u) => c[t * S + u] / 255 * packed.combineMax[t]};
}

function choiceView(layer, packed) {
    const T = layer.tokens, E = layer.experts, weight = new Float64Array(T * E), placed = new Set();
    packed.placements.forEach(([t, e, w]) => {
        weight[t * E + e] += w;
        placed.add(t);
    });
    const give = (t, u) => weight[t * E + u];
    return {units: E, tokens: T, take: (u, t) => give(t, u), give, lost: t => !placed.has(t)};
}

const viewers = [];

class Viewer {
    /* samples: of one run; `place` receives the elements. */
    constructor(samples, run, place) {
        /* mode: of choice routers the weight of one expert, 'lost' or 'who' */
        Object.assign(this, {samples, image: 0, layer: 0, unit: 0, patch: 0, mode: 'weight', stretch: false, views: new Map(), pictures: []});
        this.build(run, place);
    }

    async start() {
        for (const image of this.samples.images) {
            const picture = new Image();
            picture.src = 'data:image/png;base64,' + image.png;
            await picture.decode();
            this.pictures.push(picture);
        }
        this.thumbs.forEach((canvas, i) => this.paint(canvas, this.pictures[i], 44, null));
        [this.unit, this.patch] = this.heaviest();
        this.stretch = this.contrast.checked = !this.choice && this.flat();
        if (this.stretch) this.flatNote.textContent = '; on, because the weights are nearly uniform';
        this.show(true);
    }

    get choice() { return this.samples.layers[this.layer].kind === 'choice'; }
    get noun() { return this.choice ? 'expert' : 'slot'; }

    view(at = this.layer, image = this.image) {
        const key = image + '/' + at;
        if (!this.views.has(key)) {
            const layer = this.samples.layers[at];
            this.views.set(key, (layer.kind === 'choice' ? choiceView : softView)(layer, layer.images[image]));
        }
        return this.views.get(key);
    }

    /* The unit and the patch of the largest weight: something to see at first sight. */
    heaviest() {
        const view = this.view();
        let best = [0, this.samples.first], most = 0;
        for (let u = 0; u < view.units; u++)
            for (let t = this.samples.first; t < view.tokens; t++)
                if (view.take(u, t) > most) [best, most] = [[u, t], view.take(u, t)];
        return best;
    }

    /* Do most units shade all patches much alike, so that little is seen unless they are stretched? */
    flat() {
        const view = this.view();
        const flat = Array.from({length: view.units}, (_, u) => this.look(view, u)).filter(look => look.most < 2.5 * look.least);
        return 2 * flat.length > view.units;
    }

    /* ---- what is on the page -------------------------------------------------------------- */

    build(run, place) {
        const id = 'viewer-' + viewers.length;
        this.thumbs = this.samples.images.map(() => html('canvas', {'aria-hidden': 'true'}));
        this.strip = html('div.strip', {role: 'group', 'aria-label': 'Image'}, ...this.samples.images.map((image, i) =>
            button({'aria-label': `image ${image.index}, ${image.className}`}, () => this.go({image: i}), this.thumbs[i])));
        this.layerPick = html('div.segments', {role: 'group', 'aria-label': 'Layer'}, ...this.samples.layers.map((layer, i) =>
            button({}, () => this.go({layer: i}), `blocks.${layer.block}`)));
        this.modePick = html('div.segments', {role: 'group', 'aria-label': 'What is shown'},
            ...[['weight', 'one expert'], ['lost', 'dropped patches'], ['who', 'who took what']].map(([mode, text]) =>
                button({'data-mode': mode}, () => this.go({mode}), text)));
        this.canvas = html('canvas', {role: 'img'});
        this.canvas.addEventListener('click', event => this.clicked(event));
        this.slider = html('input', {type: 'range', min: 0, id: id + '-unit'});
        this.slider.addEventListener('input', () => this.go({unit: Number(this.slider.value), mode: 'weight'}));
        this.sliderLabel = html('label', {for: id + '-unit'});
        this.contrast = html('input', {type: 'checkbox', id: id + '-contrast'});
        this.contrast.addEventListener('change', () => this.go({stretch: this.contrast.checked}));
        this.legend = html('div.legend');
        this.facts = html('dl.facts');
        this.back = html('div.back');
        this.live = html('p.live', {role: 'status', 'aria-live': 'polite'});
        this.grid = html('div.tiles', {role: 'group'});
        this.gridTitle = html('h4');
        this.gallery = html('div.tiles', {role: 'group'});
        this.galleryTitle = html('h4.gallery');
        this.flatNote = html('span', {});
        this.table = html('div.scroll');
        this.details = html('details', {}, html('summary', {}, 'These weights as a table'), this.table);
        this.details.addEventListener('toggle', () => this.fillTable());
        this.root = html('div.viewer', {tabindex: '0', role: 'group', 'aria-label': `Viewer of ${run}`, 'aria-describedby': 'viewer-keys'},
            html('h3', {}, run), this.strip,
            html('div.bar', {}, this.layerPick, this.modePick),
            html('div.stage', {},
                html('div.picture', {}, this.canvas, this.legend,
                    html('div.control', {}, this.sliderLabel, this.slider),
                    html('label.check', {for: id + '-contrast'}, this.contrast, ' stretch the shading from least to most', this.flatNote)),
                html('div.side', {}, this.facts, this.back)),
            this.live, this.gridTitle, this.grid, this.galleryTitle, this.gallery, this.details);
        this.root.addEventListener('keydown', event => this.key(event));
        place.append(this.root);
        viewers.push(this);
    }

    /* Changes what is chosen, within its bounds, and shows it. Other runs follow to the same image. */
    go(change, follow = true) {
        const wrap = (v, n) => (v % n + n) % n;
        const now = () => [this.image, this.layer, this.stretch].join(), before = now();
        Object.assign(this, change);
        this.image = wrap(this.image, this.samples.images.length);
        this.layer = wrap(this.layer, this.samples.layers.length);
        const layer = this.samples.layers[this.layer];
        this.unit = wrap(this.unit, this.choice ? layer.experts : layer.slots);
        this.patch = wrap(this.patch, layer.tokens);
        if (follow && change.image !== undefined)
            for (const other of viewers) {
                const index = this.samples.images[this.image].index;
                const at = other === this ? -1 : other.samples.images.findIndex(image => image.index === index);
                if (at >= 0) other.go({image: at}, false);
            }
        this.show(before !== now());
    }

    key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.target.tagName === 'INPUT' && event.target.type === 'range' && !event.shiftKey) return;
        const side = this.samples.side, unit = by => ({unit: this.unit + by, mode: 'weight'}), patch = by => ({patch: this.patch + by});
        const moves = {ArrowLeft: [unit(-1), patch(-1)], ArrowRight: [unit(1), patch(1)],
            ArrowUp: [{layer: this.layer - 1}, patch(-side)], ArrowDown: [{layer: this.layer + 1}, patch(side)],
            PageUp: [{image: this.image - 1}], PageDown: [{image: this.image + 1}]}[event.key];
        if (!moves) return;
        this.go(moves[event.shiftKey ? 1 : 0] || moves[0]);
        event.preventDefault();
    }

    clicked(event) {
        const at = this.canvas.getBoundingClientRect(), side = this.samples.side;
        const column = Math.floor((event.clientX - at.left) / at.width * side), row = Math.floor((event.clientY - at.top) / at.height * side);
        if (row >= 0 && row < side && column >= 0 && column < side) this.go({patch: this.samples.first + row * side + column});
    }

    /* ---- drawing --------------------------------------------------------------------------- */

    /* The image, magnified without smoothing; look(t) gives {light, tint} of the patch of token t. */
    paint(canvas, picture, size, look) {
        const scale = window.devicePixelRatio || 1, side = this.samples.side;
        canvas.width = canvas.height = Math.round(size * scale);
        canvas.style.width = canvas.style.height = size + 'px';
        const pen = canvas.getContext('2d'), n = canvas.width;
        pen.imageSmoothingEnabled = false;
        pen.drawImage(picture, 0, 0, n, n);
        if (!look) return;
        for (let p = 0; p < side * side; p++) {
            const left = Math.round(p % side * n / side), top = Math.round(Math.floor(p / side) * n / side);
            const right = Math.round((p % side + 1) * n / side), bottom = Math.round((Math.floor(p / side) + 1) * n / side);
            const {light, tint} = look(this.samples.first + p);
            pen.fillStyle = tint || `rgba(8, 10, 14, ${(1 - light) * 0.92})`;
            pen.fillRect(left, top, right - left, bottom - top);
        }
    }

    look(view, unit, stretch = this.stretch) {
        let most = 0, least = Infinity;
        for (let t = this.samples.first; t < view.tokens; t++) {
            most = Math.max(most, view.take(unit, t));
            least = Math.min(least, view.take(unit, t));
        }
        const from = stretch ? least : 0;
        if (most === 0) return {most, least, of: () => ({tint: 'rgba(190, 190, 190, 0.85)'})};
        return {most, least, of: t => ({light: most > from ? (view.take(unit, t) - from) / (most - from) : 1})};
    }

    lookMode(view, mode) {
        if (mode === 'lost') return t => view.lost(t) ? {tint: '#e6007e'} : {light: 1};
        return t => {
            let best = -1;
            for (let u = 0; u < view.units; u++)
                if (view.take(u, t) > 0 && (best < 0 || view.take(u, t) > view.take(best, t))) best = u;
            return {tint: best < 0 ? 'rgba(8, 10, 14, 0.92)' : this.hue(best, view.units, 0.72)};
        };
    }

    hue(unit, units, alpha) {
        return `hsla(${(unit * 360 / units + 200) % 360}, 62%, ${unit % 2 ? 62 : 48}%, ${alpha})`;
    }

    show(fresh) {
        const view = this.view(), layer = this.samples.layers[this.layer], image = this.samples.images[this.image];
        const size = Math.min(this.canvas.parentElement.clientWidth || 320, 384);
        const mark = (group, chosen) => [...group.children].forEach((b, i) => b.setAttribute('aria-pressed', String(chosen(b, i))));
        mark(this.strip, (b, i) => i === this.image);
        mark(this.layerPick, (b, i) => i === this.layer);
        mark(this.modePick, b => b.dataset.mode === this.mode);
        this.modePick.hidden = !this.choice;
        if (!this.choice) this.mode = 'weight';
        const look = this.look(view, this.unit);
        this.paint(this.canvas, this.pictures[this.image], size, this.mode === 'weight' ? look.of : this.lookMode(view, this.mode));
        this.outline(size);
        this.slider.max = view.units - 1;
        this.slider.value = this.unit;
        this.slider.setAttribute('aria-valuetext', `${this.noun} ${this.unit}`);
        this.sliderLabel.textContent = `${this.noun} ${this.unit} of ${view.units}`;
        this.say(view, layer, image, look);
        this.rebuilt(view);
        if (fresh) this.tiles(view);
        mark(this.grid, b => this.mode === b.dataset.mode && (this.mode !== 'weight' || Number(b.dataset.unit) === this.unit));
        this.fillGallery();
        this.fillTable();
    }

    outline(size) {
        const p = this.patch - this.samples.first, side = this.samples.side;
        if (p < 0) return;
        const pen = this.canvas.getContext('2d'), n = this.canvas.width, cell = n / side, thick = Math.max(n / size * 2, 2);
        for (const [colour, inset] of [['#fff', thick / 2], ['#111', thick * 1.5]]) {
            pen.strokeStyle = colour;
            pen.lineWidth = thick;
            pen.strokeRect(p % side * cell + inset, Math.floor(p / side) * cell + inset, cell - 2 * inset, cell - 2 * inset);
        }
    }

    where(t) {
        const p = t - this.samples.first, side = this.samples.side;
        return p < 0 ? 'the class token' : `the patch in row ${Math.floor(p / side) + 1}, column ${p % side + 1}`;
    }

    /* Effective count: the exponential of the entropy of weights normalised to one. */
    effective(weights) {
        const sum = weights.reduce((a, b) => a + b, 0);
        return sum > 0 ? Math.exp(-weights.reduce((h, w) => w > 0 ? h + w / sum * Math.log(w / sum) : h, 0)) : 0;
    }

    say(view, layer, image, look) {
        const taken = Array.from({length: view.tokens}, (_, t) => view.take(this.unit, t));
        let top = 0, lost = 0;
        for (let t = 0; t < view.tokens; t++) {
            if (taken[t] > taken[top]) top = t;
            lost += view.lost(t);
        }
        const dropped = this.choice ? `; ${lost} of ${view.tokens} tokens are dropped` : '';
        const facts = [['Image', `${image.index} · ${image.name}`],
            ['Label', image.className === image.predictedName ? `${image.className}, found` : `${image.className}, taken for ${image.predictedName}`]];
        let sentence = '';
        if (this.choice) {
            const count = taken.filter(w => w > 0).length;
            facts.push(['Expert', `${this.unit} takes ${count} of ${view.tokens} tokens`]);
            sentence = count ? `Expert ${this.unit} takes ${count} of ${view.tokens} tokens; most weight, ${shown(taken[top], 3)}, for ${this.where(top)}`
                : `Expert ${this.unit} takes no token of this image`;
            facts.push(['Dropped', `${lost} of ${view.tokens} tokens`]);
        } else {
            const per = layer.slots / layer.experts;
            facts.push(['Slot', `${this.unit}, of expert ${Math.floor(this.unit / per)}`],
                ['Effective tokens', `${shown(this.effective(taken), 3)} of ${view.tokens}`]);
            sentence = `Slot ${this.unit} of expert ${Math.floor(this.unit / per)} takes ${shown(this.effective(taken), 3)} effective tokens; `
                + `most weight, ${shown(taken[top], 3)}, for ${this.where(top)}`;
        }
        facts.push(['Largest weight', shown(taken[top], 3)]);
        this.facts.replaceChildren(...facts.map(([term, text]) => html('div', {}, html('dt', {}, term), html('dd', {}, text))));
        const words = {weight: sentence + dropped, lost: `Magenta patches are processed by no expert${dropped}`,
            who: `Each patch in the colour of the expert that weighs it most; dark: dropped${dropped}`}[this.mode];
        this.live.textContent = `blocks.${layer.block}: ${words}.`;
        this.canvas.setAttribute('aria-label', `Image ${image.index}, ${image.className}, blocks.${layer.block}. ${words}.`);
        this.legend.replaceChildren(...(this.mode !== 'weight' ? [] : [html('span', {}, this.stretch ? shown(look.least, 3) : '0'), html('i'),
            html('span', {}, shown(look.most, 3))]));
        this.legend.hidden = this.mode !== 'weight';
    }

    /* The reverse: which units the chosen patch is rebuilt from. */
    rebuilt(view) {
        const given = Array.from({length: view.units}, (_, u) => [view.give(this.patch, u), u]).filter(g => g[0] > 0);
        given.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
        const list = html('ol.bars');
        for (const [weight, unit] of given.slice(0, 8))
            list.append(html('li', {}, button({'aria-label': `${this.noun} ${unit}, weight ${shown(weight, 3)}`}, () => this.go({unit, mode: 'weight'}),
                html('span', {}, `${this.noun} ${unit}`), html('i', {style: `--share:${weight / given[0][0]}`}), html('b', {}, weight.toPrecision(3)))));
        const text = this.where(this.patch), name = text[0].toUpperCase() + text.slice(1);
        const head = !given.length ? `${name} is dropped: no expert processes it.`
            : this.choice ? `${name} goes to` : `${name} is rebuilt from ${shown(this.effective(given.map(g => g[0])), 3)} effective slots`;
        this.back.replaceChildren(html('h4', {}, head), list);
        if (given.length > 8) this.back.append(html('p.note', {}, `and ${given.length - 8} more with less weight`));
    }

    /* Every unit of the layer, small. */
    tiles(view) {
        const most = 144, size = view.units > 32 ? 52 : 72, picture = this.pictures[this.image];
        this.gridTitle.textContent = this.choice ? 'What each expert takes of this image' : 'What each slot takes of this image';
        this.grid.setAttribute('aria-label', this.gridTitle.textContent);
        const tile = (text, mode, unit, look) => {
            const canvas = html('canvas', {'aria-hidden': 'true'});
            this.paint(canvas, picture, size, look);
            return button({'aria-label': mode === 'weight' ? `${this.noun} ${unit}` : text, 'data-mode': mode, 'data-unit': unit},
                () => this.go(mode === 'weight' ? {mode, unit} : {mode}), canvas, html('span', {}, text));
        };
        const all = this.choice ? [tile('dropped', 'lost', -1, this.lookMode(view, 'lost')), tile('who', 'who', -1, this.lookMode(view, 'who'))] : [];
        const count = this.all ? view.units : Math.min(view.units, most);
        for (let u = 0; u < count; u++) {
            const look = this.look(view, u);
            all.push(tile(look.most > 0 ? String(u) : `${u}: none`, 'weight', u, look.of));
        }
        this.grid.replaceChildren(...all);
        if (count < view.units)
            this.grid.append(button({class: 'more'}, () => {
                this.all = true;
                this.show(true);
            }, `all ${view.units}`));
    }

    /* The chosen unit in every image of this run, and in this image of the other runs that have the layer: checkpoints of one run
     * show how it changes over training. */
    fillGallery() {
        const block = this.samples.layers[this.layer].block, index = this.samples.images[this.image].index, tiles = [];
        const add = (viewer, layer, image, text) => {
            const view = viewer.view(layer, image);
            if (this.unit >= view.units) return;
            const canvas = html('canvas', {'aria-hidden': 'true'}), look = viewer.look(view, this.unit, this.stretch);
            viewer.paint(canvas, viewer.pictures[image], 72, look.of);
            tiles.push(button({'aria-label': `${this.noun} ${this.unit}, ${text}`}, () => viewer.go({image, layer, unit: this.unit, mode: 'weight'}),
                canvas, html('span', {}, text)));
        };
        this.samples.images.forEach((image, i) => add(this, this.layer, i, `image ${image.index}`));
        for (const other of viewers) {
            const layer = other.samples.layers.findIndex(l => l.block === block), image = other.samples.images.findIndex(i => i.index === index);
            if (other !== this && other.pictures.length && other.choice === this.choice && layer >= 0 && image >= 0)
                add(other, layer, image, other.samples.run.replace(/.*(step_\d+).*/, '$1'));
        }
        this.galleryTitle.textContent = `${this.noun} ${this.unit} in ${viewers.length > 1 ? 'every image, and in this image of the other runs or steps' : 'every image'}`;
        this.gallery.setAttribute('aria-label', this.galleryTitle.textContent);
        this.gallery.replaceChildren(...tiles);
    }

    /* The chosen unit's weights in the places of their patches. */
    fillTable() {
        if (!this.details.open) return;
        const view = this.view(), side = this.samples.side, body = html('tbody');
        const along = make => Array.from({length: side}, (_, i) => make(i)), weight = (r, c) => view.take(this.unit, this.samples.first + r * side + c);
        body.append(...along(r => html('tr', {}, html('th', {scope: 'row'}, `row ${r + 1}`), ...along(c => html('td', {}, shown(weight(r, c), 3))))));
        const head = html('tr', {}, html('td'), ...along(c => html('th', {scope: 'col'}, String(c + 1))));
        this.table.replaceChildren(html('table', {}, html('caption', {}, `Weights of ${this.noun} ${this.unit}, patch by patch`), html('thead', {}, head), body));
    }
}
