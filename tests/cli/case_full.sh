# No space left, by a limit on the size of files: status 1 naming a file, and the checkpoint before it is still good.
. "$ROOT/tests/cli/lib.sh"
smoe train tiny.yaml -q train.steps=100000 train.keep=1 -o run &
wait_for run/metrics.jsonl 20
kill -TERM $!
wait $!
before=$(readlink run/ckpt/latest)
size=$(wc -c <run/ckpt/latest/state.safetensors)
# In blocks of 512 bytes: enough for the metrics, not for another checkpoint.
(ulimit -f $((size / 512 - 2)) && exec smoe train --resume run -q) 2>err
got=$?
[ $got -eq 1 ] || fail "status $got, not 1: $(cat err)"
grep -qE 'run/.*: .*(File too large|No space)' err || fail "the message names no file: $(cat err)"
[ "$(readlink run/ckpt/latest)" = "$before" ] || fail "latest moved from $before to $(readlink run/ckpt/latest)"
status 0 smoe eval run -q >/dev/null
[ -z "$(ls -A run/ckpt | grep tmp)" ] || fail "left behind: $(ls -A run/ckpt)"
