# A loss that is not finite: status 4, naming the step, the layer and the parameter; STATUS says failed.
. "$ROOT/tests/cli/lib.sh"
smoe train tiny.yaml -q train.optimizer.lr=1000 train.optimizer.clip=0 train.optimizer.weight_decay=1000000 train.schedule.name=constant -o run 2>err
got=$?
[ $got -eq 4 ] || fail "status $got, not 4: $(cat err)"
grep -q 'step' err || fail "no step in: $(cat err)"
grep -qE '(blocks|head|norm|patch_embed|pos_embed)' err || fail "no layer in: $(cat err)"
[ "$(cut -c1-6 run/STATUS)" = failed ] || fail "STATUS is $(cat run/STATUS)"
# The same in an evaluation, which names the step, the split and what may help.
status 4 smoe train tiny.yaml -q train.schedule.name=constant train.eval_every=1 train.optimizer.lr=1000 train.optimizer.clip=0 \
    train.optimizer.weight_decay=1000000 -o evaluated 2>err
grep -q "step [0-9]*: evaluation of split 'test': image [0-9]*: the loss is .*; a lower train.optimizer.lr or train.optimizer.clip may help; " err ||
    fail "an evaluation: $(cat err)"
# Weights that are not finite are not saved: status 4 at the last step too, and the earlier checkpoints are there.
smoe train tiny.yaml -q train.schedule.name=constant train.eval_every=0 train.checkpoint_every=1 train.steps=4 \
    train.optimizer.clip=0 train.optimizer.lr=1000 train.optimizer.weight_decay=0 \
    train.optimizer.head_weight_decay=1000000 -o last 2>err
got=$?
[ $got -eq 4 ] || fail "status $got, not 4: $(cat err)"
grep -q 'step 4: tensor v.pos_embed is not finite and was not saved' err || fail "$(cat err)"
[ "$(readlink last/ckpt/latest)" = step_00000003 ] || fail "latest is $(readlink last/ckpt/latest)"
status 0 smoe eval last -q >/dev/null
# A weight that is not a number: no loss and no precision are printed, and the tensor is named, whatever its storage type.
# The last bytes of the file are the position embedding's.
spoil() { printf "$2" | dd of="$1" bs=1 seek=$(($(wc -c <"$1") - $(printf "$2" | wc -c))) conv=notrunc 2>/dev/null; }
status 0 smoe init tiny.yaml f32.safetensors -q >/dev/null
status 0 smoe init tiny.yaml bf16.safetensors -q --type bf16 >/dev/null
foreign f32.safetensors bf16.safetensors
spoil f32.safetensors '\000\000\300\177' # NaN
spoil bf16.safetensors '\200\377'         # minus infinity
for type in f32 bf16; do
    for command in eval inspect; do
        status 4 smoe $command $type.safetensors -q >out 2>err
        grep -q "^smoe $command: $type.safetensors: image [0-9]*: the loss is nan: .* tensor pos_embed$" err || fail "$(cat err)"
        [ ! -s out ] || fail "$command printed: $(cat out)"
    done
done
# Nor is it converted to fewer experts, or compared.
for command in "convert f32.safetensors x.safetensors --experts 2" "convert f32.safetensors x.safetensors --experts mean" "compare bf16.safetensors f32.safetensors --outputs"; do
    status 4 smoe $command -q >out 2>err
    grep -q "^smoe ${command%% *}: [bf0-9]*.safetensors: image [0-9]*: \(the loss\|a logit\) is nan: .* tensor pos_embed$" err || fail "$command: $(cat err)"
    [ ! -s out ] && [ ! -e x.safetensors ] || fail "$command: $(cat out)"
done
status 0 smoe init tiny.yaml dense.safetensors -q model.moe.layers=none >/dev/null
foreign dense.safetensors && spoil dense.safetensors '\000\000\300\177'
status 4 smoe train tiny.yaml -q --init dense.safetensors --upcycle -o upcycled 2>err
grep -q 'dense.safetensors: image [0-9]*: a logit is nan: .* tensor pos_embed$' err || fail "--upcycle: $(cat err)"
