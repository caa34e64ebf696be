/*
 * Fuzzing of the pickle reader: any bytes as a pickle, and as data.pkl of a .pth file with one
 * storage, so that views of it are followed. Each visited tensor has a name, a type and a shape.
 */
#include "tensors/foreign.h"
#include "tensors/pickle.h"
#include "zipfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit(void *user, const smoe_pickle_tensor *t, smoe_err *err) {
    (void)user;
    (void)err;
    if (t->ndim < 0 || t->ndim > SMOE_PICKLE_DIMS || !t->bytes || !t->type) abort();
    if (strlen(t->name) >= sizeof t->name || strlen(t->storage) >= sizeof t->storage) abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    smoe_err err = {0};
    void *made = NULL;
    size_t made_size = 0;
    if (smoe_pickle_each(data, size, visit, NULL, &err) && (!err.text[0] || err.code == SMOE_OK))
        abort();
    zipfile zip = {0};
    static const char elements[4096];
    zipfile_add(&zip, "x/data.pkl", data, size);
    zipfile_add(&zip, "x/data/0", elements, sizeof elements);
    zipfile_end(&zip);
    if (!smoe_foreign_convert(&made, &made_size, zip.bytes, zip.size, "fuzz", &err))
        smoe_foreign_free(made, made_size);
    zipfile_free(&zip);
    return 0;
}
