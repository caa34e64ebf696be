/*
 * safetensors files assembled byte by byte, so that reader and writer are tested against the format
 * and not against each other; conversions by bit patterns.
 */
#include "raw_safetensors.h"
#include "scratch.h"
#include "tensors/safetensors.h"
#include "unit.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

/* ---- reading ---- */

static void test_reads_by_hand(void **state) {
    /* The header has 169 bytes, so the data starts at an odd place. b lies before a. */
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[3,11]},"
        "\"__metadata__\":{\"k\":\"v \\u00e9\"},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"e\":"
        "{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[3,3],\"more\":1}} ";
    static const unsigned char data[] = {7, 8, 9, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}; /* 1, -2 */
    size_t size;
    char *bytes = raw_safetensors_file(header, data, sizeof data, &size);
    smoe_safetensors *file;
    smoe_err err = {0};
    assert_int_equal(smoe_safetensors_parse(&file, bytes, size, "hand", &err), 0);
    assert_int_equal(smoe_safetensors_count(file), 3);
    assert_string_equal(smoe_safetensors_at(file, 0)->name, "b");
    assert_string_equal(smoe_safetensors_at(file, 1)->name, "e");
    assert_string_equal(smoe_safetensors_at(file, 2)->name, "a");
    const smoe_tensor *a = smoe_safetensors_find(file, "a"), *b = smoe_safetensors_find(file, "b");
    assert_int_equal(a->dtype, SMOE_DTYPE_F32);
    assert_string_equal(a->type, "F32");
    assert_int_equal(a->ndim, 2);
    assert_int_equal(a->dim[0], 2);
    assert_int_equal(a->dim[1], 1);
    assert_int_equal(a->size, 2);
    real x[2];
    assert_true(smoe_tensor_convert(x, a, 0, 2));
    assert_true(x[0] == 1 && x[1] == -2);
    assert_true(smoe_tensor_convert(x, a, 1, 1));
    assert_true(x[0] == -2);
    assert_int_equal(b->dtype, SMOE_DTYPE_U8);
    assert_memory_equal(b->data, data, 3);
    assert_false(smoe_tensor_convert(x, b, 0, 1));
    assert_int_equal(smoe_safetensors_find(file, "e")->size, 0);
    assert_null(smoe_safetensors_find(file, "c"));
    assert_string_equal(smoe_safetensors_metadata(file, "k"), "v \xc3\xa9");
    assert_null(smoe_safetensors_metadata(file, "dtype"));
    assert_string_equal(smoe_safetensors_path(file), "hand");
    smoe_safetensors_free(file);
    free(bytes);
}

static void test_every_type_of_the_format(void **state) {
    static const struct {
        const char *type;
        size_t bytes; /* of 8 elements */
        bool used;
    } rows[] = {{"F32", 32, true},     {"F16", 16, true},         {"BF16", 16, true},
                {"F64", 64, true},     {"I64", 64, false},        {"U8", 8, false},
                {"BOOL", 8, false},    {"I8", 8, false},          {"I16", 16, false},
                {"U16", 16, false},    {"I32", 32, false},        {"U32", 32, false},
                {"U64", 64, false},    {"C64", 64, false},        {"F8_E5M2", 8, false},
                {"F8_E4M3", 8, false}, {"F8_E5M2FNUZ", 8, false}, {"F8_E4M3FNUZ", 8, false},
                {"F8_E8M0", 8, false}, {"F6_E2M3", 6, false},     {"F6_E3M2", 6, false},
                {"F4", 4, false}};
    static const char zeros[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%zu]}}",
                 rows[i].type, rows[i].bytes);
        size_t size;
        char *bytes = raw_safetensors_file(header, zeros, rows[i].bytes, &size);
        smoe_safetensors *file;
        smoe_err err = {0};
        if (smoe_safetensors_parse(&file, bytes, size, "f", &err)) fail_msg("%s", err.text);
        real out[8];
        assert_string_equal(smoe_safetensors_at(file, 0)->type, rows[i].type);
        assert_int_equal(smoe_tensor_convert(out, smoe_safetensors_at(file, 0), 0, 8),
                         rows[i].used);
        smoe_safetensors_free(file);
        free(bytes);
    }
    /* 32 bits may be eight weights of four */
    assert_string_equal(smoe_type_remedy("I32"), smoe_type_remedy("F4"));
    assert_string_equal(smoe_type_remedy("I64"), smoe_type_remedy("BOOL"));
    assert_string_not_equal(smoe_type_remedy("I32"), smoe_type_remedy("I64"));
}

