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
smoe sweep tiny.yaml $long seed=0 model.moe.experts=2,4 -q -o both 2>err >/dev/null & pid=$!
await 'ls both/000-*/metrics.jsonl >/dev/null 2>&1 && [ -s both/000-*/metrics.jsonl ]'
kill -USR1 $pid
await 'ls both/000-*/ckpt/latest/model.safetensors >/dev/null 2>&1'
kill -HUP $pid; wait $pid; [ $? -eq 75 ] || fail "sweep: $(cat err)"
status 0 smoe sweep tiny.yaml train.steps=4 train.eval_every=0 model.moe.experts=2,4 -q -o ends >/dev/null
head -n 1 ends/summary.csv | grep -q 'precision_at_1' || fail "$(cat ends/summary.csv)"
