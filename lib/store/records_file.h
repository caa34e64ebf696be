/*
 * metrics.jsonl of the run that this process writes: a line per record, each with the running
 * checksum (records.h). The file is locked while it is open, so there is one writer; the kernel
 * releases the lock when the process ends.
 */
#ifndef SMOE_RECORDS_FILE_H
#define SMOE_RECORDS_FILE_H

#include "base/digest.h"

#include <jansson.h>
#include <sys/types.h>

typedef struct smoe_records_file {
    char *path;
    int fd;             /* -1: not open */
    uint64_t count;     /* records in it, as far as this process has written or kept them */
    smoe_digest *chain; /* of its first `chained` bytes */
    off_t chained;
} smoe_records_file;

/* Opens the file, which is created if necessary, and locks it. 0: done; 1: another process has the
 * lock; -1: failed. After each of them smoe_records_file_close is called. A file system without
 * locks counts as locked. */
int smoe_records_file_open(smoe_records_file *file, const char *path,
                           smoe_err *err) SMOE_MUST_CHECK;
void smoe_records_file_close(smoe_records_file *file);

/* Whether the path still leads to this file. */
bool smoe_records_file_there(const smoe_records_file *file);

/* Appends an object in one piece; if that fails, nothing of it is left. */
int smoe_records_file_append(smoe_records_file *file, const json_t *record,
                             smoe_err *err) SMOE_MUST_CHECK;
int smoe_records_file_sync(const smoe_records_file *file, smoe_err *err) SMOE_MUST_CHECK;
int smoe_records_file_empty(smoe_records_file *file, smoe_err *err) SMOE_MUST_CHECK;

/* Removes what comes after the last record of at most this step. SMOE_DATA, and nothing is removed,
 * if these records end before step `recorded` or are fewer than `count`. */
int smoe_records_file_cut(smoe_records_file *file, uint64_t step, uint64_t recorded, uint64_t count,
                          smoe_err *err) SMOE_MUST_CHECK;

#endif