#define F32_AT(shape, from, to) \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void test_refusals(void **state) {
    static const struct {
        const char *header;
        size_t data;
        const char *message; /* the whole message, without the file's name */
    } rows[] = {
        {"", 0, "offset 8: the header does not start with '{'"},
        {" {}", 0, "offset 8: the header does not start with '{'"},
        {"[]", 0, "offset 8: the header does not start with '{'"},
        {"{\"a\":}", 0, "offset 14: bad header: unexpected token near '}'"},
        {"{\"a\":{\"dtype\"", 0, "offset 21: bad header: ':' expected near end of file"},
        {"{}x", 0, "offset 11: bad header: end of file expected near 'x'"},
        {"{\"\xff\":1}", 0, "offset 10: bad header: unable to decode byte 0xff near '\"'"},
        {"{\"a\":" F32_AT("[1]", "0", "4") ",\"a\":" F32_AT("[1]", "0", "4") "}", 4,
         "offset 65: bad header: duplicate object key near '\"a\"'"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":\"x\",\"step\":7}}", 0,
         "__metadata__: the value of step is not a string"},
        {"{\"a\":3}", 0, "tensor a: no \"dtype\""},
        {"{\"a\":{\"dtype\":4,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "tensor a: no \"dtype\""},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
         "tensor a: unknown dtype F31"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
         "tensor a: \"shape\" is not a list of up to 8 numbers"},
        {"{\"a\":" F32_AT("[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4,
         "tensor a: \"shape\" is not a list of up to 8 numbers"},
        {"{\"a\":" F32_AT("[1,-1]", "0", "4") "}", 4,
         "tensor a: axis 1 of the shape is not a size"},
        {"{\"a\":" F32_AT("[1.0]", "0", "4") "}", 4, "tensor a: axis 0 of the shape is not a size"},
        {"{\"a\":" F32_AT("[4294967296,4294967296]", "0", "4") "}", 4,
         "tensor a: the shape overflows 64 bits"},
        /* 2^60 elements of 32 bits: the number of elements fits 64 bits, the number of bits does
         * not */
        {"{\"a\":" F32_AT("[1152921504606846976]", "0", "0") "}", 0,
         "tensor a: 1152921504606846976 elements of F32 do not make the 0 bytes of [0, 0]"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4,
         "tensor a: \"data_offsets\" is not a pair of offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4,
         "tensor a: \"data_offsets\" is not a pair of offsets"},
        {"{\"a\":" F32_AT("[1]", "-4", "0") "}", 4,
         "tensor a: \"data_offsets\" is not a pair of offsets"},
        {"{\"a\":" F32_AT("[1]", "4", "0") "}", 4, "tensor a: offsets [4, 0] are reversed"},
        {"{\"a\":" F32_AT("[2]", "0", "8") "}", 7,
         "tensor a: offsets [0, 8] go past the end, the data has 7 bytes"},
        {"{\"a\":" F32_AT("[3]", "0", "8") "}", 8,
         "tensor a: 3 elements of F32 do not make the 8 bytes of [0, 8]"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
         "tensor a: 3 elements of F4 do not make the 1 bytes of [0, 1]"},
        {"{\"a\":" F32_AT("[1]", "4", "8") "}", 8,
         "a hole: no tensor owns data bytes [0, 4], before tensor a"},
        {"{\"a\":" F32_AT("[1]", "8", "12") ",\"b\":" F32_AT("[1]", "0", "4") "}", 12,
         "a hole: no tensor owns data bytes [4, 8], before tensor a"},
        {"{\"a\":" F32_AT("[2]", "0", "8") ",\"b\":" F32_AT("[2]", "4", "12") "}", 12,
         "tensor b at [4, 12] overlaps tensor a"},
        {"{\"a\":" F32_AT("[1]", "0", "4") ",\"b\":" F32_AT("[1]", "0", "4") "}", 4,
         "tensor b at [0, 4] overlaps tensor a"},
        {"{\"a\":" F32_AT("[1]", "0", "4") "}", 9,
         "5 bytes follow the last tensor, which ends at data byte 4"},
        {"{}", 1, "1 bytes follow the last tensor, which ends at data byte 0"},
        {"{\"a\\n\\u001b[2J\":" F32_AT("[1]", "0", "4") "}", 4,
         "tensor a??[2J: unprintable characters in the name"},
    };
    static const char zeros[16];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size;
        char *bytes = raw_safetensors_file(rows[i].header, zeros, rows[i].data, &size), want[256];
        smoe_safetensors *file = (void *)bytes; /* must become NULL */
        smoe_err err = {0};
        assert_int_equal(smoe_safetensors_parse(&file, bytes, size, "x.st", &err), -1);
        assert_null(file);
        assert_int_equal(err.code, SMOE_DATA);
        snprintf(want, sizeof want, "x.st: %s", rows[i].message);
        assert_string_equal(err.text, want);
        free(bytes);
    }
}

