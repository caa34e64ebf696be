# The report and the page of smoe compare in a browser: no error, no request, a viewer that responds to clicks and keys, nothing wider than the window.
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
status 0 smoe compare run "it's <b>&\"x\"" -q -o apart >/dev/null
timeout 180 python3 "$ROOT/tests/draw/report_page.py" "$browser" apart/compare.html || fail "the page of smoe compare"

# Names that are markup and script: of runs, classes, labels, files and captions. None runs, and each is shown as it is.
bad='<img src=x onerror=hostile()>'
python_png - "$bad" <<'END' || fail "the images"
import os, png, sys
for split in 'train', 'test':
    for k, name in enumerate(['class ' + sys.argv[1], '<script>hostile()<', '{{title}}']):
        folder = os.path.join('images', split, name)
        os.makedirs(folder)
        for i in range(3):
            png.write(os.path.join(folder, f'" onload=hostile() {i} {sys.argv[1]}.png'), 16, 1,
                      lambda x, y, c: (k * 80 + i * 20 + x * y) % 256)
END
hostile='data.source=image-folder data.path=images data.limit=0 train.steps=4 train.batch_size=8'
for run in "$bad" "'\"><svg onload=hostile()>" "javascript:hostile()"; do
    status 0 smoe train tiny.yaml -q $hostile "name=$bad" -o "$run" >/dev/null
done
status 0 smoe inspect "$bad" "'\"><svg onload=hostile()>" -q -o report >/dev/null
timeout 180 python3 "$ROOT/tests/draw/report_page.py" "$browser" report/report.html || fail "the report of names that are markup"
status 0 smoe compare "$bad" "'\"><svg onload=hostile()>" "javascript:hostile()" -q -o three >/dev/null
timeout 180 python3 "$ROOT/tests/draw/report_page.py" "$browser" three/compare.html || fail "the comparison of names that are markup"
for page in report/report.html three/compare.html; do
    grep -q '&lt;img src=x onerror=hostile()&gt;' $page || fail "$page: the name is not shown"
    for part in '<img src=x' '<svg onload' '</script><script>hostile'; do
        ! grep -qF "$part" $page || fail "$page: $part"
    done
done
