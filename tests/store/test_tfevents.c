/* Event files, read by a separate reader in this test: lengths, checksums, fields. */
#include "store/tfevents.h"
#include "scratch.h"
#include "unit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The check value published with the polynomial, and the zeros of RFC 3720. */
static void crc(void **state) {
    static const uint8_t zeros[32];
    assert_int_equal(smoe_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(smoe_crc32c(zeros, 32), 0x8a9136aa);
    assert_int_equal(smoe_crc32c("", 0), 0);
}

static uint64_t little(const uint8_t *p, int bytes) {
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--) x = x << 8 | p[i];
    return x;
}

static uint32_t unmasked(uint32_t x) {
    x -= 0xa282ead8;
    return x << 15 | x >> 17;
}

/* A field of a message: number, kind, and its bytes or value; *p is moved past it. */
typedef struct field {
    unsigned number, kind;
    uint64_t value;
    const uint8_t *bytes;
} field;

static uint64_t varint(const uint8_t **p) {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        x |= (uint64_t)(**p & 127) << shift;
        if (*(*p)++ < 128) return x;
    }
}

static field next(const uint8_t **p) {
    uint64_t key = varint(p);
    field f = {.number = (unsigned)(key >> 3), .kind = key & 7, .bytes = *p};
    if (f.kind == 0) f.value = varint(p);
    if (f.kind == 1 || f.kind == 5) {
        f.value = little(*p, f.kind == 1 ? 8 : 4);
        *p += f.kind == 1 ? 8 : 4;
    }
    if (f.kind == 2) {
        f.value = varint(p);
        f.bytes = *p;
        *p += f.value;
    }
    return f;
}

/* The field of a message with that number. */
static field find(const uint8_t *bytes, uint64_t size, unsigned number) {
    for (const uint8_t *p = bytes; p < bytes + size;) {
        field f = next(&p);
        if (f.number == number) return f;
    }
    fail_msg("no field %u", number);
    return (field){0};
}

static double real_of(field f) {
    double x;
    memcpy(&x, &f.value, sizeof x);
    return x;
}

/* All records of the only file in a folder; their number in *count. */
static char *read_file(scratch *dir, const char *folder, const uint8_t *record[8],
                       uint64_t length[8], size_t *count) {
    char path[SCRATCH_PATH], file[2 * SCRATCH_PATH] = "";
    size_t size;
    DIR *open = opendir(scratch_path(dir, path, folder));
    assert_non_null(open);
    for (struct dirent *e; (e = readdir(open));)
        if (strstr(e->d_name, "tfevents")) snprintf(file, sizeof file, "%s/%s", path, e->d_name);
    closedir(open);
    char *text = scratch_read(file, &size);
    const uint8_t *p = (const uint8_t *)text, *end = p + size;
    for (*count = 0; p < end; ++*count) {
        assert_true(end - p >= 16 && *count < 8);
        length[*count] = little(p, 8);
        assert_int_equal(unmasked((uint32_t)little(p + 8, 4)), smoe_crc32c(p, 8));
        record[*count] = p + 12;
        p += 12 + length[*count];
        assert_int_equal(unmasked((uint32_t)little(p, 4)),
                         smoe_crc32c(record[*count], length[*count]));
        p += 4;
    }
    assert_ptr_equal(p, end);
    return text;
}

