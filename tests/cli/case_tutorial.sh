# Every command of smoe-tutorial(7), in its order, on made photographs and with fewer steps.
. "$ROOT/tests/cli/lib.sh"
command -v python3 >/dev/null || skip "no python3 to make photographs: the tutorial was not walked through"
python_png - <<'END'
import os, png, random
random.seed(1)
kinds = {"bicycle": lambda x, y, p: 60 + 120 * ((x + p) // 8 % 2), "boat": lambda x, y, p: 60 + 120 * ((y + p) // 8 % 2),
         "tree/oak": lambda x, y, p: 60 + 120 * ((x + p) // 8 % 2 ^ y // 8 % 2)}
for name, f in kinds.items():
    os.makedirs("photos/" + name)
    for i in range(20):
        p, shade = random.randrange(16), [random.randrange(-40, 40) for _ in range(3)]
        png.write(f"photos/{name}/IMG_{i}.png", 48 + i % 3 * 8, 3,
                  lambda x, y, c: min(255, max(0, int(f(x, y, p) + shade[c] + random.gauss(0, 12)))))
END
page=$ROOT/man/smoe-tutorial.7
# The spec, as it is on the page, with fewer steps.
sed -n '/^name: photos$/,/^\.EE$/p' "$page" | grep -v '^\.EE$' | sed 's/\\-/-/g; s/steps: 1500/steps: 12/; s/eval_every: 250/eval_every: 4/' >photos.yaml
grep -q 'steps: 12' photos.yaml || fail "no spec on the page"
# A command may go on in the next line, after a backslash (\e).
sed ':a; /\\e$/{N; s/\\e\n *//; ba}' "$page" | sed -n 's/^\$ //p' | sed 's/\\-/-/g; s/train\.steps=500/train.steps=6/' >commands
[ "$(wc -l <commands)" -ge 15 ] || fail "only $(wc -l <commands) commands on the page"
while read -r line; do
    echo "\$ $line"
    sh -c "$line" >out 2>err </dev/null
    got=$?
    [ $got -eq 0 ] || fail "status $got of: $line; $(cat out err)"
    case $line in
    "smoe data"*) grep -qE '^tree' out && [ -s seen/contact.png ] || fail "$(cat out)" ;;
    *--dry-run) grep -q '^time ' out && [ ! -e runs ] || fail "$(cat out)" ;;
    *"--which best"*) grep -q '^top-1 accuracy' out && [ "$(wc -l <runs/photos-eval/predictions.csv)" -eq 13 ] || fail "$(cat out)" ;;
    *--reference*) grep -q 'interval' out || fail "$(cat out)" ;;
    *--extend) [ "$(wc -l <runs/compare/results.csv)" -eq 13 ] || fail "$(cat runs/compare/results.csv)" ;;
    "smoe compare"*) grep -q '<title>' runs/difference/compare.html || fail "no page" ;;
    *--pack*) tar -tzf runs/compare.tar.gz >/dev/null || fail "the pack" ;;
    esac
done <commands
# What the page says is there: files that it names are, and the figures for the paper where gnuplot is.
[ -s runs/photos-inspect/report.html ] && [ -s runs/photos-eval/confusion.csv ] || fail "$(ls runs/*)"
command -v gnuplot >/dev/null || skip "no gnuplot: the figures of the tutorial were not drawn"
for figure in $(sed -n 's/.*includegraphics{\(.*\)}/\1/p' "$page" | sed 's/\\-/-/g'); do [ -s "$figure" ] || fail "no $figure"; done
[ -s runs/photos-eval/confusion.svg ] || fail "no confusion.svg"
ls runs/photos-inspect/overlays/*.pdf >/dev/null || fail "no pictures of slots as PDF"
