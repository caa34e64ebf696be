/* The records of a run, as metrics.jsonl has them: the only rule for reading that file. */
#pragma once

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

/* A file that is read, which begins as {.path = path}, and its current record. */
typedef struct smoe_records {
    const char *path;
    size_t tail; /* 0, or only records that begin in the last `tail` bytes of the file */
    json_t *json;
    uint64_t step;
    off_t end;    /* of the line in the file */
    bool chained; /* with a running checksum, which is right */
    FILE *in;
    smoe_digest *digest; /* of the lines so far, */
    size_t number;       /* so many */
    off_t from;
    char *line;
    size_t room;
} smoe_records;

/* The next record of a metrics.jsonl; 1: it is there; 0: there are no more; -1: failed. This is the
 * only rule for reading such a file: text after the last newline is a line still being written, or
 * left by a killed process, and is ignored. SMOE_DATA, with the number of the line: any other line
 * that is not an object with an integer step, whose running checksum is wrong, or missing after a
 * line that has one, or whose newline is another byte. Call smoe_records_free in any case, also
 * after the last record. */
int smoe_records_next(smoe_records *records, smoe_err *err) SMOE_MUST_CHECK;
void smoe_records_free(smoe_records *records);

/* The prefix of metrics of layers in tables that have records of evaluations and of training:
 * "test/", the split, for an evaluation; "" for training. Returns prefix. */
enum { SMOE_RECORD_PREFIX = 24 };
const char *smoe_record_prefix(const json_t *record, char prefix[SMOE_RECORD_PREFIX]);
