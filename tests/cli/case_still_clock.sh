# A clock that does not move, as a coarse one between two ticks: every rate is a finite number.
. "$ROOT/tests/cli/lib.sh"
command -v "${CC:-cc}" >/dev/null || skip "no compiler"
cat >still.c <<'END'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *t) {
    if (which == CLOCK_REALTIME) return (int)syscall(SYS_clock_gettime, which, t);
    *t = (struct timespec){.tv_sec = 1000};
    return 0;
}
END
"${CC:-cc}" -shared -fPIC -o still.so still.c 2>err ||
    skip "no library: $(head -n 1 err)"

# finite NAME ...: runs the command NAME ... with that clock; nothing that it prints is infinite or
# not a number.
finite() {
    LD_PRELOAD=$PWD/still.so status 0 smoe "$@" -j1 >text 2>err
    cat text err | grep -iE '(^|[^a-z])-?(inf|nan)([^a-z]|$)' && fail "smoe $*"
}
finite train tiny.yaml train.steps=2 train.log_every=1 -o run
grep -q '"train/images_per_s":[0-9]' run/metrics.jsonl ||
    fail "no rate: $(head -n 2 run/metrics.jsonl)"
grep -q '"test/infer_s":[1-9]' run/metrics.jsonl || fail "no time: $(tail -n 1 run/metrics.jsonl)"
finite bench tiny.yaml --rounds 1
finite bench tiny.yaml --rounds 1 --json
grep -q '"gemm_gflops": [0-9]' text || fail "no rate: $(cat text)"
