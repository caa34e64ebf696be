/*
 * Event files of TensorBoard, see tfevents.h.
 *   record   u64 length, u32 masked CRC of these 8 bytes, data, u32 masked CRC of the data
 *   Event    1 seconds (double), 2 step (varint), 3 file version (text), 5 Summary, 7 SessionLog
 *   Summary  1 Value, repeated
 *   Value    1 tag, 2 scalar (float), 4 Image, 5 Histogram, 9 metadata {1 {1 name of the plugin}}
 *   Image    1 height, 2 width, 3 channels, 4 bytes of the PNG
 *   Histogram 1 least, 2 greatest, 3 number, 4 sum, 5 sum of squares, 6 upper edges of buckets,
 *            7 buckets (both packed doubles)
 * A field is its number and kind (0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes).
 */
#include "store/tfevents.h"
#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 };

typedef struct buffer {
    uint8_t *at;
    size_t size, room;
} buffer;

struct smoe_tfevents {
    int fd;
    char *path;
    buffer summary;
};

uint32_t smoe_crc32c(const void *bytes, size_t size) {
    static const uint32_t polynomial = 0x82f63b78; /* of Castagnoli, the bits reversed */
    const uint8_t *p = bytes;
    uint32_t table[256], crc = ~UINT32_C(0);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int k = 0; k < 8; k++) x = x & 1 ? x >> 1 ^ polynomial : x >> 1;
        table[i] = x;
    }
    for (size_t i = 0; i < size; i++) crc = crc >> 8 ^ table[(crc ^ p[i]) & 255];
    return ~crc;
}

