# The report in a browser: no error, no request, a viewer that responds to clicks and keys, nothing wider than the window.
. "$ROOT/tests/cli/lib.sh"
for name in chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && break
done
[ -n "$browser" ] || skip "no Chromium: the report was not opened"
command -v python3 >/dev/null || skip "no python3 to drive Chromium: the report was not opened"
status 0 smoe train tiny.yaml -q -o run >/dev/null
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=tokens-choice model.moe.capacity=0.5 model.head=token -o "it's <b>&\"x\"" >/dev/null
status 0 smoe inspect run "it's <b>&\"x\"" -q -o two >/dev/null
timeout 180 python3 "$ROOT/tests/draw/report_page.py" "$browser" two/report.html || fail "the report of two runs"
