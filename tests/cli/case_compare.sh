# Rows of a sweep with seeds, compared with a reference: printed, in files and as JSON, and again with another reference.
. "$ROOT/tests/cli/lib.sh"
more="model.moe.experts=2,4 model.moe.router=soft,uniform seed=0,1 train.steps=4"
status 0 smoe sweep tiny.yaml $more -q -o first >out
grep -q '^Differences from experts 2, soft:$' out || fail "$(cat out)"
grep -qE '^4 +uniform +precision_at_1 .* 2 +(not )?distinguishable$' out || fail "$(cat out)"
grep -Eq "^first: results.csv, summary.csv, differences.csv, summary.md(, sweep.svg)?\$" out || fail "$(cat out)"
[ "$(cut -d, -f 1-4 first/differences.csv | grep precision_at_1 | tr '\n' ' ')" = "2,uniform,model.moe.experts=2 model.moe.router=soft,precision_at_1 4,soft,model.moe.experts=2 model.moe.router=soft,precision_at_1 4,uniform,model.moe.experts=2 model.moe.router=soft,precision_at_1 " ] ||
    fail "$(cat first/differences.csv)"
# the mean of the differences of results.csv: cell 2 - cell 0 and cell 3 - cell 1 (a cell's name contains two commas)
awk -F, 'FNR == 1 { files++; for (i = 1; i <= NF; i++) if ($i == "test_loss") at[files] = i + 2 * (files == 1); next }
    files == 1 { loss[FNR] = $at[1] }
    files == 2 && $1 == 2 && $2 == "uniform" && $4 == "test_loss" { got = $5; seen++ }
    END { want = (loss[4] - loss[2] + loss[5] - loss[3]) / 2; off = got - want; exit !(seen == 1 && off < 1e-12 && off > -1e-12) }' \
    first/results.csv first/differences.csv || fail "$(cat first/results.csv first/differences.csv)"
# another reference, for an existing sweep; rows are matched by their number of experts, and pooled over it
status 0 smoe sweep --resume first -q --reference model.moe.router=uniform --json >json
grep -q '"reference": "model.moe.router=uniform"' json && grep -q '"distinguishable": ' json || fail "$(cat json)"
[ "$(cut -d, -f 1-4 first/differences.csv | grep precision_at_1 | tr '\n' ' ')" = "2,soft,model.moe.router=uniform,precision_at_1 4,soft,model.moe.router=uniform,precision_at_1 ,soft,model.moe.router=uniform,precision_at_1 " ] ||
    fail "$(cat first/differences.csv)"
