# Few-shot accuracy in training equals that of eval, for any number of threads; another data set can be named.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run eval.fewshot.shots=[1,5] eval.fewshot.seeds=2 >/dev/null
[ "$(grep -c '"test/fewshot_1":.*"test/fewshot_5_sd":' run/metrics.jsonl)" -eq 3 ] || fail "not at every evaluation: $(cat run/metrics.jsonl)"
last=$(grep -o '"test/fewshot_5": *[0-9.e-]*' run/metrics.jsonl | tail -n 1 | sed 's/.*: *//')
for j in 1 2; do
    status 0 smoe eval run -q -j$j --json >eval.json
    grep -q "\"5\": $last" eval.json || fail "$last in training, $(cat eval.json)"
done
status 0 smoe eval run -q >out
grep -q '^fewshot 5 .*over 2 draws' out || fail "$(cat out)"
status 0 smoe eval run -q --json eval.fewshot.data.source=shapes eval.fewshot.data.limit=200 >other.json
grep -q '"l2": ' other.json || fail "$(cat other.json)"
# Training prints them too, beside each evaluation.
status 0 smoe train tiny.yaml --no-progress -o told eval.fewshot.shots=[1,5] eval.fewshot.seeds=2 >/dev/null 2>err
told=$(sed -n 's/^few-shot accuracy, by images per class: 1: .*, 5: //p' err | tail -n 1)
[ "$(printf %.4f "$last")" = "$told" ] || fail "$last in training: $(cat err)"
# On classes that were not in training, in a folder without splits, or with a table; normalised in its own way.
mkdir -p few/ant few/cow flat && echo path,label >flat.csv
for i in 1 2 3 4 5 6 7 8 9 10; do png >few/ant/$i.png && png >few/cow/$i.png && png >flat/$i.png && echo "$i,$([ $i -le 5 ] && echo elk || echo fox)" >>flat.csv; done
own='eval.fewshot.shots=[1] eval.fewshot.data.source=image-folder'
status 0 smoe eval run -q --json $own eval.fewshot.data.path=few eval.fewshot.data.holdout=0.3 >few.json
grep -q '"1": 0.5' few.json || fail "two classes that look the same: $(cat few.json)"
status 0 smoe eval run -q --json $own eval.fewshot.data.path=flat eval.fewshot.data.labels=flat.csv eval.fewshot.data.holdout=0.4 eval.fewshot.data.mean=[0.5,0.4,0.3] eval.fewshot.data.std=0.25 >flat.json
grep -q '"1": 0.5' flat.json || fail "of a table: $(cat flat.json)"
# Images that have changed before a resume are remarked on, once.
status 0 smoe train tiny.yaml -q $own eval.fewshot.data.path=few eval.fewshot.data.holdout=0.3 train.steps=4 train.eval_every=4 -o seen >/dev/null
cp -r few few.kept && printf ' ' >>few/ant/1.png
status 0 smoe train --resume seen --no-progress train.steps=8 >/dev/null 2>err
[ "$(grep -c '^the images of eval.fewshot.data are not those of the evaluations so far; ' err)" -eq 1 ] || fail "other few-shot images: $(cat err)"
status 0 smoe train --resume seen --no-progress train.steps=12 >/dev/null 2>err
! grep -q 'eval.fewshot.data are' err || fail "the same few-shot images: $(cat err)"
# So are those of the cells of a sweep compared.
status 0 smoe sweep tiny.yaml -q $own eval.fewshot.data.path=few eval.fewshot.data.holdout=0.3 train.steps=4 seed=0,1 -o cells >/dev/null
printf ' ' >>few/ant/1.png
status 5 smoe sweep tiny.yaml -q $own eval.fewshot.data.path=few eval.fewshot.data.holdout=0.3 train.steps=4 seed=0,1,2 --extend -o cells >/dev/null 2>err
grep -q 'cells/002-seed=2: the few-shot data is not that of cells/000-seed=0, with which it would be compared: ' err || fail "$(cat err)"
# Each task of several has its own.
cp -r few more
status 0 smoe sweep tiny.yaml -q $own eval.fewshot.data.path=more,few eval.fewshot.data.holdout=0.3 train.steps=4 seed=0,1 --cells 0-2 -o tasks >/dev/null
printf ' ' >>few/ant/1.png
status 5 smoe sweep --resume tasks -q >/dev/null 2>err
grep -q 'tasks/003-path=few,seed=1: the few-shot data is not that of tasks/002-path=few,seed=0, with which it would be compared: ' err || fail "$(cat err)"
# Also where only the evaluations after training have them, in another cell or at another time.
cat tiny.yaml - >later.yaml <<'END'
sweep:
  seeds: [0, 1]
  evaluate:
    grid: {eval.fewshot.shots: [[1]], eval.fewshot.data.source: [image-folder], eval.fewshot.data.path: [few], eval.fewshot.data.holdout: [0.3, 0.4]}
