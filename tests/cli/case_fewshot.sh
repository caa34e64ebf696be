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
status 2 smoe eval run -q eval.fewshot.shots=100000 2>err
grep -q 'images per class are needed' err || fail "$(cat err)"
status 2 smoe eval run -q eval.fewshot.data.source=cifar10 2>err
grep -q 'eval.fewshot.data.path must say where' err || fail "$(cat err)"
