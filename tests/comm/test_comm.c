/* Sums over processes, sums of parts, agreement between processes, and exchanges in the background,
 * over a link of sockets. */
#include "comm/comm.h"
#include "forked.h"
#include "unit.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const int sizes[] = {1, 2, 4, 8};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Numbers whose sum differs in its rounding for every order. */
static double number(size_t rank, size_t k) {
    double x = (double)(1 + (rank * 7 + k * 13) % 11) / 3;
    for (size_t i = 0; i < (rank * 5 + k) % 7; i++) x *= rank % 2 ? -64 : 64;
    return x;
}

static double tree(size_t first, size_t count, size_t k) {
    if (count == 1) return number(first, k);
    return tree(first, count / 2, k) + tree(first + count / 2, count / 2, k);
}

static real real_tree(size_t first, size_t count, size_t k) {
    if (count == 1) return (real)number(first, k);
    return real_tree(first, count / 2, k) + real_tree(first + count / 2, count / 2, k);
}

static bool sums(smoe_comm *c, void *user) {
    enum { N = 600 }; /* more than one message holds */
    double x[N];
    (void)user;
    for (size_t k = 0; k < N; k++) x[k] = number((size_t)c->rank, k);
    smoe_comm_sum(c, x, N);
    bool good = true;
    for (size_t k = 0; k < N; k++) good = good && x[k] == tree(0, (size_t)c->size, k);
    return good;
}

static void sums_follow_the_tree(void **state) {
    for (int i = 0; i < SIZES; i++) assert_true(forked_run(sizes[i], sums, NULL));
}

/* Integers, in more messages than one; 128 bits with a carry from the lower half. */
static bool sums_integers(smoe_comm *c, void *user) {
    enum { N = 3000 };
    static uint64_t count[N];
    static smoe_exact exact[N];
    double large[2] = {c->rank == c->size - 1 ? 7 : 0.5, -1 - c->rank};
    uint64_t R = (uint64_t)c->size, rank = (uint64_t)c->rank;
    bool good = true;
    (void)user;
    for (size_t k = 0; k < N; k++) {
        count[k] = k * R + rank;
        exact[k] = (smoe_exact){UINT64_MAX - rank, k};
    }
    smoe_comm_sum_counts(c, count, N);
    smoe_comm_sum_exact(c, exact, N);
    smoe_comm_largest(c, large, 2);
    for (size_t k = 0; k < N; k++) {
        uint64_t ranks = R * (R - 1) / 2; /* 0 + 1 .. + R - 1 */
        good = good && count[k] == k * R * R + ranks;
        /* the low halves, 2^64 - 1 - rank each, are R 2^64 - R - ranks together */
        good = good && exact[k].high == k * R + R - 1 && exact[k].low == -(R + ranks);
    }
    return good && large[0] == 7 && large[1] == -1;
}

static void integers_are_summed(void **state) {
    for (int i = 0; i < SIZES; i++) assert_true(forked_run(sizes[i], sums_integers, NULL));
}

/* Sums are scattered, then gathered: every process has everything. Some sizes leave some
 * processes with nothing, and some last units are short. */
static bool scatters(smoe_comm *c, void *user) {
    const size_t *shape = user, size = shape[0], unit = shape[1], n = (size + unit - 1) / unit;
    real *x = malloc((size + 1) * sizeof *x), *block = malloc(SMOE_COMM_BLOCK * sizeof *block);
    size_t first, end, R = (size_t)c->size;
    bool good = true;
    for (size_t k = 0; k < size; k++) x[k] = (real)number((size_t)c->rank, k);
    smoe_comm_range(c, n, &first, &end);
    smoe_comm_scatter_sum(c, x, size, unit, (smoe_stretch){0, size}, block);
    for (size_t k = first * unit; k < end * unit && k < size; k++)
        good = good && x[k] == real_tree(0, R, k);
    smoe_comm_gather(c, x, size * sizeof *x, unit * sizeof *x, SMOE_TRAFFIC_WEIGHTS);
    for (size_t k = 0; k < size; k++) good = good && x[k] == real_tree(0, R, k);
    /* what a process sends: all but its own part, and as predicted */
    uint64_t sent = c->sent[SMOE_TRAFFIC_GRADIENTS].bytes, got = size * sizeof *x;
    smoe_comm counted = {.size = c->size, .rank = c->rank};
    if (size % (R * unit) == 0) good = good && sent == got / R * (R - 1);
    smoe_comm_scatter_sum(&counted, NULL, size, unit, (smoe_stretch){0, size}, NULL);
    smoe_comm_gather(&counted, NULL, size * sizeof *x, unit * sizeof *x, SMOE_TRAFFIC_WEIGHTS);
    good = good && !memcmp(counted.sent, c->sent, sizeof c->sent);
    free(x);
    free(block);
    return good;
}