static void test_lengths(void **state) {
    static const struct {
        const char bytes[12];
        size_t size;
        const char *message;
    } rows[] = {
        {"", 0, "0 bytes are too few for a safetensors file"},
        {"\2\0\0\0\0\0\0", 7, "7 bytes are too few for a safetensors file"},
        {"\3\0\0\0\0\0\0\0{}", 10,
         "offset 0: a header of 3 bytes goes past the end of the file (10 bytes)"},
        {"\1\xe1\xf5\5\0\0\0\0{}", 10,
         "offset 0: a header of 100000001 bytes, more than the 100000000 allowed; not a "
         "safetensors file?"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10,
         "offset 0: a header of 18446744073709551615 bytes, more than the 100000000 allowed; not a "
         "safetensors file?"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        smoe_safetensors *file;
        smoe_err err = {0};
        char want[256];
        assert_int_equal(smoe_safetensors_parse(&file, rows[i].bytes, rows[i].size, "x", &err), -1);
        assert_int_equal(err.code, SMOE_DATA);
        snprintf(want, sizeof want, "x: %s", rows[i].message);
        assert_string_equal(err.text, want);
    }
}

static void test_all_bad_tensors_in_one_pass(void **state) {
    size_t size;
    char *bytes =
        raw_safetensors_file("{\"a\":{\"dtype\":\"F31\"},\"b\":{\"dtype\":\"F32\",\"shape\":[-1]},"
                             "\"c\":" F32_AT("[1]", "0", "4") "}",
                             "1234", 4, &size);
    smoe_safetensors *file;
    smoe_err err = {0};
    assert_int_equal(smoe_safetensors_parse(&file, bytes, size, "x", &err), -1);
    assert_string_equal(err.text, "x: tensor a: unknown dtype F31\n"
                                  "x: tensor b: axis 0 of the shape is not a size");
    assert_int_equal(err.lines, 2);
    assert_int_equal(smoe_safetensors_parse(&file, bytes, size, "x", NULL),
                     -1); /* err may be NULL */
    free(bytes);
}

static void test_what_is_no_file(void **state) {
    char path[SCRATCH_PATH];
    smoe_safetensors *file;
    smoe_err err = {0};
    assert_int_equal(smoe_safetensors_open(&file, scratch_path(*state, path, "absent"), &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "absent: cannot open: No such file or directory"));
    assert_int_equal(smoe_safetensors_open(&file, ((scratch *)*state)->dir, &err), -1);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(mkfifo(scratch_path(*state, path, "pipe"), 0600), 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err),
                     -1); /* and it does not wait for a writer */
    assert_non_null(strstr(err.text, "not a regular file"));
    scratch_write(scratch_path(*state, path, "empty"), "", 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), -1);
    assert_non_null(strstr(err.text, "empty: 0 bytes are too few"));
    assert_int_equal(err.code, SMOE_DATA);
}

/* ---- conversion ---- */

