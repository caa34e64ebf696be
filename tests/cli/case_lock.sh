# One process per run: a second one is refused, and does no harm to the first.
. "$ROOT/tests/cli/lib.sh"
smoe train tiny.yaml -q train.steps=100000 -o run &
pid=$!
wait_for run/metrics.jsonl 5
status 1 smoe train tiny.yaml -q train.steps=100000 -o run --resume 2>err
grep -q 'another process' err || fail "$(cat err)"
# its temporary files are not left over, as long as it lives
: >run/x.tmp-1
status 0 smoe verify --repair -q run
[ -e run/x.tmp-1 ] || fail "verify --repair removed a file of a run that is being written"
kill -TERM $pid
wait $pid
got=$?
[ $got -eq 75 ] || fail "the first run ended with $got, not 75"
status 0 smoe verify --repair -q run
[ ! -e run/x.tmp-1 ] || fail "a file that is left over"
