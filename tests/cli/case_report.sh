# inspect -o: figures, overlays and the report, of one run and of several, with any run names.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run >/dev/null
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=tokens-choice model.moe.capacity=0.5 model.head=token -o "it's <b>&\"x\"" >/dev/null
status 0 smoe inspect run -q -o one >/dev/null
for figure in dispatch_token_sum combine_expert slot_alignment expert_information dispatch_bands combine_bands slot_correlation \
    class_expert position_expert over_steps; do
    grep -q "'$figure.csv'" "one/$figure.gp" || fail "no script of $figure"
    [ -s "one/$figure.csv" ] || fail "no table beside $figure.gp"
    command -v gnuplot >/dev/null && { grep -q '<svg' "one/$figure.svg" || fail "no figure $figure"; }
done
grep -q "^plot \$line0 using" one/tokens_to_fraction.gp || fail "no lines in the script of tokens_to_fraction"
[ ! -e one/expert_load.gp ] || fail "a figure of choice routers for a soft one"
# By default 8 images of the split, each in original size and enlarged, and a row per tile.
[ "$(ls one/overlays | grep -c '^image[0-9]*-blocks1.png$')" -eq 8 ] || fail "$(ls one/overlays)"
[ "$(ls one/overlays | grep -c '^image[0-9]*-blocks1-large.png$')" -eq 8 ] || fail "$(ls one/overlays)"
# The image, the map of which slot each patch belongs to (who), and 8 slots; and the heading.
[ "$(wc -l <one/overlays/tiles.csv)" -eq $((8 * 10 + 1)) ] || fail "$(wc -l <one/overlays/tiles.csv) rows of tiles"
# On request.
status 0 smoe inspect run -q -o asked --images 3,7 --slots 5,0 >/dev/null
[ "$(cut -d, -f 3-7 asked/overlays/tiles.csv | sed 1d | tr '\n' ' ')" = \
    "3,1,0,image, 3,1,1,who, 3,1,2,slot,5 3,1,3,slot,0 7,1,0,image, 7,1,1,who, 7,1,2,slot,5 7,1,3,slot,0 " ] ||
    fail "$(cat asked/overlays/tiles.csv)"
# Two runs; the second drops tokens and has a class token.
status 0 smoe inspect run "it's <b>&\"x\"" -q -o two >/dev/null
for figure in expert_load dropped_by_position gate_weights experts_per_image processed_times; do
    [ -s "two/$figure.gp" ] || fail "no script of $figure"
done
ls two/overlays | grep -q '^run2-image0-blocks1.png$' || fail "$(ls two/overlays)"
grep -qF '<b>' two/report.html && fail "a name's markup is in the report"
grep -qF 'it&#39;s &lt;b&gt;&amp;&quot;x&quot;' two/report.html || fail "the name is not in the report"
for report in one two; do
    [ "$(wc -c <$report/report.html)" -lt 5000000 ] || fail "$report/report.html is too large"
