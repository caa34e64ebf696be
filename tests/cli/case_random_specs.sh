# Random specs over all routers and their keys: what the commands say of a trained model agrees. SPECS="1 500" tries others, the first and the
# last; a spec that fails is printed.
. "$ROOT/tests/cli/lib.sh"
set -f # [1,2] is a value
tried=0 trained=0
compact() { tr -d ' \n' <"$1" | sed 's/\.0\([],}]\)/\1/g'; } # 0.0 is 0
law() { fail "spec $n: $1: smoe train tiny.yaml $keys"; }
# shellcheck disable=SC2086 # SPECS and keys are lists
for n in $(seq ${SPECS:-1 60}); do
    keys=$(awk -v seed=$n -f "$ROOT/tests/cli/random_spec.awk" "$ROOT/lib/spec/routers.def" | tr '\n' ' ')
    [ -n "$keys" ] || fail "no spec $n"
    rm -rf run again x.safetensors
    tried=$((tried + 1))
    common="-q data.limit=40 train.batch_size=16 train.steps=3 train.eval_every=3 train.checkpoint_every=0 $keys"
    smoe train tiny.yaml -j1 -o run $common >/dev/null 2>err
    case $? in
    0) trained=$((trained + 1)) ;;
    2) continue ;; # keys that exclude each other
    *) law "$(cat err)" ;;
    esac
    status 0 smoe train tiny.yaml -j2 -o again $common >/dev/null
    diff -r run/ckpt again/ckpt >out || law "two threads: $(cat out)"
    # eval has the numbers of the last record.
    smoe eval run -q --json >eval 2>err || law "eval: $(cat err)"
    compact run/metrics.jsonl | sed 's/}{/}\n{/g' | tail -n 1 >record
    for number in $(compact eval | grep -oE '"(loss|precision_at_1)":[^,}]*' | head -n 2); do # behind these are those of classes
        grep -qF "\"test/${number#\"}," record || law "eval has $number, the record $(cat record)"
    done
    counts=$(compact eval | grep -o '"routing":{[^}]*' | sed 's/^"routing":{//')
    grep -qF "$counts" record || law "eval counts $counts, the record $(cat record)"
    # inspect has the shares of dropped tokens of the record, and ends well.
    smoe inspect run -q --json >inspect 2>err || law "inspect: $(cat err)"
    compact inspect | grep -oE '"block":[0-9]+,"dispatch_max"[^}]*"dropped":[0-9.e-]+' | sed -E 's/"block":([0-9]+),.*"dropped":/"blocks.\1\/router\/dropped":/' >dropped
    while read -r share; do grep -qF "$share" record || ! grep -qF "${share%:*}" record || law "inspect has $share, the record $(cat record)"; done <dropped
    # A file that convert writes evaluates as the run.
    smoe convert run x.safetensors -q >/dev/null 2>err || law "convert: $(cat err)"
    smoe eval x.safetensors -q --json >converted 2>err || law "eval of what convert wrote: $(cat err)"
    [ "$(compact converted | grep -oE '"loss":[^,]*')" = "$(compact eval | grep -oE '"loss":[^,]*')" ] || law "another loss after convert"
    # It has as many weights as cost counts.
    weights=$((($(wc -c <x.safetensors) - 8 - $(od -An -tu8 -N8 x.safetensors)) / 4))
    status 0 smoe cost run/spec.yaml -q --json >cost
    grep -q "^  \"params\": $weights,$" cost || law "$weights weights in the file, cost has $(grep '"params"' cost)"
done
[ $trained -ge $((tried / 3)) ] || fail "$trained of $tried specs are valid"
echo "$trained of $tried specs are valid"
