# Runs in progress: metrics.csv, MANIFEST.sha256, event files, watch in a terminal and as JSON, serve over HTTP and, if
# Chromium is installed, its page.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run model.moe.router=tokens-choice train.tensorboard=true >/dev/null
(cd run && sha256sum -c --quiet --strict MANIFEST.sha256) || fail "the manifest"
[ "$(sed 's/.*  //' run/MANIFEST.sha256 | sort | tr '\n' ' ')" = "$(cd run && find . -type f ! -name MANIFEST.sha256 | sed 's,^./,,' | sort | tr '\n' ' ')" ] ||
    fail "files of the manifest: $(cat run/MANIFEST.sha256)"
[ "$(wc -l <run/metrics.csv)" -eq $(($(wc -l <run/metrics.jsonl) + 1)) ] || fail "rows: $(wc -l run/metrics.*)"
columns=$(head -n 1 run/metrics.csv | tr , '\n' | wc -l)
awk -F, -v n="$columns" 'NF != n { exit 1 }' run/metrics.csv || fail "columns: $(head -n 3 run/metrics.csv)"
column=$(head -n 1 run/metrics.csv | tr , '\n' | grep -nx train/loss | cut -d: -f1)
[ "$(sed -n 2p run/metrics.csv | cut -d, -f"$column")" = "$(sed -n '1s/.*"train\/loss":\([0-9.e-]*\).*/\1/p' run/metrics.jsonl)" ] || fail "the first loss"
grep -qE ',[0-9]+;[0-9]+;[0-9]+;[0-9]+' run/metrics.csv || fail "lists: $(tail -n 1 run/metrics.csv)"
[ "$(ls run/tb | wc -l)" -eq 1 ] && grep -aq 'brain.Event:2' run/tb/* && grep -aq 'test/blocks.1/router/chosen' run/tb/* || fail "the event file"
if command -v python3 >/dev/null; then # read back: lengths, checksums, pictures; of tokens-choice and of the soft family
    python3 "$ROOT/tests/store/events.py" run/tb >events || fail "the event file: $(cat events)"
    grep -qx 'picture blocks.1/overlays/image[0-9]* 8 16 24' events && [ "$(grep -c '^picture ' events)" -eq 4 ] || fail "pictures: $(cat events)"
    grep -q '^histogram test/blocks.1/router/chosen 8 16 24$' events && grep -q '^scalar test/loss 8 16 24$' events || fail "$(cat events)"
    status 0 smoe train tiny.yaml -q -o soft train.tensorboard=true >/dev/null
    python3 "$ROOT/tests/store/events.py" soft/tb | grep -q '^picture blocks.1/overlays/image' || fail "no pictures of the soft family"
fi
status 0 smoe train tiny.yaml -q -o plain >/dev/null # pictures change no number
status 0 smoe train tiny.yaml -q -o drawn train.tensorboard=true >/dev/null
smoe compare plain drawn >out
grep -q '^weights  *33 of 33 tensors are the same$' out && grep -q '^records  *all 2[0-9] are the same' out || fail "$(cat out)"
ln -s run linked
status 0 smoe train --resume linked -q train.steps=30 >/dev/null
[ "$(ls run/tb | wc -l)" -eq 2 ] || fail "an event file for each start: $(ls run/tb)"
(cd run && sha256sum -c --quiet --strict MANIFEST.sha256) || fail "the manifest after a resume by a link: $(cat run/MANIFEST.sha256)"
status 0 env SOURCE_DATE_EPOCH=86400 smoe train tiny.yaml -q -o dated train.steps=4 >/dev/null
grep -q '"date": "1970-01-02T00:00:00Z"' dated/env.json && grep -q '^1970-01-02T00:00:00Z done' dated/log.txt || fail "SOURCE_DATE_EPOCH: $(cat dated/log.txt)"

status 0 smoe watch run dated >out
grep -qE '^run +done +30/30 +[0-9.]+ +[0-9.]+ +0\.[0-9]+ +[0-9]+' out && grep -qE '^dated +done +4/4 ' out || fail "$(cat out)"
status 0 env LC_ALL=C smoe watch run --once --metric train/loss >out
grep -qx ' *train/loss' out && grep -q '|.*\*' out || fail "no plot: $(cat out)"
status 0 smoe watch run --json >json
grep -q '"status": "done"' json && grep -q '"test/precision_at_1": 0' json || fail "$(cat json)"
mkdir some && cp -r run dated some
[ "$(smoe watch some | wc -l)" -eq 3 ] || fail "the runs of a folder: $(smoe watch some)"
sed -i 's/^done.*/running 999999999 '"$(uname -n)"'/' some/run/STATUS
smoe watch some | grep -q '^some/run  *killed' || fail "a process that is gone: $(smoe watch some)"
sed -i "s/^running.*/running $$ $(uname -n)/" some/run/STATUS
[ ! -r /proc/locks ] || smoe watch some | grep -q '^some/run  *killed' || fail "another process has its number: $(smoe watch some)"
turned=$(printf 'turned\342\200\256gpj') # U+202E: what follows is written from right to left
mkdir bidi && cp -r dated "bidi/$turned"
! smoe watch bidi | grep -q "$(printf '\342\200\256')" || fail "a control character of writing direction reaches the terminal"
# of a folder of sweeps their cells; with 80 columns a name is cut, and state, step and loss have room
status 0 smoe sweep tiny.yaml -q train.steps=3 seed=0,1 -o some/a-sweep-with-a-long-name-that-leaves-no-room-for-other-columns >/dev/null
[ "$(smoe watch some | grep -c '^some/a-sweep.*/00[01]-seed=[01]  *done  *3/3  *2\.')" -eq 2 ] || fail "cells: $(smoe watch some)"
mkdir nothing
status 3 smoe watch nothing 2>err
grep -q '^smoe watch: nothing: neither a run nor a sweep' err || fail "$(cat err)"
status 3 smoe serve nothing 2>err
# Of several arguments, as runs/*, those that are no runs are left out; one that is not there, and nothing but such ones, are refused.
echo >note.md
status 0 smoe watch run note.md nothing dated --once >out
[ "$(wc -l <out)" -eq 3 ] && grep -q '^dated ' out || fail "a report among runs: $(cat out)"
status 3 smoe watch note.md nothing 2>err
grep -q '^smoe watch: nothing: neither a run nor a sweep' err || fail "of none: $(cat err)"
status 3 smoe watch note.md 2>err
grep -q '^smoe watch: note.md: neither a run nor a sweep' err || fail "a file: $(cat err)"
status 3 smoe watch run absent 2>err
grep -q '^smoe watch: absent: No such file or directory' err || fail "absent: $(cat err)"

