# A sweep: killed, stopped, or shared by two processes, it has the results of an undisturbed one; failed cells are named.
. "$ROOT/tests/cli/lib.sh"
more="model.moe.experts=2,4 seed=0,1 train.steps=300 eval.fewshot.shots=2"
# results.csv without the columns that depend on the clock: infer_s, step_s, train_s and seconds
untimed() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) drop[i] = $i ~ /^(infer|step|train)_s$/ || $i == "seconds" }
        { quoted = /^"/; for (i = 1; i <= NF; i++) if (!drop[i - (NR > 1 && quoted)]) printf "%s ", $i; print "" }' "$1/results.csv"
}
same_sweep() {
    untimed "$1" >a && untimed "$2" >b && cmp a b || { diff a b; fail "$1 and $2 differ in their results"; }
    for cell in "$1"/0*seed=[01]; do same_run "$cell" "$2/${cell##*/}"; done
}
status 0 smoe sweep tiny.yaml $more -q -o whole >out
grep -q '^experts .*precision_at_1 .*fewshot_2 ' out || fail "$(cat out)"
[ "$(ls whole | grep -c '^0')" -eq 4 ] || fail "cells: $(ls whole)"
[ "$(grep -c ,done, whole/results.csv)" -eq 4 ] || fail "$(cat whole/results.csv)"
grep -q '^| 4 | .* | 2 |$' whole/summary.md || fail "$(cat whole/summary.md)"
[ -s whole/sweep.gp ] || fail "no script of the figure"
command -v gnuplot >/dev/null && { grep -q '<svg' whole/sweep.svg || fail "no figure"; }

# a cell is a run like any other
status 0 smoe train tiny.yaml -q -o alone model.moe.experts=4 seed=1 train.steps=300 eval.fewshot.shots=2 >/dev/null
cmp alone/ckpt/latest/model.safetensors "whole/003-experts=4,seed=1/ckpt/latest/model.safetensors" || fail "a cell is no run"

# single cells, then the others
status 0 smoe sweep tiny.yaml $more -q -o few --cells 3,0-1 >out
smoe sweep --status few >out
[ "$(grep -cE '^00[013]-.* done ' out)" -eq 3 ] && grep -qE '^002-.* waiting ' out || fail "$(cat out)"
[ "$(grep -c ,done, few/results.csv)" -eq 3 ] || fail "$(cat few/results.csv)"
status 0 smoe sweep --resume few -q >/dev/null
same_sweep whole few
for list in 4 1-9x 3-1 +1 0-99999999999 3-4; do
    status 2 smoe sweep tiny.yaml $more -q -o none --cells "$list" 2>err
    grep -q "^smoe sweep: --cells: '$list': " err && [ ! -e none ] || fail "$list: $(cat err; ls none)"
done

# killed with all its processes, twice; then stopped on request; then finished by two processes
for lines in 40 150; do
    setsid smoe sweep tiny.yaml $more -q --resume -o parts -J2 >/dev/null 2>&1 &
    wait_for "parts/000-experts=2,seed=0/metrics.jsonl" $lines
    kill -KILL $!
    wait $! 2>/dev/null
done
smoe sweep --resume parts -q -J2 >/dev/null 2>err &
wait_for "parts/001-experts=2,seed=1/metrics.jsonl" 200
kill -TERM $!
wait $!
got=$?
# 143: the signal came before there was anything to stop
[ $got -eq 75 ] || [ $got -eq 0 ] || [ $got -eq 143 ] || fail "status $got after SIGTERM: $(cat err)"
smoe sweep --resume parts -q >one 2>&1 &
status 0 smoe sweep --resume parts -q >two
wait $! || fail "the other process: $(cat one)"
same_sweep whole parts
[ "$(smoe sweep --status parts | grep -c ' done ')" -eq 4 ] || fail "$(smoe sweep --status parts)"

# a cell's own process killed: the others continue, a resume runs the cell again
smoe sweep tiny.yaml $more -q -o shot >/dev/null 2>err &
wait_for "shot/001-experts=2,seed=1/metrics.jsonl" 60
kill -KILL "$(awk '{ print $2 }' "shot/001-experts=2,seed=1/STATUS")"
wait $!
got=$?
smoe sweep --status shot | grep -qE '^001-experts=2,seed=1 +stopped +([6-9]|[1-9][0-9]+) of 300 ' || fail "$(smoe sweep --status shot)"
[ $got -eq 5 ] && grep -q '1 of 4 cells were killed$' err &&
    grep -q '`smoe sweep --resume shot` continues$' err || fail "status $got: $(cat err)"
