# Moments in BF16: stored so, resumed to the same bits on another number of threads, counted in the cost; F32 by default.
. "$ROOT/tests/cli/lib.sh"
dtype() { head -c 20000 "$1/ckpt/latest/state.safetensors" | tr '{' '\n' | LC_ALL=C sed -n "/\"$2.blocks.1.mlp.experts.fc1.weight\":\$/{n;s/.*dtype\":\"//;s/\".*//p;q}"; }
for moments in f32 bf16-first bf16; do
    status 0 smoe train tiny.yaml -q train.optimizer.moments=$moments train.keep=9 -o $moments >/dev/null
    cp -r $moments parts
    ln -sfn step_00000012 parts/ckpt/latest
    status 0 smoe train --resume parts -q -j1 >/dev/null
    same_run $moments parts
    rm -rf parts
done
[ "$(dtype f32 m)$(dtype f32 v) $(dtype bf16-first m)$(dtype bf16-first v) $(dtype bf16 m)$(dtype bf16 v)" = "F32F32 BF16F32 BF16BF16" ] ||
    fail "types: $(for m in f32 bf16-first bf16; do dtype $m m; dtype $m v; done)"
cmp -s f32/ckpt/latest/model.safetensors bf16/ckpt/latest/model.safetensors && fail "moments in BF16 changed nothing"
status 0 smoe train tiny.yaml -q train.keep=9 -o default >/dev/null
same_run f32 default
# Adafactor, with tensors that are large enough for a factored second moment and others that are not.
for moments in f32 bf16; do
    status 0 smoe train tiny.yaml -q train.optimizer.name=adafactor train.optimizer.moments=$moments model.width=32 model.mlp=64 train.keep=9 -o factors >/dev/null
    cp -r factors parts
    ln -sfn step_00000012 parts/ckpt/latest
    status 0 smoe train --resume parts -q -j1 >/dev/null
    same_run factors parts
    for tensor in m.head.weight v.head.weight v.blocks.1.mlp.experts.fc1.weight.rows v.blocks.1.mlp.experts.fc1.weight.columns; do
        head -c 20000 factors/ckpt/latest/state.safetensors | grep -aq "\"$tensor\"" || fail "no $tensor"
    done
    rm -rf factors parts
done
# A different storage of moments is a different run.
status 2 smoe train --resume f32 -q train.optimizer.moments=bf16 2>err
grep -q 'train.optimizer.moments' err || fail "$(cat err)"
bytes() { smoe cost tiny.yaml --json "$@" | sed -n 's/.*"optimizer": *\([0-9.]*\).*/\1/p'; }
[ "$(bytes train.optimizer.moments=bf16)" = "$(bytes | awk '{ printf "%d", $1 / 2 }')" ] || fail "$(bytes) and $(bytes train.optimizer.moments=bf16) bytes"
