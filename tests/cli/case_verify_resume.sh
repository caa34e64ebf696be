# verify-resume: two runs that are the same; a run too short to be killed in time; what is kept; a difference is detected.
. "$ROOT/tests/cli/lib.sh"
mkdir tmp
TMPDIR=$PWD/tmp status 0 smoe verify-resume tiny.yaml train.steps=120 train.eval_every=0 data.augment.flip=true >out
grep -qE '^killed +after the checkpoint of step [0-9]+, and resumed$' out || fail "$(cat out)"
grep -qE '^model +the same bytes$' out && grep -qE '^state +the same bytes$' out || fail "$(cat out)"
grep -qE '^records +all [0-9]+ are the same, except for times$' out || fail "$(cat out)"
[ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"
status 0 smoe verify-resume tiny.yaml train.steps=120 train.eval_every=0 -o kept --json >json
grep -q '"same": true' json && grep -q '"dir": "kept"' json || fail "$(cat json)"
grep -q resumed kept/parts/log.txt && ! grep -q resumed kept/whole/log.txt || fail "$(cat kept/parts/log.txt)"
# Checkpoints of several files.
status 0 smoe verify-resume tiny.yaml train.steps=120 train.eval_every=0 train.shard_bytes=9000 -o shards >out
grep -qE '^model +the same bytes$' out && [ -e shards/whole/ckpt/latest/model-00002-of-* ] || fail "of several files: $(cat out)"
# A difference is detected, here of the average: of the resumed run another file is opened.
cat >other.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
FILE *fopen(const char *path, const char *mode) {
    FILE *(*real)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return real(strstr(path, "/parts/ckpt/latest/ema") ? "/dev/null" : path, mode);
}
END
if "${CC:-cc}" -shared -fPIC -o other.so other.c -ldl 2>/dev/null; then
    status 1 env LD_PRELOAD="$PWD/other.so" smoe verify-resume tiny.yaml -q train.steps=120 train.eval_every=0 train.ema=0.9 -o average >out 2>err
    grep -qE '^model +different$' out && grep -qE '^state +the same bytes$' out || fail "$(cat out err)"
fi
# Training ends with the command that began it.
smoe verify-resume tiny.yaml -q train.steps=1000000 train.eval_every=0 -o ended >/dev/null 2>&1 &
wait_for ended/whole/metrics.jsonl 3
kill -TERM $!
wait $!
wait_for_text ended/whole/STATUS '^stopped'
cat tiny.yaml | status 0 smoe verify-resume - train.steps=120 train.eval_every=0 >out
grep -qE '^state +the same bytes$' out || fail "of standard input: $(cat out)"
status 2 smoe verify-resume tiny.yaml -o kept 2>err
grep -q '^smoe verify-resume: kept: cannot be created: File exists$' err || fail "$(cat err)"
: >file
status 1 smoe verify-resume tiny.yaml -o file/x 2>err
status 2 smoe verify-resume tiny.yaml train.steps=2 2>err
grep -q 'train.steps is 2: at least 4 are needed' err || fail "$(cat err)"
status 2 smoe verify-resume tiny.yaml train.stepz=40 2>err
# Without /proc the program cannot start itself, and says so.
if unshare -m mount -t tmpfs none /proc 2>/dev/null; then
    status 1 unshare -m sh -c 'mount -t tmpfs none /proc && smoe verify-resume tiny.yaml -q train.steps=8' 2>err
    grep -q '^smoe verify-resume: cannot start /proc/self/exe: No such file or directory$' err || fail "without /proc: $(cat err)"
fi
# A run without a checkpoint within an hour, of a clock that is fast.
if "${CC:-cc}" -shared -fPIC -o faults.so "$ROOT/tests/faults/faults.c" -ldl 2>/dev/null; then
    status 1 env FAULT_CLOCK=100000000 LD_PRELOAD="$PWD/faults.so" smoe verify-resume tiny.yaml -q train.steps=120 train.eval_every=0 -o late 2>err
    grep -qx 'smoe verify-resume: late/parts: no checkpoint within 60 minutes; train with fewer steps or images' err || fail "$(cat err)"
fi