[ "$(smoe sweep --status shot | grep -c ' done ')" -eq 3 ] || fail "$(smoe sweep --status shot)"
status 0 smoe sweep --resume shot -q >/dev/null
same_sweep whole shot

# nothing is run again
before=$(ls -l --time-style=full-iso parts/0*/STATUS)
status 0 smoe sweep --resume parts -q >/dev/null
[ "$before" = "$(ls -l --time-style=full-iso parts/0*/STATUS)" ] || fail "a finished cell was run again"

# failed cells: named, status 5, run again only on request
mkdir data
status 5 smoe sweep tiny.yaml data.source=shapes,cifar10 data.path=data -q -o bad >/dev/null 2>err
grep -q '1 of 2 cells failed' err && grep -q '001-source=cifar10: ' err || fail "$(cat err)"
grep -qE '^001-source=cifar10,cifar10,failed,.*no data_batch[^"]*"$' bad/results.csv || fail "$(cat bad/results.csv)"
grep -q '"code": 3' bad/claims/001*.json || fail "$(cat bad/claims/001*.json)"
smoe sweep --status bad >out
grep -q '^2 cells: 1 done, 1 failed$' out && grep -q '^001-source=cifar10: .*data: no data_batch' out || fail "$(cat out)"
smoe sweep --status bad --json >out
grep -q '"code": 3' out && [ "$(grep -c '"step": 24,\|"step": 0,' out)" -eq 2 ] && [ "$(grep -c '"steps": 24' out)" -eq 2 ] && grep -q '"error": ".*no data_batch' out || fail "$(cat out)"
# every measured column can be an axis of the figure
for column in $(head -n 1 whole/results.csv | tr , '\n' | sed '/^cell$/d; /^model/d; /^seed$/d; /^status$/d; /^error$/d'); do
    status 0 smoe sweep --status whole --y "$column" --x "$column" >/dev/null
done
status 5 smoe sweep --resume bad -q >/dev/null 2>err
grep -q '`smoe sweep --resume bad --retry-failed` runs them again$' err || fail "$(cat err)"
grep -q 'failed' bad/summary.md || fail "$(cat bad/summary.md)"
stamp=$(stat -c %y bad/claims/001*.json)
status 5 smoe sweep --resume bad --retry-failed -q >/dev/null 2>&1
[ "$stamp" != "$(stat -c %y bad/claims/001*.json)" ] || fail "--retry-failed ran nothing"
status 5 smoe sweep tiny.yaml data.source=cifar10,shapes data.path=data -q --fail-fast -o fast >/dev/null 2>err
[ ! -d fast/001-source=shapes ] || fail "--fail-fast went on"
# --cells means the numbers of the folder, which go on behind those of combinations that were skipped
status 0 smoe sweep tiny.yaml train.steps=2 model.heads=2,3,4 seed=0,1 --skip-invalid -q -o gaps >/dev/null 2>&1
status 0 smoe sweep tiny.yaml train.steps=2 model.heads=2,4 seed=0,1,2 --extend --cells 7 -q -o gaps >/dev/null
[ "$(ls gaps/claims | grep -c json)" -eq 5 ] && [ -f gaps/claims/007-heads=4,seed=2.json ] || fail "$(ls gaps/claims)"
# names of folders that are the same number are two names: in comparisons, for --extend and --reference, and in JSON
for name in 1e3 1000; do
    for folder in train/a train/b test/a test/b; do mkdir -p $name/$folder && png >$name/$folder/1.png; done