static uint32_t masked(const void *bytes, size_t size) {
    uint32_t crc = smoe_crc32c(bytes, size);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* ---- protobuf -------------------------------------------------------------------------------- */

static void tfevents_put(buffer *b, const void *bytes, size_t size) {
    if (b->size + size > b->room) {
        b->room = 2 * (b->size + size) + 256;
        b->at = smoe_alloc_more(b->at, b->room, 1);
    }
    if (size) memcpy(b->at + b->size, bytes, size);
    b->size += size;
}

static void put_little(buffer *b, uint64_t x, int bytes) {
    uint8_t text[8];
    for (int i = 0; i < bytes; i++) text[i] = (uint8_t)(x >> 8 * i);
    tfevents_put(b, text, (size_t)bytes);
}

static void put_varint(buffer *b, uint64_t x) {
    for (; x >= 128; x >>= 7) tfevents_put(b, &(uint8_t){(uint8_t)(x | 128)}, 1);
    tfevents_put(b, &(uint8_t){(uint8_t)x}, 1);
}

static void put_key(buffer *b, unsigned field, unsigned kind) {
    put_varint(b, field << 3 | kind);
}

static void put_double(buffer *b, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_little(b, bits, 8);
}

static void field_number(buffer *b, unsigned field, uint64_t x) {
    put_key(b, field, VARINT);
    put_varint(b, x);
}

static void field_double(buffer *b, unsigned field, double x) {
    put_key(b, field, EIGHT);
    put_double(b, x);
}

static void field_float(buffer *b, unsigned field, double x) {
    float narrow = (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    put_key(b, field, FOUR);
    put_little(b, bits, 4);
}

static void field_bytes(buffer *b, unsigned field, const void *bytes, size_t size) {
    put_key(b, field, BYTES);
    put_varint(b, size);
    tfevents_put(b, bytes, size);
}

static void field_buffer(buffer *b, unsigned field, buffer *inner) {
    field_bytes(b, field, inner->at, inner->size);
    free(inner->at);
    *inner = (buffer){0};
}

/* ---- values ---------------------------------------------------------------------------------- */

/* A value of a Summary begins with its tag. */
static buffer tfevents_value_of(const char *tag) {
    buffer value = {0};
    field_bytes(&value, 1, tag, strlen(tag));
    return value;
}

/* So that no reader has to guess by the kind of value. */
static void add_plugin(buffer *value, const char *name) {
    buffer plugin = {0}, metadata = {0};
    field_bytes(&plugin, 1, name, strlen(name));
    field_buffer(&metadata, 1, &plugin);
    field_buffer(value, 9, &metadata);
}

void smoe_tfevents_scalar(smoe_tfevents *events, const char *tag, double number) {
    buffer value = tfevents_value_of(tag);
    field_float(&value, 2, number);
    field_buffer(&events->summary, 1, &value);
}

void smoe_tfevents_histogram(smoe_tfevents *events, const char *tag, const double *count,
                             size_t n) {
    buffer value = tfevents_value_of(tag), histogram = {0}, edges = {0}, buckets = {0};
    double number = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double centre = (double)i + 0.5;
        number += count[i];
        sum += count[i] * centre;
        squares += count[i] * centre * centre;
        put_double(&edges, (double)i + 1);
        put_double(&buckets, count[i]);
    }
    field_double(&histogram, 1, 0);
    field_double(&histogram, 2, (double)n);
    field_double(&histogram, 3, number);
    field_double(&histogram, 4, sum);
    field_double(&histogram, 5, squares);
    field_buffer(&histogram, 6, &edges);
    field_buffer(&histogram, 7, &buckets);
    field_buffer(&value, 5, &histogram);
    field_buffer(&events->summary, 1, &value);
}

void smoe_tfevents_picture(smoe_tfevents *events, const char *tag, size_t width, size_t height,
                           size_t channels, const void *png, size_t size) {
    buffer value = tfevents_value_of(tag), image = {0};
    field_number(&image, 1, height);
    field_number(&image, 2, width);
    field_number(&image, 3, channels);
    field_bytes(&image, 4, png, size);
    field_buffer(&value, 4, &image);
    add_plugin(&value, "images");
    field_buffer(&events->summary, 1, &value);
}

/* ---- records --------------------------------------------------------------------------------- */

static int write_record(const smoe_tfevents *events, const buffer *data, smoe_err *err) {
    buffer record = {0};
    put_little(&record, data->size, 8);
    put_little(&record, masked(record.at, 8), 4);
    tfevents_put(&record, data->at, data->size);
    put_little(&record, masked(data->at, data->size), 4);
    int status = smoe_file_write_fd(events->fd, record.at, record.size);
    if (status) smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", events->path);
    free(record.at);
    return status;
}

int smoe_tfevents_put(smoe_tfevents *events, double seconds, uint64_t step, smoe_err *err) {
    buffer event = {0};
    if (!events->summary.size) return 0;
    field_double(&event, 1, seconds);
    field_number(&event, 2, step);
    field_buffer(&event, 5, &events->summary);
    int status = write_record(events, &event, err);
    free(event.at);
    return status;
}

/* The version that readers expect first, and where a resumed run goes on. */
static int tfevents_begin(const smoe_tfevents *events, bool restart, uint64_t step, smoe_err *err) {
    static const char version[] = "brain.Event:2";
    buffer first = {0}, session = {0}, started = {0};
    double now = (double)time(NULL);
    field_double(&first, 1, now);
    field_bytes(&first, 3, version, sizeof version - 1);
    int status = write_record(events, &first, err);
    field_number(&started, 1, 1);
    field_double(&session, 1, now);
    field_number(&session, 2, step);
    field_buffer(&session, 7, &started);
    if (!status && restart) status = write_record(events, &session, err);
    free(first.at);
    free(session.at);
    return status;
}

int smoe_tfevents_open(smoe_tfevents **out, const char *folder, bool restart, uint64_t step,
                       smoe_err *err) {
    smoe_tfevents *e = *out = smoe_alloc(1, sizeof *e);
    char host[64] = "host";
    e->fd = -1;
    (void)!gethostname(host, sizeof host - 1);
    if (mkdir(folder, 0777) && errno != EEXIST)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create", folder);
    /* Two processes, or one that starts twice in a second, do not share a file. */
    for (int n = 0; n < 1000 && e->fd < 0; n++) {
        free(e->path);
        e->path = smoe_text_format("%s/events.out.tfevents.%lld.%s.%d.%d", folder,
                                   (long long)time(NULL), host, (int)getpid(), n);
        e->fd = open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (e->fd < 0 && errno != EEXIST) break;
    }
    if (e->fd < 0) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create", e->path);
    return tfevents_begin(e, restart, step, err);
}

void smoe_tfevents_close(smoe_tfevents *events) {
    if (!events) return;
    if (events->fd >= 0) close(events->fd);
    free(events->summary.at);
    free(events->path);
    free(events);
}
