/*
 * Storage types: every number of a narrow type survives a round trip. A number between two of them
 * becomes the nearer one, or the even one at the midpoint, from single and from double precision
 * (rounded once). NaN, infinities, and values out of range.
 */
#include "tensors/safetensors.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The value of bit pattern i of a narrow type, by definition: sign, exponent, fraction. */
static double value_of(smoe_dtype type, unsigned i) {
    int fraction_bits = type == SMOE_DTYPE_F16 ? 10 : 7,
        exponents = type == SMOE_DTYPE_F16 ? 31 : 255;
    int bias = exponents / 2, exponent = (int)(i & 0x7fff) >> fraction_bits;
    double fraction = (double)(i & ((1u << fraction_bits) - 1)) / (1 << fraction_bits);
    double size = exponent == exponents ? (fraction > 0 ? NAN : INFINITY)
                  : exponent            ? ldexp(1 + fraction, exponent - bias)
                                        : ldexp(fraction, 1 - bias);
    return i & 0x8000 ? -size : size;
}

/* Stores one number; -1 if it was refused. */
static int store_double(smoe_dtype type, double x) {
    uint16_t out;
    smoe_tensor t = {.dtype = SMOE_DTYPE_F64, .size = 1, .data = &x};
    return smoe_tensor_store(&out, type, &t, 0, 1) == 1 ? out : -1;
}
static int store_float(smoe_dtype type, float x) {
    uint16_t out;
    smoe_tensor t = {.dtype = SMOE_DTYPE_F32, .size = 1, .data = &x};
    return smoe_tensor_store(&out, type, &t, 0, 1) == 1 ? out : -1;
}

static void test_nearest(void **state) {
    static const smoe_dtype types[] = {SMOE_DTYPE_F16, SMOE_DTYPE_BF16};
    for (size_t k = 0; k < 2; k++)
        for (unsigned i = 0; i < 0xffff; i++) {
            smoe_dtype type = types[k];
            double here = value_of(type, i), next = value_of(type, i + 1);
            if (!isfinite(here)) continue;
            assert_int_equal(store_double(type, here), i);
            assert_int_equal(store_float(type, (float)here), i);
            if (!isfinite(next)) continue;
            double middle = (here + next) / 2; /* exact */
            int even = (int)(i + (i & 1));
            assert_int_equal(store_double(type, middle), even);
            assert_int_equal(store_double(type, nextafter(middle, here)), (int)i);
            assert_int_equal(store_double(type, nextafter(middle, next)), (int)i + 1);
            float single = (float)middle;
            if ((double)single != middle) continue; /* below the smallest single */
            assert_int_equal(store_float(type, single), even);
            assert_int_equal(store_float(type, nextafterf(single, (float)here)), (int)i);
            assert_int_equal(store_float(type, nextafterf(single, (float)next)), (int)i + 1);
        }
}

