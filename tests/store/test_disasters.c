/* Neither SIGKILL nor a full disk destroys a checkpoint of a run. */
#include "run_folder.h"
#include "unit.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A write that fails in the middle of a checkpoint. */
static void test_file_limit(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_record(run, 1, 1, &r->err), 0);
    assert_int_equal(run_folder_checkpoint(r, run, 1, 1, 1), 0);
    struct rlimit limit, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    low = limit;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    /* within the model; within the state, twice as large; within a line of the metrics */
    size_t model = RUN_FOLDER_BIG * sizeof(real);
    rlim_t limits[] = {4096, model / 2, model + 8192, 40};
    for (int i = 0; i < 4; i++) {
        low.rlim_cur = limits[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        int status = i < 3 ? run_folder_checkpoint(r, run, 2, 2, 1)
                           : run_folder_record(run, 2, 0.123456789, &r->err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(status, -1);
        assert_int_equal(r->err.code, SMOE_RUNTIME);
        assert_non_null(strstr(r->err.text, "File too large"));
        assert_non_null(strstr(r->err.text, i < 2   ? "model.safetensors"
                                            : i < 3 ? "state.safetensors"
                                                    : "metrics.jsonl"));
        run_folder_assert_file(r, "metrics.jsonl",
                               "{\"step\":1,\"train/loss\":1.0}\n"); /* no partial line */
        char ckpt[SCRATCH_PATH + 8];
        snprintf(ckpt, sizeof ckpt, "%s/ckpt", r->run);
        assert_int_equal(scratch_entries(ckpt), 3);
        assert_int_equal(run_folder_restored(r, run), 1);
    }
    signal(SIGXFSZ, before);
    assert_int_equal(run_folder_checkpoint(r, run, 2, 2, 1), 0); /* space again: it continues */
    run_folder_assert_kept(r, "2");
    run_folder_closed(r, run, "done");
}

/* In a child process with its own 1 MB file system; its exit status is the line that failed, or
 * 77 if it is not allowed to mount. */
#define NEED(condition) \
    if (!(condition)) _exit(__LINE__ % 200 + 1)

static bool write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "w");
    if (!out) return false;
    bool good = fputs(text, out) >= 0;
    return !fclose(out) && good;
}

/* A mount that nobody else sees, as root of a user namespace, which any user can be if the
 * system allows it. */
static bool small_disk(const char *where) {
    char users[64], groups[64];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)getuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getgid());
    return !unshare(CLONE_NEWUSER | CLONE_NEWNS) && write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups) &&
           !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", where, "tmpfs", 0, "size=1m");
}

static void child_fills_disk(run_folder *r) {
    if (!small_disk(r->scratch.dir)) _exit(255);
    smoe_run *run;
    NEED(!smoe_run_open(&run, r->run, SMOE_RUN_NEW, &r->spec, NULL, &r->err));
    NEED(!run_folder_checkpoint(r, run, 1, 1, 99));
    uint64_t step = 1;
    while (step < 20 && !run_folder_checkpoint(r, run, step + 1, 1, 99)) step++;
    NEED(step > 1 && step < 20);
    NEED(r->err.code == SMOE_RUNTIME && strstr(r->err.text, "No space left on device"));
    NEED(!smoe_run_close(run, "failed", NULL));
    NEED(!smoe_run_open(&run, r->run, SMOE_RUN_RESUME, &r->spec, NULL, &r->err));
    smoe_checkpoint at;
    NEED(smoe_run_restore(run, &r->params, &at, &r->err) == 1);
    NEED(at.step == step && run_folder_filled(&r->params, step));
    _exit(0);
}

