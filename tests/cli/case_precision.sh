# train.precision: the same bits for any number of threads and after a resume; eval.precision follows it or is another one.
. "$ROOT/tests/cli/lib.sh"
for precision in bf16 bf16x3; do
    status 0 smoe train tiny.yaml -q train.precision=$precision -o $precision
    status 0 smoe train tiny.yaml -q train.precision=$precision -j 1 -o $precision-alone
    same_run $precision $precision-alone
    status 0 smoe train tiny.yaml -q train.precision=$precision train.steps=16 train.schedule.cooldown=0 -o $precision-parts
    status 0 smoe train tiny.yaml -q train.precision=$precision train.schedule.cooldown=0 -o $precision-whole
    status 0 smoe train --resume $precision-parts -q train.steps=24
    same_run $precision-whole $precision-parts
done
status 0 smoe train tiny.yaml -q -o f32
for run in bf16 bf16x3; do
    cmp -s f32/ckpt/latest/model.safetensors $run/ckpt/latest/model.safetensors && fail "$run trains as f32"
    status 0 smoe eval $run -q --logits trained.npy --force
    status 0 smoe eval $run -q --logits same.npy --force eval.precision=$run
    status 0 smoe eval $run -q --logits other.npy --force eval.precision=f32
    cmp trained.npy same.npy || fail "eval.precision=$run is not what $run was trained with"
    cmp -s trained.npy other.npy && fail "eval.precision=f32 changes nothing"
done
status 2 smoe train tiny.yaml train.precision=f16 -o none 2>err
grep -q "train.precision" err || fail "an unknown precision: $(cat err)"

# Going on with other kernels is said; with the same ones it is not.
here=$(smoe version | awk '$1 == "kernel" { print $2 }')
SMOE_ISA=base status 0 smoe train tiny.yaml -q train.precision=bf16 train.steps=16 train.schedule.cooldown=0 -o moved
status 0 smoe train --resume moved train.steps=20 2>err
case $here in
base) ! grep "^kernels for" err ;;
*) grep -q "^kernels for base until now, for $here from here on" err ;;
esac || fail "from base to $here: $(cat err)"
status 0 smoe train --resume moved train.steps=24 2>err
! grep -q "^kernels for" err || fail "from $here to $here: $(cat err)"
