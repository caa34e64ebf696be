# Standard files that the caller closed: output goes into no file of the run, and a closed standard output is a failure
# although the run itself is done.
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
# Standard error whose reader closes it, as in `2>&1 | head -1`: the run finishes all the same. A result without a reader
# ends the program as it ends other programs: quietly, by SIGPIPE.
mkfifo pipe
exec 3<>pipe 4>pipe 3<&-
status 0 run no-reader 2>&4 >out
same_run open no-reader
run unread >&4 2>err
[ $? -eq 141 ] || fail "status $? where nobody reads the result: $(cat err)"
grep -q 'smoe train' err && fail "said: $(cat err)"
same_run open unread
run deaf >&4 2>&4
same_run open deaf
grep -q '^done' deaf/STATUS || fail "STATUS is $(cat deaf/STATUS)"
smoe cost tiny.yaml --json >&4 2>err
[ $? -eq 141 ] && [ ! -s err ] || fail "cost --json unread: $(cat err)"
# A file in use that is truncated raises SIGBUS: a one-line message, not a crash.
smoe train tiny.yaml -q train.steps=100000 -o cut 2>err &
wait_for cut/metrics.jsonl 5
kill -BUS $!
wait $!
[ $? -eq 3 ] || fail "not status 3: $(cat err)"
grep -q '^smoe: a mapped file was truncated' err || fail "$(cat err)"
# Little stack that cannot be enlarged.
(ulimit -s 256; smoe train tiny.yaml -q -o small) >out || fail "a stack of 256 KiB is enough"
