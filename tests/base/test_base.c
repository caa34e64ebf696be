/* The lowest layer: random streams against the published values of Random123 and against their
 * laws; the parameter table, arenas, errors, text. */
#include "base/alloc.h"
#include "base/bf16.h"
#include "base/clock.h"
#include "base/exact.h"
#include "base/param.h"
#include "base/rng.h"
#include "base/team.h"
#include "approx.h"
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- random streams -------------------------------------------------------------------------- */

/* Philox 4x64-10 with counter 0 and key 0, from the known answers that come with Random123. The
 * purpose of a stream is part of its key, so purpose 0 and seed 0 give key 0. */
static void philox_known_answer(void **state) {
    const uint64_t right[] = {0x16554d9eca36314cu, 0xdb20fe9d672d0fdcu, 0xd7e772cee186176bu,
                              0x7e68b68aec7ba23bu};
    smoe_rng rng = smoe_rng_at(0, (smoe_purpose)0, 0, 0, 0);
    for (size_t i = 0; i < 4; i++) assert_true(smoe_rng_u64(&rng) == right[i]);
    assert_true(smoe_rng_u64(&rng) != right[0]); /* the next block differs */
}

/* Each part of a stream's name changes the stream; the same name gives the same stream. */
static void streams_by_name(void **state) {
    const smoe_rng names[] = {
        smoe_rng_at(1, SMOE_RNG_INIT, 2, 3, 4),  smoe_rng_at(2, SMOE_RNG_INIT, 2, 3, 4),
        smoe_rng_at(1, SMOE_RNG_MIXUP, 2, 3, 4), smoe_rng_at(1, SMOE_RNG_INIT, 3, 3, 4),
        smoe_rng_at(1, SMOE_RNG_INIT, 2, 4, 4),  smoe_rng_at(1, SMOE_RNG_INIT, 2, 3, 5),
        smoe_rng_at(1, SMOE_RNG_INIT, 2, 4, 3),
    };
    enum { NAMES = sizeof names / sizeof *names };
    uint64_t first[NAMES];
    for (size_t i = 0; i < NAMES; i++) {
        smoe_rng a = names[i], b = names[i];
        first[i] = smoe_rng_u64(&a);
        assert_true(first[i] == smoe_rng_u64(&b));
        for (size_t j = 0; j < i; j++) assert_true(first[i] != first[j]);
    }
}

/* Of n draws, mean and variance are within five standard errors. All values lie in [0,1). */
static void moments(void **state) {
    enum { N = 20000 };
    smoe_rng rng = smoe_rng_at(3, SMOE_RNG_TEST, 0, 0, 0);
    double sum = 0, squares = 0, fourth = 0, low = 1, high = 0;
    for (size_t i = 0; i < N; i++) {
        double u = smoe_rng_uniform(&rng);
        low = fmin(low, u);
        high = fmax(high, u);
        sum += u / N;
    }
    assert_true(low >= 0 && low < 1e-3 && high < 1 && high > 1 - 1e-3);
    assert_close(sum, 0.5, 5 * sqrt(1. / 12 / N));
    sum = 0;
    for (size_t i = 0; i < N; i++) {
        double x = smoe_rng_normal(&rng);
        sum += x / N;
        squares += x * x / N;
        fourth += x * x * x * x / N;
    }
    assert_close(sum, 0, 5 / sqrt(N));
    assert_close(squares, 1, 5 * sqrt(2. / N));
    assert_close(fourth, 3, 5 * sqrt(96. / N)); /* variance of x^4: 105 - 9 */
}

/* The polar method again, with the C library's logarithm. The logarithms differ by an ulp or
 * two, which the root halves; three more roundings follow: 4e-16 each at most. */
static void normals_are_the_polar_method(void **state) {
    smoe_rng rng = smoe_rng_at(6, SMOE_RNG_TEST, 0, 0, 0), words = rng;
    for (size_t i = 0; i < 20000; i++) {
        double x, y, r2;
        do {
            x = 2 * smoe_rng_uniform(&words) - 1;
            y = 2 * smoe_rng_uniform(&words) - 1;
            r2 = x * x + y * y;
        } while (r2 >= 1 || r2 == 0);
        double f = sqrt(-2 * log(r2) / r2);
        double first = smoe_rng_normal(&rng), second = smoe_rng_normal(&rng);
        assert_close(first, x * f, 1.6e-15 * fabs(x * f));
        assert_close(second, y * f, 1.6e-15 * fabs(y * f));
    }
}

