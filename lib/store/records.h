/* The records of a run, as metrics.jsonl has them: the only rule for reading that file. */
#ifndef SMOE_RECORDS_H
#define SMOE_RECORDS_H

#include "base/digest.h"

#include <jansson.h>
#include <sys/types.h>

/* The end of a line: the digest of all bytes of the file before it. So a line that is changed or
 * missing is seen, and anyone can check it: head -c BYTES metrics.jsonl | xxh3sum. */
#define SMOE_CHAIN ",\"chain\":\""
enum {
    SMOE_CHAIN_HEAD = sizeof SMOE_CHAIN - 1,
    SMOE_CHAIN_SIZE = SMOE_CHAIN_HEAD + SMOE_DIGEST_DIGITS + 3
};

/* A record, and where its line ends in the file. */
typedef struct smoe_record {
    const json_t *json;
    uint64_t step;
    off_t end;
    bool chained; /* with a running checksum, which is right */
} smoe_record;

/* 0: the next one; 1: enough; -1: failed, with err. */
typedef int smoe_record_visit(void *user, const smoe_record *record, smoe_err *err);

/* Passes the records of a metrics.jsonl to fn, in order. This is the only rule for reading such a
 * file: text after the last newline is a line still being written, or left by a killed process, and
 * is ignored. Any other line that is not an object with an integer step is SMOE_DATA, with its
 * number, and so is one whose running checksum is wrong, or that has none behind one that has, or
 * that has another byte in the place of its newline.
 * tail: 0, or only the lines that begin in the last `tail` bytes of the file. */
int smoe_records_each(const char *path, size_t tail, smoe_record_visit *fn, void *user,
                      smoe_err *err) SMOE_MUST_CHECK;

#endif