static void test_full_disk(void **state) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) child_fills_disk(*state);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 255) {
        print_message(
            "no file system may be mounted here: the full disk is left to the file limit\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Writes checkpoints and records until killed. */
static void child_writes(run_folder *r, smoe_run_mode mode, uint64_t step) {
    smoe_run *run;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails first */
    if (smoe_run_open(&run, r->run, mode, &r->spec, NULL, &r->err) ||
        smoe_run_begin(run, &r->spec, &r->err))
        _exit(1);
    for (step++;; step++) {
        if (run_folder_record(run, (int)step, 0.5, &r->err)) _exit(2);
        if (run_folder_checkpoint(r, run, step, step % 3 ? step : 0, 2)) _exit(3);
    }
}

/* The records must be those of steps 1 .. step, each once. */
static void assert_records(run_folder *r, uint64_t step) {
    char *text = run_folder_read(r, "metrics.jsonl"), *rest = text;
    for (uint64_t i = 1; i <= step; i++) {
        char want[64], *line = strsep(&rest, "\n");
        snprintf(want, sizeof want, "{\"step\":%" PRIu64 ",\"train/loss\":0.5}", i);
        assert_string_equal(line, want);
    }
    assert_string_equal(rest, "");
    free(text);
}

/* After a kill: the run opens, and continues from a complete checkpoint. Returns its step, 0 for
 * none. */
static uint64_t survivor(run_folder *r) {
    smoe_run *run = run_folder_opened(r, SMOE_RUN_RESUME);
    smoe_checkpoint at = {0};
    run_folder_fill(&r->params, 4000);
    int found = smoe_run_restore(run, &r->params, &at, &r->err);
    if (found < 0) fail_msg("%s", r->err.text);
    if (found) {
        double wall_s;
        assert_true(run_folder_filled(&r->params, at.step));
        assert_int_equal(
            smoe_run_truncate(run, &(smoe_checkpoint){.step = at.step}, &wall_s, &r->err), 0);
    }
    assert_records(r, at.step);
    run_folder_closed(r, run, NULL);
    return at.step;
}

/* A kill may leave checkpoints that were about to be deleted; the next undisturbed checkpoint
 * removes all of them: the two links, the two newest and the best remain. */
static void assert_tidied(run_folder *r, uint64_t step) {
    char ckpt[SCRATCH_PATH + 8];
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", r->run);
    smoe_run *run = run_folder_opened(r, SMOE_RUN_RESUME);
    assert_int_equal(run_folder_record(run, (int)step + 1, 0.5, &r->err), 0);
    assert_int_equal(run_folder_checkpoint(r, run, step + 1, 0, 2), 0);
    run_folder_closed(r, run, NULL);
    assert_true(scratch_entries(ckpt) <= 2 + 2 + 1);
}

/* Waits until a checkpoint beyond `step` is linked; a minute is enough on the busiest machine. */
static void await_progress(const run_folder *r, uint64_t step) {
    char path[SCRATCH_PATH + 16], target[64] = "";
    snprintf(path, sizeof path, "%s/ckpt/latest", r->run);
    for (int tries = 0; tries < 60000; tries++) {
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 5 && strtoull(target + 5, NULL, 10) > step) return;
        usleep(1000);
    }
    fail_msg("no checkpoint in a minute");
}

static void test_killed_at_any_moment(void **state) {
    run_folder *r = *state;
    uint64_t random = 88172645463325252u, step = 0;
    enum { KILLS = 60 };
    for (int kills = 0; kills < KILLS; kills++) {
        smoe_run_mode mode = run_folder_has(r, "") ? SMOE_RUN_RESUME : SMOE_RUN_NEW;
        bool late = kills % 2; /* every second one is killed right after its start */
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) child_writes(r, mode, step);
        random ^= random << 13; /* xorshift */
        random ^= random >> 7;
        random ^= random << 17;
        if (late) await_progress(r, step);
        usleep((useconds_t)(random % (late ? 20000 : 3000)));
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) fail_msg("the writer failed at place %d", WEXITSTATUS(status));
        if (!run_folder_has(r, "")) continue; /* killed before mkdir */
        uint64_t now = survivor(r);
        assert_true(late ? now > step : now >= step);
        step = now;
    }
    assert_true(step >= KILLS / 2);
    assert_tidied(r, step);
}

#define TEST(name) unit_test_with(name, run_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        /* Tests that fork come first: OpenMP's threads are not inherited. */
        TEST(test_full_disk),
        TEST(test_killed_at_any_moment),
        TEST(test_file_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
