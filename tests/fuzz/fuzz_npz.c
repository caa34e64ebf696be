/*
 * Fuzzing of .npz files: any bytes as a file, and as one array in a valid zip, so that mutations
 * get past its checksum. The array is alone, or has a name with a layout of its own. The tensors of an
 * accepted file can be read.
 */
#include "tensors/foreign.h"
#include "zipfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void convert(const void *bytes, size_t size) {
    smoe_safetensors *file = NULL;
    smoe_err err = {0};
    if (!smoe_foreign_begins(bytes, size)) return;
    if (smoe_foreign_open(&file, bytes, size, "fuzz", NULL, false, &err)) {
        if (file || err.code == SMOE_OK || !err.text[0]) abort();
        return;
    }
    for (size_t i = 0; i < smoe_safetensors_count(file); i++) {
        real x;
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        if (t->size) (void)smoe_tensor_convert(&x, t, t->size - 1, 1);
    }
    smoe_safetensors_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"a.npy", "embedding/kernel.npy",
                                        "Transformer/encoderblock/LayerNorm_0/scale.npy"};
    convert(data, size);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zipfile zip = {0};
        zipfile_add(&zip, names[i], data, size);
        zipfile_end(&zip);
        convert(zip.bytes, zip.size);
        zipfile_free(&zip);
    }
    return 0;
}
