/* webdataset: any bytes as a shard, the same for training and test. */
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    fuzz_write(folder, "train-0.tar", data, size);
    fuzz_write(folder, "test-0.tar", data, size);
    snprintf(path, sizeof path, "%s/{split}-{0..0}.tar", folder);
    fuzz_read_all(SMOE_SOURCE_WEBDATASET, path, 8, size % 2 ? 1 : 3);
    unlink(folder[0] ? strcat(strcpy(path, folder), "/train-0.tar") : "");
    fuzz_remove(folder, "test-0.tar");
    return 0;
}
