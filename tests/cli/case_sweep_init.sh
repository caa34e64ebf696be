# Sweeps whose cells start from a model, or from the cells of another sweep: the right ones, the same bits as by hand, whatever
# comes between; what has no start, or more than one, is refused before anything runs.
. "$ROOT/tests/cli/lib.sh"
small='train.steps=6 train.eval_every=6'
same() { cmp -s "$1/ckpt/latest/model.safetensors" "$2/ckpt/latest/model.safetensors" || fail "$1 and $2 have other weights"; }

# Each cell starts from the cell with its layers and its seed.
status 0 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=0,1 -q -o pre >/dev/null
status 0 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=0,1 train.optimizer.lr=1e-3,1e-2 --init pre -q -o fine >/dev/null
for cell in fine/0*; do
    name=$(basename "$cell")
    layers=${name#*layers=} seed=${name##*seed=} lr=${name##*lr=}
    layers=${layers%%,*} seed=${seed%%,*} lr=${lr%%,*}
    from=$(echo pre/*"layers=$layers,seed=$seed")
    grep -q "$(basename "$from")/ckpt/" "$cell/log.txt" || fail "$name does not say that it starts from $from: $(cat "$cell/log.txt")"
    status 0 smoe train tiny.yaml $small model.moe.layers=$layers seed=$seed train.optimizer.lr=$lr --init "$from" -q -o "hand-$name" >/dev/null
    same "$cell" "hand-$name"
done
[ "$(ls -d fine/0* | wc -l)" = 8 ] || fail "cells: $(ls fine)"

# It is kept in the manifest: a sweep goes on with it, also a cell that was killed before its first checkpoint.
cp fine/results.csv before
cell=$(echo fine/000*)
rm -rf "$cell/ckpt" "$cell/outcomes.npy" fine/claims/000*
: >"$cell/metrics.jsonl"
status 0 smoe sweep --resume fine -q >/dev/null
same "$cell" "hand-$(basename "$cell")"
status 2 smoe sweep --resume fine --init pre 2>err
grep -q 'the cells of the sweep in fine are fixed' err || fail "$(cat err)"
status 2 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=0,1 train.optimizer.lr=1e-3,1e-2 --resume -o fine 2>err
grep -q 'its cells start from .*/pre' err || fail "$(cat err)"

# One model for all; upcycled where the cell has experts.
dense=$(echo pre/*layers=none,seed=0)
status 0 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=5 --init "$dense" --upcycle -q -o up >/dev/null
status 0 smoe train tiny.yaml $small model.moe.layers=last-1 seed=5 --init "$dense" --upcycle -q -o hand-up >/dev/null
same "$(echo up/*last-1*)" hand-up

# What has no start, or more than one, or none yet.
status 2 smoe sweep tiny.yaml $small seed=0,7 model.moe.layers=none --init pre -o never 2>err
grep -q "pre: no cell has the settings of cell 001-.*seed=7" err || fail "$(cat err)"
rm fine/claims/000*.json
status 2 smoe sweep tiny.yaml $small train.optimizer.lr=1e-3 model.moe.layers=none,last-1 seed=0,1 --init fine -o never 2>err
grep -q 'fine: cell 000-.*, which cell 000-.* starts from, has not finished' err || fail "$(cat err)"
status 3 smoe sweep tiny.yaml $small seed=0,1 --init nothing -o never 2>err
grep -q '^smoe sweep: nothing: No such file' err || fail "$(cat err)"
status 2 smoe sweep tiny.yaml seed=0,1 --upcycle -o never 2>err
grep -q -- '--upcycle needs --init' err || fail "$(cat err)"
[ ! -e never ] || fail "a refused sweep left a folder"
