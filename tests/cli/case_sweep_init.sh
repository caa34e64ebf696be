# Sweeps whose cells start from a model, or from the cells of another sweep: each from the right one, with the bits of a run by
# hand, also after kills. A cell without a start, or with several possible ones, is refused before anything runs.
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
# From an ablation: the row of the same router, or of no MoE layers.
status 0 smoe ablate tiny.yaml $small --routers soft,uniform,dense --seeds 0 -q -o rows >/dev/null
status 0 smoe sweep tiny.yaml $small model.moe.router=soft,uniform seed=0 --init rows -q -o routers >/dev/null
for router in soft uniform; do
    grep -q "=$router,seed=0/ckpt/" routers/*"=$router"*/log.txt || fail "$router starts from another row: $(cat routers/*/log.txt)"
done
status 0 smoe sweep tiny.yaml $small model.moe.layers=none seed=0 train.steps=2,3 --init rows -q -o dense >/dev/null
grep -q "=dense,seed=0/ckpt/" dense/000*/log.txt || fail "$(cat dense/000*/log.txt)"

# With the moments, which the manifest has too.
status 0 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=0,1 --init pre --moments -q -o with >/dev/null
for cell in with/0*; do
    name=$(basename "$cell")
    layers=${name#*layers=} seed=${name##*seed=}
    status 0 smoe train tiny.yaml $small model.moe.layers=${layers%%,*} seed=${seed%%,*} --init "$(echo pre/*"layers=${layers%%,*},seed=${seed%%,*}")" --moments \
        -q -o "moments-$name" >/dev/null
    same "$cell" "moments-$name"
done
grep -q 'moments of .* start from .*/pre/000' with/000*/log.txt || fail "$(cat with/000*/log.txt)"
status 2 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=0,1 --init pre --resume -o with 2>err
grep -q 'its cells start from .*/pre, with its moments' err || fail "$(cat err)"
status 2 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=0,1 train.optimizer.name=sgd --init pre --moments -o never 2>err
grep -q '^smoe sweep: 000-.*: --moments: .* is of a run with another train.optimizer.name' err || fail "$(cat err)"
# A part of a model; the manifest has that too.
status 0 smoe sweep tiny.yaml $small model.depth=1,2 model.moe.layers=none --init pre/000*layers=none*seed=0 --partial --weights raw -q -o part >/dev/null
head -1 part/cells.jsonl | grep -q '"partial": *true, *"weights": *"raw"' || fail "$(head -1 part/cells.jsonl)"
status 2 smoe sweep tiny.yaml $small model.depth=1,2 model.moe.layers=none --init pre/000*layers=none*seed=0 --resume -o part 2>err
grep -q 'a part of it, its weights raw' err || fail "$(cat err)"
status 2 smoe sweep tiny.yaml seed=0,1 --partial -o never 2>err
grep -q -- '--partial needs --init' err || fail "$(cat err)"
status 2 smoe sweep tiny.yaml seed=0,1 --moments -o never 2>err
grep -q -- '--moments needs --init' err || fail "$(cat err)"

# It is kept in the manifest: a sweep goes on with it, also a cell that was killed before its first checkpoint.
cp fine/results.csv before
cell=$(echo fine/000*)
rm -rf "$cell/ckpt" "$cell/outcomes.npy" fine/claims/000*
: >"$cell/metrics.jsonl"
status 0 smoe sweep --resume fine -q >/dev/null
same "$cell" "hand-$(basename "$cell")"
status 2 smoe sweep --resume fine --init pre 2>err
grep -q -- '--init cannot be used with the folder of a sweep: its cells are fixed' err || fail "$(cat err)"
status 2 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=0,1 train.optimizer.lr=1e-3,1e-2 --resume -o fine 2>err
grep -q 'its cells start from .*/pre' err || fail "$(cat err)"

# One model for all; upcycled where the cell has experts.
dense=$(echo pre/*layers=none,seed=0)
status 0 smoe sweep tiny.yaml $small model.moe.layers=none,last-1 seed=5 --init "$dense" --upcycle -q -o up >/dev/null
status 0 smoe train tiny.yaml $small model.moe.layers=last-1 seed=5 --init "$dense" --upcycle -q -o hand-up >/dev/null
same "$(echo up/*last-1*)" hand-up

# More cells: the old ones no longer need what they started from, and the new ones are checked before they are added.
status 0 smoe sweep tiny.yaml $small seed=0,1,2 -q -o three >/dev/null
status 0 smoe sweep tiny.yaml $small train.optimizer.lr=1e-3 seed=0,1 --init three -q -o more >/dev/null
mv three/002-seed=2/ckpt kept
cp more/cells.jsonl two
smoe sweep tiny.yaml $small train.optimizer.lr=1e-3 seed=0,1,2 --init three -q -o more --extend 2>err && fail "a cell without its start ran"
grep -q '^smoe sweep: 002-seed=2: .*/three/002-seed=2' err || fail "$(cat err)"
cmp two more/cells.jsonl || fail "a refused cell was added"
mv kept three/002-seed=2/ckpt
rm -r three/000-seed=0/ckpt
status 0 smoe sweep tiny.yaml $small train.optimizer.lr=1e-3 seed=0,1,2 --init three -q -o more --extend >/dev/null

# A list of super-classes, as long as the list of classes that the data have.
super='model.moe.layers=last-1 model.moe.router=images-choice model.moe.balance=superclass'
status 0 smoe sweep tiny.yaml $small $super 'model.moe.superclasses=[0,1,2,3,0,1,2,3,0,1]' seed=0,1 --init "$dense" --upcycle -q -o super >/dev/null

# A key of the start: the cell that had the value, while the trial itself has another.
choice='model.moe.layers=last-1 model.moe.router=tokens-choice'
status 0 smoe sweep tiny.yaml $small $choice model.moe.k=1,2 seed=0,1 -q -o pre-k >/dev/null
status 0 smoe sweep tiny.yaml $small $choice start.model.moe.k=1,2 model.moe.k=2,1 seed=0,1 --init pre-k -q -o fine-k >out
grep -q '^start k  k ' out || fail "columns: $(cat out)"
[ "$(ls -d fine-k/0* | wc -l)" = 8 ] || fail "cells: $(ls fine-k)"
for cell in fine-k/0*; do
    name=$(basename "$cell")
    start=${name#*start.k=} k=${name##*,k=} seed=${name##*seed=}
    start=${start%%,*} k=${k%%,*}
    grep -q "$(basename "$(echo pre-k/*-k=$start,seed=$seed)")/ckpt/" "$cell/log.txt" || fail "$name starts from $(cat "$cell/log.txt")"
    grep -q "^ *k: $k$" "$cell/spec.yaml" || fail "$name: $(grep ' k:' "$cell/spec.yaml")"
done
printf 'sweep:\n  zip: {start.model.moe.k: [1, 2], model.moe.k: [2, 1]}\n  reference: start.model.moe.k=1,model.moe.k=*\n' | cat tiny.yaml - >zipped.yaml
status 0 smoe sweep zipped.yaml $small $choice seed=0,1 --init pre-k -q -o zipped >/dev/null
[ "$(ls -d zipped/0*)" = "$(printf 'zipped/%s\n' 000-start.k=1,k=2,seed=0 001-start.k=1,k=2,seed=1 002-start.k=2,k=1,seed=0 003-start.k=2,k=1,seed=1)" ] || fail "$(ls zipped)"
cp fine-k/results.csv before-k
status 0 smoe sweep --resume fine-k -q >/dev/null
cmp before-k fine-k/results.csv || fail "resumed, the table is another"
for key in k=4 capacity=1; do
    status 2 smoe sweep tiny.yaml $small $choice start.model.moe.$key model.moe.k=1,2 seed=0,1 --init pre-k -o never 2>err
    cat err >>errors
done
status 2 smoe sweep tiny.yaml $small $choice start.model.moe.k=1,2 seed=0,1 -o never 2>>errors
status 2 smoe sweep tiny.yaml $small $choice start.model.moe.q=1,2 seed=0,1 --init pre-k -o never 2>>errors
cat >expected <<'END'
smoe sweep: pre-k: no cell has the settings of cell 000-start.k=4,k=1,seed=0
smoe sweep: start.model.moe.capacity: needs --init with the folder of a sweep that varies model.moe.capacity
smoe sweep: start.model.moe.k: needs --init with the folder of a sweep that varies model.moe.k
smoe sweep: override start.model.moe.q=1,2: model.moe.q: unknown key
END
diff expected errors || fail "other messages"

# Refused: a width that is not that of the file, of one cell of several,
status 3 smoe sweep tiny.yaml $small model.moe.layers=none model.width=16,32 --init pre/000*layers=none*seed=0 -o never 2>err
grep -q '^smoe sweep: 001-width=32: .*/pre/000.*/model.safetensors: width 16, the spec says 32$' err || fail "$(cat err)"
# a cell without a start, with several, or whose start has not been trained yet.
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
