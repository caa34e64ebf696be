/*
 * Tensors in several safetensors files, as the ecosystem has them: model-00001-of-00004.safetensors
 * and so on, and model.safetensors.index.json, which says in which file each tensor is. Opening
 * model.safetensors opens them if there is only the index (smoe_safetensors_open). An index of .bin
 * files, as older versions of transformers wrote them, is read too.
 */
#pragma once

#include "tensors/safetensors.h"

#define SMOE_SHARDS_INDEX ".index.json"

/* Several processes may write files together: each calls the same functions, which write every
 * file in one of them. */
typedef struct smoe_turns {
    size_t writers, own; /* this process is writer `own`; none where own >= writers */
    size_t next;         /* files so far */
} smoe_turns;

/* Writes `path` (NAME.safetensors), or, where the tensors have more than `most` bytes, files of at
 * most that many (a larger tensor has one of its own) and NAME.safetensors.index.json, last. How
 * many follows from sizes and names alone. All have the metadata. Files of another number of shards
 * are not removed: the folder is a new one. `turns`: NULL if this process writes all. Errors as for
 * smoe_safetensors_write. */
int smoe_shards_write(const char *path, uint64_t most, const smoe_content *content,
                      smoe_turns *turns, smoe_err *err) SMOE_MUST_CHECK;

/* Opens all files of an index as one, which is known as `path` (usually NAME.safetensors), without
 * looking at digests. SMOE_DATA where the index and the files disagree (a tensor of one that the
 * other does not have, sizes, metadata of smoe's own that differ between files), or a name in it is
 * not of a file beside it. */
int smoe_shards_open(smoe_safetensors **file, const char *path, const char *index,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Whether path, a NAME.safetensors, is there, in one file or in several. */
bool smoe_shards_there(const char *path);
/* The same of a file in a folder. */
bool smoe_shards_held(const char *folder, const char *name);
