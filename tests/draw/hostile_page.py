"""Opens the page of smoe serve, whose runs and metrics have names that are markup or belong to JavaScript:
python3 hostile_page.py CHROMIUM ADDRESS RUN

Checks that the page shows them as text, draws each metric, has no error, and that no name became script. Exit status 1 if not.
"""

import sys

from live_page import wait
from report_page import hostile, run as run_in_browser


def main():
    program, address, run = sys.argv[1:]

    def use(browser, check):
        browser.call('Page.navigate', url=address)
        check(wait(browser, 'document.documentElement?.dataset.ready', 60), 'the page never got ready')
        check(browser.value('document.getElementById("state").textContent').endswith('.'), 'the state: '
              + str(browser.value('document.getElementById("state").textContent')))
        shown = browser.value('[...document.querySelectorAll("#runs tbody tr")].map(r => r.textContent)')
        check(any(row.startswith(run) for row in shown), f'the run is not among {shown}')
        names = browser.value('[...document.querySelectorAll("#charts figure")].map(f => f.dataset.metric)')
        for name in ('constructor', '__proto__', '<img src=x onerror=hostile()>'):
            check(name in names, f'{name} is not drawn, of {names}')
        check(browser.value('[...document.querySelectorAll("#charts figure")].every(f => f.querySelector("path.line"))'), 'a metric without a line')
        check(not hostile(browser), 'a name became script')
        for words in browser.complaints(address):
            check(False, words)

    run_in_browser('hostile_page', program, use)


if __name__ == '__main__':
    main()