done
sed 's/source: shapes/source: image-folder/' tiny.yaml >folders.yaml
status 0 smoe sweep folders.yaml train.steps=2 train.batch_size=2 data.path=1e3,1000 seed=0,1 -q -o names >out
grep -q '^Differences from path 1e3:' out && grep -q '^1000 .* precision_at_1 ' out || fail "not compared: $(cat out)"
status 0 smoe sweep folders.yaml train.steps=2 train.batch_size=2 data.path=1000,1e3 seed=0,1,2 --extend -q -o names >/dev/null
status 0 smoe sweep --status names --all-seeds --reference data.path=1000 >out
grep -q '^1e3 .* precision_at_1 ' out && ! grep '^1000 .* precision_at_1 ' out || fail "$(cat out)"
status 0 smoe sweep --resume names -q --json >json
grep -q '"data.path": "1e3"' json && ! grep '"data.path": [0-9]' json || fail "$(grep data.path json)"
# a cell without its records has no results: it fails, and says why
status 0 smoe sweep tiny.yaml train.steps=4 seed=0,1 -q -o gone >/dev/null
: >gone/001-seed=1/metrics.jsonl
rm gone/claims/001-seed=1.json
status 5 smoe sweep --resume gone -q >out 2>err
grep -q '^smoe sweep: 001-seed=1: gone/001-seed=1/metrics.jsonl: .*records are missing' err || fail "$(cat err)"
grep -q '"code": 3' gone/claims/001-seed=1.json || fail "$(cat gone/claims/001-seed=1.json)"
# more cells in the same folder: the existing ones keep their names and are not run again
small="tiny.yaml train.steps=4 model.moe.experts=2,4"
status 0 smoe sweep $small --seeds 0,1 -q -o more >/dev/null
before=$(ls -l --time-style=full-iso more/0*/STATUS)
# before that, --dry-run lists the cells with the names that they will have, and checks what --extend and --resume check
status 0 smoe sweep $small seed=0,1,2 --extend -n -q -o more >out
[ "$(sed -n 's/^\(00[0-9][^ ]*\) .*/\1/p' out | tail -n 3 | tr '\n' ' ')" = "003-experts=4,seed=1 004-experts=2,seed=2 005-experts=4,seed=2 " ] || fail "$(cat out)"
status 0 smoe sweep $small seed=0,1,2 --extend -n -q -o more --cells 4 >out
[ "$(sed -n 's/^\(00[0-9][^ ]*\) .*/\1/p' out | tr '\n' ' ')" = "004-experts=2,seed=2 " ] || fail "$(cat out)"
status 2 smoe sweep $small seed=0,1,2 --resume -n -q -o more 2>err
grep -q 'it has 4 cells, the spec now makes 6; --extend adds cells to it, ' err || fail "$(cat err)"
status 2 smoe sweep $small seed=1,2 --extend -n -q -o more 2>err
grep -q 'more: cell 000-experts=2,seed=0 is not among the cells of the spec' err || fail "$(cat err)"
status 0 smoe sweep $small seed=0,1 --resume -n -q -o absent >/dev/null
[ ! -e absent ] || fail "$(ls absent)"
status 0 smoe sweep $small seed=0,1,2 --extend -q -o more >/dev/null
[ "$before" = "$(ls -l --time-style=full-iso more/00[0-3]*/STATUS)" ] || fail "a finished cell was run again"
[ "$(cut -d'"' -f 2 more/results.csv | tail -n 3 | tr '\n' ' ')" = "003-experts=4,seed=1 004-experts=2,seed=2 005-experts=4,seed=2 " ] || fail "$(cat more/results.csv)"
status 0 smoe sweep $small seed=0,1,2 -q -o fresh >/dev/null
for cell in 2-experts=2 5-experts=4; do
    same_run "$(ls -d fresh/00"$cell"*)" "$(ls -d more/*"${cell#*-}",seed=2)"
done
status 0 smoe sweep --resume more -q >/dev/null
# the same spec and overrides describe it, although its cells are in another order than theirs
status 0 smoe sweep $small seed=0,1,2 --resume -q -o more >/dev/null
# what suggested the new seed is no part of its contrasts; a spec can say so too, and --all-seeds takes all
n_of() { awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["metric"] == "test_loss" { print $at["n"] }' "$1"; }
head -n 1 more/cells.jsonl | grep -q '"seen":"0,1"' || fail "$(head -n 1 more/cells.jsonl)"
[ "$(n_of more/differences.csv)" = 1 ] || fail "$(cat more/differences.csv)"
grep -q '^Seeds 0,1 were seen before the others ran\. The contrasts are over the others alone; --all-seeds takes all\.$' more/summary.md || fail "$(cat more/summary.md)"
status 0 smoe sweep --status more --all-seeds >out
grep -q 'test_loss .* 3  ' out || fail "$(cat out)"
! grep -q 'were seen' out || fail "$(cat out)"
[ "$(n_of fresh/differences.csv)" = 3 ] || fail "$(cat fresh/differences.csv)"
(cat tiny.yaml; echo 'sweep: {seen: [0, 1]}') >seen.yaml
status 0 smoe sweep seen.yaml train.steps=4 model.moe.experts=2,4 seed=0,1,2 --resume -q -o fresh >/dev/null
for folder in more fresh; do grep -v 'a time' $folder/differences.csv >$folder.differences; done
cmp more.differences fresh.differences || fail "the same seeds, seen, have other differences"
status 2 smoe sweep more --power 2>err
grep -q 'no contrast has two seeds yet, so the variance is unknown; --all-seeds takes the seeds that were seen before ' err || fail "$(cat err)"
status 0 smoe sweep more --power --all-seeds >out
status 0 smoe sweep --resume more --all-seeds -q --json >out
grep -q '"n": 3' out || fail "$(cat out)"
# a key that cannot tell all lines apart: a line through two rows at one x would be no line. Cells of one value: no colours above it.
status 0 smoe sweep tiny.yaml train.steps=2 model.heads=1,2 train.optimizer.beta2=0.9,0.99 train.optimizer.lr=1e-3,1e-2 -q -o lines >/dev/null
lines() { smoe sweep --status lines --x train.optimizer.lr "$@" >/dev/null && grep -o "title '[^']*heads [^']*'" lines/sweep.gp | sort -u | wc -l; }
[ "$(lines --line model.heads)" -eq 4 ] && [ "$(lines)" -eq 4 ] || fail "$(cat lines/sweep.gp)"
# A line has what tells it from others of its router, or from other dense ones. A rate has no ticks at powers of 2.
zip='model.moe.layers: [none, none, last-1, last-1, last-1], model.moe.router: [soft, soft, soft, soft, uniform]'
(cat tiny.yaml; echo "sweep: {zip: {$zip, model.moe.scale_init: [1, 1, 1, 2, 3], data.seed: [1, 2, 1, 1, 1], train.optimizer.lr: [1e-3, 2e-3, 4e-3, 1e-3, 1e-3]}}") >named.yaml
status 0 smoe sweep named.yaml train.steps=2 seed=0 --x train.optimizer.lr -q -o named >out
grep -qE '^- +dense +- +1 +1e-3 ' out && grep -qE '^last-1 +uniform +3 +1 +1e-3 ' out || fail "a model without experts is dense: $(cat out)"
grep -o "title '[^']*'" named/sweep.gp | tr '\n' ' ' >out
grep -q "'dense, seed 1' title 'dense, seed 2' title 'soft, initial scale 1' title 'soft, initial scale 2' title 'uniform' " out || fail "$(cat out)"
grep -qF "set xtics norotate ('0.001' 0.001, '0.002' 0.002)" named/sweep.gp || fail "$(grep xtics named/sweep.gp)"
status 0 smoe sweep --status lines --x model.heads --y train.optimizer.lr:params >/dev/null
grep -qF "set cbrange [$(awk 'NR == 2 { print $NF / 2 ":" $NF }' FS=, lines/sweep_cells.csv)]" lines/sweep.gp || fail "$(cat lines/sweep.gp lines/sweep_cells.csv)"
# no heading above evaluations of which there is none
status 5 smoe sweep tiny.yaml data.source=cifar10 data.path=data evaluate.eval.precision=f32,bf16 -q -o none >out 2>/dev/null
! grep 'Evaluations' out none/summary.md || fail "$(cat none/summary.md)"
# the rows that no other row beats, against a search through all pairs
status 0 smoe sweep tiny.yaml train.steps=4,8 model.moe.experts=2,4 --seeds 0 -q -o front >/dev/null
status 0 smoe sweep --resume front --front train_exaflop:test_loss -q >/dev/null
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { x[NR] = $at["train_exaflop_mean"] + 0; y[NR] = $at["test_loss_mean"] + 0; front[NR] = $at["front"] }
    END { for (a = 2; a <= NR; a++) { best = "true"
              for (b = 2; b <= NR; b++) if (x[b] <= x[a] && y[b] <= y[a] && (x[b] < x[a] || y[b] < y[a])) best = "false"
              if (front[a] != best) wrong = 1; rows++ }
          exit wrong || rows != 4 }' front/summary.csv || fail "$(cat front/summary.csv)"
grep -q "title 'front'" front/sweep.gp || fail "no front in the figure"
# the same cost is a tie, also as means over six seeds and over one, which are rounded differently
echo '{name: cheap, data: {source: shapes, image_size: 8, limit: 32, test_size: 20}, model: {variant: none, width: 8, depth: 1, mlp: 8, heads: 1, patch_size: 4, moe: {layers: none}}, train: {steps: 3, batch_size: 8, eval_every: 0, log_every: 1}}' >cheap.yaml
status 0 smoe sweep cheap.yaml train.optimizer.lr=1e-3,1 --seeds 0,1,2,3,4,5 --cells 0-6 -q -o ties >/dev/null 2>&1
status 0 smoe sweep --resume ties --cells 0-6 --front train_exaflop:test_loss -q >/dev/null 2>&1
[ "$(awk -F, '$NF == "true"' ties/summary.csv | wc -l)" -eq 1 ] || fail "$(cat ties/summary.csv)"
# a row with results of seen seeds alone is in no contrast, and the others are in theirs: here three of four rows of a trend
status 0 smoe sweep cheap.yaml model.mlp=8,16,32,64 --seeds 0,1 -q -o partly >/dev/null
status 0 smoe sweep cheap.yaml model.mlp=8,16,32,64 --seeds 0,1,2,3 --extend --cells 8-13 -q -o partly >/dev/null
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["metric"] == "test_loss" { print $at["n"], $at["rows"] }' partly/trends.csv | grep -qx '2 3' || fail "$(cat partly/trends.csv)"
# the table of the summary has the columns of the front, and none that is 0 everywhere
status 0 smoe sweep --resume front --front flops_infer_computed_per_image:precision_at_1 -q >out
for file in out front/summary.md; do
    grep -q 'precision_at_1.* flops_infer_computed_per_image.* front' $file && ! grep -q dropped $file || fail "$(cat $file)"
done
status 0 smoe sweep --status front --x params >out
[ "$(tail -n 1 out)" = "front: sweep.svg" ] || fail "$(cat out)"
status 0 smoe sweep --resume front -q >/dev/null
! grep -q front front/summary.csv || fail "a front without --front"
status 2 smoe sweep --resume front --front params:test_loss 2>err
grep -q -- "--front params:test_loss: 'params' is not a measured column for which lower or higher is better" err || fail "$(cat err)"
# what the cells recorded over the steps, against their metrics.csv; a packed sweep has none
status 0 smoe sweep --status front --x step --y train_loss,blocks.1/router/scale -q >/dev/null
awk -F, 'FNR == 1 { split("", at); for (i = 1; i <= NF; i++) at[$i] = i; file++; next }
    file == 1 { loss[$at["step"]] = $at["train_loss"] + 0; scale[$at["step"]] = $at["blocks.1/router/scale"] + 0; rows++ }
    file == 2 && $at["train/loss"] != "" && ($at["train/loss"] + 0 != loss[$at["step"]] || $at["blocks.1/router/scale"] + 0 != scale[$at["step"]]) { wrong = 1 }
    END { exit wrong || rows < 2 }' \
    "$(head -n 1 front/curves.csv >one; grep '^8,2,' front/curves.csv >>one; echo one)" front/*steps=8,experts=2*/metrics.csv || fail "$(cat one)"
grep -q "^set ylabel 'training loss'" front/sweep.gp && grep -q "^set xlabel 'training step'" front/sweep.gp || fail "$(cat front/sweep.gp)"
# a seed with fewer records than the others, like one that failed, does not end the line of all
head -n 1 partly/000*/metrics.jsonl >first && cp first "$(echo partly/000*)/metrics.jsonl"
status 0 smoe sweep --status partly --x step --y train_loss -q >/dev/null
[ "$(grep -cE '^3 [0-9.]+' partly/sweep.gp)" -eq 4 ] && grep -q 'interval, up to 4 seeds' partly/sweep.gp || fail "$(cat partly/sweep.gp)"
# losses of training at each of three steps, of an evaluation at the last: no step is lost, whichever is named first
status 0 smoe sweep --status partly --x step --y test_loss,train_loss -q >/dev/null
[ "$(grep -cE '^16,1,[0-9]+,[123],' partly/curves.csv)" -eq 3 ] && grep -qE '^16,1,[0-9]+,1,,[0-9.]+$' partly/curves.csv || fail "$(cat partly/curves.csv)"
status 2 smoe sweep --status partly --x step --y test_loss,blocks.0/router/scale -q 2>err
grep -q "no cell has records of 'blocks.0/router/scale' during training" err || fail "$(cat err)"
status 2 smoe sweep --status front --x step --y blocks.9/router/scale -q 2>err
grep -q "no cell has records of 'blocks.9/router/scale' during training" err || fail "$(cat err)"
status 2 smoe sweep --status front --x step --y test_los -q 2>err
grep -q "the figure's y: 'test_los' is neither a measured column nor a metric that training records" err || fail "$(cat err)"
# a heat map over two swept keys
status 0 smoe sweep --status front --x train.steps --y model.moe.experts:train_exaflop -q >/dev/null
[ "$(cut -d, -f 1-5 front/sweep_cells.csv | tr '\n' ' ')" = 'run,column,row,train.steps,model.moe.experts ,0,0,4,2 ,0,1,4,4 ,1,0,8,2 ,1,1,8,4 ' ] || fail "$(cat front/sweep_cells.csv)"
[ "$(tail -n +2 front/sweep_cells.csv | cut -d, -f 6)" = "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } { print $at["train_exaflop_mean"] }' front/summary.csv)" ] || fail "$(cat front/sweep_cells.csv)"
grep -q 'boxxyerror' front/sweep.gp || fail "no cells in the figure"
status 2 smoe sweep --status front --x params --y model.moe.experts -q 2>err
grep -q "the figure's x: 'params' is not a swept key" err || fail "$(cat err)"
status 2 smoe sweep --status front --y model.moe.experts:speed -q 2>err
grep -q "the figure's colour: 'speed' is not a measured column" err || fail "$(cat err)"
# empty places of buffers cost nothing that is computed, in cells and in evaluations, as smoe cost says
status 0 smoe sweep tiny.yaml model.moe.router=tokens-choice model.moe.capacity=1,4 --seeds 0 train.steps=4 -q -o places >/dev/null
status 0 smoe sweep places/*capacity=4* model.moe.capacity=1,4 -q -o emptier >/dev/null
for file in places/results.csv emptier/evaluations.csv; do
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { all[NR] = $at["flops_infer_per_image"]; computed[NR] = $at["flops_infer_computed_per_image"] }
        END { exit !(NR == 3 && all[3] > all[2] && computed[2] == all[2] && computed[3] == all[2]) }' $file || fail "$(cat $file)"
done
cost=$(smoe cost tiny.yaml model.moe.router=tokens-choice model.moe.capacity=4 --json | sed -n 's/.*"flops_train_computed_per_image": \([0-9.]*\).*/\1/p')
[ "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } END { print $at["flops_train_computed_per_image"] + 0 }' places/results.csv)" = "$(echo "$cost" | awk '{ print $1 + 0 }')" ] || fail "$cost, $(cat places/results.csv)"
# evaluations have a cost and a time of their own, and a front
status 0 smoe sweep front/*steps=8,experts=2* model.moe.mix_precision=f32,bf16 -q -o evaluated >/dev/null 2>err || fail "$(cat err)"
status 0 smoe sweep --resume evaluated --front infer_s:precision_at_1 -q >/dev/null
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { rows++; if (!($at["infer_s_mean"] > 0) || !($at["flops_infer_per_image_mean"] > 0) || $at["front"] !~ /true|false/) wrong = 1; best += $at["front"] == "true" }
    END { exit wrong || rows != 2 || !best }' evaluated/evaluations_summary.csv || fail "$(cat evaluated/evaluations_summary.csv)"
status 2 smoe sweep $small --seeds 0,1 --all-seeds -q -o never 2>err
grep -q -- '--all-seeds needs --status, --resume or --power: a new sweep has none that were seen before$' err || fail "$(cat err)"
status 0 smoe sweep --resume more -q >/dev/null
status 2 smoe sweep tiny.yaml train.steps=5 model.moe.experts=2,4 seed=0,1,2,3 --extend -q -o more 2>err
grep -q 'more: cell 000-experts=2,seed=0 (.*) would now be a different one (.*): the spec or its overrides are different' err || fail "$(cat err)"
status 2 smoe sweep $small seed=3 --extend -q -o more 2>err
grep -q 'the keys it sweeps are different' err || fail "$(cat err)"
status 2 smoe sweep $small seed=1,2,3 --extend -q -o more 2>err
grep -q 'more: cell 000-experts=2,seed=0 is not among the cells of the spec; --extend needs all existing cells and new ones$' err || fail "$(cat err)"
status 2 smoe sweep $small seed=0,1 --resume -q -o more 2>err
grep -q 'it has 6 cells, the spec now makes 4; --extend adds cells to it, ' err || fail "$(cat err)"
status 2 smoe sweep $small seed=0,1 --seeds 0,1 -q -o never 2>err
grep -q -- '--seeds 0,1 and seed=0,1 set the same key$' err || fail "$(cat err)"
[ "$(wc -l <more/cells.jsonl)" -eq 7 ] || fail "a refused extension changed the ledger"
