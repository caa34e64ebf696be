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
    if (t->ndim < 0 || t->ndim > SMOE_PICKLE_DIMS || !t->bytes == !t->why || !t->type) abort();
    if (strlen(t->name) >= sizeof t->name || strlen(t->storage) >= sizeof t->storage) abort();
    return 0;
}

/* The pickle as the object of a file from before version 1.6, with one storage. */
static void convert_legacy(const uint8_t *data, size_t size) {
    static const char begin[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                "\x80\2M\xe9\3.\x80\2}.";
    static const char end[] = "\x80\2]X\1\0\0\0"
                              "0a.\4\0\0\0\0\0\0\0"
                              "0123456789abcdef";
    smoe_safetensors *made;
    smoe_err err = {0};
    zipfile file = {0};
    zipfile_put(&file, begin, sizeof begin - 1);
    zipfile_put(&file, data, size);
    zipfile_put(&file, end, sizeof end - 1);
    (void)!smoe_foreign_open(&made, file.bytes, file.size, "fuzz", NULL, false, &err);
    smoe_safetensors_free(made);
    zipfile_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    smoe_err err = {0};
    smoe_safetensors *made;
    smoe_pickle *pickle;
    size_t used;
    int status = smoe_pickle_read(&pickle, data, size, &used, &err);
    if (!status && used > size) abort();
    if (!status) status = smoe_pickle_each(pickle, visit, NULL, &err);
    if (status && (!err.text[0] || err.code == SMOE_OK)) abort();
    smoe_pickle_free(pickle);
    zipfile zip = {0};
    static const char elements[4096];
    zipfile_add(&zip, "x/data.pkl", data, size);
    zipfile_add(&zip, "x/data/0", elements, sizeof elements);
    zipfile_end(&zip);
    (void)!smoe_foreign_open(&made, zip.bytes, zip.size, "fuzz", NULL, false, &err);
    smoe_safetensors_free(made);
    zipfile_free(&zip);
    convert_legacy(data, size);
    return 0;
}
