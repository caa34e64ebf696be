# The moving average of the weights: stored beside them, evaluated, resumed to the same bits, and a model that every command
# reads.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o plain >/dev/null
status 0 smoe train tiny.yaml -q train.ema=0.9 train.keep=9 -o run >out
grep -q '; averaged weights: loss [0-9.]*, top-1 accuracy [0-9.]*$' out || fail "$(cat out)"
cmp plain/ckpt/latest/model.safetensors run/ckpt/latest/model.safetensors >/dev/null && fail "the spec in the file does not differ"
metric() { sed -n "s,.*\"$2\": *\([0-9.]*\).*,\1,p" "$1/metrics.jsonl" | tail -n 1; }
[ "$(metric plain test/loss)" = "$(metric run test/loss)" ] || fail "the average changed the weights"
[ ! -e plain/ckpt/latest/ema.safetensors ] || fail "an average that nobody asked for"
# Kept from a given checkpoint on, for a frozen tensor too, with another number of threads.
cp -r run parts
ln -sfn step_00000012 parts/ckpt/latest
status 0 smoe train --resume parts -q -j1 >/dev/null
same_run run parts
cmp run/ckpt/latest/ema.safetensors parts/ckpt/latest/ema.safetensors || fail "another average after a resume"
status 0 smoe train tiny.yaml -q train.ema=0.9 'train.optimizer.groups=[{match: "patch_embed.*", frozen: true}]' -o frozen >/dev/null
status 0 smoe eval frozen --which ema -q >/dev/null
# Training measured the same as the file evaluates to, and it differs from the result of the weights.
loss() { smoe eval "$@" -q --json | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p'; }
same() { awk "BEGIN { d = $1 - $2; exit !(d * d < 1e-12) }"; } # different batches, sums in a different order
same "$(loss run --which ema)" "$(metric run test/ema_loss)" || fail "$(loss run --which ema), $(metric run test/ema_loss)"
same "$(loss run/ckpt/step_00000016/ema.safetensors)" "$(sed -n '/"step": *16,.*ema_loss/s,.*test/ema_loss": *\([0-9.]*\).*,\1,p' run/metrics.jsonl)" ||
    fail "step 16"
same "$(loss run --which ema)" "$(loss run)" && fail "the average is the last weights"
status 0 smoe train tiny.yaml -q --init run/ckpt/latest/ema.safetensors train.steps=4 train.schedule.cooldown=0 -o next >/dev/null
# --weights ema takes the average of whatever checkpoint is chosen, by name, by folder or to start from.
same "$(loss run --weights ema)" "$(loss run --which ema)" || fail "--weights ema"
for step in 4 16; do
    want=$(loss run/ckpt/step_000000$(printf %02d $step)/ema.safetensors)
    same "$(loss run --weights ema --which step_$step)" "$want" || fail "--weights ema of step $step: $(loss run --weights ema --which step_$step), not $want"
    same "$(loss run/ckpt/step_000000$(printf %02d $step) --weights ema)" "$want" || fail "--weights ema of the folder of step $step"
done
status 2 smoe eval run --which ema --weights raw 2>err
grep -q 'run/ckpt/step_00000024/ema.safetensors: is an average, not what --weights raw asks for' err || fail "$(cat err)"
same "$(loss run --which latest --weights raw)" "$(loss run)" || fail "--weights raw"
status 2 smoe eval plain --weights ema --which step_20 2>err
grep -q 'plain/ckpt/step_00000020/model.safetensors: it has no averaged weights, which --weights ema asks for' err || fail "$(cat err)"
# Missing, damaged, or of another step.
status 3 smoe eval plain --which ema 2>err
grep -q 'plain: the run has no checkpoint ema' err || fail "$(cat err)"
cp run/ckpt/step_00000020/ema.safetensors parts/ckpt/latest/
status 3 smoe train --resume parts -q train.steps=30 2>err
grep -q 'ema.safetensors: is of step 20, not of step 24' err || fail "$(cat err)"
cp frozen/ckpt/latest/ema.safetensors parts/ckpt/latest/
status 3 smoe train --resume parts -q train.steps=30 2>err
grep -q 'ema.safetensors: its data is not what was saved (CRC-32' err || fail "$(cat err)"
rm parts/ckpt/latest/ema.safetensors
status 3 smoe train --resume parts -q train.steps=30 2>err
grep -q 'ema.safetensors: cannot open' err || fail "$(cat err)"
status 2 smoe train --resume plain -q train.ema=0.9 train.steps=30 2>err
grep -q 'train.ema' err || fail "$(cat err)"
# It takes as much memory as the weights.
bytes() { smoe cost tiny.yaml --json "$@" | sed -n "s/.*\"optimizer\": *\([0-9.]*\).*/\1/p"; }
weights=$(smoe cost tiny.yaml --json | sed -n 's/.*"weights": *\([0-9.]*\).*/\1/p')
[ "$(bytes train.ema=0.9)" = "$(awk "BEGIN { printf \"%d\", $(bytes) + $weights }")" ] || fail "$(bytes), $(bytes train.ema=0.9)"
