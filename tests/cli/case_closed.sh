# Standard files that the caller closed: what would have been printed goes into no file of the run, and a closed
# standard output is a failure though the run itself is done.
. "$ROOT/tests/cli/lib.sh"
run() { smoe train tiny.yaml -o "$1" train.steps=8; }
status 0 run open >out
run no-err 2>&- >out || fail "status $? with standard error closed"
run no-in-err <&- 2>&- >out || fail "status $? with input and error closed"
run no-out >&- 2>err && fail "a lost result is no success"
grep -q 'standard output: Bad file descriptor' err || fail "not said: $(cat err)"
run none <&- >&- 2>&- && fail "a lost result is no success, said or not"
smoe train tiny.yaml --print-config >&- 2>err && fail "a lost spec is no success"
[ "$(wc -l <err)" -eq 1 ] || fail "said twice: $(cat err)"
for r in no-err no-in-err no-out none; do
    same_run open $r
    grep -v '^{"step":.*}$' $r/metrics.jsonl && fail "$r/metrics.jsonl holds more than records"
    grep -qv ' started by smoe \| done$' $r/log.txt && fail "$r/log.txt holds: $(cat $r/log.txt)"
    status 0 smoe train --resume $r -q train.steps=9 >out
done
