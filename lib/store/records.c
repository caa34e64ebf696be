/* Reading metrics.jsonl; see records.h. */
#include "store/records.h"
#include "base/file.h"
#include "spec/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The end of a line from its running checksum on, in front of a last byte that should be a newline;
 * NULL: it has none. */
static const char *chain_of(const char *line, size_t size) {
    const char *end = size > SMOE_CHAIN_SIZE ? line + size - SMOE_CHAIN_SIZE : NULL;
    return end && !memcmp(end, SMOE_CHAIN, SMOE_CHAIN_HEAD) ? end : NULL;
}

/* Checks a line against the bytes before it. Lines of older versions have no digest; after a line
 * with a digest, all lines must have one. */
static int check_chain(smoe_records *r, size_t size, smoe_err *err) {
    char digits[SMOE_DIGEST_DIGITS + 1];
    const char *end = chain_of(r->line, size);
    smoe_digest_add(r->digest, r->line, end ? (size_t)(end - r->line) : size);
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

static int records_open(smoe_records *r, smoe_err *err) {
    struct stat there;
    int fd = smoe_file_open(r->path, O_RDONLY | O_NOFOLLOW, err);
    if (fd < 0) return -1;
    r->in = fdopen(fd, "r");
    r->digest = smoe_digest_new();
    if (!r->in) close(fd);
    if (!r->in || fstat(fd, &there))
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", r->path);
    if (r->tail && there.st_size > (off_t)r->tail) r->from = there.st_size - (off_t)r->tail;
    return 0;
}

/* The next whole line, with its newline: its size; 0: there is none; -1: failed. */
static ssize_t next_line(smoe_records *r, smoe_err *err) {
    ssize_t size = getline(&r->line, &r->room, r->in);
    if (ferror(r->in)) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", r->path);
    if (size <= 0) return 0;
    r->number++;
    r->end = ftello(r->in);
    bool whole = r->line[size - 1] == '\n';
    if (whole) return check_chain(r, (size_t)size, err) ? -1 : size;
    if (!chain_of(r->line, (size_t)size)) return 0;
    return smoe_fail(err, SMOE_DATA, "%s:%zu: the byte after this record is not a newline", r->path,
                     r->number);
}

int smoe_records_next(smoe_records *r, smoe_err *err) {
    ssize_t size;
    if (!r->in && records_open(r, err)) return -1;
    do size = next_line(r, err);
    while (size > 0 && r->end - size < r->from);
    if (size <= 0) return (int)size;
    json_decref(r->json);
    r->json = json_loadb(r->line, (size_t)size, 0, NULL);
    const json_t *step = json_object_get(r->json, "step");
    if (!json_is_integer(step) || json_integer_value(step) < 0)
        return smoe_fail(err, SMOE_DATA, "%s:%zu: not a record with a step", r->path, r->number);
    r->step = (uint64_t)json_integer_value(step);
    json_object_del(r->json, "chain");
    return 1;
}

void smoe_records_free(smoe_records *r) {
    json_decref(r->json);
    smoe_digest_free(r->digest);
    free(r->line);
    if (r->in) fclose(r->in);
    *r = (smoe_records){0};
}

const char *smoe_record_prefix(const json_t *record, char prefix[SMOE_RECORD_PREFIX]) {
    const char *key;
    json_t *value;
    *prefix = '\0';
    json_object_foreach((json_t *)record, key, value) {
        smoe_metric_place at;
        if (smoe_metric_read(&at, key) && *at.split)
            snprintf(prefix, SMOE_RECORD_PREFIX, "%s/", at.split);
    }
    return prefix;
}
