/* Verifying the files of a run: digests of checkpoints, checksums of records, links, the spec. */
#pragma once

#include "base/file.h"

/* What was found about a path; `good` is false where something is wrong. */
typedef void smoe_verify_line(void *user, const char *path, const char *found, bool good);

typedef struct smoe_verifier {
    smoe_verify_line *line;
    void *user;
    bool repair;        /* repair what follows from other files */
    size_t looked, bad; /* so far */
    size_t failed;      /* of the bad ones: a failure of the system, such as a disk without room */
} smoe_verifier;

/* Passes a line on and counts it. */
#define smoe_verify_say(verifier, path, good, ...) \
    smoe_verify_add(verifier, path, good, smoe_text_format(__VA_ARGS__))
void smoe_verify_add(smoe_verifier *verifier, const char *path, bool good, char *fresh);
/* The first line of an error about a path, without the path where it begins with it. */
void smoe_verify_blame(smoe_verifier *verifier, const char *path, const smoe_err *err);

/* Leftovers of killed processes directly in a folder: a line for each, or with `repair` they are
 * removed. */
void smoe_verify_left(smoe_verifier *verifier, const char *folder, smoe_file_which which);

/* Verify a safetensors file, the folder of a checkpoint, or a run directory. Each problem is a
 * line, not an error of the call. With `repair`, a lost or damaged spec.yaml of a run is restored
 * from its latest checkpoint, and leftovers of killed processes are removed; measured or trained
 * data is not changed. */
void smoe_verify_file(smoe_verifier *verifier, const char *path);
void smoe_verify_checkpoint(smoe_verifier *verifier, const char *dir);
void smoe_verify_run(smoe_verifier *verifier, const char *dir);
