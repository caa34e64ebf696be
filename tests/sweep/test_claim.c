/* Claims: one holder at a time, even if many processes try at once; which holders are gone, and
 * which only appear so. */
#include "base/clock.h"
#include "sweep/claim.h"
#include "scratch.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int take(smoe_claim *claim, const char *path, smoe_claim_seen *seen) {
    smoe_err err;
    return smoe_claim_take(claim, path, SMOE_CLAIM_LEASE, seen, &err);
}

static void one_process_holds_a_claim(void **state) {
    char path[SCRATCH_PATH];
    smoe_claim first, second;
    smoe_err err;
    scratch_path(*state, path, "a.claim");
    assert_null(smoe_claim_holder(path));
    assert_int_equal(take(&first, path, NULL), 1);
    assert_int_equal(take(&second, path, NULL), 0);
    char *holder = smoe_claim_holder(path), want[64];
    snprintf(want, sizeof want, "process %ld on ", (long)getpid());
    assert_non_null(strstr(holder, want));
    free(holder);
    assert_int_equal(smoe_claim_renew(&first, getppid(), &err), 0); /* another worker: written */
    assert_int_equal(first.beat, 1);
    assert_int_equal(smoe_claim_renew(&first, getppid(), &err), 0);
    assert_int_equal(first.beat, 1);
    smoe_claim_release(&first);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(take(&second, path, NULL), 1);
    smoe_claim_release(&second);
}

/* A worker that outlives the process that took the claim keeps the claim. */
static void a_worker_keeps_the_claim(void **state) {
    char path[SCRATCH_PATH];
    smoe_claim claim;
    scratch_path(*state, path, "b.claim");
    pid_t worker = fork();
    if (!worker)
        for (;;) pause();
    pid_t parent = fork();
    if (!parent) {
        smoe_err err;
        _exit(take(&claim, path, NULL) == 1 && !smoe_claim_renew(&claim, worker, &err) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_int_equal(status, 0);
    assert_int_equal(take(&claim, path, NULL), 0);
    kill(worker, SIGKILL);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    assert_int_equal(take(&claim, path, NULL), 1);
    smoe_claim_release(&claim);
}

static void write_foreign(const char *path, int beat) {
    char text[256];
    int n = snprintf(text, sizeof text,
                     "{\"node\":\"far\",\"place\":\"x\",\"pid\":7,\"began\":1,\"worker\":0,"
                     "\"token\":\"t\",\"beat\":%d,\"lease_s\":1}",
                     beat);
    scratch_write(path, text, (size_t)n);
}

/* The claim of another machine: it is valid as long as it changes, whatever its clock says, and
 * for one lease after that. */
static void another_machine_is_believed_for_a_lease(void **state) {
    const struct timespec moment = {.tv_nsec = 400000000};
    char path[SCRATCH_PATH];
    smoe_claim claim;
    smoe_claim_seen seen = {0};
    double begin = 0;
    scratch_path(*state, path, "c.claim");
    for (int beat = 0; beat < 4; beat++) { /* 1.6 seconds, renewed */
        write_foreign(path, beat);
        assert_int_equal(take(&claim, path, NULL), 0);
        begin = smoe_now(); /* before the last renewal is seen */
        assert_int_equal(take(&claim, path, &seen), 0);
        nanosleep(&moment, NULL);
    }
    int got;
    while (!(got = take(&claim, path, &seen)))
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(got, 1);
    assert_true(smoe_now() - begin >= 1); /* the lease, in seconds */
    /* Now the other holder notices that it has lost the claim. */
    smoe_err err;
    smoe_claim late = {.path = strdup(path), .token = "t", .lease = 1};
    assert_int_equal(smoe_claim_renew(&late, 0, &err), 1);
    assert_non_null(strstr(err.text, "another process has taken it over"));
    smoe_claim_release(&late);
    assert_int_equal(smoe_claim_renew(&claim, 1, &err), 0); /* and has not removed the new one */
    smoe_claim_release(&claim);
    assert_int_equal(access(path, F_OK), -1);
}

/* What is shown of it follows from the age of its file: an old one is gone, and the time of one from
 * the future says nothing. */
static void another_machine_is_shown_by_age(void **state) {
    static const int off[] = {0, -3600, 3600};
    char path[SCRATCH_PATH];
    scratch_path(*state, path, "g.claim");
    write_foreign(path, 1);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        const struct timespec at = {.tv_sec = time(NULL) + off[i]}, both[2] = {at, at};
        assert_int_equal(utimensat(AT_FDCWD, path, both, 0), 0);
        SMOE_FREED char *holder = smoe_claim_holder(path);
        assert_int_equal(holder != NULL, off[i] == 0);
    }
}

/* A claim file that is missing, because another process took it by mistake and has not restored
 * it, is created again. */
static void a_lost_file_comes_back(void **state) {
    char path[SCRATCH_PATH];
    smoe_claim claim;
    smoe_err err;
    scratch_path(*state, path, "d.claim");
    assert_int_equal(take(&claim, path, NULL), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(smoe_claim_renew(&claim, 1, &err), 0);
    assert_int_equal(access(path, F_OK), 0);
    smoe_claim_release(&claim);
    /* Without hard links, a file is created before it is written: it counts as a claim. */
    scratch_write(path, "", 0);
    assert_int_equal(take(&claim, path, NULL), 0);
}

/* A claim that cannot be written for a while is not lost; it is after half of its lease. */
static void a_full_disk(void **state) {
    const struct rlimit full = {0, RLIM_INFINITY};
    struct rlimit before;
    char path[SCRATCH_PATH];
    smoe_claim claim;
    smoe_err err = {0};
    scratch_path(*state, path, "f.claim");
    assert_int_equal(smoe_claim_take(&claim, path, 2, NULL, &err), 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    int soon = smoe_claim_renew(&claim, getppid(), &err);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    int late = smoe_claim_renew(&claim, getppid(), &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(soon, 0);
    assert_int_equal(late, -1);
    assert_non_null(strstr(err.text, "f.claim: cannot write"));
    assert_int_equal(smoe_claim_renew(&claim, getppid(), &err), 0);
    smoe_claim_release(&claim);
    assert_int_equal(scratch_entries(((const scratch *)*state)->dir), 0);
}

/* Processes that hold the claim in turn, and are killed while they hold it: never two at a time. */
static void many_take_turns(void **state) {
    enum { PROCESSES = 6, TURNS = 40 };
    char path[SCRATCH_PATH], guard[SCRATCH_PATH];
    scratch_path(*state, path, "e.claim");
    scratch_path(*state, guard, "guard");
    pid_t pid[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        pid[p] = fork();
        if (pid[p]) continue;
        for (int turn = 0; turn < TURNS;) {
            smoe_claim claim;
            int got = take(&claim, path, NULL);
            if (got < 0) _exit(2);
            if (!got) continue;
            if (mkdir(guard, 0700)) _exit(3); /* another holder is here */
            if (rmdir(guard)) _exit(4);
            turn++;
            if (p % 2 && turn == TURNS / 2) _exit(0); /* while holding the claim */
            smoe_claim_release(&claim);
        }
        _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_int_equal(waitpid(pid[p], &status, 0), pid[p]);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        unit_test_with(one_process_holds_a_claim, scratch),
        unit_test_with(a_worker_keeps_the_claim, scratch),
        unit_test_with(another_machine_is_believed_for_a_lease, scratch),
        unit_test_with(another_machine_is_shown_by_age, scratch),
        unit_test_with(a_lost_file_comes_back, scratch),
        unit_test_with(a_full_disk, scratch),
        unit_test_with(many_take_turns, scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
