/* An index of shards: any bytes as the index of one valid file, a.safetensors. An accepted index
 * has the tensors of that file. */
#include "files.h"
#include "tensors/shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void clean(void) {
    fuzz_remove("a.safetensors");
    fuzz_remove("model.safetensors.index.json");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const float ones[3] = {1, 1, 1};
    static const smoe_tensor tensors[] = {
        {.name = "x", .dtype = SMOE_DTYPE_F32, .ndim = 1, .dim = {1}, .size = 1, .data = ones},
        {.name = "y", .dtype = SMOE_DTYPE_F32, .ndim = 1, .dim = {2}, .size = 2, .data = ones}};
    char path[128];
    smoe_safetensors *file;
    smoe_err err = {0};
    if (!fuzz_folder[0] && (!fuzz_place() || atexit(clean))) abort();
    fuzz_write("model.safetensors.index.json", data, size);
    snprintf(path, sizeof path, "%s/a.safetensors", fuzz_place());
    if (access(path, F_OK) && smoe_safetensors_write(path, &(const smoe_content){tensors, 2}, &err))
        abort();
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", fuzz_place());
    if (smoe_shards_open(&file, path, path, &err)) {
        if (!err.text[0] || file) abort();
        return 0;
    }
    if (smoe_safetensors_count(file) != 2 || !smoe_safetensors_find(file, "x")) abort();
    smoe_safetensors_free(file);
    return 0;
}