static void events(void **state) {
    scratch dir;
    scratch_make(&dir);
    char path[SCRATCH_PATH];
    smoe_tfevents *e;
    smoe_err err = {0};
    scratch_path(&dir, path, "tb");
    assert_int_equal(smoe_tfevents_open(&e, path, true, 300, &err), 0);
    smoe_tfevents_scalar(e, "train/loss", 2.5);
    smoe_tfevents_scalar(e, "none", NAN);
    assert_int_equal(smoe_tfevents_put(e, 1000.25, 301, &err), 0);
    assert_int_equal(smoe_tfevents_put(e, 1000.25, 302, &err), 0); /* nothing to write */
    const double counts[] = {3, 0, 5};
    smoe_tfevents_histogram(e, "experts", counts, 3);
    smoe_tfevents_picture(e, "overlay", 300, 20, "PNG bytes", 9);
    assert_int_equal(smoe_tfevents_put(e, 1001, 400, &err), 0);
    smoe_tfevents_close(e);

    const uint8_t *record[8];
    uint64_t length[8];
    size_t count;
    char *text = read_file(&dir, "tb", record, length, &count);
    assert_int_equal(count, 4);
    field version = find(record[0], length[0], 3);
    assert_int_equal(version.value, 13);
    assert_memory_equal(version.bytes, "brain.Event:2", 13);
    assert_int_equal(find(record[1], length[1], 2).value, 300);
    field session = find(record[1], length[1], 7);
    assert_int_equal(find(session.bytes, session.value, 1).value, 1);

    assert_true(real_of(find(record[2], length[2], 1)) == 1000.25);
    assert_int_equal(find(record[2], length[2], 2).value, 301);
    field summary = find(record[2], length[2], 5);
    const uint8_t *p = summary.bytes;
    field value = next(&p);
    field tag = find(value.bytes, value.value, 1), number = find(value.bytes, value.value, 2);
    assert_memory_equal(tag.bytes, "train/loss", 10);
    assert_int_equal(number.value, 0x40200000); /* 2.5 in single precision */
    value = next(&p);
    assert_int_equal(find(value.bytes, value.value, 2).value & 0x7f800000, 0x7f800000);
    assert_ptr_equal(p, summary.bytes + summary.value);

    /* buckets 0..1, 1..2 and 2..3 with 3, 0 and 5 values at their centres: the sum is 3*0.5 +
     * 5*2.5 = 14, the sum of squares 3*0.25 + 5*6.25 = 32 */
    summary = find(record[3], length[3], 5);
    p = summary.bytes;
    value = next(&p);
    field h = find(value.bytes, value.value, 5);
    static const double expected[] = {0, 3, 8, 14, 32};
    for (unsigned k = 0; k < 5; k++)
        assert_true(real_of(find(h.bytes, h.value, k + 1)) == expected[k]);
    field edges = find(h.bytes, h.value, 6), buckets = find(h.bytes, h.value, 7);
    assert_int_equal(edges.value, 24);
    assert_int_equal(buckets.value, 24);
    double read[3];
    memcpy(read, edges.bytes, sizeof read);
    assert_true(read[0] == 1 && read[1] == 2 && read[2] == 3);
    memcpy(read, buckets.bytes, sizeof read);
    assert_memory_equal(read, counts, sizeof read);
    value = next(&p);
    field image = find(value.bytes, value.value, 4);
    assert_int_equal(find(image.bytes, image.value, 1).value, 20);
    assert_int_equal(find(image.bytes, image.value, 2).value, 300);
    field png = find(image.bytes, image.value, 4);
    assert_int_equal(png.value, 9);
    assert_memory_equal(png.bytes, "PNG bytes", 9);
    free(text);
    scratch_remove(&dir);
}

/* Two writers in the same second have separate files. */
static void files_of_their_own(void **state) {
    scratch dir;
    scratch_make(&dir);
    smoe_tfevents *a, *b;
    smoe_err err = {0};
    char path[SCRATCH_PATH];
    scratch_path(&dir, path, "tb");
    assert_int_equal(smoe_tfevents_open(&a, path, false, 0, &err), 0);
    assert_int_equal(smoe_tfevents_open(&b, path, false, 0, &err), 0);
    smoe_tfevents_close(a);
    smoe_tfevents_close(b);
    int files = 0;
    DIR *open = opendir(path);
    for (struct dirent *e; (e = readdir(open));) files += strstr(e->d_name, "tfevents") != NULL;
    closedir(open);
    assert_int_equal(files, 2);
    assert_int_equal(smoe_tfevents_open(&a, "/nonexistent/tb", false, 0, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    smoe_tfevents_close(a);
    scratch_remove(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(crc), cmocka_unit_test(events),
                                       cmocka_unit_test(files_of_their_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