static void test_edges(void **state) {
    static const struct {
        smoe_dtype type;
        double from;
        int to;
    } rows[] = {
        {SMOE_DTYPE_F16, 65504, 0x7bff},        /* the largest */
        {SMOE_DTYPE_F16, 65519.99, 0x7bff},     /* nearer to it than to 65536 */
        {SMOE_DTYPE_F16, 65520, -1},            /* rounds to 65536, out of range */
        {SMOE_DTYPE_F16, -1e30, -1},            /* far beyond */
        {SMOE_DTYPE_F16, 1e300, -1},            /* beyond a single too */
        {SMOE_DTYPE_F16, 0x1p-25, 0},           /* half of the smallest: a tie, to even */
        {SMOE_DTYPE_F16, 0x1.0001p-25, 1},      /* above it */
        {SMOE_DTYPE_F16, -0.0, 0x8000},         /* zeros have a sign */
        {SMOE_DTYPE_F16, INFINITY, 0x7c00},     /* infinite values are kept */
        {SMOE_DTYPE_F16, -INFINITY, 0xfc00},    /**/
        {SMOE_DTYPE_BF16, 0x1.fep127, 0x7f7f},  /* the largest */
        {SMOE_DTYPE_BF16, 0x1.fefp127, 0x7f7f}, /* nearer to it */
        {SMOE_DTYPE_BF16, 0x1.ffp127, -1},      /* a tie with 2^128 */
        {SMOE_DTYPE_BF16, 1e39, -1},            /* beyond a single */
        {SMOE_DTYPE_BF16, 1e-300, 0},           /* small values are never refused */
        {SMOE_DTYPE_BF16, -INFINITY, 0xff80},   /**/
        {SMOE_DTYPE_BF16, 1 + 0x1p-8 + 0x1p-40,
         0x3f81}, /* above a tie by less than a single can represent */
        {SMOE_DTYPE_BF16, 1 + 0x3p-8 - 0x1p-40, 0x3f81}, /* below one */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(store_double(rows[i].type, rows[i].from), rows[i].to);
    assert_int_equal(store_float(SMOE_DTYPE_F16, NAN) & 0x7e00, 0x7e00);
    assert_int_equal(store_double(SMOE_DTYPE_BF16, NAN) & 0x7fc0, 0x7fc0);
}

/* The same type is a copy, signalling NaN included; double to single rounds to nearest. */
static void test_copies_and_singles(void **state) {
    const uint32_t singles[] = {0x7f800001, 0xff800000, 0x00000001, 0x80000000};
    const uint16_t halves[] = {0x7c01, 0xfc00, 0x0001, 0x3c00};
    uint32_t wide[4];
    uint16_t narrow[4];
    smoe_tensor t = {.dtype = SMOE_DTYPE_F32, .size = 4, .data = singles};
    assert_int_equal(smoe_tensor_store(wide, SMOE_DTYPE_F32, &t, 0, 4), 4);
    assert_memory_equal(wide, singles, sizeof wide);
    t.dtype = SMOE_DTYPE_F16, t.data = halves;
    assert_int_equal(smoe_tensor_store(narrow, SMOE_DTYPE_F16, &t, 0, 4), 4);
    assert_memory_equal(narrow, halves, sizeof narrow);
    assert_int_equal(smoe_tensor_store(wide, SMOE_DTYPE_F32, &t, 1, 3), 4);
    const uint32_t right[] = {0xff800000, 0x33800000 /* 2^-24 */, 0x3f800000};
    assert_memory_equal(wide, right, sizeof right);
    const double doubles[] = {1 + 0x1p-24, 1 + 0x1.1p-24, 1e39, -INFINITY};
    t.dtype = SMOE_DTYPE_F64, t.data = doubles;
    assert_int_equal(smoe_tensor_store(wide, SMOE_DTYPE_F32, &t, 0, 4), 2); /* 1e39 is too large */
    assert_true(wide[0] == 0x3f800000 && wide[1] == 0x3f800001);
    assert_int_equal(smoe_tensor_store(wide, SMOE_DTYPE_F32, &t, 3, 1), 4);
    assert_true(wide[0] == 0xff800000);
}

/* The first invalid element is named, wherever it lies. */
static void test_finds_the_first(void **state) {
    enum { N = 5000 };
    float *x = calloc(N, sizeof *x);
    uint16_t *out = calloc(N, sizeof *out);
    smoe_tensor t = {.dtype = SMOE_DTYPE_F32, .size = N, .data = x};
    x[10] = INFINITY; /* allowed */
    assert_int_equal(smoe_tensor_store(out, SMOE_DTYPE_F16, &t, 0, N), N);
    x[4999] = x[3000] = 1e6f;
    assert_int_equal(smoe_tensor_store(out, SMOE_DTYPE_F16, &t, 0, N), 3000);
    assert_int_equal(smoe_tensor_store(out, SMOE_DTYPE_F16, &t, 3001, N - 3001), 4999);
    assert_int_equal(smoe_tensor_store(out, SMOE_DTYPE_F16, &t, 100, 2900), 3000); /* its end */
    free(x);
    free(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_copies_and_singles),
        cmocka_unit_test(test_finds_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
