"""Opens the page of smoe serve in headless Chromium during a run: python3 live_page.py CHROMIUM ADDRESS RUN

Checks that the page shows the run and follows it to its end without being reloaded, that charts have lines and show values under the
mouse, that the filter works, and that nothing is requested from elsewhere or printed on the console. Prints failures; exit status 1
if there are any.
"""

import sys
import time

from report_page import run as run_in_browser


def wait(browser, expression, seconds):
    end = time.time() + seconds
    while time.time() < end:
        value = browser.value(expression)
        if value:
            return value
        time.sleep(0.2)
    return None


def main():
    program, address, run = sys.argv[1:]

    def use(browser, check):
        browser.call('Emulation.setDeviceMetricsOverride', width=1000, height=900, deviceScaleFactor=1, mobile=False)
        browser.call('Page.navigate', url=address)
        check(wait(browser, 'document.documentElement?.dataset.ready', 60), 'the page never got ready')
        check(wait(browser, 'document.querySelector("#runs tbody tr")?.children.length > 2', 60), 'no run on the page')
        cell = 'document.querySelector("#runs tbody tr").children'
        check(browser.value(cell + '[0].textContent') == run, 'the run is not the one that is followed')
        first = int(browser.value(cell + '[2].textContent').split('/')[0])
        browser.value('window.same = true')
        check(wait(browser, f'+{cell}[2].textContent.split("/")[0] > {first} || {cell}[1].textContent === "done"', 60),
              'the page does not follow the run')
        check(wait(browser, cell + '[1].textContent === "done"', 120), 'the end of the run is not seen')
        check(browser.value('window.same'), 'the page was loaded again')
        loss = 'document.querySelector(\'[data-metric="train/loss"]\')'
        check(wait(browser, loss + '.querySelector("path.line").getAttribute("d").split("L").length > 3', 10), 'no line of the loss')
        check(not browser.value(loss + '.querySelector("path.line").getAttribute("d").includes("NaN")'), 'a line has no number')
        x, y = browser.value(f'(() => {{ const e = {loss}.querySelector("svg"); e.scrollIntoView({{block: "center"}});'
                             ' const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()')
        browser.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)
        tip = browser.value(loss + '.querySelector(".tip").textContent')
        check(tip.startswith('step: ') and run + ': ' in tip, f'no value under the mouse: {tip}')
        line, tip, hidden = browser.value(f'''(() => {{ const c = runs[0].curves.get("train/loss"), line = () => {loss}.querySelector("path.line").getAttribute("d"), before = line();
            c.step.push(c.step.at(-1) + 1); c.value.push(c.value.at(-1) + 1); charts();
            const tip = {loss}.querySelector(".tip"); return [line() !== before, tip.textContent, tip.hidden]; }})()''')
        check(line, 'a chart under the mouse does not go on')
        check(not hidden and run + ': ' in tip, f'a chart that goes on has no value under the mouse: {tip}')
        browser.value('(f => { f.value = "precision"; f.dispatchEvent(new Event("input")); })(document.getElementById("filter"))')
        names = browser.value('[...document.querySelectorAll("#charts figure")].map(f => f.dataset.metric)')
        check(names and all('precision' in n for n in names), f'the filter leaves {names}')
        check(browser.value('document.documentElement.scrollWidth <= innerWidth'), 'wider than the window')
        for words in browser.complaints(address):
            check(False, words)

    run_in_browser('live_page', program, use)


if __name__ == '__main__':
    main()
