# Names that are commands of gnuplot or a shell, HTML or Markdown: of classes, files, runs, sweeps and values of a sweep. In tables,
# scripts and figures they stay names.
. "$ROOT/tests/cli/lib.sh"
command -v python3 >/dev/null || skip "no python3 to make the images"
python_png - <<'END' || fail "the images"
import os, png
for split in 'train', 'test':
    for k, name in enumerate(['a|b `touch gone`', '<img src=x onerror=x()>', "@x ' $(touch gone) {Symbol p} \\n", 'END', '"; system("touch gone"); "', '100% %d', 'so long a name' * 6]):
        folder = os.path.join('images', split, name)
        os.makedirs(folder)
        for i in range(4):
            png.write(os.path.join(folder, f'`touch gone` "{i}" <b>.png'), 16, 1, lambda x, y, c: (k * 40 + i * 20 + x * y) % 256)
END
bad='`touch gone` <img src=x onerror=x()> | *b* [l](javascript:x) & @x "q"'
cp -r images "images $bad"
data='data.source=image-folder data.limit=0 train.batch_size=8 train.steps=3 -q -j1'
status 0 smoe sweep tiny.yaml $data "data.path=images,images $bad" "name=$bad" seed=0,1 --figure-width 4in -o grid >/dev/null
for run in plain "it's $bad"; do status 0 smoe train tiny.yaml $data data.path=images -o "$run" >/dev/null; done
status 0 smoe inspect plain "it's $bad" -q --figure-width 4in -o inspected >/dev/null
status 0 smoe compare plain "it's $bad" plain -q -o compared >/dev/null

[ -z "$(find . -name gone)" ] || fail "a name was run as a command"
grep -qF '# \`touch gone\` &lt;img src=x onerror=x()> \| \*b\* [l]\(javascript:x) &amp; @x "q"' grid/summary.md &&
    grep -qF '| images \`touch gone\` &lt;img' grid/summary.md || fail "$(head -n 8 grid/summary.md)"
! grep -lF '<img' grid/summary.md */*.svg || fail "a name is markup"
if command -v gnuplot >/dev/null; then
    grep -qF '`touch gone` &lt;' grid/sweep.svg && grep -qF '&lt;img src=x' inspected/class_expert.svg || fail "a name is not in its figure"
    python3 -c 'import sys, xml.dom.minidom as m
for f in sys.argv[1:]: m.parse(f)' grid/*.svg inspected/*.svg || fail "a figure is not XML"
    # Words along an axis are no formats of numbers, and long ones leave room for what is drawn.
    status 0 smoe eval plain -q -o scores >/dev/null
    [ "$(grep -c '<text>.*100% %d</text>' scores/confusion.svg)" -eq 2 ] || fail "no names in the figure of the confusion"
    grep -q '<text>.*so long a nameso long a name…</text>' scores/confusion.svg || fail "a long name: $(grep 'so long' scores/confusion.svg)"
fi