static void what_is_scattered_and_gathered_is_the_sum(void **state) {
    size_t shapes[][2] = {
        {64, 1}, {64, 16}, {1000, 16}, {37, 16}, {3, 16}, {0, 16}, {3 * SMOE_COMM_BLOCK + 5, 32}};
    for (int i = 0; i < SIZES; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            assert_true(forked_run(sizes[i], scatters, shapes[k]));
}

/* Parts of x are summed, in the ranges of the whole, and what is between them stays. */
static bool scatters_parts(smoe_comm *c, void *user) {
    enum { SIZE = 1000, UNIT = 16, PARTS = 5 };
    /* within a unit, none, over several ranges, the last unit, which is short */
    const smoe_stretch part[PARTS] = {{3, 9}, {100, 100}, {120, 870}, {871, 880}, {990, SIZE}};
    real x[SIZE], *block = malloc(SMOE_COMM_BLOCK * sizeof *block);
    size_t first, end, R = (size_t)c->size;
    smoe_comm counted = {.size = c->size, .rank = c->rank};
    bool good = true, summed[SIZE] = {false};
    (void)user;
    for (size_t k = 0; k < SIZE; k++) x[k] = (real)number((size_t)c->rank, k);
    smoe_comm_range(c, (SIZE + UNIT - 1) / UNIT, &first, &end);
    for (size_t i = 0; i < PARTS; i++) {
        smoe_comm_scatter_sum(c, x, SIZE, UNIT, part[i], block);
        smoe_comm_scatter_sum(&counted, NULL, SIZE, UNIT, part[i], NULL);
        for (size_t k = part[i].first; k < part[i].end; k++) summed[k] = true;
    }
    for (size_t k = 0; k < SIZE; k++) {
        bool here = k >= first * UNIT && k < end * UNIT;
        if (!summed[k]) good = good && x[k] == (real)number((size_t)c->rank, k);
        if (summed[k] && here) good = good && x[k] == real_tree(0, R, k);
    }
    free(block);
    return good && !memcmp(counted.sent, c->sent, sizeof c->sent);
}

static void parts_are_summed_in_the_ranges_of_the_whole(void **state) {
    for (int i = 0; i < SIZES; i++) assert_true(forked_run(sizes[i], scatters_parts, NULL));
}

/* The parts of all, and as many bytes as predicted: one part less than there are. */
static bool collects(smoe_comm *c, void *user) {
    const size_t part = *(const size_t *)user, R = (size_t)c->size, own = part * (size_t)c->rank;
    unsigned char *x = calloc(R, part + 1);
    smoe_comm counted = {.size = c->size, .rank = c->rank};
    bool good = true;
    for (size_t k = 0; k < part; k++) x[own + k] = (unsigned char)(own + k * k);
    smoe_comm_collect(c, x, part);
    for (size_t r = 0; r < R; r++)
        for (size_t k = 0; k < part; k++)
            good = good && x[r * part + k] == (unsigned char)(r * part + k * k);
    smoe_comm_collect(&counted, NULL, part);
    good = good && counted.sent[SMOE_TRAFFIC_GRADIENTS].bytes == (R - 1) * part;
    good = good && !memcmp(counted.sent, c->sent, sizeof c->sent);
    free(x);
    return good;
}

static void parts_are_collected_in_the_order_of_processes(void **state) {
    size_t parts[] = {0, 1, 24, 100001};
    for (int i = 0; i < SIZES; i++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            assert_true(forked_run(sizes[i], collects, &parts[k]));
}

static bool joins(smoe_comm *c, void *user) {
    enum { N = 40000 };
    static float x[N];
    (void)user;
    for (size_t k = 0; k < N; k++)
        x[k] = k % (size_t)c->size == (size_t)c->rank ? (float)number(1, k) : 0;
    x[0] = c->rank ? 0.0F : -0.0F;
    smoe_comm_join(c, x, sizeof x);
    bool good = signbit(x[0]);
    for (size_t k = 1; k < N; k++) good = good && x[k] == (float)number(1, k);
    return good;
}

static void parts_are_joined_to_the_bit(void **state) {
    for (int i = 0; i < SIZES; i++) assert_true(forked_run(sizes[i], joins, NULL));
}

static void ranges_are_a_partition(void **state) {
    for (int size = 1; size <= 16; size *= 2)
        for (size_t n = 0; n < 40; n++) {
            unsigned char owned[40] = {0};
            for (int rank = 0; rank < size; rank++) {
                smoe_comm c = {.rank = rank, .size = size};
                size_t first, end;
                smoe_comm_range(&c, n, &first, &end);
                assert_true(first <= end && end <= n && end - first <= n / (size_t)size + 1);
                for (size_t i = first; i < end; i++) owned[i]++;
            }
            for (size_t i = 0; i < n; i++) assert_int_equal(owned[i], 1);
        }
}

/* user: a bit for each process that fails. */
static bool agrees(smoe_comm *c, void *user) {
    unsigned failing = *(const unsigned *)user, all = (1U << c->size) - 1;
    unsigned flags = c->rank == c->size - 1 ? 4 : 1;
    bool fails = failing >> c->rank & 1;
    smoe_err err = {0};
    char want[64];
    int first = 0;
    if (fails) smoe_fail(&err, SMOE_DATA, "image %d is bad", c->rank);
    int status = smoe_comm_agree(c, fails ? -1 : 0, &flags, &err);
    if (c->size == 1) return status == (fails ? -1 : 0);
    if (flags != (c->size > 1 ? 5 : 4)) return false;
    if (!failing) return !status && !c->agreed;
    while (!(failing >> first & 1)) first++;
    snprintf(want, sizeof want, "process %d of %d on here: image %d is bad", first, c->size, first);
    if (failing == all) snprintf(want, sizeof want, "image 0 is bad");
    return status == -1 && c->agreed && err.code == SMOE_DATA && !strcmp(err.text, want);
}

/* Any number of processes, not only powers of two. */
static void a_failure_of_one_is_that_of_all(void **state) {
    for (int size = 1; size <= 5; size++)
        for (unsigned failing = 0; failing < 1U << size; failing++)
            assert_true(forked_run(size, agrees, &failing));
}

static bool differs(smoe_comm *c, void *user) {
    const int *odd = user; /* the process that has a different value */
    smoe_err err = {0};
    const char *text = c->rank == *odd ? "depth: 3" : "depth: 2";
    int status = smoe_comm_same(c, "spec", text, strlen(text), &err);
    if (*odd >= c->size) return !status;
    char want[80];
    snprintf(want, sizeof want, "process %d of %d on here: another spec than process 0 has", *odd,
             c->size);
    return status == -1 && err.code == SMOE_USAGE && !strcmp(err.text, want);
}

static void a_process_with_another_spec_is_named(void **state) {
    for (int odd = 1; odd < 4; odd++) assert_true(forked_run(4, differs, &odd));
    int nobody = 4;
    assert_true(forked_run(4, differs, &nobody));
}

/* More exchanges than may wait, in several sizes, before and after the thread is stopped. */
static bool begins_and_ends(smoe_comm *c, void *user) {
    enum { N = 30, LONGEST = 200000 };
    static unsigned char out[N][LONGEST], in[N][LONGEST];
    uint64_t number[N], sent = 0;
    bool good = true;
    (void)user;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            size_t bytes = i % 3 ? (size_t)(i * i * 200) : 0;
            int other = c->rank ^ (1 + i % (c->size - 1));
            memset(out[i], 1 + c->rank + 8 * i, bytes);
            memset(in[i], 0, bytes);
            number[i] = smoe_comm_begin(c, other, out[i], bytes, in[i], bytes);
            sent += bytes;
        }
        for (int i = 0; i < N; i++) {
            size_t bytes = i % 3 ? (size_t)(i * i * 200) : 0;
            int other = c->rank ^ (1 + i % (c->size - 1));
            smoe_comm_end(c, number[i]);
            for (size_t k = 0; k < bytes; k++)
                good = good && in[i][k] == (unsigned char)(1 + other + 8 * i);
        }
        double sum = 1; /* other exchanges may follow */
        smoe_comm_sum(c, &sum, 1);
        good = good && sum == c->size;
        smoe_comm_stop(c);
    }
    return good && c->sent[SMOE_TRAFFIC_SLOTS].bytes == sent &&
           c->sent[SMOE_TRAFFIC_SLOTS].messages == 2 * N * 2 / 3;
}

