# smoe sweep --tune: the value of a key that is best on held-out images, for each row.
. "$ROOT/tests/cli/lib.sh"

# what facts-tuned.yaml trains with is what --tune finds in the cells of facts-rates
mkdir rates
tar -xzf "$ROOT/experiments/results/facts-rates/trials.tar.gz" -C rates
status 0 smoe sweep rates --tune train.optimizer.lr --json >found
sed -n 's/^ *"train.optimizer.lr": "\(.*\)",$/\1/p' found | tr '\n' ' ' | sed 's/ $//' >a
sed -n 's/^ *train.optimizer.lr: *\[\(.*\)\].*/\1/p' "$ROOT/experiments/facts-tuned.yaml" | tr -d ',\n' >b
[ -s a ] && cmp a b || fail "found $(cat a), but facts-tuned.yaml has $(cat b)"

# the mean over seeds of the cells on val decides; a value at an end is named
cat >rates.yaml <<'END'
name: rates
data: {source: facts, image_size: 16, limit: 64, test_size: 64, facts: {entities: 8, classes: 4, cells: 4}}
model: {variant: none, width: 16, depth: 1, mlp: 16, heads: 2, patch_size: 8, moe: {layers: none}}
train: {steps: 30, batch_size: 16}
eval: {batch_size: 16, split: val}
sweep: {grid: {train.optimizer.lr: [1e-5, 1e-2], model.depth: [1, 2]}, seeds: [0, 1]}
END
status 0 smoe sweep rates.yaml -q -o own >/dev/null
status 0 smoe sweep own --tune train.optimizer.lr >out
[ "$(grep -n -A 3 '^the section sweep.zip ' out)" = "5:the section sweep.zip of a spec that trains with these values:
6-  model.depth: [1, 2]
7-  train.optimizer.lr: [1e-2, 1e-2]" ] || fail "the zip: $(cat out)"
grep -c ' 1e-2 .* 2 *2 *highest$' out | grep -qx 2 || fail "$(cat out)"
mean=$(sed 's/^"[^"]*",//' own/results.csv | awk -F, 'NR == 1 { for (i = 2; i <= NF; i++) at[$i] = i - 1; next } $at["train.optimizer.lr"] == "1e-2" && $at["model.depth"] == 2 { s += $at["precision_at_1"]; n++ } END { printf "%.6g", s / n }')
status 0 smoe sweep own --tune train.optimizer.lr --json >json
[ "$(sed -n 's/^ *"precision_at_1": \([^,]*\),$/\1/p' json | sed -n 2p | awk '{ printf "%.6g", $1 }')" = "$mean" ] || fail "$mean, but $(cat json)"

# a value without results yet is passed over
status 0 smoe sweep rates.yaml -q -o part --cells 6-7 >/dev/null 2>&1
status 0 smoe sweep part --tune train.optimizer.lr >out
grep -q '^2 .* 1e-2 .* 2 *1 *$' out || fail "$(cat out)"
# and a row without any, to which no value is given
grep -q '^1  ' out && fail "$(cat out)"
grep -qx '1 row without results yet is left out' out || fail "$(cat out)"

# names that YAML reads otherwise are in quotes
for name in 'a, b' 'c: d' 1e3 '[e]'; do
    for folder in train/a train/b test/a test/b; do mkdir -p "$name/$folder" && png >"$name/$folder/1.png"; cp "$name/$folder/1.png" "$name/$folder/2.png"; done
done
{ sed 's/source: shapes.*limit: 200/source: image-folder, holdout: 0.5, image_size: 16/; s/^eval: {/eval: {split: val, /' tiny.yaml
  echo 'sweep: {grid: {data.path: ["a, b", "c: d", "1e3", "[e]"], train.optimizer.lr: [1e-3, 2e-3]}}'; } >odd.yaml
status 0 smoe sweep odd.yaml train.steps=2 train.batch_size=2 -q -o odd >/dev/null
status 0 smoe sweep odd --tune train.optimizer.lr >out
grep -qx '  data.path: \["a, b", "c: d", "1e3", "\[e\]"\]' out || fail "the zip: $(cat out)"

status 2 smoe sweep own --tune model.width 2>err
grep -q -- '--tune model.width: is not one of the swept keys: ' err || fail "$(cat err)"
status 2 smoe sweep own --tune train.optimizer.lr --power 2>err
grep -q -- '--tune cannot be used with --power' err || fail "$(cat err)"
# the test images choose nothing
sed 's/, split: val//; s/name: rates/name: tested/' rates.yaml >tested.yaml
status 0 smoe sweep tested.yaml -q -o tested >/dev/null
status 2 smoe sweep tested --tune train.optimizer.lr 2>err
grep -q 'tested: no results on the split val; tune on images held out of training' err || fail "$(cat err)"
# evaluations on val beside those on test are as good
status 0 smoe sweep tested.yaml evaluate.eval.split=test,val -q -o both >/dev/null
status 0 smoe sweep both --tune train.optimizer.lr >out
[ "$(grep -c ' val ' out)" -eq 2 ] && [ "$(wc -l <out)" -eq 7 ] || fail "$(cat out)"

# rows that differ in keys of the evaluation alone are one line of the zip, because they train the same
status 0 smoe sweep tested.yaml evaluate.eval.split=test,val evaluate.eval.batch_size=16,32 -q -o twice >/dev/null
status 0 smoe sweep twice --tune train.optimizer.lr >out
[ "$(grep -c ' val ' out)" -eq 4 ] || fail "$(cat out)"
grep -qx '  model.depth: \[1, 2\]' out && grep -qx '  train.optimizer.lr: \[1e-2, 1e-2\]' out || fail "the zip: $(cat out)"
