/*
 * model.safetensors, written: from the weights of a run, from the initial values of a spec, or from
 * another file in another storage type. The last two are written in pieces, so a model needs hardly
 * any memory. smoe-checkpoint(5) describes the file.
 */
#pragma once

#include "base/param.h"
#include "data/dataset.h"
#include "tensors/shards.h"

/* The key of the metadata with the names of the classes: a list in JSON. */
#define SMOE_CLASS_NAMES "smoe.class_names"

/* Gives a data set the classes of the model in a file, if it has their names and classifies. */
int smoe_model_file_align(smoe_dataset *set, const smoe_safetensors *file, const smoe_spec *spec,
                          smoe_err *err) SMOE_MUST_CHECK;

/* Those names as a list in JSON, fresh. NULL: there are none; or they are from a configuration and
 * `set`, if given, has none of them, so that its classes were not matched by name. */
char *smoe_model_file_names(const smoe_safetensors *file, const smoe_dataset *set);

/* Whether that model is for classes of other names than the data set; and their order, as
 * smoe_dataset_other_classes has it. */
bool smoe_model_file_other_classes(const smoe_dataset *set, const smoe_safetensors *file,
                                   uint32_t **order);

/* A line for the user, fresh or NULL. Because of `other` classes the head is not taken from the
 * file; where smoe eval would match them by their numbers, it says how training takes the head by
 * these. Otherwise: the head is taken, but its classes may be in another order. */
char *smoe_model_file_classes_text(const smoe_dataset *set, const smoe_safetensors *file,
                                   bool other);

/* The weights of the table, F32, by the processes of `turns`, in several files where they have more
 * than train.shard_bytes (tensors/shards.h); in one file if `turns` is NULL. `names`: that list, or
 * NULL. */
int smoe_model_file_write(const char *path, const smoe_params *params, const smoe_spec *spec,
                          uint64_t step, const char *names, smoe_turns *turns,
                          smoe_err *err) SMOE_MUST_CHECK;

/* The metadata of another file of the model in `file`: its pairs; as smoe.spec `spec`, if it is not
 * NULL; as smoe.id2label the names of classes that a configuration beside it has; and these as
 * smoe.class_names too, if the classes of `set` (may be NULL) were matched by them. Fresh, with
 * room for one pair more; the texts are the file's or in `texts`. */
smoe_pair *smoe_model_file_pairs(size_t *count, const smoe_safetensors *file, const smoe_spec *spec,
                                 const smoe_dataset *set, smoe_alloc_pool *texts);

/* What a user should know of an opened file of another program, or an older version: where its
 * weights were, and that its contents are not checked. Fresh; NULL: nothing. */
char *smoe_model_file_remark(const smoe_safetensors *file);

/* In which type tensors are stored. */
typedef struct smoe_storage {
    smoe_dtype type;   /* F32, BF16 or F16 */
    bool keep;         /* no type changes, and the one above has no meaning */
    const char *only;  /* NULL, or for tensors with this in their name alone; others stay (F32 where
                         they are new) */
    bool hugging_face; /* with the names of Hugging Face's ViT, of `from` */
    bool dry;          /* nothing is written, only counted */
} smoe_storage;

typedef struct smoe_stored {
    size_t tensors, changed; /* of these, in another type than before (than F32 where new) */
    double bytes;            /* of the tensors */
} smoe_stored;

/* The initial values of the parameters (no slab needed), as training from seed spec->seed has
 * them before its first step; step 0. */
int smoe_model_file_initial(const char *path, const smoe_params *params, const smoe_spec *spec,
                            const smoe_storage *storage, smoe_stored *stored,
                            smoe_err *err) SMOE_MUST_CHECK;

/* Tensors and metadata of `from`. SMOE_USAGE where Hugging Face has no name for one. SMOE_DATA
 * names a tensor that holds no weights (I64 ...), or one with a finite value that is infinite in
 * the new type. */
int smoe_model_file_convert(const char *path, const smoe_safetensors *from,
                            const smoe_storage *storage, smoe_stored *stored,
                            smoe_err *err) SMOE_MUST_CHECK;

/* The same, of a model that the table (no slab needed) describes, as smoe_params_map reads it: with
 * the spec, so that the file is read without another one. */
int smoe_model_file_complete(const char *path, const smoe_params *params, const smoe_spec *spec,
                             const smoe_safetensors *from, const smoe_storage *storage,
                             smoe_stored *stored, smoe_err *err) SMOE_MUST_CHECK;
