# Evaluations at other settings: after training, and of an existing run; after kills, the results are the same.
. "$ROOT/tests/cli/lib.sh"
cat tiny.yaml - >swept.yaml <<'END'
sweep:
  grid: {model.moe.router: [tokens-choice, experts-choice]}
  seeds: [0, 1]
  evaluate:
    grid: {model.moe.capacity: [0.25, 1], model.moe.random_layers: [none, [1]]}
END
status 0 smoe sweep swept.yaml eval.batch_size=8 -q -o whole >out
grep -q 'at capacity  *at random_layers' out || fail "$(cat out)"
[ "$(grep -c ,done, whole/evaluations.csv)" -eq 16 ] || fail "$(cat whole/evaluations.csv)"
[ "$(grep -c . whole/evaluations_summary.csv)" -eq 9 ] || fail "$(cat whole/evaluations_summary.csv)"
grep -q '^## Evaluations' whole/summary.md || fail "$(cat whole/summary.md)"
command -v gnuplot >/dev/null && { grep -q '<svg' whole/evaluations.svg || fail "no figure"; }

# at the settings of training: the same as training and eval report
cell="whole/000-router=tokens-choice,seed=0"
# point CAPACITY LAYERS: loss, precision and dropped share of the cell there
point() { evaluated whole | awk -F, -v c="$1" -v r="$2" '$3 == "tokens-choice" && $4 == 0 && $5 == c && $6 == r { printf "%.14g %.14g %.14g\n", $8, $9, $10 }'; }
timeless "$cell" | tail -n 1 | sed 's/.*"test\/loss":\([^,]*\),"test\/precision_at_1":\([^,]*\),"test\/dropped":\([^,]*\),.*/\1 \2 \3/' |
    awk '{ printf "%.14g %.14g %.14g\n", $1, $2, $3 }' >said
[ "$(point 1 none)" = "$(cat said)" ] || fail "$(cat said): $(cat whole/evaluations.csv)"
smoe eval "$cell" -q --json model.moe.capacity=0.25 model.moe.random_layers=[1] |
    awk '/^  "loss"|^  "precision_at_1"|"test.dropped"/ { printf "%.14g ", $2 }' >said
[ "$(point 0.25 '[1]') " = "$(cat said)" ] || fail "$(cat said): $(cat whole/evaluations.csv)"

# on other images of generated data: what eval says of them; facts of the law of training come first
cat >drawn.yaml <<'END'
data: {source: facts, image_size: 16, limit: 64, test_size: 64, facts: {entities: 20, classes: 4, cells: 4}}
model: {variant: none, width: 16, depth: 1, mlp: 16, heads: 2, patch_size: 8, moe: {layers: none}}
train: {steps: 20, batch_size: 16}
eval: {batch_size: 16}
sweep: {seeds: [0, 1], evaluate: {grid: {data.facts.exponent: [1, 0], data.facts.noise: [8, 100]}}}
END
status 0 smoe sweep drawn.yaml -q -o drawn >/dev/null
for at in 1,8 1,100 0,8 0,100; do
    loss=$(smoe eval drawn/000-seed=0 -q --json data.facts.exponent="${at%,*}" data.facts.noise="${at#*,}" | sed -n 's/^  "loss": \([^,]*\),/\1/p')
    evaluated drawn | grep -q "^000-seed=0,0,$at,done,$loss," || fail "$at: $loss, but: $(cat drawn/evaluations.csv)"
done

# images of other draws are not the same, and are not paired image by image: there are twice as many
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["metric"] == "precision_at_1" { n++; if ($at["images"] != 128) bad = 1 } END { exit bad || n != 3 }' \
    drawn/evaluations_differences.csv || fail "$(cat drawn/evaluations_differences.csv)"

# models that differ in the draws of training and are evaluated at the same ones are paired image by image
status 0 smoe sweep drawn.yaml data.facts.noise=8,100 --reference data.facts.noise=8 -q -o paired >/dev/null
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["metric"] == "precision_at_1" && $at["evaluate.data.facts.noise"] != "" { n++; if ($at["images"] != 64) bad = 1 } END { exit bad || n != 4 }' \
    paired/evaluations_differences.csv || fail "$(cat paired/evaluations_differences.csv)"

# an existing run: no training, the same numbers
status 0 smoe sweep "$cell" model.moe.capacity=0.25,1 model.moe.random_layers=none,[1] -q -o there >out
evaluated there | cut -d, -f4- >a
evaluated whole | sed -n '1p; /,tokens-choice,0,/p' | sed 's/^"[^"]*"/cell/' | cut -d, -f6- >b
cmp a b || fail "$(cat a b)"
status 2 smoe sweep "$cell" model.moe.capacity=0.25,1 -q -o there 2>err
status 0 smoe sweep --resume there -q >again
cmp out again || fail "the report changed: $(cat out again)"

