#!/bin/sh
# Signals and long work: SIGHUP stops as SIGTERM does, SIGUSR1 saves and continues, ignored signals stay ignored;
# train.checkpoint_minutes and train.keep_every; what a kill before pruning leaves.
. "$ROOT/tests/cli/lib.sh"
long="train.steps=100000 train.eval_every=0 train.checkpoint_every=0 train.schedule.cooldown=0"

# Waits until a command succeeds, at most a minute.
await() { n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 1200 ] || fail "never: $1"; sleep 0.05; done; }
begun() { [ -s "$1/metrics.jsonl" ]; }

# SIGHUP, and a second one: stopped, with a checkpoint.
smoe train tiny.yaml $long -q -o hup 2>err & pid=$!
await 'begun hup'
kill -HUP $pid; kill -HUP $pid 2>/dev/null
wait $pid; [ $? -eq 75 ] || fail "SIGHUP: $(cat err)"
grep -q '^stopped' hup/STATUS && [ -f hup/ckpt/latest/model.safetensors ] || fail "$(ls hup/ckpt)"

# SIGUSR1: a checkpoint, and training continues; then SIGTERM.
smoe train tiny.yaml $long -q -o usr 2>err & pid=$!
await 'begun usr'
kill -USR1 $pid
await '[ -e usr/ckpt/latest ]'
first=$(readlink usr/ckpt/latest)
kill -0 $pid || fail "SIGUSR1 ended it: $(cat err)"
kill -USR1 $pid
await '[ "$(readlink usr/ckpt/latest)" != "$first" ]'
# Slurm sends it more than once; this is one request.
kill -TERM $pid; kill -TERM $pid 2>/dev/null; wait $pid; [ $? -eq 75 ] || fail "SIGTERM: $(cat err)"

# For commands that have nothing to save it changes nothing.
(trap '' USR1; exec smoe eval usr -q) >/dev/null 2>&1 || fail "eval"

# Under nohup SIGHUP is ignored, as SIGINT is for a background job.
(trap '' HUP INT; exec smoe train tiny.yaml $long -q -o ignored) 2>err & pid=$!
await 'begun ignored'
kill -HUP $pid; kill -INT $pid; sleep 0.3
kill -0 $pid || fail "an ignored signal stopped it: $(cat err)"
kill -TERM $pid; wait $pid; [ $? -eq 75 ] || fail "$(cat err)"

# By time: 0.001 minutes are 60 ms.
smoe train tiny.yaml $long train.checkpoint_minutes=0.001 -q -o clock 2>err & pid=$!
await '[ -e clock/ckpt/latest ]'
kill -TERM $pid; wait $pid

# Milestones are kept beside the newest checkpoint.
status 0 smoe train tiny.yaml -q train.steps=10 train.checkpoint_every=2 train.keep=1 train.keep_every=5 train.eval_every=0 -o miles >/dev/null
[ "$(cd miles/ckpt && echo step_*)" = "step_00000005 step_00000010" ] || fail "$(ls miles/ckpt)"

# A kill between linking and pruning leaves one checkpoint too many: the next start removes it.
cp -r miles/ckpt/step_00000005 miles/ckpt/step_00000004
status 0 smoe train --resume miles -q >/dev/null
[ "$(cd miles/ckpt && echo step_*)" = "step_00000005 step_00000010" ] || fail "$(ls miles/ckpt)"

# A kill before linking leaves no links: the next start sets them.
status 0 smoe train tiny.yaml -q train.steps=8 -o links >/dev/null
best=$(readlink links/ckpt/best) && rm links/ckpt/best links/ckpt/latest
status 0 smoe train --resume links -q >/dev/null
[ "$(readlink links/ckpt/best) $(readlink links/ckpt/latest)" = "$best step_00000008" ] || fail "$(ls -l links/ckpt)"