static void what_was_begun_arrives_by_its_end(void **state) {
    for (int i = 1; i < SIZES; i++) assert_true(forked_run(sizes[i], begins_and_ends, NULL));
}

/* Process 1 begins only when process 0 is back from its own beginning. */
static bool computes_meanwhile(smoe_comm *c, void *user) {
    atomic_int *back = user;
    int out = 7 + c->rank, in = 0;
    for (int i = 0; c->rank && !atomic_load(back); i++) {
        if (i == 10000) return false;
        usleep(1000);
    }
    uint64_t number = smoe_comm_begin(c, c->rank ^ 1, &out, sizeof out, &in, sizeof in);
    atomic_store(back, 1);
    smoe_comm_end(c, number);
    return in == 7 + (c->rank ^ 1);
}

static void the_caller_computes_meanwhile(void **state) {
    atomic_int *back =
        mmap(NULL, sizeof *back, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(back, MAP_FAILED);
    assert_true(forked_run(2, computes_meanwhile, back));
    munmap(back, sizeof *back);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_follow_the_tree),
        cmocka_unit_test(integers_are_summed),
        cmocka_unit_test(what_is_scattered_and_gathered_is_the_sum),
        cmocka_unit_test(parts_are_summed_in_the_ranges_of_the_whole),
        cmocka_unit_test(parts_are_collected_in_the_order_of_processes),
        cmocka_unit_test(parts_are_joined_to_the_bit),
        cmocka_unit_test(ranges_are_a_partition),
        cmocka_unit_test(a_failure_of_one_is_that_of_all),
        cmocka_unit_test(a_process_with_another_spec_is_named),
        cmocka_unit_test(what_was_begun_arrives_by_its_end),
        cmocka_unit_test(the_caller_computes_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
