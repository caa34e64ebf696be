/* image-folder archives: any bytes, as an archive of the kind they look like. */
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *name = size > 1 && data[0] == 'P' && data[1] == 'K'     ? "a.zip"
                       : size > 1 && data[0] == 0x1f && data[1] == 0x8b ? "a.tar.gz"
                                                                        : "a.tar";
    char path[128];
    fuzz_write(name, data, size);
    snprintf(path, sizeof path, "%s/%s", fuzz_place(), name);
    fuzz_read(SMOE_SOURCE_FOLDER, path, "train", 8, size % 2 ? 1 : 3);
    fuzz_read(SMOE_SOURCE_FOLDER, path, "test", 8, size % 2 ? 1 : 3);
    fuzz_remove(name);
    return 0;
}