static uint32_t bits_of(real x) {
    float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static real convert_one(smoe_dtype dtype, const void *data) {
    /* One byte further: never aligned. */
    char unaligned[16];
    real out;
    memcpy(unaligned + 1, data, 8);
    smoe_tensor t = {.dtype = dtype, .size = 1, .data = unaligned + 1};
    assert_true(smoe_tensor_convert(&out, &t, 0, 1));
    return out;
}

static void test_half_patterns(void **state) {
    static const struct {
        uint16_t half;
        uint32_t single;
    } rows[] = {
        {0x0000, 0x00000000},
        {0x8000, 0x80000000},
        {0x3c00, 0x3f800000} /* 1 */,
        {0xc000, 0xc0000000} /* -2 */,
        {0x3555, 0x3eaaa000} /* nearly 1/3 */,
        {0x7bff, 0x477fe000} /* 65504, largest */,
        {0x0400, 0x38800000} /* 2^-14, least normal */,
        {0x03ff, 0x387fc000} /* largest subnormal */,
        {0x0001, 0x33800000} /* 2^-24 */,
        {0x8001, 0xb3800000},
        {0x7c00, 0x7f800000},
        {0xfc00, 0xff800000} /* infinities */,
        {0x7e00, 0x7fc00000} /* quiet NaN */,
        {0xfe01, 0xffc02000} /* with payload */,
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t raw[4] = {rows[i].half};
        assert_int_equal(bits_of(convert_one(SMOE_DTYPE_F16, raw)), rows[i].single);
    }
}

/* All 65536 against the definition: (-1)^s 2^(e-15) (1 + f/1024), or f 2^-24 where e = 0. */
static void test_every_half(void **state) {
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t raw[4] = {(uint16_t)h};
        int e = h >> 10 & 31, f = h & 1023;
        double want = e ? ldexp(1 + f / 1024.0, e - 15) : ldexp(f, -24);
        if (h >> 15) want = -want;
        real x = convert_one(SMOE_DTYPE_F16, raw);
        if (e == 31)
            assert_true(f ? isnan(x) : isinf(x) && (x < 0) == (h >> 15));
        else
            assert_true(x == (real)want && !signbit(x) == !signbit(want));
    }
}

static void test_bfloat_single_double_patterns(void **state) {
    static const uint16_t bf16[] = {0x0000, 0x8000, 0x3f80, 0xc0a0, 0x0001, 0x807f,
                                    0x7f7f, 0x7f80, 0xff80, 0x7fc1, 0xffff};
    for (size_t i = 0; i < sizeof bf16 / sizeof *bf16; i++) {
        uint16_t raw[4] = {bf16[i]};
        assert_int_equal(bits_of(convert_one(SMOE_DTYPE_BF16, raw)), (uint32_t)bf16[i] << 16);
    }
    static const uint32_t f32[] = {0x00000000, 0x80000000, 0x00000001, 0x7f7fffff,
                                   0x7f800000, 0xffc12345, 0x3dcccccd};
    for (size_t i = 0; i < sizeof f32 / sizeof *f32; i++) {
        uint32_t raw[2] = {f32[i]};
        assert_int_equal(bits_of(convert_one(SMOE_DTYPE_F32, raw)), f32[i]);
    }
    double f64[] = {1.0 / 3, -0.0,    0x1p-149, 0x1.000001p0 /* a tie: to even */,
                    1e300,   -1e-300, INFINITY};
    static const uint32_t rounded[] = {0x3eaaaaab, 0x80000000, 0x00000001, 0x3f800000,
                                       0x7f800000, 0x80000000, 0x7f800000};
    for (size_t i = 0; i < sizeof f64 / sizeof *f64; i++)
        assert_int_equal(bits_of(convert_one(SMOE_DTYPE_F64, &f64[i])), rounded[i]);
}

/* ---- writing ---- */

static const smoe_pair metadata[] = {{"format", "pt"}, {"smoe.spec", "{\"a\": \"\xc3\xa9\\n\"}"}};