# A sweep passes a request to save on to its cells, and evaluates them at the end, even if the spec disables that.
smoe sweep tiny.yaml $long seed=0 model.moe.experts=2,4 -q -o both 2>err >out & pid=$!
await 'ls both/000-*/metrics.jsonl >/dev/null 2>&1 && [ -s both/000-*/metrics.jsonl ]'
kill -USR1 $pid
await 'ls both/000-*/ckpt/latest/model.safetensors >/dev/null 2>&1'
kill -HUP $pid; wait $pid; [ $? -eq 75 ] || fail "sweep: $(cat err)"
# Nothing is finished, so there is no table.
[ "$(grep -v '^both: ' out)" = '0 of 2 cells failed, 2 not finished.' ] && ! grep '|' both/summary.md || fail "without results: $(cat out both/summary.md)"
head -n 1 both/results.csv | grep -q '^cell,model.moe.experts,status,error$' && [ "$(wc -l <both/summary.csv)" -eq 3 ] || fail "files: $(cat both/*.csv)"
status 0 smoe sweep tiny.yaml train.steps=4 train.eval_every=0 model.moe.experts=2,4 -q -o ends >/dev/null
head -n 1 ends/summary.csv | grep -q 'precision_at_1' || fail "$(cat ends/summary.csv)"

# While data is read there is progress, and a request to stop does not wait for the end: decoding these images at this size takes minutes.
for folder in train/ape train/bee test/ape test/bee; do mkdir -p slow/$folder && png >slow/$folder/0.png; done
for i in $(seq 999); do echo $i; done | (cd slow/train/ape && xargs -I {} ln 0.png {}.png)
sed 's/patch_size: 4/patch_size: 512/' tiny.yaml >slow.yaml
slow="slow.yaml data.source=image-folder data.path=slow data.image_size=4096 data.limit=0"
# reads NAME COMMAND ...: sends SIGTERM once it says how far it is, and it ends within ten seconds, on a busy machine
reads() {
    name=$1; shift
    "$@" >$name.out 2>$name.err & pid=$!
    await "grep -q '^[0-9]* of 1001 images read' $name.err"
    kill -TERM $pid; begin=$(date +%s)
    wait $pid; got=$?
    [ $(($(date +%s) - begin)) -lt 10 ] || fail "$name: read on: $(cat $name.err)"
}
# ended NAME COMMAND: that was said
ended() { [ ! -s $1.out ] && grep -qx "smoe $2: ended by a signal: it printed no result, and left no file incomplete" $1.err; }
reads new smoe train $slow -o new
[ $got -eq 75 ] && grep -qx 'smoe train: stopped on request while the data was read' new.err || fail "$got: $(cat new.err)"
[ ! -e new ] && ! grep -q resume new.err || fail "a run that never began: $(cat new.err)"
reads cells smoe sweep $slow seed=0,1 -o cells
[ $got -eq 75 ] && grep -q 'stopped on request with 2 of 2 cells left$' cells.err &&
    grep -q '`smoe sweep --resume cells` continues$' cells.err || fail "$got: $(cat cells.err)"
