/* Reading metrics.jsonl; see records.h. */
#include "store/records.h"
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lines of a file and the digest of their bytes. */
typedef struct reading {
    const char *path;
    smoe_digest *digest;
    size_t number; /* of the line */
    bool chained;  /* a line before has the digest */
} reading;

/* The end of a line from its running checksum on, in front of a last byte that should be a newline;
 * NULL: it has none. */
static const char *chain_of(const char *line, size_t size) {
    const char *end = size > SMOE_CHAIN_SIZE ? line + size - SMOE_CHAIN_SIZE : NULL;
    return end && !memcmp(end, SMOE_CHAIN, SMOE_CHAIN_HEAD) ? end : NULL;
}

/* Checks a line against the bytes before it. Lines of older versions have no digest; after a line
 * with a digest, all lines must have one. */
static int check_chain(reading *r, const char *line, size_t size, smoe_err *err) {
    char digits[SMOE_DIGEST_DIGITS + 1];
    const char *end = chain_of(line, size);
    r->number++;
    smoe_digest_add(r->digest, line, end ? (size_t)(end - line) : size);
    if (!end && !r->chained) return 0;
    smoe_digest_text(r->digest, digits);
    if (!end)
        return smoe_fail(err, SMOE_DATA,
                         "%s:%zu: a record without a checksum after one that has it", r->path,
                         r->number);
    if (memcmp(end + SMOE_CHAIN_HEAD, digits, SMOE_DIGEST_DIGITS))
        return smoe_fail(err, SMOE_DATA,
                         "%s:%zu: this record or an earlier one has changed since it was written: "
                         "the running checksum is %s, but \"chain\" is %.*s",
                         r->path, r->number, digits, SMOE_DIGEST_DIGITS, end + SMOE_CHAIN_HEAD);
    r->chained = true;
    smoe_digest_add(r->digest, end, SMOE_CHAIN_SIZE);
    return 0;
}

/* Passes one line, with its newline, to fn. Returns what fn returns, or -1 if the line is not a
 * record. */
static int each_line(const reading *r, const char *line, size_t size, off_t end,
                     smoe_record_visit *fn, void *user, smoe_err *err) {
    json_auto_t *json = json_loadb(line, size, 0, NULL);
    const json_t *step = json_object_get(json, "step");
    bool good = json_is_integer(step) && json_integer_value(step) >= 0;
    const smoe_record record = {json, (uint64_t)json_integer_value(step), end, r->chained};
    if (good) json_object_del(json, "chain");
    int status =
        good ? fn(user, &record, err)
             : smoe_fail(err, SMOE_DATA, "%s:%zu: not a record with a step", r->path, r->number);
    return status;
}

int smoe_records_each(const char *path, size_t tail, smoe_record_visit *fn, void *user,
                      smoe_err *err) {
    int fd = smoe_file_open(path, O_RDONLY | O_NOFOLLOW, err);
    if (fd < 0) return -1;
    FILE *in = fdopen(fd, "r");
    reading r = {.path = path, .digest = smoe_digest_new()};
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    off_t from = 0;
    struct stat there;
    int status = 0;
    if (!in || !r.digest || fstat(fd, &there)) {
        status = smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", path);
        if (!in) close(fd);
        goto out;
    }
    if (tail && there.st_size > (off_t)tail) from = there.st_size - (off_t)tail;
    while (!status && (size = getline(&line, &room, in)) > 0 && line[size - 1] == '\n') {
        off_t end = ftello(in);
        status = check_chain(&r, line, (size_t)size, err);
        if (!status && end - size >= from)
            status = each_line(&r, line, (size_t)size, end, fn, user, err);
    }
    if (!status && size > 0 && chain_of(line, (size_t)size))
        status = smoe_fail(err, SMOE_DATA, "%s:%zu: the byte behind this record is no newline",
                           path, r.number + 1);
    if (ferror(in)) status = smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", path);
out:
    free(line);
    smoe_digest_free(r.digest);
    if (in) fclose(in);
    return status < 0 ? -1 : 0;
}
