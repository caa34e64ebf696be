# inspect: the routing of each MoE layer as table, JSON and CSV.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run >/dev/null
status 0 smoe inspect run -q >table
grep -qE '^blocks\.1 ' table || fail "$(cat table)"
status 0 smoe inspect run -q --json -o here >result.json
for key in dispatch_max combine_max tokens_per_slot slots_per_token dropped; do
    grep -q "\"$key\"" result.json || fail "inspect --json has no $key"
    head -n 1 here/routing.csv | grep -q "$key" || fail "routing.csv has no $key"
done
[ "$(wc -l <here/routing.csv)" -eq 2 ] || fail "$(cat here/routing.csv)"
# 2 slots for each of 4 experts over 16 tokens
awk -F, 'NR == 2 { exit !($2 > 1 / 16 && $2 <= 1 && $3 > 1 / 8 && $3 <= 1 && $4 >= 1 && $4 <= 16 && $5 >= 1 && $5 <= 8 && $6 == 0) }' \
    here/routing.csv || fail "out of bounds: $(cat here/routing.csv)"
status 1 smoe inspect run -q -o here 2>/dev/null >&2
status 0 smoe inspect run -q -o here --force >/dev/null
# Where the weights are known: uniform mixes 16 tokens into each slot and 8 slots into each token, identity mixes nothing.
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=uniform -o uniform >/dev/null
status 0 smoe inspect uniform -q -o uniform >/dev/null
sed 1d uniform/routing.csv | awk -F, '
    function near(a, b) { return a - b < 1e-5 && b - a < 1e-5 }
    { exit !(near($2, 1 / 16) && near($3, 1 / 8) && near($4, 16) && near($5, 8) && near($6, 0)) }' ||
    fail "uniform: $(cat uniform/routing.csv)"
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=identity model.moe.slots_per_expert=4 -o identity
status 0 smoe inspect identity -q -o identity >/dev/null
[ "$(sed 1d identity/routing.csv)" = blocks.1,1,1,1,1,0 ] || fail "identity: $(cat identity/routing.csv)"
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.layers=none -o dense >/dev/null
status 2 smoe inspect dense 2>err
grep -q "no MoE layer" err || fail "$(cat err)"
