# An ablation: six rows over two seeds, compared seed by seed.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe ablate tiny.yaml --seeds 0,1 -q -J2 -o table >out
for row in soft soft-uniform uniform-soft uniform identity dense; do
    grep -q "^$row .* 2$" out || fail "no row $row: $(cat out)"
    [ $row = soft ] || grep -q "^$row  *precision_at_1 .*distinguishable$" out || fail "no difference of $row: $(cat out)"
done
[ "$(wc -l <table/differences.csv)" -eq 16 ] || fail "$(cat table/differences.csv)" # 5 rows x 3 metrics and a heading; dropped is 0 everywhere
# routers that never drop report 0, models without experts report nothing; the summary has no column of zeros
sed 's/^"[^"]*"//' table/results.csv | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "dropped") d = i; next }
    $2 == "soft" && $d != "0" || $2 == "dense" && $d != "" { wrong = 1 }
    END { exit !d || wrong }' || fail "$(cat table/results.csv)"
grep -q dropped out && fail "$(cat out)"
grep -q 'slots_per_expert: 4' table/*identity,seed=0/spec.yaml || fail "identity has no slot for each token"
grep -q 'layers: none' table/*dense,seed=1/spec.yaml || fail "dense has experts"

# routers that choose, and others that mix; cells that both tables have are the same
status 0 smoe ablate tiny.yaml --routers tokens-choice,experts-choice,soft --seeds 0,1 -q -o choice >out
for row in tokens-choice experts-choice; do
    grep -q "^$row  *precision_at_1 .*distinguishable$" out || fail "no difference of $row: $(cat out)"
done
grep -q '^Differences from soft:$' out || fail "$(cat out)"
grep -q '^router,.*,dropped_mean,' choice/summary.csv || fail "$(cat choice/summary.csv)"
same_run choice/*router=soft,seed=1 table/*router=soft,seed=1
status 2 smoe ablate tiny.yaml --routers random,soft -q -o none 2>err

status 0 smoe ablate --resume choice -q --reference router=experts-choice >out
grep -q '^Differences from experts-choice:$' out && grep -q '^soft  *precision_at_1 .*distinguishable$' out || fail "$(cat out)"
grep -q '^tokens-choice,router=experts-choice,dropped,' choice/differences.csv || fail "$(cat choice/differences.csv)"

# with one seed nothing is distinguishable
status 0 smoe ablate tiny.yaml --routers experts-choice,dense --seeds 5 -q -o one >out
grep -q '^Differences from experts-choice:$' out || fail "$(cat out)"
grep -q '[^t] distinguishable' out && fail "$(cat out)"
status 0 smoe ablate --resume one -q --json >json
grep -q '"reference": "router=experts-choice"' json || fail "$(cat json)"
[ "$(smoe ablate --status one | grep -c ' done ')" -eq 2 ] || fail "$(smoe ablate --status one)"
# a sweep is not an ablation
status 0 smoe sweep tiny.yaml train.steps=10,12 -q -o other >/dev/null
status 2 smoe ablate --resume other 2>err
grep -q 'not an ablation' err || fail "$(cat err)"