/* Normal numbers do not depend on the portions in which they are drawn, nor on what was drawn
 * from the block before. Neither does the rest of the stream. */
static void normals_in_portions(void **state) {
    enum { N = 600 };
    static const size_t portion[] = {1, 2, 3, 0, 5, 64, 1, 127, 128, 129, 7, 133};
    for (size_t used = 0; used < 6; used++) {
        smoe_rng one = smoe_rng_at(7, SMOE_RNG_TEST, 0, 0, used), other = one;
        for (size_t i = 0; i < used; i++) {
            smoe_rng_u64(&one);
            smoe_rng_u64(&other);
        }
        double x[N], y[N];
        for (size_t i = 0; i < N; i++) x[i] = smoe_rng_normal(&one);
        size_t done = 0;
        for (size_t i = 0; i < sizeof portion / sizeof *portion; done += portion[i++])
            smoe_rng_normals(&other, y + done, portion[i]);
        assert_int_equal(done, N);
        assert_memory_equal(x, y, sizeof x);
        assert_true(smoe_rng_u64(&one) == smoe_rng_u64(&other));
    }
}

/* Uniform numbers below a share are those that are drawn one by one, in any portions; a share that
 * is a number of the stream is above none of its equals. */
static void shares_in_portions(void **state) {
    enum { N = 40 };
    static const size_t portion[] = {1, 2, 3, 0, 5, 4, 8, 17};
    double x[N];
    smoe_rng one = smoe_rng_at(7, SMOE_RNG_TEST, 0, 0, 9);
    for (size_t i = 0; i < N; i++) x[i] = smoe_rng_uniform(&one);
    const double share[] = {0.1, 0.5, 0.9, x[11], nextafter(x[11], 1)};
    for (size_t s = 0; s < sizeof share / sizeof *share; s++) {
        bool below[N];
        size_t done = 0;
        smoe_rng other = smoe_rng_at(7, SMOE_RNG_TEST, 0, 0, 9), rest = one;
        for (size_t i = 0; i < sizeof portion / sizeof *portion; done += portion[i++])
            smoe_rng_below_share(&other, below + done, portion[i], share[s]);
        assert_int_equal(done, N);
        for (size_t i = 0; i < N; i++) assert_int_equal(below[i], x[i] < share[s]);
        assert_true(smoe_rng_u64(&rest) == smoe_rng_u64(&other));
    }
}

static void below_is_unbiased(void **state) {
    enum { N = 12000, FACES = 6 };
    smoe_rng rng = smoe_rng_at(4, SMOE_RNG_TEST, 0, 0, 0);
    size_t count[FACES] = {0};
    for (size_t i = 0; i < N; i++) {
        uint64_t face = smoe_rng_below(&rng, FACES);
        assert_true(face < FACES);
        count[face]++;
    }
    for (size_t i = 0; i < FACES; i++) assert_close(count[i], 2000, 5 * sqrt(N * 5. / 36));
    for (size_t i = 0; i < 50; i++) assert_true(smoe_rng_below(&rng, 1) == 0);
    uint64_t huge = ((uint64_t)1 << 63) + 1; /* half of all words are rejected */
    for (size_t i = 0; i < 50; i++) assert_true(smoe_rng_below(&rng, huge) < huge);
}

/* Each of the 24 orders of four elements occurs equally often. */
static void permutations(void **state) {
    enum { N = 24000 };
    smoe_rng rng = smoe_rng_at(5, SMOE_RNG_TEST, 0, 0, 0);
    size_t count[256] = {0}, orders = 0;
    for (size_t i = 0; i < N; i++) {
        uint32_t p[4], seen = 0;
        smoe_rng_permutation(&rng, p, 4);
        for (size_t k = 0; k < 4; k++) seen |= 1u << p[k];
        assert_int_equal(seen, 15);
        count[p[0] | p[1] << 2 | p[2] << 4 | p[3] << 6]++;
    }
    for (size_t i = 0; i < 256; i++) {
        if (!count[i]) continue;
        orders++;
        assert_close(count[i], 1000, 5 * sqrt(N * 23. / 576));
    }
    assert_int_equal(orders, 24);
    smoe_rng_permutation(&rng, NULL, 0);
}

