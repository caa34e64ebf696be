/* Writing metrics.jsonl; see records_file.h. */
#include "store/records_file.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "store/records.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int smoe_records_file_open(smoe_records_file *file, const char *path, smoe_err *err) {
    *file = (smoe_records_file){.path = smoe_alloc_text(path), .fd = -1};
    file->fd = smoe_file_open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, err);
    if (file->fd < 0) return -1;
    if (!flock(file->fd, LOCK_EX | LOCK_NB)) return 0;
    /* Some shared file systems have no locks; the cells of a sweep have claims of their own. */
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return 0;
    if (errno == EWOULDBLOCK) return 1;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot lock", path);
}

void smoe_records_file_close(smoe_records_file *file) {
    if (file->fd >= 0) close(file->fd);
    smoe_digest_free(file->chain);
    free(file->path);
    *file = (smoe_records_file){.fd = -1};
}

bool smoe_records_file_there(const smoe_records_file *file) {
    struct stat mine, there;
    return !fstat(file->fd, &mine) && !stat(file->path, &there) && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

/* Sets the digest to that of the first `size` bytes of the file, which is read if necessary.
 * Returns 0, or -1 with errno. */
static int chain_reach(smoe_records_file *file, off_t size) {
    char bytes[1 << 14];
    if (file->chain && file->chained == size) return 0;
    smoe_digest_free(file->chain);
    file->chain = smoe_digest_new();
    file->chained = 0;
    while (file->chained < size) {
        off_t left = size - file->chained;
        size_t most = left < (off_t)sizeof bytes ? (size_t)left : sizeof bytes;
        ssize_t n = pread(file->fd, bytes, most, file->chained);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return -1;
        smoe_digest_add(file->chain, bytes, (size_t)n);
        file->chained += n;
    }
    return 0;
}

/* An object as a line, {...,"chain":"0123456789abcdef"} and a newline; NULL with errno. */
static char *chain_line(smoe_records_file *file, const json_t *record, off_t before, size_t *size) {
    char digits[SMOE_DIGEST_DIGITS + 1];
    char *text = smoe_json_dump(record, 0);
    char *line = smoe_alloc_more(text, strlen(text) + SMOE_CHAIN_SIZE + 1, 1);
    if (chain_reach(file, before)) {
        free(line);
        return NULL;
    }
    size_t length = strlen(line) - 1; /* without the brace */
    smoe_digest_add(file->chain, line, length);
    smoe_digest_text(file->chain, digits);
    snprintf(line + length, SMOE_CHAIN_SIZE + 1, SMOE_CHAIN "%s\"}\n", digits);
    smoe_digest_add(file->chain, line + length, SMOE_CHAIN_SIZE);
    *size = length + SMOE_CHAIN_SIZE;
    file->chained = before + (off_t)*size;
    return line;
}

int smoe_records_file_append(smoe_records_file *file, const json_t *record, smoe_err *err) {
    size_t size = 0;
    off_t before = lseek(file->fd, 0, SEEK_END);
    SMOE_FREED char *line = before < 0 ? NULL : chain_line(file, record, before, &size);
    int status = !line || smoe_file_write_fd(file->fd, line, size) ? -1 : 0;
    if (status) {
        file->chained = -1;
        smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", file->path);
        /* If this fails as well, a partial line is left, which a resume removes. */
        if (before >= 0 && ftruncate(file->fd, before)) status = -1;
    } else {
        file->count++;
    }
    return status;
}

int smoe_records_file_sync(const smoe_records_file *file, smoe_err *err) {
    if (!fsync(file->fd)) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", file->path);
}

int smoe_records_file_empty(smoe_records_file *file, smoe_err *err) {
    file->count = 0;
    if (!ftruncate(file->fd, 0)) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot empty", file->path);
}

/* What smoe_records_file_cut keeps. */
typedef struct kept {
    uint64_t step, last, count;
    off_t end;
} kept;

static int keep_record(void *user, const smoe_record *record, smoe_err *err) {
    kept *k = user;
    (void)err;
    if (record->step > k->step) return 1;
    k->end = record->end;
    k->last = record->step;
    k->count++;
    return 0;
}

int smoe_records_file_cut(smoe_records_file *file, uint64_t step, uint64_t recorded, uint64_t count,
                          smoe_err *err) {
    kept k = {.step = step};
    if (smoe_records_each(file->path, 0, keep_record, &k, err)) return -1;
    if (k.last < recorded)
        return smoe_fail(err, SMOE_DATA,
                         "%s: records are missing: up to the checkpoint of step %" PRIu64
                         " they end at step %" PRIu64 ", and there was one of step %" PRIu64,
                         file->path, step, k.last, recorded);
    if (k.count < count) /* of the last step, as each is tied to those before it */
        return smoe_fail(err, SMOE_DATA,
                         "%s: records are missing at the end: up to the checkpoint of step %" PRIu64
                         " there are %" PRIu64 ", and there were %" PRIu64,
                         file->path, step, k.count, count);
    if (ftruncate(file->fd, k.end))
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot truncate", file->path);
    file->count = k.count;
    return smoe_records_file_sync(file, err);
}
