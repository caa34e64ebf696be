# SIGTERM: a checkpoint and status 75. Resumed with another number of threads, the run ends as if it had never stopped.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q train.steps=400 -o whole
smoe train tiny.yaml -q train.steps=400 -o parts &
wait_for parts/metrics.jsonl 30
kill -TERM $!
wait $!
got=$?
[ $got -eq 75 ] || fail "status $got after SIGTERM, not 75"
[ "$(cut -c1-7 parts/STATUS)" = stopped ] || fail "STATUS is $(cat parts/STATUS)"
[ -f parts/ckpt/latest/model.safetensors ] || fail "no checkpoint after SIGTERM"
status 0 smoe train --resume parts -q -j1
[ "$(cut -c1-4 parts/STATUS)" = "done" ] || fail "STATUS is $(cat parts/STATUS)"
same_run whole parts
# A finished run has nothing left to do, and stays as it is.
status 0 smoe train --resume -o parts -q >out
same_run whole parts
[ "$(cat out)" = "parts: all 400 steps done; set train.steps=N to train longer" ] || fail "of a finished run: $(cat out)"
cp parts/spec.yaml spec.yaml
status 2 smoe train --resume parts -q train.steps=399 2>err
grep -q 'train.steps is 399, and 400 are done' err || fail "of fewer steps: $(cat err)"
cmp parts/spec.yaml spec.yaml || fail "a refused resume changed the spec"
status 0 smoe train --resume parts -q --json >out
tr -d ' \n' <out | grep -q '"step":400,"train_loss":null,"step_seconds":null' || fail "of a finished run: $(cat out)"
# A run of an older smoe, whose spec has no groups, decayed Phi like the kernels; a resumed one does so to the end.
groups='train.optimizer.groups=[{match: "*.router.phi", decay: 0.03}]'
status 0 smoe train tiny.yaml -q train.steps=400 -o decayed "$groups"
smoe train tiny.yaml -q train.steps=400 -o older "$groups" &
wait_for older/metrics.jsonl 30
kill -TERM $!
wait $!
grep -q 'groups: .*phi' older/spec.yaml || fail "no groups in spec.yaml"
sed -i '/^# resolved: /d; /groups:/d' older/spec.yaml
text=',\\"groups\\":\[{\\"match\\":\\"\*.router.phi\\",\\"decay\\":0.03}\]'
for file in older/ckpt/step_*/model.safetensors; do
    size=$(wc -c <"$file")
    found=$(LC_ALL=C grep -ao "$text" "$file")
    [ -n "$found" ] || fail "no groups in $file"
    LC_ALL=C sed -i "s/$text/$(printf '%*s' ${#found} '')/" "$file"
    [ "$(wc -c <"$file")" -eq "$size" ] || fail "another size of $file"
    foreign "$file" # older versions wrote no digest
done
status 0 smoe train --resume older -q -j1
cmp decayed/ckpt/latest/state.safetensors older/ckpt/latest/state.safetensors || fail "an older run went on otherwise"
cmp -s whole/ckpt/latest/state.safetensors older/ckpt/latest/state.safetensors && fail "the decay of Phi makes no difference"
status 2 smoe train --resume older --profile vmoe 2>err
grep -q 'profile is for a new run' err || fail "of a profile: $(cat err)"
# The best evaluation is one of the split that is evaluated now: with another split it is looked for anew.
status 0 smoe train tiny.yaml -q -o split data.limit=40 eval.split=train >/dev/null
status 0 smoe train --resume split -q --json train.steps=40 eval.split=test >out
best=$(sed -n 's/.*"test\/precision_at_1":\([0-9.]*\).*/\1/p' split/metrics.jsonl | sort -n | tail -n 1)
tr -d ' \n' <out | grep -q "\"best\":{\"precision_at_1\":$best,\"step\":32}" || fail "the best of test is $best: $(cat out split/metrics.jsonl)"
[ "$(readlink split/ckpt/best)" = step_00000032 ] || fail "$(ls -l split/ckpt)"
# A router's state, biases that follow the load, is restored; it is the same if the batch is divided into pieces.
bias="model.moe.router=tokens-choice model.moe.balance=bias model.moe.k=2 model.moe.group_images=1"
status 0 smoe train tiny.yaml -q train.steps=400 -o balanced $bias
smoe train tiny.yaml -q train.steps=400 -o cut $bias &
wait_for cut/metrics.jsonl 30
kill -TERM $!
wait $!
status 0 smoe train --resume cut -q -j1
same_run balanced cut
# A finished run that trains longer is marked before any of its files changes: killed at any of them, no file differs from
# the list of a finished run.
if "${CC:-cc}" -shared -fPIC -o faults.so "$ROOT/tests/faults/faults.c" -ldl 2>/dev/null; then
    status 0 smoe train tiny.yaml -q train.steps=4 -o short >/dev/null
    at=0
    while at=$((at + 1)) && rm -rf longer && cp -a short longer; do
        FAULT_KIND=kill FAULT_AT=$at LD_PRELOAD=$PWD/faults.so smoe train --resume longer -q train.steps=8 >/dev/null 2>&1 || :
        smoe verify longer >out 2>&1 || fail "killed at call $at: $(cat out)"
        [ "$(cut -c1-4 longer/STATUS)" = "done" ] || break
    done
    [ $at -gt 1 ] && cmp -s short/spec.yaml longer/spec.yaml || fail "marked at call $at, after its spec"
fi