grep -q 'writes a checkpoint' cells.err && fail "no cell runs: $(cat cells.err)"
reads again smoe sweep --resume cells
[ $got -eq 75 ] && grep -q 'with 2 of 2 cells left' again.err || fail "$got: $(cat again.err)"
reads look smoe data $slow
[ $got -eq 143 ] && ended look data || fail "nothing to save: $got: $(cat look.err)"
status 0 smoe train $slow -q -o wide data.limit=2 train.steps=1 train.batch_size=1 train.schedule.warmup=0 train.schedule.cooldown=0 eval.batch_size=1 >/dev/null
reads eval smoe eval wide eval.split=train data.limit=0
[ $got -eq 143 ] && ended eval eval || fail "nothing to save: $got: $(cat eval.err)"
reads inspect smoe inspect wide eval.split=train data.limit=0 -o seen
[ $got -eq 143 ] && ended inspect inspect && [ ! -e seen ] || fail "nothing to save: $got: $(cat inspect.err)"
# A member of 20 GB, which takes half a minute to inflate, is not waited for either.
truncate -s 20000M member && tar cf - member 2>/dev/null | head -c 512 | gzip >member.gz && rm member
head -c 100000000 /dev/zero | gzip -1 >zeros.gz
for i in $(seq 210); do cat zeros.gz; done | cat member.gz - >member.tar.gz
smoe train tiny.yaml data.source=image-folder data.path=member.tar.gz data.limit=0 -o none 2>err & pid=$!
await "grep -qE '^SigCgt:.*[4-7c-f][0-9a-f]{3}$' /proc/$pid/status"
sleep 0.5; kill -TERM $pid; begin=$(date +%s); wait $pid; got=$?
[ $got -eq 75 ] && [ $(($(date +%s) - begin)) -lt 5 ] || fail "$got after $(($(date +%s) - begin)) s: $(cat err)"
rm member.tar.gz
# A cell says on a terminal how far it has read.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    TERM=xterm script -qfec "smoe sweep $slow seed=0,1 --cells 0 -o alone & echo \$! >pid; wait" screen >/dev/null 2>&1 </dev/null &
    await "grep -q '000-seed=0  reading  [0-9]* of 1001 images' screen"
    kill -TERM $(cat pid); wait
fi
# What only counts does not decode.
status 0 timeout 20 smoe cost $slow >/dev/null
status 0 timeout 60 smoe train -n $slow train.batch_size=1 >out
grep -q 'train 1001 images, test 2; 2 classes' out || fail "$(cat out)"

# Where a command has something to show, it shows it: passes that were timed, runs that were inspected, the evaluation before
# few-shot accuracy, files that were verified. It catches signals from then on, SIGUSR1 among them.
shown() { # COMMAND ...
    "$@" >out 2>err & pid=$!
    await "grep -qE '^SigCgt:.*[2367abef][0-9a-f]{2}$' /proc/$pid/status || ! kill -0 $pid"
    [ "$1 $2" != 'smoe bench' ] || await 'grep -q "passes$" err'
    kill -TERM $pid; wait $pid; got=$?
    [ $got -eq 75 ] || fail "$*: $got: $(cat err)"
}
shown smoe bench tiny.yaml --rounds 1000 --append table.md
grep -q '^inference ' out && grep -qE '^smoe bench: stopped on request after [0-9]+ of 2000 passes; nothing is added to the table$' err && [ ! -e table.md ] ||
    fail "bench: $(cat out err)"
shown smoe inspect hup usr data.limit=0 data.test_size=5000
grep -q '^hup/ckpt/.* 5000 images of test' out && ! grep -q usr out && grep -qx 'smoe inspect: stopped on request after 1 of 2 runs' err ||
    fail "inspect: $(cat out err)"
# the result comes before figures, which take longer
mkdir fake && printf '#!/bin/sh\ncd "%s"; [ -s out ] && touch late || touch early\nexit 1\n' "$PWD" >fake/gnuplot && chmod +x fake/gnuplot
PATH=$PWD/fake:$PATH shown smoe inspect hup usr data.limit=0 data.test_size=5000 -o half
[ -e late ] && [ ! -e early ] && [ -s half/routing.csv ] && [ -s half/report.html ] && grep -qx 'smoe inspect: stopped on request after 1 of 2 runs' err ||
    fail "inspect -o: $(ls half) $(cat out err)"
shown smoe eval hup 'eval.fewshot={shots: [1, 5], seeds: 100}'
grep -q '^loss ' out && ! grep -q fewshot out && grep -qx 'smoe eval: stopped on request before few-shot accuracy' err || fail "eval: $(cat out err)"
shown smoe verify $(yes hup/ckpt/latest/model.safetensors | head -n 1000)
count=$(sed -n 's/^smoe verify: stopped on request: \([0-9]*\) checked, 0 of them damaged or missing$/\1/p' err)
[ -n "$count" ] && [ "$(grep -c '^ok ' out)" -eq "$count" ] || fail "verify: $(cat err), $(grep -c '^ok ' out) lines"
