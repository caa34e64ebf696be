# Experts divided over processes (train.experts_over): every router gives the bits of one process with all experts, and
# checkpoints do not depend on where an expert was.
. "$ROOT/tests/cli/lib.sh"
needs_mpi
# Tensors of more than one unit of the norm, with units divided among several processes; clipping, so that the norm matters;
# evaluation batches of which the processes have different numbers.
base="train.pieces=4 data.test_size=60 train.steps=6 train.eval_every=3 train.checkpoint_every=0 model.width=64 model.mlp=256
train.optimizer.clip=0.01 eval.batch_size=7"

# same_bits KEY=VALUE ...: one process; four that divide the experts; two and four that all have all of them
same_bits() {
    rm -rf one
    status 0 smoe train tiny.yaml -q -j1 -o one $base "$@" >/dev/null
    for how in 4:all 2:1 4:1; do
        rm -rf four
        status 0 $several -n ${how%:*} smoe train tiny.yaml -q -j1 -o four $base "$@" train.experts_over=${how#*:} >/dev/null
        same_run one four
    done
}

routers=$(sed -n 's/^ROUTER("\([^"]*\)", [a-z0-9_]*, \([A-Z_]*\),.*/\1:\2/p' "$ROOT/lib/spec/routers.def")
[ "$(echo "$routers" | wc -l)" -ge 13 ] || fail "routers: $routers"
for router in $routers; do
    # Six experts cannot be divided evenly among four processes, nor can the 16 tokens of routers that deal them out.
    case $router in *:FIXED) E=8 ;; *) E=6 ;; esac
    router=${router%:*}
    same_bits model.moe.router="$router" model.moe.experts=$E model.moe.expert_dropout=0.1
    case $router in # two processes with two threads each, for one router of each family
    soft | tokens-choice | experts-choice)
        rm -rf two
        keys="$base model.moe.router=$router model.moe.experts=6 model.moe.expert_dropout=0.1 train.experts_over=2"
        status 0 $several -n 2 smoe train tiny.yaml -q -j2 -o two $keys >/dev/null
        same_run one two
        # and two processes for each expert, which exchange the factors of its gradients
        rm -rf four
        status 0 $several -n 4 smoe train tiny.yaml -q -j1 -o four $keys >/dev/null
        same_run one four
        ;;
    esac
done
# Experts of two widths and shared ones; moments whose update cannot be divided among processes, and the average of the
# weights; moments and products in BF16; frozen tensors; checkpoints in several files.
same_bits model.moe.experts=8 model.moe.universal_experts=2 model.moe.shared_experts=1 train.optimizer.moments=bf16 train.precision=bf16
same_bits model.moe.experts=8 train.optimizer.name=adafactor train.ema=0.9 eval.fewshot.shots=[1]
cmp one/ckpt/latest/ema.safetensors four/ckpt/latest/ema.safetensors || fail "another average"
rm -rf one
status 0 smoe train tiny.yaml -q -j1 -o one $base train.shard_bytes=200000 'train.optimizer.groups=[{match: "*experts.fc1*", frozen: true}]' >/dev/null
status 0 $several -n 4 smoe train tiny.yaml -q -j1 -o frozen $base train.experts_over=2 train.shard_bytes=200000 'train.optimizer.groups=[{match: "*experts.fc1*", frozen: true}]' >/dev/null
for f in one/ckpt/latest/*; do cmp "$f" "frozen/ckpt/latest/${f##*/}" || fail "another $f"; done
[ "$(ls one/ckpt/latest | wc -l)" -gt 4 ] || fail "one file only: $(ls one/ckpt/latest)"

# Copies of a dense model's MLPs as experts, with noise.
status 0 smoe train tiny.yaml -q -j1 -o dense train.steps=2 model.width=64 model.mlp=256 model.moe.layers=none >/dev/null
up="--init dense --upcycle --upcycle-noise 0.1 $base train.steps=2"
status 0 smoe train tiny.yaml -q -j1 -o copied1 $up >/dev/null
status 0 $several -n 2 smoe train tiny.yaml -q -j1 -o copied2 $up train.experts_over=2 >/dev/null
same_run copied1 copied2

# Resumed with other numbers of processes, with experts divided or not: the same run.
keys="$base train.checkpoint_every=2 train.eval_every=2 train.pieces=8 train.schedule.name=constant"
status 0 smoe train tiny.yaml -q -j2 -o whole $keys train.steps=12 >/dev/null
status 0 $several -n 4 smoe train tiny.yaml -q -j1 -o parts $keys train.steps=2 train.experts_over=4 >/dev/null
status 0 $several -n 2 smoe train --resume parts -q -j2 train.steps=4 >/dev/null
status 0 smoe train --resume parts -q -j1 train.steps=6 >/dev/null
status 0 $several -n 4 smoe train --resume parts -q -j1 train.steps=8 train.experts_over=1 >/dev/null
status 0 $several -n 8 smoe train --resume parts -q -j1 train.steps=12 train.experts_over=2 >/dev/null
same_run whole parts
status 0 smoe verify parts -q >/dev/null

# The bytes sent are those that smoe cost states: 6 steps, of which only the last is logged; one evaluation, at the end.
model="train.pieces=4 model.width=64 model.mlp=256"
quiet="$model train.log_every=6 train.steps=6 train.eval_every=0 train.checkpoint_every=0"
foretold() { sed "s/.*\"sent_per_step\":{.*\"$1\":{\"bytes\":\([0-9]*\),.*\"other\".*/\1/" costs; }
for over in 1 2 4; do
    rm -rf counted
    status 0 $several -n 4 smoe train tiny.yaml -q -j1 -o counted $quiet train.experts_over=$over >/dev/null
    smoe cost tiny.yaml --json --processes 4 $model train.experts_over=$over | tr -d ' \n' >costs
    for kind in weights gradients; do
        # process 0 does not always send most
        most=$(foretold $kind)
        sent=$(sed -n "s/.* $kind: \([0-9]*\) .*/\1/p" counted/log.txt)
        [ $((6 * most)) -ge "$sent" ] || fail "$kind: smoe cost says $most per step, the run: $sent"
    done
done
# Where all processes have all experts, factors of gradients take less than half of the gradients, which BF16 needs.
smoe cost tiny.yaml --json --processes 4 $model | tr -d ' \n' >costs
factors=$(foretold gradients)
smoe cost tiny.yaml --json --processes 4 $model train.precision=bf16 | tr -d ' \n' >costs
[ $((2 * factors)) -lt "$(foretold gradients)" ] || fail "$factors bytes of factors, $(foretold gradients) of gradients"
status 2 smoe train tiny.yaml -q -o bad train.experts_over=3 2>err
grep -q 'must be all or a power of two, found 3' err || fail "$(cat err)"

# More than there are processes is said, and not at a resume, which may have fewer.
smoe train tiny.yaml train.experts_over=4 -n 2>err >/dev/null || fail "$(cat err)"
grep -qx 'train.experts_over: 4 requested, 1 in effect: there is 1 process' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q train.experts_over=4 train.steps=2 -o more >/dev/null
smoe train --resume more train.steps=3 --no-progress 2>err >/dev/null || fail "$(cat err)"
! grep -q experts_over err || fail "$(cat err)"