END
status 0 smoe sweep later.yaml -q train.steps=4 --cells 0 -o later >/dev/null
printf ' ' >>few/ant/1.png
status 5 smoe sweep --resume later -q >/dev/null 2>err
grep -q '001-seed=1: the images of eval.fewshot.data are not those on which 000-seed=0 was evaluated; ' err || fail "$(cat err)"
# And where they are shown images of the training data, which change after the training.
mkdir -p both/train both/test && cp -r few/ant few/cow both/train && cp -r few/ant few/cow both/test
cat tiny.yaml - >shown.yaml <<'END'
sweep: {seeds: [0, 1], evaluate: {grid: {eval.fewshot.shots: [[1]]}}}
END
status 0 smoe sweep shown.yaml -q data.source=image-folder data.path=both train.steps=4 -o shown >/dev/null
rm shown/claims/001-*.evaluations.json
status 0 smoe verify shown --repair >/dev/null
rm shown/claims/001-*.evaluations.json && printf ' ' >>both/train/ant/1.png
status 3 smoe verify shown --repair >out 2>&1
grep -q '001-seed=1: the images of few-shot evaluation are not those on which 000-seed=0 was evaluated; ' out || fail "$(cat out)"
rm -r few && mv few.kept few
# the table of a spec lies beside it, that of an override where the user is
mkdir specs && cp -r flat flat.csv specs && mv specs/flat.csv specs/of.csv && sed '2,$s/^/train\//' flat.csv >trained.csv
mkdir -p specs/all/train && cp flat/* specs/all/train && cp -r specs/all/train specs/all/test && sed 's/^train/test/;1d' trained.csv >>trained.csv
{
    echo 'data: {source: image-folder, path: all, image_size: 8, labels: null}'
    echo 'model: {width: 8, depth: 1, mlp: 8, heads: 1, patch_size: 4, moe: {layers: none}}'
    echo 'train: {steps: 1, batch_size: 4, eval_every: 1}'
    echo 'eval: {fewshot: {shots: [1], data: {source: image-folder, path: flat, holdout: 0.4, labels: of.csv}}}'
} >specs/few.yaml
status 0 smoe train specs/few.yaml data.labels=trained.csv -q -o beside >/dev/null
status 0 smoe train specs/few.yaml data.labels=trained.csv eval.fewshot.data.labels=flat.csv -q -o above >/dev/null
status 3 smoe train specs/few.yaml data.labels=trained.csv eval.fewshot.data.labels=of.csv -q -o none 2>err
grep -q 'eval.fewshot.data.labels: of.csv was not found' err || fail "$(cat err)"
status 2 smoe eval run -q eval.fewshot.shots=100000 2>err
grep -q 'images per class needed' err || fail "$(cat err)"
status 2 smoe eval run -q eval.fewshot.data.source=cifar10 2>err
grep -q 'eval.fewshot.data.path must say where' err || fail "$(cat err)"
# Few-shot images of the data trained on: a sweep reads them once, with those for training, and its second cell reads nothing.
mkdir pets && cp -r few pets/train && cp -r few pets/test
smoe sweep tiny.yaml data.source=image-folder data.path=pets eval.fewshot.shots=[1] seed=0,1 train.steps=10000 train.eval_every=0 train.checkpoint_every=0 train.log_every=100 -J1 -q -o kept >out 2>err & sweep=$!
wait_for kept/000-seed=0/metrics.jsonl 1 && rm pets/*/*/*.png
wait $sweep || fail "a cell read again: $(cat out err)"
[ "$(grep -c '"test/fewshot_1":' kept/001-seed=1/metrics.jsonl)" -eq 1 ] || fail "$(tail -n 1 kept/001-seed=1/metrics.jsonl)"
