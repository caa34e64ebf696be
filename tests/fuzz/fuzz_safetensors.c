/*
 * Fuzzing of the safetensors reader: any bytes as a file, then the same bytes after a correct
 * length, so that mutations get past the first check. The tensors of an accepted file must tile its
 * data, be found by name, and convert without reads outside the file; a refusal must have a
 * message. The corpus has small files of every type, with and without metadata, and files that are
 * nearly valid.
 */
#include "tensors/safetensors.h"
#include "tensors/params_io.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LENGTH = 8 };

static void check_tensor(const smoe_safetensors *file, const smoe_tensor *t, const char *end) {
    enum { PIECE = 64 };
    real out[PIECE];
    size_t elements = 1;
    for (int i = 0; i < t->ndim; i++) elements *= t->dim[i];
    if (elements != t->size || smoe_safetensors_find(file, t->name) != t) abort();
    if ((const char *)t->data > end) abort();
    for (size_t first = 0; first < t->size; first += PIECE) {
        size_t left = t->size - first;
        if (!smoe_tensor_convert(out, t, first, left < PIECE ? left : PIECE)) break;
    }
}

static void check_accepted(const smoe_safetensors *file, const char *end) {
    const char *before = NULL;
    for (size_t i = 0; i < smoe_safetensors_count(file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        if ((const char *)t->data < before) abort();
        before = t->data;
        check_tensor(file, t, end);
    }
    smoe_safetensors_metadata(file, "smoe.spec");
}

/* Into a table with two of the corpus's names and tensors that other models' files may fill,
 * whole and in part. */
static void load(const smoe_safetensors *file) {
    smoe_params params = {0};
    smoe_err err = {0};
    smoe_params_add(&params, smoe_param_constant(0), 2, (size_t[]){2, 3}, "a");
    smoe_params_add(&params, smoe_param_constant(0), 0, NULL, "s");
    smoe_params_add(&params, smoe_param_constant(0), 3, (size_t[]){1, 5, 2}, "pos_embed");
    smoe_params_add(&params, smoe_param_constant(0), 2, (size_t[]){2, 3}, "experts.a");
    params.param[3].stacked = true;
    if (!smoe_params_allocate(&params, 1, &err))
        for (smoe_fit fit = SMOE_FIT_EXACT; fit <= SMOE_FIT_UPCYCLE; fit++) {
            size_t loaded = 0;
            int status = smoe_params_load(&params, file, fit, &loaded, &err);
            if (status ? err.code != SMOE_DATA || !err.lines : loaded > 4) abort();
        }
    smoe_params_free(&params);
}

static void parse(const uint8_t *data, size_t size) {
    smoe_safetensors *file;
    smoe_err err = {0};
    if (smoe_safetensors_parse(&file, data, size, "fuzz", &err)) {
        if (file || err.code != SMOE_DATA || !err.lines || !err.text[0]) abort();
        return;
    }
    check_accepted(file, (const char *)data + size);
    load(file);
    smoe_safetensors_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    if (size <= LENGTH) return 0;
    const uint8_t *brace = memrchr(data, '}', size);
    uint8_t *mended = brace ? malloc(size) : NULL;
    if (!mended) return 0;
    uint64_t length = (uint64_t)(brace - data) + 1;
    length = length > LENGTH ? length - LENGTH : 0;
    memcpy(mended, data, size);
    memcpy(mended, &length, LENGTH);
    parse(mended, size);
    free(mended);
    return 0;
}