# q ends the view, and not the run; keys are not shown, and afterwards they are
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    smoe train tiny.yaml -q -o long train.steps=100000 train.eval_every=0 >/dev/null 2>&1 &
    long=$!
    trap 'kill $long 2>/dev/null' EXIT
    wait_for long/metrics.jsonl 1
    { wait_for_text screen long && printf q && wait_for_text screen icanon; } | TERM=xterm timeout 60 script -qec "smoe watch long; echo ended \$?; stty -a" /dev/null >screen || fail "q did not end the view"
    grep -q '^ended 0' screen && grep -q ' icanon' screen && grep -q ' echo ' screen || fail "after q: $(tail -n 20 screen)"
    kill -0 $long || fail "the run ended with its view"
    rm screen
    { wait_for_text screen long && printf '?ls' && wait_for_text screen 'running mean' && printf q && wait_for_text screen ended; } | LC_ALL=C TERM=xterm timeout 60 script -qec "stty cols 80 rows 40; smoe watch long some --color always; echo ended" /dev/null >screen
    grep -q 'l: logarithmic axes' screen && grep -q 'train/loss (logarithmic) (running mean)' screen && grep -q '0  *step [0-9]' screen || fail "keys: $(tail -n 30 screen)"
    grep -q '^\.\.\..*00[01]-seed=[01]  *done  *3/3  *2\.' screen || fail "80 columns: $(tail -n 30 screen)"
    grep -q "$(printf '\033')\[34mdated$(printf '\033')\[0m" screen || fail "the legend: $(tail -n 30 screen)"
    kill $long
    wait $long
fi

command -v curl >/dev/null || skip "no curl: smoe serve was not asked"
port=$((20000 + $$ % 20000))
smoe train tiny.yaml -q -o going train.steps=3000 train.eval_every=500 train.checkpoint_every=1000 >/dev/null &
train=$!
wait_for going/metrics.jsonl 3
smoe serve going some --port $port >address 2>err &
serve=$!
trap 'kill $serve $train 2>/dev/null' EXIT
wait_for address 1
address=$(cat address)
[ "$address" = "http://127.0.0.1:$port/" ] || fail "the address: $address"
curl -s "$address" | grep -q '<title>smoe serve</title>' || fail "the page"
curl -s "${address}runs.json" >json
grep -q '"run":"going"' json && grep -q '"run":"some/dated"' json && grep -q '"train/loss":{"step":\[1,2' json || fail "runs.json: $(head -c 500 json)"
[ "$(curl -s -o no -w '%{http_code}' -X POST -d x "$address")" = 405 ] || fail "a POST"
[ "$(curl -s -o no -w '%{http_code}' "${address}../../etc/passwd")" = 404 ] || fail "another path"
[ "$(curl -s -o no -w '%{http_code}' -H 'Host: elsewhere.example' "${address}runs.json")" = 403 ] || fail "another host"
status 1 smoe serve run --port $port 2>err
grep -q "port $port of 127.0.0.1 cannot be used" err || fail "a port that is taken: $(cat err)"
for name in chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && break
done
if [ -n "$browser" ] && command -v python3 >/dev/null; then
    timeout 240 python3 "$ROOT/tests/draw/live_page.py" "$browser" "$address" going || fail "the page in a browser"
else
    kill $train
    no_browser=1
fi
wait $train
kill -INT $serve
wait $serve
got=$?
[ $got -eq 0 ] || fail "serve ended with $got after SIGINT"
command -v python3 >/dev/null || skip "no python3: event files were not read back, and the page of smoe serve was not opened"
[ -z "${no_browser:-}" ] || skip "no Chromium: the page of smoe serve was not opened"