# --status prints them and changes no file
cp first/differences.csv before.csv
status 0 smoe sweep --status first --reference model.moe.experts=4 >out
grep -q '^Differences from experts 4:$' out && grep -qE '^2 +uniform +precision_at_1 ' out || fail "$(cat out)"
cmp before.csv first/differences.csv || fail "--status changed a table"
status 2 smoe sweep --status first --reference model.moe.experts=4 --json 2>err
grep -q -- '--reference cannot be used with --status and --json: a status has no differences; --resume --json has them$' err || fail "$(cat err)"
# a row without a counterpart is named, with the reference that would give it one
cat >zipped.yaml <<EOF
$(cat tiny.yaml)
sweep: {zip: {model.moe.router: [soft, tokens-choice, tokens-choice], model.moe.priority: [bpr, bpr, vanilla]}, seeds: [0, 1]}
EOF
status 0 smoe sweep zipped.yaml -q -o zipped train.steps=4 --reference model.moe.router=soft >out
why="not compared: tokens-choice, vanilla (no row of the reference with model.moe.priority=vanilla); --reference model.moe.router=soft,model.moe.priority=* compares it"
grep -qxF -- "$why" out || fail "$(cat out)"
grep -qxF -- "$(echo "$why" | sed 's/\*/\\&/')" zipped/summary.md || fail "$(cat zipped/summary.md)"
status 0 smoe sweep --status zipped --reference 'model.moe.router=soft,model.moe.priority=*' >out
grep -q 'not compared' out && fail "$(cat out)"
grep -qE '^tokens-choice +vanilla +precision_at_1 ' out || fail "$(cat out)"
# a reference in the spec; the command line overrides it; the ledger stores it
{ cat tiny.yaml; echo "sweep: {grid: {model.moe.experts: [2, 4]}, seeds: [0, 1], reference: model.moe.experts=4}"; } >swept.yaml
status 0 smoe sweep swept.yaml -q -o spec train.steps=4 >out
grep -q '^Differences from experts 4:$' out || fail "$(cat out)"
status 0 smoe sweep --resume spec -q >again
cmp out again || fail "$(cat again)"
status 0 smoe sweep swept.yaml -q -o line train.steps=4 --reference model.moe.experts=2 >/dev/null
status 0 smoe sweep --resume line -q >out
grep -q '^Differences from experts 2:$' out || fail "$(cat out)"
# mistakes are reported before any file is made
status 2 smoe sweep swept.yaml -q -o never model.moe.experts=2,8 2>err
grep -q '^smoe sweep: [a-z]*.yaml:[0-9]*:[0-9]*: sweep.reference: no row has model.moe.experts=4$' err || fail "$(cat err)"
grep -qx 'smoe sweep: the values of model.moe.experts are: 2, 8' err || fail "$(cat err)"
status 2 smoe sweep swept.yaml -q -o never --reference experts=4 2>err
grep -q "'experts' is not KEY=VALUE with one of the swept keys: model.moe.experts$" err || fail "$(cat err)"
[ ! -e never ] || fail "a refused sweep left a folder"
# many rows: only those of precision and loss are printed
status 0 smoe sweep tiny.yaml -q -o many train.steps=4 train.batch_size=2 seed=0,1 model.moe.experts=1,2,3,4,5,6,7 model.moe.router=soft,uniform >out
grep -q '^\.\.\. and [0-9]* more rows* (differences.csv)$' out || fail "$(cat out)"
sed -n '/^Differences/,$p' out | grep -q step_s && fail "$(cat out)"
sed -n '/^Differences/,$p' out | grep -q test_loss || fail "$(cat out)"
grep -q ',step_s,' many/differences.csv || fail "$(cat many/differences.csv)"
# without seeds nothing is compared unless requested
status 0 smoe sweep tiny.yaml -q -o single train.steps=4 model.moe.experts=2,4 >out
grep -q Differences out && fail "$(cat out)"
[ ! -e single/differences.csv ] || fail "$(cat single/differences.csv)"

# costs of a sweep are drawn on a logarithmic axis if they span several times the smallest
status 0 smoe sweep tiny.yaml model.width=8,64 train.steps=4 -q -o cost --x train_exaflop >out
grep -q '^set logscale x 10$' cost/sweep.gp || fail "$(cat cost/sweep.gp)"
# Models for other classes: their heads are not compared row by row, nor their outputs.
for class in pets/train/cat pets/train/dog pets/test/cat pets/test/dog wild/train/dog wild/train/wolf wild/test/dog wild/test/wolf; do
    mkdir -p $class && for i in 1 2 3 4 5 6 7 8; do png >$class/$i.png; done
done
for data in pets wild; do
    status 0 smoe train tiny.yaml -q -o "of-$data" data.source=image-folder data.limit=0 data.path=$data train.steps=2 train.eval_every=0 >/dev/null
done
status 0 smoe compare of-pets of-wild >out
grep -q '^classes  *heads are not compared, because their classes differ: cat, dog; dog, wolf$' out && grep -q '^weights .* 4 in only one model' out || fail "$(cat out)"
status 0 smoe compare of-pets of-wild --json >out
grep -q '"same_classes": false' out || fail "$(cat out)"
mkdir own && echo mine >own/metrics.csv
status 2 smoe compare of-pets of-wild -o own 2>err
grep -q 'own/metrics.csv exists already; --force replaces it$' err && [ "$(ls own)" = metrics.csv ] || fail "$(cat err)"
# A run is no folder for the tables, one of which has the name of a file of the run.
status 2 smoe compare of-pets of-wild -o of-pets --force 2>err
grep -q 'of-pets is a run; -o DIR names another folder$' err || fail "$(cat err)"
status 3 smoe compare of-pets of-wild --outputs 2>err >/dev/null
grep -q 'are not evaluated on the same images and classes' err || fail "$(cat err)"