static void test_writer_bytes(void **state) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    static const unsigned char nan_and_zero[] = {0x45, 0x23, 0xc1, 0xff, 0, 0, 0, 0x80};
    static const int64_t label = -2;
    static const double tenth = 0.1;
    static const uint16_t half = 0x3c00;
    smoe_tensor t[] = {
        {"u", SMOE_DTYPE_U8, 1, {3}, 3, "xyz", NULL, NULL, NULL},
        {"b.w", SMOE_DTYPE_F32, 2, {2, 1}, 2, nan_and_zero, NULL, NULL, NULL},
        {"z", SMOE_DTYPE_I64, 1, {1}, 1, &label, NULL, NULL, NULL},
        {"none", SMOE_DTYPE_F32, 2, {0, 4}, 0, NULL, NULL, NULL, NULL},
        {"a", SMOE_DTYPE_F16, 0, {0}, 1, &half, NULL, NULL, NULL},
        {"B", SMOE_DTYPE_F64, 0, {0}, 1, &tenth, NULL, NULL, NULL},
    };
    scratch_path(*state, path, "w.safetensors");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){t, 6, metadata, 2}, &err),
                     0);
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"smoe.spec\":\"{\\\"a\\\": "
        "\\\"\xc3\xa9\\\\n\\\"}\",\"smoe.digest\":\"smoe.xxh3\",\"smoe.xxh3\":"
        "\"0000000000000000\"},"
        "\"B\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"z\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]},"
        "\"b.w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[16,24]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[24,24]},"
        "\"a\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[24,26]},"
        "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[26,29]}}";
    static const unsigned char data[29] = "\x9a\x99\x99\x99\x99\x99\xb9\x3f"
                                          "\xfe\xff\xff\xff\xff\xff\xff\xff"
                                          "\x45\x23\xc1\xff\x00\x00\x00\x80"
                                          "\x00\x3c"
                                          "xyz";
    size_t size, length = 0, text = strlen(header);
    char *bytes = scratch_read(path, &size);
    for (int i = 0; i < 8; i++) length |= (size_t)(unsigned char)bytes[i] << 8 * i;
    /* The digest covers the whole file, with its own digits as zeros. */
    char *digits = memmem(bytes, size, "\"smoe.xxh3\":\"", 13), want[17];
    assert_non_null(digits);
    digits += 13;
    memcpy(want, digits, 16);
    want[16] = '\0';
    memset(digits, '0', 16);
    assert_int_equal(XXH3_64bits(bytes, size), strtoull(want, NULL, 16));
    assert_int_equal((8 + length) % 64, 0);
    assert_true(length >= text && length < text + 64);
    assert_memory_equal(bytes + 8, header, text);
    for (size_t i = text; i < length; i++) assert_int_equal(bytes[8 + i], ' ');
    assert_int_equal(size, 8 + length + sizeof data);
    assert_memory_equal(bytes + 8 + length, data, sizeof data);
    assert_int_equal(scratch_entries(((scratch *)*state)->dir), 1);

    /* The same again, in another order, gives the same bytes. */
    char other[SCRATCH_PATH];
    smoe_tensor last = t[5];
    memmove(t + 1, t, 5 * sizeof *t);
    t[0] = last;
    assert_int_equal(smoe_safetensors_write(scratch_path(*state, other, "v"),
                                            &(const smoe_content){t, 6, metadata, 2}, &err),
                     0);
    scratch_assert_same(path, other);
    free(bytes);
}

static void test_write_then_read(void **state) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_safetensors *file;
    float x[3] = {0x1p-149f, -0.0f, INFINITY};
    smoe_tensor t = {"blocks.0.x", SMOE_DTYPE_F32, 3, {1, 3, 1}, 3, x, NULL, NULL, NULL};
    scratch_path(*state, path, "w");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){&t, 1, metadata, 2}, &err),
                     0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    const smoe_tensor *r = smoe_safetensors_find(file, "blocks.0.x");
    assert_int_equal(r->ndim, 3);
    assert_memory_equal(r->dim, t.dim, 3 * sizeof *t.dim);
    assert_memory_equal(r->data, x, sizeof x);
    assert_int_equal((uintptr_t)r->data % 64, 0); /* the map starts on a page */
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.spec"), metadata[1].value);
    smoe_safetensors_free(file);
    /* an empty table is a file too */
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){NULL}, &err), 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    assert_int_equal(smoe_safetensors_count(file), 0);
    smoe_safetensors_free(file);
}