# the sweep keeps the checkpoint that it evaluates: the run may delete its own, also before the first evaluation
numbers() { evaluated "$1" | cut -d, -f3-; }
cp -r there moved && rm -r moved/claims/000* moved/*.csv
mv "$cell/ckpt" ckpt.away
status 0 smoe sweep --resume moved -q >/dev/null
mv ckpt.away "$cell/ckpt"
[ "$(numbers moved)" = "$(numbers there)" ] || fail "$(cat moved/evaluations.csv)"
smoe verify there | grep -qx 'ok   there/claims/checkpoint/model.safetensors: unchanged' || fail "$(smoe verify there)"
[ "$(stat -c %h there/claims/checkpoint/model.safetensors)" -gt 1 ] || fail "not a link"
status 0 smoe train tiny.yaml train.steps=2 train.shard_bytes=9000 -q -o parted >/dev/null
status 0 smoe sweep parted eval.batch_size=10,20 -q -o of-parts >/dev/null
smoe verify of-parts | grep -qx 'ok   of-parts/claims/checkpoint/model.safetensors: unchanged' || fail "$(smoe verify of-parts)"
other=$(mktemp -d /dev/shm/smoe-XXXXXX 2>/dev/null) || other=
if [ "$other" ] && [ "$(stat -c %d "$other")" != "$(stat -c %d .)" ]; then # copied where it cannot be linked
    smoe sweep parted eval.batch_size=10,20 -q -o "$other/of-parts" >/dev/null || fail "another file system: status $?"
    for f in parted/ckpt/latest/model*; do cmp "$f" "$other/of-parts/claims/checkpoint/${f##*/}" || fail "not copied"; done
fi
rm -rf "$other"
# beside a run that deletes each checkpoint when it writes the next one
smoe train tiny.yaml train.steps=4000 train.checkpoint_every=1 train.keep=1 train.eval_every=0 -q -o busy >/dev/null 2>&1 &
wait_for busy/metrics.jsonl 5
for i in 1 2 3 4 5 6 7 8; do
    smoe sweep busy eval.batch_size=10,20 data.limit=20 -q -o "beside-$i" >/dev/null 2>err || fail "beside a run that trains: status $?: $(cat err)"
done
kill -TERM $!
wait $!

# points that cannot be evaluated are named before anything runs
status 2 smoe sweep swept.yaml evaluate.model.moe.experts=2,4 -o never 2>err
grep -q 'evaluate.model.moe.experts: cannot change after training' err || fail "$(cat err)"
status 2 smoe sweep swept.yaml evaluate.model.moe.capacity=0 -o never 2>err
grep -q 'evaluate.model.moe.capacity=0: give two or more values' err || fail "$(cat err)"
[ ! -e never ] || fail "a folder was made"
smoe sweep swept.yaml -n >out || fail "dry run"
grep -q '^then 4 evaluations of each cell:$' out || fail "$(cat out)"

# killed repeatedly, also during evaluations
for tenths in 1 1 2 3 2 1 4; do
    smoe sweep --resume swept.yaml eval.batch_size=8 -q -o parts >/dev/null 2>&1 &
    sleep "0.$tenths"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
done
status 0 smoe sweep --resume swept.yaml eval.batch_size=8 -q -o parts >/dev/null
evaluated whole >a && evaluated parts >b && cmp a b || fail "killed: $(diff a b)"

# shared by two processes from the start
smoe sweep --resume swept.yaml eval.batch_size=8 -q -o shared >one 2>&1 &
status 0 smoe sweep --resume swept.yaml eval.batch_size=8 -q -o shared >/dev/null
wait $! || fail "the other process: $(cat one)"
evaluated whole >a && evaluated shared >b && cmp a b || fail "shared: $(diff a b)"

# stopped between evaluations: finished evaluations are not repeated
first="cut/claims/000-router=tokens-choice,seed=0"
mkdir cut && cp -r whole/. cut/
rm "$first.json" && echo '[{"loss": 7, "precision_at_1": 0.5}]' >"$first.evaluations.json"
# outcomes of images that do not belong to the results beside them are not used
status 3 smoe sweep --resume cut -q >/dev/null 2>err
grep -q 'evaluation-0.npy: does not belong to the results of the cell' err || fail "$(cat err)"
rm "$first.evaluation-0.npy"
status 0 smoe sweep --resume cut -q >/dev/null
grep -qF ',tokens-choice,0,0.25,none,done,7,0.5,' cut/evaluations.csv || fail "$(cat cut/evaluations.csv)"
evaluated cut | sed 2d >a
evaluated whole | sed 2d | cmp - a || fail "$(cat a)"

[ "$(smoe sweep --status whole | grep -c '  4 of 4$')" -eq 4 ] || fail "$(smoe sweep --status whole)"

# figures of an existing sweep
status 0 smoe sweep --status whole --x train_exaflop --y dropped >/dev/null 2>err
grep -q "set xlabel 'training FLOPs'" whole/sweep.gp && grep -q "set ylabel 'share of test tokens dropped" whole/sweep.gp || fail "$(cat whole/sweep.gp)"
grep -q "^set xtics norotate ('125 M' 125000000, '130 M' 130000000, " whole/sweep.gp || fail "one cost for all: $(grep xtics whole/sweep.gp)"
status 2 smoe sweep --status whole --x nothing >/dev/null 2>err
grep -q "the figure's x: 'nothing' is neither a swept key nor a measured column" err || fail "$(cat err)"
