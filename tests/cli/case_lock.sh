# One process per run: a second one is refused, and does no harm to the first.
. "$ROOT/tests/cli/lib.sh"
smoe train tiny.yaml -q train.steps=100000 -o run &
pid=$!
wait_for run/metrics.jsonl 5
status 1 smoe train tiny.yaml -q train.steps=100000 -o run --resume 2>err
grep -q 'another process' err || fail "$(cat err)"
kill -TERM $pid
wait $pid
got=$?
[ $got -eq 75 ] || fail "the first run ended with $got, not 75"
