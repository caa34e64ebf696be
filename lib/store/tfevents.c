/*
 * Event files of TensorBoard, see tfevents.h.
 *   record   u64 length, u32 masked CRC of these 8 bytes, data, u32 masked CRC of the data
 *   Event    1 seconds (double), 2 step (varint), 3 file version (text), 5 Summary, 7 SessionLog
 *   Summary  1 Value, repeated
 *   Value    1 tag, 2 scalar (float), 4 Image, 5 Histogram, 9 metadata {1 {1 name of the plugin}}
 *   Image    1 height, 2 width, 3 channels, 4 bytes of the PNG
 *   Histogram 1 least, 2 greatest, 3 number, 4 sum, 5 sum of squares, 6 upper edges of buckets,
 *            7 buckets (both packed doubles)
 */
#include "store/tfevents.h"
#include "base/file.h"
#include "base/protobuf.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct smoe_tfevents {
    int fd;
    char *path;
    smoe_message summary;
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

/* ---- values ---------------------------------------------------------------------------------- */

/* A value of a Summary begins with its tag. */
static smoe_message tfevents_value_of(const char *tag) {
    smoe_message value = {0};
    smoe_message_text(&value, 1, tag);
    return value;
}

void smoe_tfevents_scalar(smoe_tfevents *events, const char *tag, double number) {
    smoe_message value = tfevents_value_of(tag);
    smoe_message_float(&value, 2, (float)number);
    smoe_message_inner(&events->summary, 1, &value);
}

void smoe_tfevents_histogram(smoe_tfevents *events, const char *tag, const double *count,
                             size_t n) {
    smoe_message value = tfevents_value_of(tag), histogram = {0}, edges = {0}, buckets = {0};
    double number = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double centre = (double)i + 0.5, edge = (double)i + 1;
        number += count[i];
        sum += count[i] * centre;
        squares += count[i] * centre * centre;
        smoe_message_put(&edges, &edge, sizeof edge);
        smoe_message_put(&buckets, &count[i], sizeof count[i]);
    }
    smoe_message_double(&histogram, 1, 0);
    smoe_message_double(&histogram, 2, (double)n);
    smoe_message_double(&histogram, 3, number);
    smoe_message_double(&histogram, 4, sum);
    smoe_message_double(&histogram, 5, squares);
    smoe_message_inner(&histogram, 6, &edges);
    smoe_message_inner(&histogram, 7, &buckets);
    smoe_message_inner(&value, 5, &histogram);
    smoe_message_inner(&events->summary, 1, &value);
}

void smoe_tfevents_picture(smoe_tfevents *events, const char *tag, size_t width, size_t height,
                           const void *png, size_t size) {
    smoe_message value = tfevents_value_of(tag), image = {0}, plugin = {0}, metadata = {0};
    smoe_message_number(&image, 1, height);
    smoe_message_number(&image, 2, width);
    smoe_message_number(&image, 3, 3);
    smoe_message_bytes(&image, 4, png, size);
    smoe_message_inner(&value, 4, &image);
    /* So that no reader has to guess by the kind of value. */
    smoe_message_text(&plugin, 1, "images");
    smoe_message_inner(&metadata, 1, &plugin);
    smoe_message_inner(&value, 9, &metadata);
    smoe_message_inner(&events->summary, 1, &value);
}

/* ---- records --------------------------------------------------------------------------------- */

static int write_record(const smoe_tfevents *events, const smoe_message *data, smoe_err *err) {
    smoe_message record = {0};
    const uint64_t length = data->size;
    const uint32_t check[] = {masked(&length, sizeof length), masked(data->bytes, data->size)};
    smoe_message_put(&record, &length, sizeof length);
    smoe_message_put(&record, &check[0], sizeof check[0]);
    smoe_message_put(&record, data->bytes, data->size);
    smoe_message_put(&record, &check[1], sizeof check[1]);
    int status = smoe_file_write_fd(events->fd, record.bytes, record.size);
    if (status) smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", events->path);
    free(record.bytes);
    return status;
}

int smoe_tfevents_put(smoe_tfevents *events, double seconds, uint64_t step, smoe_err *err) {
    smoe_message event = {0};
    if (!events->summary.size) return 0;
    smoe_message_double(&event, 1, seconds);
    smoe_message_number(&event, 2, step);
    smoe_message_inner(&event, 5, &events->summary);
    int status = write_record(events, &event, err);
    free(event.bytes);
    return status;
}

/* The version that readers expect first, and where a resumed run goes on. */
static int tfevents_begin(const smoe_tfevents *events, bool restart, uint64_t step, smoe_err *err) {
    smoe_message first = {0}, session = {0}, started = {0};
    double now = (double)time(NULL);
    smoe_message_double(&first, 1, now);
    smoe_message_text(&first, 3, "brain.Event:2");
    int status = write_record(events, &first, err);
    smoe_message_number(&started, 1, 1);
    smoe_message_double(&session, 1, now);
    smoe_message_number(&session, 2, step);
    smoe_message_inner(&session, 7, &started);
    if (!status && restart) status = write_record(events, &session, err);
    free(first.bytes);
    free(session.bytes);
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
    free(events->summary.bytes);
    free(events->path);
    free(events);
}
