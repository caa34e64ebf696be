/* cifar files: any bytes, as a file of cifar10 and of cifar100, plain or gzip depending on their
 * first bytes. */
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const name[] = {"data_batch_1.bin", "test.bin"};
    for (int k = 0; k < 2; k++) {
        fuzz_write(folder, name[k], data, size);
        fuzz_read_all(k ? SMOE_SOURCE_CIFAR100 : SMOE_SOURCE_CIFAR10, folder, 8, 3);
        fuzz_remove(folder, name[k]);
    }
    return 0;
}
