"""Opens a report.html in headless Chromium and uses it: python3 report_page.py CHROMIUM REPORT.html [SHOTS]

Uses the DevTools protocol over a pipe, with only Python's standard library. Checks, at 1280 and 390 pixels, in the light and
the dark theme: nothing on the console, no request except for the file itself, nothing wider than the window, a viewer that
responds to clicks and keys and describes its state in words. Pictures of the page are stored in the folder SHOTS, if given.
Prints failures; exit status 1 if there are any.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from xml.etree import ElementTree


class Browser:
    def __init__(self, program, profile):
        to_child, self.output = os.pipe()
        self.input, from_child = os.pipe()

        def place():
            os.dup2(to_child, 13)
            os.dup2(from_child, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        self.process = subprocess.Popen(
            [program, '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
             '--disable-background-networking', '--disable-component-update', '--remote-debugging-pipe',
             '--user-data-dir=' + profile],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.rest, self.count, self.events, self.session = b'', 0, [], None

    def receive(self):
        while b'\0' not in self.rest:
            part = os.read(self.input, 1 << 20)
            if not part:
                sys.exit('report_page: the browser went away')
            self.rest += part
        message, self.rest = self.rest.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {'id': self.count, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.output, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.receive()
            if answer.get('id') == self.count:
                if 'error' in answer:
                    sys.exit(f'report_page: {method}: {answer["error"]["message"]}')
                return answer['result']
            self.events.append(answer)

    def value(self, expression):
        answer = self.call('Runtime.evaluate', expression=expression, awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in answer:
            return 'exception: ' + answer['exceptionDetails'].get('exception', {}).get('description', '?')
        return answer['result'].get('value')

    def open_tab(self):
        """A tab whose events are kept in self.events."""
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(domain + '.enable')
        self.call('Page.addScriptToEvaluateOnNewDocument', source='window.hostile = () => window.called = true')

    def complaints(self, address):
        """What no page may do: requests but for the address, exceptions, words on the console; from the events so far."""
        out = []
        for event in self.events:
            method, params = event.get('method'), event.get('params', {})
            if method == 'Network.requestWillBeSent' and not params['request']['url'].startswith((address, 'data:')):
                out.append(f'request to {params["request"]["url"]}')
            elif method == 'Runtime.exceptionThrown':
                out.append(str(params['exceptionDetails'].get('exception', {}).get('description')))
            elif method in ('Log.entryAdded', 'Runtime.consoleAPICalled'):
                out.append(f'console: {json.dumps(params)[:300]}')
        return out

    def close(self):
        try:
            self.session = None
            self.call('Browser.close')
            self.process.wait(10)
        except Exception:
            self.process.kill()
            self.process.wait()


KEYS = {'ArrowLeft': 37, 'ArrowUp': 38, 'ArrowRight': 39, 'ArrowDown': 40, 'PageUp': 33, 'PageDown': 34}


def hostile(browser):
    """Pages are shown with names that would call hostile(), if they were more than text: whether one did, or an element came of one."""
    return browser.value('!!window.called || !!document.querySelector("[onerror], [onload], img[src=x]")')


def press(browser, key, shift=False):
    for kind in ('rawKeyDown', 'keyUp'):
        browser.call('Input.dispatchKeyEvent', type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key],
                     modifiers=8 if shift else 0)


def click(browser, expression, at=0.5):
    """Clicks in the middle of an element, or at another fraction of its width and height."""
    x, y = browser.value(f'''(() => {{ const e = {expression}; e.scrollIntoView({{block: "center"}});
        const r = e.getBoundingClientRect(); return [r.left + r.width * {at}, r.top + r.height * {at}]; }})()''')
    for kind in ('mousePressed', 'mouseReleased'):
        browser.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)


def picture(browser, folder, name):
    size = browser.call('Page.getLayoutMetrics')['cssContentSize']
    shot = browser.call('Page.captureScreenshot', captureBeyondViewport=True,
                        clip={'x': 0, 'y': 0, 'width': size['width'], 'height': min(size['height'], 15000), 'scale': 1})
    with open(os.path.join(folder, name + '.png'), 'wb') as out:
        out.write(base64.b64decode(shot['data']))


def open_page(browser, address, width, scheme):
    browser.call('Emulation.setDeviceMetricsOverride', width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])
    browser.call('Emulation.setScrollbarsHidden', hidden=True)
    browser.events.clear()
    browser.call('Page.navigate', url=address)
    return browser.value('''new Promise(done => { const drawn = () => document.documentElement && document.documentElement.dataset.ready
        && [...document.querySelectorAll(".panels")].every(p => p.firstChild); const wait = n => drawn()
        ? done('ready') : n ? setTimeout(wait, 50, n - 1) : done('never ready'); wait(200); })''')


STATE = '(v => [v.image, v.layer, v.unit, v.patch, v.mode].join())(viewers[0])'
WORDS = 'viewers[0].root.querySelector("[role=status]").textContent'
PIXELS = 'viewers[0].canvas.toDataURL()'


def use_viewer(browser, check):
    """Each step changes one part of the state; text and picture must change accordingly."""
    if browser.value('viewers.length') == 0:
        return
    # The soft weights in the page are those of the frames: those of a slot and of a token sum to 1, bytes being within
    # 1/510 of the largest.
    check(browser.value('''viewers.filter(v => !v.choice).every(v => { const w = v.view();
        const near = (n, f) => { const x = Array.from({length: n}, (_, k) => f(k)), m = Math.max(...x);
            return Math.abs(x.reduce((a, b) => a + b, 0) - 1) <= n * m / 510 + 1e-3; };
        return [...Array(w.units).keys()].every(u => near(w.tokens, t => w.take(u, t)))
            && [...Array(w.tokens).keys()].every(t => near(w.units, u => w.give(t, u))); })'''), 'weights do not sum to 1')
    images, layers = browser.value('[viewers[0].samples.images.length, viewers[0].samples.layers.length]')
    browser.value('viewers[0].root.focus()')

    def step(what, act, part):
        before = browser.value(f'[{STATE}, {WORDS}, {PIXELS}]')
        act()
        after = browser.value(f'[{STATE}, {WORDS}, {PIXELS}]')
        old, new = before[0].split(','), after[0].split(',')
        check(old[part] != new[part], f'{what}: the viewer does not follow ({before[0]} to {after[0]})')
        if part != 1:  # an expert may take no tokens in either layer
            check(before[2] != after[2], f'{what}: the picture stays the same')
        if part != 3:
            check(before[1] != after[1], f'{what}: the words stay the same')

    step('right arrow', lambda: press(browser, 'ArrowRight'), 2)
    step('left arrow', lambda: press(browser, 'ArrowLeft'), 2)
    if layers > 1:
        step('down arrow', lambda: press(browser, 'ArrowDown'), 1)
        step('up arrow', lambda: press(browser, 'ArrowUp'), 1)
    if images > 1:
        step('page down', lambda: press(browser, 'PageDown'), 0)
        step('page up', lambda: press(browser, 'PageUp'), 0)
        step('a click on an image', lambda: click(browser, 'viewers[0].strip.lastElementChild'), 0)
    step('shift and right arrow', lambda: press(browser, 'ArrowRight', True), 3)
    browser.value('viewers[0].go({patch: -1})')  # the last one, to click on the first
    step('a click on a patch', lambda: click(browser, 'viewers[0].canvas', 0.05), 3)
    other = 1 if browser.value('viewers[0].unit') == 2 else 2
    step('a click on a tile', lambda: click(browser, f'viewers[0].grid.querySelector("[data-unit=\\"{other}\\"]")'), 2)
    # The gallery has the slot in every image of the run, and in the same image of other runs of its kind.
    check(browser.value('viewers[0].gallery.children.length >= viewers[0].samples.images.length'), 'the gallery lacks images')
    if images > 1:
        step('a click in the gallery', lambda: click(browser, 'viewers[0].gallery.children[viewers[0].image ? 0 : 1]'), 0)
    if layers > 1:
        step('a click on a layer', lambda: click(browser, 'viewers[0].layerPick.lastElementChild'), 1)
    check(browser.value('viewers[0].canvas.getAttribute("aria-label").length') > 20, 'the picture has no words')


def use_pointer(browser, check):
    """The pointer is told the values of a figure: of bars and bins only those at their place, since one that is missing there is zero."""
    told = browser.value("""data.figures.filter(f => document.querySelector(`figure[data-figure=${f.name}] .area`)).flatMap(f => {
        const area = document.querySelector(`figure[data-figure=${f.name}] .area`), r = area.getBoundingClientRect(), kind = f.panels[0].marks[0].kind;
        return [0.1, 0.3, 0.5, 0.7, 0.9].map(at => {
            area.dispatchEvent(new PointerEvent("pointermove", {clientX: r.left + r.width * at, clientY: r.top + r.height / 2}));
            return [kind, area.closest(".panel").querySelector(".tip").textContent];
        }); })""")
    for kind, words in told:
        check(': ' in words and (kind == 'line' or ' at ' not in words), f'what the pointer is told of a mark of the kind {kind}: {words}')


def use_files(browser, check):
    """A search leaves the rows that have its words; buttons save a table as CSV and a figure as SVG."""
    browser.value('document.querySelectorAll("details").forEach(d => d.open = true)')
    browser.value('new Promise(done => setTimeout(done, 100))')
    table = '[...document.querySelectorAll("details")].find(d => d.querySelector("input[type=search]") && d.querySelectorAll("tbody tr").length > 3)'
    check(browser.value(f"""(() => {{ const d = {table}, rows = () => [...d.querySelectorAll("tbody tr")], all = rows().length;
        const word = rows()[1].textContent && rows()[1].lastElementChild.textContent, field = d.querySelector("input[type=search]");
        const search = text => {{ field.value = text; field.dispatchEvent(new Event("input")); return rows(); }};
        const found = search(word), none = search("no row has this").length, back = search("").length;
        return found.length > 0 && found.every(r => r.textContent.toLowerCase().includes(word.toLowerCase())) && none === 0 && back === all; }})()"""),
          'the search in a table')
    browser.value('window.saved = []; URL.createObjectURL = b => { saved.push(b); return "data:,"; }; HTMLAnchorElement.prototype.click = () => {}')
    check(browser.value(f"""(async () => {{ const d = {table}; d.querySelector(".save").click();
        const lines = (await saved.pop().text()).trim().split("\\n"), f = frame(d.querySelector(".save").dataset.file.replace(".csv", ""));
        return lines.length === f.rows + 1 && lines[0] === f.columns.join(","); }})()"""), 'the table as CSV')
    figures = browser.value("""(async () => { const all = [];
        for (const b of document.querySelectorAll("figure [data-file$='.svg']")) { b.click(); all.push(await saved.pop().text()); }
        return all; })()""")
    for text in figures:  # not by the browser: its policy forbids style attributes in what the page parses
        inner = ElementTree.fromstring(text).find('.//{http://www.w3.org/2000/svg}svg')
        check(inner is not None and 'NaN' not in text and 'undefined' not in text, 'a figure as SVG')
    check(browser.value('document.querySelector("#provenance dd").textContent.length > 10'), 'no provenance')


def run(name, program, use):
    """Calls use(browser, check), where check(good, words) notes the words of a failure; prints failures, and exits with 1 if any."""
    failures = []

    def check(good, words):
        if not good:
            failures.append(words)

    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        try:
            browser.open_tab()
            use(browser, check)
        finally:
            browser.close()
    for failure in failures:
        print(failure)
    print(f'{name}:', 'failed' if failures else 'passed')
    sys.exit(bool(failures))


def main():
    program, report = sys.argv[1], os.path.abspath(sys.argv[2])
    shots = sys.argv[3] if len(sys.argv) > 3 else None
    address = 'file://' + report

    def use(browser, check):
        for width in (1280, 390):
            for scheme in ('light', 'dark'):
                where = f'{width} pixels, {scheme}'
                state = open_page(browser, address, width, scheme)
                check(state == 'ready', f'{where}: {state}')
                if shots:
                    picture(browser, shots, f'{width}-{scheme}')
                check(browser.value('''data.figures.filter(f => { const t = frame(f.table); return t && t.rows; }).every(f =>
                    document.querySelector(`figure[data-figure=${f.name}] svg`))'''), f'{where}: a table is not drawn')
                check(browser.value('''![...document.querySelectorAll("svg, svg *")].some(e =>
                    [...e.attributes].some(a => /NaN|Infinity|undefined/.test(a.value)))'''), f'{where}: a figure has no numbers')
                use_viewer(browser, lambda good, words, where=where: check(good, f'{where}: {words}'))
                use_pointer(browser, lambda good, words, where=where: check(good, f'{where}: {words}'))
                use_files(browser, lambda good, words, where=where: check(good, f'{where}: {words}'))
                wide = browser.value('''[...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll, .skip")
                    && e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(e => e.tagName + "." + e.getAttribute("class"))
                    .slice(0, 5).join(" ")''')
                check(wide == '' and browser.value('document.documentElement.scrollWidth <= document.documentElement.clientWidth'),
                      f'{where}: wider than the window: {wide}')
                check(not hostile(browser), f'{where}: a name became script')
                for words in browser.complaints(address):
                    check(False, f'{where}: {words}')

    run('report_page', program, use)


if __name__ == '__main__':
    main()
