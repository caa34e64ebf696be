# A clock that does not move, as a coarse one between two ticks: every rate is a finite number. One that jumps.
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

# A wall clock that jumps, back by an hour and forward by a century at each reading: dates differ, nothing else does.
cat >jumps.c <<'END'
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *t) {
    static long count;
    int status = (int)syscall(SYS_clock_gettime, which, t);
    if (which == CLOCK_REALTIME) t->tv_sec += ++count * atol(getenv("JUMP"));
    return status;
}
time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
END
"${CC:-cc}" -shared -fPIC -o jumps.so jumps.c 2>err || skip "no library: $(head -n 1 err)"
short="train.steps=10 train.schedule.cooldown=0"
status 0 smoe train tiny.yaml -q -j1 $short -o steady >/dev/null
for jump in -3600 3000000000; do
    export JUMP=$jump LD_PRELOAD=$PWD/jumps.so
    status 0 smoe train tiny.yaml -j1 $short -o jumped >shown 2>err
    status 0 smoe sweep tiny.yaml seed=0,1 $short -J 2 -o cells >>shown 2>>err
    status 0 smoe sweep --status cells >>shown
    status 0 smoe watch --once cells >>shown
    status 0 smoe verify jumped cells -q
    unset LD_PRELOAD
    grep -E '(^|[ :,])-[0-9.]+ ?(s|:|h)|(wall_s|_per_s|waited_s|infer_s)":-' shown err jumped/metrics.jsonl cells/*/metrics.jsonl && fail "a time below 0"
    same_run steady jumped
    rm -r jumped cells
done