done
# Scripts can be run by hand and print nothing.
if command -v gnuplot >/dev/null; then
    for script in two/*.gp; do
        said=$(cd two && gnuplot "$(basename "$script")" 2>&1) || fail "gnuplot fails on $script"
        [ -z "$said" ] || fail "$script: $said"
    done
fi
for said in 'smoe inspect run ' 'tiny, seed 0, started 20' 'smoe train tiny.yaml' 'its spec' 'router: soft'; do
    sed -n '/^<section id="provenance">/,/^<.section>/p' one/report.html | grep -q "$said" || fail "the provenance has no '$said'"
done
# Without gnuplot there is one remark, and everything else.
mkdir bin
ln -s "$(command -v smoe)" bin/smoe
(PATH=$PWD/bin status 0 smoe inspect run --no-progress -o without >/dev/null 2>err) || fail "$(cat err)"
[ "$(grep -v '^data \|^model \|^from ' err | head -n 1)" = "gnuplot is not installed, or failed; without/*.gp are the scripts of the figures" ] || fail "$(cat err)"
# at the end, where to find the output
[ "$(tail -n 1 err)" = "files       without: report.html, overlays, and $(ls without/*.csv | wc -l) tables with their figures" ] || fail "$(cat err)"
[ -s without/class_expert.gp ] && [ ! -e without/class_expert.svg ] && same_page one without ||
    fail "without gnuplot: $(ls without)"
# A folder that is replaced has the files of the new inspection, and files that somebody else put there.
echo mine | tee two/notes.csv two/overlays/image.png two/overlays/image1-blocks2.png.txt two/mine.svg >/dev/null
echo old | tee two/overlays/run3-image9-blocks12-large.png two/overlays/image9-blocks0.png >two/gate_weights.svg
status 0 smoe inspect run -q -o two --images 3,7 --slots 5,0 --force >/dev/null
for f in notes.csv overlays/image.png overlays/image1-blocks2.png.txt mine.svg; do
    [ "$(cat two/$f)" = mine ] || fail "$f is gone"
    rm two/$f
done
same_page asked two && diff -r -x report.html asked two || fail "a replaced inspection is not what a fresh one is"
# Without gnuplot an older figure is not kept beside the new script.
echo old >two/class_expert.svg
(PATH=$PWD/bin status 0 smoe inspect run -q -o two --force >/dev/null) || fail "without gnuplot"
[ ! -e two/class_expert.svg ] && [ -s two/class_expert.gp ] || fail "an old figure stays"
# An existing folder is not replaced without --force.
mkdir old
echo mine >old/report.html
status 2 smoe inspect run -q -o old 2>err >&2
grep -q "old/report.html exists already" err && [ "$(cat old/report.html)" = mine ] || fail "$(cat err)"
refused() {
    message=$1
    shift
    status 2 smoe inspect "$@" 2>err >out
    grep -qe "$message" err || fail "inspect $*: $(cat err)"
}
refused "no 8: blocks.1 of run has the slots 0 to 7" run -o refused --slots 0,8
refused "no 4: blocks.1 of it's .* has the experts 0 to 3" "it's <b>&\"x\"" -o refused --slots 4
refused "--slots 1,x: expected slot numbers like" run -o refused --slots 1,x
refused "1 is given twice" run -o refused --slots 1,1
# A gnuplot that hangs is killed after a minute, which a clock makes short here; this failure is told also with -q. Without
# gnuplot, -q says nothing.
(PATH=$PWD/bin status 0 smoe inspect run -q -o two --force >/dev/null 2>err) && [ ! -s err ] || fail "-q without gnuplot: $(cat err)"
if command -v "${CC:-cc}" >/dev/null; then
    mkdir hung && printf '#!/bin/sh\nexec sleep 100\n' >hung/gnuplot && chmod +x hung/gnuplot
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE= -fPIC -shared -o faults.so "$ROOT/tests/faults/faults.c" -ldl || fail "no library"
    (PATH=$PWD/hung:$PATH LD_PRELOAD=$PWD/faults.so FAULT_CLOCK=1000 status 0 smoe inspect run -q -o two --force >/dev/null 2>err)
    [ "$(cat err)" = "gnuplot did not end in 60 seconds and was killed; two/*.gp are the scripts of the figures" ] || fail "$(cat err)"
fi

# A signal to the whole process group, such as Ctrl-C, does not end gnuplot in the middle of a picture.
if command -v setsid >/dev/null; then
    mkdir halves
    printf '#!/bin/sh\nprintf "<svg>" >"${2%%.gp}.svg"\nsleep 2\nprintf "</svg>" >>"${2%%.gp}.svg"\n' >halves/gnuplot && chmod +x halves/gnuplot
    PATH=$PWD/halves:$PATH setsid smoe inspect run -q -o stopped >/dev/null 2>&1 &
    pid=$!
    drawn() { find stopped -name '*.svg' -exec cat {} + 2>/dev/null; }
    tries=0
    until [ -n "$(drawn)" ] || [ $((tries += 1)) -gt 3000 ]; do sleep 0.05; done
    kill -TERM -$pid && { wait $pid; sleep 1; }
    tries=0
    until [ "$(drawn)" = "<svg></svg>" ] || [ $((tries += 1)) -gt 10 ]; do sleep 1; done
    [ "$(drawn)" = "<svg></svg>" ] || fail "half a picture: $(drawn)"
fi