/* The published FNV-1a values of "" and "a". */
static void names(void **state) {
    assert_int_equal(smoe_rng_name(""), 0x811c9dc5u);
    assert_int_equal(smoe_rng_name("a"), 0xe40c292cu);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void table(smoe_params *params, bool more) {
    const size_t matrix[] = {3, 5}, tall[] = {300, 301}, deep[] = {4, 2, 3};
    *params = (smoe_params){0};
    if (more)
        smoe_params_add(params, smoe_param_normal(SMOE_PARAM_PLAIN, 1), 2, matrix, "first.%d", 7);
    smoe_params_add(params, (smoe_param_kind){SMOE_PARAM_KERNEL, 2, 0.5}, 2, tall, "tall");
    smoe_params_add(params, smoe_param_constant(3), 0, NULL, "scalar");
    smoe_params_add(params, smoe_param_normal(SMOE_PARAM_KERNEL, 1), 3, deep, "kernels");
}

static void parameter_table(void **state) {
    smoe_params params;
    smoe_err err;
    table(&params, true);
    assert_int_equal(params.count, 4);
    assert_int_equal(params.total, 15 + 300 * 301 + 1 + 24);
    assert_string_equal(params.param[0].name, "first.7");
    assert_ptr_equal(smoe_params_find(&params, "scalar"), &params.param[2]);
    assert_null(smoe_params_find(&params, "scala"));
    assert_int_equal(params.param[2].size, 1);
    size_t end = 0;
    for (size_t i = 0; i < params.count; i++) { /* in order, without overlap, on cache lines */
        assert_true(params.param[i].offset >= end);
        assert_int_equal(params.param[i].offset % 16, 0);
        end = params.param[i].offset + params.param[i].size;
    }
    assert_true(params.size >= end);
    for (int slabs = 1; slabs <= 4; slabs++) {
        assert_int_equal(smoe_params_allocate(&params, slabs, &err), 0);
        assert_int_equal(!!params.g + !!params.m + !!params.v, slabs - 1);
    }
    assert_true((uintptr_t)params.w % 64 == 0);
    smoe_params_free(&params);
}

/* Initial values depend on (seed, name) only, not on the rest of the table or the number of
 * threads. Mean 2 and standard deviation 1/2 within five standard errors of 90300 numbers;
 * constants are exact. */
static void initial_values(void **state) {
    smoe_params a, b, c;
    smoe_err err;
    table(&a, true);
    table(&b, false);
    table(&c, false);
    assert_false(smoe_params_allocate(&a, 1, &err) || smoe_params_allocate(&b, 1, &err) ||
                 smoe_params_allocate(&c, 1, &err));
    smoe_threads_set(1);
    smoe_params_init(&a, 9);
    smoe_threads_set(3);
    smoe_params_init(&b, 9);
    smoe_params_init(&c, 10);
    smoe_threads_set(2);
    const real *x = a.w + a.param[1].offset;
    size_t n = a.param[1].size;
    assert_memory_equal(x, b.w + b.param[0].offset, n * sizeof *x);
    assert_memory_not_equal(x, c.w + c.param[0].offset, n * sizeof *x);
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += pow((double)x[i] - mean, 2) / (double)n;
    assert_close(mean, 2, 5 * 0.5 / sqrt((double)n));
    assert_close(var, 0.25, 5 * 0.25 * sqrt(2 / (double)n));
    assert_true(a.w[a.param[2].offset] == 3);
    smoe_params_free(&a);
    smoe_params_free(&b);
    smoe_params_free(&c);
}

/* ---- arenas ---------------------------------------------------------------------------------- */

static void arena(void **state) {
    smoe_arena a = {0};
    smoe_err err;
    char *piece[3];
    assert_null(smoe_arena_take(&a, 3, 1));
    size_t mark = a.used;
    assert_null(smoe_arena_take(&a, 100, 8));
    a.used = mark; /* released: the next piece overlaps it */
    assert_null(smoe_arena_take(&a, 5, 4));
    size_t peak = a.peak;
    assert_int_equal(peak, 64 + 832);
    assert_int_equal(smoe_arena_bind(&a, &err), 0);
    assert_int_equal(a.size, peak);
    assert_int_equal(a.used, 0);
    piece[0] = smoe_arena_take(&a, 3, 1);
    piece[1] = smoe_arena_take(&a, 100, 8);
    a.used = mark;
    piece[2] = smoe_arena_take(&a, 5, 4);
    for (size_t i = 0; i < 3; i++) assert_int_equal((uintptr_t)piece[i] % 64, 0);
    assert_ptr_equal(piece[1], piece[0] + 64);
    assert_ptr_equal(piece[2], piece[1]);
    for (size_t i = 0; i < a.size; i++) assert_int_equal(a.base[i], 0);
    memset(a.base, 1, a.size);
    smoe_arena_free(&a);
    assert_null(a.base);
    smoe_arena_free(&a);
    assert_int_equal(smoe_arena_bind(&a, &err), 0); /* an empty arena is bound as well */
    assert_non_null(a.base);
    smoe_arena_free(&a);
}

/* More than any machine has: an error that states the size, not a crash. */
static void arena_too_large(void **state) {
    smoe_arena a = {0};
    smoe_err err = {0};
    smoe_arena_take(&a, (size_t)1 << 60, 1);
    assert_int_equal(smoe_arena_bind(&a, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, "1.15 EB"));
    assert_null(a.base);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void errors(void **state) {
    smoe_err err = {0};
    assert_int_equal(smoe_fail(&err, SMOE_DATA, "bad %d", 7), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_string_equal(err.text, "bad 7");
    assert_int_equal(err.lines, 1);
    assert_int_equal(smoe_fail_more(&err, SMOE_USAGE, "worse"), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_string_equal(err.text, "bad 7\nworse");
    assert_int_equal(smoe_fail_prefix(&err, "%s", "f"), -1);
    assert_string_equal(err.text, "f: bad 7\nf: worse");
    assert_int_equal(err.lines, 2);
    errno = ENOENT;
    assert_int_equal(smoe_fail_errno(&err, SMOE_RUNTIME, "x"), -1);
    assert_string_equal(err.text, "x: No such file or directory");
    assert_int_equal(err.lines, 1);
    assert_int_equal(smoe_fail(NULL, SMOE_DATA, "nobody looks"), -1);
}

/* Far more lines than fit. If lines are left out, the last line says how many. */
static void errors_that_do_not_fit(void **state) {
    smoe_err err = {0};
    for (int i = 0; i < 500; i++) smoe_fail_more(&err, SMOE_USAGE, "line %d of very many", i);
    assert_int_equal(err.lines, 500);
    assert_true(strlen(err.text) < sizeof err.text);
    assert_int_equal(strncmp(err.text, "line 0 of very many\nline 1 of very many\n", 40), 0);
    const char *last = strrchr(err.text, '\n');
    assert_non_null(last);
    size_t shown = 0, left = strtoul(last + 1 + strcspn(last + 1, "0123456789"), NULL, 10);
    for (const char *at = err.text; at < last; at = strchr(at, '\n') + 1) shown++;
    assert_int_equal(shown + left, 500);

    /* After a long line that did not fit, short ones are counted as left out too. */
    for (int i = 0; i < 3; i++) {
        smoe_fail_more(&err, SMOE_USAGE, "%900d", i);
        smoe_fail_more(&err, SMOE_USAGE, "short");
    }
    assert_int_equal(err.left_out, left + 6);
    assert_int_equal(strtoul(last + 1 + strcspn(last + 1, "0123456789"), NULL, 10), left + 6);
    assert_null(strstr(err.text, "short"));

    /* With a prefix fewer lines fit; all others are counted, and the line with the count has no
     * prefix. */
    smoe_fail_prefix(&err, "prefix");
    assert_int_equal(strncmp(err.text, "prefix: line 0 of very many\n", 28), 0);
    last = strrchr(err.text, '\n');
    shown = 0;
    for (const char *at = err.text; at < last; at = strchr(at, '\n') + 1) shown++;
    assert_int_equal(strncmp(last, "\n... and ", 9), 0);
    assert_int_equal(shown + strtoul(last + 9, NULL, 10), 506);
    assert_int_equal(err.lines, 506);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* ---- BF16 ------------------------------------------------------------------------------------ */

/* Every BF16 number survives a round trip. A number between two neighbours becomes the nearer
 * one, or the even one at the midpoint. For infinities and NaN at least one pattern each
 * survives. */
static void bf16(void **state) {
    for (uint32_t i = 0; i < 1 << 16; i++) {
        float x = smoe_bf16_widen((smoe_bf16)i);
        if (isnan(x)) {
            assert_true(smoe_bf16_round(x) == (i | 0x40));
            continue;
        }
        assert_true(smoe_bf16_round(x) == i);
        if (isinf(x)) continue;
        uint32_t middle = i << 16 | 0x8000, even = i + (i & 1);
        assert_true(smoe_bf16_round(smoe_float_of_bits(middle - 1)) == i);
        assert_true(smoe_bf16_round(smoe_float_of_bits(middle)) == even);
        assert_true(smoe_bf16_round(smoe_float_of_bits(middle + 1)) == i + 1);
    }
    static const struct {
        uint32_t from;
        smoe_bf16 to;
    } rows[] = {
        {0x3f800000, 0x3f80}, /* 1 */
        {0x3f808000, 0x3f80}, /* 1 + 2^-8: a tie, down to even */
        {0x3f818000, 0x3f82}, /* 1 + 3 * 2^-8: a tie, up to even */
        {0x7f7fffff, 0x7f80}, /* the largest float: infinity */
        {0x7f800001, 0x7fc0}, /* a signalling NaN whose payload is lost: still a NaN */
        {0xffc12345, 0xffc1}, /* a quiet one: sign and upper payload are kept */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(smoe_bf16_round(smoe_float_of_bits(rows[i].from)) == rows[i].to);
}

static void text(void **state) {
    assert_int_equal(smoe_text_distance("", ""), 0);
    assert_int_equal(smoe_text_distance("kitten", "sitting"), 3);
    assert_int_equal(smoe_text_distance("abc", ""), 3);
    const char *const words[] = {"experts", "slots", "router"};
    assert_int_equal(smoe_text_nearest("expert", words, 3), 0);
    assert_int_equal(smoe_text_nearest("ruoter", words, 3), 2);
    assert_int_equal(smoe_text_nearest("completely", words, 3), -1);
    /* two letters of four are another word, but two exchanged ones are not */
    assert_int_equal(smoe_text_nearest("list", (const char *const[]){"cost"}, 1), -1);
    assert_int_equal(smoe_text_nearest("csot", (const char *const[]){"cost"}, 1), 0);
    assert_int_equal(smoe_text_nearest("to", (const char *const[]){"std", "two"}, 2), 1);
    assert_int_equal(smoe_text_nearest("to", (const char *const[]){"std"}, 1), -1);
    assert_int_equal(smoe_text_nearest("x", NULL, 0), -1);
    char item[20];
    assert_string_equal(smoe_text_member("great auk", item, sizeof item), "great auk");
    assert_string_equal(smoe_text_member("auk, great", item, sizeof item), "\"auk, great\"");
    char *made = smoe_text_format("%d-%s", 3, "x");
    assert_string_equal(made, "3-x");
    free(made);
    char buf[32];
    assert_string_equal(smoe_text_si(buf, sizeof buf, 1.25e9, "B"), "1.25 GB");
    assert_string_equal(smoe_text_si(buf, sizeof buf, 37.5e6, ""), "37.5 M");
    assert_string_equal(smoe_text_si(buf, sizeof buf, 0, "B"), "0 B");
    assert_string_equal(smoe_text_si(buf, sizeof buf, 999.9996e3, "B"), "1 MB");
}

/* ---- exact sums ------------------------------------------------------------------------------ */

static smoe_exact exact_sum(const double *x, size_t n, size_t first) {
    smoe_exact sum = {0};
    for (size_t i = 0; i < n; i++) smoe_exact_add(&sum, smoe_exact_of(x[(first + i) % n]));
    return sum;
}

static void exact_sums(void **state) {
    /* Doubles lose the 1 and 2^-60 beside 2^40; here they stay, in every order. */
    const double x[] = {0x1p39, 0x1p-60, -0x1p39, 1, -0x1p-62, 0.375};
    enum { N = sizeof x / sizeof *x };
    for (size_t first = 0; first < N; first++) {
        smoe_exact sum = exact_sum(x, N, first);
        assert_int_equal(sum.high, 1);
        assert_int_equal(sum.low, (UINT64_C(3) << 61) + (1 << 4) - (1 << 2));
    }
    /* the values of single terms, negative and tiny ones too */
    const double exact[] = {0, 1, -1, 0.1, -0.1, 0x1p-64, -0x1p-64, 123456.789, -0x1.8p-40, 0x1p40};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        assert_true(fabs(smoe_exact_value(smoe_exact_of(exact[i])) - exact[i]) <= 0x1p-64);
    assert_true(smoe_exact_value(smoe_exact_of(0x1p-70)) == 0);
    assert_true(smoe_exact_value(smoe_exact_of(-0x1p-70)) == 0);
    assert_true(smoe_exact_value(smoe_exact_of(1e300)) == SMOE_EXACT_MOST);
    assert_true(smoe_exact_value(smoe_exact_of(-INFINITY)) == -SMOE_EXACT_MOST);
    assert_true(smoe_exact_value(smoe_exact_of(NAN)) == SMOE_EXACT_MOST);
}

/* ---- clock, threads -------------------------------------------------------------------------- */

static void clocks_and_threads(void **state) {
    smoe_clock clock = {0};
    double start = smoe_now();
    smoe_clock_start(&clock);
    while (smoe_now() - start < 0.002) {
    }
    smoe_clock_lap(&clock, 5);
    double seconds = smoe_now() - start;
    assert_true(clock.seconds[5] >= 0.0019);
    assert_true(clock.seconds[5] <= seconds);
    assert_true(clock.seconds[SMOE_CLOCK_PARTS - 1] == 0);
    assert_true(smoe_since(start) >= seconds);
    assert_true(smoe_since(smoe_now() + 1) == 1e-9); /* what a clock that stands still gives */
    smoe_clock_start(NULL);
    smoe_clock_lap(NULL, SMOE_CLOCK_PARTS - 1);
    for (int n = 1; n <= 3; n++) {
        smoe_threads_set(n);
        assert_int_equal(smoe_threads(), n);
    }
    smoe_threads_set(100000);
    assert_int_equal(smoe_threads(), SMOE_MOST_THREADS);
    smoe_threads_set(0);
    assert_true(smoe_threads() >= 1);
    assert_int_equal(smoe_thread(), 0);
}

/* The same memory for the same thread and use, until more is needed; other memory for others. */
static void rooms_of_threads(void **state) {
    char *at[2] = {0};
    int again = 0;
    smoe_threads_set(2);
#pragma omp parallel num_threads(2) reduction(+ : again)
    {
        char *room = smoe_thread_room(SMOE_ROOM_PRODUCTS, 1000);
        memset(room, 1, 1000);
        again += smoe_thread_room(SMOE_ROOM_PRODUCTS, 10) == room && room[999] == 1;
        again += smoe_thread_room(SMOE_ROOM_GRADIENTS, 1000) != room;
        at[smoe_thread()] = room;
#pragma omp barrier
        room = smoe_thread_room(SMOE_ROOM_PRODUCTS, 100000);
        memset(room, 2, 100000);
        again += (uintptr_t)room % 64 == 0;
    }
    assert_int_equal(again, 6);
    assert_ptr_not_equal(at[0], at[1]);
    smoe_threads_set(0);
}

/* A lack of memory ends the process by the rule of base/alloc.h, not by a signal. */
static void rooms_without_memory(void **state) {
    int status = 0;
    pid_t child = fork();
    if (!child) {
        smoe_thread_room(SMOE_ROOM_SUMS, SIZE_MAX / 2);
        _exit(77);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

static void spin(double seconds) {
    double start = smoe_now();
    while (smoe_now() - start < seconds) {
    }
}

/* One thread works for 4 ms, one for 1 ms, and the third gets no work; then 2 ms pass outside
 * the loop. Machines are late at times, so only lower bounds and the sum are known. */
static void time_of_threads(void **state) {
    smoe_worked worked = {.seconds = {[SMOE_WORK_products] = 1}};
    smoe_threads_set(3);
    double before = smoe_now();
    smoe_team_watch(&worked);
    double start = smoe_now();
    SMOE_SHARED_BY(ABOVE, 2, schedule(static))
    for (int i = 0; i < 2; i++) spin(i ? 0.001 : 0.004);
    spin(0.002);
    double least = smoe_now() - start;
    smoe_team_watched();
    double most = smoe_now() - before, sum = 0;
    for (int w = 0; w < SMOE_TEAM_WORKS; w++) sum += worked.seconds[w];
    assert_true(sum >= 3 * least && sum <= 3 * most);
    assert_true(worked.seconds[SMOE_WORK_ABOVE] >= 0.005);
    assert_true(worked.seconds[SMOE_WORK_alone] >= 0.002);
    assert_true(worked.seconds[SMOE_WORK_waiting] >= 0.004 + 2 * 0.002);
    assert_true(worked.seconds[SMOE_WORK_products] == 0);

    smoe_worked same = worked;
    SMOE_SHARED(products, 1 << 20)
    for (int i = 0; i < 3; i++) spin(0.001);
    assert_memory_equal(&same, &worked, sizeof same);
    smoe_threads_set(0);
}

/* ---- small memory ---------------------------------------------------------------------------- */

static jmp_buf no_memory;

static void jump(void) {
    longjmp(no_memory, 1);
}

/* What cannot be had calls the handler of the user, in the library and in Jansson. */
static void memory_that_is_not_there(void **state) {
    volatile int calls = 0;
    json_malloc_t json_memory;
    json_free_t json_free;
    json_get_alloc_funcs(&json_memory, &json_free);
    smoe_out_of_memory_set(jump);
    if (!setjmp(no_memory))
        smoe_alloc(SIZE_MAX / 4, 2);
    else
        calls++;
    if (!setjmp(no_memory))
        smoe_alloc_more(NULL, SIZE_MAX / 4, 8);
    else
        calls++;
    if (!setjmp(no_memory))
        json_memory(SIZE_MAX / 4);
    else
        calls++;
    smoe_out_of_memory_set(NULL);
    assert_int_equal(calls, 3);
}

/* Without a handler the process ends with status 1, and says why. */
static void memory_ends_the_process(void **state) {
    int pipes[2], status;
    char said[4096] = "";
    const char expected[] = "smoe: out of memory\n"; /* a sanitizer has its own word before */
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (!child) {
        dup2(pipes[1], STDERR_FILENO);
        smoe_alloc(SIZE_MAX / 4, 2);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SMOE_RUNTIME);
    ssize_t size = read(pipes[0], said, sizeof said - 1);
    assert_true(size >= (ssize_t)sizeof expected - 1);
    assert_string_equal(said + size - (sizeof expected - 1), expected);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answer),
        cmocka_unit_test(streams_by_name),
        cmocka_unit_test(moments),
        cmocka_unit_test(normals_are_the_polar_method),
        cmocka_unit_test(normals_in_portions),
        cmocka_unit_test(shares_in_portions),
        cmocka_unit_test(below_is_unbiased),
        cmocka_unit_test(permutations),
        cmocka_unit_test(names),
        cmocka_unit_test(parameter_table),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(arena),
        cmocka_unit_test(arena_too_large),
        cmocka_unit_test(errors),
        cmocka_unit_test(errors_that_do_not_fit),
        cmocka_unit_test(bf16),
        cmocka_unit_test(text),
        cmocka_unit_test(exact_sums),
        cmocka_unit_test(clocks_and_threads),
        cmocka_unit_test(rooms_of_threads),
        cmocka_unit_test(rooms_without_memory),
        cmocka_unit_test(time_of_threads),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(memory_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