static void test_write_failures(void **state) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    static const float x[1 << 15];
    smoe_tensor t[2] = {{"x", SMOE_DTYPE_F32, 1, {1 << 15}, 1 << 15, x, NULL, NULL, NULL},
                        {"x", SMOE_DTYPE_F32, 0, {0}, 1, x, NULL, NULL, NULL}};
    scratch_path(*state, path, "no/w");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){t, 1}, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(smoe_safetensors_write("/dev/full", &(const smoe_content){t, 1}, &err), -1);
    assert_string_equal(err.text, "/dev/full: cannot write: No space left on device");
    scratch_path(*state, path, "w");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){t, 2}, &err),
                     -1); /* a name twice */
    assert_int_equal(err.code, SMOE_RUNTIME);
    t[0].name = "\xff";
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){t, 1}, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_int_equal(scratch_entries(((scratch *)*state)->dir), 0);

    /* A limit in the middle of the data: the old file is kept, and nothing else is left. */
    scratch_write(path, "old", 3);
    t[0].name = "x";
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 4096;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int status = smoe_safetensors_write(path, &(const smoe_content){t, 1}, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, before);
    assert_int_equal(status, -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "File too large"));
    char *old = scratch_read(path, NULL);
    assert_string_equal(old, "old");
    free(old);
    assert_int_equal(scratch_entries(((scratch *)*state)->dir), 1);
}

#define TEST(name) unit_test_with(name, scratch)

/* ---- digests ---- */

/* A file that smoe wrote is refused with any of its bits flipped; every bit is tried. */
static void test_every_bit_is_covered(void **state) {
    char path[SCRATCH_PATH];
    static const float x[3] = {1, -2, 3};
    const smoe_tensor t = {"w", SMOE_DTYPE_F32, 1, {3}, 3, x, NULL, NULL, NULL};
    smoe_err err = {0};
    scratch_path(*state, path, "d.safetensors");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){&t, 1, metadata, 2}, &err),
                     0);
    size_t size;
    char *bytes = scratch_read(path, &size);
    smoe_safetensors *file;
    assert_int_equal(smoe_safetensors_parse(&file, bytes, size, "whole", &err), 0);
    assert_true(smoe_safetensors_has_digest(file));
    assert_int_equal(smoe_safetensors_verify(file, &err), 0);
    smoe_pair *pairs;
    assert_int_equal(smoe_safetensors_pairs(file, &pairs), 2); /* copies do not keep the digest */
    free(pairs);
    smoe_safetensors_free(file);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        int status = smoe_safetensors_parse(&file, bytes, size, "flipped", &err);
        if (!status) status = smoe_safetensors_verify(file, &err);
        if (!status) fail_msg("bit %zu of byte %zu may be flipped", bit % 8, bit / 8);
        assert_int_equal(err.code, SMOE_DATA);
        smoe_safetensors_free(file);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    bytes[size - 1] ^= 1;
    scratch_write(path, bytes, size);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), -1);
    assert_non_null(
        strstr(err.text, "d.safetensors: changed since it was written: its digest is "));
    assert_int_equal(smoe_safetensors_peek(&file, path, NULL, &err), 0);
    smoe_safetensors_free(file);
    free(bytes);
}

/* A foreign file has no digest, and is accepted. */
static void test_a_file_without_a_digest(void **state) {
    size_t size;
    char *bytes = raw_safetensors_file("{\"__metadata__\":{\"k\":\"v\"}}", NULL, 0, &size);
    smoe_safetensors *file;
    smoe_err err = {0};
    assert_int_equal(smoe_safetensors_parse(&file, bytes, size, "foreign", &err), 0);
    assert_false(smoe_safetensors_has_digest(file));
    assert_int_equal(smoe_safetensors_verify(file, &err), 0);
    smoe_safetensors_free(file);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_reads_by_hand),
        TEST(test_every_type_of_the_format),
        TEST(test_refusals),
        TEST(test_lengths),
        TEST(test_all_bad_tensors_in_one_pass),
        TEST(test_what_is_no_file),
        TEST(test_half_patterns),
        TEST(test_every_half),
        TEST(test_bfloat_single_double_patterns),
        TEST(test_writer_bytes),
        TEST(test_write_then_read),
        TEST(test_write_failures),
        TEST(test_every_bit_is_covered),
        TEST(test_a_file_without_a_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
